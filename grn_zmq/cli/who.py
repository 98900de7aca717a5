"""`grn who`: which job a process belongs to."""

import os
from typing import Any, NoReturn

import click

from ..discovery import find_address
from ..paths import find_places
from .common import WholeNumber, fail, json_option, one_line_errors, print_json, say
from .listing import all_devices, all_jobs
from .owners import Machine, Owner, owner_of
from .procfs import ancestry, command_of, is_alive, job_id_in

# What Linux can count to.
MOST_PID = 1 << 22


@click.command()
@click.argument("pid", type=WholeNumber(1, MOST_PID))
@json_option
@one_line_errors
def who(pid: int, as_json: bool) -> None:
    """Say which job a process belongs to: its type, its owner, its device.

    \b
    grn who 4711             also workers, the broker, programs that wait for jobs, strangers
    grn who $$               is this shell part of a job?
    grn who 4711 --json      the same for machines

    Children of a job's process belong to it. Status 1 if there is no such process, or it has
    nothing to do with us.
    """
    if not is_alive(pid):
        _leave(f"no process {pid}", as_json)
    owner = owner_of([(one, job_id_in(one)) for one in ancestry(pid)], _machine())
    if owner is None:
        _leave(f"process {pid} ({command_of(pid)}) is none of ours", as_json)
    if as_json:
        print_json(facts_of(pid, owner))
    else:
        say(f"Process {pid} ({command_of(pid)}) {owner.text}")


def _machine() -> Machine:
    """Who is who: asked of the broker, where there is one."""
    devices = all_devices()
    address = find_address(find_places(os.environ))
    if address is not None and not address.near:
        address = None  # its pids are none of ours
    return Machine(
        broker_pid=address.pid if address else 0,
        supervisor_pid=address.supervisor_pid if address else 0,
        jobs=all_jobs(ended=False),
        devices=devices,
    )


def facts_of(pid: int, owner: Owner) -> dict[str, Any]:
    row = owner.job
    return {
        "pid": pid,
        "command": command_of(pid),
        "role": owner.role,
        "device": owner.device or None,
        "used_bytes": owner.used_bytes,
        "job": None
        if row is None
        else {
            "number": row.number,
            "job_id": row.job_id,
            "name": row.name,
            "job_type": row.job_type,
            "state": row.state,
            "client_pid": row.client_pid or None,
        },
        "jobs": list(owner.numbers),
    }


def _leave(text: str, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"error": text})
    fail(text, 1)
