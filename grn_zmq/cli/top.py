"""`grn top`: devices and jobs, live."""

import os
import shutil
import sys
from dataclasses import replace
from typing import Final

import click

from ..discovery import is_locked
from ..errors import BrokerUnavailable
from ..facts import JobRow, Scene
from ..paths import find_places
from ..wire import AskScene, SceneIs
from .asking import ask
from .common import WholeNumber, is_terminal, json_option, one_line_errors, print_json
from .live.screen import whole
from .live.styled import plain
from .scenefacts import scene_facts

# Wide enough for reasons, where nobody says how wide it is.
PAPER_COLUMNS: Final = 120
SOME_JOBS: Final = 50


@click.command()
@click.option("--once", is_flag=True, help="Print one frame as text and leave.")
@click.option(
    "--jobs",
    "-n",
    type=WholeNumber(min=0),
    default=SOME_JOBS,
    metavar="N",
    help=f"How many jobs --once and --json show. Default: {SOME_JOBS}.",
)
@json_option
@one_line_errors
def top(once: bool, jobs: int, as_json: bool) -> None:
    """Watch devices and jobs live: memory in use, leased and of others; what runs and waits.

    \b
    grn top                  live; ? shows the keys, q leaves
    grn top --once           one frame as text, as without a terminal
    grn top --json -n 10     one scene for machines, with ten jobs

    Keys: up and down (j, k, PgUp, PgDn, Home, End) choose a job, c cancels it, l follows what
    it prints, h holds or releases it, p pauses the queue or lets it go on.
    """
    if as_json:
        print_json(scene_facts(_scene(jobs)))
    elif once or not on_a_terminal():
        columns = shutil.get_terminal_size((PAPER_COLUMNS, 0)).columns
        click.echo("\n".join(map(plain, whole(_scene(jobs), columns))))
    else:
        _watch()


def on_a_terminal() -> bool:
    """Whether there is a screen to draw on and a keyboard to be left by."""
    both = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    return both and os.environ.get("TERM", "dumb") != "dumb"


def _watch() -> None:
    from .live.live import Live
    from .live.topview import View

    places = find_places(os.environ)
    if not is_locked(places):
        raise BrokerUnavailable(f"no broker is running in {places.directory}")
    sys.exit(Live(View()).run())


def _scene(jobs: int) -> Scene:
    """Ask for a scene with so many jobs; the broker tells of them in several parts."""
    scene = ask(AskScene(0, jobs), SceneIs).scene
    rows: dict[str, JobRow] = {}
    more = scene.rows
    while not rows.keys() >= {row.job_id for row in more}:
        rows |= {row.job_id: row for row in more}
        if len(rows) < jobs:
            more = ask(AskScene(len(rows), jobs - len(rows)), SceneIs).scene.rows
    return replace(scene, rows=tuple(rows.values()))
