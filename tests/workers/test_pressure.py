"""When the machine is short of memory."""

import pytest

from workers import pressure
from workers.pressure import READ_S, Pressure


def test_memory_is_read_now_and_then_and_below_a_twentieth_it_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    available = iter([600, 400])
    monkeypatch.setattr(pressure, "physical_bytes", lambda: 10_000)
    monkeypatch.setattr(pressure, "available_bytes", lambda: next(available))
    watched = Pressure()

    seen = [watched.high(now) for now in (0.0, READ_S / 2, READ_S, 1.5 * READ_S)]

    assert seen == [False, False, True, True]
