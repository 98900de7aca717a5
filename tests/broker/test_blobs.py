import pytest

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
