"""`grn hold`: keep waiting jobs from starting."""

from collections.abc import Sequence

import click

from ..wire import Hold
from .acting import act_on
from .common import json_option, one_line_errors
from .refs import refs_argument


@click.command()
@refs_argument
@json_option
@one_line_errors
def hold(refs: Sequence[str], as_json: bool) -> None:
    """Keep waiting jobs from starting, until `grn release`.

    \b
    grn hold 12              one of them
    grn hold 3-7 sweep       some by number, some by name
    grn hold @               the one submitted last

    What runs already runs on; the others go on around it. Status 1 if none could be held.
    """
    act_on(refs, lambda job_ids: Hold(job_ids, held=True), "Held", as_json)
