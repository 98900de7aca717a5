"""A worker that leads leases of several stand-in GPUs: what jobs see, and what is measured."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grn_zmq import payload, wire
from grn_zmq.records import Leased, Result, Use
from grn_zmq.units import MIB
from tests.builders import a_run
from tests.nvml import cuda, jobs
from tests.nvml.driver import FakeDriver
from tests.waiting import PATIENCE, until
from tests.workers.stage import Bench, lives, read_when_there
from workers.surroundings import device_variables

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bench(gpus: FakeDriver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A worker of the second of two stand-in GPUs, which leads leases of both."""
    bench = Bench(tmp_path_factory.mktemp("orders"), f"nvml:1/{gpus.uuid(1)}")
    bench.devices = (*bench.devices, Leased(gpus.uuid(0), 0, "nvml:0"))
    yield bench
    bench.close()


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """Where a job says who holds what; afterwards it may end."""
    path = tmp_path / "pids"
    yield path
    end(path)


def end(path: Path) -> None:
    path.with_name("pids.end").touch()


def report_with(bench: Bench, wanted: Callable[[wire.Report], bool]) -> wire.Report:
    """The next report that is as wanted."""
    deadline = time.monotonic() + 10 * PATIENCE
    while time.monotonic() < deadline:
        report = bench.broker.next(wire.Report)
        if wanted(report):
            return report
    raise AssertionError(f"no such report: {report}")


def uses_of(bench: Bench, here: int, there: int) -> tuple[Use, ...]:
    """What is reported once a job holds so many MiB of both GPUs."""

    def wanted(report: wire.Report) -> bool:
        return [use.used_bytes for use in report.uses] == [here * MIB, there * MIB]

    return report_with(bench, wanted).uses


def finished(bench: Bench) -> Result:
    result = bench.broker.result()
    bench.broker.recorded(result)
    return result


def test_p22_r70_a_job_of_two_gpus_sees_them_as_0_and_1_and_is_measured_on_both(
    bench: Bench, gpus: FakeDriver, path: Path
) -> None:
    job_id = bench.give(jobs.hold_each, str(path), 100, 200)
    pid, _ = json.loads(read_when_there(path))

    uses = uses_of(bench, 100, 200)
    held = gpus.by_pid(1), gpus.by_pid(0)
    end(path)

    assert held == ({pid: 100}, {pid: 200})
    assert uses == (
        Use(job_id, 1, 100 * MIB, pid),
        Use(job_id, 1, 200 * MIB, pid, gpus.uuid(0)),
    )
    result = finished(bench)
    assert payload.load_value(result.payload) == [gpus.uuid(1), gpus.uuid(0)]
    assert (result.peak_bytes, result.seen) == (200 * MIB, True)


def test_r70_what_begins_is_told_with_both_gpus(
    bench: Bench, gpus: FakeDriver, path: Path
) -> None:
    bench.give(jobs.hold_each, str(path), 10)
    ((begun,),) = (bench.broker.next(wire.Started).runs,)
    end(path)
    finished(bench)

    assert (begun.device, begun.indices) == ("nvml:1,0", (1, 0))
    uuids = f"{gpus.uuid(1)},{gpus.uuid(0)}"
    assert begun.environment == {
        "CUDA_VISIBLE_DEVICES": uuids,
        "NV_GPU": uuids,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "GRN_DEVICE": "nvml:1,nvml:0",
    }


def test_ranks_of_a_job_are_measured_on_their_own_gpus(
    bench: Bench, gpus: FakeDriver, path: Path
) -> None:
    bench.give(jobs.ranks, str(path), 150, 250)
    first, second = json.loads(read_when_there(path))

    uses = uses_of(bench, 150, 250)
    held = gpus.by_pid(1), gpus.by_pid(0)
    end(path)

    assert held == ({first: 150}, {second: 250})
    assert finished(bench).peak_bytes == 250 * MIB
    assert uses[0].pid not in (first, second)


def test_s21_ranks_below_the_holder_of_a_lease_are_measured_where_it_allocates_nothing(
    bench: Bench, gpus: FakeDriver, path: Path
) -> None:
    code = f"from tests.nvml import jobs; jobs.ranks({str(path)!r}, 100, 200)"
    variables = {**os.environ, **device_variables(bench.devices)}
    holder = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=variables)
    facts = {"function": "", "context": "", "devices": bench.devices, "pid": holder.pid}
    bench.broker.assign(a_run(900, kind="lease", **facts))
    try:
        ranks = json.loads(read_when_there(path))

        uses = uses_of(bench, 100, 200)

        assert [use.pid for use in uses] == [holder.pid] * 2
        assert (gpus.by_pid(1), gpus.by_pid(0)) == ({ranks[0]: 100}, {ranks[1]: 200})
    finally:
        holder.kill()
        holder.wait()
    result = finished(bench)
    assert (result.outcome, result.peak_bytes) == ("killed", 200 * MIB)
    until(lambda: not any(map(lives, ranks)))


def test_a_gpu_that_is_lost_disturbs_neither_the_other_nor_the_job(
    bench: Bench, gpus: FakeDriver, path: Path
) -> None:
    bench.give(jobs.ranks, str(path), 100, 200)
    first, _ = json.loads(read_when_there(path))
    uses_of(bench, 100, 200)

    gpus.lose(0)
    gpus.hold(1, first, 300)
    uses_of(bench, 300, 200)  # what was seen last of the lost one
    gpus.lose(0, lost=False)

    end(path)
    result = finished(bench)
    assert (result.outcome, result.peak_bytes) == ("succeeded", 300 * MIB)


def test_a_gpu_that_could_not_be_opened_at_first_is_measured_later(
    bench: Bench, gpus: FakeDriver, path: Path
) -> None:
    gpus.lose(0)
    bench.give(jobs.hold_each, str(path), 100)
    pid, *_ = json.loads(read_when_there(path))
    uses_of(bench, 100, 0)

    gpus.lose(0, lost=False)
    gpus.hold(0, pid, 200)

    uses_of(bench, 100, 200)
    end(path)
    assert finished(bench).peak_bytes == 200 * MIB


def test_where_no_process_tells_its_memory_both_gpus_are_measured_by_difference(
    bench: Bench, gpus: FakeDriver, path: Path
) -> None:
    gpus.hide_process_memory()
    gpus.set_used_elsewhere(0, 50)
    try:
        bench.give(jobs.hold_each, str(path), 100, 200)
        uses_of(bench, 100, 200)
        end(path)
        assert finished(bench).peak_bytes == 200 * MIB
    finally:
        gpus.hide_process_memory(False)
        gpus.set_used_elsewhere(0, 0)


def peak_of_300(device: int) -> None:
    """Hold 300 MiB for a moment."""
    cuda.alloc(300, device)
    cuda.free(None, device)


def test_a_peak_on_another_gpu_that_the_driver_kept_account_of_counts(
    bench: Bench, gpus: FakeDriver
) -> None:
    gpus.accounting()
    try:
        assert bench.run(peak_of_300, 1).peak_bytes == 300 * MIB
    finally:
        gpus.accounting(False)


def pid_and_devices(mib: int = 0) -> tuple[int, str]:
    """Keep memory of the second GPU; tell one's own process, and what it sees."""
    if mib:
        cuda.alloc(mib, 1)
    return os.getpid(), os.environ["GRN_DEVICE"]


def test_a_process_is_used_again_for_the_same_gpus_and_only_if_it_keeps_none_of_them(
    bench: Bench,
) -> None:
    def run(mib: int = 0, devices: int = 2) -> tuple[int, str]:
        leased = bench.devices[:devices]
        result = bench.run(pid_and_devices, mib, job_type="kept", devices=leased)
        value: tuple[int, str] = payload.load_value(result.payload)
        return value

    first, again, keeps, after, alone = run(), run(), run(100), run(), run(devices=1)

    assert first[0] == again[0] == keeps[0] != after[0]
    assert (after[1], alone[1]) == ("nvml:1,nvml:0", "nvml:1")
    assert after[0] != alone[0]


def test_a_job_without_a_device_sees_no_gpu_and_is_not_measured(
    bench: Bench, gpus: FakeDriver, path: Path
) -> None:
    words = "echo [$CUDA_VISIBLE_DEVICES] [$NV_GPU] [{gpu}] [{device}]"

    result = bench.run_command("sh", "-c", f"{words} > {path}", devices=())

    assert path.read_text() == "[] [] [] []\n"
    assert (result.exit_status, result.peak_bytes, result.seen) == (0, 0, False)


def test_g51_a_job_knows_what_it_was_granted_from_its_environment(
    bench: Bench, path: Path
) -> None:
    granted = {"cpu": {"0": "2", "3": "2"}, "licence": {"matlab": "1"}}
    words = "echo $GRN_RESOURCE_CPU $GRN_AMOUNT_CPU {licence} $GRN_RESOURCES"

    bench.run_command("sh", "-c", f"{words} > {path}", granted=granted)

    cpus, amount, licence, everything = path.read_text().split(" ", 3)
    assert (cpus, amount, licence) == ("0,3", "4", "matlab")
    assert json.loads(everything) == granted


def resources() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if "RESOURCE" in name}


def test_g51_what_one_run_was_granted_is_gone_in_the_next_of_the_same_process(
    bench: Bench,
) -> None:
    first = bench.run(resources, job_type="granted", granted={"cpu": {"0": "1"}})
    second = bench.run(resources, job_type="granted")

    assert payload.load_value(first.payload)["GRN_RESOURCE_CPU"] == "0"
    assert payload.load_value(second.payload) == {}


def test_g51_what_the_job_was_granted_that_asked_for_this_one_is_not_inherited(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRN_RESOURCES", '{"cpu": {"7": "1"}}')
    monkeypatch.setenv("GRN_RESOURCE_CPU", "7")

    nested = bench.run(resources, job_type="nested")

    assert payload.load_value(nested.payload) == {}


def test_p35_a_worker_greets_with_how_far_other_gpus_are(
    bench: Bench, gpus: FakeDriver
) -> None:
    assert bench.greet.device.links == {gpus.uuid(0): 30}
    assert bench.greet.device.display is False
    assert bench.greet.environments == ()
