"""F28, F31: workers that come back from another boot, or with jobs that nobody gave them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq import wire
from grn_zmq.paths import Places, find_places, state_file
from grn_zmq.records import AttemptId, JobSpec, Run
from tests.builders import a_greet, a_hello, a_report, a_result, a_spec, an_id, held
from tests.faults.chronicle import Chronicle
from tests.faults.ledger import outcomes_in
from tests.faults.peers import Peer, Peers, lonely_broker
from tests.waiting import until

pytestmark = pytest.mark.e2e


@pytest.fixture
def places(home: Path) -> Places:
    return find_places(os.environ)


@pytest.fixture
def peers() -> Iterator[Peers]:
    made = Peers()
    yield made
    made.close()


@pytest.fixture
def chronicle(tmp_path: Path) -> Chronicle:
    return Chronicle(tmp_path)


def assigned(worker: Peer, count: int) -> list[Run]:
    """Wait until so many attempts were given to a worker."""
    runs: list[Run] = []
    while len(runs) < count:
        runs += worker.hear(wire.Assign).runs
        worker.say(a_report())
    return runs


def submit(client: Peer, *specs: JobSpec) -> list[str]:
    """Submit, and wait until all is accepted."""
    client.say(a_hello(), wire.Submit(specs))
    accepted: list[str] = []
    while len(accepted) < len(specs):
        accepted += [one.job_id for one in client.hear(wire.Accepted).jobs]
    return accepted


def test_f28_what_a_worker_had_before_a_reboot_is_lost_or_tried_again(
    places: Places, peers: Peers, chronicle: Chronicle
) -> None:
    small = 10 << 20
    specs = [
        a_spec(1, memory_bytes=small, detached=True),
        a_spec(2, memory_bytes=small, detached=True, retries=1),
        a_spec(3, memory_bytes=small, detached=True),
    ]
    with lonely_broker(places) as (broker, address):
        worker = peers.connect(address.workers)
        worker.say(a_greet(incarnation=an_id(801), greeting=1), a_report())
        worker.hear(wire.Welcome)
        chronicle.submitted("client", specs, stays=True)
        chronicle.accepted("client", submit(peers.connect(address.clients), *specs))
        first = assigned(worker, 3)
        chronicle.ran([one for one in first if one.job_id != an_id(3)], whole=False)
        chronicle.ran([one for one in first if one.job_id == an_id(3)])
        worker.close()
        broker.process.kill()
        broker.ended()

    with lonely_broker(places) as (broker, address):
        worker = peers.connect(address.workers)
        # Its disk had one result; of the others nothing is left, or nothing but the start.
        left = (held(1, state="interrupted"), held(3, state="finished"))
        worker.say(
            a_greet(incarnation=an_id(802), boot_id="next boot", greeting=1, inventory=left)
        )
        epoch = worker.hear(wire.Welcome).epoch
        worker.say(wire.Finished(epoch, (a_result(3),)), a_report())
        client = peers.connect(address.clients)
        client.say(a_hello(901), wire.Attach(tuple(an_id(n) for n in (1, 2, 3))))

        again = worker.hear(wire.Assign)
        assert [(run.job_id, run.attempt) for run in again.runs] == [(an_id(2), 2)]
        chronicle.ran(again.runs)
        worker.say(wire.Finished(epoch, (a_result(2, attempt=2),)))
        ends: dict[str, str] = {}
        while len(ends) < 3:
            outcomes = client.hear(wire.Ended).outcomes
            chronicle.told("client", outcomes)
            ends |= {one.job_id: one.outcome for one in outcomes}

    assert ends == {an_id(1): "lost", an_id(2): "succeeded", an_id(3): "succeeded"}
    checker = chronicle.checker(state_file(os.environ))
    checker.assert_clean(also={"lost"})
    assert checker.starts() == {an_id(1): 1, an_id(2): 2, an_id(3): 1}


def test_f31_a_job_that_nobody_gave_is_not_taken_over(
    places: Places, peers: Peers, chronicle: Chronicle
) -> None:
    stranger = AttemptId(an_id(31), 1)
    with lonely_broker(places) as (broker, address):
        before = outcomes_in(state_file(os.environ))
        worker = peers.connect(address.workers)
        claimed = (held(31, state="finished"),)
        worker.say(a_greet(incarnation=an_id(831), greeting=1, inventory=claimed))
        epoch = worker.hear(wire.Welcome).epoch
        assert worker.hear(wire.Unknown).attempts == (stranger,)

        worker.say(wire.Finished(epoch, (a_result(31),)))

        assert worker.hear(wire.Unknown).attempts == (stranger,)
        client = peers.connect(address.clients)
        client.say(a_hello(902), wire.AskJobs(0, True))
        rows = client.hear(wire.JobsAre).rows
        assert an_id(31) not in [row.job_id for row in rows]
        until(lambda: "a worker has a job nobody gave it" in broker.err, 5)
        assert broker.err.count("a worker has a job nobody gave it") == 1
    assert outcomes_in(state_file(os.environ)) == before
    assert an_id(31) not in chronicle.checker(state_file(os.environ)).starts()
