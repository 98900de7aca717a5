"""The environment of a job process: its client's, and on top that of one run at a time."""

import ctypes
import os
import time
from collections.abc import Mapping
from typing import Final

from . import caps

# Of a job id, or of any number.
_LONGEST: Final = 40
_libc: Final = ctypes.PyDLL(None)
# What `os.environ` shows; setting an item there would call `setenv` as well.
_python_environ: Final[dict[bytes, bytes]] = getattr(os.environ, "_data")  # noqa: B009
# Of the job that asked for this one, if one did: what that is called, and was granted.
_NOT_INHERITED: Final = ("GRN_JOB_NAME", "GRN_RESOURCES", "GRN_RESOURCE_", "GRN_AMOUNT_")


class InPlace:
    """A variable of the environment that changes often, and is never copied.

    What `setenv` has once set stays in memory for ever: a hundred bytes with every job.
    """

    def __init__(self, name: str) -> None:
        self._name = name.encode()
        start = self._name + b"="
        self._begin = len(start)
        self._text = ctypes.create_string_buffer(start, len(start) + _LONGEST + 1)
        self._bytes = memoryview(self._text).cast("B")

    def enter(self) -> None:
        """Be the variable of this name from now on, instead of any other."""
        self.set(b"")
        _libc.putenv(self._text)

    def set(self, value: bytes) -> None:
        """Change it, for Python and for C; at most 40 bytes."""
        begin = self._begin
        end = begin + len(value)
        self._bytes[begin:end] = value
        self._bytes[end] = 0
        _python_environ[self._name] = value


class JobEnvironment:
    """What `os.environ` is between runs, and what the present run has changed in it."""

    def __init__(self) -> None:
        self._base: dict[str, str] = {}
        self._names: set[str] = set()
        self._refused = ""

    def adopt(self, base: Mapping[str, str]) -> None:
        """Begin with these; what was only for the job that asked for this one goes."""
        self._base = dict(base)
        for environment in (self._base, os.environ):
            for name in [one for one in environment if one.startswith(_NOT_INHERITED)]:
                del environment[name]
        caps.lift_inherited(self._base, os.environ)

    def update(self, header: Mapping[str, object], cap: caps.Cap | None) -> None:
        """Set the variables of this run, and put back those only the run before had."""
        asked = texts_in(header, "environment")
        wanted = caps.environment(cap, {**self._base, **asked}) | asked
        wanted["GRN_JOB_ID"] = str(header["job_id"])
        wanted["GRN_ATTEMPT"] = str(header["attempt"])
        for name in self._names - wanted.keys():
            if name in self._base:
                os.environ[name] = self._base[name]
            else:
                os.environ.pop(name, None)
        self._names, self._refused = set(), ""
        for name, text in wanted.items():
            self._set(name, text)
        time.tzset()

    def _set(self, name: str, text: str) -> None:
        try:
            os.environ[name] = text
            self._names.add(name)
        except (ValueError, OSError):  # a NUL, or a name that is empty or has a `=`
            self._refused = f"{name!r} cannot be an environment variable"

    def check(self) -> None:
        """Let a run whose variables could not all be set fail.

        Raises:
            ValueError: One could not; the text names it.
        """
        if self._refused:
            raise ValueError(self._refused)


def texts_in(header: Mapping[str, object], name: str) -> dict[str, str]:
    """Give the names and texts that a packet has under this name; none if it has not."""
    texts = header.get(name)
    return dict(texts) if isinstance(texts, dict) else {}
