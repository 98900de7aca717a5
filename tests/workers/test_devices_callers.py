"""Inline jobs have what their caller took since they began."""

from workers.devices.callers import Callers
from workers.devices.device import Sample, Tree

MIB = 1 << 20


def found(foreign: int = 0, **by_tree: int) -> Sample:
    return Sample(
        used_bytes=(foreign + sum(by_tree.values())) * MIB,
        foreign_bytes=foreign * MIB,
        by_tree={key: mib * MIB for key, mib in by_tree.items()},
        utilisation=0.0,
        seen=frozenset(key for key, mib in by_tree.items() if mib),
    )


def caller(pid: int = 7) -> Tree:
    return Tree(pid, pid, counts_root=True)


def mib_of(divided: Sample) -> dict[str, int]:
    return {key: count // MIB for key, count in divided.by_tree.items()}


def test_r45_what_a_caller_held_before_is_foreign() -> None:
    callers, trees = Callers(), {"job": caller()}

    before = callers.divide(found(job=500, foreign=100), trees)
    after = callers.divide(found(job=510, foreign=100), trees)

    assert (mib_of(before), before.foreign_bytes) == ({"job": 0}, 600 * MIB)
    assert (mib_of(after), after.foreign_bytes) == ({"job": 10}, 600 * MIB)


def test_the_next_job_of_a_caller_begins_where_the_last_ended() -> None:
    callers = Callers()
    callers.divide(found(first=0), {"first": caller()})
    assert mib_of(callers.divide(found(first=400), {"first": caller()})) == {"first": 400}

    callers.divide(found(second=400), {"second": caller()})

    assert mib_of(callers.divide(found(second=450), {"second": caller()})) == {"second": 50}


def test_r39_jobs_inside_each_other_share_the_memory_of_their_caller() -> None:
    callers, trees = Callers(), {"outer": caller(), "inner": caller()}
    callers.divide(found(outer=100), {"outer": caller()})
    callers.divide(found(outer=300), {"outer": caller()})
    callers.divide(found(outer=0, inner=300), trees)

    divided = callers.divide(found(outer=0, inner=350), trees)

    assert mib_of(divided) == {"outer": 200, "inner": 50}
    assert divided.foreign_bytes == 100 * MIB
    assert divided.seen == {"outer", "inner"}


def test_memory_given_back_is_nobodys() -> None:
    callers, trees = Callers(), {"job": caller()}
    callers.divide(found(job=500), trees)

    assert mib_of(callers.divide(found(job=200), trees)) == {"job": 0}


def test_shipped_jobs_keep_all_they_have() -> None:
    trees = {"shipped": Tree(3, 4), "job": caller()}

    assert mib_of(Callers().divide(found(shipped=300, job=0), trees)) == {
        "shipped": 300,
        "job": 0,
    }
