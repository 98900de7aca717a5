"""The future of a job: a `concurrent.futures.Future` that can also be awaited."""

import asyncio
import concurrent.futures
from collections.abc import Callable, Generator
from concurrent.futures._base import FINISHED, PENDING
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from .client import Client
    from .records import Outcome

R = TypeVar("R")

# How a job ended that is one of many alike: as the first says, but for its id, the seconds it
# waited and ran, and what it gave.
Told = tuple["Outcome", float, float, bytes]


def outcome_of(job_id: str, told: Told) -> "Outcome":
    """Give the outcome of one job."""
    like, wait_s, run_s, payload = told
    if like.job_id == job_id:
        return like
    return replace(like, job_id=job_id, wait_s=wait_s, run_s=run_s, payload=payload)


class Future(concurrent.futures.Future[R], Generic[R]):
    """What a submitted job will give.

    It stays pending for `concurrent.futures` until its end, so that `cancel` can end a job
    that runs already; `running()` tells the truth all the same.
    """

    if TYPE_CHECKING:  # of the standard library, there since it has futures
        _done_callbacks: list[Callable[..., object]]

        def _invoke_callbacks(self) -> None: ...

    def __init__(self, job_id: str, client: "Client") -> None:
        super().__init__()
        self.job_id = job_id
        self._outcome: Outcome | None = None
        self._told: Told | None = None
        self._client = client
        self._began = False
        # For who holds the job back before it is handed over: takes it away again.
        self.withdraw: Callable[[str], bool] | None = None

    @property
    def outcome(self) -> "Outcome | None":
        """How the job ended, with what it used; None before, and if no broker has taken it."""
        if self._outcome is None and self._told is not None:
            self._outcome = outcome_of(self.job_id, self._told)
        return self._outcome

    def __await__(self) -> Generator[Any, None, R]:
        return self._awaited().__await__()

    async def _awaited(self) -> R:
        """Wait in the event loop. Cancelling that cancels the job, but waits for nobody."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not ended.done():
                ended.set_result(None)

        def tell(_: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        self.add_done_callback(tell)
        self._client.hurry()
        try:
            await ended
        except asyncio.CancelledError:
            self.ask_to_cancel()
            raise
        if self.cancelled():
            raise asyncio.CancelledError
        return self.result()

    def running(self) -> bool:
        """Whether the job has been handed to a job process and has not ended."""
        return self._began and not self.done()

    def result(self, timeout: float | None = None) -> R:
        """Wait for the job and return what its function returned.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Raises:
            Exception: Whatever the function raised, its own frames in the traceback.
            JobError: The job ended otherwise: killed, exited, lost, at one of its limits.
            CancelledError: It was cancelled.
            ResultExpired: It ended so long ago that its value was let go.
            BrokerUnavailable: No broker came back for a minute; the job stays valid.
            TimeoutError: The job is still running. It is not cancelled.
        """
        if self._state != FINISHED:
            self._before_wait()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the job and return what `result` would raise, or None."""
        if self._state != FINISHED:
            self._before_wait()
        return super().exception(timeout)

    def _before_wait(self) -> None:
        if not self.done():
            self._client.check_can_wait()
            self._client.hurry()

    def cancel(self) -> bool:
        """End the job, also a running one; True if its outcome will be cancelled.

        Returns as soon as the broker has decided. A running job gets SIGTERM, and SIGKILL
        after its grace; `result()` raises `CancelledError` when all its processes are gone.
        """
        if self.done() or self._withdrawn():
            return self.cancelled()
        return self._client.cancel(self.job_id)

    def ask_to_cancel(self) -> None:
        """Cancel without waiting for what the broker decides."""
        if not self.done() and not self._withdrawn():
            self._client.ask_to_cancel(self.job_id)

    def _withdrawn(self) -> bool:
        """Take the job back if nobody has it yet."""
        if self.withdraw is None or not self.withdraw(self.job_id):
            return False
        self.settle_cancelled()
        return True

    def began(self) -> None:
        """For the client: the job has started."""
        self._began = True

    def settle_cancelled(self) -> None:
        """For the client: the job has ended as cancelled."""
        super().cancel()
        self.set_running_or_notify_cancel()

    def tell(self, outcome: "Outcome") -> None:
        """For the client: this is how the job has ended; what that means here follows."""
        self._outcome = outcome

    def settle(self, value: Any, error: BaseException | None = None) -> None:
        """For the client: the job has ended with a value or an error, and callbacks run."""
        if self._finish(value, error):
            self._invoke_callbacks()

    def settle_quietly(self, told: Told, value: Any) -> Callable[[], None] | None:
        """For the client: the job has ended; give what calls code of the user, if any."""
        self._told = told
        if self._finish(value, None) and self._done_callbacks:
            return self._invoke_callbacks
        return None

    def fail(self, error: BaseException) -> None:
        """For the client: the job will never be heard of."""
        self.settle(None, error)

    def _finish(self, value: Any, error: BaseException | None) -> bool:
        """Do what `set_result` and `set_exception` do, in one step; False if it is done."""
        with self._condition:
            if self._state != PENDING:
                return False
            self._result, self._exception, self._state = value, error, FINISHED
            for waiter in self._waiters:
                if error is None:
                    waiter.add_result(self)
                else:
                    waiter.add_exception(self)
            self._condition.notify_all()
        return True
