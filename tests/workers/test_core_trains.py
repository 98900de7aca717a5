"""Trains on bad days: what may have run never goes back, and nobody is forgotten."""

from dataclasses import replace

from grn_zmq import wire
from grn_zmq.records import Run
from grn_zmq.tails import Tail
from tests.builders import a_run, an_id
from tests.workers.acting import EPOCH, a_worker
from workers.core import WorkerCore
from workers.effects import Effect, FeedTrain, Keep, Reply, TakeBack
from workers.events import Gone
from workers.spoollog import StartRecord, TrainRecord


def a_train(*numbers: int) -> Run:
    first, *rest = numbers
    count = len(rest)
    tail = Tail(tuple(map(an_id, rest)), (1,) * count, tuple(rest), (b"",) * count)
    return replace(a_run(first), tail=tail)


def assign(core: WorkerCore, run: Run) -> list[Effect]:
    effects = core.handle(wire.Assign(EPOCH, (run,)), 0.0)
    records = [one.record for one in effects if isinstance(one, Keep)]
    begins = any(isinstance(one, StartRecord | TrainRecord) for one in records)
    return [*effects, *(core.kept(0.0) if begins else [])]


def fed(core: WorkerCore, run: Run) -> int:
    """Let it take a train; give the process that has the calls."""
    effects = assign(core, run)
    (feed,) = [one for one in effects if isinstance(one, FeedTrain)]
    core.ready(feed.process, 0.0)
    return feed.process


def given_back(effects: list[Effect]) -> set[str]:
    said = [one.message for one in effects if isinstance(one, Reply)]
    return {a.job_id for one in said if isinstance(one, wire.GivenBack) for a in one.attempts}


def outcomes(effects: list[Effect]) -> dict[str, str]:
    said = [one.message for one in effects if isinstance(one, Reply)]
    found = {
        r.job_id: r.outcome for m in said if isinstance(m, wire.Finished) for r in m.results
    }
    plain = [one for m in said if isinstance(m, wire.Returned) for one in m.job_ids]
    return {**found, **dict.fromkeys(plain, "succeeded")}


def test_what_answered_before_a_worker_leaves_is_told_and_nothing_that_ran_goes_back() -> None:
    core = a_worker()
    key = fed(core, a_train(1, 2, 3, 4))
    core.trains.values(key, [0.001], [b"1"], 0.1)
    effects = core.end_everything(0.2)

    # These had answered before, and the last one had begun.
    effects += core.trains.values(key, [0.001, 0.001], [b"2", b"3"], 0.2)
    effects += core.trains.taken_back(key, 0, 0.3, over=True)
    effects += core.gone(key, Gone(None, 15), 0.3)

    ended = outcomes(effects)
    assert (ended[an_id(2)], ended[an_id(3)]) == ("succeeded", "succeeded")
    assert an_id(4) in ended
    assert given_back(effects) == set()


def test_what_never_began_goes_back_when_its_process_is_gone() -> None:
    core = a_worker()
    key = fed(core, a_train(1, 2, 3))

    effects = core.trains.taken_back(key, 2, 0.1, over=True)
    effects += core.gone(key, Gone(None, 9), 0.1)

    assert given_back(effects) == {an_id(2), an_id(3)}
    assert outcomes(effects) == {an_id(1): "killed"}


def test_f30_a_train_that_is_declined_goes_back_whole() -> None:
    core = a_worker()
    core.not_kept("No space left on device")

    effects = assign(core, a_train(1, 2, 3))

    said = [one.message for one in effects if isinstance(one, Reply)]
    (declined,) = [one for one in said if isinstance(one, wire.Declined)]
    assert [one.job_id for one in declined.attempts] == [an_id(1)]
    assert given_back(effects) == {an_id(2), an_id(3)}


def test_an_order_about_an_earlier_packet_is_void() -> None:
    core = a_worker()
    key = fed(core, a_train(*range(1, 301)))
    (order,) = [
        one for one in core.handle(wire.Recall(EPOCH), 0.1) if isinstance(one, TakeBack)
    ]
    assert not core.trains.is_over(key, order.packet)

    again = a_worker()
    key = fed(again, a_train(*range(1, 301)))
    again.trains.values(key, [0.001] * 256, [b"v"] * 256, 0.1)

    assert again.trains.is_over(key, order.packet)
