"""Files in memory that are filled again: when, by whom, and what is left of them."""

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from grn_zmq import shelf
from grn_zmq.parcels import Parcels
from tests.builders import an_id

MIB = 1 << 20
ALICE = an_id(1)


@pytest.fixture
def parcels(tmp_path: Path) -> Parcels:
    return Parcels(tmp_path / "shm", tmp_path / "disk")


def pack(parcels: Parcels, letter: bytes, size: int = MIB) -> str:
    return parcels.pack([b"<", letter * (size - 2), b">"], size, ALICE, "shm")


def names(parcels: Parcels, start: str) -> list[Path]:
    return sorted(parcels.shm.glob(f"{start}-*"))


def inode(parcels: Parcels, token: str) -> int:
    return parcels.path(token).stat().st_ino


@pytest.mark.parametrize("size", [MIB, 5 * MIB, 40 * MIB])
def test_memory_is_used_again_once_its_reader_is_done(parcels: Parcels, size: int) -> None:
    first = pack(parcels, b"a", size)
    used = inode(parcels, first)
    assert bytes(parcels.read(first)) == b"<" + b"a" * (size - 2) + b">"
    parcels.remove(first)

    for letter in (b"b", b"c"):  # written at first; large ones are mapped from then on
        token = pack(parcels, letter, size)
        assert inode(parcels, token) == used
        assert bytes(parcels.read(token)) == b"<" + letter * (size - 2) + b">"
        parcels.remove(token)
    assert len(names(parcels, "kept")) == 1


def test_what_can_still_be_read_is_never_written_over(parcels: Parcels) -> None:
    named, mapped = pack(parcels, b"a", 5 * MIB), pack(parcels, b"b", 5 * MIB)
    view = parcels.read(mapped)
    parcels.remove(mapped)  # its name is gone, its reader is not

    others = [pack(parcels, b"c", 5 * MIB) for _ in range(3)]

    assert bytes(view[:2]) == b"<b"
    assert bytes(parcels.read(named)[:2]) == b"<a"
    assert len({inode(parcels, one) for one in (named, *others)}) == 4


def test_a_parcel_whose_other_name_was_removed_is_not_written_over(parcels: Parcels) -> None:
    token = pack(parcels, b"a")
    for path in names(parcels, "kept"):
        path.unlink()  # so that the parcel has one name, as a free file does

    pack(parcels, b"b")

    assert bytes(parcels.read(token)[:2]) == b"<a"


def test_an_empty_place_is_not_left_behind(parcels: Parcels) -> None:
    parcels.remove(pack(parcels, b"a"))

    shelf.clear_shelves()

    assert not parcels.shm.exists()
    assert bytes(parcels.read(pack(parcels, b"b"))[:2]) == b"<b"


def test_a_reader_that_comes_too_late_is_told(
    parcels: Parcels, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = pack(parcels, b"a")
    lock = fcntl.flock

    def let_go_first(fd: int, how: int) -> None:
        parcels.remove(token)
        lock(fd, how)

    monkeypatch.setattr("grn_zmq.parcels.fcntl.flock", let_go_first)

    with pytest.raises(FileNotFoundError):
        parcels.read(token)


def test_a_reader_may_change_what_it_has_read(parcels: Parcels) -> None:
    token = pack(parcels, b"a")
    view = parcels.read(token)

    view[:3] = b"new"

    assert bytes(view[:4]) == b"newa"
    assert bytes(parcels.read(token)[:4]) == b"<aaa"


@pytest.mark.parametrize("size", [MIB // 4, 2 * MIB])
def test_a_file_much_larger_or_too_small_is_not_used(parcels: Parcels, size: int) -> None:
    first = pack(parcels, b"a")
    used = inode(parcels, first)
    parcels.remove(first)

    assert inode(parcels, pack(parcels, b"b", size)) != used


def test_only_so_much_is_kept(parcels: Parcels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "KEPT_BYTES", 3 * MIB)
    tokens = [pack(parcels, b"abcde"[n : n + 1]) for n in range(5)]

    assert len(names(parcels, "kept")) == 3
    assert [bytes(parcels.read(one)[1:2]) for one in tokens] == [b"a", b"b", b"c", b"d", b"e"]
    large = pack(parcels, b"x", 4 * MIB)
    assert bytes(parcels.read(large)[-2:]) == b"x>"
    assert len(names(parcels, "kept")) == 3


def test_what_is_not_used_for_long_is_given_back(
    parcels: Parcels, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = pack(parcels, b"a")

    shelf.tidy_shelves()
    assert len(names(parcels, "kept")) == 1
    monkeypatch.setattr(shelf, "IDLE_S", -1.0)
    shelf.tidy_shelves()

    assert names(parcels, "kept") == []
    assert bytes(parcels.read(token)[:2]) == b"<a"


def test_a_full_memory_gives_back_what_is_kept_and_moves_to_the_disk(
    parcels: Parcels, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcels.remove(pack(parcels, b"a"))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("grn_zmq.shelf.os.pwrite", full)
    token = pack(parcels, b"b", 3 * MIB)

    assert names(parcels, "kept") == []
    assert bytes(parcels.read(token)[-2:]) == b"b>"


def test_who_cleans_up_behind_us_costs_no_payload(parcels: Parcels) -> None:
    parcels.remove(pack(parcels, b"a"))
    for path in names(parcels, "kept"):
        path.unlink()

    assert bytes(parcels.read(pack(parcels, b"b"))[:2]) == b"<b"


def in_child(action: Callable[[], object], status: int = 0) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            os._exit(status)
    return pid


def test_a_child_does_not_write_into_files_of_its_parent(parcels: Parcels) -> None:
    first = pack(parcels, b"a")
    used = inode(parcels, first)
    parcels.remove(first)

    os.waitpid(in_child(lambda: pack(parcels, b"x")), 0)
    token = pack(parcels, b"b")

    assert inode(parcels, token) == used
    childs = [path for path in names(parcels, "shm") if path.name != token]
    assert [path.read_bytes()[:2] for path in childs] == [b"<x"]
    assert bytes(parcels.read(token)[:2]) == b"<b"


def test_files_of_the_dead_are_swept_and_those_of_the_living_are_not(parcels: Parcels) -> None:
    parcels.remove(pack(parcels, b"a"))
    mine = names(parcels, "kept")

    def keep_and_die() -> None:
        parcels.remove(pack(parcels, b"x"))
        os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(in_child(keep_and_die), 0)
    assert len(names(parcels, "kept")) == 2
    parcels.sweep_kept()

    assert names(parcels, "kept") == mine


def test_a_file_whose_descriptor_was_closed_is_left_alone(parcels: Parcels) -> None:
    parcels.remove(pack(parcels, b"a"))
    (file,) = shelf.shelf_in(parcels.shm, lambda _: -1)._files
    with open(os.devnull) as other:
        os.dup2(other.fileno(), file._fd)

        token = pack(parcels, b"b")
        shelf.clear_shelves()

        os.fstat(file._fd)  # it is somebody else's, and still open
        os.close(file._fd)
    assert bytes(parcels.read(token)[:2]) == b"<b"
