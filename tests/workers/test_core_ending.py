"""The worker's decisions about ends: ladders, results, idle processes, inline jobs."""

from signal import SIGINT, SIGTERM

from grn_zmq import wire
from tests.builders import MIB, a_release, a_run, an_attempt, an_id
from tests.workers.acting import (
    CONTEXT,
    EPOCH,
    FUNCTION,
    a_level,
    a_return,
    a_worker,
    assign,
    begun,
    end,
    held,
    replies,
    result_in,
    welcome,
)
from workers.effects import (
    Close,
    Kill,
    Launch,
    Reply,
    Signal,
    UnwatchCaller,
    WatchCaller,
)
from workers.ending import IDLE_S, KILL_AGAIN_S, LEAVE_S
from workers.events import Gone
from workers.unrecorded import REPEAT_S

GRACE_S = a_run(1).grace_s


def test_a_worker_that_leaves_waits_for_no_answer_to_an_interrupt() -> None:
    core = a_worker()
    assign(core, a_run(1))
    end(core, "interrupt", now=1.0)

    left = core.end_everything(now=2.0)
    again = core.end_everything(now=2.5)

    assert left == [Reply(wire.Leaving()), Signal(1, SIGTERM)]
    assert again == []
    assert core.tick(now=2.0 + GRACE_S) == [Kill(1)]


def test_an_interrupt_is_followed_by_term_and_kill() -> None:
    core = a_worker()
    assign(core, a_run(1))

    assert end(core, "interrupt", now=10.0) == [Signal(1, SIGINT)]
    assert core.tick(now=10.0 + GRACE_S - 0.1) == []
    assert core.tick(now=10.0 + GRACE_S) == [Signal(1, SIGTERM)]
    assert core.tick(now=10.0 + 2 * GRACE_S - 0.1) == []
    assert core.tick(now=10.0 + 2 * GRACE_S) == [Kill(1)]
    assert core.tick(now=10.0 + 2 * GRACE_S + KILL_AGAIN_S) == [Kill(1)]

    assert result_in(core.gone(1, Gone(None, 9), now=30.0)).outcome == "killed"
    assert core.tick(now=100.0)[:1] != [Kill(1)]


def test_one_message_ends_all_attempts_it_names() -> None:
    core = a_worker()
    assign(core, *map(a_run, (1, 2, 3)))

    named = (an_attempt(3), an_attempt(9), an_attempt(2, attempt=2), an_attempt(1))
    effects = core.handle(wire.End(EPOCH, "terminate", named), now=1.0)

    assert effects == [Signal(3, SIGTERM), Signal(1, SIGTERM)]


def test_terminate_is_followed_by_kill() -> None:
    core = a_worker()
    assign(core, a_run(1))

    assert end(core, "terminate", now=10.0) == [Signal(1, SIGTERM)]
    assert core.tick(now=10.0 + GRACE_S) == [Kill(1)]


def test_a_second_end_does_not_begin_the_ladder_anew() -> None:
    core = a_worker()
    assign(core, a_run(1))
    end(core, "interrupt", now=10.0)

    assert end(core, "interrupt", now=14.0) == []
    assert core.tick(now=10.0 + GRACE_S) == [Signal(1, SIGTERM)]


def test_a_process_that_was_asked_to_end_is_not_used_again() -> None:
    core = a_worker()
    assign(core, a_run(1))
    end(core, "interrupt", now=1.0)

    assert core.returned(1, a_return(outcome="failed", reusable=True), now=2.0) == [Close(1)]
    assert core.tick(now=2.0 + LEAVE_S) == [Kill(1)]


def test_an_end_after_the_result_is_not_needed() -> None:
    core = a_worker()
    assign(core, a_run(1))
    core.returned(1, a_return(reusable=False), now=1.0)

    assert end(core, "terminate", now=1.5) == []


def test_a_run_that_is_ended_before_its_blobs_arrived_never_starts() -> None:
    core = a_worker(with_blobs=False)
    assign(core, a_run(1))

    result = result_in(end(core, "terminate", now=1.0))
    assert (result.outcome, result.run_s) == ("cancelled", 0.0)

    assert core.handle(wire.Blobs((FUNCTION, CONTEXT)), now=2.0) == []


def test_results_are_repeated_until_they_are_recorded() -> None:
    core = a_worker()
    assign(core, a_run(1))
    first = result_in(core.returned(1, a_return(), now=10.0))
    assert core.inventory == (held(1, "finished"),)

    assert core.tick(now=10.0 + REPEAT_S - 0.1) == []
    assert result_in(core.tick(now=10.0 + REPEAT_S)) == first
    assert core.tick(now=10.0 + REPEAT_S + 0.1) == []
    assert result_in(core.tick(now=10.0 + 2 * REPEAT_S)) == first

    core.handle(wire.Recorded(EPOCH, (an_attempt(1),)), now=25.0)
    assert core.tick(now=40.0) == []
    assert len(core.inventory) == 0


def test_a_fresh_result_is_not_repeated_at_once() -> None:
    core = a_worker()
    assign(core, a_run(1))
    core.returned(1, a_return(), now=10.0)
    core.handle(wire.Recorded(EPOCH, (an_attempt(1),)), now=10.1)

    assign(core, a_run(2), now=20.0)
    core.returned(1, a_return(), now=21.0)

    assert core.tick(now=21.1) == []
    assert len(replies(core.tick(now=21.0 + REPEAT_S), wire.Finished)) == 1


def test_unrecorded_results_are_repeated_to_a_new_broker_at_once() -> None:
    core = a_worker()
    assign(core, a_run(1))
    core.returned(1, a_return(), now=10.0)

    effects = welcome(core, EPOCH + 1, now=10.5)

    (finished,) = replies(effects, wire.Finished)
    assert (finished.epoch, finished.results[0].job_id) == (EPOCH + 1, an_id(1))


def test_an_idle_process_is_let_go_after_a_while() -> None:
    core = a_worker()
    assign(core, a_run(1))
    core.returned(1, a_return(), now=10.0)
    core.handle(wire.Recorded(EPOCH, (an_attempt(1),)), now=10.0)

    assert core.tick(now=10.0 + IDLE_S - 0.1) == []
    assert core.tick(now=10.0 + IDLE_S) == [Close(1)]
    effects = assign(core, a_run(2), now=10.1 + IDLE_S)
    assert [one.process for one in effects if isinstance(one, Launch)] == [2]

    assert core.tick(now=10.0 + IDLE_S + LEAVE_S) == [Kill(1)]
    assert core.gone(1, Gone(None, 9), now=80.0) == []
    assert set(core.processes) == {2}


def test_a_process_that_is_used_now_and_then_is_not_let_go() -> None:
    core = a_worker()
    for number in range(1, 5):
        assign(core, a_run(number), now=50.0 * number)
        core.returned(1, a_return(), now=50.0 * number + 1)

        assert not [one for one in core.tick(50.0 * number + 2) if isinstance(one, Close)]


def test_end_idle_closes_idle_processes_of_that_client_only() -> None:
    core = a_worker()
    assign(core, a_run(1), a_run(2, session=an_id(901)), a_run(3, job_type="busy"))
    core.returned(1, a_return(), now=1.0)
    core.returned(2, a_return(), now=1.0)

    assert core.handle(wire.EndIdle(an_id(901)), now=2.0) == [Close(2)]
    assert core.handle(wire.EndIdle(""), now=2.5) == [Close(1)]
    assert core.handle(wire.EndIdle(""), now=2.6) == []
    assert [one for one in core.tick(now=2.0 + LEAVE_S) if isinstance(one, Kill)] == [Kill(2)]


def test_an_inline_job_holds_its_lease_in_the_process_of_its_caller() -> None:
    core = a_worker()
    run = a_run(1, kind="inline", function="", context="", pid=4321)
    assert assign(core, run, now=1.0) == [WatchCaller(an_id(1), 4321), begun(1)]
    core.sampled(a_level(j1=70), now=2.0)

    effects = core.handle(wire.Release((a_release(1),)), now=4.0)

    assert effects[0] == UnwatchCaller(an_id(1))
    result = result_in(effects)
    assert (result.outcome, result.peak_bytes, result.run_s) == ("succeeded", 70 * MIB, 3.0)
    assert core.processes == {}


def test_a_failed_inline_job_and_one_whose_caller_died_are_told_apart() -> None:
    core = a_worker()
    assign(core, *(a_run(number, kind="inline", function="", context="") for number in (1, 2)))

    failed = core.handle(wire.Release((a_release(1, failed=True),)), now=1.0)
    killed = core.caller_gone(an_id(2), now=1.0)

    assert (result_in(failed).outcome, result_in(killed).outcome) == ("failed", "killed")
    assert core.caller_gone(an_id(2), now=2.0) == []


def test_a_release_counts_only_for_this_attempt_of_an_inline_job() -> None:
    core = a_worker()
    assign(core, a_run(1, kind="inline", function="", context=""), a_run(2))

    wrong = (a_release(1, attempt=2), a_release(2), a_release(3))
    assert core.handle(wire.Release(wrong), now=1.0) == []
    assert len(core.runs) == 2


def test_one_message_releases_all_inline_jobs_it_names() -> None:
    core = a_worker()
    assign(core, *(a_run(number, kind="inline", function="", context="") for number in (1, 2)))

    named = (a_release(1), a_release(9), a_release(2, failed=True))
    finished = replies(core.handle(wire.Release(named), now=1.0), wire.Finished)

    assert [one.results[0].outcome for one in finished] == ["succeeded", "failed"]
    assert core.runs == {}


def test_an_inline_job_is_not_signalled() -> None:
    core = a_worker()
    assign(core, a_run(1, kind="inline", function="", context=""))

    assert end(core, "interrupt", now=1.0) == []
    assert core.end_everything(now=2.0) == [Reply(wire.Leaving())]
    assert core.tick(now=100.0) == []


def test_a_job_ended_because_its_worker_leaves_is_lost_and_says_so() -> None:
    core = a_worker()
    assign(core, a_run(1))
    core.end_everything(now=1.0)

    result = result_in(core.gone(1, Gone(None, int(SIGTERM)), now=2.0))

    assert (result.outcome, result.error_text) == ("lost", "its worker was stopped")


def test_an_inline_job_that_was_given_up_is_forgotten() -> None:
    core = a_worker()
    assign(core, a_run(1, kind="inline", function="", context=""))

    effects = end(core, "kill", now=1.0)

    assert effects[0] == UnwatchCaller(an_id(1))
    assert result_in(effects).outcome == "cancelled"
    assert core.runs == {}
