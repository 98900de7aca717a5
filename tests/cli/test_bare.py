"""Bare `grn`: devices, live jobs and strangers on one screen."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.cli.terminals import on_a_terminal
from tests.cli.verbs import cancel_all, facts, said, submit, until_state
from tests.cli.verbs import grn as call
from tests.nvml.driver import FakeDriver
from tests.waiting import until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def stranger(gpus: FakeDriver, gpu_server: grn.Server) -> Iterator[int]:
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    gpus.hold(1, process.pid, 300)
    until(lambda: any(row["processes"] for row in facts("devices")), 20)
    yield process.pid
    process.kill()
    process.wait()
    cancel_all()


def test_one_screen_has_devices_jobs_and_strangers(stranger: int) -> None:
    runs = submit("--memory", "50M", "--type", "b", "--name", "runs", "--", "sleep", "600")
    waits = submit("--memory", "50M", "--type", "b", "--hold", "--", "echo", "later")
    until_state(runs, "running")

    text = said()
    found = facts()

    lines = text.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["DEVICE", "nvml:0", "nvml:1"]
    assert "1 job running, 1 queued" in lines
    assert any(line.split()[:3] == [str(runs), "R", "running"] for line in lines)
    assert any(line.split()[:3] == [str(waits), "H", "held"] for line in lines)
    assert "Processes of others" in lines
    assert lines[-1].split() == ["nvml:1", str(stranger), "300.0", "MiB", "-", "sleep", "600"]
    assert [row["number"] for row in found["jobs"]] == [runs, waits]
    assert [row["device"] for row in found["devices"]] == ["nvml:0", "nvml:1"]
    assert (found["running"], found["queued"], found["paused"]) == (1, 1, False)
    cancel_all()


@pytest.mark.usefixtures("stranger")
def test_for_machines_it_is_the_scene_that_top_shows() -> None:
    submit("--hold", "--", "true")

    bare, top = facts(), facts("top")

    for one in (bare, top):
        assert one.pop("at").endswith("Z")
        assert one["devices"][1]["processes"][0]["command"] == "sleep 600"
        assert one["devices"][1]["processes"][0]["job_id"] is None
    assert [*bare] == [*top]
    assert [*bare["devices"][0]] == [*top["devices"][0]]
    assert [*bare["jobs"][0]] == [*top["jobs"][0]]
    cancel_all()


@pytest.mark.usefixtures("stranger")
def test_it_fits_a_small_terminal() -> None:
    said("submit", "-q", "--array", "1-30", "--hold", "--", "echo", "x" * 200)

    text = on_a_terminal("grn", columns=90, lines=24).decode().replace("\r", "")

    lines = text.splitlines()
    assert len(lines) <= 24
    assert "0 jobs running, 30 queued" in lines
    assert any(
        line.endswith("more: `grn ps` lists all, `grn top` watches them") for line in lines
    )
    plain = on_a_terminal("grn", columns=90, environment={"NO_COLOR": "1"}).decode()
    assert max(map(len, plain.splitlines())) <= 90
    cancel_all()


def test_without_a_broker_one_line_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    done = call()

    assert done.exit_code == 3
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "`grn start`" in done.stderr
    assert "`grn start`" in call("--json").stdout


def test_json_of_a_verb_belongs_behind_it() -> None:
    done = call("--json", "ps")

    assert done.exit_code == 2
    assert "grn ps --json" in done.stderr


def test_help_begins_with_examples() -> None:
    done = call("--help")

    assert done.exit_code == 0
    assert "grn start --detach" in done.stdout
