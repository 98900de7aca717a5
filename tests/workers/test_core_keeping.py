"""What a worker keeps for later calls, and what it lets go: job processes, functions."""

import pytest

from grn_zmq import wire
from grn_zmq.records import Blob, Run
from tests.builders import HOST_0, a_run, an_id
from tests.workers.acting import CONTEXT, FUNCTION, a_return, a_worker, assign, begun
from workers import blobcache
from workers.blobcache import BlobCache
from workers.core import MOST_IDLE, WorkerCore
from workers.effects import Close, Effect, Feed, Kill, Launch, Reply
from workers.ending import LEAVE_S
from workers.events import Gone

OTHER_CONTEXT = "d" * 64
OTHER_FUNCTION = "g" * 64


def a_worker_with_all_blobs() -> WorkerCore:
    core = a_worker()
    others = Blob(OTHER_CONTEXT, b"other context"), Blob(OTHER_FUNCTION, b"other function")
    core.handle(wire.Blobs(others), now=0.0)
    return core


def use(core: WorkerCore, run: Run, now: float) -> list[Effect]:
    """Let a run begin and return; its process is idle from `now` on."""
    begun = assign(core, run, now=now)
    return [*begun, *core.returned(core.runs[run.job_id].process or 0, a_return(), now=now)]


def closed(effects: list[Effect]) -> list[int]:
    return [one.process for one in effects if isinstance(one, Close)]


def test_a_changed_context_ends_the_idle_process_of_the_old_one() -> None:
    core = a_worker_with_all_blobs()
    use(core, a_run(1), now=1.0)

    effects = assign(core, a_run(2, context=OTHER_CONTEXT), now=2.0)

    assert effects[:2] == [Close(1), Launch(2, b"other context", (HOST_0,))]
    assert core.tick(now=2.0 + LEAVE_S) == [Kill(1)]


def test_processes_of_other_types_and_clients_stay_when_a_context_changes() -> None:
    core = a_worker_with_all_blobs()
    assign(core, a_run(1, job_type="other"), a_run(2, session=an_id(901)), a_run(3), now=1.0)
    for process in (1, 2, 3):
        core.returned(process, a_return(), now=1.0)

    effects = assign(core, a_run(4, context=OTHER_CONTEXT), now=2.0)

    assert closed(effects) == [3]


def test_a_busy_process_of_the_old_context_goes_on() -> None:
    core = a_worker_with_all_blobs()
    assign(core, a_run(1), now=1.0)

    assert closed(assign(core, a_run(2, context=OTHER_CONTEXT), now=2.0)) == []


def test_at_most_so_many_idle_processes_are_kept_and_the_longest_idle_go_first() -> None:
    core = a_worker()
    for number in range(1, MOST_IDLE + 1):
        assert closed(use(core, a_run(number, job_type=f"type {number}"), now=number)) == []

    more = [
        closed(use(core, a_run(number, job_type=f"type {number}"), now=number))
        for number in (MOST_IDLE + 1, MOST_IDLE + 2)
    ]

    assert more == [[1], [2]]
    assert len(core.processes.idle()) == MOST_IDLE


def test_a_process_that_is_being_ended_is_not_ended_twice_nor_used() -> None:
    core = a_worker_with_all_blobs()
    use(core, a_run(1), now=1.0)
    use(core, a_run(2, context=OTHER_CONTEXT), now=2.0)

    effects = assign(core, a_run(3), now=2.1)

    assert closed(effects) == [2]
    assert [one.process for one in effects if isinstance(one, Launch)] == [3]
    core.gone(1, Gone(0, None), now=2.2)
    assert core.tick(now=2.1 + LEAVE_S) == [Kill(2)]


def test_a_process_keeps_its_last_function_only() -> None:
    core = a_worker_with_all_blobs()
    runs = [
        a_run(number, function=function)
        for number, function in enumerate(
            [FUNCTION.digest, OTHER_FUNCTION, FUNCTION.digest, FUNCTION.digest], start=1
        )
    ]

    fed = [one for run in runs for one in use(core, run, now=1.0) if isinstance(one, Feed)]

    assert [(one.process, one.function) for one in fed] == [
        (1, b"function"),
        (1, b"other function"),
        (1, b"function"),
        (1, None),
    ]


def test_an_inline_run_and_a_call_of_one_assignment_both_begin() -> None:
    core = a_worker()

    effects = assign(core, a_run(1, kind="inline", function="", context=""), a_run(2))

    assert begun(1) in effects
    assert begun(2) in effects
    assert [one.process for one in effects if isinstance(one, Launch)] == [1]


def kept(cache: BlobCache, names: str) -> str:
    return "".join(name for name in names if name in cache)


def test_functions_and_contexts_are_bounded_by_their_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blobcache, "KEEP_BYTES", 100)
    cache = BlobCache()
    for name in "abc":
        cache.put(name, bytes(33))
    cache.get("a")

    cache.put("d", bytes(33))

    assert kept(cache, "abcd") == "acd"


def test_what_a_run_waits_with_is_kept_and_so_is_what_just_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blobcache, "KEEP_BYTES", 100)
    cache = BlobCache()
    cache.put("a", bytes(60))
    cache.put("b", bytes(30))

    cache.put("c", bytes(1000), needed={"a"})

    assert kept(cache, "abc") == "ac"


def test_a_context_that_fell_out_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobcache, "KEEP_BYTES", 100)
    core = a_worker()
    core.handle(wire.Blobs((Blob(OTHER_FUNCTION, bytes(100)),)), now=0.0)

    effects = assign(core, a_run(1))

    assert effects == [Reply(wire.Want((CONTEXT.digest, FUNCTION.digest)))]
