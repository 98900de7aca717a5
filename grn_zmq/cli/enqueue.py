"""`grn enqueue`: a command as a job of a queue."""

import os
from collections.abc import Sequence
from typing import Any

import click

from ..capacities import parse_need
from ..declared import Declared
from ..wire import AskQueues, QueuesAre
from .asking import ask
from .common import one_line_errors
from .queueing.commands import check_is_found
from .queueing.handing import hand_in
from .queueing.hints import hints_about
from .queueing.joboptions import queue_options
from .queueing.planning import Asked, plan
from .queueing.submitoptions import queued_options, saying_options
from .queues.reading import file_option, output_option, queue_argument, read_json5
from .queues.words import EnqueueVerb, queue_line


@click.command(cls=EnqueueVerb, context_settings={"allow_interspersed_args": False})
@queue_argument
@click.argument("words", nargs=-1, metavar="[--] CMD...")
@click.option(
    "--json",
    "--require",
    "text",
    metavar="JSON5",
    help="What it needs of the queue: {gpu:0.5,cpu:4}. Default: nothing.",
)
@file_option
@queued_options
@queue_options
@saying_options
@output_option
@click.pass_context
@one_line_errors
def enqueue(
    ctx: click.Context,
    /,
    queue: str,
    words: Sequence[str],
    text: str | None,
    file: str | None,
    wait: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Queue a command as a job of a queue and leave; it runs when the queue has what it needs.

    \b
    grn enqueue q1 --json "{gpu:0.5}" -- python train.py lr=0.01
    grn enqueue q1 --json "{gpu:2,cpu:4}" --env "DEVICES={gpu}" --cwd /data python fit.py
    grn enqueue q1 "OMP_NUM_THREADS=4 python prepare.py"      needs nothing: no GPU either

    {gpu:1} is a whole GPU, {gpu:0.5} half the memory of one, {gpu:2} two whole ones, and
    {gpu:-1} all of the queue's. Other resources are whatever the queue has. {gpu}, and the
    name of any resource in braces, is replaced by the instances that the job got, as it
    starts; GRN_RESOURCES has them all.

    Options end where the command begins. Variables may be set in front of it. In a queue with
    a prefix the words are arguments for that.
    """
    declared = _needed(queue, text, file)
    (row,) = ask(AskQueues(queue), QueuesAre).rows
    line = queue_line(words, row.prefix, exact=ctx.meta["exact"])
    check_is_found(line.words, given["cwd"] or os.curdir)
    asked = Asked.of(given, declared)
    jobs = plan(line, asked)
    written = words if len(words) == 1 and not ctx.meta["exact"] else ()
    hints = hints_about(written, [line.words], list(asked.params), declared.resources)
    hand_in(jobs, hints, wait=wait, dry_run=dry_run, quiet=quiet, as_json=as_json)


def _needed(queue: str, text: str | None, file: str | None) -> Declared:
    try:
        return parse_need(read_json5(text, file) or "", queue)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


if __name__ == "__main__":
    enqueue()
