"""What texts that travel must look like; each check says what is wrong."""

from collections.abc import Sequence
from string import ascii_letters, digits
from typing import Final

from .limits import MAX_WORD

_HEX: Final = frozenset("0123456789abcdef")
_WORD: Final = frozenset(ascii_letters + digits + "_-.")


def require(ok: bool, what: str) -> None:
    if not ok:
        raise ValueError(what)


def require_id(text: str, what: str = "job id") -> None:
    require(len(text) == 32 and _HEX.issuperset(text), f"{text[:40]!r} is not a {what}")


def require_ids(texts: Sequence[str]) -> None:
    """Job ids, looked at together: a message may have thousands."""
    if texts and not (set(map(len, texts)) == {32} and _HEX.issuperset("".join(texts))):
        for text in texts:
            require_id(text)


def require_columns(*columns: Sequence[object]) -> None:
    """Lists that say each something of the same things."""
    require(len(set(map(len, columns))) == 1, "columns of different length")


def require_token(text: str) -> None:
    """A name of a parcel: where it lies, whose it is, and which one."""
    where, _, name = text.partition("-")
    session, _, random = name.partition("-")
    fine = where in ("shm", "disk") and len(session) == 32 and len(random) == 32
    require(fine and _HEX.issuperset(session + random), f"{text[:40]!r} is not a token")


def require_word(text: str) -> None:
    """A name that people gave: of a queue, an environment, a device."""
    require(len(text) <= MAX_WORD, f"a name has at most {MAX_WORD} characters")
    require(text.isprintable() and " " not in text, f"{text[:40]!r} is not a name")


def require_name(text: str) -> None:
    """A name of a resource, from which a variable of the environment can be made."""
    fine = _WORD.issuperset(text) and len(text) <= MAX_WORD and not text[:1].isdigit()
    require(fine and text != "", f"{text[:40]!r} is not a name of a resource")
