"""`grn status`, `grn ps`, `grn devices`, `grn profiles`: facts for people and for machines."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from grn_zmq.cli.common import printable
from tests.cli.scripts import SCRIPTS, Running, run, script
from tests.cli.terminals import on_a_terminal as on_a_terminal
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

LISTS = ((), ("status",), ("ps",), ("ps", "--all"), ("devices",), ("profiles",), ("show", "@"))
# Verbs that are typed all day, and must not load what a client needs.
LIGHT = (
    *("ps", "show", "logs", "why", "wait", "cancel", "retry", "hold", "release", "priority"),
    *("pause", "resume", "clean", "devices", "who", "status"),
)
EVIL = "evil\x1b[2J\x07\r\nname"

NOTHING = type(None)

JOB_KEYS = {
    "number": int,
    "job_id": str,
    "name": str,
    "job_type": str,
    "kind": str,
    "state": str,
    "why": str,
    "device": str,
    "attempt": int,
    "priority": int,
    "measuring": bool,
    "predicted_bytes": int,
    "lease_bytes": int,
    "used_bytes": int,
    "peak_bytes": int,
    "wait_s": float,
    "run_s": float,
    "client_pid": int,
    "title": str,
    "waits_for": str,
    "detached": bool,
    "pid": int,
    "exit_status": int | NOTHING,
    "signal": int | NOTHING,
    "again_of": str,
    "after": list,
    "gpus": int,
    "share": str,
    "queue": str,
    "resources": dict,
    "granted": dict,
    "environment": str,
    "idle_s": float | NOTHING,
    "code": str,
    "submitted_at": str,
    "started_at": str | NOTHING,
    "ended_at": str | NOTHING,
}
DEVICE_KEYS = {
    "index": int,
    "name": str,
    "uuid": str,
    "kind": str,
    "device_class": str,
    "total_bytes": int,
    "display": bool,
    "links": dict,
    "worker_pid": int,
    "max_jobs": int,
    "used_bytes": int,
    "foreign_bytes": int,
    "idle_bytes": int,
    "leased_bytes": int,
    "jobs": int,
    "measuring": str,
    "utilisation": NOTHING,  # which nobody measures of host memory
    "temperature_c": int | NOTHING,
    "processes": list,
    "device": str,
    "worker": dict,
}
WORKER_KEYS = {
    "device": str,
    "pid": int,
    "host": str,
    "os": str,
    "started_at": str,
    "uptime_s": float,
    "running": int,
}


def check_schema(found: dict[str, Any], keys: dict[str, Any]) -> None:
    assert list(found) == list(keys)
    wrong = {key: found[key] for key, kind in keys.items() if not isinstance(found[key], kind)}
    assert wrong == {}


@pytest.fixture(scope="module")
def jobs(host_server: grn.Server, home: Path) -> Iterator[Running]:
    """One job runs, another waits for it to be measured, one has ended; all of them evil."""
    assert run("grn-run", "--", "sh", "-c", "true", EVIL).returncode == 0
    mark = home / "runs"
    command = shlex.join(["sh", "-c", f"touch {mark}; exec sleep 600", EVIL])
    with Running("grn-run", command, command) as running:
        until(mark.exists, 20, running.said)
        until(lambda: facts("status")["jobs"]["running"] == 1, 20)
        yield running


def facts(*words: str) -> Any:
    done = run("grn", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("jobs")
def test_g45_status_has_host_os_uptime_and_running_count_of_each_worker(
    host_server: grn.Server, home: Path
) -> None:
    said = run("grn", "status").stdout.decode().splitlines()
    status = facts("status")
    workers = status.pop("workers")

    assert status == {
        "pid": status["pid"],
        "supervisor_pid": host_server.pid,
        "directory": str(home / "runtime" / "grn"),
        "uptime_s": status["uptime_s"],
        "paused": False,
        "stopping": False,
        "devices": 2,
        "jobs": {"queued": 1, "running": 1, "ended": status["jobs"]["ended"]},
    }
    assert said[0].startswith(f"Broker pid {status['pid']} in {status['directory']}, up ")
    assert said[1:4] == ["2 devices", "1 job running, 1 queued", ""]
    assert said[4].split() == ["WORKER", "PID", "HOST", "OS", "UP", "RUNNING"]
    host, system = os.uname().nodename, f"{os.uname().sysname} {os.uname().release}"
    for line, worker in zip(said[5:], workers, strict=True):
        check_schema(worker, WORKER_KEYS)
        assert (worker["host"], worker["os"]) == (host, system)
        assert 0 < worker["uptime_s"] < time.monotonic()
        assert line.startswith(f"{worker['device']}  {worker['pid']}")
        assert host in line.split()
        assert system in line
        assert line.split()[-1] == str(worker["running"])
    assert sum(worker["running"] for worker in workers) == 1


@pytest.mark.usefixtures("jobs")
def test_g25_ps_shows_what_runs_and_why_the_rest_waits() -> None:
    header, *lines = run("grn", "ps").stdout.decode().splitlines()
    rows = facts("ps")

    assert header.split(maxsplit=7) == [
        *("JOB", "STATE", "DEVICE", "MEMORY", "WAIT", "RUN", "NAME", "RESULT OR REASON"),
    ]
    assert [line.split()[:3] for line in lines] == [
        [str(row["number"]), row["code"], row["state"]] for row in rows
    ]
    assert [row["state"] for row in rows] == ["running", "queued"]
    assert rows[0]["device"].startswith("host:")
    assert rows[1]["why"]
    assert printable(rows[1]["why"]) in lines[1]
    for row in rows:
        check_schema(row, JOB_KEYS)


@pytest.mark.usefixtures("jobs")
def test_ps_all_shows_ended_jobs_too() -> None:
    rows = facts("ps", "--all")

    assert [row["state"] for row in rows] == ["succeeded", "running", "queued"]
    assert len(run("grn", "ps", "-a").stdout.splitlines()) == 4
    for row in rows:
        check_schema(row, JOB_KEYS)


@pytest.mark.usefixtures("jobs")
def test_devices_show_their_memory_and_jobs() -> None:
    header, *lines = run("grn", "devices").stdout.decode().splitlines()
    rows = facts("devices")

    assert header.split() == [
        *("DEVICE", "NAME", "TOTAL", "LEASED", "USED", "FOREIGN", "UTIL", "TEMP", "JOBS"),
        "MEASURING",
    ]
    assert [line.split()[0] for line in lines[:2]] == ["host:0", "host:1"]
    assert [row["index"] for row in rows] == [0, 1]
    assert sum(row["jobs"] for row in rows) == 1
    assert {row["total_bytes"] for row in rows} == {1000 << 20}
    for row in rows:
        check_schema(row, DEVICE_KEYS)
        check_schema(row["worker"], WORKER_KEYS)


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize("words", LISTS)
def test_what_is_no_terminal_gets_no_escape_codes_and_no_control_characters(
    words: tuple[str, ...],
) -> None:
    for extra in ((), ("--json",)):
        said = run("grn", *words, *extra).stdout.decode()

        assert [c for c in said if not c.isprintable() and c != "\n"] == []


@pytest.mark.usefixtures("jobs")
def test_colours_are_for_terminals_unless_no_color_is_set() -> None:
    plainly = on_a_terminal("grn", "ps", "-a", environment={"NO_COLOR": "1"})
    boldly = on_a_terminal("grn", "ps", "-a", environment={"NO_COLOR": ""})

    assert b"\x1b" not in plainly
    assert b"\x07" not in plainly
    assert b"\x1b[1m" in boldly
    assert b"\x1b[2J" not in boldly


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize("words", [*LISTS, ("ps", "--json"), ("--help",), ("why", "@")])
def test_a_reader_that_leaves_early_is_no_error(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        script("grn", *words), stdout=writing, stderr=subprocess.PIPE, timeout=20 * PATIENCE
    )

    os.close(writing)
    assert done.stderr == b""


@pytest.mark.parametrize(
    "words",
    [("ps",), ("devices",), ("status",), ("profiles",), ("profiles", "forget", "x"), ("stop",)],
)
def test_without_a_broker_one_line_says_how_to_start_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    begun = time.monotonic()

    done = run("grn", *words)

    assert time.monotonic() - begun < 1.5 * PATIENCE
    assert done.returncode == 3
    assert done.stdout == b""
    assert len(done.stderr.splitlines()) == 1
    assert (b"nothing to stop" if words == ("stop",) else b"`grn start`") in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_a_broker_machines_get_the_error_as_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    done = run("grn", "ps", "--json")

    assert done.returncode == 3
    assert "`grn start`" in json.loads(done.stdout)["error"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_answers_help_with_examples(name: str) -> None:
    done = run(name, "--help")

    assert done.returncode == 0
    assert f"\n  {name.replace('grn-start', 'grn start').replace('grn-run', 'grn run')}" in (
        done.stdout.decode()
    )


@pytest.mark.parametrize("verb", ["start", "stop", "run", *LIGHT])
def test_every_verb_has_help_that_starts_with_examples(verb: str) -> None:
    done = run("grn", verb, "-h")

    assert done.returncode == 0
    assert done.stdout.decode().count(f"grn {verb}") >= 3


def test_verbs_that_only_ask_load_no_client() -> None:
    imports = "; ".join(f"import grn_zmq.cli.{verb}" for verb in (*LIGHT, "overview", "main"))
    heavy = ("grn_zmq.client", "asyncio", "rich", "cloudpickle", "concurrent.futures", "loguru")
    code = f"import sys; {imports}; print([one for one in {heavy} if one in sys.modules])"

    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, cwd="/")

    assert done.stdout.strip() == b"[]", done.stderr


def test_a_verb_that_is_none_is_named() -> None:
    done = run("grn", "frobnicate")

    assert done.returncode == 2
    assert b"frobnicate" in done.stderr


def test_text_of_users_cannot_act_on_a_terminal() -> None:
    assert (
        printable("a\x1b[2Jb\u202ec")
        == "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}c"
    )
