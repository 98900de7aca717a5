"""Bad input for every verb: one clear line, the right status, never a traceback."""

import os
import pty
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.cli.scripts import TRACEBACK, script
from tests.cli.verbs import cancel_all, facts, submit, until_ended
from tests.cli.verbs import grn as call
from tests.waiting import PATIENCE

pytestmark = pytest.mark.e2e

# Every verb that asks the broker something, with arguments that make sense.
ASKING = (
    (),
    ("ps",),
    ("ps", "@"),
    ("show",),
    ("show", "@"),
    ("logs", "@"),
    ("why", "@"),
    ("wait", "@"),
    ("cancel", "@"),
    ("cancel", "--all", "--yes"),
    ("retry", "@"),
    ("retry", "--failed"),
    ("hold", "@"),
    ("release", "@"),
    ("priority", "1", "@"),
    ("pause",),
    ("resume",),
    ("clean", "@"),
    ("clean", "--all"),
    ("devices",),
    ("who", "1"),
    ("status",),
)
# Every verb that takes a job.
NAMING = tuple(words[:-1] for words in ASKING if words[-1:] == ("@",))

USAGE = (
    (("ps", "--state", "sideways"), "'sideways' is no state: write queued (PD)"),
    (("ps", "--limit", "0"), "0 is not from 1"),
    (("ps", "--frobnicate"), "--frobnicate"),
    (("logs", "-n", "some"), "'some' is no whole number from 0"),
    (("wait",), "Missing argument"),
    (("wait", "1", "--timeout", "soon"), "'soon' is no time: write 90s"),
    (("wait", "1", "--timeout", "5 parsecs"), "'5 parsecs' is no time"),
    (("cancel",), "cancel what? Name jobs, or say --all"),
    (("cancel", "1", "--all"), "cancel what? Name jobs, or say --all"),
    (("retry",), "retry what? Name jobs, or say --failed"),
    (("priority", "high", "1"), "'high' is no whole number from -1000000 to 1000000"),
    (("priority", "1000001", "1"), "1000001 is not from -1000000 to 1000000"),
    (("hold",), "Missing argument"),
    (("clean",), "clean what? Name jobs, or say --failed"),
    (("clean", "1", "--all"), "name jobs, or say which ones by"),
    (("clean", "--older-than", "1 fortnight"), "'1 fortnight' is no time"),
    (("who",), "Missing argument"),
    (("who", "me"), "'me' is no whole number from 1"),
    (("who", "0"), "0 is not from 1"),
    (("frobnicate",), "frobnicate"),
)


@pytest.fixture(scope="module")
def held(small_server: grn.Server) -> Iterator[int]:
    """A job that is there to be asked about."""
    yield submit("--hold", "--name", "held", "--", "true")
    cancel_all()


@pytest.mark.parametrize(("words", "told"), USAGE)
def test_a_wrong_command_line_is_status_2_and_says_what_is_wrong(
    words: tuple[str, ...], told: str
) -> None:
    done = call(*words)

    assert done.exit_code == 2
    assert done.stdout == ""
    assert told in done.stderr.splitlines()[-1]


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("words", NAMING)
@pytest.mark.parametrize(
    "ref", ["99999", "nobody", "deadbeefdead", "@~500", "99998-99999", "-,"]
)
def test_a_job_that_is_not_there_is_named_in_one_line(words: tuple[str, ...], ref: str) -> None:
    done = call(*words, "--", ref)

    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("grn: ")
    assert done.stderr.count("\n") == 1
    assert ref.strip(",") in done.stderr


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("words", NAMING)
@pytest.mark.parametrize("ref", ["\udcff", "a\x1b[2J", "x" * 70_000, "1," * 35_000])
def test_what_cannot_be_a_job_is_refused_at_once_in_one_short_line(
    words: tuple[str, ...], ref: str
) -> None:
    begun = time.monotonic()

    done = call(*words, "--", ref)

    assert time.monotonic() - begun < 5 * PATIENCE
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("grn: ")
    assert " is no job: " in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 300


@pytest.mark.usefixtures("held")
def test_bytes_that_are_no_text_are_refused_as_a_shell_passes_them() -> None:
    for verb in (b"show", b"cancel", b"submit --after"):
        line = b"%s %s $'\\xff' -- true" % (script("grn")[0].encode(), verb)
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, timeout=20 * PATIENCE, cwd="/"
        )

        assert done.returncode in (1, 2)
        assert b"is no job: write a number" in done.stderr
        assert TRACEBACK.encode() not in done.stderr


@pytest.mark.parametrize("words", NAMING)
def test_a_beginning_of_several_ids_is_ambiguous(held: int, words: tuple[str, ...]) -> None:
    shared = _shared_beginning(facts("ps", str(held))[0]["job_id"])

    done = call(*words, shared)

    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert f"{shared} is the beginning of 2 ids" in done.stderr


def _shared_beginning(job_id: str) -> str:
    """Submit another job with the same first letters, as chance would do one day."""
    from dataclasses import replace

    from grn_zmq.client import this_client
    from grn_zmq.records import JobSpec
    from grn_zmq.submission import context_blob
    from tests.builders import a_spec

    twin = job_id[:16] + ("0" * 16 if job_id[16:] != "0" * 16 else "1" * 16)
    blob = context_blob({})
    spec: JobSpec = replace(
        a_spec(), job_id=twin, kind="command", context=blob.digest, detached=True, held=True
    )
    client = this_client()
    if not any(row["job_id"] == twin for row in facts("ps", "--all")):
        client.wait_accepted(client.submit(spec, (blob,)))
    return job_id[:16]


@pytest.mark.parametrize("words", ASKING)
def test_without_a_broker_the_status_is_3_and_one_line_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    done = call(*words)

    assert done.exit_code == 3
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "`grn start`" in done.stderr


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(
    "words", [("ps",), ("show", "held"), ("why", "held"), ("devices",), ("status",), ()]
)
def test_a_reader_that_has_seen_enough_is_no_error(words: tuple[str, ...]) -> None:
    line = f"{script('grn')[0]} {' '.join(words)} | head -1; echo ${{PIPESTATUS[0]}}"

    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, timeout=20 * PATIENCE, cwd="/"
    )

    assert done.stderr == b""
    assert done.stdout.splitlines()[-1] == b"0"


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(
    "words", [("ps",), ("show", "held"), ("show", "nobody"), ("logs", "held")]
)
def test_a_closed_terminal_is_no_traceback(words: tuple[str, ...], tmp_path: Path) -> None:
    ours, side = pty.openpty()
    with open(tmp_path / "err", "w+b") as err:
        process = subprocess.Popen(
            script("grn", *words), stdin=side, stdout=side, stderr=err, cwd="/"
        )
        os.close(side)
        os.close(ours)
        process.wait(20 * PATIENCE)
        err.seek(0)
        assert TRACEBACK.encode() not in err.read()


@pytest.fixture(scope="module")
def printed(small_server: grn.Server) -> int:
    """A job that has printed to both of its streams."""
    number = submit("--memory", "10M", "--name", "printed", "sh -c 'echo out; echo err >&2'")
    until_ended(number)
    return number


@pytest.mark.usefixtures("held", "printed")
@pytest.mark.parametrize(
    "words",
    [
        (),
        ("ps", "-a"),
        ("ps", "--json"),
        ("show", "held"),
        ("why", "held"),
        ("wait", "printed", "--json"),
        ("devices",),
        ("status",),
        ("top",),
        ("top", "--once"),
        ("config",),
        ("profiles",),
        ("hold", "held"),
        ("logs", "printed"),
        ("logs", "--stderr", "printed"),
        ("--help",),
        ("submit", "--hold", "true "),
    ],
)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_a_shell_has_closed_is_no_error(
    words: tuple[str, ...], closed: str
) -> None:
    line = f"{shlex.join(script('grn', *words))} {closed}"

    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, timeout=20 * PATIENCE, cwd="/"
    )

    assert done.returncode == 0, done.stderr
    assert bool(done.stdout) == (closed == "2>&-" and "--stderr" not in words)
    assert done.stderr == (b"err\n" if closed == ">&-" and words[:1] == ("logs",) else b"")


def test_what_is_read_from_a_closed_stdin_is_said_to_be_closed() -> None:
    line = f"{shlex.join(script('grn', 'profiles', 'import', '-'))} <&-"

    done = subprocess.run(["sh", "-c", line], capture_output=True, cwd="/")

    assert done.returncode == 1
    assert done.stderr == b"grn: cannot read stdin: it is closed. Name a file, or use a pipe\n"
