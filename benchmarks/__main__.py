"""How fast it is: beside a bare ZeroMQ echo, and beside what users would pick instead.

python -m benchmarks                        everything that is installed; about half an hour
python -m benchmarks --short                the same in a few minutes, less surely
python -m benchmarks --quick                tiny: only to see that it works
python -m benchmarks --only latency,noop    some rows
python -m benchmarks --peers ray,loky       some peers; --peers none for ours alone
python -m benchmarks --json all.json --plot speed.png --markdown table.md

Each measurement runs in a process of its own, with a deadline, between two looks at the echo
(R jobs/s, L seconds for one; the better look counts), and every result is checked. Peers come
from pip (ray, loky, distributed, celery, redis, ipyparallel, parsl, numpy, torch) and Debian
(redis-server, task-spooler); what is not installed is said to be missing. Ours has a broker in
a directory of its own (TMPDIR says on which disk), and leaves neither behind. The status is 1
if something failed, not if it was slow.

See also: python -m benchmarks.decisions, python -m benchmarks.commands
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.claims import ORDER, all_claims
from benchmarks.peers import PACKAGES, PEERS
from benchmarks.plots import plot
from benchmarks.run import measure
from grn_zmq.bench import report, tables
from grn_zmq.bench.claims import Judged, judge
from grn_zmq.bench.figures import Book
from grn_zmq.bench.sizes import FULL, QUICK, SHORT, Size

INTERRUPTED = 130


def some_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Read names with commas between them, all of which must be known."""

    def read(text: str) -> list[str]:
        names = [] if text == "none" else text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names

    return read


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    rows = f"of {', '.join(ORDER)}"
    peers = f"of {', '.join(PEERS)}; default: those that are installed"
    add = parser.add_argument
    add("--only", type=some_of(ORDER), default=list(ORDER), metavar="ROW,ROW", help=rows)
    add("--peers", type=some_of(list(PEERS)), default=list(PEERS), metavar="PEER", help=peers)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const=QUICK)
    size.add_argument("--short", dest="size", action="store_const", const=SHORT)
    add("--json", type=Path, metavar="FILE", help="every sample, and the versions")
    add("--plot", type=Path, metavar="FILE", help="a PNG; pip install -e '.[plot]'")
    add("--markdown", type=Path, metavar="FILE", help="the tables, for README")
    parser.set_defaults(size=FULL)
    asked = parser.parse_args(words)
    if asked.plot and find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install -e '.[plot]'")
    return asked


def tell(what: str) -> None:
    """Say what is measured: a line that goes away on a terminal, else one that stays."""
    live = sys.stderr.isatty()
    if what or live:
        begin, end = ("\r\x1b[K", "") if live else ("", "\n")
        print(f"{begin}{what and f'measuring {what}'}", end=end, file=sys.stderr, flush=True)


def judged(book: Book, rows: Sequence[str], size: Size) -> list[Judged]:
    return [judge(one, book) for one in all_claims(size) if one.row in rows]


def show(book: Book, found: Sequence[Judged]) -> None:
    for headers, rows in sections(book, found):
        print("\n".join(tables.aligned(headers, rows)), end="\n\n")
    for name, why in book.missing.items():
        print(f"not measured: {name}: {why}")
    if unrest := book.unrest():
        print(unrest)
    for line in book.troubles():
        print(line, file=sys.stderr)


def sections(
    book: Book, found: Sequence[Judged]
) -> list[tuple[Sequence[str], list[list[str]]]]:
    """The two tables: what was claimed, and who did what."""
    return [
        (tables.CLAIM_HEADERS, tables.claim_rows(found)),
        (tables.CONTENDER_HEADERS, tables.contender_rows(book)),
    ]


def write_json(path: Path, book: Book, found: Sequence[Judged], size: Size) -> None:
    facts = report.facts(book, found, size, [*report.PACKAGES, *PACKAGES])
    path.write_text(json.dumps(facts, indent=1) + "\n")


def main() -> int:
    asked = arguments()

    def keep(book: Book) -> None:
        if asked.json:
            write_json(asked.json, book, judged(book, asked.only, asked.size), asked.size)

    try:
        book = measure(asked.only, asked.peers, asked.size, tell, keep)
    except KeyboardInterrupt:
        return INTERRUPTED
    tell("")
    keep(book)
    found = judged(book, asked.only, asked.size)
    show(book, found)
    if asked.markdown:
        parts = ["\n".join(tables.markdown(*one)) for one in sections(book, found)]
        asked.markdown.write_text("\n\n".join(parts) + "\n")
    if asked.plot:
        plot(book, asked.plot)
    return 1 if book.troubles() else 0


if __name__ == "__main__":
    sys.exit(main())
