"""`grn profiles`: what was learned of job types; to see, set, forget, take along."""

from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

import click

from ..batches import batches, share_of_message
from ..facts import CellRow, ProfileRow
from ..units import format_seconds
from ..wire import ForgetProfiles, Forgotten
from .asking import ask
from .common import (
    counted,
    json_option,
    one_line_errors,
    print_json,
    print_table,
    printable,
    say,
)
from .learned.cells import ROWS_PER_MESSAGE, all_cells, key_of
from .learned.knowntypes import UnknownType, meant, only
from .learned.moving import export_profiles, import_profiles
from .learned.promising import by_text, sheet, why
from .learned.setting import set_profile
from .listing import all_profiles, bytes_or_dash, short_names
from .matching import near

HEADERS = (
    *("TYPE", "BY", "DEVICE CLASS", "RUNS", "PREDICTED", "PEAK", "NEED", "BOUND"),
    *("OOM", "FAILED", "RUN", "UTIL"),
)
# A word so near to a verb is one with a slip in it, and no job type.
VERY_NEAR = 0.75
# What `grn profiles show` adds to the row of a list.
CELL_FACTS = ("version", "trust", "stand_in_bytes", "solo_s", "mean_utilisation")


class ProfilesGroup(click.Group):
    """Lists if no other verb is named: `grn profiles fit` is `grn profiles list fit`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_help = args[:1] and args[0] in ctx.help_option_names
        if not asks_help and (args or not ctx.resilient_parsing):  # else a shell completes
            args = self._with_verb(args)
        return super().parse_args(ctx, args)

    def _with_verb(self, args: list[str]) -> list[str]:
        """Put the verb first: options before it are its own."""
        for at, word in enumerate(args):
            if word in self.commands:
                return [word, *args[:at], *args[at + 1 :]]
            if not word.startswith("-") or word == "--":
                break
        return ["list", *args]


@click.group(cls=ProfilesGroup, subcommand_metavar="[VERB] [ARGS]...")
def profiles() -> None:
    """List what was learned of job types, show it, set it, forget it, or take it along.

    \b
    grn profiles                             all of them; train.py::fit: of one type
    grn profiles forget train.py::fit        measure it anew; the end of a name will do
    grn profiles export -o learned.json      for another machine, to import there
    """


@profiles.command("list", short_help="List what was learned of job types.")
@click.argument("types", nargs=-1, metavar="[TYPE]...")
@json_option
@one_line_errors
def list_profiles(types: Sequence[str], as_json: bool) -> None:
    """List what was learned of job types, a line for each kind of job and device.

    \b
    grn profiles                             all of them
    grn profiles train.py::fit               of one type, or of all that end like this
    grn profiles --json                      the same for machines, sizes in bytes

    PREDICTED is what the next job is expected to need, PEAK the most a run took, NEED what
    it would have managed with, BOUND the most that runs which outgrew their promise, failed
    or ran out of memory are known to have wanted.
    """
    rows = all_profiles()
    if types:
        wanted = _wanted(types, {row.job_type for row in rows})
        rows = [row for row in rows if row.job_type in wanted]
    if as_json:
        print_json([asdict(row) for row in rows])
    elif not rows:
        click.echo("No profiles: no job has run yet")
    else:
        names = short_names(row.job_type for row in rows)
        print_table(HEADERS, [_cells(row, names[row.job_type]) for row in rows])


def _wanted(types: Sequence[str], known: set[str]) -> set[str]:
    try:
        return {one for text in types for one in meant(text, known)}
    except UnknownType:
        verbs = get_close_matches(types[0], profiles.commands, n=1, cutoff=VERY_NEAR)
        if not verbs or near(types[0], known):
            raise
        hint = f"did you mean `grn profiles {verbs[0]}`?"
        raise UnknownType(f"nothing is known of a job type {types[0]}: {hint}") from None


@profiles.command(short_help="Tell all about one job type.")
@click.argument("job_type", metavar="TYPE")
@json_option
@one_line_errors
def show(job_type: str, as_json: bool) -> None:
    """Tell all that is known of a job type, and what its next job is promised and why.

    \b
    grn profiles show train.py::fit          the end of its name will do
    grn profiles show "python train.py #"    a command, its numbers written #
    grn profiles show fit --json             the same for machines, sizes in bytes
    """
    rows = all_profiles()
    wanted = only(job_type, (row.job_type for row in rows))
    cells = {key_of(cell): cell for cell in all_cells() if cell.job_type == wanted}
    known = [(row, cells[key_of(row)]) for row in rows if key_of(row) in cells]
    if as_json:
        print_json({"job_type": wanted, "profiles": [_facts(*one) for one in known]})
        return
    runs = sum(cell.runs for _, cell in known)
    lines = [f"{wanted}: {counted(runs, 'run')}, {counted(len(known), 'profile')}"]
    for row, cell in known:
        lines += ["", f"{by_text(row.by) or 'all jobs'} on {row.device_class}"]
        lines += [f"  {label:<12} {text}" for label, text in sheet(row, cell)]
    click.echo("\n".join(map(printable, lines)))


def _facts(row: ProfileRow, cell: CellRow) -> dict[str, Any]:
    more = {name: getattr(cell, name) for name in CELL_FACTS}
    return {**asdict(row), **more, "why": why(row)}


profiles.add_command(set_profile)


@profiles.command(short_help="Forget job types: measure them anew.")
@click.argument("types", nargs=-1, metavar="TYPE...")
@json_option
@one_line_errors
def forget(types: Sequence[str], as_json: bool) -> None:
    """Forget what was learned of job types, so that they are measured anew.

    \b
    grn profiles forget train.py::fit        the end of its name will do
    grn profiles forget fit evaluate         several
    grn profiles forget fit --json           says as JSON what was forgotten
    """
    if not types:
        raise click.UsageError("forget what? Name job types as `grn profiles` lists them")
    known = {row.job_type for row in all_profiles()}
    wanted = tuple(dict.fromkeys(only(text, known) for text in types))
    sized = [(one, share_of_message(one)) for one in wanted]
    count = sum(
        ask(ForgetProfiles(tuple(part)), Forgotten).profiles
        for part in batches(sized, most=ROWS_PER_MESSAGE)
    )
    if as_json:
        print_json({"forgotten": count, "job_types": wanted})
        return
    of = ", ".join(wanted)
    say(printable(f"Forgot {counted(count, 'profile')} of {of}: the next run is measured"))


profiles.add_command(export_profiles)
profiles.add_command(import_profiles)


def _cells(row: ProfileRow, name: str) -> tuple[str, ...]:
    devices = f" x {row.devices}" if row.devices > 1 else ""
    return (
        name,
        by_text(row.by) or "-",
        f"{row.device_class}{devices}",
        str(row.runs),
        bytes_or_dash(row.predicted_bytes),
        bytes_or_dash(row.peak_bytes),
        bytes_or_dash(row.need_bytes),
        bytes_or_dash(row.bound_bytes),
        str(row.ooms or "-"),
        str(row.failures or "-"),
        format_seconds(row.duration_s) if row.duration_s else "-",
        f"{row.utilisation:.0%}",
    )
