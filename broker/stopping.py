"""Stopping by order: no new jobs, workers leave, and the broker is the last to go."""

from grn_zmq import wire

from .book import Book
from .cancelling import Cancelling
from .effects import Effect, Note, Peer, Quit, Send

WHY = "the broker is being stopped"


class Stopping:
    """What is still to be done before the end."""

    def __init__(self, book: Book, cancelling: Cancelling) -> None:
        self._book = book
        self._cancelling = cancelling
        self._drain = False
        # The greetings that were answered so; a worker that greets again may have missed it.
        self._told: set[tuple[str, int]] = set()

    def on_stop(self, peer: Peer, message: wire.Stop, now: float) -> list[Effect]:
        """Begin to stop; a second order may be a hastier one."""
        first = not self._book.stopping
        self._drain = message.drain and (first or self._drain)
        self._book.stopping = True
        running = sum(len(one.leads) for one in self._book.workers.values())
        kept = sum(job.spec.detached for job in self._book.queued())
        return [
            Send(peer, wire.Stopping(running, kept)),
            Note("stopping", {"running": running, "drain": self._drain}),
            *self.go_on(now),
        ]

    def go_on(self, now: float) -> list[Effect]:
        """Do the next step if it is time for it; queued detached jobs stay as they are."""
        if not self._book.stopping:
            return []
        attached = [job for job in self._book.queued() if not job.spec.detached]
        effects = self._cancelling.cancel(attached, "terminate", now, WHY)
        workers = self._book.workers.values()
        busy = any(one.leads for one in workers) or len(self._book.adrift)
        if self._drain and busy:
            return effects
        for worker in workers:
            greeting = worker.incarnation, worker.greeting.greeting
            if greeting not in self._told:
                self._told.add(greeting)
                effects.append(Send(worker.peer, wire.Leave()))
        if not workers:
            effects.append(Quit())
        return effects
