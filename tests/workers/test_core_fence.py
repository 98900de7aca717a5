"""A worker believes only the broker that answered its last greeting, and forgets nothing."""

from typing import Any

import pytest

from grn_zmq import wire
from tests.builders import a_result, a_run, an_attempt, an_id
from tests.workers.acting import (
    CONTEXT,
    EPOCH,
    FUNCTION,
    a_level,
    a_return,
    a_worker,
    assign,
    begun,
    held,
    replies,
    result_in,
    settled,
    welcome,
    written,
)
from workers.effects import Keep, Launch, Note, Reply, SetAside, Signal, WatchCaller
from workers.events import Gone
from workers.spoollog import DropRecord, FinishRecord, Left, StartRecord
from workers.unrecorded import REPEAT_S

RESULT = FinishRecord(False, a_result(5))
START = StartRecord(an_id(6), 2, detached=True)
LEFT = Left(results={(an_id(5), 1): RESULT}, interrupted={(an_id(6), 2): START})


def messages(epoch: int) -> list[Any]:
    """One of each kind that only the right broker may send."""
    return [
        wire.Assign(epoch, (a_run(2),)),
        wire.End(epoch, "kill", (an_attempt(1),)),
        wire.Recorded(epoch, (an_attempt(5),)),
        wire.Unknown(epoch, (an_attempt(5),)),
    ]


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH, EPOCH + 1])
def test_between_greeting_and_welcome_nothing_of_any_broker_counts(
    kind: int, epoch: int
) -> None:
    core = a_worker(left=LEFT)
    assign(core, a_run(1))
    number, listed = core.greet()

    (note,) = core.handle(messages(epoch)[kind], now=1.0)

    assert isinstance(note, Note)
    assert core.inventory == listed == (held(1), held(5, "finished"), held(6, "interrupted", 2))
    assert number == 2


@pytest.mark.parametrize("kind", range(4))
def test_after_a_welcome_only_its_epoch_counts(kind: int) -> None:
    core = a_worker(left=LEFT)
    welcome(core, EPOCH + 1, now=1.0)

    (note,) = core.handle(messages(EPOCH)[kind], now=2.0)

    assert isinstance(note, Note)


def test_only_the_answer_to_the_last_greeting_is_believed() -> None:
    core = a_worker()
    first, _ = core.greet()
    second, _ = core.greet()

    core.handle(wire.Welcome(wire.PROTOCOL, 8, 77, greeting=first), now=1.0)
    assert not core.fence.welcomed

    core.handle(wire.Welcome(wire.PROTOCOL, 9, 77, greeting=second), now=1.0)
    core.handle(wire.Welcome(wire.PROTOCOL, 8, 77, greeting=second), now=1.0)
    assert (core.fence.welcomed, core.fence.epoch) == (True, 9)


def test_without_a_broker_jobs_go_on_and_nobody_is_told() -> None:
    core = a_worker()
    assign(core, a_run(1), a_run(2))
    core.fence.close()

    assert core.sampled(a_level(j1=300), now=1.0) == []
    effects = core.returned(1, a_return(), now=2.0)
    assert [record.kind for record in written(effects)] == ["finished"]
    assert replies(effects, wire.Finished) == []
    assert replies(core.tick(now=100.0), wire.Finished) == []
    assert core.inventory == (held(2), held(1, "finished"))


def test_a_welcome_makes_it_say_again_all_that_matters() -> None:
    core = a_worker()
    assign(core, a_run(1), a_run(2))
    core.returned(1, a_return(), now=1.0)
    assign(core, a_run(3, function="g" * 64), now=1.0)

    effects = welcome(core, EPOCH + 1, now=2.0)

    assert replies(effects, wire.Want) == [wire.Want(("g" * 64,))]
    assert begun(2, ran_s=2.0) in effects
    (finished,) = replies(effects, wire.Finished)
    assert (finished.epoch, finished.results[0].job_id) == (EPOCH + 1, an_id(1))


def test_blobs_that_come_from_before_the_greeting_let_a_listed_attempt_begin() -> None:
    core = a_worker(with_blobs=False)
    assign(core, a_run(1))
    core.greet()

    effects = settled(core, core.handle(wire.Blobs((FUNCTION, CONTEXT)), now=1.0), now=1.0)

    assert isinstance(effects[0], Launch)
    assert not [one for one in effects if isinstance(one, Reply)]
    welcome = wire.Welcome(wire.PROTOCOL, 8, 77, greeting=2)
    assert begun(1, ran_s=1.0) in core.handle(welcome, now=2.0)


def test_an_attempt_begins_only_once_its_start_is_written() -> None:
    core = a_worker()

    effects = core.handle(wire.Assign(EPOCH, (a_run(1, detached=True),)), now=0.0)

    assert effects == [Keep(StartRecord(an_id(1), 1, detached=True))]
    assert core.inventory == (held(1),)
    assert [type(one).__name__ for one in core.kept(now=0.0)] == ["Launch", "Reply", "Feed"]
    assert core.kept(now=1.0) == []


def test_an_attempt_that_is_ended_while_its_start_is_written_never_begins() -> None:
    core = a_worker()
    core.handle(wire.Assign(EPOCH, (a_run(1),)), now=0.0)

    ended = core.handle(wire.End(EPOCH, "terminate", (an_attempt(1),)), now=0.0)

    assert result_in(ended).outcome == "cancelled"
    assert core.kept(now=0.0) == []


def test_what_cannot_be_written_is_declined_and_so_is_all_that_follows() -> None:
    core = a_worker()
    core.handle(wire.Assign(EPOCH, (a_run(1), a_run(2))), now=0.0)

    (declined,) = replies(core.not_kept("disk full"), wire.Declined)
    assert declined.attempts == (an_attempt(1), an_attempt(2))
    assert declined.why == "cannot write the spool: disk full"
    assert core.inventory == ()

    (again,) = replies(assign(core, a_run(3)), wire.Declined)
    assert again.attempts == (an_attempt(3),)
    assert core.sampled(a_level(), now=10.0) == []  # so that the broker gives it no more

    core.can_keep()
    assert len(core.sampled(a_level(), now=10.1)) == 1
    assert begun(4) in assign(core, a_run(4))


def test_a_job_that_runs_while_nothing_can_be_written_goes_on() -> None:
    core = a_worker()
    assign(core, a_run(1))
    core.not_kept("disk full")

    assert result_in(core.returned(1, a_return(), now=1.0)).outcome == "succeeded"


def test_a_repeated_assignment_of_what_has_ended_or_been_interrupted_starts_nothing() -> None:
    core = a_worker(left=LEFT)

    assert assign(core, a_run(5), a_run(6, attempt=2)) == []


@pytest.mark.parametrize("kind", ["inline", "lease"])
def test_a_body_of_its_caller_outlives_the_worker_and_is_watched_again(kind: str) -> None:
    core = a_worker(left=LEFT)

    effects = assign(core, a_run(6, attempt=2, kind=kind, function="", context=""))
    effects += core.kept(now=1.0)

    assert [one.job_id for one in effects if isinstance(one, WatchCaller)] == [an_id(6)]
    assert core.inventory == (held(6, attempt=2), held(5, "finished"))


def test_a_second_attempt_is_declined_while_the_first_is_alive() -> None:
    core = a_worker()
    assign(core, a_run(1))

    (declined,) = replies(assign(core, a_run(1, attempt=2)), wire.Declined)

    assert declined.attempts == (an_attempt(1, attempt=2),)
    assert core.inventory == (held(1),)


def test_what_earlier_incarnations_left_is_told_and_handed_over() -> None:
    core = a_worker(left=LEFT)

    assert core.inventory == (held(5, "finished"), held(6, "interrupted", 2))
    assert result_in(core.tick(now=REPEAT_S)) == RESULT.result


@pytest.mark.parametrize("number", [5, 6])
def test_what_is_recorded_is_dropped_from_the_spool_once(number: int) -> None:
    core = a_worker(left=LEFT)
    attempt = an_attempt(number, attempt=number - 4)

    effects = core.handle(wire.Recorded(EPOCH, (attempt,)), now=1.0)

    assert effects == [Keep(DropRecord(attempt.job_id, attempt.attempt))]
    assert len(core.inventory) == 1
    assert core.handle(wire.Recorded(EPOCH, (attempt,)), now=1.0) == []


def test_an_end_settles_an_interrupted_attempt() -> None:
    core = a_worker(left=LEFT)

    effects = core.handle(wire.End(EPOCH, "kill", (an_attempt(6, attempt=2),)), now=1.0)

    assert effects == [Keep(DropRecord(an_id(6), 2))]


def test_a_result_that_the_broker_does_not_know_is_set_aside_with_a_line_in_the_log() -> None:
    core = a_worker(left=LEFT)

    effects = core.handle(wire.Unknown(EPOCH, (an_attempt(5),)), now=1.0)

    note, *rest = effects
    assert isinstance(note, Note)
    assert note.level == "error"
    assert rest == [SetAside(RESULT.result), Keep(DropRecord(an_id(5), 1))]


def test_a_running_attempt_that_the_broker_does_not_know_is_ended() -> None:
    core = a_worker()
    assign(core, a_run(1))

    effects = core.handle(wire.Unknown(EPOCH, (an_attempt(1),)), now=1.0)

    assert [type(one) for one in effects] == [Note, Signal]


def test_a_worker_that_leaves_declines_what_it_has_not_begun() -> None:
    core = a_worker(with_blobs=False)
    assign(core, a_run(1))

    effects = core.end_everything(now=1.0)

    assert replies(effects, wire.Leaving)
    (declined,) = replies(effects, wire.Declined)
    assert declined.attempts == (an_attempt(1),)
    assert replies(assign(core, a_run(2)), wire.Declined)
    assert replies(welcome(core, EPOCH, now=2.0), wire.Leaving)


def test_all_that_begins_and_ends_is_written_down() -> None:
    core = a_worker()
    starting = core.handle(wire.Assign(EPOCH, (a_run(1), a_run(2, detached=True))), now=0.0)
    core.kept(now=0.0)

    ending = [
        *core.gone(1, Gone(3, None), now=1.0),
        *core.gone(2, Gone(None, 9), now=1.0),
    ]

    assert [type(one) for one in written(starting)] == [StartRecord, StartRecord]
    finished = [one for one in written(ending) if isinstance(one, FinishRecord)]
    assert [(one.detached, one.result.outcome) for one in finished] == [
        (False, "failed"),
        (True, "killed"),
    ]
