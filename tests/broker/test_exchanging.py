"""Measurements that leave a broker whole, and enter another: checked, kept, acted upon."""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import pytest

from broker.cells import Cell, CellId
from broker.exchanging import MOST_CLASSES, cell_row
from broker.profiles import MOST_CELLS
from grn_zmq import wire
from grn_zmq.cellbounds import MOST_RUNS
from grn_zmq.codec import MAX_HEADER_BYTES
from grn_zmq.facts import CellRow
from tests.broker.machine import CLIENT, Machine
from tests.builders import MIB, a_spec

FIT = "train.py::fit"


def a_cell_row(stand_in: int = 0, **changes: Any) -> CellRow:
    """A cell of which nothing is known but a figure of so many MiB."""
    row = cell_row(CellId(FIT, (), "host"), Cell(stand_in_bytes=stand_in * MIB))
    return replace(row, **changes)


def a_measured_row(peak: int = 300, runs: int = 5, **changes: Any) -> CellRow:
    """A cell of which so many equal runs are known."""
    figures = {"max_bytes": peak * MIB, "mean_bytes": float(peak * MIB), "last_s": 1.0}
    return a_cell_row(0, runs=runs, trust=runs, **{**figures, **changes})


def put(machine: Machine, *rows: CellRow) -> str:
    """Give rows to the broker; why it refuses them, or nothing."""
    machine.say(CLIENT, wire.PutCells(rows))
    refused = machine.sent(wire.Refused)
    assert bool(refused) != bool(machine.sent(wire.Acted))
    return refused[0].text if refused else ""


def all_of(machine: Machine) -> list[CellRow]:
    rows: list[CellRow] = []
    more = True
    while more:
        machine.say(CLIENT, wire.AskCells(len(rows)))
        (answer,) = machine.sent(wire.CellsAre)
        assert len(wire.encode(answer)[0]) <= MAX_HEADER_BYTES
        rows += answer.rows
        more = answer.more
    return rows


def types_of(rows: Iterable[CellRow]) -> list[str]:
    return [row.job_type for row in rows]


def test_a_row_has_every_figure_of_a_cell() -> None:
    cell = Cell("v1", 7, 2, 1e8, 1e12, 10**9, 10**8, 10**7, 5, 3, 4, 1.5, 2.5, 0.5, 0.75, 0.25)

    row = cell_row(CellId(FIT, (("n", 3),), "A100"), cell)

    assert (row.job_type, row.by, row.device_class, row.devices) == (FIT, {"n": 3}, "A100", 1)
    assert Cell(**{one.name: getattr(row, one.name) for one in fields(Cell)}) == cell


def test_what_one_broker_has_learned_makes_another_know_the_same() -> None:
    here, there = Machine(1000), Machine(1000)
    here.know(200)
    here.know(300, "other", by={"n": 4, "mode": "fast"})

    assert put(there, *all_of(here)) == ""

    assert sorted(map(repr, there.core.book.profiles)) == sorted(
        map(repr, here.core.book.profiles)
    )
    there.submit(*(a_spec(number) for number in range(1, 5)))
    assert there.placed(1, 2, 3, 4) == [True] * 4
    assert [there.lease(number).measuring for number in (1, 2)] == [False, False]


def test_pages_of_cells_fit_together_and_into_messages() -> None:
    machine = Machine(1000)
    long = "✓" * 4000
    rows = [
        a_cell_row(1, job_type=f"{number:03}{long}", by={"text": long}, version=long)
        for number in range(30)
    ]
    for row in rows:
        assert put(machine, row) == ""

    assert all_of(machine) == rows


def test_what_is_put_outlives_the_broker() -> None:
    machine = Machine(1000)
    row = a_measured_row(version="v1", by={"n": 2}, squares=1e10, utilisation=0.5)
    assert put(machine, row) == ""

    machine.restart()

    assert [cell_row(*one) for one in machine.core.book.profiles] == [row]


def test_what_is_put_replaces_the_same_cell_and_keeps_the_others() -> None:
    machine = Machine(1000)
    machine.know(100)
    machine.know(100, "other")

    assert put(machine, a_measured_row(300)) == ""

    rows = {row.job_type: row for row in all_of(machine)}
    assert rows[FIT].max_bytes == 300 * MIB
    assert rows["other"].max_bytes == 100 * MIB


def test_jobs_that_wait_for_a_measuring_run_start_at_once_by_what_is_put() -> None:
    machine = Machine(1000, 1000)
    machine.submit(*(a_spec(number) for number in range(1, 6)))
    machine.start(1)
    assert machine.placed(1, 2, 3) == [True, False, False]

    assert put(machine, a_cell_row(200)) == ""

    assert machine.devices(2, 3, 4) == ["host:1"] * 3
    assert len(machine.sent(wire.Assign)) == 1


def test_what_people_set_is_promised_with_a_margin_until_a_run_replaces_it() -> None:
    machine = Machine(2000)
    assert put(machine, a_cell_row(500)) == ""

    machine.submit(a_spec(1), a_spec(2))

    assert machine.lease(1).lease_bytes == int(500 * MIB * 1.08)
    assert not machine.lease(1).measuring
    machine.run(1, peak=300)
    machine.run(2, peak=300)
    machine.submit(a_spec(3))
    assert machine.lease(3).lease_bytes == 300 * MIB


@pytest.mark.parametrize("mib", [1, 900])
def test_leases_that_were_granted_stay_as_they_are(mib: int) -> None:
    machine = Machine(1000)
    machine.know(400)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)
    before = [machine.lease(number).lease_bytes for number in (1, 2)]

    assert put(machine, a_cell_row(mib)) == ""
    machine.use(0, j1=390)
    machine.wait(1.0)

    assert [machine.lease(number).lease_bytes for number in (1, 2)] == before


def test_a_measuring_run_goes_on_alone_when_its_type_is_put() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)
    assert machine.lease(1).measuring

    assert put(machine, a_cell_row(100)) == ""
    machine.wait(1.0)

    assert machine.lease(1).lease_bytes == 1000 * MIB
    assert machine.placed(1, 2) == [True, False]
    machine.finish(1, peak=300)
    assert machine.lease(2).lease_bytes == 300 * MIB


def test_what_is_put_too_low_is_learned_away() -> None:
    machine = Machine(1000)
    assert put(machine, a_measured_row(1, runs=1000)) == ""

    machine.submit(a_spec(1))
    machine.run(1, peak=400)

    machine.submit(a_spec(2))
    assert machine.lease(2).lease_bytes >= 400 * MIB


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"devices": 2}, "devices is 2"),
        ({"devices": 0}, "devices is 0"),
        ({"max_bytes": 1 << 57}, "max_bytes"),
        ({"stand_in_bytes": (1 << 63) - 1}, "stand_in_bytes"),
        ({"mean_bytes": 2.0**99}, "mean_bytes"),
        ({"runs": MOST_RUNS + 1}, "runs"),
        ({"ooms": 1 << 62}, "ooms"),
        ({"last_s": 1e12}, "last_s"),
        ({"utilisation": -0.5}, "utilisation is -0.5"),
        ({"mean_utilisation": 1.5}, "mean_utilisation"),
        ({"job_type": "x" * 4097}, "4096"),
        ({"device_class": "x" * 4097}, "4096"),
        ({"version": "x" * 4097}, "4096"),
        ({"by": {"n" * 4097: 1}}, "4096"),
        ({"by": {"n": "\x1b[2J"}}, "not printable"),
        ({"by": {"n": 1e300}}, "64 bits"),
    ],
)
def test_figures_that_nobody_can_have_measured_are_refused_and_nothing_is_taken(
    changes: dict[str, Any], said: str
) -> None:
    machine = Machine(1000)

    refused = put(machine, a_cell_row(10, job_type="fine"), a_cell_row(10, **changes))

    assert said in refused
    assert refused.startswith("profile 2 (")
    assert all_of(machine) == []
    machine.commit()
    assert machine.disk.kept(9).cells == []


def test_more_values_of_a_type_than_are_kept_are_refused_and_none_is_lost() -> None:
    machine = Machine(1000)
    many = [a_cell_row(10, by={"n": number}) for number in range(MOST_CELLS)]
    assert put(machine, *many) == ""

    one_more = put(machine, a_cell_row(10, by={"n": -1}))

    assert f"{MOST_CELLS + 1} different values, {MOST_CELLS} can be" in one_more
    assert len(all_of(machine)) == MOST_CELLS
    assert put(machine, *many) == ""


def test_a_type_is_known_on_a_bounded_number_of_device_classes() -> None:
    machine = Machine(1000)
    many = [a_cell_row(10, device_class=f"card {one}") for one in range(MOST_CLASSES + 1)]

    assert f"{MOST_CLASSES + 1} device classes" in put(machine, *many)
    assert put(machine, *many[1:]) == ""


def test_more_types_than_are_kept_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.exchanging.MOST_TYPES", 3)
    machine = Machine(1000)
    assert put(machine, *(a_cell_row(10, job_type=str(one)) for one in range(3))) == ""

    assert "4 job types would be known, 3 can be" in put(machine, a_cell_row(10, job_type="4"))
    assert types_of(all_of(machine)) == ["0", "1", "2"]


def test_figures_out_of_all_bounds_leave_as_ones_that_can_come_back() -> None:
    machine = Machine(1000)
    wild = Cell(runs=2, trust=9, bound_bytes=1 << 62, squares=1e40, last_s=1e300)
    machine.core.book.profiles.restore(CellId(FIT, (), "host"), wild)
    machine.core.book.profiles.restore(CellId(FIT, (), ""), Cell(runs=1))

    (row,) = all_of(machine)

    assert row.trust == row.runs == 2
    assert put(machine, row) == ""


def test_nothing_is_put_by_an_empty_message() -> None:
    machine = Machine(1000)

    assert put(machine) == ""
    assert all_of(machine) == []


def test_the_largest_figures_that_are_taken_break_nothing() -> None:
    machine = Machine(1000)
    most = 1 << 56
    largest = a_cell_row(
        runs=MOST_RUNS, trust=MOST_RUNS, mean_bytes=float(most), max_bytes=most,
        need_bytes=most, bound_bytes=most, squares=2.0**99, utilisation=1.0, ooms=MOST_RUNS,
    )  # fmt: skip
    other = a_cell_row(stand_in_bytes=most, job_type="other")
    numbers = [replace(largest, job_type="line", by={"n": one}) for one in (1, 2)]
    assert put(machine, largest, other, *numbers) == ""

    machine.submit(a_spec(1), a_spec(2, job_type="other"))
    machine.submit(a_spec(3, job_type="line", by={"n": 10**9}))

    machine.say(CLIENT, wire.AskProfiles(0))
    (answer,) = machine.sent(wire.ProfilesAre)
    assert wire.decode(wire.encode(answer)) == answer
    assert len(answer.rows) == 4
    assert machine.outcome(1).error_type == "JobTooLarge"
