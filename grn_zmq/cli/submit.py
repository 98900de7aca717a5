"""`grn submit`: commands as jobs that go on by themselves."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from click.core import ParameterSource

from .common import json_option, one_line_errors
from .queueing.commands import CommandLine, CommandVerb, check_is_found, command_lines
from .queueing.directives import read_directives, script_in
from .queueing.handing import hand_in
from .queueing.hints import hints_about
from .queueing.joboptions import job_options
from .queueing.planning import Asked, CommandJob, plan
from .queueing.submitoptions import queued_options, saying_options

# Options that are about this very submission, and not about the job of a script.
_NOT_IN_SCRIPTS: Final = frozenset({"commands", "wait", "dry_run", "quiet", "as_json"})
# Of these a script may give some and the command line others; of equal names that one wins.
_BY_NAME: Final = ("params", "env", "envlist", "by", "resources")


@click.command(cls=CommandVerb, context_settings={"allow_interspersed_args": False})
@click.argument("commands", nargs=-1)
@queued_options
@job_options
@saying_options
@json_option
@click.pass_context
@one_line_errors
def submit(
    ctx: click.Context,
    /,
    commands: Sequence[str],
    wait: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Queue commands as jobs and leave; they run when there is room, whoever goes.

    \b
    grn submit -- python train.py --lr 0.1
    grn submit --param lr=0.1,0.01 --param bs=8,16 -- python train.py --lr {lr} --bs {bs}
    grn submit --name eval --after train --time 2h "python eval.py"

    Each argument before -- is one command line; after -- all words are one command. No
    shell is involved: write sh -c 'a | b' for pipes. {gpu}, {device}, {memory}, {job} and
    {attempt} are filled in when a job starts; {{gpu}} is a literal {gpu}.

    A script may hold options itself, in the comments at its head: # GRN --time 2h --name fit.
    Those of the command line win.
    """
    lines = command_lines(commands, ctx.meta["after"], "submit")
    jobs = [job for line in lines for job in _plan(ctx, line, given)]
    params = [name for name, _ in given["params"]]
    resources = [name for name, _ in given["resources"]]
    hints = hints_about(commands, (line.words for line in lines), params, resources)
    hand_in(jobs, hints, wait=wait, dry_run=dry_run, quiet=quiet, as_json=as_json)


def _plan(ctx: click.Context, line: CommandLine, given: Mapping[str, Any]) -> list[CommandJob]:
    """Give the jobs of one command, by its own options and those of its script."""
    cwd = given["cwd"] or os.curdir
    check_is_found(line.words, cwd)
    script = script_in(line.words, cwd)
    said = _said_in(script) if script else {}
    written = {
        name: value
        for name, value in given.items()
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    return plan(line, Asked.of({**given, **_together(said, written)}))


def _said_in(script: str) -> dict[str, Any]:
    """Read the options that a script holds.

    Raises:
        UsageError: One of them cannot be; file and line are named.
    """
    allowed = [one for one in submit.params if one.name not in _NOT_IN_SCRIPTS]
    reader = click.Command("GRN", params=allowed, add_help_option=False)
    said: dict[str, Any] = {}
    for directive in read_directives(script):
        try:
            context = reader.make_context("GRN", list(directive.words))
        except click.UsageError as error:
            where = f"{script}, line {directive.line}"
            raise click.UsageError(f"{where}: {error.format_message()}") from None
        here = {
            name: value
            for name, value in context.params.items()
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        }
        said = _together(said, here)
    return said


def _together(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Add up what may be given in parts; of the rest the later one counts."""
    added = {name: (*before.get(name, ()), *after.get(name, ())) for name in _BY_NAME}
    return {**before, **after, **{name: value for name, value in added.items() if value}}


if __name__ == "__main__":
    submit()
