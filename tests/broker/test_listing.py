"""What is kept, what is listed, and messages of bounded size."""

from typing import Any

import pytest

from broker import retention as book_module
from grn_zmq import wire
from grn_zmq.codec import MAX_HEADER_BYTES
from grn_zmq.records import Blob, JobSpec
from tests.broker.machine import (
    CLIENT,
    Machine,
    worker,
)
from tests.builders import a_hello, a_spec, an_id

OTHER = b"other client"
FUNCTION, CONTEXT = Blob("f" * 64, b"function"), Blob("c" * 64, b"context")


def a_machine_with_two_clients(*totals: int) -> Machine:
    machine = Machine(*(totals or (1000,)))
    machine.say(OTHER, a_hello(901))
    return machine


def shipped(number: int, **changes: Any) -> JobSpec:
    return a_spec(number, function=FUNCTION.digest, context=CONTEXT.digest, **changes)


def test_old_results_are_forgotten_after_a_week() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1)
    machine.wait(book_module.KEEP_RESULT_S - 10)
    machine.submit(a_spec(2))
    assert len(machine.core.book.jobs) == 2

    machine.wait(11)

    assert set(machine.core.book.jobs) == {an_id(2)}
    machine.say(b"new connection", a_hello())
    assert machine.sent(wire.Ended) == []


def test_of_many_ended_jobs_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book_module, "KEEP_ENDED", 3)
    machine = Machine(1000)
    for number in range(1, 6):
        machine.submit(a_spec(number))
        machine.run(number)

    machine.wait(1.0)

    assert set(machine.core.book.jobs) == {an_id(3), an_id(4), an_id(5)}


def test_lists_come_in_pages_and_leave_out_what_has_ended() -> None:
    machine = Machine(1000)
    machine.submit(*map(a_spec, range(1, 251)))
    machine.run(1)

    machine.say(CLIENT, wire.AskJobs(0, ended=False))
    (first,) = machine.sent(wire.JobsAre, CLIENT)
    machine.say(CLIENT, wire.AskJobs(first.rows[-1].number, ended=False))
    (second,) = machine.sent(wire.JobsAre, CLIENT)

    numbers = [row.number for row in (*first.rows, *second.rows)]
    assert numbers == list(range(2, 251))
    assert (first.more, second.more) == (True, False)


def test_a_row_shows_where_a_job_stands() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    machine.use(0, j1=300)

    row = machine.row(1)

    assert (row.state, row.device, row.attempt, row.measuring) == ("running", "host:0", 1, True)
    assert (row.used_bytes, row.peak_bytes, row.lease_bytes) == (
        300 << 20,
        300 << 20,
        1000 << 20,
    )
    assert (row.wait_s, row.run_s, row.client_pid) == (1.0, 2.0, 900)


def test_the_row_of_a_failed_job_says_why() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1, outcome="failed", error_type="ValueError", error_text="no such layer")

    assert machine.why(1) == "ValueError: no such layer"


def test_the_row_of_a_job_that_exited_says_how() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1, outcome="failed", error_type="JobExited", error_text="exited with status 3")

    assert machine.why(1) == "exited with status 3"


def test_lists_of_jobs_with_long_names_still_fit_their_messages() -> None:
    machine = Machine()
    long = "✓" * 4096
    machine.submit(*(a_spec(number, name=long, job_type=long) for number in range(1, 41)))
    machine.submit(*(a_spec(number, name=long, job_type=long) for number in range(41, 81)))

    machine.say(CLIENT, wire.AskJobs(0, ended=True))
    (answer,) = machine.sent(wire.JobsAre)

    assert answer.more
    assert len(wire.encode(answer)[0]) <= MAX_HEADER_BYTES
    assert [row.number for row in answer.rows] == list(range(1, len(answer.rows) + 1))


def test_assignments_with_long_texts_still_fit_their_messages() -> None:
    machine = Machine(1000)
    machine.know(1)
    machine.use(0, foreign=1000)
    for number in range(1, 91, 10):
        machine.submit(*(a_spec(n, stdin="✓" * 8000) for n in range(number, number + 10)))

    machine.use(0, foreign=0)

    assigns = machine.sent(wire.Assign, worker(0))
    assert [len(wire.encode(one)[0]) <= MAX_HEADER_BYTES for one in assigns] == [True] * len(
        assigns
    )
    placed = [run.job_id for one in assigns for run in one.runs]
    assert placed == [an_id(number) for number in range(1, 91)]
