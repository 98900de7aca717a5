"""Large jobs among endless small ones: a device is kept for them, and no longer than useful."""

import math
from typing import Any

import pytest

from broker.cells import Key, key_of
from broker.ledger import Lease, Ledger
from broker.reserving import Drained, Reservation, drained, overdue, reserve, starving
from grn_zmq import wire
from tests.broker.machine import CLIENT, Machine
from tests.builders import MIB, a_device, a_spec, an_id

INF = math.inf


def lasting(**seconds: float | None) -> Any:
    return lambda key, device_class: seconds.get(key[0])


def a_ledger(*leases: tuple[str, int], granted_at: float = 0.0, total: int = 1000) -> Ledger:
    """`("a", 300)`: a job of type a holds 300 MiB."""
    ledger = Ledger(a_device(total=total))
    for number, (job_type, lease) in enumerate(leases):
        key: Key = key_of(job_type, {})
        ledger.grant(Lease(str(number), 1, lease * MIB, key), now=granted_at)
    return ledger


def drained_at(ledger: Ledger, need: int, now: float = 0.0, **seconds: float | None) -> Any:
    whole = bool(seconds.pop("whole", False))
    return drained("w", ledger, need * MIB, whole, now, lasting(**seconds))


def test_a_job_starves_by_what_was_started_past_it() -> None:
    assert not starving(200.0, waited_s=100.0, duration_s=10.0)
    assert starving(201.0, waited_s=100.0, duration_s=10.0)


def test_a_job_of_unknown_length_counts_as_a_minute() -> None:
    assert not starving(1200.0, waited_s=100.0, duration_s=None)
    assert starving(1201.0, waited_s=100.0, duration_s=None)


def test_whoever_waits_very_long_starves_whatever_was_started() -> None:
    assert not overdue(600.0, None)
    assert overdue(601.0, None)
    assert not overdue(1999.0, 100.0)
    assert overdue(2001.0, 100.0)
    assert starving(0.0, waited_s=601.0, duration_s=None)


def test_a_device_has_room_when_enough_of_its_jobs_have_ended() -> None:
    ledger = a_ledger(("a", 300), ("b", 300), ("c", 300))

    found = drained_at(ledger, 500, a=10.0, b=20.0, c=30.0)

    assert found == Drained("w", 20.0, spare_bytes=200 * MIB)


def test_a_device_with_room_has_it_now() -> None:
    assert drained_at(a_ledger(("a", 300)), 500, now=5.0, a=10.0).at == 5.0


def test_who_needs_the_whole_device_waits_for_the_last() -> None:
    ledger = a_ledger(("a", 300), ("b", 300))

    found = drained_at(ledger, 100, a=10.0, b=50.0, whole=1.0)

    assert found == Drained("w", 50.0, spare_bytes=0)


def test_a_job_of_unknown_length_ends_last() -> None:
    ledger = a_ledger(("a", 300), ("long", 300), ("b", 300))

    assert drained_at(ledger, 600, a=10.0, b=20.0).at == 20.0
    assert drained_at(ledger, 900, a=10.0, b=20.0).at == INF


def test_what_strangers_leave_no_room_for_is_never_drained() -> None:
    ledger = a_ledger(("a", 300))
    ledger.foreign_bytes = 600 * MIB

    assert drained_at(ledger, 500, a=10.0) is None
    assert drained_at(ledger, 300, a=10.0).at == 10.0


def test_an_overrun_job_is_expected_to_take_half_as_long_again() -> None:
    ledger = a_ledger(("a", 1000))

    assert drained_at(ledger, 500, now=40.0, a=100.0).at == 100.0
    assert drained_at(ledger, 500, now=90.0, a=100.0).at == 115.0
    assert drained_at(ledger, 500, now=200.0, a=100.0).at == 300.0


def reserved(
    *found: Drained, duration_s: float | None = None, **how: Any
) -> Reservation | None:
    kept = Reservation("job", {}, 0.0, INF)
    any_cost = how.get("at_any_cost", False)
    return reserve(kept, found, how.get("count", 1), 0.0, duration_s, at_any_cost=any_cost)


def test_the_device_that_has_room_first_is_kept_if_that_is_soon() -> None:
    kept = reserved(Drained("a", 100.0, 7), Drained("b", 50.0, 8))

    assert kept == Reservation("job", {"b": 8}, shadow_at=50.0, until=200.0)


def test_nothing_is_drained_for_long() -> None:
    assert reserved(Drained("a", 151.0, 0)) is None
    assert reserved(Drained("a", 151.0, 0), duration_s=1000.0) is not None
    assert reserved() is None


def test_who_is_overdue_gets_a_device_however_long_it_takes() -> None:
    kept = reserved(Drained("a", 5000.0, 0), at_any_cost=True)

    assert kept is not None
    assert kept.until == INF


def test_others_may_use_a_kept_device_until_then_or_beside() -> None:
    kept = Reservation("job", {"w": 300}, shadow_at=100.0, until=200.0)

    assert kept.room_for("w", 900, ends_at=99.0) == 900
    assert kept.room_for("w", 900, ends_at=101.0) == 300
    assert kept.room_for("w", 200, ends_at=INF) == 200
    assert kept.room_for("another", 900, ends_at=INF) == 900


def test_nobody_fills_in_for_ever_before_an_end_that_is_not_known() -> None:
    """Or the job would wait for ever once the others have taken that place."""
    kept = Reservation("job", {"w": 300}, shadow_at=INF, until=INF)

    assert kept.room_for("w", 900, ends_at=INF) == 300


class Stream:
    """An endless stream of small jobs of ten seconds, as many as find room, five waiting."""

    def __init__(self, *totals: int, run_s: float = 10.0) -> None:
        self.machine = Machine(*totals)
        self.totals = totals
        self.run_s = run_s
        self.ends: dict[int, float] = {}
        self.number = 10
        self.learn("small", 100, run_s)

    def learn(self, job_type: str, mib: int, run_s: float, runs: int = 20) -> None:
        for _ in range(runs):
            self.number += 1
            self.machine.submit(a_spec(self.number, job_type=job_type))
            self.machine.run(self.number, peak=mib, run_s=run_s)

    def flow(self, seconds: float, until: int | None = None) -> bool:
        """Let time pass, or until this job is placed; say whether it is."""
        machine, end = self.machine, self.machine.now + seconds
        while machine.now < end:
            if until is not None and machine.job(until).device:
                return True
            waiting = [job for job in machine.core.book.waiting if job.spec.job_type == "small"]
            specs = range(self.number + 1, self.number + 1 + max(0, 5 - len(waiting)))
            if specs:
                self.number = specs[-1]
                machine.submit(*(a_spec(one, job_type="small") for one in specs))
            self._work()
            machine.wait(1.0)
        return until is not None and machine.job(until).device != ""

    def _work(self) -> None:
        machine = self.machine
        for index in range(len(self.totals)):
            machine.use(index)
        for worker in list(machine.core.book.workers.values()):
            for job_id in list(worker.ledger.leases):
                number = int(job_id, 16)
                if machine.job(number).spec.job_type != "small":
                    continue
                ends_at = self.ends.setdefault(number, machine.now + self.run_s)
                if machine.now >= ends_at:
                    machine.run(number, peak=100, run_s=self.run_s)


# Simulated; what waits longer than this is taken to wait for ever.
FOR_EVER_S = 3000.0


def test_without_a_large_job_small_ones_fill_the_device() -> None:
    stream = Stream(1000)

    stream.flow(200.0)

    assert len(stream.machine.ledger().leases) >= 6


def test_a_large_job_starts_under_an_endless_stream_of_small_ones() -> None:
    stream = Stream(1000)
    stream.learn("large", 900, run_s=30.0)
    stream.flow(100.0)
    stream.machine.submit(a_spec(1, job_type="large"))
    assert stream.machine.placed(1) == [False]

    assert stream.flow(FOR_EVER_S, until=1)


def test_a_large_job_of_unknown_length_starts_too() -> None:
    stream = Stream(1000)
    stream.flow(100.0)
    stream.machine.submit(a_spec(1, job_type="large", memory_bytes=900 * MIB))
    assert stream.machine.placed(1) == [False]

    assert stream.flow(FOR_EVER_S, until=1)


def test_a_type_that_was_never_measured_starts_too() -> None:
    stream = Stream(1000, 1000)
    stream.flow(100.0)
    stream.machine.submit(a_spec(1, job_type="new"))
    assert stream.machine.placed(1) == [False]

    assert stream.flow(FOR_EVER_S, until=1)
    assert stream.machine.lease(1).measuring


@pytest.mark.parametrize("totals", [(1000, 1000), (1000, 500), (500, 1000)])
def test_a_job_that_must_be_alone_on_the_largest_device_starts_too(
    totals: tuple[int, ...],
) -> None:
    stream = Stream(*totals)
    stream.learn("bad", 300, run_s=10.0)
    stream.flow(100.0)
    machine = stream.machine
    machine.submit(a_spec(1, job_type="bad", oom_retries=1))
    assert stream.flow(FOR_EVER_S, until=1)
    machine.start(1)
    machine.finish(1, peak=320, outcome="oom", asked_bytes=50 * MIB)
    assert machine.job(1).level == 2

    assert stream.flow(FOR_EVER_S, until=1)
    index = int(machine.devices(1)[0].removeprefix("host:"))
    assert totals[index] == max(totals)
    assert machine.lease(1).alone


def test_a_large_job_starts_although_a_neighbour_of_unknown_length_was_in_its_way() -> None:
    stream = Stream(1000)
    stream.learn("large", 900, run_s=30.0)
    machine = stream.machine
    machine.submit(a_spec(2, job_type="endless", memory_bytes=200 * MIB))
    machine.start(2)
    machine.submit(a_spec(1, job_type="large"))
    stream.flow(1000.0)
    assert machine.placed(1) == [False]

    machine.finish(2, peak=150, run_s=1000.0)

    assert stream.flow(FOR_EVER_S, until=1)


def starving_machine(*, spare: int = 0) -> Machine:
    """Device 0 is kept for job 1, which needs 900 MiB, until job 2 ends in 100 s."""
    machine = Machine(1000 + spare)
    number = 5000
    for job_type, mib, run_s in (
        ("large", 900, 10.0),
        ("long", 400, 100.0),
        ("short", 50, 5.0),
        ("slow", 150, 500.0),
        ("wide", 300, 5.0),
    ):
        for _ in range(20):
            number += 1
            machine.submit(a_spec(number, job_type=job_type))
            machine.run(number, peak=mib, run_s=run_s)
    machine.submit(a_spec(2, job_type="long"))
    machine.start(2)
    machine.submit(a_spec(1, job_type="large"))
    for past in range(3000, 3000 + 50):  # 250 s of others, 20 times its own 10 s
        machine.submit(a_spec(past, job_type="short"))
        machine.run(past, peak=50, run_s=5.0)
        machine.now -= 3.0  # they took no time here
    machine.use(0, j2=400)
    machine.wait(1.0)
    return machine


def test_what_would_delay_whom_a_device_is_kept_for_waits_and_is_told() -> None:
    machine = starving_machine()

    machine.submit(a_spec(3, job_type="slow"))

    assert machine.placed(3) == [False]
    assert machine.why(3) == (
        "waiting for memory: device 0 is kept for large, which has waited longer; "
        "100.0 MiB are left beside it"
    )


def test_what_ends_before_fills_in() -> None:
    machine = starving_machine()

    machine.submit(a_spec(3, job_type="short"), a_spec(4, job_type="wide"))

    assert machine.placed(3, 4) == [True, True]


def test_what_fits_beside_fills_in() -> None:
    machine = starving_machine(spare=150)

    machine.submit(a_spec(3, job_type="slow"), a_spec(4, job_type="slow"))
    assert machine.placed(3, 4) == [True, False]

    machine.run(2, peak=400, run_s=100.0)
    assert machine.placed(1) == [True]


def test_the_kept_device_is_given_to_whom_it_was_kept_for() -> None:
    machine = starving_machine()
    machine.submit(a_spec(3, job_type="slow"))

    machine.run(2, peak=400, run_s=100.0)

    assert machine.placed(1, 3) == [True, False]


def test_a_cancelled_job_keeps_no_device() -> None:
    machine = starving_machine()
    machine.submit(a_spec(3, job_type="slow"))
    assert machine.placed(3) == [False]

    machine.say(CLIENT, wire.Cancel((an_id(1),), interrupt=False))
    machine.wait(1.0)

    assert machine.placed(3) == [True]


def test_a_device_that_does_not_drain_in_time_is_let_go_for_a_while() -> None:
    machine = starving_machine()
    machine.submit(a_spec(3, job_type="slow"))
    assert machine.placed(3) == [False]
    for _ in range(80):  # job 2 overruns; its device goes on reporting
        machine.use(0, j2=400)
        machine.wait(3.0)

    assert machine.placed(3) == [True]
    machine.submit(a_spec(4, job_type="slow"))
    assert machine.placed(4) == [True]


def test_a_device_whose_worker_died_is_kept_no_longer() -> None:
    machine = starving_machine()
    machine.join(1, 800)
    machine.submit(a_spec(3, job_type="wide"))

    machine.lose(an_id(800))

    assert machine.states(1) == ["queued"]
    machine.submit(a_spec(4, job_type="slow"))
    assert machine.devices(4) == ["host:1"]


def test_two_of_a_kind_that_ran_out_of_memory_do_not_wait_for_each_other() -> None:
    """The second goes to the head of the class while a device is kept for the first."""
    machine = Machine(1000)
    machine.know(100, "grows")
    machine.know(500, "busy")
    machine.submit(a_spec(9, job_type="busy"))
    machine.submit(a_spec(1, job_type="grows"), a_spec(2, job_type="grows"))
    for number in (1, 2):
        machine.start(number)
        machine.finish(number, peak=200, outcome="oom", asked_bytes=400 * MIB)
        machine.use(0)
        machine.wait(1.0)
    assert machine.placed(1, 2) == [False, False]

    machine.run(9, peak=500)

    assert machine.placed(1, 2).count(True) == 1
