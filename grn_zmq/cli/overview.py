"""Bare `grn`: devices, live jobs and strangers on one screen."""

from dataclasses import replace
from typing import Final

from ..facts import DeviceRow
from ..records import DeviceProcess
from ..wire import AskScene, SceneIs
from .asking import ask
from .common import one_line_errors, print_json, say
from .devices import print_devices, print_processes
from .jobtable import print_jobs
from .listing import in_order
from .scenefacts import scene_facts
from .status import jobs_line
from .tables import terminal_lines

# Lines of jobs where there is no terminal, and the fewest on one.
USUAL_JOBS: Final = 20
LEAST_JOBS: Final = 5
# Headings, blank lines, the line of counts and the prompt.
OTHER_LINES: Final = 8


@one_line_errors
def overview(*, as_json: bool) -> None:
    """Print devices, live jobs and foreign processes."""
    scene = ask(AskScene(0, 200), SceneIs).scene
    if as_json:
        print_json(scene_facts(scene))
        return
    rows = in_order(scene.devices)
    foreign = [_strangers(row) for row in rows]
    strangers = sum(len(row.processes) for row in foreign)
    print_devices(rows)
    say("")
    say(jobs_line(scene))
    room = _room_for_jobs(len(rows) + strangers)
    if scene.rows:
        print_jobs(scene.rows[:room])
    left = scene.running + scene.queued - len(scene.rows[:room])
    if left > 0:
        say(f"… and {left:,} more: `grn ps` lists all, `grn top` watches them")
    if strangers:
        say("")
        say("Processes of others")
        print_processes(foreign, {})


def _strangers(row: DeviceRow) -> DeviceRow:
    return replace(row, processes=tuple(filter(_is_foreign, row.processes)))


def _is_foreign(one: DeviceProcess) -> bool:
    return not one.job_id


def _room_for_jobs(other_rows: int) -> int:
    lines = terminal_lines()
    return USUAL_JOBS if lines is None else max(LEAST_JOBS, lines - OTHER_LINES - other_rows)
