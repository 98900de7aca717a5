"""`grn release`: let held jobs start again."""

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
def release(refs: Sequence[str], as_json: bool) -> None:
    """Let held jobs start again, in the place they had in the queue.

    \b
    grn release 12           one of them
    grn release 3-7 sweep    some by number, some by name
    grn release @            the one submitted last

    Status 1 if none could be released.
    """
    act_on(refs, lambda job_ids: Hold(job_ids, held=False), "Released", as_json)
