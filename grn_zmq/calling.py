"""What a call of a decorated function does."""

import asyncio
import inspect
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .client import Client, this_client
from .describing import describer_of
from .errors import BrokerUnavailable, GrnError
from .futures import Future
from .inline import run_inline
from .pending import Pending
from .submission import new_id, pack_arguments

if TYPE_CHECKING:
    from .decorator import JobFunction

# How long a first Ctrl-C waits for the job to clean up; a second one does not wait.
INTERRUPT_S = 6.0
# A broker that has not answered by then stands still: its client must not.
BROKER_ANSWERS_S = 2.0


def call(job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run a job and give its value; a coroutine for an `async def`."""
    if job.options.inline:
        return run_inline(job, args, kwargs)
    if inspect.iscoroutinefunction(job.grn_function):
        return _call_async(job, args, kwargs)
    try:
        future = submit(job, args, kwargs)
    except BrokerUnavailable as error:
        return _call_here(job, args, kwargs, error)
    return wait_interruptibly(future)


async def _call_async(
    job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    submitted: list[Future[Any]] = []
    given_up = threading.Event()

    def start() -> None:
        submitted.append(submit(job, args, kwargs))
        if given_up.is_set():
            submitted[0].ask_to_cancel()

    try:
        await asyncio.to_thread(start)
    except BrokerUnavailable as error:
        return await _call_here(job, args, kwargs, error)
    except asyncio.CancelledError:
        given_up.set()
        for future in submitted:
            future.ask_to_cancel()
        raise
    return await submitted[0]


def _call_here(
    job: "JobFunction[..., Any]",
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    error: BrokerUnavailable,
) -> Any:
    if job.options.when_unavailable != "local":
        raise error.with_traceback(None) from None
    from loguru import logger

    logger.warning(f"{error.reason}: {job.job_type} runs in this process, unscheduled")
    return job.grn_function(*args, **kwargs)


def submit(
    job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Future[Any]:
    """Start a job and give its future."""
    client = this_client()
    pending = prepare(client, job, args, kwargs)
    client.submit_all((pending,))
    return pending.future


def prepare(
    client: Client,
    job: "JobFunction[..., Any]",
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    detached: bool = False,
) -> Pending:
    """Describe and pickle a call; nothing is sent yet."""
    if job.options.inline:
        raise TypeError(f"{job.job_type} is inline: it runs in its caller, so call it instead")
    client.connect()  # before any pickling: no broker is the commoner mistake
    template = (job.describer or describer_of(job)).template(args, kwargs, detached=detached)
    payload, token = pack_arguments(args, kwargs, job, client.parcel_session, detached)
    future: Future[Any] = Future(new_id(), client)
    if token:
        spec = template.spec(future.job_id, payload, token)
        return Pending(spec, future, template.blobs)
    return Pending(None, future, (), template, payload)


def spawn(
    job: "JobFunction[..., Any]", calls: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]]
) -> list[str]:
    """Hand jobs over for good; give their ids once the broker has them all."""
    client = this_client()
    jobs = [prepare(client, job, args, kwargs, detached=True) for args, kwargs in calls]
    client.submit_all(jobs)
    accepted: list[str] = []
    refused: GrnError | None = None
    for pending in jobs:
        try:
            client.wait_accepted(pending)
            accepted.append(pending.job_id)
        except GrnError as error:
            refused = refused or error
    if refused is not None:
        if accepted:
            refused.add_note(f"{len(accepted)} of {len(jobs)} were accepted: see .accepted")
        refused.accepted = accepted
        raise refused
    return accepted


def map_in_order(
    job: "JobFunction[..., Any]", items: Sequence[tuple[Any, ...]], timeout: float | None
) -> Iterator[Any]:
    """Start all jobs now; give their values in order, and cancel the rest if that fails."""
    deadline = None if timeout is None else time.monotonic() + timeout
    futures: list[Future[Any]] = []
    try:
        for item in items:
            futures.append(submit(job, item, {}))
    except BaseException:
        cancel_all(futures)
        raise
    return _values(futures, deadline)


def _values(futures: list[Future[Any]], deadline: float | None) -> Iterator[Any]:
    futures.reverse()
    try:
        while futures:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            yield _take_last(futures, left)
    finally:
        cancel_all(futures)


def _take_last(futures: list[Future[Any]], timeout: float | None) -> Any:
    """Give the value of the last; one that has none yet stays, to be cancelled."""
    value = futures[-1].result(timeout)
    # A value that was given is not kept alive here.
    futures.pop()
    return value


def cancel_all(futures: Sequence[Future[Any]]) -> None:
    """Cancel those that have not ended, in one message."""
    left = [future.job_id for future in futures if not future.done()]
    if left:
        this_client().ask_to_cancel(*left)


def wait_interruptibly(future: Future[Any]) -> Any:
    """Wait for the job; what interrupts the wait ends it, as it would in place."""
    try:
        return future.result()
    except KeyboardInterrupt:
        if not future.done():
            _interrupt(future)
        raise
    except BaseException:
        future.ask_to_cancel()  # raised by a signal handler here, not by the job
        raise


def _interrupt(future: Future[Any]) -> None:
    """Interrupt the job and let it clean up, unless the broker does not even answer."""
    try:
        asked = this_client().ask_to_cancel(future.job_id, interrupt=True)
        if all(one.cancel_taken.wait(BROKER_ANSWERS_S) for one in asked):
            future.exception(timeout=INTERRUPT_S)
    except BaseException:
        return  # what counts is the interrupt that is raised next
