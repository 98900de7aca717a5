"""What a job type is called: the same string wherever and however the program is started."""

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

from .limits import MAX_NAME

_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?\Z")


def type_of_function(function: Callable[..., Any]) -> str:
    """`module::qualname` for what can be imported, else the script's real path."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if name.rpartition(".")[2] == "<lambda>":
        name += _position(function)
    module = getattr(function, "__module__", None) or type(function).__module__
    if module != "__main__":
        return f"{module}::{name}"
    return f"{_main_path(function)}::{name}"


def _position(function: Callable[..., Any]) -> str:
    """Tell lambdas apart by where they stand, or by what they say where Python forgot that."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    columns = [column for _, _, column, _ in code.co_positions() if column]
    if columns:
        return f":{code.co_firstlineno}:{min(columns)}"
    import zlib

    said = zlib.crc32(repr((code.co_consts, code.co_names)).encode())
    return f":{code.co_firstlineno}:{said:08x}"  # Python 3.12, a lambda that is a constant


def _main_path(function: Callable[..., Any]) -> str:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name not in ("__main__", None):
        return str(spec.name).removesuffix(".__main__")  # python -m package.module
    path = getattr(main, "__file__", None)
    if path is None:
        try:
            path = inspect.getfile(function)
        except (TypeError, OSError):
            return "<interactive>"
    return os.path.realpath(path) if not path.startswith("<") else path


def name_of_class(kind: type) -> str:
    """The full name of a class, bare where everybody means the same by it."""
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def type_of_command(text: str) -> str:
    """The command text with words that are numbers written `#`: the same job, other values."""
    words = re.split(r"(\s+|=)", text.strip())
    typed = "".join("#" if _NUMBER.match(word) else word for word in words)
    typed = typed.encode("utf-8", "backslashreplace").decode()
    if len(typed) <= MAX_NAME:
        return typed
    import hashlib

    tail = hashlib.sha256(typed.encode()).hexdigest()
    return f"{typed[: MAX_NAME - len(tail) - 1]}…{tail}"


def short_type(job_type: str) -> str:
    """A job type for people: of a script's path only the file."""
    path, colons, name = job_type.rpartition("::")
    return f"{os.path.basename(path)}::{name}" if colons and path[:1] == "/" else job_type


def printable(text: str) -> str:
    """Show text of users without control characters that could act on a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def version_of_function(function: Callable[..., Any]) -> str:
    """Name what the function does now: other code gives another text, other lines do not."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ""
    import hashlib

    return hashlib.sha256(b"\0".join(_said(code))).hexdigest()[:16]


def _said(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr(code.co_names).encode(errors="backslashreplace")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _said(constant)
        else:
            yield _repr(constant).encode(errors="backslashreplace")


def _repr(constant: object) -> str:
    """The same text in every process: sets of texts have another order in each."""
    if isinstance(constant, frozenset):
        return f"{{{', '.join(sorted(map(_repr, constant)))}}}"
    if isinstance(constant, tuple):
        return f"({', '.join(map(_repr, constant))})"
    return repr(constant)


def version_of_command(words: Sequence[str]) -> str:
    """Name the state of the programs in a command line: when each was last written."""
    programs = [word for at, word in enumerate(words) if at == 0 or word.endswith(".py")]
    times: list[str] = []
    for program in programs:
        try:
            times.append(str(os.stat(program).st_mtime_ns))
        except (OSError, ValueError):
            continue  # found through PATH, or no file at all
    return " ".join(times)
