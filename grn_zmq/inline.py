"""`inline=True`: the job takes a lease and runs in the caller's own process."""

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from .client import this_client
from .errors import BrokerUnavailable
from .naming import version_of_function
from .peaks import reset_peak
from .pending import Pending
from .pinning import device_variables, pin_of, takes_pin
from .records import Begun, JobSpec
from .submission import bind_by, inline_job, new_id, parent_id

if TYPE_CHECKING:
    from .decorator import JobFunction

T = TypeVar("T")


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
    async with leased_async(job, args, kwargs):
        async with aclosing(job.grn_function(*args, **kwargs)) as items:
            async for item in items:
                yield item


async def _coroutine(
    job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    async with leased_async(job, args, kwargs):
        return await job.grn_function(*args, **kwargs)


@contextmanager
def leased(
    job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[None]:
    """Hold a lease for the body; measure the stand-in first where that is asked for."""
    lease = _Lease(job, args, kwargs)
    if not lease.can_be_had():
        yield
        return
    begun = lease.wait()
    if begun.stand_in and job.stand_in is not None:
        with lease.body(begun):
            job.stand_in(*args, **kwargs)
        begun = lease.wait_again()
    with lease.body(begun):
        yield
    lease.wait_for_end()


@asynccontextmanager
async def leased_async(
    job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> AsyncIterator[None]:
    """Do what `leased` does without ever blocking the event loop."""
    lease = _Lease(job, args, kwargs)
    if not await in_own_thread(lease.can_be_had):
        yield
        return
    begun = await lease.awaited(lease.wait)
    if begun.stand_in and job.stand_in is not None:
        with lease.body(begun):
            measured = job.stand_in(*args, **kwargs)
            if inspect.isawaitable(measured):
                await measured
        begun = await lease.awaited(lease.wait_again)
    with lease.body(begun):
        yield
    await in_own_thread(lease.wait_for_end)


class _Lease:
    """One inline job: asked for, begun, given back."""

    def __init__(
        self, job: "JobFunction[..., Any]", args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self._job, self._args, self._kwargs = job, args, kwargs
        self._client = this_client()
        self._parent = parent_id()
        self._pending: Pending | None = None
        self._given_up = threading.Event()

    def can_be_had(self) -> bool:
        """Whether there is a broker; False if the job may do without."""
        try:
            self._client.connect()
        except BrokerUnavailable as error:
            if self._job.options.when_unavailable != "local":
                raise
            from loguru import logger

            logger.warning(f"{error.reason}: {self._job.job_type} runs unscheduled")
            return False
        return True

    def wait(self) -> Begun:
        """Ask for a lease and wait for it; leave nothing behind if that is interrupted."""
        try:
            while True:
                spec = self._describe(pin_of(self._client))
                self._pending = self._client.submit(spec, (), inline=True)
                if self._given_up.is_set():
                    self.give_up()
                begun = self.wait_again()
                if takes_pin(self._client, begun):
                    return begun
                # Another thread was first to begin, on another device: go there too.
                self._client.release(begun.job_id, begun.attempt, failed=True)
        except BaseException:
            self.give_up()
            raise

    def wait_again(self) -> Begun:
        """Wait for the next attempt of the same job to begin."""
        assert self._pending is not None
        assert self._pending.begun is not None
        try:
            begun = self._pending.begun.get()
        except BaseException:
            self.give_up()
            raise
        if begun is None:
            self._pending.future.result()
            raise AssertionError("an inline job ended before it began")
        return begun

    async def awaited(self, wait: Callable[[], Begun]) -> Begun:
        """Wait in another thread; cancelled, end that wait and give back what comes of it."""
        try:
            return await in_own_thread(wait)
        except asyncio.CancelledError:
            self.give_up()
            raise

    def give_up(self) -> None:
        """Nobody wants the lease any more. From any thread, at any time before the end."""
        self._given_up.set()
        if self._pending is not None:
            self._client.abandon(self._pending)

    def wait_for_end(self) -> None:
        assert self._pending is not None
        self._client.wait_for_end(self._pending)

    @contextmanager
    def body(self, begun: Begun) -> Iterator[None]:
        """The time between start and release: environment set, then put back."""
        token = inline_job.set(begun.job_id)
        reset_peak()
        failed = True
        try:
            with device_variables(begun.environment):
                yield
            failed = False
        finally:
            # A generator may be closed from another context than the one it began in.
            try:
                inline_job.reset(token)
            except ValueError:
                pass
            self._client.release(begun.job_id, begun.attempt, failed=failed)

    def _describe(self, pin: str) -> JobSpec:
        options = self._job.options
        return JobSpec(
            job_id=new_id(),
            job_type=self._job.job_type,
            name=options.name,
            kind="inline",
            by=bind_by(self._job.grn_function, options.by, self._args, self._kwargs),
            policy=options.policy,
            function="",
            context="",
            parent=self._parent,
            pin=pin,
            stdin="",
            detached=False,
            has_stand_in=self._job.stand_in is not None,
            reuse=False,
            version=version_of_function(self._job.grn_function),
            memory_bytes=options.memory_bytes,
            priority=options.priority,
            oom_retries=0,  # its body runs in the caller: nobody else can run it again
            enforce=False,
            payload=b"",
            timeout_s=options.timeout_s,
            resources=dict(options.declared.resources),
        )


async def in_own_thread(wait: Callable[[], T]) -> T:
    """Wait without a thread of the loop's pool: bodies that hold leases may need those."""
    waited: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            waited.set_result(wait())
        except BaseException as error:
            waited.set_exception(error)

    threading.Thread(target=run, name="grn-inline", daemon=True).start()
    return await asyncio.shield(asyncio.wrap_future(waited))
