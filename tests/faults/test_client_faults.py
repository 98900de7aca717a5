"""Faults of clients: F45 and F47 to F54. F46 is in test_small_faults.py."""

import os
import pickle
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zmq

import grn_zmq as grn
from grn_zmq import wire
from grn_zmq.client import this_client
from grn_zmq.discovery import find_address
from tests.cli.scripts import alive
from tests.faults import misdeeds
from tests.faults.direct import outcome_of
from tests.faults.forms import pick
from tests.faults.harness import System
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

THREADS = 8
SUBMITTED = pick(400, 1000)
GRACE_S = 0.5
SLOW_START_S = 2.0


@pytest.fixture(autouse=True)
def all_is_well_afterwards(system: System) -> Iterator[None]:
    yield
    system.settle(60)
    system.assert_clean()


def test_f45_a_job_whose_client_was_killed_at_its_submission_is_there_once_if_repeated(
    system: System,
) -> None:
    kept = system.home / "kept"
    system.arm("client.submit.sent", "kill")
    program = system.program(
        f"""
import pickle
from grn_zmq import failpoints
failpoints.arm({str(system.orders)!r})
spec, blobs = direct.describe(misdeeds.give, 7, detached=True)
Path({str(kept)!r}).write_bytes(pickle.dumps((spec, blobs)))
direct.hand_over(spec, blobs, value=7)
""",
        stays=False,
    )
    assert program.ended() == -signal.SIGKILL, program.said()
    spec, blobs = pickle.loads(kept.read_bytes())

    again = system.direct.hand_over(spec, blobs, value=7)

    assert system.direct.end(again) == 7
    assert system.checker().starts()[spec.job_id] == 1


def test_f47_without_a_broker_a_submission_fails_soon_and_claims_nothing(
    system: System,
) -> None:
    system.stop()
    program = system.program(
        """
began = time.monotonic()
try:
    direct.submit(misdeeds.nothing)
except grn.BrokerUnavailable as error:
    print(f"{time.monotonic() - began:.3f} s", isinstance(error, ConnectionError))
""",
        stays=False,
    )

    assert program.ended() == 0, program.said()
    took_s, _, is_connection_error = program.out.split()
    assert float(took_s) < 1.5 * PATIENCE
    assert is_connection_error == "True"
    system.start()


def test_f47_a_broker_that_is_starting_is_waited_for(system: System) -> None:
    system.arm("broker.start.locked", f"sleep {SLOW_START_S}")
    system.kill(system.broker_pid())
    system.until_fired("broker.start.locked")
    began = time.monotonic()

    program = system.program("print(direct.end(direct.submit(misdeeds.give, 7, value=7)))")

    assert program.ended() == 0, program.said()
    assert program.out.split() == ["7"]
    assert time.monotonic() - began > SLOW_START_S / 2


def test_f48_when_a_waiting_client_is_killed_its_job_ends_but_not_what_it_spawned(
    system: System, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    system.direct.end(system.direct.submit(misdeeds.nothing, type="f48"))
    program = system.program(
        f"""
spawned = direct.submit(misdeeds.wait_for, {str(gate)!r}, detached=True, type="f48")
attached = direct.submit(misdeeds.loop, outcome="cancelled", grace={GRACE_S}, type="f48")
print(spawned.job_id, attached.job_id, flush=True)
attached.result()
"""
    )
    until(lambda: len(program.out.split()) == 2, 10, program.said)
    spawned, attached = program.out.split()
    until(lambda: {spawned, attached} <= system.ledger.pids().keys(), 10, system.log)
    pids = system.ledger.pids()

    program.kill()

    killed_at = time.monotonic()
    until(lambda: not alive(pids[attached]), 2 + GRACE_S)
    until(lambda: [row.job_id for row in system.jobs() or ()] == [spawned], 2 + GRACE_S)
    assert time.monotonic() - killed_at < (2 + GRACE_S) * PATIENCE
    assert alive(pids[spawned])
    gate.touch()
    assert grn.attach(spawned).result(10 * PATIENCE) is None


def test_f49_ctrl_c_while_waiting_cancels_the_job(system: System) -> None:
    before = system.ledger.count("start")
    program = system.program(
        """
from tests.faults.direct import act
try:
    act.with_options(type="f49", grace=0.5)(sys.argv[2], misdeeds.loop)
except KeyboardInterrupt:
    print("interrupted", flush=True)
""",
    )
    system.until_started(before + 1)

    program.kill(signal.SIGINT)

    assert program.ended() == 0, program.said()
    assert program.out.split() == ["interrupted"]
    until(lambda: system.jobs() == [], 5)


def test_f49_ctrl_c_while_submitting_leaves_a_whole_job_or_none(
    system: System, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    program = system.program(
        f"""
from tests.faults.direct import act
direct.end(direct.submit(misdeeds.nothing))
print("connected", flush=True)
misdeeds.wait_for({str(gate)!r})
try:
    print("submitting", flush=True)
    act.with_options(type="f49").spawn(sys.argv[2], misdeeds.nothing)
except KeyboardInterrupt:
    print("interrupted", flush=True)
""",
    )
    program.until_out("connected")
    with system.paused(system.broker_pid()):
        gate.touch()
        program.until_out("submitting")
        until(lambda: is_asleep(program.process.pid))
        program.kill(signal.SIGINT)

        assert program.ended() == 0, program.said()

    assert program.out.split() == ["connected", "submitting", "interrupted"]


def test_f50_a_forked_child_submits_as_a_client_of_its_own(system: System) -> None:
    program = system.program(
        """
def some(first):
    futures = [direct.submit(misdeeds.give, first + n, value=first + n) for n in range(3)]
    print(*(direct.end(future) for future in futures), flush=True)
    return {future.job_id for future in futures}

some(0)
children = []
for child in range(2):
    pid = os.fork()
    if pid == 0:
        some(10 * child + 10)
        os._exit(0)
    children.append(pid)
some(30)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
"""
    )

    assert program.ended() == 0, program.said()
    lines = sorted(program.out.splitlines())
    assert lines == ["0 1 2", "10 11 12", "20 21 22", "30 31 32"]


def test_f51_many_threads_share_one_client(system: System) -> None:
    before = len(system.checker().starts())
    program = system.program(
        f"""
def some(first):
    numbers = range(first, {SUBMITTED}, {THREADS})
    futures = [direct.submit(misdeeds.give, n, value=n, type="f51") for n in numbers]
    values = [direct.end(future, 60) for future in futures]
    assert values == list(numbers), values
    done.append(len(values))

done = []
threads = [threading.Thread(target=some, args=(n,)) for n in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sum(done), flush=True)
"""
    )

    assert program.ended(90) == 0, program.said()
    assert program.out.split() == [str(SUBMITTED)]
    assert len(system.checker().starts()) == before + SUBMITTED


def test_f52_the_same_id_with_other_arguments_is_refused(system: System) -> None:
    spec, blobs = system.direct.describe(misdeeds.give, 7)
    other, _ = system.direct.describe(misdeeds.give, 8)
    assert system.direct.end(system.direct.hand_over(spec, blobs, value=7)) == 7

    forged = this_client().submit(replace(spec, payload=other.payload), blobs).future

    with pytest.raises(grn.IdConflict, match=spec.job_id):
        forged.result(5 * PATIENCE)
    assert system.checker().starts()[spec.job_id] == 1


class Scripted:
    """A client of another version: it says what the test says."""

    def __init__(self, system: System, protocol: int) -> None:
        address = find_address(system.places)
        assert address is not None
        self._protocol = protocol
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.connect(address.clients)
        self.say(wire.Hello(protocol, uuid.uuid4().hex, os.getpid()))

    def __enter__(self) -> "Scripted":
        return self

    def __exit__(self, *_: object) -> None:
        self._context.destroy(linger=0)

    def say(self, message: wire.Message) -> None:
        self._socket.send_multipart(wire.encode(message, self._protocol))

    def hear(self, *kinds: type[wire.Message]) -> wire.Message:
        """Wait for the next message that is one of these."""
        while self._socket.poll(int(10_000 * PATIENCE)):
            message = wire.decode(self._socket.recv_multipart())
            if isinstance(message, kinds):
                return message
        raise AssertionError(f"no {kinds}")


def test_f53_a_client_of_the_version_before_is_served(system: System) -> None:
    spec, blobs = system.direct.describe(misdeeds.give, 7)
    with Scripted(system, wire.PROTOCOL_BEFORE) as old:
        welcome = old.hear(wire.Welcome)
        old.say(wire.Blobs(blobs))
        old.say(wire.Submit((spec,)))
        accepted = old.hear(wire.Accepted)
        ended = old.hear(wire.Ended)
        old.say(wire.Received((spec.job_id,)))

    assert isinstance(welcome, wire.Welcome)
    assert isinstance(accepted, wire.Accepted)
    assert isinstance(ended, wire.Ended)
    assert welcome.protocol in (wire.PROTOCOL, wire.PROTOCOL_BEFORE)
    assert [one.job_id for one in accepted.jobs] == [spec.job_id]
    assert [one.outcome for one in ended.outcomes] == ["succeeded"]
    assert pickle.loads(ended.outcomes[0].payload) == 7


def test_f53_a_client_of_a_later_version_is_told_so(system: System) -> None:
    with Scripted(system, wire.PROTOCOL + 1) as newer:
        refused = newer.hear(wire.Refused)

    assert isinstance(refused, wire.Refused)
    assert refused.reason == "version"
    program = system.program(
        f"""
from grn_zmq import wire
wire.PROTOCOL = {wire.PROTOCOL + 1}
try:
    direct.submit(misdeeds.nothing)
except grn.VersionMismatch as error:
    print(error)
""",
        stays=False,
    )
    assert program.ended() == 0, program.said()
    assert f"speaks protocol {wire.PROTOCOL}" in program.out


def test_f54_a_result_can_be_fetched_again_and_is_the_same(system: System) -> None:
    """After its time it cannot: tests/broker/test_ending.py has that, with its own clock."""
    for detached in (True, False):
        first = system.direct.submit(misdeeds.give_random, detached=detached)
        value = first.result(10 * PATIENCE)
        system.direct.told(first, None)
        job_id = first.job_id

        assert grn.attach(job_id).result(10 * PATIENCE) == value
        program = system.program(f"print(grn.attach({job_id!r}).result(10))")
        assert program.ended() == 0, program.said()
        assert program.out.strip() == value
        assert outcome_of(first).outcome == "succeeded"


def is_asleep(pid: int) -> bool:
    """Whether a process waits for something."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
