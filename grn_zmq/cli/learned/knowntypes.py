"""Job types as users write them: what is known under such a name, or an error that helps."""

import os
from collections.abc import Iterable, Sequence

from ...errors import GrnError
from ..matching import matching, near


class UnknownType(GrnError, LookupError):
    """Nothing is known of such a job type, or of several."""


def meant(written: str, known: Iterable[str]) -> list[str]:
    """Give the types that are meant: the one of this very name, or all that end in it.

    Raises:
        UnknownType: There is none; the text names those that are near.
    """
    known = set(known)
    found = matching(written, known)
    if found:
        return found
    likely = near(written, known)
    hint = f"did you mean {' or '.join(likely)}?" if likely else "`grn profiles` lists all"
    raise UnknownType(f"nothing is known of a job type {written}: {hint}")


def only(written: str, known: Iterable[str]) -> str:
    """Give the one type that is meant.

    Raises:
        UnknownType: There is none, or there are several.
    """
    return _one(written, meant(written, known))


def named(written: str, known: Iterable[str]) -> str:
    """Give the type that is meant, also one that was never seen.

    Functions of a script are known by its real path: `train.py::fit` is that of the file here.

    Raises:
        UnknownType: Several known ones may be meant.
    """
    found = matching(written, known)
    if found:
        return _one(written, found)
    path, colons, name = written.rpartition("::")
    return f"{os.path.realpath(path)}::{name}" if colons and os.path.isfile(path) else written


def _one(written: str, found: Sequence[str]) -> str:
    if len(found) > 1:
        raise UnknownType(f"{written} may be {' or '.join(found)}: write more of it")
    return found[0]
