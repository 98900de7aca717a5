"""What a system under test holds: memory, descriptors, threads, files."""

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grn_zmq.discovery import find_address
from grn_zmq.parcels import find_parcels
from tests.cli.scripts import descendants
from tests.faults.harness import System
from tests.faults.ledger import outcomes_in


@dataclass(frozen=True)
class Vitals:
    """Of broker and workers together, but for the memory."""

    broker_bytes: int = 0
    fds: int = 0
    threads: int = 0
    spool_files: int = 0
    shm_files: int = 0
    job_processes: int = 0
    ended_jobs: int = 0


def vitals_of(system: System, devices: int) -> Vitals | None:
    """Look once; None if somebody is missing, or dies meanwhile."""
    workers = system.worker_pids()
    address = find_address(system.places)
    if address is None or len(workers) != devices:
        return None
    try:
        pages = int(Path(f"/proc/{address.pid}/statm").read_text().split()[1])
        pids = [address.pid, *workers]
        return Vitals(
            pages * os.sysconf("SC_PAGE_SIZE"),
            sum(_entries(pid, "fd") for pid in pids),
            sum(_entries(pid, "task") for pid in pids),
            _count(system.state.parent.glob("spool/*/*")),
            _count(find_parcels(os.environ).shm.glob("*")),
            sum(len(descendants(pid)) for pid in workers),
            len(outcomes_in(system.state)),
        )
    except (OSError, sqlite3.Error):
        return None


def _entries(pid: int, what: str) -> int:
    return len(os.listdir(f"/proc/{pid}/{what}"))


def _count(paths: Iterable[Path]) -> int:
    return sum(1 for _ in paths)
