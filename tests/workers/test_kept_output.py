"""What jobs print is on disk, commands are filled in, and reports name their processes."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq import payload, wire
from grn_zmq.logfiles import LOG_BYTES, LogFiles, LogReader
from grn_zmq.paths import logs_directory
from grn_zmq.units import MIB
from tests.waiting import PATIENCE, until
from tests.workers.stage import Bench, read_when_there

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def bench(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("orders"))
    yield bench
    assert bench.worker.process.poll() is None, "the worker died"
    bench.close()


def files_of(job_id: str) -> LogFiles:
    return LogFiles(logs_directory(os.environ), job_id)


def printed(job_id: str, stream: str | None = None) -> bytes:
    with LogReader(logs_directory(os.environ), job_id) as reader:
        return b"".join(data for _, data in reader.read(stream))


def speak() -> None:
    print("to stdout", flush=True)
    print("to stderr", file=sys.stderr, flush=True)


def test_what_a_call_prints_is_kept_apart_and_together(bench: Bench) -> None:
    job_id = bench.run(speak).job_id

    assert sorted(printed(job_id).splitlines()) == [b"to stderr", b"to stdout"]
    assert printed(job_id, "stdout") == b"to stdout\n"
    assert printed(job_id, "stderr") == b"to stderr\n"


def test_a_process_that_is_used_again_writes_to_the_log_of_each_job(bench: Bench) -> None:
    jobs = [bench.run(print, number).job_id for number in range(3)]

    assert [printed(job_id) for job_id in jobs] == [b"0\n", b"1\n", b"2\n"]


def test_a_silent_job_has_no_log(bench: Bench) -> None:
    job_id = bench.run(len, "four").job_id

    assert not files_of(job_id).log.exists()


def test_a_second_attempt_is_told_in_the_log_even_if_it_is_silent(bench: Bench) -> None:
    result = bench.run(len, "four", attempt=2)

    assert printed(result.job_id, "stderr") == b"grn: attempt 2 on host:0\n"


def test_a_running_job_can_be_followed(bench: Bench, tmp_path: Path) -> None:
    def talk(go_on: str) -> None:
        print("one", flush=True)
        while not os.path.exists(go_on):
            time.sleep(0.01)
        print("two", flush=True)

    job_id = bench.give(talk, str(tmp_path / "go on"))
    with LogReader(logs_directory(os.environ), job_id) as reader:
        heard: list[tuple[str, bytes]] = []
        until(lambda: hear(reader, heard) == [("stdout", b"one\n")])
        (tmp_path / "go on").touch()
        until(lambda: hear(reader, heard)[1:] == [("stdout", b"two\n")])
    bench.broker.recorded(bench.broker.result())


def hear(reader: LogReader, heard: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    heard += reader.more()
    return heard


def flood(megabytes: int) -> None:
    block = b"x" * 1023 + b"\n"
    for _ in range(megabytes):
        os.write(1, block * 1024)


def test_f42_of_a_flood_the_last_is_kept_and_no_more_than_twice_the_limit(
    bench: Bench,
) -> None:
    flooded = bench.give(flood, 100)
    bench.broker.recorded(bench.broker.result())

    files = files_of(flooded)
    assert LOG_BYTES <= files.old_log.stat().st_size <= LOG_BYTES + MIB
    assert files.log.stat().st_size <= LOG_BYTES + MIB
    with LogReader(logs_directory(os.environ), flooded) as reader:
        kept_bytes = sum(len(data) for _, data in reader.read())
        assert kept_bytes + reader.missed_bytes == 100 * MIB


def test_no_log_stays_open_once_its_job_has_ended(bench: Bench) -> None:
    bench.run(print, "x")

    fds = Path(f"/proc/{bench.worker.process.pid}/fd")
    open_files = [os.readlink(one) for one in fds.iterdir() if one.is_symlink()]
    assert [one for one in open_files if "/logs/" in one] == []


SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"


def test_g17_g18_a_command_gets_the_words_and_variables_of_its_lease(bench: Bench) -> None:
    words = ["gpu{gpu}", "{device}", "{uuid}", "{memory}", "{id}", "{name}", "{attempt}"]
    literal = ["{{gpu}}", '{"gpu": {gpu}}', "{lr}"]
    result = bench.run_command(
        sys.executable,
        "-c",
        SHOW,
        *words,
        *literal,
        name="night run",
        variables={"A": "b=c", "FOR_{device}": "cuda:{gpu}"},
    )

    found, environment = json.loads(printed(result.job_id))
    place = ["gpu0", "host:0", "host-0", "100", result.job_id, "night run", "1"]
    assert found == [*place, "{gpu}", '{"gpu": 0}', "{lr}"]
    assert (environment["A"], environment["FOR_host:0"]) == ("b=c", "cuda:0")
    assert environment["GRN_JOB_NAME"] == "night run"
    assert environment["GRN_GPU_MEMORY_MB"] == "100"
    assert environment["GRN_JOB_NUMBER"] == "0"


def test_variables_of_one_run_are_not_there_in_the_next(bench: Bench) -> None:
    first = bench.run(os.getenv, "GRN_JOB_NAME", name="one", variables={"GRN_X": "{name}"})
    then = [bench.run(os.getenv, name) for name in ("GRN_X", "GRN_JOB_NAME")]

    assert payload.load_value(first.payload) == "one"
    assert [payload.load_value(one.payload) for one in then] == [None, None]


def test_the_name_of_the_job_that_asks_is_not_inherited(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRN_JOB_NAME", "parent")

    result = bench.run(os.getenv, "GRN_JOB_NAME")

    assert payload.load_value(result.payload) is None


def test_a_variable_that_cannot_be_set_fails_the_job_with_words(bench: Bench) -> None:
    bad = {"A=B": "x"}

    command = bench.run_command("true", variables=bad)
    call = bench.run(len, "four", variables=bad)
    after = bench.run(len, "four")

    assert command.exit_status == 126
    assert b"'A=B' cannot be an environment variable" in printed(command.job_id, "stderr")
    assert call.error_text == "'A=B' cannot be an environment variable"
    assert after.outcome == "succeeded"


def pause(path: str) -> int:
    Path(path).write_text(str(os.getpid()))
    while not os.path.exists(f"{path}.end"):
        time.sleep(0.01)
    return os.getpid()


def test_a_report_names_the_process_of_a_running_job(bench: Bench, tmp_path: Path) -> None:
    job_id = bench.give(pause, str(tmp_path / "pid"))
    pid = int(read_when_there(tmp_path / "pid"))

    report = report_with(bench, job_id)

    assert [use.pid for use in report.uses] == [pid]
    (only,) = report.processes
    assert (only.pid, only.job_id) == (pid, job_id)
    assert only.used_bytes == report.uses[0].used_bytes
    (tmp_path / "pid.end").touch()
    bench.broker.recorded(bench.broker.result())


def report_with(bench: Bench, job_id: str) -> wire.Report:
    """The next report that has a process of this job."""
    deadline = time.monotonic() + 10 * PATIENCE
    while time.monotonic() < deadline:
        report = bench.broker.next(wire.Report)
        if job_id in {one.job_id for one in report.processes}:
            return report
    raise AssertionError(f"no report with {job_id}")
