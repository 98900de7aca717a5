"""Payloads in files: who may read them, how long they last, and what a sweep spares."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq.errors import DiskFull, UnsafeDirectory
from grn_zmq.parcels import Parcels, find_parcels
from tests.builders import an_id

ALICE, BOB = an_id(1), an_id(2)


@pytest.fixture
def parcels(tmp_path: Path) -> Parcels:
    return Parcels(tmp_path / "shm", tmp_path / "disk")


def files(parcels: Parcels) -> set[str]:
    found = (list(place.iterdir()) for place in (parcels.shm, parcels.disk) if place.is_dir())
    return {path.name for paths in found for path in paths}


@pytest.mark.parametrize("where", ["shm", "disk"])
def test_what_was_written_is_read(parcels: Parcels, where: str) -> None:
    token = parcels.write([b"one ", bytearray(b"two "), memoryview(b"three")], ALICE, where)

    assert token.startswith(f"{where}-{ALICE}-")
    assert bytes(parcels.read(token)) == b"one two three"
    assert parcels.size_bytes(token) == 13


@pytest.mark.parametrize("where", ["shm", "disk"])
def test_only_its_user_can_read_it(parcels: Parcels, where: str) -> None:
    token = parcels.write([b"secret"], ALICE, where)
    path = (parcels.shm if where == "shm" else parcels.disk) / token

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_is_mapped_can_be_read_after_it_was_removed(parcels: Parcels) -> None:
    token = parcels.write([b"kept"], ALICE, "shm")
    mapped = parcels.read(token)

    parcels.remove(token)
    parcels.remove(token)

    assert bytes(mapped) == b"kept"
    with pytest.raises(FileNotFoundError):
        parcels.read(token)


@pytest.mark.parametrize(
    "token", ["", "../../etc/passwd", f"shm-{ALICE}-../{'0' * 29}", f"tmp-{ALICE}-{BOB}"]
)
def test_a_token_leads_nowhere_else(parcels: Parcels, token: str) -> None:
    with pytest.raises(ValueError, match="is not a token"):
        parcels.read(token)
    with pytest.raises(ValueError, match="is not a token"):
        parcels.remove(token)


def test_links_are_not_followed(parcels: Parcels, tmp_path: Path) -> None:
    parcels.shm.mkdir(mode=0o700)
    (tmp_path / "secret").write_text("secret")
    (parcels.shm / f"shm-{ALICE}-{BOB}").symlink_to(tmp_path / "secret")

    with pytest.raises(OSError, match="symbolic links"):
        parcels.read(f"shm-{ALICE}-{BOB}")


def test_a_directory_that_others_may_enter_is_not_used(parcels: Parcels) -> None:
    parcels.shm.mkdir()
    parcels.shm.chmod(0o777)

    token = parcels.write([b"elsewhere"], ALICE, "shm")

    assert token.startswith("disk-")
    with pytest.raises(UnsafeDirectory):
        parcels.read(token.replace("disk", "shm"))


def test_without_shared_memory_the_disk_is_used(tmp_path: Path) -> None:
    parcels = Parcels(tmp_path / "no" / "shm", tmp_path / "disk")

    assert parcels.write([b"elsewhere"], ALICE, "shm").startswith("disk-")


class FullWrites:
    """Lets a file take so many bytes, and then no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **room: int) -> None:
        self._room = room
        self._write = os.write
        monkeypatch.setattr("grn_zmq.parcels.os.write", self.write)

    def write(self, fd: int, data: memoryview) -> int:
        where = Path(os.readlink(f"/proc/self/fd/{fd}")).name.partition("-")[0]
        left = self._room.get(where, 1 << 40)
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(fd, data[:left])
        self._room[where] = left - written
        return written


def test_what_memory_cannot_hold_moves_to_the_disk(
    parcels: Parcels, monkeypatch: pytest.MonkeyPatch
) -> None:
    FullWrites(monkeypatch, shm=1000)

    token = parcels.write([b"a" * 700, b"b" * 700], ALICE, "shm")

    assert files(parcels) == {token}
    assert bytes(parcels.read(token)) == b"a" * 700 + b"b" * 700


def test_without_any_room_it_says_how_much_was_missing_and_leaves_nothing(
    parcels: Parcels, monkeypatch: pytest.MonkeyPatch
) -> None:
    FullWrites(monkeypatch, shm=1000, disk=2048)

    with pytest.raises(DiskFull, match=r"more than 2\.0 KiB in .*disk, where .* free") as full:
        parcels.write([b"a" * 700] * 10, ALICE, "shm")

    assert full.value.reason == "disk-full"
    assert files(parcels) == set()


def test_a_sweep_spares_what_is_kept_and_who_lives(parcels: Parcels) -> None:
    kept = parcels.write([b"kept"], ALICE, "disk")
    dead = parcels.write([b"left by the dead"], ALICE, "shm")
    mine = parcels.write([b"not handed over yet"], BOB, "shm")
    late = parcels.write([b"a result on its way"], an_id(3), "disk")
    lock = parcels.hold(BOB)

    assert parcels.sweep({kept}, {an_id(3)}) == 1
    assert files(parcels) == {kept, mine, late, f"{BOB}.lock"}
    assert dead not in files(parcels)

    os.close(lock)
    assert parcels.sweep({kept}) == 2
    assert files(parcels) == {kept}


def test_what_a_client_that_is_gone_has_left_is_removed(parcels: Parcels) -> None:
    kept, left = (parcels.write([b"x"], ALICE, "disk") for _ in range(2))
    other = parcels.write([b"x"], BOB, "shm")

    assert parcels.remove_session(ALICE, {kept}) == 1

    assert files(parcels) == {kept, other}
    assert left not in files(parcels)


def test_a_sweep_leaves_what_is_not_ours_alone(parcels: Parcels) -> None:
    parcels.disk.mkdir(mode=0o700)
    (parcels.disk / "notes.txt").touch()

    assert parcels.sweep(set()) == 0
    assert files(parcels) == {"notes.txt"}


def test_two_state_directories_do_not_share_their_memory() -> None:
    one, other = (find_parcels({"XDG_STATE_HOME": place}) for place in ("/a", "/b"))

    assert one.shm != other.shm
    assert one.disk == Path("/a/grn/parcels")


def test_a_draft_that_was_not_finished_leaves_nothing(parcels: Parcels) -> None:
    def fails() -> Iterator[bytes]:
        yield b"some"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        parcels.write(fails(), ALICE, "disk")

    assert files(parcels) == set()
