"""`grn resume`: start jobs again."""

import click

from ..wire import Acted, Pause
from .asking import ask
from .common import json_option, one_line_errors, print_json, say


@click.command()
@json_option
@one_line_errors
def resume(as_json: bool) -> None:
    """Start jobs again after `grn pause`.

    \b
    grn pause                what runs runs on, but no more are started
    grn resume               go on
    grn resume --json        the same, answered for machines
    """
    ask(Pause(False), Acted)
    if as_json:
        print_json({"paused": False})
    else:
        say("Resumed: jobs are started again")
