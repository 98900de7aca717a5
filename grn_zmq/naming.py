"""What a job type is called: the same string wherever and however the program is started."""

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable
from typing import Any

# What a job type may have at most; the same as `records.MAX_NAME`, which is not imported here
# because the wire comes only with the first call.
MAX_NAME = 4096

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
