"""Begin times as people write them."""

from datetime import datetime, timedelta

import pytest

from grn_zmq.cli.queueing.begin import seconds_until

# A Wednesday evening in January: no clock is changed around it.
NOW = datetime(2031, 1, 15, 20, 30, 0)
MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("+2h", 2 * HOUR),
        ("2h", 2 * HOUR),
        ("+90", 90),
        ("+1:30:00", 1.5 * HOUR),
        ("1h30m", 1.5 * HOUR),
        ("2 d", 2 * DAY),
        ("23:00", 2.5 * HOUR),
        ("20:30:10", 10),
        ("8:00", 11.5 * HOUR),
        ("20:30", DAY),
        ("today 23:00", 2.5 * HOUR),
        ("tomorrow 8:00", 11.5 * HOUR),
        ("Tomorrow 23:00", 26.5 * HOUR),
        ("2031-01-16", 3.5 * HOUR),
        ("2031-01-15T20:31", MINUTE),
        ("2031-01-15 20:31", MINUTE),
        (" 2031-01-15t20:30:00.5 ", 0.5),
    ],
)
def test_a_begin_time_is_read_as_seconds_from_now(text: str, seconds: float) -> None:
    assert seconds_until(text, NOW) == seconds


def test_a_time_of_another_zone_is_taken_as_such() -> None:
    later = NOW.astimezone() + timedelta(hours=1)

    assert seconds_until(later.isoformat(), NOW) == HOUR


@pytest.mark.parametrize("text", ["today 8:00", "2031-01-15T20:29", "2020-02-02"])
def test_a_time_that_has_passed_is_refused_with_the_time_it_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"is in the past: it is 2031-01-15T20:30 now"):
        seconds_until(text, NOW)


@pytest.mark.parametrize(
    "text",
    ["", "+", "soon", "90", "20310116", "25:00", "8:60", "tomorrow", "-2h", "2031-13-01"],
)
def test_what_is_no_begin_time_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no begin time: write \+2h, 23:00"):
        seconds_until(text, NOW)


@pytest.mark.parametrize("text", ["+9999d", "2099-01-01"])
def test_nobody_waits_for_ten_years(text: str) -> None:
    with pytest.raises(ValueError, match="more than ten years"):
        seconds_until(text, NOW)
