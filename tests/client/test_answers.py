"""What a job process answers for an exception."""

from typing import Any

import pytest

from grn_zmq.answers import failure
from grn_zmq.tracebacks import load_exception
from grn_zmq.units import GIB, MIB


def notes(error: BaseException, **run: Any) -> list[str]:
    """The notes that an exception has where its job was called."""
    header = {"on_host": True, "cap_bytes": 0, "total_bytes": GIB, **run}
    _, body = failure(error, header)
    return getattr(load_exception(body.joined(), "1"), "__notes__", [])


@pytest.mark.parametrize(
    ("cap_bytes", "note"),
    [
        (30 * MIB, "capped at 30.0 MiB, what its type was predicted to need (enforce=True)"),
        (GIB, "capped at 1.0 GiB, all that its device has (enforce=True)"),
    ],
)
def test_who_runs_out_at_a_cap_is_told_of_it(cap_bytes: int, note: str) -> None:
    assert notes(MemoryError(), cap_bytes=cap_bytes) == [f"grn: {note}"]


def test_nobody_else_is() -> None:
    assert notes(MemoryError()) == []
    assert notes(ValueError("x"), cap_bytes=30 * MIB) == []
    assert notes(MemoryError(), cap_bytes=30 * MIB, on_host=False) == []
