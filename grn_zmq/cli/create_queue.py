"""`grn create-queue`: a queue with declared resources."""

import shlex
import uuid
from collections.abc import Sequence

import click

from ..capacities import parse_capacity, write_capacity
from ..facts import QueueRow
from ..wire import CreateQueue, QueuesAre
from .asking import ask
from .common import WholeNumber, counted, one_line_errors, print_json, printable, say
from .queues.reading import file_option, output_option, queue_argument, read_json5
from .queues.texts import queue_facts


@click.command("create-queue")
@queue_argument
@click.argument("words", nargs=-1, metavar="[PREFIX]...")
@click.option(
    "--json",
    "--capacity",
    "text",
    metavar="JSON5",
    help="What it has: {gpu:4,cpu:16}, {hdd:[32,64,128]}, {gpu:{'2':1,'4':1}}.",
)
@file_option
@click.option("--prefix", metavar="CMD", help="What all its commands begin with.")
@click.option(
    "--max-jobs", type=WholeNumber(min=1), metavar="N", help="Jobs at once, whatever they need."
)
@output_option
@one_line_errors
def create_queue(
    queue: str,
    words: Sequence[str],
    text: str | None,
    file: str | None,
    prefix: str | None,
    max_jobs: int | None,
    as_json: bool,
) -> None:
    """Make a queue with declared resources, for `grn enqueue`.

    \b
    grn create-queue q1 --json "{gpu:4,cpu:16}"        GPUs 0 to 3, and 16 CPU slots
    grn create-queue scans --json "{gpu:{'2':1,'4':1},disk:[32,64],licence:1}"
    grn create-queue fits --file have.json5 --max-jobs 3 --prefix "python fit.py"

    A number is so many instances of 1, a list has the amount of each, an object gives them
    names. A job gets what it needs of one instance; of instances of 1 a whole number of them.
    One pool is a list of one: {RAM:[512]}. The resource gpu is special: its instances are
    managed devices, by index.
    """
    written = read_json5(text, file)
    if written is None and max_jobs is None:
        raise click.UsageError("what does it have? Say --json '{gpu:4,cpu:16}', or --file FILE")
    try:
        capacity = {} if written is None else parse_capacity(written)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    order = CreateQueue(uuid.uuid4().hex, queue, capacity, _prefix(prefix, words), max_jobs)
    (row,) = ask(order, QueuesAre).rows
    if as_json:
        print_json(queue_facts(row))
    else:
        say(printable(f"Created queue {row.name}: {_described(row)}"))


def _prefix(prefix: str | None, words: Sequence[str]) -> tuple[str, ...]:
    """Take it from the option, split as a shell does, or from the words behind the name."""
    if prefix is None:
        return tuple(words)
    if words:
        raise click.UsageError("a prefix by --prefix and behind the name: give one of them")
    try:
        found = tuple(shlex.split(prefix))
    except ValueError as error:
        raise click.UsageError(f"--prefix: quotes do not match: {error}") from None
    if not found:
        raise click.UsageError("--prefix: no word is in it; leave it out")
    return found


def _described(row: QueueRow) -> str:
    most = f", {counted(row.max_jobs, 'job')} at once" if row.max_jobs is not None else ""
    runs = f"; it runs {shlex.join(row.prefix)} …" if row.prefix else ""
    return f"{write_capacity(row.capacity)}{most}{runs}"


if __name__ == "__main__":
    create_queue()
