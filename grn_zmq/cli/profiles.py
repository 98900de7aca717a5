"""`grn profiles`: what was learned of job types, and how to forget it."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from ..client import this_client
from ..errors import GrnError
from ..records import ProfileRow
from ..wire import ForgetProfiles, Forgotten
from .common import json_option, one_line_errors, print_json, print_table, say
from .listing import all_profiles, bytes_or_dash, seconds, short_names
from .matching import matching, near

HEADERS = (
    *("TYPE", "BY", "DEVICE CLASS", "RUNS", "PREDICTED", "PEAK", "NEED", "BOUND"),
    *("OOM", "FAILED", "RUN", "UTIL"),
)


class UnknownType(GrnError, LookupError):
    """Nothing is known of such a job type, or of several."""


@click.command()
@click.argument("words", nargs=-1, metavar="[forget] [TYPE]...")
@json_option
@one_line_errors
def profiles(words: Sequence[str], as_json: bool) -> None:
    """List what was learned of job types, or forget it so that they are measured anew.

    \b
    grn profiles                             all of them
    grn profiles train.py::fit               of one type, or of all that end like this
    grn profiles --json                      the same for machines, sizes in bytes
    grn profiles forget train.py::fit        forget one type; the end of its name will do

    PREDICTED is what the next job is expected to need, PEAK the most a run took, NEED what
    it would have managed with, BOUND the most that runs which outgrew their promise, failed
    or ran out of memory are known to have wanted.
    """
    if words[:1] == ("forget",):
        _forget(words[1:], as_json)
    else:
        _list(words, as_json)


def _list(written: Sequence[str], as_json: bool) -> None:
    rows = all_profiles()
    if written:
        wanted = {one for text in written for one in _meant(text, rows)}
        rows = [row for row in rows if row.job_type in wanted]
    if as_json:
        print_json([asdict(row) for row in rows])
    elif not rows:
        click.echo("No profiles: no job has run yet")
    else:
        names = short_names(row.job_type for row in rows)
        print_table(HEADERS, [_cells(row, names[row.job_type]) for row in rows])


def _forget(written: Sequence[str], as_json: bool) -> None:
    if not written:
        raise click.UsageError("forget what? Name job types as `grn profiles` lists them")
    rows = all_profiles()
    wanted = tuple(dict.fromkeys(_only(text, rows) for text in written))
    count = this_client().ask(ForgetProfiles(wanted), Forgotten).profiles
    if as_json:
        print_json({"forgotten": count, "job_types": wanted})
        return
    plural = "" if count == 1 else "s"
    say(f"Forgot {count} profile{plural} of {', '.join(wanted)}: the next run is measured")


def _meant(written: str, rows: Sequence[ProfileRow]) -> list[str]:
    known = [row.job_type for row in rows]
    found = matching(written, known)
    if found:
        return found
    likely = near(written, known)
    hint = f"did you mean {' or '.join(likely)}?" if likely else "`grn profiles` lists all"
    raise UnknownType(f"nothing is known of a job type {written}: {hint}")


def _only(written: str, rows: Sequence[ProfileRow]) -> str:
    found = _meant(written, rows)
    if len(found) > 1:
        raise UnknownType(f"{written} may be {' or '.join(found)}: write more of it")
    return found[0]


def _cells(row: ProfileRow, name: str) -> tuple[str, ...]:
    devices = f" x {row.devices}" if row.devices > 1 else ""
    return (
        name,
        ", ".join(f"{name}={value}" for name, value in sorted(row.by.items())) or "-",
        f"{row.device_class}{devices}",
        str(row.runs),
        bytes_or_dash(row.predicted_bytes),
        bytes_or_dash(row.peak_bytes),
        bytes_or_dash(row.need_bytes),
        bytes_or_dash(row.bound_bytes),
        str(row.ooms or "-"),
        str(row.failures or "-"),
        seconds(row.duration_s) if row.duration_s else "-",
        f"{row.utilisation:.0%}",
    )
