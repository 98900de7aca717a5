"""A log that the live view follows: read on in every turn, as far as there is more."""

import codecs
import os
from collections.abc import Iterable
from typing import Final

from ...facts import JobRow
from ...logfiles import LogReader, Printed
from ...paths import logs_directory
from .pages import KEPT_LINES, LogPane

# Parts of a log that are read in one turn: a job that prints without end must not keep the
# keys from being read.
MOST_PARTS: Final = 16


class Followed:
    """What one job prints, from its last lines on."""

    def __init__(self, row: JobRow) -> None:
        self.row = row
        self.pane = LogPane()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._reader = LogReader(logs_directory(os.environ), row.job_id)
        self._add(self._reader.tail(KEPT_LINES))

    def read_on(self) -> None:
        """Take in what was printed since."""
        for _ in range(MOST_PARTS):
            pieces = self._reader.more()
            self._add(pieces)
            if not pieces:
                return

    def close(self) -> None:
        self._reader.close()

    def _add(self, pieces: Iterable[Printed]) -> None:
        for _, data in pieces:
            self.pane.add(self._decoder.decode(data))
