"""A played NVIDIA driver: GPUs as files, answered for by a library that nvidia-ml-py loads.

What happens inside a job process (allocating, freeing) is `cuda.py`; a `torch` on top of
it is under `TORCH_STUB`.
"""

import os
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal

from tests.nvml.cuda import MIB, Card, locked, write

LIBRARY: Final = "libnvidia-ml.so.1"
TORCH_STUB: Final = Path(__file__).with_name("torch_stub")
"""Put this on PYTHONPATH for job processes that import torch."""

PID_SHIFT: Final = 1_000_000
"""What `shift_pids` adds to reported pids; as in fake_nvml.c."""

DRIVER_NOT_LOADED: Final = 9
UNKNOWN: Final = 999

FOR_EVER: Final = -1

Call = Literal["init", "memory", "processes"]
Fact = Literal[
    "name", "temperature", "display", "compute_mode", "mig_mode", "persistence", "power_mw"
]


@cache
def _compiled() -> bytes:
    source = Path(__file__).with_name("fake_nvml.c")
    with tempfile.TemporaryDirectory() as scratch:
        library = Path(scratch) / LIBRARY
        command = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-O1", "-fPIC", "-shared"]
        done = subprocess.run(
            [*command, str(source), "-o", str(library)], capture_output=True, text=True
        )
        if done.returncode or done.stderr:
            raise RuntimeError(f"cc has something to say about {source.name}:\n{done.stderr}")
        return library.read_bytes()


def build(directory: Path) -> Path:
    """Put the library into a directory and return its path; compiles once per process."""
    directory.mkdir(parents=True, exist_ok=True)
    library = directory / LIBRARY
    draft = directory / f".{LIBRARY}.{os.getpid()}"
    draft.write_bytes(_compiled())
    draft.replace(library)
    return library


class FakeDriver:
    """A machine's GPUs; every change is seen at once by all processes that ask."""

    def __init__(
        self,
        directory: Path,
        sizes_mib: Sequence[int],
        names: Sequence[str] | None = None,
        *,
        reserved_mib: int = 0,
    ) -> None:
        """Create the GPUs under a directory that does not have any yet.

        Args:
            names: One per GPU; None gives all the same name.
            reserved_mib: What the driver keeps of each GPU for itself.
        """
        self.directory = directory
        self._library = build(directory / "lib")
        (directory / "switches").mkdir()
        (directory / "switches" / ".lock").touch()
        (directory / "gpus").mkdir()
        self._cards = [Card(str(directory), index) for index in range(len(sizes_mib))]
        names = names or ["NVIDIA Stand-in"] * len(sizes_mib)
        for card, size_mib, name in zip(self._cards, sizes_mib, names, strict=True):
            _create(card, size_mib, name, reserved_mib)

    def environment(self) -> dict[str, str]:
        """Return the variables a process must be started with to find these GPUs."""
        path = [str(self._library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
        return {
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, path)),
            "FAKE_NVML_DIR": str(self.directory),
        }

    def uuid(self, index: int) -> str:
        return self._cards[index].text("uuid")

    def used_mib(self, index: int) -> int:
        """Return what is used on a GPU, without what the driver reserves."""
        with self._cards[index].locked():
            return self._cards[index].used_bytes() // MIB

    def by_pid(self, index: int) -> dict[int, int]:
        """Return the MiB of every living process on a GPU, under its real pid."""
        with self._cards[index].locked():
            held = self._cards[index].by_pid()
        return {pid: held_bytes // MIB for pid, held_bytes in held.items()}

    def set(self, index: int, fact: Fact, value: int | str) -> None:
        """Change what a GPU says of itself; `mig_mode` is unsupported until it is set."""
        self._cards[index].set(fact, value)

    def set_level(self, first: int, second: int, level: int) -> None:
        """Say what is between two GPUs: 10 is a single switch, 50 the whole machine."""
        self._cards[first].set(f"level.{second}", level)
        self._cards[second].set(f"level.{first}", level)

    def set_nvlinks(self, index: int, ends: Sequence[int]) -> None:
        """Give a GPU links, by the GPU at the other end of each; -1 for one that is down."""
        self._cards[index].set("nvlink", " ".join(map(str, ends)))

    def set_utilisation(self, index: int, percent: int) -> None:
        self._cards[index].set("utilisation", percent)

    def set_used_elsewhere(self, index: int, mib: int) -> None:
        """Use memory that no process in any list answers for."""
        self._cards[index].set("elsewhere", mib * MIB)

    def hold(self, index: int, pid: int, mib: int, *, graphics: bool = False) -> None:
        """Make a living process, whoever's it is, hold so much of a GPU until it dies."""
        card = self._cards[index]
        with card.locked():
            card.hold(pid, mib * MIB, "graphics" if graphics else "compute")

    def set_cuda_order(self, order: Sequence[int]) -> None:
        """Let CUDA count the GPUs otherwise, unless CUDA_DEVICE_ORDER is PCI_BUS_ID."""
        self._switch("cuda_order", " ".join(map(str, order)))

    def fail_next(
        self, call: Call, times: int = 1, code: int = UNKNOWN, device: int | None = None
    ) -> None:
        """Let the next calls fail, whichever process makes them.

        Args:
            call: "processes" are the compute and the graphics list alike.
            times: 0 ends the fault, FOR_EVER keeps it.
            code: The NVML_ERROR_ that they return.
            device: The only GPU concerned; None for all.
        """
        self._switch(_fault(call, device), f"{times} {code}" if times else None)

    def failures_left(self, call: Call, device: int | None = None) -> int:
        """Return how many calls are still to fail; 0 once a fault is used up."""
        try:
            fault = (self.directory / "switches" / _fault(call, device)).read_text()
        except FileNotFoundError:
            return 0
        return int(fault.split()[0])

    def no_driver(self, missing: bool = True) -> None:
        """Let every init say that no driver is loaded."""
        self.fail_next("init", FOR_EVER if missing else 0, DRIVER_NOT_LOADED)

    def init_delay(self, seconds: float) -> None:
        self._switch("init_delay_ms", str(round(seconds * 1000)) if seconds else None)

    def lose(self, index: int, lost: bool = True) -> None:
        """Let every call about a GPU say that it is lost, or bring it back."""
        if lost:
            self._cards[index].set("lost", 1)
        else:
            (Path(self._cards[index].directory) / "lost").unlink(missing_ok=True)

    def hide_process_memory(self, hidden: bool = True) -> None:
        """Answer "not available" for the memory of each process."""
        self._switch("hide_process_memory", "1" if hidden else None)

    def shift_pids(self, shifted: bool = True) -> None:
        """Report pids of another namespace: the real one and PID_SHIFT."""
        self._switch("shift_pids", "1" if shifted else None)

    def accounting(self, enabled: bool = True) -> None:
        """Keep the peak of each process; off at first, as after loading a driver."""
        self._switch("accounting", "1" if enabled else None)

    def _switch(self, name: str, value: str | None) -> None:
        path = self.directory / "switches" / name
        # The library counts faults down under this lock; a new one must not be lost to it.
        with locked(str(path.with_name(".lock"))):
            if value is None:
                path.unlink(missing_ok=True)
            else:
                write(str(path), f"{value}\n")


def _create(card: Card, size_mib: int, name: str, reserved_mib: int) -> None:
    folder = Path(card.directory)
    for kind in ("compute", "graphics"):
        (folder / kind).mkdir(parents=True)
    (folder / "lock").touch()
    card.set("name", name)
    card.set("total", size_mib * MIB)
    card.set("reserved", reserved_mib * MIB)
    card.set("temperature", 40)
    card.set("power_mw", 50_000)
    card.set("uuid", f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, str(card.index))}")


def _fault(call: Call, device: int | None) -> str:
    return call if device is None else f"{call}.{device}"
