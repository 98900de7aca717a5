"""Real zygotes: what they import, what comes of their deaths, and when they are let go."""

import importlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.workers.garden import Garden, garden
from tests.workers.launching import (
    DEADLINE_S,
    a_call,
    gone,
    leave_processes,
    outcome_of,
    until,
    value_of,
    wait_for,
)
from tests.workers.warming import install
from workers import pressure, warmth, zygotes
from workers.jobevents import Exited, Outcome
from workers.warmth import LOOK_S

__all__ = ["garden"]  # a fixture

pytestmark = pytest.mark.e2e


def jobs() -> dict[str, Callable[..., Any]]:
    """Functions that travel by value: no module of the tests is loaded for them."""

    def load(name: str) -> bool:
        warm = name in sys.modules
        importlib.import_module(name)
        return warm

    def surroundings() -> dict[str, object]:
        signals = {number: str(signal.getsignal(number)) for number in (1, 2, 13, 15, 17)}
        return {
            "fds": len(os.listdir("/proc/self/fd")),
            "signals": signals,
            "mask": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
            "own session": os.getsid(0) == os.getpid(),
            "environment": dict(os.environ),
            "path": sys.path,
            "argv": sys.argv,
            "cwd": os.getcwd(),
            "umask": os.umask(0o77),
            "main": sorted(vars(sys.modules["__main__"])),
            "threads": os.listdir("/proc/self/task") == [str(os.getpid())],
        }

    def draw() -> float:
        import random

        return random.random()

    return {"load": load, "surroundings": surroundings, "draw": draw}


JOBS = jobs()


@pytest.fixture
def heavy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Install the package `heavy` with this in it."""

    def make(content: str = "") -> None:
        monkeypatch.syspath_prepend(install(tmp_path / "lib", "heavy", content))

    return make


def test_the_second_process_is_forked_with_what_the_first_imported(
    garden: Garden, heavy: Callable[[str], None]
) -> None:
    heavy("")

    first = garden.run(JOBS["load"], "heavy")
    zygote = garden.settle()

    assert first == (False, False)
    assert "heavy" in zygote.names
    assert garden.run(JOBS["load"], "heavy") == (True, True)


def test_one_process_of_light_jobs_starts_no_zygote_and_two_do(garden: Garden) -> None:
    garden.run(os.getpid)
    garden.look()
    after_one = garden.bed().coming
    garden.run(os.getpid)
    garden.settle()

    assert after_one is None
    assert garden.run(len, "four") == (4, True)


def test_a_forked_process_is_as_one_that_was_executed(garden: Garden) -> None:
    executed, _ = garden.run(JOBS["surroundings"])
    garden.run(os.getpid)
    garden.settle()

    forked, was_forked = garden.run(JOBS["surroundings"])

    assert was_forked
    for seen in (executed, forked):
        del seen["environment"]["PYTEST_CURRENT_TEST"]
    assert forked == executed


def test_forked_processes_draw_different_random_numbers(
    garden: Garden, heavy: Callable[[str], None]
) -> None:
    heavy("import random")
    garden.run(JOBS["load"], "heavy")
    garden.settle()

    drawn = [garden.run(JOBS["draw"]) for _ in range(3)]

    assert all(forked for _, forked in drawn)
    assert len(set(drawn)) == 3


def test_what_the_user_edits_is_loaded_anew(
    garden: Garden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("def value(): return 1")
    monkeypatch.syspath_prepend(str(tmp_path))

    def ask() -> int:
        return int(importlib.import_module("mine").value())

    values = []
    for number in range(3):
        (tmp_path / "mine.py").write_text(f"def value(): return {number} + 0")
        os.utime(tmp_path / "mine.py", (number, number))
        values.append(garden.run(ask))
        garden.bed().plan.launches = 2
        garden.settle()

    assert values == [(0, False), (1, True), (2, True)]


def test_what_an_import_sets_in_the_environment_is_there(
    garden: Garden, heavy: Callable[[str], None]
) -> None:
    heavy("import os; os.environ['SET_BY_IMPORT'] = 'yes'")
    garden.run(JOBS["load"], "heavy")
    garden.settle()

    assert garden.run(os.getenv, "SET_BY_IMPORT") == ("yes", True)


def test_what_an_import_wants_cleaned_up_at_the_end_stays_for_the_next(
    garden: Garden, heavy: Callable[[str], None], tmp_path: Path
) -> None:
    heavy(f"import weakref, os; weakref.finalize(os, os.unlink, {str(tmp_path / 'x')!r})")
    garden.launch()  # which would clean up as well
    garden.launcher._learned.take("fit", {"heavy": 100})
    garden.settle()
    (tmp_path / "x").touch()

    assert garden.run(JOBS["load"], "heavy") == (True, True)
    assert (tmp_path / "x").exists()


UNSAFE = {
    "a thread": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    "an open file": "kept = open('/dev/null')",
    "a process": "import subprocess; kept = subprocess.Popen(['sleep', '600'])",
    "an exception": "raise RuntimeError('no')",
    "an exit": "import sys; sys.exit(3)",
    "a crash": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "code of the user's": "import importlib.util as u\n"
    "spec = u.spec_from_file_location('mine', __file__.split('lib')[0] + 'mine.py')\n"
    "import sys; sys.modules['mine'] = u.module_from_spec(spec)",
}


@pytest.mark.parametrize("what", UNSAFE)
def test_what_brings_danger_is_left_to_the_jobs(
    garden: Garden, heavy: Callable[[str], None], tmp_path: Path, what: str
) -> None:
    (tmp_path / "mine.py").write_text("")
    heavy(UNSAFE[what])
    garden.launch()
    garden.launcher._learned.take("fit", {"heavy": 100, "wave": 100})

    zygote = garden.settle()

    assert zygote.names == ("wave",)
    assert garden.run(lambda: "heavy" in sys.modules) == (False, True)


def test_an_interpreter_that_has_threads_from_its_start_is_never_a_zygote(
    garden: Garden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(UNSAFE["a thread"])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for _ in range(2):
        garden.run(os.getpid)
    garden.look()
    assert garden.bed().coming is not None
    wait_for(lambda: not garden.comes())

    garden.bed().plan.used_at = 1e9
    garden.launcher.look(1e9)

    assert garden.bed().coming is None
    assert garden.run(len, "four") == (4, False)


def test_an_import_that_hangs_is_given_up(
    garden: Garden, heavy: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygotes, "IMPORT_S", 1.5)
    heavy("import time; time.sleep(600)")
    garden.launch()
    garden.launcher._learned.take("fit", {"heavy": 100, "wave": 100})

    assert garden.settle().names == ("wave",)


def test_killing_a_zygote_harms_nobody_and_another_follows(garden: Garden) -> None:
    first = garden.warm()
    running = garden.launch()
    running.feed(a_call(time.sleep, 0.3))
    os.kill(first.process.pid, signal.SIGKILL)
    assert select.select([garden.launcher], [], [], DEADLINE_S)[0]
    garden.launcher.hear(time.monotonic())

    next_one = garden.run(len, "four")

    assert next_one == (4, False)
    assert until(running, Outcome).outcome == "succeeded"
    wait_for(garden.begins)
    assert garden.settle() is not first
    assert garden.run(len, "four") == (4, True)
    garden.end(running)


def test_after_the_death_of_a_zygote_what_it_forked_is_still_told_apart(
    garden: Garden, tmp_path: Path
) -> None:
    zygote = garden.warm()
    one, other = garden.launch(), garden.launch()
    assert value_of(one, len, "four") == 4
    assert outcome_of(other, leave_processes, str(tmp_path)).outcome == "succeeded"
    zygote.process.kill()
    wait_for(lambda: os.getpid() == parent_of(other.keeper_pid))
    os.kill(other.keeper_pid, signal.SIGKILL)

    exited = until(other, Exited)

    assert (exited.signal, exited.left_over >= 2) == (signal.SIGKILL, True)
    assert all(gone(int(name)) for name in os.listdir(tmp_path))
    assert value_of(one, len, "four") == 4
    garden.end(one)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_zygote_that_died_unnoticed_costs_the_next_job_nothing(garden: Garden) -> None:
    zygote = garden.warm()
    for spare in zygote.drop_spare():
        spare.wait(DEADLINE_S)
    zygote.process.kill()
    wait_for(lambda: gone(zygote.process.pid))

    assert garden.run(len, "four") == (4, False)


def test_a_zygote_that_stands_still_is_not_waited_for_long(
    garden: Garden, monkeypatch: pytest.MonkeyPatch
) -> None:
    zygote = garden.warm()
    for spare in zygote.drop_spare():
        spare.wait(DEADLINE_S)
    monkeypatch.setattr(zygotes.Seedling.keeper, "__defaults__", (0.2,))
    os.kill(zygote.process.pid, signal.SIGSTOP)

    assert garden.run(len, "four") == (4, False)
    assert gone(zygote.process.pid)


def test_a_spare_that_was_killed_is_not_used(garden: Garden) -> None:
    zygote = garden.warm()
    assert zygote.spare is not None
    spare = zygote.spare.keeper()
    assert spare is not None
    os.kill(spare.pid, signal.SIGKILL)
    wait_for(lambda: not spare.lives)

    assert garden.run(len, "four") == (4, True)


def test_killing_a_keeper_spares_the_spares(garden: Garden) -> None:
    garden.warm()
    process = garden.launch()
    garden.look()
    os.kill(process.keeper_pid, signal.SIGKILL)

    assert until(process, Exited).signal == signal.SIGKILL
    assert garden.run(len, "four") == (4, True)


def test_after_an_installation_the_old_zygote_does_not_serve(
    garden: Garden, heavy: Callable[[str], None], tmp_path: Path
) -> None:
    heavy("")
    garden.run(JOBS["load"], "heavy")
    old = garden.settle()
    os.utime(tmp_path / "lib" / "site-packages", (1, 1))

    assert garden.run(JOBS["load"], "heavy") == (False, False)
    wait_for(lambda: gone(old.process.pid))
    garden.settle()
    assert garden.run(JOBS["load"], "heavy") == (True, True)


def test_another_environment_has_another_zygote_and_the_oldest_is_ended(
    garden: Garden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warmth, "MOST_ZYGOTES", 1)
    for _ in range(2):
        garden.end(garden.launch(OMP_NUM_THREADS="1"))
    first = garden.settle(OMP_NUM_THREADS="1")
    for _ in range(2):
        garden.end(garden.launch(OMP_NUM_THREADS="2"))
    garden.settle(OMP_NUM_THREADS="2")

    assert garden.bed(OMP_NUM_THREADS="1").serving is None
    wait_for(lambda: gone(first.process.pid))


def test_several_environments_are_kept_warm_side_by_side(garden: Garden) -> None:
    found = []
    for threads in "123":
        for _ in range(2):
            garden.end(garden.launch(OMP_NUM_THREADS=threads))
        found.append(garden.settle(OMP_NUM_THREADS=threads))

    assert [garden.bed(OMP_NUM_THREADS=threads).serving for threads in "123"] == found


@pytest.mark.parametrize("reason", ["idle", "short of memory"])
def test_a_zygote_that_nobody_needs_or_can_afford_is_ended(
    garden: Garden, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zygote, now = garden.warm(), time.monotonic() + LOOK_S
    if reason == "idle":
        now += warmth.IDLE_S + 1
    else:
        monkeypatch.setattr(pressure, "available_bytes", lambda: 0)
        now += pressure.READ_S + 1
    garden.launcher.look(now)

    assert garden.bed().serving is None
    wait_for(lambda: gone(zygote.process.pid))
