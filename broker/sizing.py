"""What each waiting class needs at least, kept at hand so that most can be passed over."""

from itertools import islice
from typing import Final

from grn_zmq.records import DeviceFacts

from .book import Book
from .estimates import Estimate
from .reservations import Reservations
from .waiting import Waiter, WaitingClass

# Classes whose need is reckoned anew in one pass.
MOST_SIZED: Final = 64


class Sizing:
    """Reckons needs anew where something has changed, bit by bit where much has."""

    def __init__(self, book: Book, reservations: Reservations) -> None:
        self._book = book
        self._reservations = reservations
        self._stale: dict[WaitingClass, None] = {}

    def refresh(self) -> list[Waiter]:
        """Keep at hand what each waiting class needs at least; give those that changed."""
        if self._book.devices_changed:
            self._book.devices_changed = False
            self._stale |= dict.fromkeys(one for _, one in self._book.waiting.ordered())
        if self._book.profiles.changed:
            self._stale |= dict.fromkeys(
                self._book.waiting.of_types(self._book.profiles.changed)
            )
            self._book.profiles.changed.clear()
        # A type that waits with hundreds of arguments is gone through bit by bit.
        stale = list(islice(self._stale, MOST_SIZED))
        for waiting in stale:
            del self._stale[waiting]
        fresh = [one for one in dict.fromkeys(self._book.waiting.fresh) if one.jobs]
        self._book.waiting.fresh.clear()
        for waiting in fresh:
            waiting.passed_s = self._reservations.started_s
        changed = [one for one in dict.fromkeys((*stale, *fresh)) if one.jobs]
        for waiting in changed:
            self._size(waiting)
        return sorted((waiting.order, waiting) for waiting in changed)

    def _size(self, waiting: WaitingClass) -> None:
        job = waiting.head
        waiting.least_bytes = 0
        waiting.unmeasured = False
        waiting.needs = self._book.queues.of(job).needs(job.spec)
        waiting.duration_s = self._book.profiles.duration_s(job.key, "")
        spec = job.spec
        plain = not (spec.parent or spec.pin or job.level or spec.exclusive or spec.share)
        if not plain or spec.kind == "inline" or spec.gpus != 1 or spec.among:
            return
        known: list[Estimate] = []
        for facts in self._kinds_of_device():
            found = self._book.estimate(job, facts)
            if found is not None:
                if found.lease_bytes >= facts.total_bytes:
                    return  # to be refused, or content with less: look at it
                known.append(found)
        if not known:
            waiting.unmeasured = True
            return
        # On an idle device the need without margin will do.
        waiting.least_bytes = max(1, min(one.bare_bytes or one.lease_bytes for one in known))
        waiting.variance = min(one.noise_bytes**2 + one.bias_bytes**2 for one in known)

    def _kinds_of_device(self) -> list[DeviceFacts]:
        """One device of each class and size: equal ones lead to equal estimates."""
        kinds = {
            (one.device_class, one.total_bytes): one for one in self._book.devices.values()
        }
        return list(kinds.values())
