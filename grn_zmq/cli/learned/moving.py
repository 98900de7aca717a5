"""`grn profiles export` and `import`: what was learned, taken from one machine to another."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ...errors import GrnError
from ..common import counted, json_option, one_line_errors, print_json, printable, say
from .cellfile import document_of, read_document
from .cells import all_cells, key_of, put_cells
from .knowntypes import meant


class FileTrouble(GrnError, OSError):
    """A file that cannot be read or written."""


@click.command("export", short_help="Write what was learned as JSON.")
@click.argument("types", nargs=-1, metavar="[TYPE]...")
@click.option("-o", "--output", "file", default="-", metavar="FILE", help="Default: stdout.")
@json_option
@one_line_errors
def export_profiles(types: Sequence[str], file: str, as_json: bool) -> None:
    """Write what was learned of job types as JSON, to be imported elsewhere.

    \b
    grn profiles export -o learned.json             all of it
    grn profiles export train.py::fit -o fit.json   one type, or all that end like this
    grn profiles export | ssh other grn profiles import -

    Figures are kept by the model of device. What was measured helps where devices are of the
    same model, and a little where they are not. Of this machine nothing is said but the names
    of job types: those of functions in a script begin with its path, and commands are as they
    were written.
    """
    rows = all_cells()
    if types:
        known = {row.job_type for row in rows}
        wanted = {one for text in types for one in meant(text, known)}
        rows = [row for row in rows if row.job_type in wanted]
    document = document_of(rows)
    if file == "-":
        print_json(document)
        return
    try:
        Path(file).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        raise FileTrouble(f"cannot write {file}: {_why(error)}") from None
    job_types = sorted({row.job_type for row in rows})
    if as_json:
        print_json({"exported": len(rows), "job_types": job_types, "file": file})
        return
    of = counted(len(job_types), "job type")
    say(printable(f"Exported {counted(len(rows), 'profile')} of {of} to {file}"))


@click.command("import", short_help="Take over what was exported elsewhere.")
@click.argument("file", metavar="FILE")
@json_option
@one_line_errors
def import_profiles(file: str, as_json: bool) -> None:
    """Take over what was exported elsewhere; '-' reads it from stdin.

    \b
    grn profiles import learned.json
    ssh other grn profiles export | grn profiles import -
    grn profiles import learned.json --json         says as JSON what was taken

    It replaces what is known of the same kind of job on the same model of device, and keeps
    all else. What cannot be is refused before anything is taken.
    """
    rows = read_document(_read(file), "stdin" if file == "-" else file)
    known = {key_of(row) for row in all_cells()}
    replaced = sum(key_of(row) in known for row in rows)
    put_cells(rows)
    job_types = sorted({row.job_type for row in rows})
    if as_json:
        print_json({"imported": len(rows), "replaced": replaced, "job_types": job_types})
        return
    of = counted(len(job_types), "job type")
    before = f"; {replaced:,} of them were known before" if replaced else ""
    say(f"Imported {counted(len(rows), 'profile')} of {of}{before}")


def _read(file: str) -> bytes:
    if file == "-" and sys.stdin is None:
        raise FileTrouble("cannot read stdin: it is closed. Name a file, or use a pipe")
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        raise FileTrouble(f"cannot read {file}: {_why(error)}") from None


def _why(error: OSError | ValueError) -> str:
    """Without the name of the file, which was said."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
