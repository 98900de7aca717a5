"""What CUDA is to a job process, played on the files of the stand-in driver.

A process allocates under its own pid, and its death frees everything, however it died.
Standard library only: a job process imports this, and must not pay for more.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30

_UUID_PREFIX: Final = "GPU-"


class OutOfMemoryError(RuntimeError):
    """A device is too full for an allocation; named and worded as torch does."""


class Card:
    """One GPU in files: what fake_state.h reads, read and written from Python."""

    def __init__(self, directory: str, index: int) -> None:
        self.root = directory
        self.index = index
        self.directory = os.path.join(directory, "gpus", str(index))

    def text(self, name: str) -> str:
        """Read a fact about the card; one that was never set is empty."""
        return read(os.path.join(self.directory, name))

    def number(self, name: str) -> int:
        """Read a fact about the card; one that was never set is 0."""
        return int(self.text(name) or 0)

    def set(self, name: str, value: object) -> None:
        """Change a fact about the card for all processes at once."""
        write(os.path.join(self.directory, name), f"{value}\n")

    @property
    def lost(self) -> bool:
        return os.path.exists(os.path.join(self.directory, "lost"))

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other process from allocating, and the library from reading."""
        return locked(os.path.join(self.directory, "lock"))

    def by_pid(self, kind: str = "compute") -> dict[int, int]:
        """Return the bytes of every living process."""
        found = {}
        for pid in self._recorded(kind):
            start, held, _ = self._record(kind, pid)
            if held and start == started(pid):
                found[pid] = held
        return found

    def used_bytes(self) -> int:
        """Sum up what is used, without what the driver reserves for itself."""
        holders = sum(self.by_pid("compute").values()) + sum(self.by_pid("graphics").values())
        return self.number("elsewhere") + holders

    def free_bytes(self) -> int:
        return max(0, self.number("total") - self.number("reserved") - self.used_bytes())

    def held_bytes(self, pid: int, kind: str = "compute") -> int:
        return self.by_pid(kind).get(pid, 0)

    def hold(self, pid: int, held_bytes: int, kind: str = "compute") -> None:
        """Record what a process holds now; call it with the lock held."""
        start, _, peak = self._record(kind, pid)
        now = started(pid)
        if not now:
            raise ProcessLookupError(f"process {pid} is not alive: it cannot hold memory")
        peak = max(peak, held_bytes) if start == now else held_bytes
        write(os.path.join(self.directory, kind, str(pid)), f"{now} {held_bytes} {peak}\n")

    def forget_dead(self, kind: str = "compute") -> None:
        """Drop records of dead processes, unless accounting keeps their peaks."""
        if os.path.exists(os.path.join(self.root, "switches", "accounting")):
            return
        for pid in self._recorded(kind):
            if self._record(kind, pid)[0] != started(pid):
                os.unlink(os.path.join(self.directory, kind, str(pid)))

    def _recorded(self, kind: str) -> list[int]:
        names = os.listdir(os.path.join(self.directory, kind))
        return [int(name) for name in names if name.isdigit()]

    def _record(self, kind: str, pid: int) -> tuple[int, int, int]:
        line = read(os.path.join(self.directory, kind, str(pid))) or "0 0 0"
        start, held, peak = map(int, line.split())
        return start, held, peak


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold a file's lock, against other threads of this process too."""
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        # Not left to close(): a child forked meanwhile would keep the lock.
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def read(path: str) -> str:
    """Read a small file without its last newline; a missing one is empty."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().rstrip("\n")
    except FileNotFoundError:
        return ""


def write(path: str, text: str) -> None:
    """Replace a small file, so that a reader sees all of it or nothing."""
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.getpid()}")
    with open(draft, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(draft, path)


def started(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if dead or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name in parentheses may hold anything, so count from its end.
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if not fields or fields[0] in "ZXx" else int(fields[19])


def all_cards(root: str) -> list[Card]:
    """Return the machine's cards as NVML orders them: by PCI bus."""
    count = len(os.listdir(os.path.join(root, "gpus")))
    return [Card(root, index) for index in range(count)]


_frozen: tuple[int, str, list[Card]] | None = None


def visible_cards() -> list[Card]:
    """Return what this process sees, in its order.

    As in CUDA, `CUDA_VISIBLE_DEVICES` holds indices or uuids (or what a uuid starts with),
    the first that names no card ends the list, and after the first allocation of a process
    the variable is no longer read.
    """
    root = os.environ.get("FAKE_NVML_DIR", "")
    if not root:
        return []
    if _frozen is not None and _frozen[:2] == (os.getpid(), root):
        return _frozen[2]
    cards = _in_cuda_order(all_cards(root))
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    return cards if wanted is None else _chosen(cards, wanted)


def _in_cuda_order(cards: list[Card]) -> list[Card]:
    if not cards or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return cards
    order = read(os.path.join(cards[0].root, "switches", "cuda_order"))
    return [cards[int(index)] for index in order.split()] if order else cards


def _chosen(cards: list[Card], wanted: str) -> list[Card]:
    chosen: list[Card] = []
    for entry in map(str.strip, wanted.split(",")):
        if entry.startswith(_UUID_PREFIX):
            named = [card for card in cards if card.text("uuid").startswith(entry)]
        else:
            named = cards[int(entry) :][:1] if entry.isdigit() else []
        if len(named) != 1:
            break
        if named[0] in chosen:
            return []
        chosen += named
    return chosen


def alloc(mib: int, device: int = 0) -> None:
    """Add to what this process holds on the device that it sees as `device`.

    Raises:
        OutOfMemoryError: It does not fit next to everything else on the device.
        RuntimeError: There is no such device, or it is lost.
    """
    alloc_bytes(mib * MIB, device)


def alloc_bytes(size: int, device: int = 0) -> None:
    """Do what `alloc` does, to the byte."""
    global _frozen
    cards = visible_cards()
    card = _seen(cards, device)
    _frozen = (os.getpid(), card.root, cards)
    with card.locked():
        card.forget_dead()
        held = card.held_bytes(os.getpid())
        free = card.free_bytes()
        if size > free:
            raise OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {_human(size)}. "
                f"GPU {device} has a total capacity of {_human(card.number('total'))} "
                f"of which {_human(free)} is free. Including non-PyTorch memory, "
                f"this process has {_human(held)} memory in use."
            )
        card.hold(os.getpid(), held + size)


def free(mib: int | None = None, device: int = 0) -> None:
    """Give back a part of what this process holds on a device, or all of it.

    Raises:
        ValueError: The process does not hold that much.
    """
    free_bytes(None if mib is None else mib * MIB, device)


def free_bytes(size: int | None = None, device: int = 0) -> None:
    """Do what `free` does, to the byte."""
    card = _seen(visible_cards(), device)
    with card.locked():
        held = card.held_bytes(os.getpid())
        given = held if size is None else size
        if given > held:
            raise ValueError(
                f"this process holds {_human(held)} on GPU {device}, "
                f"so it cannot give back {_human(given)}"
            )
        card.hold(os.getpid(), held - given)


def _seen(cards: list[Card], device: int) -> Card:
    if not cards:
        raise RuntimeError("No CUDA GPUs are available")
    if not 0 <= device < len(cards):
        raise RuntimeError("CUDA error: invalid device ordinal")
    if cards[device].lost:
        raise RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable")
    return cards[device]


def _human(size: int) -> str:
    if size <= KIB:
        return f"{size} bytes"
    if size <= MIB:
        return f"{size / KIB:.2f} KiB"
    if size <= GIB:
        return f"{size / MIB:.2f} MiB"
    return f"{size / GIB:.2f} GiB"
