"""`inline=True`: the job takes a lease and runs in the caller's own process."""

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .client import Client, Pending, this_client
from .errors import BrokerUnavailable
from .records import Begun, JobSpec
from .submission import bind_by, inline_job, new_id, parent_id

if TYPE_CHECKING:
    from .decorator import JobFunction

# CUDA stays on the device it was first used on: later inline jobs of this process get it too.
_pinned = ""
_first_grant = threading.Lock()


def run_inline(
    job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Run the function here, under a lease, in the way its kind of function runs."""
    function = job.grn_function
    if inspect.isgeneratorfunction(function):
        return _generator(job, args, kwargs)
    if inspect.isasyncgenfunction(function):
        return _async_generator(job, args, kwargs)
    if inspect.iscoroutinefunction(function):
        return _coroutine(job, args, kwargs)
    with leased(job, args, kwargs):
        return function(*args, **kwargs)


def _generator(
    job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Generator[Any, Any, Any]:
    with leased(job, args, kwargs):
        return (yield from job.grn_function(*args, **kwargs))


async def _async_generator(
    job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> AsyncIterator[Any]:
    lease = leased(job, args, kwargs)
    await asyncio.to_thread(lease.__enter__)
    with _handed_over(lease):
        async for item in job.grn_function(*args, **kwargs):
            yield item


async def _coroutine(
    job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    lease = leased(job, args, kwargs)
    await asyncio.to_thread(lease.__enter__)
    with _handed_over(lease):
        return await job.grn_function(*args, **kwargs)


@contextmanager
def _handed_over(lease: Any) -> Iterator[None]:
    """Leave a lease that another thread has entered for us."""
    try:
        yield
    except BaseException as error:
        if not lease.__exit__(type(error), error, error.__traceback__):
            raise
    else:
        lease.__exit__(None, None, None)


@contextmanager
def leased(
    job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[None]:
    """Hold a lease for the body; measure the stand-in first where that is asked for."""
    client = this_client()
    try:
        client.connect()
    except BrokerUnavailable as error:
        if job.options.when_unavailable != "local":
            raise
        from loguru import logger

        logger.warning(f"{error.reason}: {job.job_type} runs unscheduled")
        yield
        return
    pending, begun = _grant(client, job, args, kwargs)
    if begun.stand_in and job.stand_in is not None:
        with _body(client, begun):
            job.stand_in(*args, **kwargs)
        begun = _next_begun(pending)
    with _body(client, begun):
        yield
    pending.future.exception()


def _grant(
    client: Client,
    job: "JobFunction[..., Any]",
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[Pending, Begun]:
    global _pinned
    if _pinned:
        pending = client.submit(_describe(job, args, kwargs, _pinned), (), inline=True)
        return pending, _next_begun(pending)
    with _first_grant:
        pending = client.submit(_describe(job, args, kwargs, _pinned), (), inline=True)
        begun = _next_begun(pending)
        _pinned = begun.environment.get("CUDA_VISIBLE_DEVICES", "")
    return pending, begun


def _describe(
    job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any], pin: str
) -> JobSpec:
    return JobSpec(
        job_id=new_id(),
        job_type=job.job_type,
        name=job.options.name,
        kind="inline",
        by=bind_by(job.grn_function, job.options.by, args, kwargs),
        policy=job.options.policy,
        function="",
        context="",
        parent=parent_id(),
        pin=pin,
        stdin="",
        detached=False,
        has_stand_in=job.stand_in is not None,
        reuse=False,
        payload=b"",
    )


def _next_begun(pending: Pending) -> Begun:
    assert pending.begun is not None
    begun = pending.begun.get()
    if begun is None:
        pending.future.result()
        raise AssertionError("an inline job ended before it began")
    return begun


@contextmanager
def _body(client: Client, begun: Begun) -> Iterator[None]:
    """The time between start and release: environment set, then put back."""
    before = {name: os.environ.get(name) for name in begun.environment}
    os.environ.update(begun.environment)
    token = inline_job.set(begun.job_id)
    _reset_peak()
    failed = True
    try:
        yield
        failed = False
    finally:
        # A generator may be closed from another context than the one it began in.
        try:
            inline_job.reset(token)
        except ValueError:
            pass
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        client.release(begun.job_id, begun.attempt, failed=failed)


def _reset_peak() -> None:
    """Let the kernel's peak counter begin anew, so that this job's peak is its own."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass
