"""`grn pause`: start no more jobs."""

import click

from ..wire import Acted, Pause
from .asking import ask
from .common import json_option, one_line_errors, print_json, say


@click.command()
@json_option
@one_line_errors
def pause(as_json: bool) -> None:
    """Start no more jobs, until `grn resume`; what runs runs on, and new ones are taken.

    \b
    grn pause                          let the machine become idle
    grn pause && grn wait $(grn ps -t R --json | jq -r '.[].number')
    grn resume                         go on
    """
    ask(Pause(True), Acted)
    if as_json:
        print_json({"paused": True})
    else:
        say("Paused: no more jobs are started; `grn resume` goes on")
