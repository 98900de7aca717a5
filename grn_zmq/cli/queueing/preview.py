"""What a job would be: its command, and options that are not the usual ones."""

import shlex
from collections.abc import Iterator
from typing import Any

from ...capacities import write_need
from ...options import JobOptions
from ...units import spell_seconds
from ..common import printable
from ..when import local
from .commands import here
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
    yield from _declared(job)
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
    yield from _texts({"--on-end": asked.on_end, "--environment": asked.environment})


def _declared(job: CommandJob) -> Iterator[str]:
    declared = job.declared
    if declared.queue:
        yield f"--json {shlex.quote(write_need(declared))}"
        return
    gpus = declared.share or declared.gpus
    if gpus != 1:
        yield f"--gpus {gpus}"
    yield from (f"--resource {name}={amount}" for name, amount in declared.resources.items())


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


def facts_of(job: CommandJob) -> dict[str, Any]:
    """The same for machines, whole."""
    asked, declared = job.options, job.declared
    return {
        "title": job.title,
        "command": list(job.words),
        "name": asked.name,
        "job_type": job.job_type,
        "by": dict(job.by),
        "variables": dict(job.variables),
        "cwd": job.cwd or here(),
        "memory_bytes": asked.memory_bytes,
        "gpus": declared.gpus,
        "share": declared.share,
        "queue": declared.queue,
        "resources": dict(declared.resources),
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
        "environment": asked.environment,
    }
