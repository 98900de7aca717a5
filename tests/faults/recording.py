"""A disk that remembers what was written to it and when, and can lose power at any moment."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512


@dataclass(frozen=True, slots=True)
class Wrote:
    file: str
    offset: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cut:
    """A file was made shorter."""

    file: str
    size: int


@dataclass(frozen=True, slots=True)
class Synced:
    file: str


@dataclass(frozen=True, slots=True)
class Removed:
    file: str


@dataclass(frozen=True, slots=True)
class Told:
    """From here on somebody was told of all that was asked before; `what` counts it."""

    what: int


Event = Wrote | Cut | Synced | Removed | Told


class RecordingVFS(apsw.VFS):
    """Writes through to the real file system, and keeps a list of it."""

    def __init__(self, name: str) -> None:
        self.events: list[Event] = []
        super().__init__(name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> "RecordingFile":  # noqa: N802
        return RecordingFile(self.events, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.events.append(Removed(Path(filename).name))
        super().xDelete(filename, syncdir)


class RecordingFile(apsw.VFSFile):
    def __init__(self, events: list[Event], name: Any, flags: list[int]) -> None:
        self._events = events
        filename = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(filename or "temporary").name
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._events.append(Wrote(self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._events.append(Cut(self._name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._events.append(Synced(self._name))
        super().xSync(flags)


class Disk:
    """What is safe on the disk after a number of events, and what is only on its way."""

    def __init__(self) -> None:
        self._safe: dict[str, bytearray] = {}
        self._pending: dict[str, list[Wrote | Cut]] = {}
        self.told = 0

    def happen(self, event: Event) -> None:
        match event:
            case Wrote(file) | Cut(file):
                self._pending.setdefault(file, []).append(event)
            case Synced(file):
                image = self._safe.setdefault(file, bytearray())
                for change in self._pending.pop(file, []):
                    _apply(image, change)
            case Removed(file):
                self._safe.pop(file, None)
                self._pending.pop(file, None)
            case Told(what):
                self.told = what

    def lose_power(self, directory: Path, chance: random.Random) -> None:
        """Write down what may be left: what was on its way is done, undone, or done in part."""
        likely = chance.choice((0.0, 0.5, 0.9, 1.0))
        for file in self._safe.keys() | self._pending.keys():
            image = bytearray(self._safe.get(file, b""))
            for change in self._pending.get(file, []):
                if chance.random() < likely:
                    _apply(image, change)
                elif isinstance(change, Wrote) and chance.random() < 0.5:
                    _tear(image, change, chance)
            (directory / file).write_bytes(image)


def _apply(image: bytearray, change: Wrote | Cut) -> None:
    if isinstance(change, Cut):
        del image[change.size :]
        return
    end = change.offset + len(change.data)
    if len(image) < end:
        image.extend(bytes(end - len(image)))
    image[change.offset : end] = change.data


def _tear(image: bytearray, change: Wrote, chance: random.Random) -> None:
    """Of one write only some sectors reach the disk."""
    for start in range(0, len(change.data), SECTOR):
        if chance.random() < 0.5:
            piece = change.data[start : start + SECTOR]
            _apply(image, Wrote(change.file, change.offset + start, piece))
