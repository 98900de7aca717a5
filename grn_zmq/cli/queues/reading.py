"""What the verbs about queues share: JSON5 as an option or in a file, and machine output.

`--json` is what a queue has or a job needs, as users of Grass know it; so what is printed for
machines is asked for by another option.
"""

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from ...capacities import MOST_CHARACTERS
from ...requiring import require_word
from ..common import printable

F = TypeVar("F", bound=Callable[..., Any])

# Characters of UTF-8 have four bytes at most.
_MOST_BYTES: Final = 4 * MOST_CHARACTERS


def _is_json(_: click.Context, __: click.Parameter, value: str) -> bool:
    return value == "json"


def _name(_: click.Context, __: click.Parameter, value: str) -> str:
    """A name that can be said to every verb."""
    try:
        require_word(value)
        if not value or value.startswith("-"):
            raise ValueError
    except ValueError:
        raise click.BadParameter(
            f"{value[:40]!r} is no name of a queue: write up to 128 letters and digits, "
            "without spaces"
        ) from None
    return value


queue_argument = click.argument("queue", metavar="NAME", callback=_name)
output_option = click.option(
    "--output",
    "as_json",
    type=click.Choice(["text", "json"]),
    default="text",
    callback=_is_json,
    help="json prints facts for machines; --json is something else here.",
)
file_option = click.option(
    "--file", metavar="FILE", help="A file that has it, as JSON5; - reads stdin."
)


def read_json5(text: str | None, file: str | None) -> str | None:
    """Give what was written in an option or in a file; None if it was in neither.

    Raises:
        UsageError: It was written in both, or the file cannot be read.
    """
    if file is None:
        return text
    if text is not None:
        raise click.UsageError("--json and --file say the same: give one of them")
    if file == "-" and sys.stdin is None:
        raise click.UsageError("cannot read stdin: it is closed. Name a file, or use a pipe")
    try:
        if file == "-":
            return sys.stdin.buffer.read(_MOST_BYTES).decode()
        with open(file, "rb") as opened:
            return opened.read(_MOST_BYTES).decode()
    except UnicodeDecodeError:
        raise click.UsageError(
            f"cannot read {printable(file)}: it is no text in UTF-8"
        ) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise click.UsageError(f"cannot read {printable(file)}: {why}") from None
