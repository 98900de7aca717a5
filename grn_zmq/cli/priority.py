"""`grn priority`: which waiting jobs go first."""

from collections.abc import Sequence

import click

from ..limits import MAX_PRIORITY
from ..wire import Prioritise
from .acting import act_on
from .common import WholeNumber, json_option, one_line_errors
from .refs import refs_argument


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("number", type=WholeNumber(-MAX_PRIORITY, MAX_PRIORITY), metavar="N")
@refs_argument
@json_option
@one_line_errors
def priority(number: int, refs: Sequence[str], as_json: bool) -> None:
    """Give waiting jobs another priority: higher ones go first, and 0 is what most have.

    \b
    grn priority 10 12       job 12 before all others
    grn priority -5 3-7      these after all others
    grn priority 0 sweep     as usual again

    Status 1 if none of them waits.
    """
    done = f"Priority {number} for"
    act_on(refs, lambda job_ids: Prioritise(job_ids, number), done, as_json)
