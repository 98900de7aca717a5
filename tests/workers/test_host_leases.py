"""Leases of several shares of host memory, and jobs that have none of them."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grn_zmq import wire
from grn_zmq.records import Leased
from grn_zmq.units import GIB, MIB
from tests.builders import HOST_0
from tests.waiting import PATIENCE
from tests.workers.stage import Bench
from tests.workers.test_devices_host import holding
from workers.devices import host
from workers.devices.host import HostDevice

pytestmark = pytest.mark.e2e

BOTH = (HOST_0, Leased("host-1", 1, "host:1"))
# What the interpreter itself takes while a function runs, and what sampling rounds.
SOME = 12 * MIB


@pytest.fixture(scope="module")
def bench(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("orders"))
    yield bench
    bench.close()


def take(mib: int, path: str = "") -> int:
    """Hold memory; with a path until there is an end of it."""
    held = bytearray(b"x") * (mib * MIB)
    while path and not os.path.exists(path):
        time.sleep(0.01)
    return len(held)


def test_r70_each_device_of_a_lease_has_an_equal_part_of_what_a_job_takes(
    bench: Bench, tmp_path: Path
) -> None:
    bench.give(take, 100, str(tmp_path / "end"), devices=BOTH)
    deadline = time.monotonic() + 10 * PATIENCE
    used = [0]
    while used[0] < 50 * MIB and time.monotonic() < deadline:
        report = bench.broker.next(wire.Report)
        used = [use.used_bytes for use in report.uses] or used
    (tmp_path / "end").touch()
    result = bench.broker.result()
    bench.broker.recorded(result)

    assert [use.device for use in report.uses] == ["", "host-1"]
    assert used[0] == used[1] < 50 * MIB + SOME
    assert 50 * MIB <= result.peak_bytes < 50 * MIB + SOME


def test_what_is_charged_to_the_other_devices_of_a_lease_is_not_foreign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = HostDevice(0, count=2, total_bytes=GIB, sum_bytes=2 * GIB)
    with holding(400) as job:
        # Of a machine with just enough for two devices only the job has something.
        monkeypatch.setattr(host, "available_bytes", lambda: 2 * GIB - 410 * MIB)

        sample = device.sample({"job": replace(job.tree, spread=2)})

    assert 200 * MIB <= sample.by_tree["job"] <= 205 * MIB
    assert sample.foreign_bytes < SOME


def test_the_peak_of_a_command_is_divided_as_well(bench: Bench) -> None:
    words = ["python3", "-c", "x = bytearray(b'x') * (100 << 20)"]

    result = bench.run_command(*words, devices=BOTH)

    assert 50 * MIB <= result.peak_bytes < 50 * MIB + SOME


def test_a_job_without_a_device_takes_nothing_of_it(bench: Bench) -> None:
    called = bench.run(take, 100, devices=())
    command = bench.run_command("true", devices=())

    assert (called.outcome, called.peak_bytes, called.seen) == ("succeeded", 0, False)
    assert (command.outcome, command.peak_bytes, command.seen) == ("succeeded", 0, False)


def test_a_job_is_held_to_what_it_was_promised_of_all_its_devices(bench: Bench) -> None:
    facts = {"enforce": True, "lease_bytes": 40 * MIB, "reuse": False}

    both = bench.run(take, 90, devices=BOTH, **facts)
    one = bench.run(take, 90, devices=BOTH[:1], **facts)
    none = bench.run(take, 90, devices=(), **facts)

    assert (both.outcome, one.outcome, none.outcome) == ("succeeded", "oom", "succeeded")
