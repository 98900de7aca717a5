"""How much memory this machine, or the control group we live in, has and has left."""

from functools import cache
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_VMSTAT = Path("/proc/vmstat")


def physical_bytes() -> int:
    """Return the memory that processes here can have at most."""
    return min([_meminfo("MemTotal"), *(limit for _, limit in _limited_groups())])


def available_bytes() -> int:
    """Return what can be taken now without swapping: caches count as available."""
    left = [limit - _in_use(group) for group, limit in _limited_groups()]
    return max(0, min([_meminfo("MemAvailable"), *left]))


def kernel_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory.

    Of our own control group where it counts them, else of the whole machine.
    """
    return _count(_kill_counter(), "oom_kill") or 0


@cache
def _kill_counter() -> Path:
    names = ("memory.events", "memory.oom_control")
    files = [group / name for group in _own_groups()[:1] for name in names]
    return next((file for file in files if _count(file, "oom_kill") is not None), _VMSTAT)


def _count(path: Path, name: str) -> int | None:
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdigit():
            return int(value)
    return None


def _meminfo(name: str) -> int:
    with _MEMINFO.open() as lines:
        for line in lines:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"{_MEMINFO} has no {name}")


@cache
def _limited_groups() -> list[tuple[Path, int]]:
    """List the memory groups around this process that are smaller than the machine."""
    total = _meminfo("MemTotal")
    groups = [(group, _limit(group)) for group in _own_groups()]
    return [(group, limit) for group, limit in groups if limit is not None and limit < total]


def _own_groups() -> list[Path]:
    """List our memory groups outwards, v2 and v1, as far as they are mounted here."""
    found: list[Path] = []
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        _, controllers, inside = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        mount = Path("/sys/fs/cgroup", "memory" if controllers else "")
        # In a container the path may be the host's while the mount is already ours.
        path = mount / inside.lstrip("/")
        found += [path, *(parent for parent in path.parents if parent.is_relative_to(mount))]
    return found


def _limit(group: Path) -> int | None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        text = _text(group / name).strip()
        if text.isdigit():
            return int(text)
    return None


def _in_use(group: Path) -> int:
    """Return what a group uses, without the file cache that the kernel gives back."""
    used = _text(group / "memory.current") or _text(group / "memory.usage_in_bytes")
    cached = 0
    for line in _text(group / "memory.stat").splitlines():
        if line.startswith(("inactive_file ", "total_inactive_file ")):
            cached = int(line.split()[1])
    return max(0, int(used or 0) - cached)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
