"""`grn start` on four stand-in GPUs, seen through the command line alone."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from tests.conftest import forget_client
from tests.e2e import grabbing
from tests.e2e.scene import LONG_S, MIB, ROOT, Scene, a_stranger, device, row_of, waiting
from tests.nvml.driver import FakeDriver
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def gpus(home: Path) -> Iterator[FakeDriver]:
    """Four stand-in GPUs of 1000 MiB."""
    driver = FakeDriver(home / "nvml", [1000] * 4)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in driver.environment().items():
            patch.setenv(name, value)
        yield driver


def run_grn(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "grn_zmq.cli.main", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60 * PATIENCE,
    )


def facts(*words: str) -> list[dict[str, Any]]:
    """What a verb says with --json."""
    done = run_grn(*words, "--json")
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


@contextmanager
def a_detached_server(*options: str) -> Iterator[str]:
    """Start in the background, stop at the end; give what `grn start` said."""
    started = run_grn("start", "--detach", *options)
    assert started.returncode == 0, started.stderr
    try:
        yield started.stdout
    finally:
        forget_client()
        stopped = run_grn("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert "Stopped the broker" in stopped.stdout


def test_twelve_jobs_of_three_types_share_gpus_and_respect_a_stranger(
    gpus: FakeDriver, scene: Scene
) -> None:
    sizes = {"small": 100, "middle": 200, "large": 300}
    types = {name: grn.job(type=name, policy="pack")(grabbing.hold) for name in sizes}
    with a_stranger() as pid, a_detached_server("--devices", "nvml") as said:
        assert said.startswith("Managing GPUs {0, 1, 2, 3}\n")
        gpus.hold(0, pid, 750)
        until(lambda: device(0).foreign_bytes == 750 * MIB)
        gate = scene.close_gate()
        # The first of each type is measured, so it must end before the others start.
        jobs = [types[name].submit(scene.place, sizes[name]) for name in sizes]
        for name in sizes:
            jobs += [types[name].submit(scene.place, sizes[name], gate) for _ in range(3)]
        scene.await_notes("holds", 12, 20)

        listed = [row for row in facts("ps") if row["state"] != "queued"]
        assert len(listed) == 9
        assert max(Counter(row["device"] for row in listed).values()) >= 2
        check_leases_of(listed, facts("devices"), taken={"nvml:0": 750})
        assert all(gpus.used_mib(index) <= 1000 for index in range(4))

        scene.open_gate()
        assert all(job.result(LONG_S) for job in jobs)
        ended = facts("ps", "--all")
        assert [row["state"] for row in ended] == ["succeeded"] * 12
        assert sorted({row["peak_bytes"] // MIB for row in ended}) == [100, 200, 300]


def check_leases_of(
    jobs: list[dict[str, Any]], devices: list[dict[str, Any]], taken: dict[str, int]
) -> None:
    """Per device, what jobs were promised and what a stranger has is no more than it has."""
    for one in devices:
        name = f"{one['kind']}:{one['index']}"
        promised = sum(row["lease_bytes"] for row in jobs if row["device"] == name)
        assert one["foreign_bytes"] == taken.get(name, 0) * MIB
        assert promised == one["leased_bytes"]
        assert promised + one["foreign_bytes"] <= one["total_bytes"]


def test_a_stranger_that_appears_and_leaves_makes_jobs_wait_and_start(
    gpus: FakeDriver, scene: Scene
) -> None:
    known = grn.job(type="known")(grabbing.hold)
    with a_detached_server("--devices", "nvml:2"):
        known(scene.place, 300)
        with a_stranger() as pid:
            gpus.hold(2, pid, 900)
            until(lambda: device(2).foreign_bytes == 900 * MIB)
            job = known.submit(scene.place, 300)
            until(lambda: [row.job_id for row in waiting()] == [job.job_id])
            assert facts("ps")[0]["why"].startswith("waiting for memory: needs 3")
        assert job.result(LONG_S) == "nvml:2"


def test_r59_where_memory_per_process_is_unknown_the_difference_on_the_gpu_is_learned(
    gpus: FakeDriver, scene: Scene
) -> None:
    new = grn.job(type="r59")(grabbing.hold)
    gate = scene.close_gate()
    gpus.hide_process_memory()
    with a_detached_server("--devices", "nvml:3"), a_stranger() as pid:
        gpus.hold(3, pid, 100)
        until(lambda: device(3).foreign_bytes == 100 * MIB)
        jobs = [new.submit(scene.place, 400, gate) for _ in range(2)]
        scene.await_notes("holds", 1)
        until(lambda: row_of(jobs[0].job_id).used_bytes == 400 * MIB)
        scene.open_gate()

        assert [job.result(LONG_S) for job in jobs] == ["nvml:3"] * 2
        assert [row_of(job.job_id).peak_bytes for job in jobs] == [400 * MIB] * 2
    gpus.hide_process_memory(False)


@pytest.mark.parametrize("form", ["indices", "uuids"])
def test_r46_r47_a_restricted_server_manages_and_leases_exactly_those_gpus(
    form: str, gpus: FakeDriver, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    visible = "0,1" if form == "indices" else f"{gpus.uuid(1)},{gpus.uuid(0)}"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with a_detached_server("--max-jobs", "4") as said:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")

        before = len(facts("ps", "--all"))  # what is kept of the servers before

        used = set(grn.job(type="r46")(grabbing.hold).map([scene.place] * 100))

        assert said.startswith("Managing GPUs {0, 1}\n")
        assert [one["uuid"] for one in facts("devices")] == [gpus.uuid(0), gpus.uuid(1)]
        assert used <= {"nvml:0", "nvml:1"}
        assert {row["device"] for row in facts("ps", "--all")[before:]} == used


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "it names no GPU"),
        ("9", "there is no GPU '9'"),
        ("0,junk", "'junk' is neither an index nor a GPU uuid"),
        ("GPU-ffffffff", "there is no GPU 'GPU-ffffffff'"),
    ],
)
def test_r47_a_restriction_that_names_no_gpu_fails_with_one_clear_line(
    value: str, why: str, gpus: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)

    done = run_grn("start", "--devices", "nvml")

    assert done.returncode == 1
    line, *rest = done.stderr.splitlines()
    assert not rest
    assert f"CUDA_VISIBLE_DEVICES={value!r} cannot be used: {why}; GPUs here: 0 (GPU-" in line


def test_r47_in_the_background_it_fails_with_the_same_line(
    gpus: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "9")

    done = run_grn("start", "--detach")

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "CUDA_VISIBLE_DEVICES='9' cannot be used: there is no GPU '9'" in done.stderr
    assert run_grn("status").returncode == 3
