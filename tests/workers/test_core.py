"""The worker's decisions: attempts, job processes and what the device shows."""

from signal import SIGTERM
from typing import Any

import pytest

from grn_zmq import wire
from grn_zmq.records import Blob, Run
from tests.builders import HOST_0, MIB, a_result, a_run, a_use, an_attempt, an_id
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
    settled,
    welcome,
)
from workers.effects import (
    Close,
    Feed,
    Kill,
    Launch,
    Note,
    Reply,
    Signal,
)
from workers.ending import LEAVE_S
from workers.events import Gone, Level
from workers.reporting import HEARTBEAT_S

GRACE_S = a_run(1).grace_s


def test_a_run_starts_a_process_and_is_fed_to_it() -> None:
    core, run = a_worker(), a_run(1)

    effects = assign(core, run)

    assert effects == [Launch(1, b"context", (HOST_0,)), begun(1), Feed(1, run, b"function")]
    assert core.inventory == (held(1),)


def test_a_stand_in_is_announced_as_such() -> None:
    effects = assign(a_worker(), a_run(1, stand_in=True))

    assert effects[1] == begun(1, stand_in=True)


def test_a_run_waits_for_its_blobs_and_asks_for_them() -> None:
    core, run = a_worker(with_blobs=False), a_run(1)
    assert assign(core, run) == [Reply(wire.Want((CONTEXT.digest, FUNCTION.digest)))]

    assert core.handle(wire.Blobs((FUNCTION,)), now=1.0) == []

    effects = settled(core, core.handle(wire.Blobs((CONTEXT,)), now=2.0), now=2.0)
    assert effects == [Launch(1, b"context", (HOST_0,)), begun(1), Feed(1, run, b"function")]


def test_runs_that_lack_the_same_blob_ask_once_and_begin_together() -> None:
    core = a_worker(with_blobs=False)
    effects = assign(core, a_run(1), a_run(2))
    assert len(replies(effects, wire.Want)) == 1

    effects = settled(core, core.handle(wire.Blobs((FUNCTION, CONTEXT)), now=1.0), now=1.0)

    assert [one.process for one in effects if isinstance(one, Launch)] == [1, 2]


def test_a_run_without_context_is_left_to_fail_in_the_launcher() -> None:
    effects = assign(a_worker(), a_run(1, context=""))

    assert effects[0] == Launch(1, b"", (HOST_0,))


def test_a_repeated_assignment_is_one_run() -> None:
    core = a_worker()
    assign(core, a_run(1))

    assert assign(core, a_run(1), now=1.0) == []


def test_an_assignment_of_another_epoch_is_dropped() -> None:
    core = a_worker()

    (note,) = core.handle(wire.Assign(EPOCH - 1, (a_run(1),)), now=0.0)

    assert isinstance(note, Note)
    assert core.inventory == ()


def test_an_end_of_another_epoch_or_attempt_is_dropped() -> None:
    core = a_worker()
    assign(core, a_run(1))

    (note,) = core.handle(wire.End(EPOCH - 1, "kill", (an_attempt(1),)), now=0.0)
    assert isinstance(note, Note)
    assert end(core, "kill", now=0.0, attempt=2) == []
    assert core.handle(wire.End(EPOCH, "kill", (an_attempt(9),)), now=0.0) == []


def test_a_clean_process_is_used_again_and_its_result_is_told_at_once() -> None:
    core = a_worker()
    assign(core, a_run(1))

    effects = core.returned(1, a_return(payload=b"42"), now=3.0)
    assert result_in(effects) == a_result(1, payload=b"42", peak_bytes=0, seen=False, run_s=3.0)

    again = a_run(2)
    assert assign(core, again, now=4.0) == [begun(2), Feed(1, again, None)]


def test_another_function_of_the_same_type_is_sent_to_the_process_it_shares() -> None:
    core = a_worker()
    core.handle(wire.Blobs((Blob("g" * 64, b"other function"),)), now=0.0)
    assign(core, a_run(1))
    core.returned(1, a_return(), now=1.0)

    other = a_run(2, function="g" * 64)

    assert assign(core, other, now=2.0) == [begun(2), Feed(1, other, b"other function")]


@pytest.mark.parametrize(
    "change",
    [
        {"session": an_id(901)},
        {"job_type": "other"},
        {"context": "d" * 64},
        {"reuse": False},
    ],
)
def test_a_process_is_used_again_only_for_the_same_client_type_and_context(
    change: dict[str, Any],
) -> None:
    core = a_worker()
    core.handle(wire.Blobs((Blob("d" * 64, b"other context"),)), now=0.0)
    assign(core, a_run(1))
    core.returned(1, a_return(), now=1.0)

    effects = assign(core, a_run(2, **change), now=2.0)

    assert [one.process for one in effects if isinstance(one, Launch)] == [2]


def test_a_busy_process_is_not_used() -> None:
    core = a_worker()
    assign(core, a_run(1))

    effects = assign(core, a_run(2))

    assert [one.process for one in effects if isinstance(one, Launch)] == [2]


@pytest.mark.parametrize(
    ("run", "returned"), [(a_run(1), False), (a_run(1, reuse=False), True)]
)
def test_a_result_is_kept_back_until_a_process_that_must_go_is_gone(
    run: Run, returned: bool
) -> None:
    core = a_worker()
    assign(core, run)

    assert core.returned(1, a_return(reusable=returned), now=1.0) == [Close(1)]
    assert core.inventory == (held(1),)

    effects = core.gone(1, Gone(0, None, peak_bytes=300 * MIB), now=1.5)
    result = result_in(effects)
    assert (result.outcome, result.payload, result.run_s) == ("succeeded", b"value", 1.0)
    assert (result.exit_status, result.peak_bytes) == (None, 300 * MIB)


def test_a_process_that_does_not_leave_after_its_result_is_killed() -> None:
    core = a_worker()
    assign(core, a_run(1))
    core.returned(1, a_return(reusable=False), now=1.0)

    assert core.tick(now=1.0 + LEAVE_S - 0.1) == []
    assert core.tick(now=1.0 + LEAVE_S) == [Kill(1)]

    result = result_in(core.gone(1, Gone(None, 9), now=2.5))
    assert (result.outcome, result.signal, result.payload) == ("succeeded", None, b"value")


def test_an_exception_is_told_with_type_and_text() -> None:
    core = a_worker()
    assign(core, a_run(1))
    failed = a_return(
        outcome="failed", error_type="ValueError", error_text="boom", exit_status=1
    )

    result = result_in(core.returned(1, failed, now=1.0))

    assert (result.outcome, result.error_type, result.error_text) == (
        "failed",
        "ValueError",
        "boom",
    )
    assert result.exit_status == 1


@pytest.mark.parametrize(
    "text", ["x" * 1_000_000, "\udc80 not UTF-8", "✓" * 70_000, "\ud800" * 9000]
)
def test_any_text_of_an_exception_can_be_told(text: str) -> None:
    core = a_worker()
    assign(core, a_run(1))

    failed = a_return(outcome="failed", error_type=text, error_text=text)
    effects = core.returned(1, failed, now=1.0)

    (finished,) = replies(effects, wire.Finished)
    assert wire.decode(wire.encode(finished)) == finished
    assert finished.results[0].error_text[:1] in (text[0], "\\")


@pytest.mark.parametrize(
    ("kind", "gone", "expected"),
    [
        ("call", Gone(3, None), ("failed", 3, None, "JobExited")),
        ("call", Gone(0, None), ("failed", 0, None, "JobExited")),
        ("call", Gone(None, 11), ("killed", None, 11, "")),
        ("command", Gone(0, None), ("succeeded", 0, None, "")),
        ("command", Gone(2, None), ("failed", 2, None, "JobExited")),
        ("command", Gone(None, 9), ("killed", None, 9, "")),
    ],
)
def test_r33_a_process_that_left_without_a_word_is_told_by_its_exit(
    kind: str, gone: Gone, expected: tuple[str, int | None, int | None, str]
) -> None:
    core = a_worker()
    assign(core, a_run(1, kind=kind))

    result = result_in(core.gone(1, gone, now=1.0))

    assert (result.outcome, result.exit_status, result.signal, result.error_type) == expected
    assert core.processes == {}


def test_a_process_that_could_not_be_started_fails_its_run() -> None:
    core = a_worker()
    assign(core, a_run(1))

    result = result_in(core.launch_failed(1, "no such interpreter", now=0.5))

    assert (result.outcome, result.error_type) == ("failed", "JobNotStarted")
    assert result.error_text == "no such interpreter"
    assert core.runs == {}


def test_a_process_that_speaks_out_of_turn_changes_nothing() -> None:
    core = a_worker()
    assign(core, a_run(1))
    result = result_in(core.returned(1, a_return(), now=1.0))

    (note,) = core.returned(1, a_return(outcome="failed"), now=2.0)

    assert isinstance(note, Note)
    assert core.unrecorded[an_id(1), 1] == result


def test_the_peak_and_being_seen_are_kept_for_the_result() -> None:
    core = a_worker()
    assign(core, a_run(1), a_run(2))
    core.sampled(a_level(j1=100), now=1.0)
    core.sampled(a_level(j1=400), now=1.1)
    core.sampled(a_level(j1=200), now=1.2)

    first = result_in(core.gone(1, Gone(0, None), now=2.0))
    second = result_in(core.gone(2, Gone(0, None, peak_bytes=5), now=2.0))

    assert (first.peak_bytes, first.seen) == (400 * MIB, True)
    assert (second.peak_bytes, second.seen) == (5, False)


def test_a_report_comes_every_second_also_when_nothing_changes() -> None:
    core = a_worker()
    assert len(core.sampled(a_level(), now=1.0)) == 1

    assert core.sampled(a_level(), now=1.0 + HEARTBEAT_S - 0.1) == []
    assert len(core.sampled(a_level(), now=1.0 + HEARTBEAT_S)) == 1


@pytest.mark.parametrize(
    "level",
    [a_level(foreign=16), a_level(idle=16), a_level(j1=316), a_level(j1=284)],
)
def test_a_notable_change_is_told_at_once(level: Level) -> None:
    core = a_worker()
    assign(core, a_run(1))
    core.sampled(a_level(j1=300), now=1.0)

    (reply,) = core.sampled(level, now=1.1)

    report = wire.Report(
        0,
        level.foreign_bytes,
        level.idle_bytes,
        0.5,
        (a_use(1, used=level.by_job.get(an_id(1), 300 * MIB) // MIB),),
    )
    assert reply == Reply(report)


@pytest.mark.parametrize(
    "level", [a_level(foreign=15), a_level(j1=315), a_level(used=900, j1=300)]
)
def test_a_small_change_waits_for_the_next_report(level: Level) -> None:
    core = a_worker()
    assign(core, a_run(1))
    core.sampled(a_level(j1=300), now=1.0)

    assert core.sampled(level, now=1.1) == []


def test_small_changes_add_up_to_a_notable_one() -> None:
    core = a_worker()
    core.sampled(a_level(), now=1.0)

    told = [
        bool(core.sampled(a_level(foreign=10 * n), now=1.0 + n / 100)) for n in (1, 2, 3, 4)
    ]

    assert told == [False, True, False, True]


def test_a_broker_that_is_new_gets_a_report_at_once() -> None:
    core = a_worker()
    core.sampled(a_level(), now=1.0)

    welcome(core, EPOCH + 1, now=1.1)

    assert len(core.sampled(a_level(), now=1.2)) == 1


def test_a_worker_that_leaves_ends_everything() -> None:
    core = a_worker()
    assign(core, a_run(1), a_run(2, session=an_id(901)))
    core.returned(2, a_return(), now=1.0)

    leaving = Reply(wire.Leaving())
    assert core.end_everything(now=2.0) == [leaving, Close(2), Signal(1, SIGTERM)]
    assert core.end_everything(now=3.0) == []
    kills = [one for one in core.tick(now=2.0 + GRACE_S) if isinstance(one, Kill)]
    assert sorted(one.process for one in kills) == [1, 2]


def test_a_message_that_is_not_for_workers_is_ignored() -> None:
    (note,) = a_worker().handle(wire.AskDevices(), now=0.0)

    assert isinstance(note, Note)


def test_contexts_functions_and_payload_are_not_in_the_repr_of_effects() -> None:
    effects = assign(a_worker(), a_run(1, payload=b"SECRET"))

    shown = repr(effects)
    assert "SECRET" not in shown
    assert "b'context'" not in shown
    assert "b'function'" not in shown


def test_the_blob_that_was_not_used_for_longest_falls_out_and_is_asked_for_again() -> None:
    core = a_worker()
    for number in range(256):
        core.handle(wire.Blobs((Blob(f"blob {number}", b""),)), now=0.0)

    effects = assign(core, a_run(1))

    assert effects == [Reply(wire.Want((CONTEXT.digest, FUNCTION.digest)))]
