"""Files of arguments that a job process keeps mapped from run to run."""

import os
from pathlib import Path

import pytest

from grn_zmq.copying import MAPPED_BYTES
from grn_zmq.parcels import Parcels
from grn_zmq.rereading import Readings
from tests.builders import an_id

SIZE = MAPPED_BYTES
PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def parcels(tmp_path: Path) -> Parcels:
    # Also a private mapping of a file on disk would do, but this is what is used.
    return Parcels(tmp_path / "shm", tmp_path / "disk")


def pack(parcels: Parcels, letter: bytes, size: int = SIZE) -> str:
    return parcels.pack([letter * size], size, an_id(1), "shm")


def run(readings: Readings, parcels: Parcels, letter: bytes, *, change: bool = False) -> bytes:
    """What a run reads in the middle of an argument; then the argument is let go."""
    token = pack(parcels, letter)
    view = readings.read(parcels, token)
    seen = bytes(view[SIZE // 2 : SIZE // 2 + 3])
    if change:
        view[SIZE // 2] = ord("!")
    view.release()
    readings.tidy()
    parcels.remove(token)
    return seen


def test_each_run_reads_what_was_written_for_it(parcels: Parcels) -> None:
    readings = Readings()

    assert [run(readings, parcels, one) for one in (b"a", b"b", b"c")] == [
        b"aaa",
        b"bbb",
        b"ccc",
    ]
    assert readings.resident_bytes >= PAGE
    assert len(list(parcels.shm.glob("kept-*"))) == 1


def test_what_a_run_has_changed_is_not_what_the_next_one_reads(parcels: Parcels) -> None:
    readings = Readings()

    first = run(readings, parcels, b"a", change=True)

    assert readings.resident_bytes == 0
    assert (first, run(readings, parcels, b"b")) == (b"aaa", b"bbb")


def test_what_a_run_has_kept_stays_as_it_was(parcels: Parcels) -> None:
    readings = Readings()
    token = pack(parcels, b"a")
    kept = readings.read(parcels, token)[100:200]
    readings.tidy()
    parcels.remove(token)

    assert run(readings, parcels, b"b") == b"bbb"
    assert bytes(kept) == b"a" * 100


def test_small_ones_are_not_kept(parcels: Parcels) -> None:
    readings = Readings()
    token = pack(parcels, b"a", SIZE // 2)

    assert bytes(readings.read(parcels, token)[:1]) == b"a"
    readings.tidy()

    assert readings.resident_bytes == 0


def test_one_that_was_let_go_is_not_found(parcels: Parcels) -> None:
    readings = Readings()
    run(readings, parcels, b"a")
    token = pack(parcels, b"b")
    parcels.remove(token)

    with pytest.raises(FileNotFoundError):
        readings.read(parcels, token)


def test_where_changes_cannot_be_told_nothing_is_kept(
    parcels: Parcels, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = Readings()
    monkeypatch.setattr("grn_zmq.rereading.pages_of", lambda _: None)

    assert run(readings, parcels, b"a") == b"aaa"
    assert readings.resident_bytes == 0


def test_a_descriptor_that_the_run_has_closed_is_somebody_elses(parcels: Parcels) -> None:
    readings = Readings()
    token = pack(parcels, b"a")
    readings.read(parcels, token).release()
    (reading,) = readings._kept.values()
    with open(os.devnull) as other:
        os.dup2(other.fileno(), reading._fd)

        readings.tidy()

        os.fstat(reading._fd)
        os.close(reading._fd)
    assert readings.resident_bytes == 0
