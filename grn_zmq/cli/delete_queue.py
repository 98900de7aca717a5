"""`grn delete-queue`: let a queue go."""

from typing import Any

import click

from ..errors import RequestRefused
from ..wire import Acted, AskQueues, DeleteQueue, QueuesAre
from .asking import ask
from .common import counted, json_option, one_line_errors, print_json, printable, say
from .queues.reading import queue_argument


@click.command("delete-queue")
@queue_argument
@click.option("--kill", is_flag=True, help="End its running jobs too: TERM, grace, KILL.")
@json_option
@one_line_errors
def delete_queue(queue: str, kill: bool, as_json: bool) -> None:
    """Delete a queue: what waits in it is cancelled, what runs goes on to its end.

    \b
    grn delete-queue q1            running jobs keep what they have until they end
    grn delete-queue q1 --kill     they are ended too
    grn delete-queue q1 --json     the same as facts: which jobs were cancelled

    It takes no more jobs at once, and is gone with the last one that runs. How its jobs ended
    stays listed, until `grn clean`.
    """
    done = ask(DeleteQueue(queue, kill), Acted).done
    running = _running(queue)
    ended = min(running, len(done)) if kill else 0
    facts = {
        "name": queue,
        "cancelled": len(done) - ended,
        "ending": ended,
        "running": running - ended,
        "job_ids": list(done),
    }
    if as_json:
        print_json(facts)
    else:
        say(printable(f"Deleted queue {queue}{_told(facts)}"))


def _running(queue: str) -> int:
    """How many of its jobs still run; none if it is gone already."""
    try:
        return sum(row.running for row in ask(AskQueues(queue), QueuesAre).rows)
    except RequestRefused:
        return 0


def _told(facts: dict[str, Any]) -> str:
    parts = []
    if facts["cancelled"]:
        parts.append(f"cancelled {counted(facts['cancelled'], 'job')} that waited")
    if facts["ending"]:
        parts.append(
            f"ending {counted(facts['ending'], 'job')}: TERM, and after the grace KILL"
        )
    if facts["running"]:
        runs = "runs on to its end" if facts["running"] == 1 else "run on to their end"
        parts.append(f"{counted(facts['running'], 'job')} {runs}")
    return f": {'; '.join(parts)}" if parts else ""


if __name__ == "__main__":
    delete_queue()
