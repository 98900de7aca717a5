"""Where the files of a broker are, and that nobody else can reach them."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq.discovery import BrokerLock, find_address
from grn_zmq.errors import UnsafeDirectory
from grn_zmq.paths import MAX_SOCKET_PATH, Places, find_places, make_private


@pytest.fixture
def places() -> Iterator[Places]:
    """Places below a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="grn-") as directory:
        yield Places(Path(directory) / "grn")


def test_the_runtime_directory_of_the_user_is_taken_where_there_is_one(tmp_path: Path) -> None:
    assert find_places({"XDG_RUNTIME_DIR": str(tmp_path)}).directory == tmp_path / "grn"


def test_without_one_the_state_directory_serves(tmp_path: Path) -> None:
    environment = {"XDG_RUNTIME_DIR": str(tmp_path / "gone"), "XDG_STATE_HOME": str(tmp_path)}

    assert find_places(environment).directory == tmp_path / "grn" / "run"


def test_finding_creates_nothing(tmp_path: Path) -> None:
    places = find_places({"XDG_RUNTIME_DIR": str(tmp_path)})

    assert find_address(places) is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_above_is_made_private_too(tmp_path: Path) -> None:
    places = find_places({"XDG_STATE_HOME": str(tmp_path / "state")})
    umask = os.umask(0o022)
    try:
        places.make()
    finally:
        os.umask(umask)

    assert places.directory == tmp_path / "state" / "grn" / "run"
    assert places.directory.parent.stat().st_mode & 0o777 == 0o700


def test_directories_are_private_whatever_the_umask(places: Places) -> None:
    umask = os.umask(0)
    try:
        places.make()
    finally:
        os.umask(umask)

    made = [places.directory, *places.directory.iterdir()]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700] * 3


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o720, 0o777])
def test_what_others_may_enter_is_refused(places: Places, mode: int) -> None:
    places.make()
    places.directory.chmod(mode)

    with pytest.raises(UnsafeDirectory, match="chmod 700"):
        places.make()
    with pytest.raises(UnsafeDirectory, match="chmod 700"):
        find_address(places)


def test_a_link_to_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "grn").symlink_to("elsewhere")

    with pytest.raises(UnsafeDirectory, match="is not a directory"):
        make_private(tmp_path / "grn")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "grn").mkdir(mode=0o700)
    os.chown(tmp_path / "grn", 12345, -1)

    with pytest.raises(UnsafeDirectory, match="user id 12345"):
        make_private(tmp_path / "grn")


def test_a_place_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UnsafeDirectory, match=r"cannot create .*XDG_RUNTIME_DIR"):
        make_private(tmp_path / "file" / "grn")


def test_a_path_too_long_for_a_socket_is_refused_with_both_numbers(tmp_path: Path) -> None:
    places = Places(tmp_path / ("x" * MAX_SOCKET_PATH) / "grn")

    with pytest.raises(UnsafeDirectory, match=f"at most {MAX_SOCKET_PATH} bytes"):
        places.make()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "not json", "[]", "{}", '{"pid": 1}'])
def test_an_address_that_is_none_is_no_broker(places: Places, content: str) -> None:
    places.make()
    lock = BrokerLock(places)
    places.address.write_text(content)

    found = find_address(places)

    lock.close()
    assert found is None
