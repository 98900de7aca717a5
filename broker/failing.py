"""Where tests let the broker fail around a commit, by what the commit is about."""

from grn_zmq.failpoints import failpoint

from .changes import Batch


def before_commit(batch: Batch) -> None:
    """All of this is decided, and nothing of it is kept yet."""
    if batch.jobs or batch.trains:
        failpoint("broker.submit.before-commit")
    if _leases(batch):
        failpoint("broker.lease.before-commit")
    if _requeues(batch):
        failpoint("broker.requeue.before-commit")
    if _cancels(batch):
        failpoint("broker.cancel.before-commit")
    if batch.ends or batch.arrivals:
        failpoint("broker.end.before-commit")
    if batch.forgotten or batch.expired:
        failpoint("broker.forget.before-commit")


def after_commit(batch: Batch) -> None:
    """All of this is kept, and nobody has been told."""
    if batch.jobs or batch.trains:
        failpoint("broker.submit.after-commit")
    if _leases(batch):
        failpoint("broker.lease.after-commit")
    if _requeues(batch):
        failpoint("broker.requeue.after-commit")
    if _cancels(batch):
        failpoint("broker.cancel.after-commit")
    if batch.ends or batch.arrivals:
        failpoint("broker.end.after-commit")
    if batch.forgotten or batch.expired:
        failpoint("broker.forget.after-commit")


def _leases(batch: Batch) -> bool:
    return bool(batch.rides) or any(one.state == "assigned" for one in batch.lives)


def _requeues(batch: Batch) -> bool:
    return any(one.state == "queued" and one.attempt for one in batch.lives)


def _cancels(batch: Batch) -> bool:
    return any(one.cancelling for one in batch.lives)
