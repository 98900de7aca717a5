"""Where it is read that the kernel killed for lack of memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.devices import memory
from workers.devices.kills import KernelKills


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """Let the counter be looked for again."""
    memory._kill_counter.cache_clear()
    yield
    memory._kill_counter.cache_clear()


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(memory, "_own_groups", lambda: [tmp_path])
    machine = tmp_path / "vmstat"
    machine.write_text("pgscan 3\noom_kill 9\n")
    monkeypatch.setattr(memory, "_VMSTAT", machine)
    return tmp_path


@pytest.mark.parametrize("name", ["memory.events", "memory.oom_control"])
def test_our_own_group_is_asked_first(name: str, group: Path) -> None:
    (group / name).write_text("low 0\noom 7\noom_kill 2\noom_group_kill 5\n")
    assert memory.kernel_kills() == 2

    (group / name).write_text("low 0\noom 8\noom_kill 3\n")
    assert memory.kernel_kills() == 3


def test_the_machine_is_asked_where_a_group_does_not_count(group: Path) -> None:
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\n")

    assert memory.kernel_kills() == 9


def test_this_machine_has_a_counter() -> None:
    assert memory._count(memory._kill_counter(), "oom_kill") is not None


def test_a_kill_of_long_ago_was_of_somebody_else() -> None:
    kills = KernelKills(3)
    for now, count in ((10.0, 3), (11.0, 4), (11.4, 4), (12.1, 4)):
        kills.take(count, now)

    assert kills.count_before(12.2) == 4
    assert kills.count == 4


def test_a_kill_of_a_moment_ago_may_be_its_own_although_it_was_looked_at_since() -> None:
    kills = KernelKills(3)
    for now, count in ((10.0, 3), (10.4, 3), (10.5, 4), (10.6, 4)):
        kills.take(count, now)

    assert kills.count_before(10.7) == 3


def test_without_a_recent_look_the_last_one_counts() -> None:
    kills = KernelKills(3)
    assert kills.count_before(50.0) == 3

    kills.take(5, 60.0)

    assert kills.count_before(99.0) == 5
