"""Hands commands over to the broker in one durable batch, and then leaves them alone."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ... import wire
from ...batches import parts
from ...client import this_client
from ...errors import BrokerUnavailable, GrnError
from ...futures import Future
from ...hearing import IDS_PER_MESSAGE
from ...pending import Pending
from ...records import JobSpec
from ...terminal import OutputWriter
from ..common import INTERRUPTED, UNREACHABLE, counted, fail, print_json, say
from ..refs import find
from ..running import exit_status
from .planning import CommandJob
from .specs import context_of, describe_command


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that the broker has safe."""

    number: int
    spec: JobSpec
    future: Future[Any]

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
    taken, refused = hand_over(_pending(jobs))
    if refused is not None:
        _fail_partly(taken, len(jobs), refused, quiet, as_json)
    _tell(taken, quiet, as_json)
    return wait_for(taken) if wait else 0


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
                taken.append(Submitted(one.number, one.spec, one.future))
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


def _tell(taken: Sequence[Submitted], quiet: bool, as_json: bool) -> None:
    numbers = [one.number for one in taken]
    if as_json:
        say(json.dumps([one.facts() for one in taken], indent=2))
    elif quiet:
        say("\n".join(map(str, numbers)))
    elif len(taken) == 1:
        say(f"Submitted job {numbers[0]}: {taken[0].spec.title}")
    else:
        say(f"Submitted jobs {spans(numbers)} ({counted(len(taken), 'job')})")


def spans(numbers: Sequence[int]) -> str:
    """Write numbers as a reference that means them all: `12-15,17`."""
    ordered = sorted(numbers)
    begins = [ordered[0], *(b for a, b in pairwise(ordered) if b != a + 1)]
    ends = [*(a for a, b in pairwise(ordered) if b != a + 1), ordered[-1]]
    pairs = zip(begins, ends, strict=True)
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in pairs)


def wait_for(taken: Sequence[Submitted]) -> int:
    """Wait for the end of all; give the first status that is not 0, in their order."""
    client = this_client()
    client.output = Silence()
    for part in parts([one.spec.job_id for one in taken], IDS_PER_MESSAGE):
        client.send(wire.Attach(part))  # what is lost with a broker is said to the next one
    status = 0
    try:
        for one in taken:
            if this := exit_status(one.future):
                logs = f"`grn logs {one.number}` has its output"
                say(f"grn: job {one.number} ended with status {this}; {logs}", err=True)
            status = status or this
    except KeyboardInterrupt:
        refs = spans([one.number for one in taken])
        many = len(taken) > 1
        fail(
            f"{'jobs' if many else 'job'} {refs} {'go' if many else 'goes'} on; `grn wait "
            f"{refs}` waits again, `grn cancel {refs}` ends {'them' if many else 'it'}",
            INTERRUPTED,
        )
    return status
