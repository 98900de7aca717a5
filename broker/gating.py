"""Lets jobs start whose time has come, and gives up those whose time never will."""

from .book import Book
from .cancelling import Cancelling
from .effects import Effect


class Gating:
    """What follows from the gates, once in every turn."""

    def __init__(self, book: Book, cancelling: Cancelling) -> None:
        self._book = book
        self._cancelling = cancelling

    def go_on(self, now: float) -> list[Effect]:
        """Cancel who waits for a job that did not succeed, and who waits for those in turn."""
        effects: list[Effect] = []
        gates = self._book.gates
        while doomed := gates.take_doomed():
            for job, ended in doomed:
                why = f"job {ended.number}, after which it was to run, is {ended.state.value}"
                effects += self._cancelling.cancel([job], "terminate", now, why)
        for job in gates.take_open(now):
            self._book.open(job, now)
        return effects
