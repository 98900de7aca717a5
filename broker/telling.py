"""The broker's log, which never costs more than it says: floods are counted, not written."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from loguru import logger

from .effects import Note

# Lines about the lives of jobs: so many at once, and so many a second after that.
BURST: Final = 200
PER_SECOND: Final = 50
_QUIET: Final = frozenset({"debug", "info"})


class Telling:
    """Writes notes to the log; of those that come too fast it says how many there were."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(BURST)
        self._counted_at = clock()
        self._left_out: Counter[str] = Counter()

    def tell(self, note: Note) -> None:
        """Write this, or count it."""
        if note.level in _QUIET and self._left < 1.0:
            self._left_out[note.text] += 1
            return
        self._left -= note.level == "info"
        logger.bind(facts=note.facts).log(note.level.upper(), note.text)

    def tick(self) -> None:
        """Time has passed: say what was left out, and have room for more."""
        now = self._clock()
        self._left = min(float(BURST), self._left + PER_SECOND * (now - self._counted_at))
        self._counted_at = now
        if not self._left_out:
            return
        counted, self._left_out = self._left_out, Counter()
        for text, count in counted.items():
            logger.bind(facts={"more": count}).info(text)
