"""Pickled bytes that only the client and the job process open.

What is heavy is imported inside the functions: importing this module, and with it `grn_zmq`,
stays cheap until the first call.
"""

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from .errors import DiskFull, NotPicklable

AnyFunction = Callable[..., Any]
Payload = bytes | memoryview


class SupportsWrite(Protocol):
    """Where a pickle goes."""

    def write(self, data: bytes, /) -> object: ...


PROTOCOL: Final = 5
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
    return _dump((function, stand_in), lambda: _blame_functions(function, stand_in))


def load_function(blob: Payload) -> tuple[AnyFunction, AnyFunction | None]:
    """Return the undecorated function and its stand-in."""
    import pickle

    function, stand_in = pickle.loads(blob)
    return _undecorated(function), None if stand_in is None else _undecorated(stand_in)


def dump_arguments(
    args: Sequence[object],
    kwargs: Mapping[str, object],
    function: AnyFunction | None = None,
) -> bytes:
    """Pickle the arguments of one call.

    Args:
        function: Whose arguments they are; only used to name one that cannot travel.

    Raises:
        NotPicklable: Names the argument, and the part of it, that cannot travel.
    """
    return _dump((tuple(args), dict(kwargs)), lambda: _blame_arguments(args, kwargs, function))


def write_arguments(
    args: Sequence[object],
    kwargs: Mapping[str, object],
    function: AnyFunction | None,
    file: SupportsWrite,
) -> None:
    """Pickle the arguments of one call into a file, without a copy of large ones.

    Raises:
        NotPicklable: Names the argument, and the part of it, that cannot travel.
    """
    _dump_into(
        (tuple(args), dict(kwargs)), file, lambda: _blame_arguments(args, kwargs, function)
    )


def load_arguments(blob: Payload) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments of one call."""
    import pickle

    args, kwargs = pickle.loads(blob)
    return args, kwargs


def dump_value(value: object) -> bytes:
    """Pickle what a function returned.

    Raises:
        NotPicklable: Names the part of the result that cannot travel.
    """
    return _dump(value, lambda: _blame(value, "the result"))


def load_value(blob: Payload) -> Any:
    """Return what the function returned."""
    import pickle

    return pickle.loads(blob)


def _undecorated(function: AnyFunction) -> AnyFunction:
    inner: AnyFunction = getattr(function, "grn_function", function)
    return inner


def _dump(value: object, blame: Callable[[], str]) -> bytes:
    import io

    file = io.BytesIO()
    _dump_into(value, file, blame)
    return file.getvalue()


def _dump_into(value: object, file: SupportsWrite, blame: Callable[[], str]) -> None:
    import cloudpickle

    try:
        cloudpickle.dump(value, file, protocol=PROTOCOL)
    except (DiskFull, OSError):
        raise
    except Exception as error:
        raise NotPicklable(blame(), error) from error


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
