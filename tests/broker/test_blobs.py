import pytest

from broker import blobs as module
from broker.blobs import Blobs
from grn_zmq.records import Blob

BLOB = Blob("f", b"function")


def test_a_blob_is_kept_while_its_client_is_connected() -> None:
    blobs = Blobs()
    blobs.put(BLOB, "anna")

    assert blobs.get("f") == BLOB

    blobs.forget("anna")
    assert blobs.get("f") is None
    assert len(blobs) == 0


def test_a_blob_is_kept_while_a_job_needs_it() -> None:
    blobs = Blobs()
    blobs.put(BLOB, "anna")
    blobs.hold("f")
    blobs.hold("f")
    blobs.forget("anna")

    blobs.let_go("f")
    assert "f" in blobs

    blobs.let_go("f")
    assert "f" not in blobs


def test_a_blob_is_kept_until_its_last_client_is_gone() -> None:
    blobs = Blobs()
    blobs.put(BLOB, "anna")
    blobs.put(BLOB, "bert")

    blobs.forget("anna")
    assert "f" in blobs

    blobs.forget("bert")
    assert "f" not in blobs


def test_what_came_first_under_a_digest_stays() -> None:
    blobs = Blobs()
    blobs.put(BLOB, "anna")

    blobs.put(Blob("f", b"forged"), "mallory")

    assert blobs.get("f") == BLOB


def test_holding_what_is_not_here_is_a_bug() -> None:
    with pytest.raises(KeyError):
        Blobs().hold("f")


def used_and_done(blobs: Blobs, *sizes: int) -> None:
    """Blobs 0, 1, 2, … of these sizes, each needed by one job that has ended."""
    for number, size in enumerate(sizes):
        blobs.put(Blob(str(number), bytes(size)), "anna")
        blobs.hold(str(number))
        blobs.let_go(str(number))


def kept(blobs: Blobs, count: int) -> list[int]:
    return [number for number in range(count) if str(number) in blobs]


def test_what_no_job_needs_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNUSED_BYTES", 100)
    blobs = Blobs()

    used_and_done(blobs, 40, 40, 20, 30)

    assert kept(blobs, 4) == [1, 2, 3]


def test_what_no_job_needs_is_bounded_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNUSED", 2)
    blobs = Blobs()

    used_and_done(blobs, 1, 1, 1)

    assert kept(blobs, 3) == [1, 2]


def test_what_a_job_needs_is_kept_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNUSED_BYTES", 100)
    blobs = Blobs()
    blobs.put(BLOB, "anna")
    blobs.put(Blob("large", bytes(1000)), "anna")
    blobs.hold("large")

    used_and_done(blobs, 101, 99)

    assert kept(blobs, 2) == [1]
    assert "large" in blobs
    assert "f" not in blobs


def test_what_was_used_last_is_kept_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNUSED_BYTES", 100)
    blobs = Blobs()
    used_and_done(blobs, 40, 40)
    blobs.hold("0")
    blobs.let_go("0")

    blobs.put(Blob("2", bytes(40)), "anna")
    blobs.hold("2")
    blobs.let_go("2")

    assert kept(blobs, 3) == [0, 2]
