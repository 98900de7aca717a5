"""Who is told how jobs end: waiting, attaching, cancelling, and clients that are gone."""

from typing import Any

import pytest

from grn_zmq import wire
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
from tests.builders import a_hello, a_piece, a_release, a_spec, an_attempt, an_id

OTHER = b"other client"
FUNCTION, CONTEXT = Blob("f" * 64, b"function"), Blob("c" * 64, b"context")


def a_machine_with_two_clients(*totals: int) -> Machine:
    machine = Machine(*(totals or (1000,)))
    machine.say(OTHER, a_hello(901))
    return machine


def shipped(number: int, **changes: Any) -> JobSpec:
    return a_spec(number, function=FUNCTION.digest, context=CONTEXT.digest, **changes)


def test_the_client_is_told_start_output_and_end() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))

    machine.start(1)
    assert [one.runs[0].device for one in machine.sent(wire.Started, CLIENT)] == ["host:0"]

    said = wire.Output((a_piece(1, stream="stderr", data=b"loss 0.1"),))
    machine.say(worker(0), said)
    assert machine.sent(wire.Output, CLIENT) == [said]

    machine.finish(1, payload=b"42")
    (ended,) = machine.sent(wire.Ended, CLIENT)
    assert told(ended.outcomes[0]) == an_outcome_now(1, fit=8, payload=b"42")
    assert (ended.outcomes[0].wait_s, ended.outcomes[0].run_s) == (1.0, 1.0)


def test_output_of_another_attempt_is_not_passed_on() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))

    machine.say(worker(0), wire.Output((a_piece(1, attempt=2), a_piece(9))))

    assert sent(machine.all_effects, wire.Output) == []


def test_each_client_is_given_the_output_of_its_own_jobs_in_order() -> None:
    machine = a_machine_with_two_clients(1000)
    machine.know(100)
    machine.submit(a_spec(1), a_spec(2))
    machine.submit(a_spec(3), peer=OTHER)
    machine.say(OTHER, wire.Attach((an_id(2),)))
    first, theirs, both, last = a_piece(1), a_piece(3), a_piece(2), a_piece(1, data=b"more")

    machine.say(worker(0), wire.Output((first, theirs, a_piece(9), both, last)))

    assert machine.sent(wire.Output, CLIENT) == [wire.Output((first, both, last))]
    assert machine.sent(wire.Output, OTHER) == [wire.Output((theirs, both))]


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


def test_a_received_result_of_an_attached_call_is_let_go_after_a_minute() -> None:
    machine = a_machine_with_two_clients()
    machine.submit(a_spec(1))
    machine.run(1, payload=b"value")
    machine.say(CLIENT, wire.Received((an_id(1),)))

    machine.say(OTHER, wire.Attach((an_id(1),)))
    assert [one.outcomes[0].payload for one in machine.sent(wire.Ended, OTHER)] == [b"value"]
    machine.say(OTHER, wire.Received((an_id(1),)))

    machine.wait(60.0)
    machine.say(OTHER, wire.Attach((an_id(1),)))
    assert [one.reason for one in machine.sent(wire.Refused, OTHER)] == ["result-expired"]
    assert (machine.outcome(1).outcome, machine.outcome(1).payload) == ("succeeded", b"")


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
    assert machine.sent(wire.End, worker(0)) == [wire.End(EPOCH, how, (an_attempt(1),))]
    assert machine.sent(wire.Cancelling, CLIENT) == [wire.Cancelling((an_id(1),))]
    assert machine.states(1) == ["running"]

    machine.finish(1, outcome=result)
    assert machine.states(1) == ["cancelled"]
    assert machine.ledger().leases == {}


def test_many_cancelled_jobs_are_one_message_to_each_worker() -> None:
    machine = Machine(1000, 1000)
    machine.know(400)
    machine.submit(*map(a_spec, range(1, 6)))
    assert machine.devices(1, 2, 3, 4, 5) == ["host:0", "host:1", "host:0", "host:1", ""]

    machine.say(CLIENT, wire.Cancel(tuple(map(an_id, range(1, 6))), interrupt=True))

    ends = [(an_attempt(1), an_attempt(3)), (an_attempt(2), an_attempt(4))]
    assert machine.sent(wire.End, worker(0)) == [wire.End(EPOCH, "interrupt", ends[0])]
    assert machine.sent(wire.End, worker(1)) == [wire.End(EPOCH, "interrupt", ends[1])]
    assert machine.states(5) == ["cancelled"]


def test_the_running_jobs_of_a_lost_client_are_one_message_to_their_worker() -> None:
    machine = Machine(1000)
    machine.know(100)
    machine.submit(a_spec(1), a_spec(2, detached=True), a_spec(3))

    machine.lose(SESSION)

    ends = (an_attempt(1), an_attempt(3))
    assert machine.sent(wire.End) == [wire.End(EPOCH, "terminate", ends)]


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
    assert machine.sent(wire.End) == [wire.End(EPOCH, "terminate", (an_attempt(1),))]
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

    release = wire.Release((a_release(1),))
    machine.say(CLIENT, release)
    assert machine.sent(wire.Release, worker(0)) == [release]

    machine.run(1)
    machine.say(CLIENT, release)
    machine.say(CLIENT, wire.Release((a_release(1, attempt=2), a_release(9))))
    assert machine.sent(wire.Release) == []


def test_each_worker_is_told_of_its_own_releases() -> None:
    machine = Machine(1000, 1000)
    machine.know(100, kind="inline")
    machine.submit(*(a_spec(number, kind="inline") for number in (1, 2, 3)))
    assert machine.devices(1, 2, 3) == ["host:0", "host:1", "host:0"]

    one, two, three = a_release(1), a_release(2, failed=True), a_release(3, failed=True)
    machine.say(CLIENT, wire.Release((one, two, a_release(9), three)))

    assert machine.sent(wire.Release, worker(0)) == [wire.Release((one, three))]
    assert machine.sent(wire.Release, worker(1)) == [wire.Release((two,))]
