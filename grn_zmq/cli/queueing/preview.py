"""What a job would be, in one line: its command, and options that are not the usual ones."""

import shlex
from collections.abc import Iterator

from ...options import JobOptions
from ...units import spell_seconds
from ..common import printable
from ..when import local
from .planning import CommandJob
from .sweeps import INDEX_VARIABLE


def preview(job: CommandJob, now_s: float) -> str:
    """`python train.py  # --name fit --time 2h`: a line that a shell would take, too."""
    options = " ".join(_options(job, now_s))
    return f"{job.title}  # {printable(options)}" if options else job.title


def _options(job: CommandJob, now_s: float) -> Iterator[str]:
    asked = job.options
    yield from _texts({"--name": asked.name, "--type": asked.type or "", "--cwd": job.cwd})
    for name, value in job.by.items():
        yield f"--by {shlex.quote(f'{name}={value}')}"
    yield from _texts({"--memory": asked.memory})
    if asked.exclusive:
        yield "--exclusive"
    yield from _numbers(asked)
    if asked.enforce:
        yield "--enforce"
    for name, text in job.variables.items():
        if name != INDEX_VARIABLE:
            yield f"--env {shlex.quote(f'{name}={text}')}"
    yield from (f"--after {shlex.quote(ref)}" for ref in job.after)
    yield from (f"--after-any {shlex.quote(ref)}" for ref in job.after_any)
    if job.begin_s is not None:
        yield f"--begin '{local(now_s + job.begin_s)}'"
    if job.held:
        yield "--hold"
    yield from _texts({"--on-end": asked.on_end})


def _texts(given: dict[str, str]) -> Iterator[str]:
    return (f"{flag} {shlex.quote(text)}" for flag, text in given.items() if text)


def _numbers(asked: JobOptions) -> Iterator[str]:
    """Those of the options with a default that differ from it."""
    usual = JobOptions()
    for flag, number, default in (
        ("--priority", asked.priority, usual.priority),
        ("--retries", asked.retries, usual.retries),
        ("--oom-retries", asked.oom_retries, usual.oom_retries),
    ):
        if number != default:
            yield f"{flag} {number}"
    for flag, time_s, default_s in (
        ("--timeout", asked.timeout_s, usual.timeout_s),
        ("--time", asked.time_limit_s, usual.time_limit_s),
        ("--grace", asked.grace_s, usual.grace_s),
    ):
        if time_s is not None and time_s != default_s:
            yield f"{flag} {spell_seconds(time_s)}"
