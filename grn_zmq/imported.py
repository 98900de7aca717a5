"""What the jobs of a process have imported, so that the next one can have it from the start.

Told are only names whose files lie in the standard library or in site-packages: what the
user edits must be loaded anew in every process.
"""

import os
import sys
from collections.abc import Collection, Iterable
from types import ModuleType
from typing import Final

# Packages load most of what is below them by themselves, but not all: `matplotlib.pyplot`.
DEPTH: Final = 2
# Unsafe to have been imported before a fork, or not known to be safe on GPUs.
UNSAFE: Final = frozenset({"jax", "jaxlib", "tensorflow", "polars"})
_LEFT_OUT: Final = UNSAFE | {"grn_zmq", "__main__"}
_SITE: Final = ("site-packages", "dist-packages")


_loaded: frozenset[str] = frozenset()


def loaded() -> frozenset[str]:
    """Give the names of what is loaded; again the same set if nothing was since.

    Making it touches every name, and in a fork copies the pages they are on: a zygote makes
    it for all its forks.
    """
    global _loaded
    if len(_loaded) != len(sys.modules):
        _loaded = frozenset(sys.modules)
    return _loaded


class Imported:
    """What one process has loaded, and how much of it was told."""

    def __init__(self) -> None:
        self._count = 0
        self._known: frozenset[str] = frozenset()

    def begin(self) -> None:
        """What is loaded now is not of any job."""
        self._count = len(sys.modules)
        self._known = loaded()

    def news(self) -> dict[str, object]:
        """Give what was loaded since the last time, as part of an answer; mostly nothing."""
        if len(sys.modules) == self._count:
            return {}
        fresh = [name for name in list(sys.modules) if name not in self._known]
        self.begin()
        try:
            weights = weigh(fresh, shared_roots(sys.path))
        except Exception:  # jobs may put anything into sys.modules and sys.path
            return {}
        return {"imported": weights} if weights else {}


def weigh(names: Iterable[str], roots: Collection[str]) -> dict[str, int]:
    """Count loaded modules under the names by which they can be imported in advance.

    Args:
        roots: See `shared_roots`.
    """
    weights: dict[str, int] = {}
    for name in names:
        parts = name.split(".")
        if parts[0] in _LEFT_OUT or not is_shared(sys.modules.get(name), roots):
            continue
        short = ".".join(parts[:DEPTH])
        weights[short] = weights.get(short, 0) + 1
    return {name: n for name, n in weights.items() if is_shared(sys.modules.get(name), roots)}


def shared_roots(path: Iterable[str]) -> tuple[str, ...]:
    """Name the directories of the standard library and of what was installed."""
    standard = os.path.dirname(os.__file__)
    return tuple(f"{directory}/" for directory in (standard, *site_directories(path)))


def site_directories(path: Iterable[str]) -> list[str]:
    """Pick out where programs are installed that others have made."""
    return [entry for entry in path if os.path.basename(entry) in _SITE]


def is_shared(module: ModuleType | None, roots: Collection[str]) -> bool:
    """Whether a module's file lies in one of these directories."""
    return file_of(module).startswith(tuple(roots))


def file_of(module: ModuleType | None) -> str:
    """Give the file a module was loaded from; nothing if it is built in, or none at all."""
    try:
        # Not by getattr: one that is to be loaded lazily would be loaded by that.
        file = object.__getattribute__(module, "__dict__").get("__file__")
    except AttributeError:
        return ""
    return file if isinstance(file, str) else ""
