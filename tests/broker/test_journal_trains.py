"""Trains in the journal: the same comes back as if each job had been written alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from broker.changes import Batch, Life
from broker.journal import Journal, JournalFailed
from tests.broker.stored import (
    a_job,
    a_journal,
    a_life,
    an_end,
    ids,
    job_id,
    jobs_in,
    queued,
    write,
)
from tests.broker.trains import (
    a_ride,
    a_train,
    all_of,
    an_arrival,
    one_by_one,
    rows_in,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grn" / "state.db"


A_LIFE_OF_ALL = [
    Batch(trains=[a_train(1, 6)]),
    Batch(rides=[a_ride(1, 2, 3, 4)]),
    Batch(arrivals=[an_arrival(1, 2), an_arrival(3, keep=True)]),
    Batch(expired=ids(1)),
]


def test_a_train_comes_back_job_by_job(path: Path, tmp_path: Path) -> None:
    write(path, *A_LIFE_OF_ALL)
    other = tmp_path / "other" / "state.db"
    write(other, *map(one_by_one, A_LIFE_OF_ALL))

    with a_journal(path) as together, a_journal(other) as alone:
        assert all_of(together) == all_of(alone)
        found = all_of(together)
    assert [one.new.number for one, _, _ in found] == [1, 2, 3, 4, 5, 6]
    assert [payload for _, payload, _ in found] == [None, None, b"3 ", b"4 ", b"5 ", b"6 "]
    assert [result for *_, result in found] == [b"", b"result 2 ", b"result 3 ", *[None] * 3]


def test_payloads_and_results_are_fetched_before_a_restart_too(path: Path) -> None:
    with a_journal(path) as journal:
        journal.write(A_LIFE_OF_ALL[0])
        assert journal.payload(job_id(3)) == b"3 "
        with pytest.raises(KeyError):
            journal.result(job_id(3))
        for batch in A_LIFE_OF_ALL[1:]:
            journal.write(batch)
        assert journal.payload(job_id(3)) == b"3 "
        assert journal.result(job_id(2)) == b"result 2 "
        assert journal.result(job_id(1)) == b""
        with pytest.raises(KeyError):
            journal.payload(job_id(2))


def test_a_thousand_jobs_that_come_are_placed_and_end_together_are_four_rows(
    path: Path,
) -> None:
    numbers = range(1, 1001)
    with a_journal(path) as journal:
        journal.write(Batch(trains=[a_train(1, 1000)]))
        assert rows_in(journal) == {"trains": 1}
        journal.write(Batch(rides=[a_ride(*numbers)]))
        assert rows_in(journal) == {"trains": 1, "rides": 1}
        journal.write(Batch(arrivals=[an_arrival(*numbers)]))
        assert rows_in(journal) == {"trains": 1, "arrivals": 1}
        journal.write(Batch(expired=ids(*numbers)))
        assert rows_in(journal) == {"trains": 1, "arrivals": 1, "marks": 1}
        journal.write(Batch(forgotten=ids(*numbers)))
        assert rows_in(journal) == {}


def test_rows_stay_until_the_last_of_their_jobs_is_forgotten(path: Path) -> None:
    write(
        path,
        Batch(trains=[a_train(1, 4)]),
        Batch(arrivals=[an_arrival(1, 2), an_arrival(3, 4)]),
        Batch(forgotten=ids(1, 3, 4)),
    )

    with a_journal(path) as journal:
        assert [one.new.number for one in journal.load().jobs] == [2]
        assert rows_in(journal) == {"trains": 1, "arrivals": 1, "marks": 1}
        journal.write(Batch(forgotten=ids(2)))
        assert rows_in(journal) == {}
    assert jobs_in(path) == []


def test_a_ride_goes_once_all_its_jobs_are_elsewhere(path: Path) -> None:
    with a_journal(path) as journal:
        journal.write(Batch(trains=[a_train(1, 4)], rides=[a_ride(1, 2, 3, 4)]))
        journal.write(Batch(lives=[a_life(1, attempt=1)], rides=[a_ride(2, 3, attempt=2)]))
        assert rows_in(journal) == {"trains": 1, "rides": 3}
        journal.write(Batch(ends=[an_end(4)]))
        assert rows_in(journal) == {"trains": 1, "rides": 2, "arrivals": 1}


def test_all_of_it_may_happen_in_one_turn(path: Path) -> None:
    whole = Batch(
        trains=[a_train(1, 5)],
        rides=[a_ride(1, 2, 3, 4)],
        arrivals=[an_arrival(2, 3, 4)],
        expired=ids(3),
        forgotten=ids(4),
    )

    write(path, whole)

    first, second, third, fifth = jobs_in(path)
    assert first.life
    assert first.life.state == "assigned"
    assert (second.end is not None, second.expired) == (True, False)
    assert (third.end is not None, third.expired) == (True, True)
    assert fifth.life == Life(job_id(5), 0, "queued", priority=-5)


def test_trains_and_jobs_of_their_own_come_back_in_the_order_of_their_numbers(
    path: Path,
) -> None:
    write(path, queued(6, 3), Batch(trains=[a_train(4, 2), a_train(7, 2)]), queued(1, 9))

    assert [one.new.number for one in jobs_in(path)] == [1, 3, 4, 5, 6, 7, 8, 9]


def test_jobs_that_came_alone_may_ride_and_arrive_with_others(path: Path) -> None:
    write(
        path,
        replace(queued(1, 2), trains=[a_train(3, 2)]),
        Batch(rides=[a_ride(2, 3, 1, 4)]),
        Batch(arrivals=[an_arrival(3, 1)]),
    )

    assert [one.end is not None for one in jobs_in(path)] == [True, False, True, False]
    with a_journal(path) as journal:
        assert journal.result(job_id(1)) == b"result 1 "
        assert journal.result(job_id(3)) == b"result 3 "


def test_a_job_that_comes_alone_may_ride_in_the_same_turn(path: Path) -> None:
    write(path, Batch(jobs=[a_job(1)], rides=[a_ride(1)]))

    (kept,) = jobs_in(path)
    assert kept.life
    assert kept.life.state == "assigned"


@pytest.mark.parametrize("member", [True, False])
@pytest.mark.parametrize(("attempt", "state"), [(1, "queued"), (2, "queued"), (0, "assigned")])
def test_of_a_ride_and_a_life_in_one_turn_the_later_attempt_counts(
    path: Path, member: bool, attempt: int, state: str
) -> None:
    write(path, Batch(trains=[a_train(1, 1)]) if member else queued(1))
    write(path, Batch(rides=[a_ride(1)], lives=[a_life(1, attempt=attempt)]))

    (kept,) = jobs_in(path)
    assert kept.life
    assert kept.life.state == state
    write(path, Batch(lives=[a_life(1, attempt=0)]))
    assert jobs_in(path)[0].life == a_life(1)


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (Batch(arrivals=[an_arrival(1)]), "ended before"),
        (Batch(ends=[an_end(1)]), "ended before"),
        (Batch(arrivals=[an_arrival(2, 3), an_arrival(3)]), "ended before"),
        (Batch(arrivals=[an_arrival(2, 2)]), "ended before"),
        (Batch(arrivals=[an_arrival(2)], ends=[an_end(2)]), "ended before"),
        (Batch(arrivals=[an_arrival(99)]), "never was"),
        (Batch(arrivals=[an_arrival(4, attempt=1)]), "that attempt"),
        (Batch(ends=[an_end(4, attempt=1)]), "that attempt"),
        (Batch(rides=[a_ride(1)]), "cannot live"),
        (Batch(rides=[a_ride(2, 1, 3)]), "cannot live"),
        (Batch(rides=[a_ride(99)]), "cannot live"),
        (Batch(lives=[a_life(1)]), "cannot live"),
        (Batch(lives=[a_life(6)]), "cannot live"),
        (Batch(forgotten=ids(2)), "has not ended"),
        (Batch(expired=ids(1, 2)), "has not ended"),
        (Batch(spent=ids(2)), "has not ended"),
        (Batch(trains=[a_train(3, 1)]), "not free"),
        (Batch(trains=[replace(a_train(9, 2), job_ids=(job_id(20), job_id(21)))]), "not free"),
        (Batch(trains=[replace(a_train(20, 1), job_ids=(job_id(1),))]), "here already"),
        (Batch(trains=[replace(a_train(20, 1), job_ids=(job_id(10),))]), "here already"),
        (
            Batch(trains=[replace(a_train(20, 2), job_ids=(job_id(20), job_id(20)))]),
            "here already",
        ),
        (replace(queued(20), trains=[replace(a_train(21, 1), job_ids=(job_id(20),))]), "here"),
        (Batch(trains=[a_train(20, 2)], jobs=[a_job(21)]), "here already"),
        (
            Batch(jobs=[replace(a_job(30), number=3)], lives=[a_life(30)]),
            "not free",
        ),
    ],
)
def test_what_breaks_a_promise_is_refused_and_changes_nothing(
    path: Path, batch: Batch, why: str
) -> None:
    write(
        path,
        replace(queued(10), trains=[a_train(1, 6)]),
        Batch(rides=[a_ride(4, attempt=2)], arrivals=[an_arrival(1, 6)], forgotten=ids(6)),
    )
    before = jobs_in(path)

    for loaded in (False, True):
        with a_journal(path) as journal:
            if loaded:
                assert list(journal.load().jobs) == before
            with pytest.raises(JournalFailed, match=why):
                journal.write(batch)

    assert jobs_in(path) == before


def test_what_was_forgotten_may_be_forgotten_again(path: Path) -> None:
    write(path, Batch(trains=[a_train(1, 2)], arrivals=[an_arrival(1)]))
    write(path, Batch(forgotten=ids(1, 1), expired=ids(1)))
    write(path, Batch(forgotten=ids(1), expired=ids(1), spent=ids(1)))

    assert [one.new.number for one in jobs_in(path)] == [2]


def test_long_payloads_are_kept_in_several_rows(path: Path) -> None:
    payload = bytes(300 << 10)
    with a_journal(path) as journal:
        journal.write(Batch(trains=[a_train(1, 8, payload=payload)]))
        journal.write(Batch(arrivals=[an_arrival(*range(1, 8), payload=payload)]))
        assert rows_in(journal) == {"trains": 3, "arrivals": 3, "marks": 3}

    with a_journal(path) as journal:
        found = all_of(journal)
    assert [len(payload or b"") for _, payload, _ in found[-1:]] == [2 + len(payload)]
    assert [result for *_, result in found[:7]] == [
        b"result %d %s" % (one, payload) for one in range(1, 8)
    ]


def test_long_bytes_that_nobody_can_ask_for_leave_the_disk(path: Path) -> None:
    def bytes_in(journal: Journal) -> int:
        sizes = (
            journal._connection.execute(f"SELECT total(length(payloads)) FROM {table}")
            for table in ("trains", "arrivals")
        )
        return sum(int(one.fetchone()[0]) for one in sizes)

    payload = bytes(100 << 10)
    write(path, Batch(trains=[a_train(1, 2, payload=payload)]))
    digests = [one.new.digest for one in jobs_in(path)]
    with a_journal(path) as journal:
        journal.write(Batch(arrivals=[an_arrival(1, payload=payload)]))
        assert bytes_in(journal) > 3 * len(payload)
        journal.write(Batch(arrivals=[an_arrival(2, payload=payload)]))
        assert 2 * len(payload) < bytes_in(journal) < 3 * len(payload)
        journal.write(Batch(expired=ids(1)))
    with a_journal(path) as journal:
        journal.write(Batch(expired=ids(2)))
        assert bytes_in(journal) < len(payload)

    assert [one.new.digest for one in jobs_in(path)] == digests
    assert [one.expired for one in jobs_in(path)] == [True, True]
