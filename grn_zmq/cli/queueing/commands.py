"""Command lines as people write them: split into words, or refused with how to write them."""

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import click

from ...errors import GrnError
from ...limits import MAX_NAME
from ..common import printable

# `A=1 python x.py`: what a shell would take for a variable, and not for a program.
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def forms(verb: str) -> str:
    """Say how commands are written."""
    return (
        f'write each command as one argument (grn {verb} "python a.py" "python b.py"), '
        f"or one command after -- (grn {verb} -- python a.py --lr 0.1); several commands "
        'without any argument take a space inside their quotes ("./a.sh " "./b.sh ")'
    )


class CommandVerb(click.Command):
    """A verb that takes commands: remembers what came after `--`, which click would forget."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before, after = args, None
        if "--" in args:
            at = args.index("--")
            before, after = args[:at], args[at + 1 :]
        ctx.meta["after"] = after
        return super().parse_args(ctx, before)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The words of one command, and the variables that were set in front of them."""

    words: tuple[str, ...]
    variables: Mapping[str, str]


def command_lines(
    commands: Sequence[str], after: Sequence[str] | None, verb: str
) -> list[CommandLine]:
    """Split what was written into the words of each command.

    Raises:
        UsageError: It is not clear what is meant; the text says how to write it.
    """
    if after is not None and commands:
        raise click.UsageError(f"commands before and after --: {forms(verb)}")
    if after:
        return [CommandLine(tuple(after), {})]
    if not commands:
        raise click.UsageError(f"no command: {forms(verb)}")
    if len(commands) > 1 and not any(" " in command for command in commands):
        raise click.UsageError(f"is this one command or {len(commands)}? {forms(verb)}")
    try:
        lines = [split_variables(shlex.split(command)) for command in commands]
    except ValueError as error:
        raise click.UsageError(f"quotes do not match: {error}") from None
    if not all(line.words for line in lines):
        raise click.UsageError(f"an empty command: {forms(verb)}")
    return lines


def split_variables(words: Sequence[str]) -> CommandLine:
    """Give a command without what is set in front of it: `A=1 python x.py`."""
    variables: dict[str, str] = {}
    for at, word in enumerate(words):
        assigned = _ASSIGNMENT.fullmatch(word)
        if assigned is None:
            return CommandLine(tuple(words[at:]), variables)
        variables[assigned[1]] = assigned[2]
    return CommandLine((), variables)


def title_of(words: Sequence[str]) -> str:
    """The command line for people: what could act on a terminal is made visible."""
    text = printable(shlex.join(words))
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"


def here() -> str:
    """Give our working directory.

    Raises:
        GrnError: It is gone.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise GrnError(
            "the working directory does not exist any more: go to another, or give --cwd"
        ) from None


def check_is_found(words: Sequence[str], cwd: str) -> None:
    """Refuse a script of this directory that would be looked for on PATH, as in a shell.

    Raises:
        UsageError: It is there, and not on PATH.
    """
    program = words[0]
    if "/" in program or not os.path.isfile(os.path.join(cwd, program)):
        return
    if shutil.which(program) is None:
        raise click.UsageError(
            f"{program} is a file in the working directory but no command on PATH: "
            f"write ./{program}, or name its interpreter (python {program})"
        )
