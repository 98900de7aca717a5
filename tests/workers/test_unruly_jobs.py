"""Whatever a job does to itself, its worker lives, its outcome is right, nothing is left."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grn_zmq import payload, wire
from grn_zmq.limits import PARCEL_BYTES
from grn_zmq.parcels import Parcels, find_parcels
from grn_zmq.records import Result
from tests.builders import MIB, an_id
from tests.waiting import PATIENCE
from tests.workers.stage import DEVICE, Bench, lives, read_when_there

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module", params=["cold", "warm"])
def bench(
    home: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Bench]:
    options = ["--cold"] if request.param == "cold" else []
    bench = Bench(tmp_path_factory.mktemp("orders"), DEVICE, *options)
    if request.param == "warm":
        bench.warm_up()
    yield bench
    assert bench.worker.process.poll() is None, "the worker died"
    bench.close()


@pytest.fixture
def parcels(home: Path) -> Iterator[Parcels]:
    parcels = find_parcels(os.environ)
    yield parcels
    for directory in (parcels.shm, parcels.disk):
        shutil.rmtree(directory, ignore_errors=True)


class NotPicklable(Exception):
    def __reduce__(self) -> str:
        raise TypeError("never")


class Deadly:
    """Kills whoever opens it."""

    def __reduce__(self) -> Any:
        return os._exit, (7,)


class Unloadable:
    """Raises ValueError wherever it is opened."""

    def __reduce__(self) -> Any:
        return int, ("not a number",)


def fail_without_pickling() -> None:
    raise NotPicklable("secret of the job")


def kill_self(signum: int) -> None:
    os.kill(os.getpid(), signum)
    time.sleep(10)


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (os._exit, (3,), ("failed", 3, None, "JobExited")),
        (sys.exit, (4,), ("failed", 4, None, "JobExited")),
        (int, ("x",), ("failed", None, None, "ValueError")),
        (kill_self, (signal.SIGSEGV,), ("killed", None, signal.SIGSEGV, "")),
        (kill_self, (signal.SIGKILL,), ("killed", None, signal.SIGKILL, "")),
        (len, (Deadly(),), ("failed", 7, None, "JobExited")),
    ],
)
def test_f32_f35_each_end_has_its_outcome(
    bench: Bench,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    expected: tuple[Any, ...],
) -> None:
    result = bench.run(function, *arguments)

    found = (result.outcome, result.exit_status, result.signal, result.error_type)
    assert found == expected


def test_f33_what_cannot_be_pickled_is_told_as_text(bench: Bench) -> None:
    raised = bench.run(fail_without_pickling)
    returned = bench.run(lambda: (one for one in "generator"))

    assert (raised.outcome, raised.error_text) == ("failed", "secret of the job")
    assert returned.outcome == "failed"
    assert "generator" in returned.error_text


def test_f33_a_function_that_cannot_be_loaded_fails_in_the_same_way_every_time(
    bench: Bench,
) -> None:
    captured = Unloadable()
    results = [bench.run(lambda: captured) for _ in range(2)]

    assert [one.error_type for one in results] == ["ValueError", "ValueError"]


def test_the_bases_of_an_exception_are_named_with_and_without_module(bench: Bench) -> None:
    result = bench.run(os.stat, "/not there")
    failed = bench.run(subprocess.check_call, ["false"])

    assert result.error_bases == ("FileNotFoundError", "OSError", "Exception", "BaseException")
    assert failed.error_bases[:3] == (
        "subprocess.CalledProcessError",
        "CalledProcessError",
        "subprocess.SubprocessError",
    )


def leave_a_daemon(path: str, *, closes: bool) -> str:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if closes:
                os.closerange(0, 100)
            Path(path).write_text(str(os.getpid()))
            time.sleep(1000)
        os._exit(0)
    while not os.path.exists(path):
        time.sleep(0.01)
    return "done"


@pytest.mark.parametrize("closes", [True, False])
def test_f36_f37_what_a_job_leaves_behind_is_gone_when_its_outcome_is_told(
    bench: Bench, tmp_path: Path, closes: bool
) -> None:
    result = bench.run(lambda path: leave_a_daemon(path, closes=closes), str(tmp_path / "pid"))

    assert result.outcome == "succeeded"
    assert not lives(int(read_when_there(tmp_path / "pid")))
    assert result.run_s < 2.0 * PATIENCE


def wreck(directory: str) -> int:
    """Close every descriptor, remove the working directory, forbid everything to new files."""
    os.makedirs(directory)
    os.chdir(directory)
    os.rmdir(directory)
    os.umask(0o777)
    os.closerange(0, 4096)
    return 42


def wreck_largely(directory: str) -> bytes:
    wreck(directory)
    return bytes(2 * PARCEL_BYTES)


def reuse_descriptors() -> int:
    """Put other files in the place of those that were closed."""
    os.closerange(3, 4096)
    for _ in range(50):
        os.open("/dev/null", os.O_RDWR)
    return 43


def test_f43_a_result_arrives_whatever_the_body_has_closed(
    bench: Bench, tmp_path: Path, parcels: Parcels
) -> None:
    small = bench.run(wreck, str(tmp_path / "gone"))
    large = bench.run(wreck_largely, str(tmp_path / "gone"))
    other = bench.run(reuse_descriptors)

    assert payload.load_value(small.payload) == 42
    assert payload.load_value(parcels.read(large.token)) == bytes(2 * PARCEL_BYTES)
    assert payload.load_value(other.payload) == 43


def test_a_body_that_closed_everything_and_fails_is_told_too(
    bench: Bench, tmp_path: Path
) -> None:
    def fail() -> None:
        wreck(str(tmp_path / "gone"))
        raise KeyError("x")

    assert bench.run(fail).error_type == "KeyError"


def flood(megabytes: int) -> None:
    line = b"\x1b[31m" + b"x" * (10 * MIB) + b"\n"
    for _ in range(megabytes // 10):
        os.write(1, line)
        sys.stdout.flush()
    os._exit(1)


def test_f42_a_flood_of_output_neither_fills_the_worker_nor_holds_up_others(
    bench: Bench,
) -> None:
    flooding = bench.give(lambda: flood(200))
    bench.broker.next(wire.Output)
    other = bench.give(len, "four")

    # Not a word is read while the flood goes on.
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        assert resident_mib(bench.worker.process.pid) < 200
        time.sleep(0.05)
    results: dict[str, Result] = {}
    while len(results) < 2:
        result = bench.broker.result()
        bench.broker.recorded(result)
        results[result.job_id] = result

    assert payload.load_value(results[other].payload) == 4
    assert results[flooding].exit_status == 1
    assert len(results[flooding].last_lines) == 4096
    assert "\x1b" not in results[flooding].last_lines
    assert resident_mib(bench.worker.process.pid) < 200


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def hold_the_gil(seconds: float) -> None:
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def test_f26_a_job_that_never_lets_go_of_its_interpreter_does_not_silence_its_worker(
    bench: Bench,
) -> None:
    bench.give(hold_the_gil, 3.0 * PATIENCE)
    bench.broker.next(wire.Started)

    for _ in range(2):
        bench.broker.next(wire.Report, 2.0)

    bench.broker.recorded(bench.broker.result())


@pytest.mark.parametrize(("detached", "where"), [(False, "shm-"), (True, "disk-")])
def test_large_results_and_arguments_travel_by_file(
    bench: Bench, parcels: Parcels, detached: bool, where: str
) -> None:
    value = os.urandom(2 * PARCEL_BYTES)
    arguments = parcels.write(
        [payload.dump_arguments((value,), {}).joined()], an_id(900), where.strip("-")
    )

    result = bench.run(bytes.upper, payload=b"", token=arguments, detached=detached)

    assert result.token.startswith(where + an_id(900))
    assert result.payload == b""
    assert payload.load_value(parcels.read(result.token)) == value.upper()


def test_a_parcel_that_is_gone_fails_the_job_with_words(bench: Bench) -> None:
    token = f"disk-{an_id(900)}-{an_id(1)}"

    result = bench.run(len, payload=b"", token=token)

    assert (result.outcome, result.error_type) == ("failed", "FileNotFoundError")


def test_an_exception_with_large_contents_arrives(bench: Bench, parcels: Parcels) -> None:
    def fail() -> None:
        raise ValueError("x" * (2 * PARCEL_BYTES))

    result = bench.run(fail)

    assert (result.error_type, result.payload) == ("ValueError", b"")
    assert len(parcels.read(result.token)) > PARCEL_BYTES


def test_the_same_worker_has_survived_all_this(bench: Bench) -> None:
    bench.broker.send(wire.Refused("greet-first", "", ()))

    greet = bench.broker.welcome()

    assert (greet.incarnation, greet.inventory) == (bench.incarnation, ())
