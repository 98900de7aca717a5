"""Profiles as a document: written by export, read by import with suspicion.

It says what was measured of job types on models of device, and of the machine only what their
names say. All of it is checked before any of it is used.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final, NoReturn, get_type_hints

from ...cellbounds import MOST
from ...errors import GrnError
from ...facts import CellRow
from ...limits import MAX_NAME
from ...records import require_scalar
from ...requiring import require
from ...wire import PutCells, encode
from .cells import CellKey, key_of, share_of_cell

FORMAT: Final = "grn-profiles"
VERSION: Final = 1

_MOST: Final[Mapping[str, float]] = {"devices": 1, **MOST}
_HINTS: Final = get_type_hints(CellRow)
_MOST_SHOWN: Final = 40


class BadDocument(GrnError, ValueError):
    """What was to be imported is no export of profiles, or was damaged."""


def document_of(rows: Iterable[CellRow]) -> dict[str, Any]:
    """What an export says."""
    return {"format": FORMAT, "version": VERSION, "cells": [asdict(row) for row in rows]}


def read_document(data: bytes, name: str) -> list[CellRow]:
    """Give the cells of an export.

    Args:
        name: What to call it in errors.

    Raises:
        BadDocument: It is none, or something in it cannot be; says what and where.
    """
    try:
        cells = _cells_in(_parsed(data))
        rows = [_row(at, cell) for at, cell in enumerate(cells, start=1)]
        _check_once(rows)
    except ValueError as error:
        raise BadDocument(f"{name}: {error}; nothing was imported") from None
    return rows


def _parsed(data: bytes) -> Any:
    try:
        text = data.decode("utf-8-sig")
        return json.loads(text, parse_int=_whole, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise ValueError(f"not a text in UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"not JSON: {error.msg} ({where})") from None
    except RecursionError:
        raise ValueError("not an export of profiles: too deeply nested") from None


def _whole(text: str) -> int:
    require(len(text) <= _MOST_SHOWN, f"{text[:_MOST_SHOWN]}… is too long for a number")
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _cells_in(document: Any) -> list[Any]:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(
            f'not an export of profiles: it has no "format": "{FORMAT}". '
            "`grn profiles export -o FILE` writes one"
        )
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise ValueError(
            f"version {_short(version)} of the format is not known here, only {VERSION}: "
            "import it with the grn that wrote it, or a newer one"
        )
    cells = document.get("cells")
    if not isinstance(cells, list):
        raise ValueError('"cells" is no list')
    return cells


def _row(at: int, cell: Any) -> CellRow:
    where = f"cell {at}"
    if not isinstance(cell, dict):
        raise ValueError(f"{where} is {_short(cell)}, no object")
    if isinstance(cell.get("job_type"), str):
        where = f"{where} ({cell['job_type'][:80]})"
    try:
        _check_names(cell)
        for name, hint in _HINTS.items():
            cell[name] = _checked(name, cell[name], hint)
        row = CellRow(**cell)
        _check_size(row)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return row


def _check_names(cell: Mapping[str, Any]) -> None:
    missing = [name for name in _HINTS if name not in cell]
    require(not missing, f"{', '.join(missing)} is missing")
    unknown = [name[:_MOST_SHOWN] for name in cell if name not in _HINTS]
    require(not unknown, f"{', '.join(unknown)} is not known")


def _checked(name: str, value: Any, hint: Any) -> Any:
    """Give the value of a field if it is of the right type and can have been measured."""
    if hint is str:
        require(type(value) is str, f"{name} is {_short(value)}, no text")
        check_text(name, value)
        return value
    if name == "by":
        require(isinstance(value, dict), f"by is {_short(value)}, no object")
        for key, one in value.items():
            _check_value(key, one)
        return value
    whole = hint is int
    fine = type(value) is int or (type(value) is float and not whole)
    require(fine, f"{name} is {_short(value)}, no {'whole ' if whole else ''}number")
    least, most = int(name == "devices"), _MOST[name]
    bounds = f"from {least} to {most:.17g}" if least < most else f"{least}"
    require(least <= value <= most, f"{name} is {_short(value)}, not {bounds}")
    return hint(value)


def _check_value(name: str, value: Any) -> None:
    check_text("a name in by", name)
    fine = type(value) in (int, float, str, bool)
    require(fine, f"{name} in by is {_short(value)}, neither number nor text")
    try:
        require_scalar(value)
    except ValueError as error:
        raise ValueError(f"{name[:_MOST_SHOWN]} in by: {error}") from None


def check_text(name: str, text: str) -> None:
    """Refuse, with a `ValueError`, what is too long or cannot travel."""
    require(len(text) <= MAX_NAME, f"{name} has more than {MAX_NAME} characters")
    whole = text.encode(errors="ignore").decode() == text
    require(whole, f"{name} has characters that are no Unicode")


def _check_size(row: CellRow) -> None:
    """What is too large for a message on the safe side may fit in truth."""
    if share_of_cell(row) > 1.0:
        encode(PutCells((row,)))


def _check_once(rows: Iterable[CellRow]) -> None:
    seen: dict[CellKey, int] = {}
    for at, row in enumerate(rows, start=1):
        first = seen.setdefault(key_of(row), at)
        require(first == at, f"cells {first} and {at} are of the same job type and values")


def _short(value: object) -> str:
    """A wrong value in a few words."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
