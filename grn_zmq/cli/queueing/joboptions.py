"""The options of commands as jobs, checked where they are written."""

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from ...declared import parse_gpus, parse_resource
from ...limits import DEFAULT_GRACE_S, MAX_PRIORITY, MAX_RETRIES
from ...options import JobOptions
from ..common import WholeNumber, job_default
from .sweeps import parse_name

F = TypeVar("F", bound=Callable[..., Any])

# Where an option of a command has another name than that of `@grn.job`.
_NAMES: Final = {"job_type": "type"}


def checked(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Let the options of `@grn.job` judge the value of an option of the same name."""
    option = _NAMES.get(str(parameter.name), str(parameter.name))
    if value is None:
        return value
    try:
        JobOptions.parse({option: value})
    except (TypeError, ValueError) as error:
        text = str(error).removeprefix(f"{option}={value!r}")
        raise click.BadParameter(text.removeprefix(":").strip()) from None
    return value


def _gpus(_: click.Context, __: click.Parameter, value: str) -> int | str:
    """A number of GPUs, or the exact text of a part of one."""
    try:
        count, share = parse_gpus(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return share or count


def _resources(
    _: click.Context, __: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = []
    for text in texts:
        name, equals, amount = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r}: write NAME=AMOUNT, such as cpu=4")
        try:
            pairs.append((name, parse_resource(name, amount)))
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return tuple(pairs)


def _variables(
    _: click.Context, __: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Split at the first `=`: values may have more of them."""
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r}: write NAME=VALUE")
        pairs.append((name, value))
    return tuple(pairs)


def _variables_of_caller(
    _: click.Context, __: click.Parameter, text: str | None
) -> tuple[tuple[str, str], ...]:
    """Take the values that variables have here; they may have others where the job runs."""
    pairs = []
    for name in filter(None, (text or "").split(",")):
        if name not in os.environ:
            raise click.BadParameter(
                f"there is no variable {name} here: set it, or leave it out"
            )
        pairs.append((name, os.environ[name]))
    return tuple(pairs)


def _directory(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    """Make it absolute: the job may start when nobody knows any more where we were."""
    if path is None:
        return None
    if not os.path.isdir(path):
        raise click.BadParameter(f"{path!r} is no directory")
    return os.path.abspath(path)


def _by(
    _: click.Context, __: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str | None], ...]:
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            pairs.append((parse_name(name), value if equals else None))
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return tuple(pairs)


_NAMES_OF_JOBS: Final = (
    click.option(
        "--name", "-J", default="", callback=checked, help="What lists show beside the number."
    ),
    click.option(
        "--type",
        "job_type",
        callback=checked,
        metavar="TYPE",
        help="Job type; default: the command, numbers written #.",
    ),
    click.option(
        "--by",
        multiple=True,
        callback=_by,
        metavar="NAME=VALUE",
        help="What changes the memory need, such as batch_size=32. May be repeated.",
    ),
)
# What it needs of devices: in a queue that is declared otherwise.
_NEEDS: Final = (
    click.option(
        "--memory",
        "--mem",
        "--gpu-memory",
        default="",
        callback=checked,
        metavar="SIZE",
        help="First estimate of the device memory each needs, such as 6GiB; measured later.",
    ),
    click.option(
        "--gpus",
        "-G",
        default="1",
        callback=_gpus,
        metavar="N",
        help="GPUs for each: 1 is shared by what was learned (the default), 2 and more are "
        "whole, -1 or all is all there are; 0.5 is half of one, declared; 0 none.",
    ),
    click.option(
        "--resource",
        "resources",
        multiple=True,
        callback=_resources,
        metavar="NAME=AMOUNT",
        help="What each needs of a named resource, such as cpu=4. May be repeated.",
    ),
    click.option("--exclusive", is_flag=True, help="Share the device with no other job."),
    click.option(
        "--enforce", is_flag=True, help="Let frameworks take no more than was promised."
    ),
)
_RUNNING: Final = (
    click.option(
        "--priority",
        type=WholeNumber(-MAX_PRIORITY, MAX_PRIORITY),
        default=job_default("priority"),
        help="Higher ones go first. Default: 0. Setting: job.priority.",
    ),
    click.option(
        "--oom-retries",
        type=WholeNumber(0, MAX_RETRIES),
        default=job_default("oom_retries"),
        help="How often a command that ran out of memory is run again, with more room. "
        f"Default: {JobOptions().oom_retries}. Setting: job.oom_retries.",
    ),
    click.option(
        "--timeout",
        callback=checked,
        metavar="TIME",
        help="How long each may wait for a device, such as 90s, 15m or 2h. Default: for ever.",
    ),
    click.option(
        "--time",
        "--time-limit",
        "-t",
        "time_limit",
        default=job_default("time_limit"),
        callback=checked,
        metavar="TIME",
        help="How long each may run, such as 90s, 15m, 1h30m or 1:30:00; then it is ended, "
        "with status 124. Default: for ever. Setting: job.time_limit.",
    ),
    click.option(
        "--retries",
        type=WholeNumber(0, MAX_RETRIES),
        default=0,
        help="How often a command that failed, was killed or lost is run again. Default: 0.",
    ),
    click.option(
        "--grace",
        default=job_default("grace"),
        callback=checked,
        metavar="TIME",
        help="How long a command has between TERM and KILL. "
        f"Default: {DEFAULT_GRACE_S:.0f}s. Setting: job.grace.",
    ),
    click.option(
        "--env",
        multiple=True,
        callback=_variables,
        metavar="NAME=VALUE",
        help="A variable the command sees in addition. May be repeated.",
    ),
    click.option(
        "--envlist",
        callback=_variables_of_caller,
        metavar="NAME,NAME",
        help="Variables of yours that the command sees in its environment, too.",
    ),
    click.option(
        "--environment",
        default="",
        callback=checked,
        metavar="NAME",
        help="Run it in this environment, such as tensorflow or tensorflow-1.4.0; `grn "
        "environments` lists them.",
    ),
    click.option(
        "--cwd",
        callback=_directory,
        metavar="DIR",
        help="Directory to run in. Default: this one.",
    ),
)


def job_options(verb: F) -> F:
    """Give a verb the options of commands; their values come as keyword arguments."""
    return with_options(verb, (*_NAMES_OF_JOBS, *_NEEDS, *_RUNNING))


def queue_options(verb: F) -> F:
    """The same for commands of a queue, whose needs are declared in another way."""
    return with_options(verb, (*_NAMES_OF_JOBS, *_RUNNING))


def with_options(verb: F, options: Sequence[Callable[[F], F]]) -> F:
    """Give a verb these options; its help lists them in this order."""
    for option in reversed(options):
        verb = option(verb)
    return verb
