"""`grn status`: is a broker there, who works for it, and what has it to do?"""

import os
from typing import Any, Final

import click

from ..discovery import Address, supervisor, wait_for_address
from ..errors import BrokerUnavailable
from ..facts import DeviceRow, Scene
from ..paths import find_places
from ..units import format_seconds
from ..wire import AskScene, SceneIs
from .asking import ask
from .common import counted, json_option, one_line_errors, print_json, say
from .devices import worker_facts
from .listing import device_name, in_order
from .procfs import age_s, machine
from .tables import print_fitted

# A broker that died is back within this time, if it can come back.
GAP_S: Final = 3.0
HEADERS: Final = ("WORKER", "PID", "HOST", "OS", "UP", "RUNNING")


@click.command()
@json_option
@one_line_errors
def status(as_json: bool) -> None:
    """Say whether a broker runs, with its workers and jobs; status 3 if none does.

    \b
    grn status               a few lines
    grn status --json        the same for machines
    grn status || grn start --detach
    """
    places = find_places(os.environ)
    address = wait_for_address(places, GAP_S)
    if address is None:
        above = supervisor(places)
        again = f"; `grn start` (pid {above}) tries to start one again" if above else ""
        raise BrokerUnavailable(f"no broker is running in {places.directory}{again}")
    scene = ask(AskScene(0, 0), SceneIs).scene
    rows = in_order(scene.devices)
    if as_json:
        print_json(facts_of(address, str(places.directory), scene, rows))
        return
    up_s = _age_s(address)
    up = "in a pid namespace of its own" if up_s is None else f"up {format_seconds(up_s)}"
    say(f"Broker pid {address.pid} in {places.directory}, {up}")
    say(counted(len(rows), "device"))
    say(jobs_line(scene))
    if rows:
        say("")
        print_fitted(HEADERS, [_cells(row) for row in rows], elastic=2)


def facts_of(
    address: Address, directory: str, scene: Scene, rows: list[DeviceRow]
) -> dict[str, Any]:
    return {
        "pid": address.pid,
        "supervisor_pid": address.supervisor_pid,
        "directory": directory,
        "uptime_s": _age_s(address),
        "paused": scene.paused,
        "stopping": scene.stopping,
        "devices": len(rows),
        "jobs": {"queued": scene.queued, "running": scene.running, "ended": scene.ended},
        "workers": [worker_facts(row) for row in rows],
    }


def _age_s(address: Address) -> float | None:
    """How long it runs; None where its pid is not one of ours."""
    return (age_s(address.pid) or 0.0) if address.near else None


def jobs_line(scene: Scene) -> str:
    """`1 job running, 3 queued; paused: …`."""
    line = f"{counted(scene.running, 'job')} running, {scene.queued:,} queued"
    if scene.stopping:
        return f"{line}; the broker is being stopped"
    if scene.paused:
        return f"{line}; paused: `grn resume` lets jobs start again"
    return line


def _cells(row: DeviceRow) -> tuple[str, ...]:
    host, system = machine()
    up_s = age_s(row.worker_pid)
    return (
        device_name(row),
        str(row.worker_pid),
        host,
        system,
        "-" if up_s is None else format_seconds(up_s),
        str(row.jobs),
    )
