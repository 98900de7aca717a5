"""Whether a peer lives: only the kernel's word that it does not counts."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loguru import logger

from broker.watching import Watching


@pytest.fixture
def watching() -> Iterator[Watching]:
    watching = Watching()
    yield watching
    watching.close()


@pytest.fixture
def errors() -> Iterator[list[str]]:
    said: list[str] = []
    sink = logger.add(lambda message: said.append(str(message)), level="ERROR")
    yield said
    logger.remove(sink)


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no further file."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = os.open(os.devnull, os.O_RDONLY)  # the lowest that was free
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        os.close(last)


def nobody() -> int:
    """A pid that no process can have."""
    return int(Path("/proc/sys/kernel/pid_max").read_text())


def test_a_process_that_does_not_exist_is_gone(watching: Watching) -> None:
    watching.watch("a", nobody())

    assert watching.take_gone() == ["a"]
    assert watching.take_gone() == []


def test_a_living_process_that_cannot_be_watched_is_not_gone(
    watching: Watching, errors: list[str]
) -> None:
    with no_more_files():
        watching.watch("a", os.getpid())
        watching.watch("b", os.getpid())

        assert watching.take_gone() == []

    assert len(errors) == 1
    assert "limit of open files" in errors[0]


def test_it_is_watched_once_there_is_room(watching: Watching, errors: list[str]) -> None:
    with no_more_files():
        watching.watch("a", os.getpid())
    assert "a" not in watching._pidfds

    watching.watch("b", nobody())

    assert watching.take_gone() == ["b"]
    assert "a" in watching._pidfds
