"""Clients that die, come back, read slowly or not at all; and clients of yesterday."""

import pytest

from broker import handing
from broker.effects import Discard, DiscardOf, Send, Watch
from broker.handing import MOST_BYTES_IN_FLIGHT
from broker.settings import Settings
from grn_zmq import wire
from tests.broker.machine import CLIENT, SESSION, Machine, fetched
from tests.builders import a_hello, a_spec, a_token, an_attempt, an_id

OTHER = b"other"
AGAIN = b"client on another connection"


def test_r34_p13_the_death_of_a_client_ends_its_attached_jobs_and_no_detached_one() -> None:
    machine = Machine(1000)
    machine.know(100)
    machine.submit(a_spec(1), a_spec(2, detached=True), a_spec(3, pin="HOST-9"))
    machine.start(1)
    machine.start(2)

    machine.lose(SESSION)

    assert machine.sent(wire.End) == [wire.End(machine.epoch, "terminate", (an_attempt(1),))]
    assert machine.states(1, 2, 3) == ["running", "running", "cancelled"]
    machine.finish(1, outcome="killed")
    machine.finish(2)
    assert machine.states(1, 2) == ["cancelled", "succeeded"]


def test_a_client_that_dies_while_no_broker_looks_is_lost_all_the_same() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2, detached=True))

    effects = machine.restart()
    assert Watch(SESSION, 900) in effects
    machine.lose(SESSION)
    machine.join(0, 1000)

    assert machine.states(1, 2) == ["cancelled", "assigned"]


def test_a_client_that_was_gone_before_the_restart_has_no_jobs_after_it() -> None:
    machine = Machine()
    machine.submit(a_spec(1), a_spec(2, detached=True))
    machine.commit()
    machine.disk.tables.sessions.clear()

    machine.crash()

    assert machine.states(1, 2) == ["cancelled", "queued"]


def test_a_connection_that_is_lost_is_waited_for_and_then_given_up() -> None:
    machine = Machine()
    machine.submit(a_spec(1))
    machine.core.disconnected(CLIENT, machine.now)
    machine.wait(29.0)
    assert machine.job(1).live

    machine.wait(1.0)

    assert machine.states(1) == ["cancelled"]


def test_a_client_that_comes_back_in_time_keeps_its_jobs() -> None:
    machine = Machine()
    machine.submit(a_spec(1))
    machine.core.disconnected(CLIENT, machine.now)
    machine.wait(20.0)

    machine.say(AGAIN, a_hello())
    machine.wait(60.0)

    assert machine.job(1).live


def test_after_a_restart_a_client_has_a_minute_to_come_back() -> None:
    machine = Machine()
    machine.submit(a_spec(1))
    machine.restart()
    machine.wait(59.0)
    assert machine.job(1).live

    machine.wait(1.0)

    assert machine.states(1) == ["cancelled"]


def test_a_client_that_was_given_up_and_repeats_its_submission_is_told_the_outcome() -> None:
    machine = Machine()
    machine.submit(a_spec(1))
    machine.core.disconnected(CLIENT, machine.now)
    machine.wait(30.0)

    machine.say(AGAIN, a_hello())
    machine.submit(a_spec(1), peer=AGAIN)

    assert len(machine.sent(wire.Accepted, AGAIN)) == 1
    (ended,) = machine.sent(wire.Ended, AGAIN)
    assert ended.outcomes[0].outcome == "cancelled"


def test_who_comes_back_is_told_again_what_began_and_what_ended() -> None:
    machine = Machine(1000)
    machine.know(100)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)
    machine.run(2)

    machine.say(AGAIN, a_hello())

    assert [one.runs[0].job_id for one in machine.sent(wire.Started, AGAIN)] == [an_id(1)]
    unread = [one.outcomes[0].job_id for one in machine.sent(wire.Ended, AGAIN)]
    assert unread[-1] == an_id(2)


def test_who_attaches_to_a_job_that_runs_is_told_that_it_began() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, kind="inline"))
    machine.core.disconnected(CLIENT, machine.now)
    machine.start(1)
    machine.wait(30.0)
    machine.say(AGAIN, a_hello())

    machine.say(AGAIN, wire.Attach((an_id(1),)))
    assert [one.runs[0].job_id for one in machine.sent(wire.Started, AGAIN)] == [an_id(1)]
    machine.say(AGAIN, wire.Attach((an_id(1),)))

    assert machine.sent(wire.Started) == []


def test_who_comes_back_to_another_broker_is_told_what_it_did_not_receive() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1, payload=b"value")
    machine.restart()

    machine.say(AGAIN, a_hello())

    assert [one.outcomes[0].outcome for one in machine.sent(wire.Ended)] == ["succeeded"]
    assert fetched(machine.effects) == [(an_id(1),)]
    assert machine.disk.result(an_id(1)) == b"value"


def test_a_client_of_detached_jobs_only_comes_back_after_a_restart() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, detached=True))
    machine.restart()
    machine.say(CLIENT, a_hello())
    machine.say(CLIENT, wire.Attach((an_id(1),)))

    machine.join(0, 1000)
    machine.run(1)

    assert len(machine.sent(wire.Ended, CLIENT)) == 1
    assert not machine.core.book.bound


def test_f68_a_client_that_never_acknowledges_has_so_many_outcomes_on_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handing, "MOST_IN_FLIGHT", 100)
    machine = Machine()
    numbers = range(1, 150)
    for number in numbers:
        machine.submit(a_spec(number))
        machine.say(CLIENT, wire.Cancel((an_id(number),), interrupt=False))

    session = machine.core.book.sessions[SESSION]
    assert (len(session.in_flight), len(session.unsent)) == (100, 49)
    machine.say(CLIENT, wire.Received((an_id(1), an_id(2))))
    assert len(machine.sent(wire.Ended)) == 2


def test_f68_a_client_that_never_acknowledges_has_so_many_bytes_on_the_way() -> None:
    machine = Machine(1000)
    machine.know(10)
    machine.say(CLIENT, wire.Received(tuple(machine.core.book.jobs)))
    piece = b"x" * (MOST_BYTES_IN_FLIGHT // 2)
    told = 0
    for number in range(1, 5):
        machine.submit(a_spec(number))
        machine.run(number, payload=piece)
        told += len(machine.sent(wire.Ended))
        machine.commit()

    assert told == 2
    assert [machine.outcome(one).payload for one in range(1, 5)] == [b""] * 4
    machine.say(CLIENT, wire.Received((an_id(1),)))
    assert fetched(machine.effects) == [(an_id(3),)]


def test_an_outcome_larger_than_the_window_still_goes() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))

    machine.run(1, payload=b"x" * (MOST_BYTES_IN_FLIGHT + 1))

    assert len(machine.sent(wire.Ended)) == 1


def test_whoever_waits_for_a_result_that_was_let_go_is_told_so() -> None:
    machine = Machine(1000)
    machine.say(OTHER, a_hello(901))
    machine.submit(a_spec(1))
    machine.run(1)
    machine.say(CLIENT, wire.Received((an_id(1),)))
    machine.say(OTHER, wire.Attach((an_id(1),)))
    machine.core.disconnected(OTHER, machine.now)
    machine.say(OTHER, a_hello(901))
    machine.core.disconnected(OTHER, machine.now)
    machine.core.retention.let_go_of_result(machine.job(1))

    machine.say(b"again", a_hello(901))

    assert [one.reason for one in machine.sent(wire.Refused)] == ["result-expired"]
    assert machine.sent(wire.Ended) == []


def test_promise_10_the_result_of_a_detached_job_is_kept_for_a_week() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, detached=True))
    machine.run(1, payload=b"value", token="")
    machine.wait(6.9 * 24 * 3600)
    assert an_id(1) in machine.core.book.jobs

    machine.wait(0.2 * 24 * 3600)

    assert an_id(1) not in machine.core.book.jobs
    batch = machine.core.take_batch()
    assert (batch.forgotten, batch.expired) == ([an_id(1)], [an_id(1)])


def test_a_result_that_is_let_go_takes_its_parcel_with_it() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.run(1, payload=b"", token=a_token(7))

    machine.say(CLIENT, wire.Received((an_id(1),)))

    assert Discard(a_token(7)) in machine.effects


def test_a_parcel_that_others_wait_for_outlives_the_receipt_of_its_caller() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.say(OTHER, a_hello(901))
    machine.say(OTHER, wire.Attach((an_id(1),)))
    machine.run(1, payload=b"", token=a_token(7))

    machine.say(CLIENT, wire.Received((an_id(1),)))

    assert Discard(a_token(7)) not in machine.effects
    assert Discard(a_token(7)) in machine.wait(61.0)


def test_the_parcel_of_arguments_goes_with_the_end_of_its_job() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, token=a_token(7)))

    machine.run(1)

    assert Discard(a_token(7)) in machine.effects


def test_the_parcels_of_a_dead_client_go_but_for_those_that_jobs_or_results_need() -> None:
    machine = Machine(1000)
    machine.know(100)
    machine.submit(a_spec(1, detached=True))
    machine.run(1, payload=b"", token=a_token(1, "disk"))

    effects = machine.lose(SESSION)

    assert DiscardOf(SESSION, frozenset({a_token(1, "disk")})) in effects


def test_no_parcel_of_a_dead_client_goes_while_a_job_of_it_goes_on() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, detached=True))

    effects = machine.lose(SESSION)

    assert not [one for one in effects if isinstance(one, DiscardOf)]


@pytest.mark.parametrize("protocol", [wire.PROTOCOL_BEFORE, wire.PROTOCOL])
def test_f53_a_client_of_this_protocol_and_the_one_before_is_answered_in_its_words(
    protocol: int,
) -> None:
    machine = Machine(1000)

    machine.say(OTHER, a_hello(901, protocol=protocol))
    assert [one.protocol for one in machine.sent(wire.Welcome)] == [protocol]
    machine.submit(a_spec(1), peer=OTHER)
    machine.run(1, outcome="timed-out")

    (ended,) = [one for one in machine.effects if _is_ended(one)]
    assert isinstance(ended, Send)
    assert isinstance(ended.message, wire.Ended)
    assert ended.protocol == protocol
    assert [one.outcome for one in ended.message.outcomes] == ["timed-out"]
    assert machine.states(1) == ["timed-out"]


def _is_ended(effect: object) -> bool:
    return isinstance(effect, Send) and isinstance(effect.message, wire.Ended)


@pytest.mark.parametrize("protocol", [wire.PROTOCOL_BEFORE - 1, wire.PROTOCOL + 1])
def test_f53_a_client_of_any_other_protocol_is_refused(protocol: int) -> None:
    machine = Machine()

    machine.say(OTHER, a_hello(901, protocol=protocol))

    assert [one.reason for one in machine.sent(wire.Refused, OTHER)] == ["version"]
    assert an_id(901) not in machine.core.book.sessions


def test_a_lost_client_that_comes_back_within_a_turn_is_still_kept() -> None:
    machine = Machine(settings=Settings(away_s=5.0))
    machine.submit(a_spec(1))
    machine.commit()
    machine.core.disconnected(CLIENT, machine.now)
    machine.wait(5.0)
    machine.say(CLIENT, a_hello())
    machine.submit(a_spec(2))

    machine.restart()

    assert machine.states(1, 2) == ["cancelled", "queued"]
