"""Columns of the live view: of fixed width, and fewer of them on a narrow screen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .styled import padded

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One fact of each row; those of the highest `rank` go first where room is scarce."""

    header: str
    width: int
    rank: int
    text: Callable[[T], str]
    right: bool = True


def fitting(columns: Sequence[Column[T]], room: int) -> list[Column[T]]:
    """Give the columns for which there is room, in their order."""
    kept = list(columns)
    while kept and width_of(kept) > room:
        kept.remove(max(kept, key=lambda one: one.rank))
    return kept


def width_of(columns: Sequence[Column[T]]) -> int:
    """The cells that they take, with a space before each."""
    return sum(one.width + 1 for one in columns)


def header_of(columns: Sequence[Column[T]]) -> str:
    return "".join(f" {padded(one.header, one.width, right=one.right)}" for one in columns)


def cells_of(columns: Sequence[Column[T]], row: T) -> str:
    return "".join(f" {padded(one.text(row), one.width, right=one.right)}" for one in columns)
