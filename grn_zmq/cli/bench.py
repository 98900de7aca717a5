"""`grn bench`: how fast is this installation, on this machine, now?"""

import sys
from collections.abc import Callable

import click

from .common import is_terminal, json_option, one_line_errors, print_json, print_table, say

ABOUT = """
R and L are what a bare ZeroMQ echo did in between: {rate} jobs/s, {p50}.
`python -m benchmarks` in a checkout measures beside other systems, with longer queues.\
"""


def _chosen(_: click.Context, __: click.Parameter, value: str | None) -> list[str]:
    from ..bench.plan import ROWS

    names = value.split(",") if value else list(ROWS)
    for name in names:
        if name not in ROWS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(ROWS)}")
    return names


def _progress() -> Callable[[str], None]:
    """Say on a terminal what is measured, in one line that goes away."""
    shown = is_terminal(sys.stderr)

    def tell(what: str) -> None:
        if shown:
            click.echo(f"\r\x1b[K{what and f'measuring {what}'}", nl=False, err=True)

    return tell


@click.command()
@click.option(
    "--only",
    metavar="ROW,ROW",
    callback=_chosen,
    help="Of noop, latency, alone, spawn, payload, deep, first, commands, idle. Default: all.",
)
@click.option("--quick", is_flag=True, help="A tiny run that only shows that it works.")
@json_option
@one_line_errors
def bench(only: list[str], quick: bool, as_json: bool) -> None:
    """Measure how fast this installation is, beside a bare ZeroMQ echo in the same run.

    \b
    grn bench                       calls, queues, payloads, starts: less than a minute
    grn bench --only latency,noop   some of it
    grn bench --json                every sample, for machines

    A private broker with two small devices runs jobs that do nothing; every result is
    checked. It needs no GPU and leaves nothing behind, your own broker is not touched.
    Figures are medians; on a machine that does something else they say little.
    """
    from ..bench.plan import measure_own
    from ..bench.report import facts
    from ..bench.sizes import QUICK, SHORT
    from ..bench.tables import CLAIM_HEADERS, claim_rows, microseconds, number

    size = QUICK if quick else SHORT
    tell = _progress()
    book, judged = measure_own(only, size, tell)
    tell("")
    if as_json:
        print_json(facts(book, judged, size))
    else:
        print_table(CLAIM_HEADERS, claim_rows(judged))
        rate, p50_s = book.limit()
        say(ABOUT.format(rate=number(rate), p50=microseconds(p50_s)))
        if unrest := book.unrest():
            say(unrest)
    for line in book.troubles():
        say(line, err=True)
    sys.exit(1 if book.troubles() else 0)
