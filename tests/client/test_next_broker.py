"""A client over the deaths of its brokers and over cut streams; the broker is played."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from broker.settings import Settings
from grn_zmq import failpoints, hearing, pending, wire
from grn_zmq.client import Client
from grn_zmq.payload import dump_value
from grn_zmq.records import Blob, JobSpec, Outcome, Released
from tests.builders import a_spec, an_id, an_outcome
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


def value(number: int, result: object) -> Outcome:
    return an_outcome(number, payload=dump_value(result).joined())


def test_r99_a_waiting_client_is_told_by_the_next_broker(
    broker: ScriptedBroker, client: Client
) -> None:
    future = client.submit(a_spec(1), ()).future
    broker.accept(*broker.hear(wire.Submit).jobs)
    until(client.pending[an_id(1)].accepted.is_set)
    session = client.session

    broker.die()
    with a_broker(epoch=2) as second:
        assert second.welcome().session == session
        assert second.hear(wire.Attach).job_ids == (an_id(1),)
        second.end(value(1, "kept"))

        assert future.result(5 * PATIENCE) == "kept"
        assert second.hear(wire.Received).job_ids == (an_id(1),)


def test_what_was_not_accepted_is_submitted_again_with_its_blobs(
    broker: ScriptedBroker, client: Client
) -> None:
    blob = Blob("d" * 64, b"function")
    client.submit(a_spec(1, function=blob.digest), (blob,))
    broker.hear(wire.Submit)

    broker.die()
    client.submit(a_spec(2, function=blob.digest), (blob,))  # while nobody is there
    with a_broker(epoch=2) as second:
        second.welcome()

        assert second.hear(wire.Blobs).blobs == (blob,)
        assert [job.job_id for job in second.hear(wire.Submit).jobs] == [an_id(1), an_id(2)]
        assert second.quiet()


def test_a_question_and_a_release_are_repeated(broker: ScriptedBroker, client: Client) -> None:
    pending = client.submit(a_spec(1, kind="inline"), (), inline=True)
    broker.accept(*broker.hear(wire.Submit).jobs)
    broker.begin(an_id(1))
    assert pending.begun is not None
    assert pending.begun.get(timeout=5 * PATIENCE) is not None
    asked: list[wire.DevicesAre] = []
    asking = threading.Thread(
        target=lambda: asked.append(client.ask(wire.AskDevices(), wire.DevicesAre))
    )
    asking.start()
    broker.hear(wire.AskDevices)

    broker.die()
    client.release(an_id(1), 1, failed=False)
    with a_broker(epoch=2) as second:
        second.welcome()
        assert second.hear(wire.Release).runs == (Released(an_id(1), 1, False),)
        second.hear(wire.AskDevices)
        second.say(wire.DevicesAre(()))
        asking.join(5 * PATIENCE)

        assert asked == [wire.DevicesAre(())]
        second.begin(an_id(1))  # repeated by its worker: no second start
        second.end(an_outcome(1, payload=b""))
        assert pending.begun.get(timeout=5 * PATIENCE) is None


def test_r98_a_cancel_without_a_broker_is_sent_to_the_next(
    broker: ScriptedBroker, client: Client
) -> None:
    future = client.submit(a_spec(1), ()).future
    broker.accept(*broker.hear(wire.Submit).jobs)
    until(client.pending[an_id(1)].accepted.is_set)

    broker.die()
    future.ask_to_cancel()
    with a_broker(epoch=2) as second:
        second.welcome()

        assert second.hear(wire.Cancel).job_ids == (an_id(1),)
        second.say(wire.Cancelling((an_id(1),)))
        second.end(an_outcome(1, outcome="cancelled"))
        until(future.cancelled)


def test_a_job_that_no_broker_has_seen_is_cancelled_here(
    broker: ScriptedBroker, client: Client
) -> None:
    first = client.submit(a_spec(1), ()).future  # keeps the client waiting for a broker
    broker.hear(wire.Submit)
    broker.die()
    until(lambda: not client._connection.is_open)  # type: ignore[union-attr]

    future = client.submit(a_spec(2), ()).future

    assert future.cancel()
    assert future.cancelled()
    assert not first.done()


def test_a_broker_that_does_not_know_us_is_greeted_again(
    broker: ScriptedBroker, client: Client
) -> None:
    client.submit(a_spec(1), ())
    broker.hear(wire.Submit)
    broker.say(wire.Refused("greet-first", "who are you?", ()))

    broker.welcome()

    assert broker.hear(wire.Submit).jobs == (a_spec(1),)


def test_f65_a_cut_stream_is_greeted_again_and_all_is_repeated(
    broker: ScriptedBroker, client: Client
) -> None:
    client.submit(a_spec(1), ())
    broker.accept(*broker.hear(wire.Submit).jobs)
    until(client.pending[an_id(1)].accepted.is_set)
    client.submit(a_spec(2), ())
    broker.hear(wire.Submit)

    broker.cut()  # the process lives on

    broker.welcome()
    assert broker.hear(wire.Submit).jobs == (a_spec(2),)
    assert broker.hear(wire.Attach).job_ids == (an_id(1),)


def test_what_is_told_twice_counts_once_and_is_answered_twice(
    broker: ScriptedBroker, client: Client
) -> None:
    future = client.submit(a_spec(1), ()).future
    calls: list[object] = []
    future.add_done_callback(calls.append)
    jobs = broker.hear(wire.Submit).jobs
    for _ in range(2):
        broker.accept(*jobs)
        broker.begin(an_id(1))
    for _ in range(2):
        broker.end(value(1, 7))
        assert broker.hear(wire.Received).job_ids == (an_id(1),)

    assert future.result(5 * PATIENCE) == 7
    until(lambda: calls == [future])


def test_no_more_jobs_are_on_their_way_than_there_are_credits(home: Path) -> None:
    with a_broker(granted=3) as broker, a_client() as client:
        connect(client, broker)
        for number in range(1, 8):
            client.submit(a_spec(number), ())

        seen = heard_jobs(broker, 3)
        assert broker.quiet()
        broker.accept(seen[0])
        broker.say(wire.Refused("queue-full", "full", (seen[1].job_id,)))
        seen += heard_jobs(broker, 2)
        assert broker.quiet()
        broker.accept(*seen[2:])
        seen += heard_jobs(broker, 2)

        assert [job.job_id for job in seen] == [an_id(number) for number in range(1, 8)]


def heard_jobs(broker: ScriptedBroker, count: int) -> list[JobSpec]:
    jobs: list[JobSpec] = []
    while len(jobs) < count:
        jobs += broker.hear(wire.Submit).jobs
    return jobs


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("queue-full", grn.QueueFull),
        ("disk-full", grn.DiskFull),
        ("draining", grn.Draining),
        ("id-conflict", grn.IdConflict),
        ("quarantined", grn.Quarantined),
        ("result-expired", grn.ResultExpired),
        ("unknown-job", grn.UnknownJob),
        ("something-new", grn.RequestRefused),
    ],
)
def test_every_refusal_has_an_error_of_its_own(
    broker: ScriptedBroker, client: Client, reason: str, error: type[Exception]
) -> None:
    future = client.submit(a_spec(1), ()).future
    broker.hear(wire.Submit)
    broker.say(wire.Refused(reason, "because", (an_id(1),)))

    with pytest.raises(error):
        future.result(5 * PATIENCE)


def test_a_broker_that_stays_away_is_given_up_and_the_job_stays_valid(home: Path) -> None:
    with a_broker() as broker, a_client(patience_s=0.4) as client:
        connect(client, broker)
        taken, open_ = (client.submit(a_spec(number), ()).future for number in (1, 2))
        heard_jobs(broker, 2)
        broker.accept(a_spec(1))
        until(client.pending[an_id(1)].accepted.is_set)

        broker.die()

        with pytest.raises(grn.BrokerUnavailable, match=rf"valid.*grn.attach\('{an_id(1)}'\)"):
            taken.result(5 * PATIENCE)
        with pytest.raises(grn.BrokerUnavailable, match="may have been accepted"):
            open_.result(5 * PATIENCE)
        started = time.monotonic()
        with pytest.raises(grn.BrokerUnavailable, match="no broker is running"):
            client.attach(an_id(1))
        assert time.monotonic() - started < 1.5 * PATIENCE


def test_an_idle_client_does_not_look_for_a_broker_until_it_needs_one(home: Path) -> None:
    with a_broker() as broker, a_client() as client:
        connect(client, broker)
        broker.die()
        until(lambda: client._connection is None)

        submitted: list[object] = []
        thread = threading.Thread(
            target=lambda: submitted.append(client.submit(a_spec(1), ()).future)
        )
        thread.start()  # connected before: waits, though nobody holds the lock
        with a_broker(epoch=2) as second:
            second.welcome()
            assert second.hear(wire.Submit).jobs == (a_spec(1),)
            thread.join(5 * PATIENCE)
            assert submitted


def test_another_version_after_an_upgrade_ends_the_wait(
    broker: ScriptedBroker, client: Client
) -> None:
    future = client.submit(a_spec(1), ()).future
    broker.hear(wire.Submit)
    broker.die()
    with a_broker(epoch=2) as second:
        second.hear(wire.Hello)
        second.say(wire.Refused("version", "the broker speaks protocol 9", ()))

        with pytest.raises(grn.VersionMismatch, match="protocol 9"):
            future.result(5 * PATIENCE)


def test_a_silent_broker_is_asked_for_its_jobs(
    broker: ScriptedBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grn_zmq.pending.PULL_S", 0.1)
    monkeypatch.setattr("grn_zmq.hearing.LOOK_S", 0.05)
    client.submit(a_spec(1), ())
    broker.accept(*broker.hear(wire.Submit).jobs)

    assert broker.hear(wire.Attach).job_ids == (an_id(1),)


def test_f64_a_broker_is_asked_before_it_gives_up_a_client_it_mistakes_for_away() -> None:
    assert Settings().away_s > pending.PULL_S + hearing.LOOK_S


def test_f45_the_failpoints_of_a_client_are_passed(
    broker: ScriptedBroker, client: Client, tmp_path: Path
) -> None:
    names = ("client.submit.sent", "client.accepted", "client.ended")
    for name in names:
        (tmp_path / name).write_text("sleep 0")
    failpoints.arm(tmp_path)
    try:
        future = client.submit(a_spec(1), ()).future
        broker.accept(*broker.hear(wire.Submit).jobs)
        broker.end(value(1, None))
        assert future.result(5 * PATIENCE) is None
        broker.hear(wire.Received)
    finally:
        failpoints.arm(None)

    assert not os.listdir(tmp_path)
