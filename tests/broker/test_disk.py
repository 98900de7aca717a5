"""Room on the disk: a floor below which no jobs are taken, and what is given up for them."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.disk import BALLAST_BYTES, FLOOR_BYTES, Disk

MIB = 1 << 20
GIB = 1 << 30


class FakeDisk:
    """What `statvfs` says, of a disk that is as large and as full as the test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, total: int, free: int) -> None:
        self.total, self.free = total, free
        self.looks = 0
        monkeypatch.setattr(os, "statvfs", self._statvfs)

    def _statvfs(self, _: Path) -> SimpleNamespace:
        self.looks += 1
        return SimpleNamespace(f_bavail=self.free, f_blocks=self.total, f_frsize=1)


def test_a_disk_with_room_gets_its_ballast(tmp_path: Path) -> None:
    disk = Disk(tmp_path)

    assert disk.roomy
    facts = (tmp_path / "ballast").stat()
    assert facts.st_blocks * 512 >= facts.st_size == BALLAST_BYTES
    assert facts.st_mode & 0o777 == 0o600


def test_below_the_floor_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeDisk(monkeypatch, 100 * GIB, FLOOR_BYTES + BALLAST_BYTES)
    disk = Disk(tmp_path)

    rooms = []
    for free in (FLOOR_BYTES + BALLAST_BYTES, FLOOR_BYTES, FLOOR_BYTES - 1, FLOOR_BYTES):
        fake.free = free
        disk.look()
        rooms.append(disk.roomy)

    assert rooms == [True, True, False, True]


def test_of_a_small_disk_floor_and_ballast_are_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeDisk(monkeypatch, 64 * MIB, 64 * MIB // 20)
    disk = Disk(tmp_path)
    disk.look()
    assert not disk.roomy  # there is no ballast, and no room to make it above the floor

    fake.free = 12 * MIB
    disk.look()

    assert disk.roomy
    assert (tmp_path / "ballast").stat().st_size == 8 * MIB


def test_the_disk_is_looked_at_once_a_second_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeDisk(monkeypatch, 100 * GIB, 50 * GIB)
    now = [0.0]
    disk = Disk(tmp_path, lambda: now[0])

    for moment in (0.0, 0.1, 0.9, 1.0, 1.5, 2.1):
        now[0] = moment
        assert disk.roomy

    assert fake.looks == 3


def test_ballast_that_was_given_up_is_made_anew_when_there_is_room_for_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeDisk(monkeypatch, 100 * GIB, 50 * GIB)
    disk = Disk(tmp_path)
    assert disk.roomy

    assert disk.give_up()
    assert not disk.roomy
    assert not disk.give_up()
    fake.free = FLOOR_BYTES + BALLAST_BYTES - 1
    disk.look()
    assert not disk.roomy  # to make it now would leave less than the floor
    fake.free += 1
    disk.look()

    assert disk.roomy
    assert disk.give_up()


def test_ballast_left_half_made_is_made_in_full(tmp_path: Path) -> None:
    (tmp_path / "ballast").write_bytes(b"x" * 4096)

    Disk(tmp_path).look()

    assert (tmp_path / "ballast").stat().st_blocks * 512 >= BALLAST_BYTES


def test_where_no_ballast_can_be_made_no_jobs_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def over_quota(*_: int) -> None:
        raise OSError("over quota")

    monkeypatch.setattr(os, "posix_fallocate", over_quota)
    disk = Disk(tmp_path)

    assert not disk.roomy
    assert not (tmp_path / "ballast").exists()


def test_a_directory_that_is_gone_has_no_room(tmp_path: Path) -> None:
    assert not Disk(tmp_path / "nowhere").roomy


def test_ballast_goes_with_the_broker(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.look()

    disk.close()

    assert list(tmp_path.iterdir()) == []
