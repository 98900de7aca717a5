"""`grn.Executor`: a `concurrent.futures.Executor` whose tasks are jobs."""

import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar

from .calling import cancel_all, check_shipped
from .client import this_client
from .decorator import JobFunction
from .futures import Future
from .options import JobOptions
from .records import Blob, JobSpec
from .submission import describe_call, drop_arguments

P = ParamSpec("P")
T = TypeVar("T")


class _Task(NamedTuple):
    spec: JobSpec
    blobs: tuple[Blob, ...]
    future: Future[Any]


class Executor(concurrent.futures.Executor):
    """Runs undecorated functions as jobs; a drop-in for `ProcessPoolExecutor`.

    Args:
        max_workers: Jobs at once; None leaves that to the devices.
        options: Those of `grn.job`, for all its jobs.
    """

    def __init__(self, max_workers: int | None = None, **options: Any) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        self._options = JobOptions.parse(options)
        if self._options.inline:
            raise ValueError("inline=True runs in the caller: an executor cannot")
        self._max_workers = max_workers
        self._changed = threading.Condition(threading.RLock())
        self._held: deque[_Task] = deque()
        self._unfinished: set[concurrent.futures.Future[Any]] = set()
        self._shut = self._starting = False

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[T]:
        """Queue a call of `fn` as a job; its arguments are pickled here and now."""
        job = fn if isinstance(fn, JobFunction) else JobFunction(fn, self._options)
        check_shipped(job)
        self._check_open()
        client = this_client()
        client.connect()
        described = describe_call(
            job,
            job.stand_in,
            job.job_type,
            job.options,
            args,
            kwargs,
            session=client.parcel_session,
        )
        future: Future[T] = Future(described[0].job_id, client)
        task = _Task(*described, future)
        with self._changed:
            self._check_open()
            future.withdraw = partial(self._withdraw, task)
            self._held.append(task)
            client.drains.add(self._drain)
            self._start_held()
        return future

    def _check_open(self) -> None:
        if self._shut:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _start_held(self) -> None:
        if self._starting:
            return  # a start that failed has called back: the loop below goes on by itself
        self._starting = True
        try:
            while self._held and (
                self._max_workers is None or len(self._unfinished) < self._max_workers
            ):
                self._start(self._held.popleft())
        finally:
            self._starting = False

    def _start(self, task: _Task) -> None:
        client = this_client()
        if client.giving_up:
            task.future.settle_cancelled()
            return
        self._unfinished.add(task.future)
        task.future.add_done_callback(self._finished)
        try:
            client.submit(task.spec, task.blobs, task.future)
        except Exception as error:  # whatever it is, its task must not stay unfinished
            task.future.fail(error)

    def _finished(self, future: concurrent.futures.Future[Any]) -> None:
        with self._changed:
            self._unfinished.discard(future)
            self._start_held()
            self._changed.notify_all()

    def _drain(self) -> None:
        """Wait until all that was submitted has ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._unfinished and not self._held)

    def _withdraw(self, task: _Task) -> bool:
        """Take back a task that was not handed over yet."""
        with self._changed:
            if task not in self._held:
                return False
            self._held.remove(task)
            drop_arguments(task.spec)
            self._changed.notify_all()
            return True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more; end what has not begun if asked to; wait for the rest."""
        with self._changed:
            self._shut = True
            held = list(self._held)
            begun = [one for one in self._unfinished if isinstance(one, Future)]
        if cancel_futures:
            for task in held:
                task.future.cancel()
            cancel_all([future for future in begun if not future.running()])
        if wait:
            self._drain()
            this_client().drains.discard(self._drain)
