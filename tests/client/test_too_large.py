"""What no message can carry is refused where it is made, or travels as a file."""

import threading
from pathlib import Path

import pytest

from grn_zmq import submission
from grn_zmq.errors import TooLarge
from grn_zmq.limits import PARCEL_BYTES, SHARED_BYTES
from grn_zmq.options import JobOptions
from grn_zmq.parcels import Parcels
from grn_zmq.payload import load_arguments
from grn_zmq.records import JobSpec
from tests.builders import an_id


@pytest.fixture
def parcels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parcels:
    places = Parcels(tmp_path / "shm", tmp_path / "disk")
    monkeypatch.setattr(submission, "find_parcels", lambda _: places)
    return places


def describe(function: object, *args: object, detached: bool = False) -> JobSpec:
    spec, _ = submission.describe_call(
        function,  # type: ignore[arg-type]
        None,
        "t",
        JobOptions(),
        args,
        {},
        detached=detached,
        session=lambda: an_id(1),
    )
    return spec


def test_a_function_too_large_for_a_message_is_refused_where_it_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = bytes(5000)
    monkeypatch.setattr(submission, "MAX_BLOB_BYTES", 4000)

    with pytest.raises(TooLarge, match=r"the function.*Pass data as arguments") as caught:
        describe(lambda: data)

    assert caught.value.size_bytes > 5000
    assert caught.value.limit_bytes == 4000


def test_an_environment_too_large_for_a_message_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submission, "MAX_BLOB_BYTES", 4000)
    monkeypatch.setenv("LARGE", "x" * 5000)

    with pytest.raises(TooLarge, match="the environment"):
        describe(len)


@pytest.mark.parametrize(("detached", "least"), [(False, SHARED_BYTES), (True, PARCEL_BYTES)])
def test_small_arguments_travel_in_the_message(
    parcels: Parcels, detached: bool, least: int
) -> None:
    spec = describe(len, bytes(least - 1000), detached=detached)

    assert spec.token == ""
    assert len(spec.payload) > least - 1000
    assert not parcels.shm.exists()
    assert describe(len, bytes(least), detached=detached).token


@pytest.mark.parametrize(("detached", "where"), [(False, "shm"), (True, "disk")])
def test_large_arguments_travel_as_a_file(parcels: Parcels, detached: bool, where: str) -> None:
    given = bytes(range(256)) * 8192

    spec = describe(len, given, detached=detached)

    assert spec.payload == b""
    assert spec.token.startswith(f"{where}-{an_id(1)}-")
    assert load_arguments(parcels.read(spec.token)) == ((given,), {})
    submission.drop_arguments(spec)
    assert parcels.size_bytes(spec.token) is None


def test_arguments_that_cannot_be_pickled_leave_no_file(parcels: Parcels) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        describe(len, bytes(2 * PARCEL_BYTES), threading.Lock())

    assert not parcels.shm.exists()
