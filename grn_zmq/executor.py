"""`grn.Executor`: a `concurrent.futures.Executor` whose tasks are jobs."""

import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from .calling import cancel_all, prepare
from .client import this_client
from .decorator import JobFunction
from .futures import Future
from .options import JobOptions
from .pending import Pending
from .submission import drop_arguments

P = ParamSpec("P")
T = TypeVar("T")


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
        self._held: deque[Pending] = deque()
        self._unfinished: set[concurrent.futures.Future[Any]] = set()
        self._last: JobFunction[..., Any] | None = None
        self._shut = self._starting = False

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[T]:
        """Queue a call of `fn` as a job; its arguments are pickled here and now."""
        self._check_open()
        client = this_client()
        pending = prepare(client, self._job_of(fn), args, kwargs)
        future: Future[T] = pending.future
        with self._changed:
            self._check_open()
            future.withdraw = self._withdraw
            self._held.append(pending)
            client.drains.add(self._drain)
            self._start_held()
        return future

    def _job_of(self, function: Callable[..., Any]) -> JobFunction[..., Any]:
        """Decorate a function, but not again and again while it is the same."""
        if isinstance(function, JobFunction):
            return function
        last = self._last
        if last is None or last.grn_function is not function:
            last = self._last = JobFunction(function, self._options)
        return last

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

    def _start(self, task: Pending) -> None:
        client = this_client()
        if client.giving_up:
            task.future.settle_cancelled()
            return
        self._unfinished.add(task.future)
        task.future.add_done_callback(self._finished)
        try:
            client.submit_all((task,))
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

    def _withdraw(self, job_id: str) -> bool:
        """Take back a task that was not handed over yet."""
        with self._changed:
            for task in self._held:
                if task.job_id == job_id:
                    self._held.remove(task)
                    drop_arguments(task.spec)
                    self._changed.notify_all()
                    return True
            return False

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
