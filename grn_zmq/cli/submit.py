"""`grn submit`: commands as jobs that go on by themselves."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from .common import json_option, one_line_errors, print_json, printable, say
from .queueing.begin import seconds_until
from .queueing.commands import CommandLine, CommandVerb, check_is_found, command_lines, here
from .queueing.directives import read_directives, script_in
from .queueing.hints import hints_about
from .queueing.joboptions import checked, job_options
from .queueing.planning import Asked, CommandJob, plan
from .queueing.preview import preview
from .queueing.sweeps import check_count, parse_array, parse_param
from .refcheck import check_ref

T = TypeVar("T")

# Options that are about this very submission, and not about the job of a script.
_NOT_IN_SCRIPTS: Final = frozenset({"commands", "wait", "dry_run", "quiet", "as_json"})
# Of these a script may give some and the command line others; of equal names that one wins.
_BY_NAME: Final = ("params", "env", "by")


def _parsed(parse: Callable[[str], T]) -> Callable[..., Any]:
    """A callback that reads a text, or each of several, and refuses it in plain words."""

    def read(_: click.Context, __: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(map(parse, value))
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return read


def _begin(text: str) -> float:
    return seconds_until(text, datetime.now())


@click.command(cls=CommandVerb, context_settings={"allow_interspersed_args": False})
@click.argument("commands", nargs=-1)
@click.option(
    "--param",
    "params",
    multiple=True,
    callback=_parsed(parse_param),
    metavar="NAME=A,B",
    help="A job for each value, with {NAME} replaced by it; of several, for each combination.",
)
@click.option(
    "--array",
    callback=_parsed(parse_array),
    metavar="1-10",
    help="A job for each index (1-10, 0-100:20, 1,3,7): {array}, or GRN_ARRAY_TASK_ID.",
)
@click.option(
    "--after",
    "--depends-on",
    multiple=True,
    callback=_parsed(check_ref),
    metavar="JOB",
    help="Start once these have succeeded: numbers, names, 3-7, @ for the last one.",
)
@click.option(
    "--after-any",
    multiple=True,
    callback=_parsed(check_ref),
    metavar="JOB",
    help="Start once these have ended, however they did.",
)
@click.option(
    "--begin",
    callback=_parsed(_begin),
    metavar="WHEN",
    help="Start then at the earliest: +2h, 23:00, tomorrow 8:00, 2031-11-19T08:00.",
)
@click.option("--hold", is_flag=True, help="Start only once `grn release` says so.")
@click.option(
    "--on-end",
    default="",
    callback=checked,
    metavar="HOOK",
    help="A command to run, or a URL to post to, at the end of each.",
)
@job_options
@click.option(
    "--wait", "--sync", is_flag=True, help="Wait for the end, and leave with its status."
)
@click.option("--dry-run", is_flag=True, help="Print commands and options, and submit nothing.")
@click.option("--quiet", "-q", is_flag=True, help="Print only the numbers of the jobs.")
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
    try:
        check_count(len(jobs))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    params = [name for name, _ in given["params"]]
    for hint in hints_about(commands, (line.words for line in lines), params):
        say(f"grn: {printable(hint)}", err=True)
    if dry_run:
        _show(jobs, as_json)
        return
    from .queueing.submitting import submit_jobs

    sys.exit(submit_jobs(jobs, wait=wait, quiet=quiet, as_json=as_json))


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


def _show(jobs: Sequence[CommandJob], as_json: bool) -> None:
    if as_json:
        print_json([_facts(job) for job in jobs])
    else:
        now_s = time.time()
        say("\n".join(preview(job, now_s) for job in jobs))


def _facts(job: CommandJob) -> dict[str, Any]:
    asked = job.options
    return {
        "title": job.title,
        "command": list(job.words),
        "name": asked.name,
        "job_type": job.job_type,
        "by": dict(job.by),
        "variables": dict(job.variables),
        "cwd": job.cwd or here(),
        "memory_bytes": asked.memory_bytes,
        "exclusive": asked.exclusive,
        "priority": asked.priority,
        "timeout_s": asked.timeout_s,
        "time_limit_s": asked.time_limit_s,
        "grace_s": asked.grace_s,
        "retries": asked.retries,
        "oom_retries": asked.oom_retries,
        "enforce": asked.enforce,
        "after": list(job.after),
        "after_any": list(job.after_any),
        "begin_s": job.begin_s,
        "held": job.held,
        "on_end": asked.on_end,
    }


if __name__ == "__main__":
    submit()
