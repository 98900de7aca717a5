"""What the kernel tells of mapped pages."""

import mmap
import os
from pathlib import Path

import pytest

from grn_zmq import pages

PAGE = mmap.PAGESIZE
COUNT = 300


@pytest.fixture
def mapped(tmp_path: Path) -> mmap.mmap:
    """A file, mapped for changes of our own, of which nothing was read yet."""
    path = tmp_path / "file"
    path.write_bytes(bytes(COUNT * PAGE - 10))
    fd = os.open(path, os.O_RDONLY)
    try:
        return mmap.mmap(fd, 0, access=mmap.ACCESS_COPY)
    finally:
        os.close(fd)


def look(mapped: mmap.mmap) -> pages.Pages:
    found = pages.pages_of(mapped)
    if found is None:
        pytest.skip("pagemap cannot be read here")
    return found


def test_what_was_read_is_resident_and_not_changed(mapped: mmap.mmap) -> None:
    assert look(mapped) == (0, False)

    assert sum(mapped[at] for at in range(0, len(mapped), PAGE)) == 0

    assert look(mapped) == (COUNT * PAGE, False)


@pytest.mark.parametrize("at", [0, 100 * PAGE + 7, COUNT * PAGE - 11])
def test_one_changed_byte_is_seen(mapped: mmap.mmap, at: int) -> None:
    mapped[at] = 1

    assert look(mapped).changed


def test_many_scattered_changes_are_seen(mapped: mmap.mmap) -> None:
    for at in range(0, len(mapped), 2 * PAGE):
        mapped[at] = 1

    assert look(mapped).changed
