"""`grn who`, and the processes of devices: whose is pid 4711?"""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.cli.owners import Machine, owner_of
from grn_zmq.records import DeviceProcess
from grn_zmq.units import MIB
from tests.builders import a_device_row, a_job_row, an_id
from tests.cli.verbs import cancel_all, facts, row_of, said, submit
from tests.cli.verbs import grn as call
from tests.nvml.driver import FakeDriver
from tests.waiting import until

JOB = a_job_row(12, pid=50, client_pid=900, name="", title="python train.py", kind="command")
DEVICE = replace(
    a_device_row(0),
    processes=(DeviceProcess(50, 5 * MIB, an_id(12)), DeviceProcess(60, 7 * MIB, "")),
)
MACHINE = Machine(broker_pid=10, supervisor_pid=9, jobs=[JOB], devices=[DEVICE])
ABOVE = [(800, ""), (9, ""), (1, "")]


@pytest.mark.parametrize(
    ("line", "role", "text"),
    [
        ([(10, ""), (9, "")], "broker", "is the broker"),
        ([(9, "")], "supervisor", "is `grn start`"),
        ([(800, ""), (9, "")], "worker", "is the worker of host:0"),
        ([(50, ""), *ABOVE], "job", "belongs to job 12 (python train.py, type train.py::fit)"),
        ([(51, ""), (50, ""), *ABOVE], "job", "belongs to job 12"),
        ([(77, an_id(12)), (1, "")], "job", "belongs to job 12"),
        ([(50, an_id(99)), *ABOVE], "job", "belongs to job 12"),
        ([(900, ""), (1, "")], "client", "has submitted job 12"),
        ([(55, ""), *ABOVE], "idle", "is kept by the worker of host:0"),
        ([(60, ""), (1, "")], "stranger", "is a stranger that uses 7.0 MiB of host:0"),
    ],
)
def test_a_process_is_told_by_itself_those_above_it_and_its_environment(
    line: list[tuple[int, str]], role: str, text: str
) -> None:
    owner = owner_of(line, MACHINE)

    assert owner is not None
    assert owner.role == role
    assert owner.text.startswith(text)


def test_what_is_not_ours_is_nobodys() -> None:
    assert owner_of([(77, ""), (1, "")], MACHINE) is None
    assert owner_of([(77, an_id(99)), (1, "")], MACHINE) is None


def test_what_started_the_worker_does_not_own_its_processes() -> None:
    below_a_job = [(55, ""), (800, an_id(12)), (50, an_id(12))]

    owner = owner_of(below_a_job, MACHINE)

    assert owner is not None
    assert owner.role == "idle"


@pytest.fixture(scope="module")
def machine(gpus: FakeDriver, gpu_server: grn.Server) -> Iterator[FakeDriver]:
    yield gpus
    cancel_all()


@pytest.fixture(scope="module")
def job(machine: FakeDriver, home: Path) -> int:
    """A job with a child, each under a pid of its own."""
    script = f"sleep 600 & echo $! > {home}/child; echo $$ > {home}/body; wait"
    number = submit("--memory", "50M", "--type", "w", "--name", "me", "--", "sh", "-c", script)
    until(lambda: (home / "body").exists() and (home / "body").read_text().strip(), 20)
    until(lambda: row_of(number)["pid"], 20, lambda: str(row_of(number)))
    return number


@pytest.fixture
def stranger(machine: FakeDriver) -> Iterator[int]:
    """A process of somebody else on the second GPU."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    machine.hold(1, process.pid, 300)
    try:
        until(lambda: process.pid in _pids(), 20)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _pids() -> list[int]:
    return [one["pid"] for row in facts("devices") for one in row["processes"]]


@pytest.mark.e2e
def test_a_job_is_found_from_its_process_and_from_a_child_of_it(job: int, home: Path) -> None:
    row = row_of(job)
    for name in ("body", "child"):
        pid = int((home / name).read_text())

        found = facts("who", str(pid))

        assert (found["role"], found["device"]) == ("job", row["device"])
        assert found["job"]["number"] == job
        assert found["job"]["job_type"] == "w"
        told = said("who", str(pid))
        assert f"belongs to job {job} (me, type w), running on {row['device']}" in told


@pytest.mark.e2e
def test_broker_workers_and_supervisor_are_known(job: int) -> None:
    status = facts("status")
    worker = status["workers"][0]

    assert facts("who", str(status["pid"]))["role"] == "broker"
    assert facts("who", str(status["supervisor_pid"]))["role"] == "supervisor"
    assert facts("who", str(worker["pid"]))["role"] == "worker"
    assert worker["device"] in said("who", str(worker["pid"]))


@pytest.mark.e2e
def test_p27_devices_have_temperature_utilisation_memory_and_processes(
    job: int, stranger: int, machine: FakeDriver, home: Path
) -> None:
    machine.set(1, "temperature", 71)
    machine.set_utilisation(1, 42)
    body = int((home / "body").read_text())
    machine.hold(int(row_of(job)["device"][-1]), body, 20)
    until(lambda: body in _pids(), 20)
    until(lambda: facts("devices")[1]["temperature_c"] == 71, 20)

    text = said("devices")
    rows = facts("devices")

    assert [row["index"] for row in rows] == [0, 1]
    assert rows[1]["utilisation"] == pytest.approx(0.42)
    assert rows[1]["total_bytes"] == 1000 * MIB
    line = next(line for line in text.splitlines() if line.startswith("nvml:1"))
    for part in ("NVIDIA Stand-in", "1000.0 MiB", "300.0 MiB", "42%", "71 °C"):
        assert part in line
    theirs = next(line for line in text.splitlines() if f" {stranger} " in line)
    assert theirs.split() == ["nvml:1", str(stranger), "300.0", "MiB", "-", "sleep", "600"]
    ours = next(line for line in text.splitlines() if f" {body} " in line)
    assert ours.split()[2:5] == ["20.0", "MiB", str(job)]
    (process,) = [one for one in rows[1]["processes"] if one["pid"] == stranger]
    assert process == {
        "pid": stranger,
        "used_bytes": 300 * MIB,
        "job_id": None,
        "command": "sleep 600",
    }


@pytest.mark.e2e
def test_a_stranger_on_a_device_is_known_as_one(stranger: int) -> None:
    found = facts("who", str(stranger))

    assert (found["role"], found["device"], found["job"]) == ("stranger", "nvml:1", None)
    assert found["used_bytes"] == 300 * MIB


@pytest.mark.e2e
@pytest.mark.usefixtures("machine")
def test_a_program_that_waits_for_jobs_is_known() -> None:
    future = grn.job(type="sleeper", memory="10M")(_doze).submit()
    until(lambda: facts("ps", "--type", "sleeper"), 20)
    number = facts("ps", "--type", "sleeper")[0]["number"]

    found = facts("who", str(os.getpid()))

    assert found["role"] == "client"
    assert number in found["jobs"]
    future.cancel()


def _doze() -> None:
    import time

    time.sleep(60)


@pytest.mark.e2e
@pytest.mark.usefixtures("machine")
def test_what_is_none_of_ours_leaves_with_1() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        nobody = call("who", str(process.pid))
        process.kill()
    gone = call("who", str(process.pid), "--json")

    assert (nobody.exit_code, gone.exit_code) == (1, 1)
    assert nobody.stderr == f"grn: process {process.pid} (sleep 600) is none of ours\n"
    assert f"no process {process.pid}" in gone.stdout
