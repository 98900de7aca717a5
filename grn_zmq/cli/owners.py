"""Whose a process is: a job's, ours, or a stranger's. Plain facts in, one answer out."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..facts import DeviceRow, JobRow
from ..naming import short_type
from ..units import format_bytes
from .listing import called, device_name
from .states import jobs_named


@dataclass(frozen=True, slots=True)
class Machine:
    """The processes that are known: broker, `grn start`, live jobs, devices and workers."""

    broker_pid: int
    supervisor_pid: int
    jobs: Sequence[JobRow]
    devices: Sequence[DeviceRow]


@dataclass(frozen=True, slots=True)
class Owner:
    """What a process is to us: `text` says it, the rest is for machines."""

    role: str
    text: str
    device: str = ""
    used_bytes: int | None = None
    job: JobRow | None = None
    numbers: tuple[int, ...] = ()


def owner_of(line: Sequence[tuple[int, str]], machine: Machine) -> Owner | None:
    """Say whose a process is; None if it has nothing to do with us.

    Args:
        line: The process and those above it, each with the job that its environment names.
    """
    pid = line[0][0]
    if pid == machine.broker_pid:
        return Owner("broker", "is the broker")
    if pid == machine.supervisor_pid:
        return Owner("supervisor", "is `grn start`: it looks after broker and workers")
    for row in machine.devices:
        if pid == row.worker_pid:
            running = jobs_named(_numbers_on(row, machine)) if row.jobs else "no job"
            text = f"is the worker of {device_name(row)} ({row.facts.name}), with {running}"
            return Owner("worker", text, device_name(row))
    job = _job_of(line, machine)
    if job is not None:
        return _of_job(pid, job, machine)
    return _of_others(line, machine)


def _job_of(line: Sequence[tuple[int, str]], machine: Machine) -> JobRow | None:
    """The job whose body is the process or one above it, or that its environment names."""
    bodies = {row.pid: row for row in machine.jobs if row.pid and row.kind != "inline"}
    ids = {row.job_id: row for row in machine.jobs}
    workers = {row.worker_pid for row in machine.devices}
    for pid, job_id in line:
        if pid in workers:
            return None  # whatever the worker was started from
        # A process that was used before has the environment of its first job.
        found = bodies.get(pid) or ids.get(job_id)
        if found is not None:
            return found
    return None


def _of_job(pid: int, row: JobRow, machine: Machine) -> Owner:
    used = _used_by(pid, machine)
    on = f" on {row.device}" if row.device else ""
    uses = f", where it uses {format_bytes(used)}" if used else ""
    owner = f"; submitted by process {row.client_pid}" if row.client_pid else ""
    name = called(row)
    kind = "" if name == row.job_type else f", type {short_type(row.job_type)}"
    text = f"belongs to job {row.number} ({name}{kind}), {row.state}{on}{uses}{owner}"
    return Owner("job", text, row.device, used, row, (row.number,))


def _of_others(line: Sequence[tuple[int, str]], machine: Machine) -> Owner | None:
    pid = line[0][0]
    waits = tuple(row.number for row in machine.jobs if row.client_pid == pid)
    if waits:
        return Owner("client", f"has submitted {jobs_named(waits)}", numbers=waits)
    above = {one for one, _ in line}
    for row in machine.devices:
        if row.worker_pid in above:
            text = f"is kept by the worker of {device_name(row)}, and runs no job now"
            return Owner("idle", text, device_name(row))
    for row in machine.devices:
        for one in row.processes:
            if one.pid == pid:
                size = format_bytes(one.used_bytes)
                text = f"is a stranger that uses {size} of {device_name(row)}"
                return Owner("stranger", text, device_name(row), one.used_bytes)
    return None


def _used_by(pid: int, machine: Machine) -> int | None:
    sizes = [
        one.used_bytes for row in machine.devices for one in row.processes if one.pid == pid
    ]
    return sum(sizes) if sizes else None


def _numbers_on(row: DeviceRow, machine: Machine) -> list[int]:
    return [job.number for job in machine.jobs if job.device == device_name(row)]
