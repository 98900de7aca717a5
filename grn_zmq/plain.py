"""Values that can be opened anywhere: to unpickle them runs no code of the user."""

import copyreg
import io
import pickle
from typing import Any, Final

# Larger ones take time, of which whoever receives for all has none.
MAX_BYTES: Final = 4096
# Without this step of the pickle machine no class or function is looked up, so none is called.
_STACK_GLOBAL: Final = b"\x93"


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
