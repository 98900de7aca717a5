"""Checks of the system underneath: kernel, limits, and what is installed."""

import os
import re
import resource
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

from ... import __version__
from ...keeper import PR_SET_CHILD_SUBREAPER, prctl
from .finding import OK, PROBLEM, WARNING, Finding

_US: Final = "grn-zmq"
_SHOWN: Final = ("pyzmq", "msgpack", "cloudpickle", "nvidia-ml-py")
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)\s*>=\s*([0-9.]+)")
# As in `broker/__main__.py`: with fewer nobody can be served.
_LEAST_FILES: Final = 64
# Each client and each worker takes two.
_FEW_FILES: Final = 1024


def check_versions() -> Finding:
    """What is installed, and whether it is what we need."""
    import zmq

    wanted = _wanted()
    found = {name: _version(name) for name in {*_SHOWN, *wanted}}
    for name, version in sorted(found.items()):
        least = wanted.get(name, "")
        if not version or _numbers(version) < _numbers(least):
            text = f"{name} {version or 'is missing'}, but {least or 'some'} or newer is needed"
            fix = f"{sys.executable} -m pip install -U {_US}"
            return Finding("versions", PROBLEM, text, fix)
    shown = ", ".join(f"{name} {found[name]}" for name in _SHOWN)
    python = ".".join(map(str, sys.version_info[:3]))
    text = f"grn {__version__}, Python {python}, libzmq {zmq.zmq_version()}, {shown}"
    return Finding("versions", OK, text)


def _wanted() -> dict[str, str]:
    """The least versions our own installation asks for; none in a mere checkout."""
    try:
        lines = metadata.requires(_US) or []
    except metadata.PackageNotFoundError:
        return {}
    parsed = [_REQUIREMENT.match(line) for line in lines if "extra ==" not in line]
    return {match[1]: match[2] for match in parsed if match}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def check_open_files() -> Finding:
    """How many clients and workers the broker can have at once."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= _FEW_FILES:
        shown = "any number of" if hard == resource.RLIM_INFINITY else f"{hard:,}"
        return Finding("open files", OK, f"{shown} files may be open at once")
    level = PROBLEM if hard < _LEAST_FILES else WARNING
    text = f"only {hard:,} files may be open at once; each client and worker takes two"
    return Finding("open files", level, text, "raise the hard limit: ulimit -Hn, limits.conf")


def check_kernel() -> Finding:
    """Whether processes can be watched, and kept to their keeper."""
    release = os.uname().release
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        text = f"Linux {release} does not give pidfds ({error.strerror})"
        fix = "Linux 5.3 or newer; in a container allow the call pidfd_open"
        return Finding("kernel", PROBLEM, text, fix)
    try:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_CHILD_SUBREAPER, 0)
    except OSError as error:
        text = f"Linux {release} does not let a process take in orphans ({error.strerror})"
        return Finding("kernel", PROBLEM, text, "in a container allow the call prctl")
    return Finding("kernel", OK, f"Linux {release} has pidfds and subreapers")


def check_proc(proc: Path = Path("/proc")) -> Finding:
    """Whether the processes of jobs, and of strangers, can be seen."""
    pid = os.getpid()
    if not (proc / "1").exists():
        text = f"{proc} hides the processes of others, who cannot be told from our jobs then"
        return Finding("processes", WARNING, text, f"mount -o remount,hidepid=0 {proc}")
    if not (proc / str(pid) / "task" / str(pid) / "children").exists():
        text = f"{proc} does not list children: finding the processes of a job takes longer"
        return Finding("processes", WARNING, text, "a kernel with CONFIG_PROC_CHILDREN")
    return Finding("processes", OK, f"{proc} shows all processes and their children")
