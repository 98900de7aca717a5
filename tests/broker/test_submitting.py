"""What clients may ask, and what they are told."""

from typing import Any

import pytest

from broker import book as book_module
from broker.effects import Watch
from grn_zmq import wire
from grn_zmq.codec import MAX_HEADER_BYTES
from grn_zmq.records import Blob, JobSpec, Numbered
from tests.broker.machine import (
    CLIENT,
    EPOCH,
    SESSION,
    Machine,
    an_outcome_now,
    sent,
    told,
    worker,
)
from tests.builders import a_device, a_greet, a_hello, a_report, a_result, a_spec, an_id

OTHER = b"other client"
FUNCTION, CONTEXT = Blob("f" * 64, b"function"), Blob("c" * 64, b"context")


def a_machine_with_two_clients(*totals: int) -> Machine:
    machine = Machine(*(totals or (1000,)))
    machine.say(OTHER, a_hello(901))
    return machine


def shipped(number: int, **changes: Any) -> JobSpec:
    return a_spec(number, function=FUNCTION.digest, context=CONTEXT.digest, **changes)


def test_a_client_is_welcomed_and_watched() -> None:
    machine = Machine()

    effects = machine.say(OTHER, a_hello(901))

    assert Watch(an_id(901), 901) in effects
    assert machine.sent(wire.Welcome, OTHER) == [wire.Welcome(wire.PROTOCOL, EPOCH, 77)]


@pytest.mark.parametrize("greeting", [a_hello(901, protocol=99), a_greet(protocol=99)])
def test_another_version_of_the_protocol_is_refused(greeting: wire.Message) -> None:
    machine = Machine()

    machine.say(OTHER, greeting)

    (refused,) = machine.sent(wire.Refused, OTHER)
    assert refused.reason == "version"
    assert refused.text == "this broker speaks protocol 1, you speak 99"
    machine.say(OTHER, wire.AskDevices())
    assert machine.sent(wire.Refused)[0].reason == "greet-first"


@pytest.mark.parametrize(
    "message",
    [wire.AskDevices(), wire.Submit((a_spec(1),)), a_report(), wire.Finished(1, (a_result(),))],
)
def test_a_stranger_must_greet_first(message: wire.Message) -> None:
    machine = Machine(1000)

    machine.say(b"stranger", message)

    assert [one.reason for one in machine.sent(wire.Refused, b"stranger")] == ["greet-first"]
    assert machine.core.book.jobs == {}


@pytest.mark.parametrize(
    "message",
    [
        wire.Finished(EPOCH, (a_result(1),)),
        wire.Started(()),
        a_report(foreign_bytes=1),
        wire.Output(an_id(1), 1, "stdout", b"x"),
        wire.Want(()),
        wire.Welcome(1, 1, 1),
        wire.Assign(EPOCH, ()),
    ],
)
def test_r106_messages_of_workers_are_refused_from_a_client(message: wire.Message) -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))

    machine.say(CLIENT, message)

    assert [one.reason for one in machine.sent(wire.Refused, CLIENT)] == ["bad-request"]
    assert machine.states(1) == ["assigned"]
    assert machine.ledger().foreign_bytes == 0


@pytest.mark.parametrize(
    "message", [wire.Submit((a_spec(1),)), wire.Cancel((), interrupt=False), wire.AskDevices()]
)
def test_messages_of_clients_are_refused_from_a_worker(message: wire.Message) -> None:
    machine = Machine(1000)

    machine.say(worker(0), message)

    assert [one.reason for one in machine.sent(wire.Refused, worker(0))] == ["bad-request"]
    assert machine.core.book.jobs == {}


def test_accepted_jobs_are_numbered_in_order() -> None:
    machine = Machine()

    machine.submit(a_spec(5), a_spec(3))

    assert machine.sent(wire.Accepted, CLIENT) == [
        wire.Accepted((Numbered(an_id(5), 1), Numbered(an_id(3), 2)))
    ]


def test_a_repeated_submission_is_one_job() -> None:
    machine = Machine(1000)
    for _ in range(3):
        machine.submit(a_spec(1), a_spec(1))
        answer = wire.Accepted((Numbered(an_id(1), 1),) * 2)
        assert machine.sent(wire.Accepted) == [answer]
    machine.run(1)

    machine.submit(a_spec(1))

    assert machine.sent(wire.Accepted) == [wire.Accepted((Numbered(an_id(1), 1),))]
    assert len(machine.runs()) == 1
    assert len(machine.core.book.jobs) == 1


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("change", [{"payload": b"other"}, {"name": "other"}, {"by": {"n": 1}}])
def test_an_id_that_is_taken_by_another_job_is_refused(
    change: dict[str, Any], ended: bool
) -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    if ended:
        machine.run(1)

    machine.submit(a_spec(1, **change), a_spec(2))

    (refused,) = machine.sent(wire.Refused, CLIENT)
    assert (refused.reason, refused.job_ids) == ("id-conflict", (an_id(1),))
    assert machine.sent(wire.Accepted) == [wire.Accepted((Numbered(an_id(2), 2),))]
    assert machine.job(1).spec.name == "fit"


def test_the_arguments_of_an_ended_job_are_not_kept() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, payload=b"x" * 1000))

    machine.run(1)

    assert machine.job(1).spec.payload == b""


def test_a_job_waits_for_its_blobs_and_is_accepted_when_they_are_here() -> None:
    machine = Machine(1000)
    machine.submit(shipped(1))
    assert machine.sent(wire.Want, CLIENT) == [wire.Want((CONTEXT.digest, FUNCTION.digest))]
    assert machine.sent(wire.Accepted) == []
    assert machine.why(1) == "waiting for its function to arrive"

    machine.say(CLIENT, wire.Blobs((FUNCTION,)))
    assert machine.placed(1) == [False]

    machine.say(CLIENT, wire.Blobs((CONTEXT,)))
    assert machine.sent(wire.Accepted, CLIENT) == [wire.Accepted((Numbered(an_id(1), 1),))]
    assert machine.placed(1) == [True]


def test_blobs_reach_the_worker_once_and_before_the_run() -> None:
    machine = Machine(1000)
    machine.say(CLIENT, wire.Blobs((FUNCTION, CONTEXT)))
    machine.submit(shipped(1))
    to_worker = [type(one) for one in sent(machine.effects, object, worker(0))]
    assert to_worker == [wire.Blobs, wire.Blobs, wire.Assign]
    machine.run(1)

    machine.submit(shipped(2))

    assert machine.sent(wire.Blobs, worker(0)) == []


def test_a_worker_that_lost_a_blob_is_given_it_again() -> None:
    machine = Machine(1000)
    machine.say(CLIENT, wire.Blobs((FUNCTION, CONTEXT)))
    machine.submit(shipped(1))

    machine.say(worker(0), wire.Want((FUNCTION.digest, "unknown")))

    given = [one.blobs for one in machine.sent(wire.Blobs, worker(0))]
    assert [blob for blobs in given for blob in blobs] == [FUNCTION]


def test_a_blob_that_another_client_sends_lets_the_owner_of_the_job_know() -> None:
    machine = a_machine_with_two_clients()
    machine.submit(a_spec(1, function=FUNCTION.digest, detached=True))

    machine.say(OTHER, wire.Blobs((FUNCTION,)))

    assert machine.sent(wire.Accepted, CLIENT) == [wire.Accepted((Numbered(an_id(1), 1),))]
    assert machine.sent(wire.Accepted, OTHER) == []


def test_blobs_go_when_neither_client_nor_job_needs_them() -> None:
    machine = Machine(1000)
    machine.say(CLIENT, wire.Blobs((FUNCTION, CONTEXT)))
    machine.submit(shipped(1, detached=True))

    machine.lose(SESSION)
    assert len(machine.core.book.blobs) == 2

    machine.run(1)
    assert len(machine.core.book.blobs) == 0


def test_the_client_is_told_start_output_and_end() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))

    machine.start(1)
    assert [one.runs[0].device for one in machine.sent(wire.Started, CLIENT)] == ["host:0"]

    said = wire.Output(an_id(1), 1, "stderr", b"loss 0.1")
    machine.say(worker(0), said)
    assert machine.sent(wire.Output, CLIENT) == [said]

    machine.finish(1, payload=b"42")
    (ended,) = machine.sent(wire.Ended, CLIENT)
    assert told(ended.outcomes[0]) == an_outcome_now(1, payload=b"42")
    assert (ended.outcomes[0].wait_s, ended.outcomes[0].run_s) == (1.0, 1.0)


def test_output_of_another_attempt_is_not_passed_on() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))

    machine.say(worker(0), wire.Output(an_id(1), 2, "stdout", b"x"))
    machine.say(worker(0), wire.Output(an_id(9), 1, "stdout", b"x"))

    assert sent(machine.all_effects, wire.Output) == []


def test_a_detached_job_tells_its_client_nothing_until_it_attaches() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, detached=True))
    machine.run(1)
    assert sent(machine.all_effects, wire.Ended) == []

    machine.say(CLIENT, wire.Attach((an_id(1),)))

    assert machine.sent(wire.Ended, CLIENT) == [wire.Ended((machine.outcome(1),))]


def test_who_attaches_before_the_end_is_told_as_well() -> None:
    machine = a_machine_with_two_clients()
    machine.submit(a_spec(1))
    machine.say(OTHER, wire.Attach((an_id(1),)))

    machine.run(1)

    expected = [wire.Ended((machine.outcome(1),))]
    assert machine.sent(wire.Ended, CLIENT) == machine.sent(wire.Ended, OTHER) == expected


def test_attaching_to_an_unknown_job_is_refused() -> None:
    machine = Machine(1000)

    machine.say(CLIENT, wire.Attach((an_id(1),)))

    (refused,) = machine.sent(wire.Refused, CLIENT)
    assert (refused.reason, refused.job_ids) == ("unknown-job", (an_id(1),))


def test_a_received_result_of_an_attached_call_is_dropped() -> None:
    machine = a_machine_with_two_clients()
    machine.submit(a_spec(1))
    machine.run(1, payload=b"value")

    machine.say(CLIENT, wire.Received((an_id(1),)))
    assert machine.outcome(1).payload == b""

    machine.say(OTHER, wire.Attach((an_id(1),)))
    assert [one.reason for one in machine.sent(wire.Refused, OTHER)] == ["unknown-job"]


def test_a_received_result_of_a_detached_job_stays_for_others() -> None:
    machine = a_machine_with_two_clients()
    machine.submit(a_spec(1, detached=True))
    machine.run(1, payload=b"value")
    machine.say(CLIENT, wire.Attach((an_id(1),)))
    machine.say(CLIENT, wire.Received((an_id(1),)))

    machine.say(OTHER, wire.Attach((an_id(1),)))

    assert [one.outcomes[0].payload for one in machine.sent(wire.Ended, OTHER)] == [b"value"]


def test_only_the_owner_can_drop_a_result() -> None:
    machine = a_machine_with_two_clients()
    machine.submit(a_spec(1))
    machine.run(1, payload=b"value")

    machine.say(OTHER, wire.Received((an_id(1), an_id(99))))

    assert machine.outcome(1).payload == b"value"


def test_a_client_that_comes_back_gets_what_it_has_not_received() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1)
    machine.submit(a_spec(2))
    machine.run(2)
    machine.say(CLIENT, wire.Received((an_id(1),)))

    machine.say(b"new connection", a_hello())

    assert machine.sent(wire.Ended, b"new connection") == [wire.Ended((machine.outcome(2),))]
    machine.say(CLIENT, wire.AskDevices())
    assert [one.reason for one in machine.sent(wire.Refused, CLIENT)] == ["greet-first"]


def test_p32_a_queued_job_is_cancelled_at_once() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2), shipped(3))

    machine.say(CLIENT, wire.Cancel((an_id(2), an_id(3), an_id(99)), interrupt=True))

    assert machine.states(2, 3) == ["cancelled", "cancelled"]
    assert machine.sent(wire.Cancelling, CLIENT) == [wire.Cancelling((an_id(2), an_id(3)))]
    assert len(machine.sent(wire.Ended, CLIENT)) == 2
    machine.run(1)
    assert len(machine.runs()) == 1


@pytest.mark.parametrize(("interrupt", "how"), [(True, "interrupt"), (False, "terminate")])
@pytest.mark.parametrize("result", ["succeeded", "failed", "killed", "cancelled", "lost"])
def test_p32_a_running_job_is_ended_by_its_worker(
    interrupt: bool, how: str, result: str
) -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)

    machine.say(CLIENT, wire.Cancel((an_id(1),), interrupt))
    assert machine.sent(wire.End, worker(0)) == [wire.End(EPOCH, an_id(1), 1, how)]
    assert machine.sent(wire.Cancelling, CLIENT) == [wire.Cancelling((an_id(1),))]
    assert machine.states(1) == ["running"]

    machine.finish(1, outcome=result)
    assert machine.states(1) == ["cancelled"]
    assert machine.ledger().leases == {}


def test_a_finish_that_was_recorded_before_the_cancel_wins() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1)

    machine.say(CLIENT, wire.Cancel((an_id(1),), interrupt=False))

    assert machine.sent(wire.Cancelling, CLIENT) == [wire.Cancelling(())]
    assert machine.states(1) == ["succeeded"]


def test_a_cancelled_stand_in_is_not_followed_by_the_job() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, has_stand_in=True))
    machine.say(CLIENT, wire.Cancel((an_id(1),), interrupt=False))

    machine.run(1)

    assert machine.states(1) == ["cancelled"]
    assert len(machine.runs()) == 1


def test_the_jobs_of_a_lost_client_are_ended_and_detached_ones_live_on() -> None:
    machine = a_machine_with_two_clients(1000, 1000)
    machine.submit(a_spec(1), a_spec(2), a_spec(3, detached=True, job_type="b"), peer=OTHER)
    machine.start(1)

    machine.lose(an_id(901))
    assert machine.sent(wire.End, worker(0)) == [wire.End(EPOCH, an_id(1), 1, "terminate")]
    assert machine.states(1, 2, 3) == ["running", "cancelled", "assigned"]
    idle = [one.session for one in machine.sent(wire.EndIdle)]
    assert idle == [an_id(901), an_id(901)]

    machine.finish(1, outcome="killed", signal=15)
    machine.run(3)
    assert machine.states(1, 2, 3) == ["cancelled", "cancelled", "succeeded"]


def test_others_who_wait_for_a_job_of_a_lost_client_are_told() -> None:
    machine = a_machine_with_two_clients()
    machine.submit(a_spec(1), a_spec(2), peer=OTHER)
    machine.say(CLIENT, wire.Attach((an_id(2),)))

    machine.lose(an_id(901))

    assert [one.outcomes[0].outcome for one in machine.sent(wire.Ended, CLIENT)] == [
        "cancelled"
    ]


def test_a_detached_job_whose_function_never_came_ends_with_its_client() -> None:
    machine = Machine(1000)
    machine.submit(shipped(1, detached=True))

    machine.lose(SESSION)

    assert machine.states(1) == ["cancelled"]


def test_a_detached_job_that_is_cancelled_before_its_function_came_is_answered() -> None:
    machine = a_machine_with_two_clients()
    machine.submit(shipped(1, detached=True))

    machine.say(OTHER, wire.Cancel((an_id(1),), interrupt=False))

    assert machine.states(1) == ["cancelled"]
    assert machine.sent(wire.Accepted, CLIENT) == [wire.Accepted((Numbered(an_id(1), 1),))]


def test_losing_somebody_unknown_changes_nothing() -> None:
    assert Machine(1000).lose(an_id(12345)) == []


def test_the_release_of_an_inline_job_reaches_its_worker() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, kind="inline"))
    (run,) = machine.runs()
    assert (run.kind, run.pid) == ("inline", 900)

    release = wire.Release(an_id(1), 1, failed=False)
    machine.say(CLIENT, release)
    assert machine.sent(wire.Release, worker(0)) == [release]

    machine.run(1)
    machine.say(CLIENT, release)
    machine.say(CLIENT, wire.Release(an_id(1), 2, failed=False))
    assert machine.sent(wire.Release) == []


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

    assert machine.why(1) == "no such layer"


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


def test_many_assignments_go_out_in_messages_of_bounded_length() -> None:
    machine = Machine()
    machine.join(0, 1, device=a_device(0, total_bytes=99))
    machine.know(0)
    machine.say(worker(0), a_report(foreign_bytes=100))
    machine.submit(*map(a_spec, range(1, 101)))
    machine.submit(*map(a_spec, range(101, 201)))

    machine.say(worker(0), a_report(foreign_bytes=0))

    assert [len(one.runs) for one in machine.sent(wire.Assign)] == [128, 72]
