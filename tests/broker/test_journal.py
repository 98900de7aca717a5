"""The journal: what was written is there after a restart, to the last field, and once."""

import os
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from pathlib import Path

import msgpack
import pytest

from broker.changes import Batch, Death, KeptSession, Life
from broker.journal import Journal, JournalFailed
from broker.rows import BadRow, Form, job_of, job_row
from grn_zmq.errors import StateDamaged
from grn_zmq.processes import process_born
from grn_zmq.records import Blob
from tests.broker.stored import (
    SESSION,
    a_bit_of_all,
    a_job,
    a_journal,
    a_life,
    a_spec,
    an_end,
    change,
    everything,
    job_id,
    jobs_in,
    queued,
    write,
)

LATER_BOOT = "00000000-0000-4000-8000-000000000002"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grn" / "state.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with a_journal(path) as opened:
        yield opened


def test_a_job_comes_back_as_it_was_but_for_its_payload(path: Path) -> None:
    new = a_job(7)
    life = Life(
        job_id(7), 2, "assigned", "w" * 32, "i" * 32, "b" * 36, "cuda:0", 1 << 30,
        True, True, True, True, True, True, True, 3, 4, 5, 6, 7, 8, 9, True,
        ((1, "host:0", "lost", 2, 3, 0.5),), True, ("w" * 32,), {"cpu": {"0": "1/3"}},
    )  # fmt: skip
    write(path, Batch(jobs=[new], lives=[life]))

    (kept,) = jobs_in(path)

    assert kept.new == replace(new, spec=replace(new.spec, payload=b""))
    assert kept.life == life
    assert kept.end is None
    for value in (new.spec, life):  # none came back by its default
        assert all(
            getattr(value, one.name) != one.default
            for one in fields(value)
            if one.default is not MISSING and one.name != "share"  # not with several devices
        )


def test_the_payload_of_a_live_job_is_fetched(path: Path) -> None:
    write(path, queued(1, 2), Batch(jobs=[a_job(3, payload=b"")], lives=[a_life(3)]))

    with a_journal(path) as journal:
        assert [journal.payload(job_id(one)) for one in (1, 2, 3)] == [
            b"arguments",
            b"arguments",
            b"",
        ]
        with pytest.raises(KeyError):
            journal.payload(job_id(4))


def test_an_end_comes_back_as_it_was_and_its_result_is_fetched(path: Path) -> None:
    end = an_end(1)
    write(path, queued(1), Batch(ends=[end]))

    (kept,) = jobs_in(path)

    assert kept.life is None
    assert kept.end == replace(end, outcome=replace(end.outcome, payload=b""))
    with a_journal(path) as journal:
        assert journal.result(job_id(1)) == b"result 1"
        with pytest.raises(KeyError):  # it lives no longer: its payload is let go
            journal.payload(job_id(1))


def test_an_end_may_keep_the_payload_until_that_is_spent(path: Path) -> None:
    end = replace(an_end(1), keeps_payload=True)
    write(path, queued(1), Batch(ends=[end]))

    (kept,) = jobs_in(path)
    assert kept.payload_bytes == len(b"arguments")
    with a_journal(path) as journal:
        assert journal.payload(job_id(1)) == b"arguments"
    write(path, Batch(spent=[job_id(1)]))

    (kept,) = jobs_in(path)
    assert kept.payload_bytes == 0
    with a_journal(path) as journal, pytest.raises(KeyError):
        journal.payload(job_id(1))


def test_that_the_queue_is_paused_is_kept(path: Path) -> None:
    write(path, Batch(paused=True))
    with a_journal(path) as journal:
        assert journal.load().paused

    write(path, Batch(paused=False))
    with a_journal(path) as journal:
        assert not journal.load().paused


def test_jobs_come_back_in_the_order_of_their_numbers(path: Path) -> None:
    write(path, queued(1, 2, 3), Batch(ends=[an_end(2)]), queued(4))

    assert [one.new.number for one in jobs_in(path)] == [1, 2, 3, 4]


def test_of_one_turn_the_last_state_of_a_life_counts(path: Path) -> None:
    write(path, queued(1), Batch(lives=[a_life(1, attempt=1), a_life(1, attempt=2)]))

    (kept,) = jobs_in(path)

    assert kept.life == a_life(1, attempt=2)


def test_a_job_may_come_and_end_in_one_turn(path: Path) -> None:
    batch = replace(queued(1), ends=[an_end(1)])

    write(path, batch)

    (kept,) = jobs_in(path)
    assert kept.end
    assert kept.life is None


@pytest.mark.parametrize(
    "second",
    [
        Batch(ends=[an_end(1)]),
        Batch(ends=[an_end(1, outcome="succeeded")]),
        Batch(lives=[a_life(1)]),
        queued(1),
    ],
)
def test_promise_3_an_outcome_is_recorded_once_and_never_changes(
    path: Path, second: Batch
) -> None:
    write(path, queued(1, 2), Batch(ends=[an_end(1)]))
    before = jobs_in(path)

    with a_journal(path) as journal, pytest.raises(JournalFailed):
        journal.write(second)

    assert jobs_in(path) == before


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (Batch(ends=[an_end(1), an_end(1)]), "not alive"),
        (replace(queued(3), ends=[an_end(3), an_end(3)]), "UNIQUE"),
        (Batch(ends=[an_end(9)]), "never was"),
        (Batch(lives=[a_life(9)]), "never was"),
        (Batch(ends=[an_end(1, attempt=1)]), "that attempt"),
        (Batch(forgotten=[job_id(1)]), "has not ended"),
        (Batch(expired=[job_id(1)]), "has not ended"),
        (Batch(jobs=[a_job(3)]), "neither alive nor ended"),
        (Batch(jobs=[replace(a_job(5), number=2)], lives=[a_life(5)]), "UNIQUE"),
    ],
)
def test_what_breaks_a_promise_is_refused_and_changes_nothing(
    path: Path, batch: Batch, why: str
) -> None:
    write(path, queued(1, 2), Batch(lives=[a_life(1, attempt=2)]))
    before = jobs_in(path)

    with a_journal(path) as journal, pytest.raises(JournalFailed, match=why):
        journal.write(replace(batch, blobs=[Blob("d", b"never")]))

    assert jobs_in(path) == before


def test_an_end_that_the_disk_does_not_know_as_alive_is_refused(path: Path) -> None:
    with a_journal(path) as journal:
        journal.write(queued(1))
        change(path, "DELETE FROM lives")

        with pytest.raises(JournalFailed, match="not alive"):
            journal.write(Batch(ends=[an_end(1)]))


def test_promise_10_a_result_is_let_go_and_how_the_job_ended_stays(path: Path) -> None:
    write(path, queued(1, 2), Batch(ends=[an_end(1), an_end(2)]), Batch(expired=[job_id(1)]))

    first, second = jobs_in(path)

    assert (first.expired, second.expired) == (True, False)
    assert first.end
    with a_journal(path) as journal:
        assert [journal.result(job_id(one)) for one in (1, 2)] == [b"", b"result 2"]


def test_a_forgotten_job_is_gone_and_its_number_is_remembered(path: Path) -> None:
    write(path, queued(1, 2), Batch(ends=[an_end(2)]), Batch(forgotten=[job_id(2)]))

    with a_journal(path) as journal:
        kept = journal.load()
        assert [one.new.number for one in kept.jobs] == [1]
        assert kept.last_number == 2


def test_jobs_may_come_in_another_order_than_their_numbers(path: Path) -> None:
    write(path, queued(3, 2), queued(1))

    with a_journal(path) as journal:
        kept = journal.load()
        assert [one.new.number for one in kept.jobs] == [1, 2, 3]
        assert kept.last_number == 3


def test_it_is_known_how_many_bytes_stay_in_the_journal(path: Path) -> None:
    write(path, queued(1, 2, 3), Batch(ends=[an_end(2), an_end(3)]), Batch(expired=[job_id(3)]))

    sizes = [(one.payload_bytes, one.result_bytes) for one in jobs_in(path)]

    assert sizes == [(len(b"arguments"), 0), (0, len(b"result 2")), (0, 0)]


def test_a_job_may_come_end_and_be_forgotten_in_one_turn(path: Path) -> None:
    write(path, replace(queued(1, 2), ends=[an_end(1)], forgotten=[job_id(1)]))

    assert [one.new.number for one in jobs_in(path)] == [2]


def test_what_was_forgotten_may_be_forgotten_again(path: Path) -> None:
    write(path, Batch(forgotten=[job_id(1)], expired=[job_id(2)]))

    assert jobs_in(path) == []


def test_blobs_come_and_go_and_one_that_came_back_in_the_same_turn_stays(path: Path) -> None:
    first, second = Blob("a" * 64, b"first"), Blob("b" * 64, b"second" * 10_000)
    write(path, Batch(blobs=[first, second]))
    write(path, Batch(lost_blobs=[first.digest, second.digest], blobs=[second]))

    with a_journal(path) as journal:
        assert journal.load().blobs == [second]


def test_sessions_come_and_go_and_it_is_known_when_their_process_was_born(path: Path) -> None:
    own, gone = KeptSession(SESSION, os.getpid()), KeptSession("ab" * 16, 2**22 + 1)
    write(path, Batch(sessions=[own, gone, KeptSession("cd" * 16, 1)]))
    write(path, Batch(lost_sessions=["cd" * 16]))

    with a_journal(path) as journal:
        assert journal.load().sessions == [own, gone]
        assert journal.born(SESSION) == process_born(os.getpid()) > 0
        assert journal.born("ab" * 16) == journal.born("cd" * 16) == 0


def test_deaths_are_kept_in_their_order_for_two_days(path: Path) -> None:
    day = 24 * 3600.0
    with a_journal(path, now=5 * day) as journal:
        old, young = Death("a", 1.0, 2.9 * day), Death("b", 0.5, 4 * day)
        journal.write(Batch(deaths=[old, young, young]))
        assert journal.load().deaths == [young, young]


def test_every_start_is_a_new_epoch_of_the_same_instance(path: Path) -> None:
    seen = []
    for _ in range(3):
        with a_journal(path) as journal:
            seen.append((journal.epoch, journal.load().epoch, journal.instance))

    instance = seen[0][2]
    assert seen == [(1, 1, instance), (2, 2, instance), (3, 3, instance)]


def test_a_turn_in_which_nothing_changed_is_not_written(journal: Journal, path: Path) -> None:
    before = path.with_name("state.db-wal").stat().st_size

    journal.write(Batch())

    assert path.with_name("state.db-wal").stat().st_size == before


def test_only_turns_with_durable_jobs_wait_for_the_disk(journal: Journal) -> None:
    levels = []
    for number, durable in enumerate((False, True, False), start=1):
        journal.write(replace(queued(number), durable=durable))
        (level,) = journal._connection.execute("PRAGMA synchronous").fetchone()
        levels.append(level)

    assert levels == [1, 2, 1]


def test_all_of_it_is_there_after_a_restart(path: Path) -> None:
    with a_journal(path) as journal:
        for batch in a_bit_of_all():
            journal.write(batch)
        before = everything(journal)

    with a_journal(path) as journal:
        assert everything(journal) == replace(before, epoch=2)
    assert [one.new.number for one in before.jobs] == list(range(1, 13))
    assert [one.end is not None for one in before.jobs] == [True] * 6 + [False] * 6


def test_times_of_this_boot_are_kept_whatever_the_clock_on_the_wall_does(path: Path) -> None:
    with a_journal(path) as journal:
        journal.write(Batch(jobs=[a_job(1, queued_at=900.0)], lives=[a_life(1)]))
        journal._wall = lambda: 1e9
        journal.write(Batch(jobs=[a_job(2, queued_at=950.0)], ends=[an_end(2, 0, 960.0)]))

    first, second = jobs_in(path, now=1100.0)

    assert (first.new.queued_at, second.new.queued_at) == (900.0, 950.0)
    assert second.end
    assert second.end.ended_at == 960.0


def test_times_of_another_boot_are_told_by_the_clock_on_the_wall(path: Path) -> None:
    # The helper's wall shows what its monotonic clock does; here only 50 s pass on the wall.
    write(path, Batch(jobs=[a_job(1, queued_at=900.0)], ends=[an_end(1, 0, 950.0)]))

    with a_journal(path, LATER_BOOT, now=5.0) as journal:
        journal._wall = lambda: 1050.0
        (kept,) = journal.load().jobs

    assert kept.new.queued_at == 5.0 - 150.0
    assert kept.end
    assert kept.end.ended_at == 5.0 - 100.0


@pytest.mark.parametrize("wall", [0.0, 2000.0, 1e12])
def test_who_came_first_stays_first_whatever_the_clock_on_the_wall_did(
    path: Path, wall: float
) -> None:
    with a_journal(path) as journal:
        for number, queued_at, shown in (
            (1, 100.0, 5000.0),
            (2, 200.0, 0.0),
            (3, 300.0, 100.0),
        ):
            journal._wall = lambda shown=shown: shown  # type: ignore[misc]
            one = a_job(number, queued_at=queued_at)
            journal.write(Batch(jobs=[one], lives=[a_life(number)]))
    with a_journal(path, LATER_BOOT, now=50.0) as journal:
        journal._wall = lambda: wall
        journal.write(Batch(jobs=[a_job(4, queued_at=40.0)], lives=[a_life(4)]))

    with a_journal(path, LATER_BOOT, now=60.0) as journal:
        journal._wall = lambda: wall
        times = [one.new.queued_at for one in journal.load().jobs]

    assert times == sorted(times)
    assert times[-1] == 40.0
    assert all(abs(one) < 1e9 for one in times)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE jobs SET session = 'other' WHERE number = 3",
        "UPDATE jobs SET queued_at = queued_at + 1 WHERE number = 3",
        "UPDATE lives SET attempt = 9 WHERE number = 8",
        "UPDATE lives SET facts = x'90' WHERE number = 8",
        "UPDATE outcomes SET outcome = 'succeeded' WHERE number = 3",
        "UPDATE outcomes SET expired = 1 WHERE number = 3",
        "UPDATE outcomes SET expired = 0 WHERE number = 2",
        "UPDATE blobs SET data = x'00'",
        "UPDATE sessions SET pid = 2",
        "UPDATE deaths SET blame = 1",
        "DELETE FROM lives WHERE number = 8",
        "DELETE FROM outcomes WHERE number = 3",
        "DELETE FROM payloads WHERE number = 8",
        "DELETE FROM results WHERE number = 3",
        "DELETE FROM jobs WHERE number = 8",
        "DELETE FROM jobs WHERE number = 8; DELETE FROM lives WHERE number = 8",
        "INSERT INTO lives SELECT 3, attempt, state, facts, crc FROM lives LIMIT 1",
        "UPDATE payloads SET data = x'00' WHERE number = 8",
    ],
)
def test_a_row_that_is_not_what_was_written_is_noticed(path: Path, damage: str) -> None:
    write(path, *a_bit_of_all())
    change(path, *damage.split("; "))

    with a_journal(path) as journal, pytest.raises(StateDamaged, match=r"state\.db"):
        list(journal.load().jobs)


def test_bytes_that_are_not_what_was_written_are_not_handed_out(path: Path) -> None:
    write(path, *a_bit_of_all())
    for table in ("payloads", "results"):
        change(path, f"UPDATE {table} SET data = CAST(zeroblob(length(data)) AS BLOB)")

    with a_journal(path) as journal:
        assert len(list(journal.load().jobs)) == 12
        with pytest.raises(StateDamaged, match="checksum"):
            journal.payload(job_id(8))
        with pytest.raises(StateDamaged, match="checksum"):
            journal.result(job_id(3))


def test_what_was_written_before_a_field_was_added_is_read_with_its_default() -> None:
    form = Form(Life, "job_id")
    before = msgpack.unpackb(form.pack(a_life(1, attempt=3, priority=5)))

    found = form.unpack(msgpack.packb(before[:-6]), job_id(1))

    assert found == a_life(1, attempt=3)


def test_a_job_written_before_it_could_have_a_title_is_read() -> None:
    new = replace(
        a_job(7),
        spec=a_spec(
            7, title="", variables={}, after=(), after_any=(), again_of="", resources={}
        ),
    )
    *row, _ = job_row(new, 0, 0.0, 1)
    row[-1] = msgpack.packb(msgpack.unpackb(row[-1])[:3])

    found = job_of(tuple(row), new.queued_at)

    assert found == replace(new, spec=replace(new.spec, payload=b""))


@pytest.mark.parametrize("data", [msgpack.packb([1]), msgpack.packb([1] * 99)])
def test_fields_that_cannot_be_missing_and_unknown_ones_are_noticed(data: bytes) -> None:
    with pytest.raises(BadRow, match="fields"):
        Form(Life, "job_id").unpack(data, job_id(1))
