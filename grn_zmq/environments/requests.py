"""What an environment is told of the attempt that it shall run. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from ..records import Leased

# Directories of an interpreter's own packages, which must not reach another interpreter.
_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})
_LIBRARIES: Final = frozenset({"lib", "lib64"})


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory of this machine that shall be found inside under the same name."""

    path: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One attempt: who it is, where it runs, and what shall be found inside.

    `name` is one that no other attempt has. `variables` are those that shall reach the
    command; `surroundings` all that its caller has. `placeholders` is what `{gpu}` and the
    like stand for. With `stdin` it reads what its caller types.
    """

    name: str
    uid: int
    gid: int
    cwd: str
    devices: tuple[Leased, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    surroundings: Mapping[str, str] = field(default_factory=dict, repr=False)
    placeholders: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    stdin: bool = False

    @property
    def gpus(self) -> tuple[str, ...]:
        """The uuids of the leased GPUs; a share of host memory is none."""
        return tuple(one.uuid for one in self.devices if one.label.startswith("nvml"))


def own_entries(entries: Iterable[str]) -> list[str]:
    """Of a module search path, those that hold its user's code and not an interpreter's."""
    return [one for one in entries if one.startswith("/") and not _of_interpreter(one)]


def _of_interpreter(entry: str) -> bool:
    parts = PurePosixPath(entry).parts
    if not _PACKAGES.isdisjoint(parts):
        return True
    return any(one in _LIBRARIES and two.startswith("python") for one, two in pairwise(parts))


def not_covered(mounts: Iterable[Mount]) -> list[Mount]:
    """The same without those that others bring along, or that no container can have."""
    kept: list[Mount] = []
    for mount in sorted(mounts, key=lambda one: (one.path.count("/"), not one.writable)):
        if mount.path == "/" or any(_covers(one, mount) for one in kept):
            continue
        kept.append(mount)
    return kept


def _covers(one: Mount, other: Mount) -> bool:
    inside = PurePosixPath(other.path).is_relative_to(one.path)
    return inside and (one.writable or not other.writable)
