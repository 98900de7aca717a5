from typing import Any

import pytest

from broker.ledger import Lease, Ledger
from tests.builders import MIB, a_device


def a_ledger(total: int = 1000, **changes: Any) -> Ledger:
    return Ledger(a_device(total=total), **changes)


def a_lease(job: str = "a", lease: int = 300, **changes: Any) -> Lease:
    return Lease(job, 1, lease * MIB, "fit", **changes)


def free(ledger: Ledger) -> int:
    return ledger.free_bytes() // MIB


def test_a_grant_takes_bytes_and_a_release_gives_them_back() -> None:
    ledger = a_ledger()

    ledger.grant(a_lease(lease=300))
    assert free(ledger) == 700

    ledger.release("a")
    assert free(ledger) == 1000


def test_use_counts_only_where_it_passes_the_promise() -> None:
    ledger = a_ledger()
    ledger.grant(a_lease(lease=300))

    ledger.leases["a"].used_bytes = 200 * MIB
    assert free(ledger) == 700

    ledger.leases["a"].used_bytes = 450 * MIB
    assert free(ledger) == 550


def test_strangers_and_idle_processes_take_room() -> None:
    assert free(a_ledger(foreign_bytes=200 * MIB, idle_bytes=30 * MIB)) == 770


def test_free_bytes_can_leave_jobs_out() -> None:
    ledger = a_ledger()
    ledger.grant(a_lease("a", 300))
    ledger.grant(a_lease("b", 200))

    assert ledger.free_bytes({"a"}) == 800 * MIB
    assert ledger.others({"a"}) == 1
    assert ledger.others() == 2


def test_a_promise_beyond_what_is_free_is_a_bug() -> None:
    ledger = a_ledger(foreign_bytes=500 * MIB)
    ledger.grant(a_lease("a", 400))

    with pytest.raises(AssertionError, match="promised"):
        ledger.grant(a_lease("b", 101))
    assert "b" not in ledger.leases


def test_a_second_lease_for_one_job_is_a_bug() -> None:
    ledger = a_ledger()
    ledger.grant(a_lease("a", 1))

    with pytest.raises(AssertionError, match="already"):
        ledger.grant(a_lease("a", 1))


def test_what_ancestors_hold_may_be_promised_again_where_it_is_uncounted() -> None:
    ledger = a_ledger()
    ledger.grant(a_lease("parent", 900))

    ledger.grant(a_lease("child", 800, uncounted=frozenset({"parent"})))

    assert free(ledger) == -700


def test_releasing_a_lease_that_does_not_exist_is_a_bug() -> None:
    with pytest.raises(KeyError):
        a_ledger().release("a")


def test_the_measuring_lease_is_found() -> None:
    ledger = a_ledger()
    ledger.grant(a_lease("a", 100))
    assert ledger.measuring is None

    ledger.grant(a_lease("b", 100, measuring=True))
    assert ledger.measuring is ledger.leases["b"]


def test_a_waiting_parent_keeps_what_it_uses_and_is_measured_no_longer() -> None:
    ledger = a_ledger()
    ledger.grant(a_lease("a", 1000, measuring=True))
    ledger.leases["a"].used_bytes = 250 * MIB

    ledger.shrink_to_use("a")

    assert free(ledger) == 750
    assert ledger.measuring is None
