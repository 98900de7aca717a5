"""Which job types are meant by what a user writes: the whole name, or its last part."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from ..naming import short_type

# What may stand before the last part of a type: `/train.py`, `::fit`, `models.train::fit`.
_BORDERS: Final = "/:. "
MOST_NEAR: Final = 5


def matching(written: str, job_types: Iterable[str]) -> list[str]:
    """Give the types that are meant: the one of this very name, or all that end in it."""
    known = sorted(set(job_types))
    if written in known:
        return [written]
    return [one for one in known if _ends_in(one, written)]


def _ends_in(job_type: str, written: str) -> bool:
    before = job_type.removesuffix(written)
    if before == job_type:
        return False
    # Of `--bs #` in a command, `bs #` are whole words, too.
    return before.endswith(tuple(_BORDERS)) or before.rstrip("-").endswith(" ")


def near(written: str, job_types: Iterable[str]) -> list[str]:
    """Give types that may have been meant, the likeliest first."""
    names: dict[str, str] = {}
    for one in sorted(set(job_types)):
        for name in (one, short_type(one), one.rpartition("::")[2]):
            names.setdefault(name, one)
    found = [names[name] for name in get_close_matches(written, names, n=MOST_NEAR * 3)]
    return list(dict.fromkeys(found))[:MOST_NEAR]
