"""Proof that a function, pickled again, would give the same bytes.

Functions are pickled at each call, so that whatever was changed since is never stale. That can
be left out only where nothing can have changed: all that the pickle was made from is immutable,
and is the very same object as then. Whatever is mutable, or not known here, proves nothing.
"""

import dis
import functools
import sys
import types
from collections.abc import Iterator, Mapping, Sized
from dataclasses import fields
from typing import Any, Final

from .decorator import JobFunction

_MISSING: Final = object()
_ATOMS: Final = frozenset({int, float, complex, bool, str, bytes, type(None), type(...)})
# Held as long as its function is not called again: large ones shall not be.
_MAX_TEXT: Final = 64 << 10
# Functions that use more than this are rare, and to look at it all would cost as much.
_MAX_PARTS: Final = 200
_GLOBAL_STEPS: Final = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})
# What else of the globals of a function travels with it.
_OF_MODULE: Final = ("__package__", "__name__", "__path__", "__file__")
_OF_FUNCTION: Final = (
    "__code__",
    "__defaults__",
    "__kwdefaults__",
    "__dict__",
    "__annotations__",
    "__name__",
    "__qualname__",
    "__module__",
    "__doc__",
)
_OF_JOB: Final = (
    "grn_function",
    "options",
    "stand_in",
    "job_type",
    "__module__",
    "__qualname__",
)
_ALIASES: Final = (types.GenericAlias, types.UnionType)


class Proof:
    """What was looked at, and what was found there."""

    __slots__ = ("attributes", "cells", "entries", "sizes")

    def __init__(self) -> None:
        self.entries: list[tuple[Mapping[Any, Any], Any, object]] = []
        self.attributes: list[tuple[object, str, object]] = []
        self.cells: list[tuple[types.CellType, object]] = []
        self.sizes: list[tuple[Sized, int]] = []

    def without_repetitions(self) -> "Proof":
        """The same, each look once."""
        self.entries = list({(id(one[0]), one[1]): one for one in self.entries}.values())
        self.attributes = list({(id(one[0]), one[1]): one for one in self.attributes}.values())
        self.sizes = list({id(one[0]): one for one in self.sizes}.values())
        return self

    def holds(self) -> bool:
        """Whether the same is found there now."""
        for mapping, key, found in self.entries:
            if mapping.get(key, _MISSING) is not found:
                return False
        for thing, name, found in self.attributes:
            if getattr(thing, name, _MISSING) is not found:
                return False
        for container, size in self.sizes:
            if len(container) != size:
                return False
        return all(_contents(cell) is found for cell, found in self.cells)


class _CannotProve(Exception):
    """Something can change without being seen."""


def prove(job: JobFunction[..., Any]) -> Proof | None:
    """Look at all that a job's function and stand-in are pickled from; None if in vain."""
    looking = _Looking()
    try:
        looking.look_at_call(job)
    except Exception:  # mutable, or so odd that looking at it fails
        return None
    return looking.proof.without_repetitions()


class _Looking:
    """One walk over everything in sight, each thing once."""

    def __init__(self) -> None:
        self.proof = Proof()
        self._seen: dict[int, object] = {}

    def look_at_call(self, job: JobFunction[..., Any]) -> None:
        """The job itself, its options, and by which code it is known, however it travels."""
        from cloudpickle import cloudpickle

        by_value = cloudpickle._PICKLE_BY_VALUE_MODULES
        if by_value:
            raise _CannotProve  # modules that travel by value can change anywhere
        self.proof.sizes.append((by_value, 0))
        self._job_itself(job)
        self.look(job)
        self.look(job.stand_in)
        self._code_behind(job)

    def look(self, value: Any) -> None:
        kind = type(value)
        if kind in _ATOMS:
            if kind in (str, bytes) and len(value) > _MAX_TEXT:
                raise _CannotProve
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if len(self._seen) > _MAX_PARTS:
            raise _CannotProve
        self._look_inside(kind, value)

    def _look_inside(self, kind: type, value: Any) -> None:
        if kind in (tuple, frozenset):
            for item in value:
                self.look(item)
        elif kind is types.ModuleType:
            self._entry(sys.modules, value.__name__, value)
        elif kind is types.FunctionType:
            if not self._by_name(value):
                self._function(value)
        elif kind is JobFunction:
            if not self._by_name(value):
                self._job(value)
        elif kind is types.BuiltinFunctionType or isinstance(value, type):
            if value is not types.NoneType and not self._by_name(value):
                raise _CannotProve
        elif kind in _ALIASES or kind.__module__ == "typing":
            self.look(getattr(value, "__origin__", None))
            self.look(getattr(value, "__args__", ()))
        else:
            raise _CannotProve

    def _by_name(self, value: Any) -> bool:
        """Whether it travels as a name, because it is found under it."""
        name, path = value.__module__, value.__qualname__
        module = sys.modules.get(name) if isinstance(name, str) else None
        if name == "__main__" or module is None:
            return False
        entries: list[tuple[Mapping[Any, Any], Any, object]] = [(sys.modules, name, module)]
        found: Any = module
        for part in path.split("."):
            inside = getattr(found, "__dict__", {})
            found = inside.get(part, _MISSING)
            entries.append((inside, part, found))
        if found is not value:
            return False
        self.proof.entries += entries
        for kept, found in (("__module__", name), ("__qualname__", path)):
            if getattr(value, kept) is found:  # else made for who asks: it cannot be changed
                self.proof.attributes.append((value, kept, found))
        return True

    def _function(self, function: types.FunctionType) -> None:
        if function.__module__ != "__main__" and "<" not in function.__qualname__:
            raise _CannotProve  # it may be found by its name in another way than ours
        for name in _OF_FUNCTION:
            self._attribute(function, name)
        self.look(function.__defaults__)
        for kept in (function.__kwdefaults__, function.__dict__, function.__annotations__):
            if kept is not None:
                self._mapping(kept)
        for name in {*_OF_MODULE, *_globals_in(function.__code__)}:
            self._entry(function.__globals__, name)
        for cell in function.__closure__ or ():
            content = _contents(cell)
            self.proof.cells.append((cell, content))
            self.look(content)
        # Modules below one that it uses travel with it if they are loaded.
        self.proof.sizes.append((sys.modules, len(sys.modules)))

    def _job(self, job: JobFunction[..., Any]) -> None:
        self._job_itself(job)
        self.look(job.grn_function)
        self.look(job.stand_in)

    def _job_itself(self, job: JobFunction[..., Any]) -> None:
        for name in _OF_JOB:
            self._attribute(job, name)
        for one in fields(job.options):
            value = getattr(job.options, one.name)
            if isinstance(value, Mapping):
                self._mapping(value)
            else:
                self.look(value)

    def _code_behind(self, job: JobFunction[..., Any]) -> None:
        """What `naming.version_of_function` reads."""
        thing: Any = job
        for _ in range(_MAX_PARTS):
            if isinstance(thing, functools.partial):
                raise _CannotProve
            self._attribute(thing, "__code__")
            self._attribute(thing, "__wrapped__")
            thing = getattr(thing, "__wrapped__", None)
            if thing is None:
                return
        raise _CannotProve

    def _attribute(self, thing: object, name: str) -> None:
        self.proof.attributes.append((thing, name, getattr(thing, name, _MISSING)))

    def _entry(self, mapping: Mapping[Any, Any], name: str, value: Any = _MISSING) -> None:
        found = mapping.get(name, _MISSING)
        if value is not _MISSING and found is not value:
            raise _CannotProve
        self.proof.entries.append((mapping, name, found))
        if found is not _MISSING and value is _MISSING:
            self.look(found)

    def _mapping(self, mapping: Mapping[Any, Any]) -> None:
        if type(mapping) is not dict:
            raise _CannotProve
        self.proof.sizes.append((mapping, len(mapping)))
        for key, value in list(mapping.items()):
            self.look(key)
            self.proof.entries.append((mapping, key, value))
            self.look(value)


def _contents(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # the variable is not bound
        return _MISSING


def _globals_in(code: types.CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in _GLOBAL_STEPS:
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_in(constant)
