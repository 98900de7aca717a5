"""Many calls of one function: sent together, taken and ended together; the broker is played."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from grn_zmq import link, wire
from grn_zmq.calling import prepare
from grn_zmq.client import Client
from grn_zmq.futures import Future
from grn_zmq.limits import PARCEL_BYTES
from grn_zmq.payload import dump_value, load_arguments
from grn_zmq.pending import Pending
from grn_zmq.records import Outcome
from grn_zmq.submission import new_id
from grn_zmq.templates import Template
from tests.builders import a_spec, an_outcome
from tests.client import worked
from tests.client.scripted import ScriptedBroker, a_broker, a_client, connect
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def broker(home: Path) -> Iterator[ScriptedBroker]:
    with a_broker() as played:
        yield played


@pytest.fixture
def client(broker: ScriptedBroker) -> Iterator[Client]:
    with a_client() as ours:
        connect(ours, broker)
        yield ours


def submit(client: Client, *numbers: int, job: Any = worked.decorated) -> list[Future[Any]]:
    jobs = [prepare(client, job, (number,), {}) for number in numbers]
    client.submit_all(jobs)
    return [one.future for one in jobs]


def heard_calls(broker: ScriptedBroker, count: int) -> list[str]:
    ids: list[str] = []
    while len(ids) < count:
        ids += broker.hear(wire.Calls).job_ids
    return ids


def values(ids: list[str], *results: object, **changes: Any) -> wire.Values:
    none = (0.0,) * len(ids)
    payloads = tuple(dump_value(one).joined() for one in results)
    return wire.Values(an_outcome(99, **changes), tuple(ids), none, none, payloads)


def ids_of(futures: list[Future[Any]]) -> list[str]:
    return [one.job_id for one in futures]


def test_calls_of_one_function_travel_together_after_what_they_share(
    broker: ScriptedBroker, client: Client
) -> None:
    futures = submit(client, 1, 2, 3)

    calls = broker.hear(wire.Calls)

    assert list(calls.job_ids) == ids_of(futures)
    assert [load_arguments(one) for one in calls.payloads] == [((n,), {}) for n in (1, 2, 3)]
    shared = [
        one for said in broker.heard if isinstance(said, wire.Blobs) for one in said.blobs
    ]
    assert [one.digest for one in shared] == [calls.like.function, calls.like.context]
    submit(client, 4)
    broker.hear(wire.Calls)
    assert sum(isinstance(said, wire.Blobs) for said in broker.heard) == 2


def test_calls_of_other_functions_keep_their_place(
    broker: ScriptedBroker, client: Client
) -> None:
    other = worked.decorated.with_options(priority=1)
    jobs = [
        prepare(client, job, (1,), {})
        for job in (worked.decorated, other, other, worked.decorated)
    ]
    client.submit_all(jobs)

    heard = [broker.hear(wire.Calls) for _ in range(3)]

    assert [len(one.job_ids) for one in heard] == [1, 2, 1]
    assert [one.like.priority for one in heard] == [0, 1, 0]
    assert [job_id for one in heard for job_id in one.job_ids] == [one.job_id for one in jobs]


def test_a_broker_of_the_protocol_before_hears_of_each_call_by_itself(
    broker: ScriptedBroker,
) -> None:
    with a_client() as client:
        thread = threading.Thread(target=client.connect)
        thread.start()
        broker.hear(wire.Hello)
        broker.say(wire.Welcome(wire.PROTOCOL_BEFORE, 1, os.getpid(), 0, 1024))
        thread.join()
        futures = submit(client, 1, 2)

        jobs = broker.hear(wire.Submit).jobs

        assert [one.job_id for one in jobs] == ids_of(futures)
        assert [load_arguments(one.payload)[0] for one in jobs] == [(1,), (2,)]


def test_what_is_told_of_many_at_once_settles_each_and_is_received_once(
    broker: ScriptedBroker, client: Client
) -> None:
    futures = submit(client, 1, 2, 3)
    ids = heard_calls(broker, 3)
    broker.say(wire.Taken(7, tuple(ids)))
    until(lambda: all(client.pending[one].is_accepted for one in ids))
    assert [client.pending[one].number for one in ids] == [7, 8, 9]

    for _ in range(2):
        broker.say(values(ids, "a", {"b": [1.5, None]}, b"c"))
        assert broker.hear(wire.Received).job_ids == tuple(ids)

    assert [one.result(5 * PATIENCE) for one in futures] == ["a", {"b": [1.5, None]}, b"c"]
    assert not client.pending


def test_ends_that_are_told_in_a_row_are_received_together_and_soon(
    broker: ScriptedBroker, client: Client
) -> None:
    ids = ids_of(submit(client, *range(50)))
    heard_calls(broker, 50)
    for job_id in ids:
        broker.say(values([job_id], 1))

    received: list[str] = []
    messages = 0
    while len(received) < 50:
        received += broker.hear(wire.Received).job_ids
        messages += 1

    assert received == ids
    assert messages < 25


def test_the_outcome_of_one_of_many_is_its_own(broker: ScriptedBroker, client: Client) -> None:
    (first, second) = submit(client, 1, 2)
    ids = heard_calls(broker, 2)
    assert first.outcome is None
    payloads = (dump_value(1).joined(), dump_value(worked.Opened()).joined())
    like = an_outcome(99, peak_bytes=77)
    broker.say(wire.Values(like, tuple(ids), (0.25, 0.5), (1.25, 1.5), payloads))

    for future, wait_s, run_s, payload in zip(
        (first, second), (0.25, 0.5), (1.25, 1.5), payloads, strict=True
    ):
        future.result(5 * PATIENCE)
        found = future.outcome
        assert isinstance(found, Outcome)
        assert (found.job_id, found.peak_bytes) == (future.job_id, 77)
        assert (found.wait_s, found.run_s, found.payload) == (wait_s, run_s, payload)
        assert future.outcome is found


def test_code_of_the_user_runs_neither_where_messages_are_received_nor_before_its_turn(
    broker: ScriptedBroker, client: Client
) -> None:
    futures = submit(client, 1, 2, 3)
    called: list[str] = []
    for future in futures:
        future.add_done_callback(lambda _: called.append(threading.current_thread().name))
    ids = heard_calls(broker, 3)

    broker.say(values(ids, 1, worked.Opened(), 3))

    opened = futures[1].result(5 * PATIENCE)
    assert opened.thread == "grn-opener"
    until(lambda: called == ["grn-opener"] * 3)


def test_a_value_that_hangs_holds_up_no_other_of_its_message(
    broker: ScriptedBroker, client: Client
) -> None:
    futures = submit(client, *range(4))
    ids = heard_calls(broker, 4)

    with worked.hanging():
        broker.say(values(ids, 1, worked.Hangs(), worked.Opened(), 4))

        assert futures[0].result(5 * PATIENCE) == 1
        assert futures[3].result(5 * PATIENCE) == 4
        assert futures[2].result(10 * PATIENCE).thread == "grn-opener"
        assert not futures[1].done()
    futures[1].result(5 * PATIENCE)


def test_a_value_that_cannot_be_opened_fails_its_own_job(
    broker: ScriptedBroker, client: Client
) -> None:
    futures = submit(client, 1, 2)
    ids = heard_calls(broker, 2)
    none = (0.0, 0.0)
    broker.say(
        wire.Values(
            an_outcome(99), tuple(ids), none, none, (b"nonsense", dump_value(2).joined())
        )
    )

    with pytest.raises(grn.JobFailed, match="cannot be unpickled") as caught:
        futures[0].result(5 * PATIENCE)
    assert caught.value.job_id == futures[0].job_id
    assert futures[1].result(5 * PATIENCE) == 2


def test_after_a_cut_what_was_not_answered_is_sent_again_with_what_it_shares(
    broker: ScriptedBroker, client: Client
) -> None:
    ids = ids_of(submit(client, 1, 2, 3))
    heard_calls(broker, 3)
    broker.say(wire.Taken(1, (ids[0],)))
    until(lambda: client.pending[ids[0]].is_accepted)

    broker.cut()
    broker.welcome()

    assert len(broker.hear(wire.Blobs).blobs) == 1
    again = broker.hear(wire.Calls)
    assert list(again.job_ids) == ids[1:]
    assert [load_arguments(one)[0] for one in again.payloads] == [(2,), (3,)]
    assert broker.hear(wire.Attach).job_ids == (ids[0],)


def test_one_of_many_is_refused_alone(broker: ScriptedBroker, client: Client) -> None:
    futures = submit(client, 1, 2)
    ids = heard_calls(broker, 2)
    broker.say(wire.Refused("queue-full", "full", (ids[0],)))
    broker.say(values(ids[1:], 2))

    with pytest.raises(grn.QueueFull):
        futures[0].result(5 * PATIENCE)
    assert futures[1].result(5 * PATIENCE) == 2


def test_calls_that_cannot_be_said_are_refused_alone(
    broker: ScriptedBroker, client: Client
) -> None:
    wrong = Template(a_spec(9, job_type="\ud800"), ())
    jobs = [Pending(None, Future(new_id(), client), (), wrong, b"x") for _ in range(2)]
    fine = prepare(client, worked.decorated, (1,), {})
    client.submit_all([*jobs, fine])

    assert heard_calls(broker, 1) == [fine.job_id]
    for one in jobs:
        with pytest.raises(grn.RequestRefused, match="cannot be sent"):
            one.future.result(5 * PATIENCE)


def test_a_message_carries_no_more_calls_and_bytes_than_it_may(
    broker: ScriptedBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = Template(a_spec(9), ())
    large = bytes(link.MAX_BATCH_BYTES // 2 - 1)
    jobs = [Pending(None, Future(new_id(), client), (), template, large) for _ in range(3)]
    client.submit_all(jobs)
    assert [len(broker.hear(wire.Calls).job_ids) for _ in range(2)] == [2, 1]

    monkeypatch.setattr(wire, "MAX_CALLS_PER_MESSAGE", 100)
    submit(client, *range(250))
    assert [len(broker.hear(wire.Calls).job_ids) for _ in range(3)] == [100, 100, 50]


def test_what_no_broker_has_heard_of_is_cancelled_here(home: Path) -> None:
    with a_broker(granted=1) as broker, a_client() as client:
        connect(client, broker)
        futures = submit(client, *range(5))
        heard_calls(broker, 1)

        assert all(one.cancel() for one in futures[1:4])

        assert [one.cancelled() for one in futures] == [False, True, True, True, False]
        broker.say(wire.Taken(1, (futures[0].job_id,)))
        assert heard_calls(broker, 1) == [futures[4].job_id]


def test_a_question_comes_after_the_calls_before_it(
    broker: ScriptedBroker, client: Client
) -> None:
    submit(client, 1)
    heard_calls(broker, 1)  # from here on more are gathered
    submit(client, 2)
    asking = threading.Thread(target=client.ask, args=(wire.AskDevices(), wire.DevicesAre))
    asking.start()
    broker.hear(wire.AskDevices)
    broker.say(wire.DevicesAre(()))
    asking.join()

    heard = [type(one) for one in broker.heard]
    assert heard[-2:] == [wire.Calls, wire.AskDevices]


def test_large_arguments_travel_as_a_file_of_their_own(
    broker: ScriptedBroker, client: Client
) -> None:
    pending = prepare(client, worked.decorated, (bytes(2 * PARCEL_BYTES),), {})
    client.submit_all([pending])

    (spec,) = broker.hear(wire.Submit).jobs

    assert (spec.job_id, spec.payload) == (pending.job_id, b"")
    assert spec.token


@contextmanager
def answering(broker: ScriptedBroker) -> Iterator[None]:
    """Let a thread play a broker that runs everything at once."""
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            message = broker.next(0.02)
            if isinstance(message, wire.Calls):
                ids = list(message.job_ids)
                given = [load_arguments(one)[0][0] for one in message.payloads]
                broker.say(wire.Taken(1, tuple(ids)))
                broker.say(values(ids, *given))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_whoever_waits_is_never_left_waiting(broker: ScriptedBroker, client: Client) -> None:
    wrong: list[object] = []

    def work(thread: int) -> None:
        for number in range(100):
            futures = submit(client, *(1000 * thread + number + n for n in range(number % 4)))
            got = [future.result(5 * PATIENCE) for future in futures]
            if got != [1000 * thread + number + n for n in range(number % 4)]:
                wrong.append(got)
            if number % 10 == thread:
                time.sleep(0.002)  # so that the client falls asleep

    with answering(broker):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert not wrong
    assert not client.pending


def test_a_call_that_nobody_waits_for_is_sent_soon(
    broker: ScriptedBroker, client: Client
) -> None:
    for number in range(20):
        submit(client, number)
        heard_calls(broker, 1)
