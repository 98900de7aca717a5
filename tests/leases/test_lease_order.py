"""Which devices a lease gets, and in which order; and how lists show one that idles. Pure."""

from typing import Any

import pytest

from grn_zmq.cli.jobtable import cells_of, result_or_reason
from grn_zmq.cli.live.joblines import job_lines
from grn_zmq.facts import JobRow
from tests.broker.machine import Machine
from tests.builders import a_job_row, a_spec


def a_claim(number: int, gpus: int = 1, **changes: Any) -> Any:
    options = {"kind": "lease", "gpus": gpus, "exclusive": True, "oom_retries": 0, **changes}
    return a_spec(number, job_type="lease of train.py", payload=b"", **options)


def test_s22_with_twelve_devices_and_the_first_busy_three_are_given_as_1_2_3() -> None:
    machine = Machine(*[1000] * 12)
    machine.submit(a_claim(1, among=("0",)))
    machine.submit(a_claim(2, gpus=3))

    assert machine.devices(1) == ["host:0"]
    assert machine.job(2).device == "host:1,2,3"


def test_s22_ten_comes_after_nine() -> None:
    machine = Machine(*[1000] * 12)
    machine.submit(a_claim(1, among=("10", "9", "2"), gpus=3))

    assert machine.job(1).device == "host:2,9,10"


def an_idle_lease(idle_s: float | None) -> JobRow:
    return a_job_row(
        7,
        kind="lease",
        name="",
        title="lease of train.py",
        job_type="lease of train.py",
        measuring=False,
        pid=4711,
        idle_s=idle_s,
    )


@pytest.mark.parametrize(
    ("idle_s", "text"),
    [
        (None, "pid 4711"),
        (754.0, "pid 4711: idle for 12m"),
        (2 * 3600.0, "pid 4711: idle for 2h"),
    ],
)
def test_an_idle_holder_is_reported_in_lists(idle_s: float | None, text: str) -> None:
    row = an_idle_lease(idle_s)

    assert result_or_reason(row) == text
    assert cells_of(row, "")[-2:] == ("lease of train.py", text)


def test_an_idle_holder_is_reported_in_the_live_view() -> None:
    header, line = job_lines([an_idle_lease(754.0)], width=120, chosen=1)

    assert header[0].text.rstrip().endswith("WHY")
    assert line[0].text.rstrip().endswith("lease of train.py  idle for 12m")
