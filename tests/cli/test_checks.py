"""The checks of `grn doctor` one by one: facts in, a finding out."""

import os
import resource
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker import disk
from grn_zmq import wire
from grn_zmq.cli.checks import broker as checks_broker
from grn_zmq.cli.checks import devices as checks_devices
from grn_zmq.cli.checks import places as checks_places
from grn_zmq.cli.checks import system as checks_system
from grn_zmq.cli.checks.finding import (
    OK,
    PROBLEM,
    WARNING,
    Finding,
    Process,
    all_processes,
    checked,
)
from grn_zmq.discovery import Address
from grn_zmq.paths import MAX_SOCKET_PATH, Places
from grn_zmq.units import GIB, MIB
from tests.cli.puppets import a_broker

HOST_PIDS = "pid:[4026531836]"


def a_gpu(index: int = 0, **facts: Any) -> dict[str, Any]:
    usual = {"partitioned": False, "name": "A100", "total_bytes": 40 * GIB, "error": ""}
    return {"index": index, "processes": [], **usual, **facts}


def seen(*gpus: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {"gpus": list(gpus), "error": "", "absent": False, **facts}


def a_process(pid: int, *words: str, uid: int = 0) -> Process:
    return Process(pid, uid, words)


def test_a_check_that_stumbles_is_a_finding() -> None:
    def check() -> Finding:
        raise OSError(5, "Input/output\nerror")

    found = checked("state", check)

    assert (found.name, found.level) == ("state", WARNING)
    assert "Input/output error" in found.text


def test_cards_without_a_driver_are_a_problem_and_no_cards_are_none() -> None:
    nothing = {"gpus": [], "error": "NVML does not answer (x): repair it", "absent": True}

    assert checks_devices.check_gpus(nothing, 0).level == OK
    assert checks_devices.check_gpus(nothing, 1).level == PROBLEM
    assert "modprobe nvidia" in checks_devices.check_gpus(nothing, 1).fix


def test_gpus_that_do_not_answer_or_are_missing_are_named() -> None:
    broken = seen(a_gpu(0), a_gpu(1, error="GPU 1 cannot be read"))

    assert checks_devices.check_gpus(broken, 2).text == "GPU 1 cannot be read"
    assert "-i 1" in checks_devices.check_gpus(broken, 2).fix
    fewer = checks_devices.check_gpus(seen(a_gpu(0)), 2)
    assert (fewer.level, "2 are plugged in" in fewer.text) == (WARNING, True)
    both = checks_devices.check_gpus(seen(a_gpu(0), a_gpu(1)), 2)
    assert both.text.startswith("2 of A100 40.0 GiB")


def test_what_could_not_be_asked_at_all_is_a_problem() -> None:
    found = checks_devices.check_gpus({"error": "NVML could not be asked: killed"}, 0)

    assert found.level == PROBLEM
    assert checks_devices.check_mig({"error": "x"}).level == OK
    assert checks_devices.check_pids({"error": "x"}, HOST_PIDS).level == OK
    assert checks_devices.check_memory({"error": "x"}, GIB).level == WARNING


def test_pids_of_a_container_are_not_those_of_the_driver() -> None:
    listed = [{"pid": 7, "used_bytes": 5, "here": True}]
    vague = [{"pid": 7, "used_bytes": 0, "here": True}]

    assert checks_devices.check_pids(seen(a_gpu(processes=listed)), HOST_PIDS).level == OK
    assert checks_devices.check_pids(seen(a_gpu()), "pid:[4]").level == WARNING
    assert "WSL" in checks_devices.check_pids(seen(a_gpu(processes=vague)), HOST_PIDS).text


def test_mps_is_found_by_its_process_and_by_its_variable() -> None:
    mps = a_process(7, "/usr/bin/nvidia-cuda-mps-control", "-d")
    variable = {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps"}

    assert checks_devices.check_mps({}, []).level == OK
    assert "pid 7" in checks_devices.check_mps(variable, [mps]).text
    assert "unset CUDA_MPS_PIPE_DIRECTORY" in checks_devices.check_mps(variable, []).fix


@pytest.mark.parametrize(
    ("environ", "level"),
    [
        ({}, OK),
        ({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, OK),
        ({"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}, WARNING),
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "TRUE"}, OK),
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "false"}, WARNING),
    ],
)
def test_a_variable_of_the_user_that_takes_whole_gpus_is_named(
    environ: dict[str, str], level: str
) -> None:
    found = checks_devices.check_preallocation(environ)

    assert found.level == level
    assert level == OK or f"unset {next(iter(environ))}" in found.fix


def test_memory_of_a_control_group_and_kills_are_told() -> None:
    facts = {"physical_bytes": 4 * GIB, "available_bytes": GIB, "kernel_kills": 0}

    small = checks_devices.check_memory(facts, 16 * GIB)
    killed = checks_devices.check_memory({**facts, "kernel_kills": 3}, 4 * GIB)

    assert (small.level, "16.0 GiB" in small.text) == (OK, True)
    assert (killed.level, "3 times" in killed.text) == (WARNING, True)


def test_an_interpreter_with_threads_is_not_safe_to_fork() -> None:
    assert checks_devices.check_fork({"threads": 1}).level == OK
    assert checks_devices.check_fork({"threads": 4}).level == WARNING


def test_a_socket_path_that_is_too_long_is_a_problem(tmp_path: Path) -> None:
    places = Places(tmp_path / ("x" * MAX_SOCKET_PATH))

    found = checks_places.check_runtime({}, places)

    assert found.level == PROBLEM
    assert "shorter" in found.fix


def test_a_runtime_directory_of_somebody_else_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grn").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    found = checks_places.check_runtime({}, Places(tmp_path / "grn"))

    assert found.level == PROBLEM
    assert "belongs to user id" in found.text


def test_a_runtime_directory_that_is_gone_is_told(tmp_path: Path) -> None:
    gone = {"XDG_RUNTIME_DIR": str(tmp_path / "gone")}

    assert checks_places.check_runtime(gone, Places(tmp_path / "run")).level == WARNING
    assert checks_places.check_runtime({}, Places(tmp_path / "run")).level == OK


@pytest.mark.parametrize(
    ("kind", "state", "runtime"),
    [
        ("ext4", OK, OK),
        ("nfs4", WARNING, PROBLEM),
        ("tmpfs", WARNING, OK),
        ("overlay", WARNING, OK),
    ],
)
def test_the_file_system_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, state: str, runtime: str
) -> None:
    monkeypatch.setattr(checks_places, "file_system", lambda _: kind)

    assert checks_places.check_state(tmp_path / "grn").level == state
    assert checks_places.check_runtime({}, Places(tmp_path / "run")).level == runtime


def test_the_file_system_is_that_of_the_nearest_mount() -> None:
    assert checks_places.file_system(Path("/proc/self/nothing")) == "proc"
    assert checks_places.file_system(Path("/")) != "unknown"


def test_the_floor_is_the_brokers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    floor = min(disk.FLOOR_BYTES, 100 * GIB // disk.FLOOR_SHARE)

    def with_free(free: int) -> str:
        facts = SimpleNamespace(
            f_frsize=1, f_bavail=free, f_blocks=100 * GIB, f_files=9, f_favail=9
        )
        monkeypatch.setattr(os, "statvfs", lambda _: facts)
        return checks_places.check_state(tmp_path).level

    monkeypatch.setattr(checks_places, "file_system", lambda _: "ext4")
    tmp_path.chmod(0o700)
    assert with_free(floor) == OK
    assert with_free(floor - 1) == PROBLEM


def test_little_shared_memory_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_total(total: int) -> Finding:
        facts = SimpleNamespace(f_frsize=1, f_bavail=total // 2, f_blocks=total)
        monkeypatch.setattr(os, "statvfs", lambda _: facts)
        return checks_places.check_shared_memory(tmp_path)

    assert with_total(8 * GIB).level == OK
    assert "--shm-size" in with_total(64 * MIB).fix
    assert checks_places.check_shared_memory(tmp_path / "none").level == PROBLEM


def test_who_does_not_linger_loses_the_runtime_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    login = {"XDG_RUNTIME_DIR": "/run/user/1000"}
    monkeypatch.setattr(checks_places, "is_lingering", lambda _: False)

    assert checks_places.check_logout(login, 1000).fix == "loginctl enable-linger"
    assert checks_places.check_logout({"XDG_RUNTIME_DIR": "/tmp/x"}, 1000).level == OK
    monkeypatch.setattr(checks_places, "is_lingering", lambda _: True)
    assert checks_places.check_logout(login, 1000).level == OK


@pytest.mark.parametrize(("hard", "level"), [(32, PROBLEM), (512, WARNING), (-1, OK)])
def test_few_open_files_are_told(
    monkeypatch: pytest.MonkeyPatch, hard: int, level: str
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (hard, hard))

    assert checks_system.check_open_files().level == level


def test_a_kernel_without_pidfds_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    before = checks_system.check_kernel()

    def refuse(_: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert before.level == OK
    assert "5.3" in checks_system.check_kernel().fix


def test_processes_that_are_hidden_are_told(tmp_path: Path) -> None:
    hidden = checks_system.check_proc(tmp_path)
    (tmp_path / "1").mkdir()

    assert "hidepid=0" in hidden.fix
    assert "children" in checks_system.check_proc(tmp_path).text
    assert checks_system.check_proc().level in (OK, WARNING)


def test_what_is_too_old_or_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checks_system.check_versions()
    version = checks_system._version

    monkeypatch.setattr(checks_system, "_version", lambda name: "1.0")
    old = checks_system.check_versions()
    monkeypatch.setattr(
        checks_system, "_version", lambda name: "" if name == "msgpack" else version(name)
    )
    missing = checks_system.check_versions()

    assert found.level == OK, found
    assert f"Python {sys.version_info[0]}.{sys.version_info[1]}" in found.text
    assert old.level == missing.level == PROBLEM
    assert "msgpack is missing" in missing.text


def test_a_broker_of_another_version_is_a_problem(tmp_path: Path) -> None:
    refused = wire.Refused("version", "this broker speaks protocol 9", ())

    with a_broker(tmp_path, lambda _: refused) as (clients, _):
        found = checks_broker._answering(Address(os.getpid(), 0, clients, ""))

    assert found.level == PROBLEM
    assert "protocol 9" in found.text
    assert "grn start" in found.fix


def test_other_brokers_are_told_from_other_processes(tmp_path: Path) -> None:
    processes = [
        a_process(7, "/x/bin/python", "-m", "grn_zmq.broker", "--supervisor", "6"),
        a_process(8, "/x/bin/python", "/x/bin/grn-broker"),
        a_process(9, "grep", "-r", "x", "grn_zmq.broker"),
        a_process(10),
    ]

    found = checks_broker.check_others(Places(tmp_path), processes, cards=4)

    assert found.text.startswith("2 other brokers here: pid 7 of root, pid 8 of root")
    assert checks_broker.check_others(Places(tmp_path), processes[2:], 0).level == OK


@pytest.mark.parametrize(("cards", "way"), [(0, "host:"), (1, "stop the others"), (2, "nvml:")])
def test_what_to_do_about_other_brokers_depends_on_the_gpus(
    tmp_path: Path, cards: int, way: str
) -> None:
    processes = [a_process(8, "/x/bin/python", "/x/bin/grn-broker")]

    fix = checks_broker.check_others(Places(tmp_path), processes, cards).fix

    assert way in fix
    assert ("nvml" in fix) == (cards > 1)


def test_our_own_process_is_among_all() -> None:
    (own,) = [one for one in all_processes() if one.pid == os.getpid()]

    assert own.uid == os.geteuid()
    assert own.words
