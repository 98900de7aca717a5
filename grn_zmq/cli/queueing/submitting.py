"""Hands commands over to the broker in one durable batch, and then leaves them alone."""

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from ... import wire
from ...batches import IDS_PER_MESSAGE, parts
from ...client import this_client
from ...errors import BrokerUnavailable, GrnError
from ...futures import Future
from ...pending import Pending
from ...records import JobSpec
from ...terminal import OutputWriter
from ...wire import AskScene, SceneIs
from ..asking import ask
from ..common import INTERRUPTED, UNREACHABLE, counted, fail, print_json, say
from ..refs import find
from ..running import exit_status
from ..states import number_ranges
from ..when import local
from .planning import CommandJob
from .specs import context_of, describe_command


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that the broker has safe."""

    number: int
    spec: JobSpec
    job: Pending

    def facts(self) -> dict[str, object]:
        return {
            "number": self.number,
            "job_id": self.spec.job_id,
            "name": self.spec.name,
            "job_type": self.spec.job_type,
            "title": self.spec.title,
        }


class Silence(OutputWriter):
    """Nobody has asked for what the jobs print: it is in their logs."""

    def write(self, job_id: str, stream: str, data: bytes) -> None:
        return


def submit_jobs(jobs: Sequence[CommandJob], *, wait: bool, quiet: bool, as_json: bool) -> int:
    """Submit all, say under which numbers, and wait for them if asked; give the exit status."""
    now_s = time.time()
    taken, refused = hand_over(_pending(jobs))
    if refused is not None:
        _fail_partly(taken, len(jobs), refused, quiet, as_json)
    try:
        _tell(taken, quiet, as_json, now_s)
        if not quiet and not as_json:
            _tell_if_paused()
        return wait_for(taken) if wait else 0
    except KeyboardInterrupt:
        _let_go(taken)


def _pending(jobs: Sequence[CommandJob]) -> list[Pending]:
    client = this_client()
    client.connect()  # no broker is the commonest mistake
    meant = {
        refs: tuple(find(refs))
        for refs in {one for job in jobs for one in (job.after, job.after_any) if one}
    }
    contexts = {cwd: context_of(cwd) for cwd in {job.cwd for job in jobs}}
    pending = []
    for job in jobs:
        context = contexts[job.cwd]
        spec = describe_command(job, context, detached=True, meant=meant)
        pending.append(Pending(spec, Future(spec.job_id, client), (context,)))
    return pending


def hand_over(jobs: Sequence[Pending]) -> tuple[list[Submitted], GrnError | None]:
    """Submit jobs; give those that are safe, and why others are not."""
    taken: list[Submitted] = []
    refused: BaseException | None = None
    try:
        this_client().submit_all(jobs)
        for one in jobs:
            one.accepted.wait()
            if one.future.done() and one.future.outcome is None:
                refused = refused or one.future.exception()
            elif one.spec is not None:
                taken.append(Submitted(one.number, one.spec, one))
    except KeyboardInterrupt:
        fail(f"interrupted: at least {len(taken)} of {len(jobs)} are submitted", INTERRUPTED)
    if refused is not None and not isinstance(refused, GrnError):
        raise refused
    return taken, refused


def _fail_partly(
    taken: Sequence[Submitted], count: int, error: GrnError, quiet: bool, as_json: bool
) -> None:
    """Say what was refused, and what runs all the same."""
    if not taken:
        raise error
    if as_json:
        print_json({"error": str(error), "submitted": [one.facts() for one in taken]})
    else:
        _tell(taken, quiet, as_json)
    status = UNREACHABLE if isinstance(error, BrokerUnavailable) else 1
    fail(f"{error} ({len(taken):,} of {count:,} jobs are submitted all the same)", status)


def _tell(
    taken: Sequence[Submitted], quiet: bool, as_json: bool, now_s: float | None = None
) -> None:
    numbers = [one.number for one in taken]
    if as_json:
        say(json.dumps([one.facts() for one in taken], indent=2))
    elif quiet:
        say("\n".join(map(str, numbers)))
    elif len(taken) == 1:
        say(f"Submitted job {numbers[0]}: {taken[0].spec.title}{_begin(taken, now_s)}")
    else:
        count = counted(len(taken), "job")
        refs = number_ranges(numbers, ",")
        say(f"Submitted jobs {refs} ({count}){_begin(taken, now_s)}")


def _tell_if_paused() -> None:
    with contextlib.suppress(GrnError):  # the jobs are safe, whatever became of the broker
        if ask(AskScene(0, 0), SceneIs).scene.paused:
            say("grn: the queue is paused: `grn resume` lets jobs start", err=True)


def _begin(taken: Sequence[Submitted], now_s: float | None) -> str:
    """Say when they may start, if that is the same for all: was `23:00` today's?"""
    begins = {one.spec.begin_s for one in taken}
    begin_s = begins.pop() if len(begins) == 1 else None
    if begin_s is None:
        return ""
    return f"; begins {local((time.time() if now_s is None else now_s) + begin_s)}"


def wait_for(taken: Sequence[Submitted]) -> int:
    """Wait for the end of all; give the first status that is not 0, in their order."""
    client = this_client()
    client.output = Silence()
    for part in parts([one.spec.job_id for one in taken], IDS_PER_MESSAGE):
        client.send(wire.Attach(part))  # what is lost with a broker is said to the next one
    status = 0
    for one in taken:
        if this := exit_status(one.job):
            logs = f"`grn logs {one.number}` has its output"
            say(f"grn: job {one.number} ended with status {this}; {logs}", err=True)
        status = status or this
    return status


def _let_go(taken: Sequence[Submitted]) -> NoReturn:
    """Leave jobs alone whose user does not want to wait any more."""
    refs = number_ranges((one.number for one in taken), ",")
    many = len(taken) > 1
    fail(
        f"{'jobs' if many else 'job'} {refs} {'go' if many else 'goes'} on; `grn wait "
        f"{refs}` waits again, `grn cancel {refs}` ends {'them' if many else 'it'}",
        INTERRUPTED,
    )
