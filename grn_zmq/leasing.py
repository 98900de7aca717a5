"""From what a process wants to the devices it gets: asked for, waited for, or refused."""

import os
import queue
import time
from dataclasses import dataclass
from typing import Final

from . import backends, holding
from .choosing import (
    Choice,
    choose,
    counted_devices,
    free_devices,
    tell_free,
    visible_entries,
)
from .client import Client, this_client
from .errors import DeviceError, GrnError, JobNotStarted, RequestRefused, WaitTimeout
from .facts import JobRow
from .leased import Held, Teller, fixed_devices
from .limits import MAX_NAME
from .naming import printable
from .pending import Pending
from .records import Begun, JobSpec
from .submission import inline_job, new_id
from .units import format_seconds
from .wire import AskDevices, AskJobs, DevicesAre, JobsAre

# After so long people want to know what they wait for; again, if no device can be read.
LOOKS_S: Final = (2.0, 4.0)
# The reasons of refusals that are about devices.
_DEVICES: Final = ("impossible", "unknown-device")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a lease is to be; `title` is what lists call it, `name` what its user does."""

    gpus: int
    timeout_s: float | None
    delay_s: float
    placeholder: backends.Placeholder | None
    name: str
    title: str
    priority: int


def title_of(program: str) -> str:
    """What lists call the lease of a program, such as `lease of train.py`."""
    name = os.path.basename(program)
    return f"lease of {'python' if name in ('', '-c', '-m') else printable(name)}"[:MAX_NAME]


def obtain(wanted: Wanted, teller: Teller) -> Held:
    """Wait for devices and make them this process's own; leave nothing behind on failure."""
    client = this_client()
    client.check_can_wait()
    client.connect()
    asked_at = time.monotonic()
    choice = _choice(wanted.gpus, client, teller)
    teller.step(f"waiting for {counted_devices(wanted.gpus)}")
    pending = client.submit(_describe(wanted, choice), (), inline=True)
    begun = _wait(client, pending, wanted, teller)
    if begun is None:
        raise _why_not(client, pending, wanted, choice)
    held = Held(client, pending, begun, teller)
    try:
        waited = format_seconds(time.monotonic() - asked_at)
        teller.step(f"acquired {begun.device} after {waited}")
        if wanted.delay_s:
            time.sleep(wanted.delay_s)
        held.take(wanted.placeholder)
    except BaseException:
        held.let_go(wait=False)
        raise
    return held


def _choice(gpus: int, client: Client, teller: Teller) -> Choice:
    """Say which devices will do: those that this process sees."""
    fixed = fixed_devices()
    if fixed and len(fixed) == gpus:
        return Choice(gpus, fixed)  # CUDA was first used under a lease like this one
    _warn_if_late(teller)
    entries = visible_entries(holding.outside())
    if entries is None:
        return Choice(gpus)
    return choose(gpus, entries, client.ask(AskDevices(), DevicesAre).rows)


def _warn_if_late(teller: Teller) -> None:
    if early := backends.initialised():
        teller.warn(
            f"{' and '.join(early)} initialised CUDA in this process before the lease: the "
            f"devices it sees are fixed, and need not be those of the lease. Acquire first, "
            f"before anything asks CUDA, even torch.cuda.is_available()"
        )


def _describe(wanted: Wanted, choice: Choice) -> JobSpec:
    return JobSpec(
        job_id=new_id(),
        job_type=wanted.title,
        name=wanted.name,
        kind="lease",
        by={},
        policy="spread",
        function="",
        context="",
        # The job that this process is part of; other leases of its own are not above this one.
        parent=inline_job.get() or holding.outside().get("GRN_JOB_ID", ""),
        pin="",
        stdin="",
        detached=False,
        has_stand_in=False,
        reuse=False,
        version="",
        memory_bytes=0,
        priority=wanted.priority,
        oom_retries=0,
        enforce=False,
        payload=b"",
        timeout_s=wanted.timeout_s,
        title=wanted.title,
        exclusive=True,
        gpus=choice.gpus,
        among=choice.among,
    )


def _wait(client: Client, pending: Pending, wanted: Wanted, teller: Teller) -> Begun | None:
    """Wait for the grant; None if the broker has ended the lease before."""
    assert pending.begun is not None
    try:
        for last, pause_s in zip((False, True), LOOKS_S, strict=True):
            try:
                return pending.begun.get(timeout=pause_s)
            except queue.Empty:
                _look(client, pending, wanted, teller, last=last)
        return pending.begun.get()
    except BaseException:
        client.abandon(pending)
        raise


def _look(
    client: Client, pending: Pending, wanted: Wanted, teller: Teller, *, last: bool
) -> None:
    """Say what the lease waits for; at the last look refuse to wait for unreadable devices."""
    row = _row_of(client, pending)
    if row is None:
        return  # it has just begun, or ended
    if not last:
        teller.waits(f"still waiting for {counted_devices(wanted.gpus)}: {row.why}")
    elif row.waits_for == "no-device" or not client.ask(AskDevices(), DevicesAre).rows:
        raise DeviceError(
            f"no device can be leased: {row.why}. The driver may be gone, or the workers: see "
            f"`grn doctor`, and the log of `grn start`"
        )


def _row_of(client: Client, pending: Pending) -> JobRow | None:
    """How lists show the lease while it waits."""
    rows = client.ask(AskJobs(max(0, pending.number - 1), False), JobsAre).rows
    job_id = pending.future.job_id
    waiting = [row for row in rows if row.job_id == job_id and row.state == "queued"]
    return waiting[0] if waiting else None


def _why_not(client: Client, pending: Pending, wanted: Wanted, choice: Choice) -> BaseException:
    """The error of a lease that ended before it began."""
    error = pending.future.exception()
    if isinstance(error, WaitTimeout):
        return _timed_out(client, error, wanted, choice)
    if isinstance(error, JobNotStarted):
        return DeviceError(f"gpus={wanted.gpus} can never be leased here: {error.reason}")
    if isinstance(error, RequestRefused) and error.reason in _DEVICES:
        return DeviceError(str(error))
    return error or GrnError(f"{wanted.title} ended before it began")


def _timed_out(
    client: Client, error: WaitTimeout, wanted: Wanted, choice: Choice
) -> WaitTimeout:
    """Add to the reason which devices are free."""
    try:
        rows = client.ask(AskDevices(), DevicesAre).rows
    except GrnError:
        return error
    if choice.among:
        rows = tuple(row for row in rows if row.facts.uuid in choice.among)
    free = free_devices(rows)
    told = tell_free(wanted.gpus, free, rows)
    with_free = WaitTimeout(error.job_id, f"{error.reason}; {told}", wanted.title)
    with_free.free = sorted(row.facts.index for row in free)
    return with_free
