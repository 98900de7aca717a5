"""Functions and values that can be imported, for tests of what travels by its name."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grn_zmq as grn


def plain(x: int) -> tuple[str, int]:
    return "plain", x


@grn.job()
def decorated(x: int) -> int:
    return x


class Opened:
    """Knows in which thread it was unpickled."""

    thread = ""

    def __reduce__(self) -> "tuple[type[Opened], tuple[()], str]":
        return Opened, (), "opened"

    def __setstate__(self, state: str) -> None:
        self.thread = threading.current_thread().name


_go_on = threading.Event()


class Hangs:
    """Takes as long to unpickle as a test wants."""

    def __reduce__(self) -> "tuple[type[Hangs], tuple[()], str]":
        return Hangs, (), "hangs"

    def __setstate__(self, state: str) -> None:
        _go_on.wait(60)


@contextmanager
def hanging() -> Iterator[None]:
    """While this lasts, no `Hangs` is opened."""
    _go_on.clear()
    try:
        yield
    finally:
        _go_on.set()
