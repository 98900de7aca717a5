"""`grn demo`: jobs measured and then packed, in a minute and without a GPU."""

import sys

import click

from .common import json_option, one_line_errors, print_json, say
from .top import on_a_terminal

ABOUT = """\
Twelve toy jobs of three kinds, twice, on two devices of host memory. Nobody
says what they need: the first of each kind runs alone and is measured, then
they share the devices.
"""


@click.command()
@json_option
@one_line_errors
def demo(as_json: bool) -> None:
    """See jobs measured and then packed: a private broker, two small devices, toy jobs.

    \b
    grn demo                 live on a terminal; q or Ctrl-C ends it at any time
    grn demo | cat           a line for each job
    grn demo --json          only the figures, for machines

    It takes less than a minute, 768 MiB of memory and no GPU, and leaves nothing behind.
    Your own broker and what it has learned are not touched.
    """
    from .live.demofigures import facts, summary
    from .live.demoing import DEVICES, TITLES, play, show_live, show_nothing, show_plainly

    if as_json:
        print_json(facts(play(show_nothing), DEVICES))
        return
    say(ABOUT)
    rounds = play(show_live if on_a_terminal() else show_plainly)
    say("")
    if len(rounds) < len(TITLES):
        say(f"Left in round {len(rounds) + 1} of {len(TITLES)}")
        sys.exit(0)
    for line in summary(rounds, DEVICES):
        say(line)
