"""Begin times, as people write them."""

import re
from datetime import datetime, time, timedelta
from typing import Final

from ...limits import MAX_SECONDS
from ...units import parse_seconds

FORMS: Final = "write +2h, 23:00, tomorrow 8:00 or 2031-11-19T08:00"

_CLOCK: Final = re.compile(r"(?:(today|tomorrow)\s+)?(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)
# A bare number could be seconds, minutes or a year: it needs a unit, or a plus.
_AFTER: Final = re.compile(r"\+.*|[0-9].*[a-z]", re.ASCII | re.IGNORECASE)


def seconds_until(text: str, now: datetime) -> float:
    """Give the seconds from now, which is local time, to what was written.

    A time of day without a date is the next such time.

    Raises:
        ValueError: It is no time, has passed, or is ten years away.
    """
    text = text.strip()
    seconds = _after(text)
    if seconds is None:
        when = _moment(text.lower(), now)
        # By the clock of the world: a night may have 23 or 25 hours here.
        seconds = when.timestamp() - now.timestamp()
        if seconds < 0:
            raise ValueError(f"{text!r} is in the past: it is {now:%Y-%m-%dT%H:%M} now")
    if seconds > MAX_SECONDS:
        raise ValueError(f"{text!r} is more than ten years from now")
    return seconds


def _after(text: str) -> float | None:
    """The seconds of `+2h`, `2h` or `+1:30:00`; None if it is another form."""
    if not _AFTER.fullmatch(text):
        return None
    try:
        return parse_seconds(text.removeprefix("+"))
    except (ValueError, OverflowError):
        return None


def _moment(text: str, now: datetime) -> datetime:
    try:
        if clock := _CLOCK.fullmatch(text):
            at = time(int(clock[2]), int(clock[3]), int(clock[4] or 0))
            when = datetime.combine(now.date(), at)
            later = clock[1] == "tomorrow" or (clock[1] is None and when <= now)
            return when + timedelta(days=later)
        if "-" in text:
            return datetime.fromisoformat(text.upper())
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{text!r} is no begin time: {FORMS}")
