"""The command line of `grn enqueue`: a queue, options around its name, and then a command."""

import shlex
from collections.abc import Sequence
from typing import Final

import click

from ..queueing.commands import CommandLine, split_variables

FORMS: Final = "write the command behind the queue: grn enqueue NAME -- python train.py lr=0.1"


class EnqueueVerb(click.Command):
    """Takes options before and behind the name of the queue; then the command begins.

    What begins with a dash in the command belongs to it, so options end with its first word.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        head, rest = self._split(ctx, args)
        if not rest or head[-1:] == ["--"]:
            ctx.meta["exact"] = True
            return super().parse_args(ctx, args)
        name, *rest = rest
        try:
            options, words = self._split(ctx, rest)
        except click.NoSuchOption as error:
            told = error.format_message().rstrip(".")
            ctx.fail(f"{told}. If it belongs to the command, {FORMS}")
        ctx.meta["exact"] = options[-1:] == ["--"]
        return super().parse_args(ctx, [*head, *options, name, *words])

    def _split(self, ctx: click.Context, args: Sequence[str]) -> tuple[list[str], list[str]]:
        """The options at the beginning, and what follows from the first other word on."""
        options = [one for one in self.params if isinstance(one, click.Option)]
        parser = click.Command(self.name, params=list(options)).make_parser(ctx)
        _, rest, _ = parser.parse_args(list(args))
        at = len(args) - len(rest)
        return list(args[:at]), list(args[at:])


def queue_line(words: Sequence[str], prefix: Sequence[str], *, exact: bool) -> CommandLine:
    """Give the command that is meant, and the variables in front of it.

    Args:
        prefix: What all commands of the queue begin with; then the words are arguments.
        exact: Whether they came after `--`; else a single one may be a whole command line.

    Raises:
        UsageError: There is no command.
    """
    if prefix:
        return CommandLine((*prefix, *words), {})
    if len(words) == 1 and not exact:
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise click.UsageError(f"quotes do not match: {error}") from None
    line = split_variables(words)
    if not line.words:
        raise click.UsageError(f"no command: {FORMS}")
    return line
