"""Inline jobs on host memory: each has the peak of its own time in its caller's process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.client import this_client
from grn_zmq.wire import AskProfiles, ProfilesAre
from tests.e2e import grabbing
from tests.e2e.scene import MIB, Machine, a_machine

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("machine")]

PEAK_MIB = 150
# What the interpreter takes in passing, and what the kernel counts late.
ABOUT_MIB = 10


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[Machine]:
    """One device: jobs inside each other are its worker's."""
    with a_machine("host", home, 1000) as machine:
        yield machine


def peak_mib(job_type: str) -> float:
    rows = this_client().ask(AskProfiles(0), ProfilesAre).rows
    return next(row.peak_bytes / MIB for row in rows if row.job_type == job_type)


def test_an_inline_job_has_no_part_in_the_peak_of_the_one_before() -> None:
    large = grn.job(inline=True, type="large")(lambda: len(grabbing.grab(PEAK_MIB)))
    nothing = grn.job(inline=True, type="nothing")(lambda: None)

    for _ in range(3):
        large()
        nothing()

    assert peak_mib("large") == pytest.approx(PEAK_MIB, abs=ABOUT_MIB)
    assert peak_mib("nothing") < ABOUT_MIB


def test_a_job_around_an_inline_one_keeps_its_own_peak() -> None:
    inner = grn.job(inline=True, type="inner")(lambda: None)

    @grn.job(inline=True, type="outer")
    def outer() -> None:
        grabbing.grab(PEAK_MIB)
        inner()

    outer()

    assert peak_mib("outer") == pytest.approx(PEAK_MIB, abs=ABOUT_MIB)
    assert peak_mib("inner") < ABOUT_MIB
