"""The surroundings of a client: taken, packed, and found again in a job."""

import dataclasses
import os
import resource
import subprocess
import sys
from pathlib import Path

import msgpack
import pytest

import tests.workers.launching as jobs
from grn_zmq import payload
from grn_zmq.context import Context
from workers.jobevents import Outcome

start = jobs.start


def test_a_context_survives_its_bytes() -> None:
    context = Context.capture({"EXTRA": "ä\udcff"})

    again = Context.from_bytes(context.to_bytes())

    assert again == context
    assert again.environment["EXTRA"] == "ä\udcff"


def test_equal_contexts_have_equal_bytes_whatever_the_order_of_the_environment() -> None:
    context = Context.capture()
    turned = dict(reversed(list(context.environment.items())))

    assert dataclasses.replace(context, environment=turned).to_bytes() == context.to_bytes()


def test_capture_takes_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old = os.umask(0o027)
    try:
        context = Context.capture({"EXTRA": "1"})
    finally:
        os.umask(old)

    assert (context.cwd, context.umask) == (str(tmp_path), 0o027)
    assert (context.interpreter, context.sys_path) == (sys.executable, tuple(sys.path))
    assert context.environment == {**os.environ, "EXTRA": "1"}
    nofile = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert ("RLIMIT_NOFILE", *nofile) in context.limits
    assert (Path(context.package_dir) / "grn_zmq").is_dir()


def test_the_environment_is_not_shown() -> None:
    assert "hunter2" not in repr(Context.capture({"PASSWORD": "hunter2"}))


@pytest.mark.e2e
@pytest.mark.parametrize(
    "flags", [["-O", "-B"], ["-bb", "-Werror"], ["-X", "dev"], ["-s", "-P", "-X", "utf8=1"]]
)
def test_the_flags_of_the_interpreter_are_those_subprocess_copies(flags: list[str]) -> None:
    code = (
        "import sys, subprocess; sys.path.insert(0, sys.argv[1]);"
        "from grn_zmq.context import Context;"
        "ours = Context.capture().flags; theirs = subprocess._args_from_interpreter_flags();"
        "assert sorted(ours) == sorted(theirs), (ours, theirs)"
    )
    root = str(Path(__file__).parents[2])

    subprocess.run([sys.executable, *flags, "-c", code, root], check=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("interpreter", 1),
        ("flags", "-O"),
        ("sys_path", [1]),
        ("umask", "18"),
        ("umask", True),
        ("limits", 3),
        ("limits", [["RLIMIT_CORE", 0]]),
        ("limits", [["RLIMIT_CORE", 0, "0"]]),
        ("environment", []),
        ("environment", {"A": 1}),
    ],
)
def test_a_wrong_type_is_refused(name: str, value: object) -> None:
    content = msgpack.unpackb(Context.capture().to_bytes(), unicode_errors="surrogatepass")
    content[name] = value

    with pytest.raises(ValueError, match="not a context"):
        Context.from_bytes(msgpack.packb(content, unicode_errors="surrogatepass"))


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x01", b"\x80", b"\x81\xa1a\x01"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        Context.from_bytes(data)


@pytest.mark.e2e
def test_a_job_finds_the_clients_surroundings(start: jobs.Start, tmp_path: Path) -> None:
    def look() -> dict[str, object]:
        umask = os.umask(0)
        return {
            "cwd": os.getcwd(),
            "umask": umask,
            "limit": resource.getrlimit(resource.RLIMIT_CORE),
            "variables": (os.environ["CLIENT"], os.environ["GRN_WORKER"]),
            "gone": "HOME" in os.environ,
            "sys_path": sys.path,
            "argv": sys.argv,
            "stdin": sys.stdin.read(),
            "main": sorted(vars(sys.modules["__main__"])),
        }

    captured = Context.capture({"CLIENT": "yes"})
    rest = {k: v for k, v in captured.environment.items() if k != "HOME"}
    limits = [item for item in captured.limits if item[0] != "RLIMIT_CORE"]
    context = dataclasses.replace(
        captured,
        cwd=str(tmp_path),
        umask=0o037,
        limits=(*limits, ("RLIMIT_CORE", 0, 0)),
        sys_path=("/nowhere", *captured.sys_path),
        argv=("train.py", "--fast"),
        environment=rest,
    )

    process = start(context, GRN_WORKER="w1")
    found = jobs.value_of(process, look)

    assert (found["cwd"], found["umask"], found["limit"]) == (str(tmp_path), 0o037, (0, 0))
    assert (found["variables"], found["gone"]) == (("yes", "w1"), False)
    assert found["sys_path"] == list(context.sys_path)
    assert (found["argv"], found["stdin"]) == (["train.py", "--fast"], "")
    assert "__file__" not in found["main"]
    marker = b"GRN_WORKER=w1"
    assert marker in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")


@pytest.mark.e2e
def test_a_working_directory_that_is_gone_fails_the_job(start: jobs.Start) -> None:
    process = start(dataclasses.replace(Context.capture(), cwd="/nowhere"))

    outcome = jobs.outcome_of(process, print)

    assert (outcome.outcome, outcome.error_type) == ("failed", "FileNotFoundError")
    assert "/nowhere" in outcome.error_text


@pytest.mark.e2e
def test_a_process_is_used_again_and_sees_only_its_own_runs_variables(
    start: jobs.Start,
) -> None:
    def look() -> tuple[int, str | None, str, str]:
        run = os.environ["GRN_JOB_ID"], os.environ["GRN_ATTEMPT"]
        return os.getpid(), os.environ.get("ONLY_FIRST"), *run

    process = start()
    process.feed(jobs.a_call(look, environment={"ONLY_FIRST": "1"}))
    first = jobs.until(process, Outcome)
    process.feed(jobs.a_call(look, job_id="job-2", attempt=4))
    second = jobs.until(process, Outcome)

    assert first.clean
    assert second.clean
    assert payload.load_value(first.body) == (process.pid, "1", "job-1", "1")
    assert payload.load_value(second.body) == (process.pid, None, "job-2", "4")
