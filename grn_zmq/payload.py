"""Pickled bytes that only the client and the job process open.

Large buffers, such as arrays have, are not pickled but stand behind the pickle as they are, so
that they are copied once, into the file they travel in, and not at all by their reader:

    MAGIC, count, size of the pickle, count x (offset, size); pickle; the buffers, aligned

A payload without such buffers is the bare pickle.

What is heavy is imported inside the functions: importing this module, and with it `grn_zmq`,
stays cheap until the first call.
"""

import struct
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from .errors import NotPicklable
from .limits import SHARED_BYTES

AnyFunction = Callable[..., Any]
Payload = bytes | memoryview
Buffer = bytes | bytearray | memoryview

PROTOCOL: Final = 5
# No pickle begins like this.
MAGIC: Final = b"GRN5"
_HEAD: Final = struct.Struct("<4sIQ")
_PLACE: Final = struct.Struct("<QQ")
# What vector instructions like.
ALIGNED_TO: Final = 64
# How far the search for an unpicklable value goes down, and how wide: it names the culprit
# in practically every case and ends within a moment for large containers.
SEARCH_DEPTH: Final = 3
SEARCH_WIDTH: Final = 10_000


def digest(blob: Payload) -> str:
    """Name bytes by their content: 64 hexadecimal digits."""
    import hashlib

    return hashlib.sha256(blob).hexdigest()


def dump_function(function: AnyFunction, stand_in: AnyFunction | None = None) -> bytes:
    """Pickle a function and its measuring stand-in.

    Raises:
        NotPicklable: Names the variable, global or attribute that cannot travel.
    """
    packed = _dump((function, stand_in), lambda: _blame_functions(function, stand_in), None)
    return packed.joined()


def load_function(blob: Payload) -> tuple[AnyFunction, AnyFunction | None]:
    """Return the undecorated function and its stand-in."""
    import pickle

    function, stand_in = pickle.loads(blob)
    return _undecorated(function), None if stand_in is None else _undecorated(stand_in)


def dump_arguments(
    args: Sequence[object],
    kwargs: Mapping[str, object],
    function: AnyFunction | None = None,
) -> "Packed":
    """Pickle the arguments of one call; large buffers stay where they are.

    Args:
        function: Whose arguments they are; only used to name one that cannot travel.

    Raises:
        NotPicklable: Names the argument, and the part of it, that cannot travel.
    """
    return _dump((tuple(args), dict(kwargs)), lambda: _blame_arguments(args, kwargs, function))


def load_arguments(blob: Payload) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments of one call."""
    args, kwargs = _load(blob)
    return args, kwargs


def dump_value(value: object) -> "Packed":
    """Pickle what a function returned; large buffers stay where they are.

    Raises:
        NotPicklable: Names the part of the result that cannot travel.
    """
    return _dump(value, lambda: _blame(value, "the result"))


def load_value(blob: Payload) -> Any:
    """Return what the function returned."""
    return _load(blob)


class Packed(NamedTuple):
    """A payload in pieces that are still the memory of what was pickled."""

    pieces: Sequence[Buffer]
    size_bytes: int

    @classmethod
    def of(cls, body: bytes) -> "Packed":
        """Give one that is in one piece."""
        return cls((body,), len(body))

    def joined(self) -> bytes:
        """Copy it into one."""
        return b"".join(self.pieces)


def _undecorated(function: AnyFunction) -> AnyFunction:
    inner: AnyFunction = getattr(function, "grn_function", function)
    return inner


class _Pieces(list[Buffer]):
    """Takes a pickle bit by bit; large parts of it are not copied."""

    write = list.append


def _dump(
    value: object, blame: Callable[[], str], apart_bytes: int | None = SHARED_BYTES
) -> Packed:
    """Pickle; buffers of this size and more stand apart."""
    import pickle

    import cloudpickle

    stream, apart = _Pieces(), list[memoryview]()

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if apart_bytes is None or raw.nbytes < apart_bytes:
            return True
        apart.append(raw)
        return False

    try:
        cloudpickle.Pickler(stream, protocol=PROTOCOL, buffer_callback=stays).dump(value)
    except Exception as error:
        raise NotPicklable(blame(), error) from error
    size_bytes = sum(memoryview(one).nbytes for one in stream)
    return _framed(stream, size_bytes, apart) if apart else Packed(stream, size_bytes)


def _framed(stream: list[Buffer], stream_bytes: int, apart: list[memoryview]) -> Packed:
    """Put buffers behind a pickle, and in front of it where they are."""
    at = _HEAD.size + len(apart) * _PLACE.size + stream_bytes
    head, tail = [_HEAD.pack(MAGIC, len(apart), stream_bytes)], list[Buffer]()
    for raw in apart:
        gap = -at % ALIGNED_TO
        head.append(_PLACE.pack(at + gap, raw.nbytes))
        tail += (bytes(gap), raw)
        at += gap + raw.nbytes
    return Packed([b"".join(head), *stream, *tail], at)


def _load(blob: Payload) -> Any:
    """Unpickle; what stands apart becomes part of the value as it is, if it can be changed."""
    import pickle

    view = memoryview(blob)
    if bytes(view[: len(MAGIC)]) != MAGIC:
        return pickle.loads(view)
    _, count, stream_bytes = _HEAD.unpack_from(view)
    end = _HEAD.size + count * _PLACE.size
    places = _PLACE.iter_unpack(view[_HEAD.size : end])
    buffers: list[Buffer] = [view[at : at + size] for at, size in places]
    if view.readonly:
        buffers = [bytearray(one) for one in buffers]
    return pickle.loads(view[end : end + stream_bytes], buffers=buffers)


def _picklable(value: object) -> bool:
    import cloudpickle

    try:
        cloudpickle.dumps(value, protocol=PROTOCOL)
    except Exception:
        return False
    return True


def _blame_functions(function: AnyFunction, stand_in: AnyFunction | None) -> str:
    for candidate in (function, stand_in):
        if candidate is not None and not _picklable(candidate):
            inner = _undecorated(candidate)
            return _blame(inner, f"function {getattr(inner, '__name__', inner)!s}")
    return "the function together with its stand-in"


def _blame_arguments(
    args: Sequence[object], kwargs: Mapping[str, object], function: AnyFunction | None
) -> str:
    names = _parameter_names(function)
    for index, value in enumerate(args):
        if not _picklable(value):
            named = f"'{names[index]}'" if index < len(names) else str(index + 1)
            return _blame(value, f"argument {named}")
    for name, value in kwargs.items():
        if not _picklable(value):
            return _blame(value, f"argument '{name}'")
    return "the arguments together"


def _parameter_names(function: AnyFunction | None) -> list[str]:
    import inspect

    if function is None:
        return []
    try:
        parameters = inspect.signature(_undecorated(function)).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in positional]


def _blame(value: object, path: str, depth: int = SEARCH_DEPTH) -> str:
    """Name the innermost part of an unpicklable value that is unpicklable itself."""
    if depth > 0:
        for part_path, part in islice(_parts(value, path), SEARCH_WIDTH):
            if not _picklable(part):
                return _blame(part, part_path, depth - 1)
    return f"{path} ({_a_type(value)})"


def _parts(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, types.FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, types.MethodType):
        yield f"{path}.__self__", value.__self__
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{path}[{key!r}]", item
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item
    elif not isinstance(value, type | types.ModuleType):
        for name, item in getattr(value, "__dict__", {}).items():
            yield f"{path}.{name}", item


def _parts_of_function(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    name = function.__name__
    for variable, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True
    ):
        try:
            yield f"variable '{variable}' used by {name}", cell.cell_contents
        except ValueError:  # the variable is not bound yet
            continue
    for variable in _names_in(function.__code__):
        if variable in function.__globals__:
            yield f"global '{variable}' used by {name}", function.__globals__[variable]
    yield f"the defaults of {name}", function.__defaults__
    yield f"the defaults of {name}", function.__kwdefaults__


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _a_type(value: object) -> str:
    kind = type(value)
    if kind.__module__ in ("builtins", "__main__", kind.__qualname__):
        return f"a {kind.__qualname__}"
    return f"a {kind.__module__}.{kind.__qualname__}"
