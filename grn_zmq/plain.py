"""Plain values: numbers, texts, bytes. To pickle or unpickle them runs no code of the user."""

import copyreg
import io
import pickle
from collections.abc import Collection
from typing import Any, Final

# Larger ones take time, of which whoever receives for all has none.
MAX_BYTES: Final = 4096
# Without this step of the pickle machine no class or function is looked up, so none is called.
_STACK_GLOBAL: Final = b"\x93"
_MAX_ITEMS: Final = 256
_NUMBERS: Final = frozenset({int, float, bool, type(None)})
_TEXTS: Final = frozenset({str, bytes})


class _NotPlain(Exception):
    """A class or a function is needed to open this."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise _NotPlain


def open_plain(payload: bytes) -> tuple[Any] | None:
    """Give a value of numbers, texts, bytes, lists, dicts and the like; None for all else."""
    extended: dict[Any, int] = copyreg._extension_registry  # type: ignore[attr-defined]
    if not 0 < len(payload) <= MAX_BYTES or extended:
        return None
    try:
        if _STACK_GLOBAL in payload:  # or it is a byte of some number or text
            return (_Unpickler(io.BytesIO(payload)).load(),)
        return (pickle.loads(payload),)
    except Exception:
        return None


def is_plain(values: Collection[object]) -> bool:
    """Whether all of these are small numbers and texts, or short lists and tuples of such."""
    for value in values:
        kind = type(value)
        if kind in _NUMBERS:
            continue
        if kind in _TEXTS:
            if len(value) > MAX_BYTES:  # type: ignore[arg-type]
                return False
        elif kind not in (list, tuple) or not _is_plain_list(value):  # type: ignore[arg-type]
            return False
    return True


def _is_plain_list(values: Collection[object]) -> bool:
    return len(values) <= _MAX_ITEMS and _NUMBERS.issuperset(map(type, values))
