"""`grn doctor` as a command: with and without GPUs and brokers, as text and as JSON."""

import json
import os
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.scripts import TRACEBACK, run, script
from tests.nvml.driver import FOR_EVER, PID_SHIFT, UNKNOWN, FakeDriver
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("home")]

QUICK_S: Final = 1.5
NAMES: Final = {
    *("gpus", "mig", "pids", "memory", "fork", "mps", "preallocation", "settings"),
    *("runtime directory", "state directory", "shared memory", "logout", "open files"),
    *("kernel", "processes", "versions", "broker", "other brokers"),
}


def findings(**environment: str) -> dict[str, dict[str, str]]:
    """What the doctor finds, by name; it leaves with 1 exactly if there is a problem."""
    done = run("grn", "doctor", "--json", environment=environment)
    facts: dict[str, Any] = json.loads(done.stdout)
    levels = [one["level"] for one in facts["findings"]]
    assert facts["problems"] == levels.count("problem")
    assert facts["warnings"] == levels.count("warning")
    assert done.returncode == (1 if facts["problems"] else 0)
    assert TRACEBACK.encode() not in done.stderr
    return {one["name"]: one for one in facts["findings"]}


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    return FakeDriver(tmp_path / "nvml", [1000, 1000])


def test_it_looks_at_everything_quickly_without_broker_and_gpu() -> None:
    begun = time.monotonic()

    found = findings()

    assert time.monotonic() - begun < QUICK_S * PATIENCE
    assert set(found) == NAMES
    assert "none is running" in found["broker"]["text"]
    for one in found.values():
        assert one["text"]
        assert "\n" not in one["text"] + one["fix"]
        assert (one["fix"] == "") == (one["level"] == "ok")


def test_gpus_are_seen_through_the_driver(driver: FakeDriver) -> None:
    found = findings(**driver.environment())

    assert found["gpus"]["level"] == "ok"
    assert "2 of NVIDIA Stand-in 1000.0 MiB" in found["gpus"]["text"]
    assert found["mig"]["level"] == "ok"


def test_pids_that_do_not_exist_here_are_named_with_the_way_out(driver: FakeDriver) -> None:
    driver.hold(0, os.getpid(), 100)
    driver.shift_pids()

    found = findings(**driver.environment())["pids"]

    assert found["level"] == "warning"
    assert str(os.getpid() + PID_SHIFT) in found["text"]
    assert "--pid=host" in found["fix"]


def test_a_gpu_that_is_cut_into_instances_is_a_problem(driver: FakeDriver) -> None:
    driver.set(1, "mig_mode", 1)

    found = findings(**driver.environment())["mig"]

    assert found["level"] == "problem"
    assert "GPU 1" in found["text"]
    assert "nvml:0" in found["fix"]
    assert "-mig 0" in found["fix"]


def test_a_broken_driver_is_a_problem_and_a_missing_one_is_none(driver: FakeDriver) -> None:
    driver.fail_next("init", FOR_EVER, UNKNOWN)
    broken = findings(**driver.environment())["gpus"]
    driver.no_driver()
    missing = findings(**driver.environment())["gpus"]

    assert broken["level"] == "problem"
    assert "NVML does not answer" in broken["text"]
    assert "nvidia-smi" in broken["fix"]
    assert missing["level"] in ("ok", "problem")  # as there is a card in this machine or not
    assert "NVML does not answer" not in missing["text"]


def test_a_driver_that_does_not_answer_is_not_waited_for(driver: FakeDriver) -> None:
    driver.init_delay(60)

    found = findings(**driver.environment())["gpus"]

    assert found["level"] == "problem"
    assert "within 5 s" in found["text"]


def test_directories_that_cannot_be_used_are_problems(tmp_path: Path) -> None:
    (tmp_path / "grn").mkdir(mode=0o755)
    (tmp_path / "grn").chmod(0o755)

    open_to_all = findings(XDG_RUNTIME_DIR=str(tmp_path))["runtime directory"]
    nowhere = findings(XDG_STATE_HOME="/proc/nowhere")["state directory"]

    assert open_to_all["level"] == "problem"
    assert f"chmod 700 {tmp_path / 'grn'}" in open_to_all["fix"]
    assert nowhere["level"] == "problem"
    assert "XDG_STATE_HOME" in nowhere["fix"]


def test_a_setting_that_cannot_be_is_a_problem_and_stops_no_other_check() -> None:
    found = findings(GRN_OVERFLOW="many")

    assert found["settings"]["level"] == "problem"
    assert "GRN_OVERFLOW=many" in found["settings"]["text"]
    assert set(found) == NAMES


def test_people_get_a_line_each_and_a_second_one_with_the_fix() -> None:
    done = run("grn", "doctor", environment={"XLA_PYTHON_CLIENT_PREALLOCATE": "true"})

    lines = done.stdout.decode().splitlines()
    (at,) = [n for n, line in enumerate(lines) if line.startswith("warning  preallocation")]
    assert lines[at + 1].strip().startswith("→ unset XLA_PYTHON_CLIENT_PREALLOCATE")
    assert lines[-1].split(", ")[1].endswith(("warning", "warnings"))
    assert b"\x1b" not in done.stdout  # no colours: this is no terminal


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = " ".join([*script("grn", "doctor"), "| head -1"])

    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=20 * PATIENCE)

    assert done.stderr == b""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("words", ["doctor", "doctor --json", "config", "completion bash"])
def test_output_that_cannot_be_written_is_one_line_or_none(words: str) -> None:
    def into(target: str) -> "subprocess.CompletedProcess[bytes]":
        command = f"{shlex.join(script('grn'))} {words} {target}"
        return subprocess.run(["sh", "-c", command], capture_output=True, timeout=20 * PATIENCE)

    full, closed = into(">/dev/full"), into(">&-")

    assert full.returncode == 1
    assert full.stderr == b"grn: cannot go on: No space left on device\n"
    assert closed.stderr == b""
