"""The time without a broker: how long to wait, what to say meanwhile, when to give up."""

import time
from typing import Final

from .discovery import Address, is_locked
from .errors import BrokerUnavailable
from .paths import Places

# Shorter outages are nothing to talk about.
QUIET_S: Final = 2.0


class Outage:
    """The time without a broker: told of once, and ended by an error when it is too long."""

    def __init__(self, lost_at: float | None, wait_s: float) -> None:
        self._began = time.monotonic()
        self._lost_at = lost_at
        self._wait_s = wait_s
        self._told = False

    def check(self, places: Places, answering: Address | None = None) -> None:
        """Go on waiting, or say why not.

        Raises:
            BrokerUnavailable: Nobody is there, or has not answered for too long.
        """
        now = time.monotonic()
        since = now - (self._began if self._lost_at is None else self._lost_at)
        if since > self._wait_s:
            # A broker that is there gets its time even if the one before died long ago.
            here = answering is not None or is_locked(places)
            if not here or now - self._began > self._wait_s:
                raise BrokerUnavailable(self._reason(places, answering))
        if self._lost_at is None and answering is None and not is_locked(places):
            raise BrokerUnavailable(self._reason(places, None))
        if since > QUIET_S and not self._told:
            self._told = True
            if self._lost_at is not None:
                warn(f"waiting for the broker, which is gone since {since:.0f} s")

    def _reason(self, places: Places, answering: Address | None) -> str:
        if self._lost_at is not None:
            return f"the broker has been gone for {time.monotonic() - self._lost_at:.0f} s"
        if answering is not None:
            return f"the broker (pid {answering.pid}) has not answered for {self._wait_s:.0f} s"
        if is_locked(places):
            return f"a broker has been starting for {self._wait_s:.0f} s without getting ready"
        return f"no broker is running in {places.directory}"

    def over(self) -> None:
        if self._told and self._lost_at is not None:
            warn(f"the broker is back after {time.monotonic() - self._lost_at:.0f} s")
        self._told = False


def warn(text: str) -> None:
    """Tell the user, through whatever log the program has."""
    from loguru import logger

    logger.warning(text)
