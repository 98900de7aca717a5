"""`grn logs`: what a job printed."""

import os
import sys
import time
from collections.abc import Iterable
from typing import Final

import click

from ..facts import JobRow
from ..logfiles import LogReader, Printed
from ..paths import logs_directory
from ..units import format_bytes
from ..wire import AskJob, JobIs
from .asking import ask
from .common import WholeNumber, is_terminal, one_line_errors, printable, say
from .refs import find_one
from .states import LIVE, reason_of

# How soon what is printed is seen, and how soon that the job has ended.
LOOK_S: Final = 0.1
ASK_S: Final = 0.5
# States before the first line can come.
WAITING: Final = frozenset({"queued", "held", "assigned"})


@click.command()
@click.argument("ref", default="@", metavar="[JOB]")
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended.")
@click.option("--stdout", "stdout_only", is_flag=True, help="Only what it wrote to stdout.")
@click.option("--stderr", "stderr_only", is_flag=True, help="Only what it wrote to stderr.")
@click.option(
    "--lines", "-n", type=WholeNumber(min=0), metavar="N", help="Begin with the last N lines."
)
@one_line_errors
def logs(
    ref: str, follow: bool, stdout_only: bool, stderr_only: bool, lines: int | None
) -> None:
    """Print what a job has printed: its stdout to stdout, its stderr to stderr.

    \b
    grn logs                 the job submitted last
    grn logs -f 12           go on until job 12 has ended
    grn logs -n 20 train-7   the last 20 lines of a job by its name
    grn logs --stderr @~1    only the errors of the job before the last

    Of each job the last 8 to 16 MiB are kept, as long as the job is listed. Each attempt
    after the first begins with a line that says so. Ctrl-C leaves; the job goes on.
    """
    one_of = stdout_only != stderr_only
    stream = ("stdout" if stdout_only else "stderr") if one_of else None
    job_id = find_one(ref)
    with LogReader(logs_directory(os.environ), job_id) as reader:
        log = LogPrinter(reader, stream)
        log.show(reader.read(stream) if lines is None else reader.tail(lines, stream))
        row = ask(AskJob(job_id), JobIs).row
        if follow and row.state in WAITING and is_terminal(sys.stderr):
            say(f"grn: {printable(_not_yet(row))}", err=True)
        while follow and row.state in LIVE:
            row = log.follow_a_while(job_id)
        log.show(reader.read(stream))
    if not log.shown and lines != 0:
        say(f"grn: {_nothing(row, stream)}", err=True)


class LogPrinter:
    """Writes out what a reader gives, and remembers whether there was anything."""

    def __init__(self, reader: LogReader, stream: str | None) -> None:
        self._reader = reader
        self._stream = stream
        self._missed_bytes = 0
        self.shown = False

    def show(self, pieces: Iterable[Printed]) -> None:
        for stream, data in pieces:
            self._tell_what_is_missing()
            self.shown = True
            _write(stream, data)
        self._tell_what_is_missing()

    def _tell_what_is_missing(self) -> None:
        """Say how much is kept no more, wherever it would have come."""
        missed = self._reader.missed_bytes
        if missed <= self._missed_bytes:
            return
        size = format_bytes(missed - self._missed_bytes)
        why = ": they were printed faster than they are read here" if self.shown else ""
        say(f"grn: {size} before this are kept no more{why}", err=True)
        self._missed_bytes = missed

    def follow_a_while(self, job_id: str) -> JobRow:
        """Show what comes, then tell whether the job goes on."""
        ask_at = time.monotonic() + ASK_S
        while time.monotonic() < ask_at:
            pieces = self._reader.more(self._stream)
            self.show(pieces)
            if not pieces:
                time.sleep(LOOK_S)
        return ask(AskJob(job_id), JobIs).row


def _write(stream: str, data: bytes) -> None:
    """Unchanged, and at once: on a terminal both streams shall come in their order."""
    target = sys.stderr if stream == "stderr" else sys.stdout
    if target is None:
        return  # a shell has closed it: nobody wants to see it
    target.flush()
    target.buffer.write(data)
    target.buffer.flush()


def _not_yet(row: JobRow) -> str:
    """Say what will have to come before there is anything to follow."""
    why = reason_of(row)
    return f"job {row.number} has not started yet{f': {why}' if why else ''}"


def _nothing(row: JobRow, stream: str | None) -> str:
    """Say that there is nothing to print, so that nobody waits for it."""
    where = f" to {stream}" if stream else ""
    if row.state in LIVE:
        return f"job {row.number} has printed nothing{where} yet: it is {row.state}"
    return f"job {row.number} printed nothing{where}"
