import math
from typing import Any

import pytest

from broker.cells import key_of
from broker.estimates import Estimate, Kind
from broker.ledger import Lease, Ledger
from tests.builders import MIB, a_device

# One standard deviation: the figures of a test are then the errors themselves.
SIGMA = 1.0


def a_ledger(total: int = 1000, **changes: Any) -> Ledger:
    return Ledger(a_device(total=total), **changes)


def a_lease(job: str = "a", lease: int = 300, job_type: str = "fit", **changes: Any) -> Lease:
    return Lease(job, 1, lease * MIB, key_of(job_type, {}), **changes)


def an_estimate(lease: int = 100, noise: int = 0, bias: int = 0) -> Estimate:
    return Estimate(lease * MIB, float(noise * MIB), float(bias * MIB), Kind.MEASURED)


def granted(*leases: Lease, **changes: Any) -> Ledger:
    ledger = a_ledger(**changes)
    for lease in leases:
        ledger.grant(lease, now=0.0)
    return ledger


def free(ledger: Ledger) -> int:
    return ledger.free_bytes() // MIB


def headroom(ledger: Ledger, **more: Any) -> float:
    """What must stay free, the guard band not counted."""
    return (ledger.headroom_bytes(SIGMA, **more) - ledger.guard_bytes) / MIB


def test_a_grant_takes_bytes_and_a_release_gives_them_back() -> None:
    ledger = a_ledger()

    ledger.grant(a_lease(lease=300), now=0.0)
    assert free(ledger) == 700

    ledger.release("a", now=1.0)
    assert free(ledger) == 1000


def test_use_counts_only_where_it_passes_the_promise() -> None:
    ledger = granted(a_lease(lease=300))

    ledger.note_use(ledger.leases["a"], 200 * MIB, now=1.0)
    assert free(ledger) == 700

    ledger.note_use(ledger.leases["a"], 450 * MIB, now=2.0)
    assert free(ledger) == 550


def test_strangers_and_idle_processes_take_room() -> None:
    assert free(a_ledger(foreign_bytes=200 * MIB, idle_bytes=30 * MIB)) == 770


def test_r103_what_an_ended_job_still_holds_stays_taken() -> None:
    ledger = granted(a_lease(lease=400))

    ledger.release("a", now=1.0)
    ledger.foreign_bytes = 400 * MIB

    assert free(ledger) == 600


def test_free_bytes_can_leave_jobs_out() -> None:
    ledger = granted(a_lease("a", 300), a_lease("b", 200))

    assert ledger.free_bytes({"a"}) == 800 * MIB
    assert ledger.others({"a"}) == 1
    assert ledger.others() == 2


def test_a_promise_beyond_what_is_free_is_a_bug() -> None:
    ledger = granted(a_lease("a", 400), foreign_bytes=500 * MIB)

    with pytest.raises(AssertionError, match="promised"):
        ledger.grant(a_lease("b", 101), now=0.0)
    assert "b" not in ledger.leases


def test_a_second_lease_for_one_job_is_a_bug() -> None:
    ledger = granted(a_lease("a", 1))

    with pytest.raises(AssertionError, match="already"):
        ledger.grant(a_lease("a", 1), now=0.0)


def test_what_ancestors_hold_may_be_promised_again_where_it_is_uncounted() -> None:
    ledger = granted(a_lease("parent", 900))

    ledger.grant(a_lease("child", 800, uncounted=frozenset({"parent"})), now=0.0)

    assert free(ledger) == -700


def test_releasing_a_lease_that_does_not_exist_is_a_bug() -> None:
    with pytest.raises(KeyError):
        a_ledger().release("a", now=0.0)


def test_the_measuring_lease_is_found() -> None:
    ledger = granted(a_lease("a", 100))
    assert ledger.measuring is None

    ledger.grant(a_lease("b", 100, measuring=True), now=0.0)
    assert ledger.measuring is ledger.leases["b"]


def test_a_waiting_parent_keeps_what_it_uses_and_is_measured_no_longer() -> None:
    ledger = granted(a_lease("a", 1000, measuring=True))
    ledger.note_use(ledger.leases["a"], 250 * MIB, now=1.0)

    ledger.shrink_to_use("a")

    assert free(ledger) == 750
    assert ledger.measuring is None


def test_a_settled_run_leaves_the_rest_of_the_device_to_others() -> None:
    ledger = granted(a_lease("a", 1000, measuring=True))

    ledger.settle(ledger.leases["a"], an_estimate(216))

    assert free(ledger) == 784
    assert ledger.measuring is None
    assert ledger.leases["a"].settled


def test_growth_after_settling_is_charged() -> None:
    ledger = granted(a_lease("a", 1000, measuring=True))
    ledger.settle(ledger.leases["a"], an_estimate(216))

    ledger.note_use(ledger.leases["a"], 500 * MIB, now=100.0)

    assert free(ledger) == 500


def test_only_real_growth_counts_as_growth() -> None:
    ledger = granted(a_lease("a", 1000, measuring=True))
    lease = ledger.leases["a"]
    for now, used in ((1.0, 100), (2.0, 101), (3.0, 60), (4.0, 101)):
        ledger.note_use(lease, used * MIB, now)
    assert lease.grown_at == 1.0
    assert lease.most_used_bytes == 101 * MIB

    ledger.note_use(lease, 110 * MIB, now=5.0)
    assert lease.grown_at == 5.0


def test_different_types_average_out() -> None:
    leases = [a_lease(job, 100, job, estimate=an_estimate(bias=30)) for job in "abcd"]

    assert headroom(granted(*leases)) == pytest.approx(60, abs=0.01)


def test_jobs_of_one_type_err_together() -> None:
    leases = [a_lease(job, 100, estimate=an_estimate(bias=30)) for job in "abcd"]

    assert headroom(granted(*leases)) == pytest.approx(120, abs=0.01)


def test_how_runs_differ_averages_out_even_within_a_type() -> None:
    leases = [a_lease(job, 100, estimate=an_estimate(noise=30)) for job in "abcd"]

    assert headroom(granted(*leases)) == pytest.approx(60, abs=0.01)


def test_headroom_reckons_with_one_more_job() -> None:
    ledger = granted(a_lease("a", 100, estimate=an_estimate(bias=30)))
    more = an_estimate(noise=40, bias=30)

    alike = headroom(ledger, key=key_of("fit", {}), estimate=more)
    other = headroom(ledger, key=key_of("other", {}), estimate=more)

    assert alike == pytest.approx(math.sqrt(60**2 + 40**2), abs=0.01)
    assert other == pytest.approx(math.sqrt(30**2 + 30**2 + 40**2), abs=0.01)


def test_headroom_before_is_that_after_a_grant() -> None:
    estimate = an_estimate(noise=17, bias=31)
    ledger = granted(a_lease("a", 100, estimate=an_estimate(bias=30)))
    before = headroom(ledger, key=key_of("fit", {}), estimate=estimate)

    ledger.grant(a_lease("b", 100, estimate=estimate), now=0.0)

    assert headroom(ledger) == pytest.approx(before, abs=0.01)


def test_strangers_need_headroom_too() -> None:
    assert headroom(a_ledger(foreign_bytes=400 * MIB)) == pytest.approx(20, abs=0.01)


def test_jobs_left_out_need_no_headroom() -> None:
    ledger = granted(a_lease("a", 100, estimate=an_estimate(bias=30)))

    assert headroom(ledger, without={"a"}) == 0


def test_a_guard_band_stays_free_on_small_and_large_devices() -> None:
    assert a_ledger(1000).guard_bytes == 10 * MIB
    assert a_ledger(80_000).guard_bytes == 256 * MIB


def test_company_is_how_many_jobs_were_there_on_average() -> None:
    ledger = a_ledger()
    ledger.grant(a_lease("a", 1), now=100.0)
    ledger.grant(a_lease("b", 1), now=104.0)
    ledger.grant(a_lease("c", 1), now=106.0)

    assert ledger.release("c", now=108.0) == pytest.approx(3)
    assert ledger.release("a", now=110.0) == pytest.approx((4 * 1 + 2 * 2 + 2 * 3 + 2 * 2) / 10)
    assert ledger.release("b", now=124.0) == pytest.approx((2 * 2 + 2 * 3 + 2 * 2 + 14) / 20)


def test_who_was_alone_had_no_company() -> None:
    ledger = a_ledger()
    ledger.grant(a_lease("a", 1), now=50.0)
    ledger.release("a", now=60.0)
    ledger.grant(a_lease("b", 1), now=70.0)

    assert ledger.release("b", now=80.0) == pytest.approx(1)
    ledger.grant(a_lease("c", 1), now=90.0)
    assert ledger.release("c", now=90.0) == 1
