"""Environments under their names: with the version, and the newest also without. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from ..records import Offer
from .environment import Environment

_PARTS: Final = re.compile(r"\d+|[A-Za-z]+")


class Catalogue:
    """The environments that a worker offers."""

    def __init__(self, environments: Iterable[Environment] = ()) -> None:
        """Take them in.

        Raises:
            ValueError: Two have the same name; the text has it.
        """
        self._by_name: dict[str, Environment] = {}
        newest: dict[str, Environment] = {}
        for one in environments:
            if one.full_name in self._by_name:
                raise ValueError(one.full_name)
            self._by_name[one.full_name] = one
            if one.version:
                other = newest.setdefault(one.name, one)
                newest[one.name] = max(other, one, key=lambda each: version_key(each.version))
        for name, one in newest.items():
            if name in self._by_name:
                raise ValueError(name)
            self._by_name[name] = one

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Environment]:
        return iter({one.full_name: one for one in self._by_name.values()}.values())

    def find(self, name: str) -> Environment | None:
        """Give the environment of this name, with or without a version."""
        return self._by_name.get(name)

    @property
    def names(self) -> list[str]:
        return sorted(self._by_name)

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What the broker is told, a line for each name."""
        return tuple(Offer(name, *_facts(name, one)) for name, one in self._by_name.items())


def _facts(name: str, one: Environment) -> tuple[str, str]:
    text = one.described()
    return one.kind, text if name == one.full_name else f"{one.full_name}: {text}"


def version_key(version: str) -> list[tuple[int, int, str]]:
    """Order versions as people do: 1.10 after 1.9, and 2.0rc1 before 2.0."""
    parts = [
        (1, int(part), "") if part.isdigit() else (-1, 0, part.lower())
        for part in _PARTS.findall(version)
    ]
    return [*parts, (0, 0, "")]
