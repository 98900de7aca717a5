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
        return asyncio.wrap_future(self).__await__()

    def running(self) -> bool:
        """Whether the job has been handed to a job process and has not ended."""
        return self._began and not self.done()

    def cancel(self) -> bool:
        """End the job, also a running one; True if its outcome will be cancelled.

        Returns as soon as the broker has decided. A running job gets SIGTERM, and SIGKILL
        after its grace; `result()` raises `CancelledError` when all its processes are gone.
        """
        if self.done():
            return self.cancelled()
        if self.withdraw is not None and self.withdraw():
            self.settle_cancelled()
            return True
        return self._client.cancel(self.job_id)

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
