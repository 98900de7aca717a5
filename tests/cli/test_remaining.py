"""For which jobs of others a `grn run` waits before it stops the broker it started."""

import pytest

from grn_zmq.cli.remaining import going_on
from tests.builders import a_job_row

BEFORE = 5


@pytest.mark.parametrize("why", ["held", "begin-time", "paused"])
def test_what_only_a_person_or_a_clock_lets_start_is_not_waited_for(why: str) -> None:
    row = a_job_row(6, state="queued", waits_for=why, detached=True)

    assert going_on([row], BEFORE) == []


def test_what_was_kept_from_earlier_is_not_waited_for() -> None:
    old, new = (a_job_row(one, state="queued", detached=True) for one in (5, 6))

    assert going_on([old, new], BEFORE) == [new]


def test_the_job_of_a_program_is_waited_for_whatever_its_number() -> None:
    row = a_job_row(4, state="running", detached=False)

    assert going_on([row], BEFORE) == [row]


def test_who_follows_is_waited_for_as_long_as_somebody_goes_on() -> None:
    runs = a_job_row(6, state="running", detached=True)
    held = a_job_row(7, state="queued", waits_for="held", detached=True)
    follows = a_job_row(8, state="queued", waits_for="dependency", detached=True)

    assert going_on([runs, held, follows], BEFORE) == [runs, follows]
    assert going_on([held, follows], BEFORE) == []
