"""The future of a job: a `concurrent.futures.Future` that can also be awaited."""

import asyncio
import concurrent.futures
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from .client import Client
    from .records import Outcome

R = TypeVar("R")


class Future(concurrent.futures.Future[R], Generic[R]):
    """What a submitted job will give.

    It stays pending for `concurrent.futures` until its end, so that `cancel` can end a job
    that runs already; `running()` tells the truth all the same.
    """

    def __init__(self, job_id: str, client: "Client") -> None:
        super().__init__()
        self.job_id = job_id
        self.outcome: Outcome | None = None
        self._client = client
        self._began = False
        self.withdraw: Callable[[], bool] | None = None

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
        self._check_can_wait()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the job and return what `result` would raise, or None."""
        self._check_can_wait()
        return super().exception(timeout)

    def _check_can_wait(self) -> None:
        if not self.done():
            self._client.check_can_wait()

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
        if self.withdraw is None or not self.withdraw():
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

    def settle(self, outcome: "Outcome", value: R | None, error: BaseException | None) -> None:
        """For the client: the job has ended with a value or an error."""
        self.outcome = outcome
        self.set_running_or_notify_cancel()
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(value)  # type: ignore[arg-type]

    def fail(self, error: BaseException) -> None:
        """For the client: the job will never be heard of."""
        if not self.done():
            self.set_running_or_notify_cancel()
            self.set_exception(error)
