"""F64, F65, F68, F69: streams that are cut, peers that do not read, and too many of them."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from grn_zmq import wire
from grn_zmq.discovery import find_address
from grn_zmq.paths import find_places, state_file
from tests.builders import a_greet, a_hello, a_report, a_result, a_spec, an_id
from tests.faults.chronicle import Chronicle
from tests.faults.forms import pick
from tests.faults.harness import System
from tests.faults.load import ROOT
from tests.faults.peers import Peer, Peers, lonely_broker
from tests.faults.proxy import Mood, Proxy, between
from tests.waiting import until

pytestmark = pytest.mark.e2e

MIB = 1 << 20
AGAIN = ("repeats", "late")


@dataclass(frozen=True)
class Proxied:
    system: System
    mood: Mood
    proxies: tuple[Proxy, Proxy]

    def run(self, count: int, **mood: float) -> None:
        """Let two clients submit so many jobs each; all must succeed, and start once."""
        system, cuts = self.system, self._cuts()
        before = system.checker().outcomes()["succeeded"]
        for name, value in mood.items():
            setattr(self.mood, name, value)
        loads = [system.load(count, seconds=(0.0, 0.1), pause_s=0.05) for _ in range(2)]
        for load in loads:
            load.wait(pick(60.0, 300.0))
        for name in mood:
            setattr(self.mood, name, 0.0)
        system.settle()
        assert system.assert_clean() == {"succeeded": before + 2 * count}
        assert set(system.checker().starts().values()) == {1}
        clients, workers = (now - then for now, then in zip(self._cuts(), cuts, strict=True))
        print(f"cut {clients} of clients, {workers} of workers")
        assert clients + workers > 2

    def _cuts(self) -> list[int]:
        return [proxy.cuts for proxy in self.proxies]


@pytest.fixture(scope="module")
def proxied() -> Iterator[Proxied]:
    """A system in which clients and workers find two proxies where the broker was."""
    mood = Mood()
    with System() as system:
        workers = system.worker_pids()
        with between(system.places, mood, seed=64) as proxies:
            for pid in workers:
                system.kill(pid)  # the next ones come in by the proxy
            system.wait_back()
            yield Proxied(system, mood, proxies)
        # To the broker all that came by a proxy are this process, which lives: a new one
        # knows better.
        system.kill(system.broker_pid())
        system.wait_back()


def test_f64_delays_losses_repeats_and_reordering_change_nothing(proxied: Proxied) -> None:
    proxied.run(
        pick(40, 60),
        delay_s=pick(0.05, 2.0),
        cuts_percent=pick(5.0, 3.0),
        repeats_percent=10.0,
        late_percent=80.0,
    )

    repeats, late = (sum(getattr(one, what) for one in proxied.proxies) for what in AGAIN)
    print(f"{repeats} messages were said twice, {late} came again after a cut")
    assert min(repeats, late) > 0
    assert "malformed" not in proxied.system.log()


def test_f65_streams_cut_within_a_message_are_connected_again(proxied: Proxied) -> None:
    proxied.run(pick(20, 200), cuts_percent=5.0, half_percent=50.0)


def resident_bytes(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024


def serve(worker: Peer, epoch: int, count: int, payload: bytes, chronicle: Chronicle) -> None:
    """Be a worker whose jobs end at once."""
    ended = 0
    while ended < count:
        runs = worker.hear(wire.Assign, 20).runs
        chronicle.ran(runs)
        results = tuple(a_result(int(run.job_id, 16), payload=payload) for run in runs)
        for result in results:
            worker.say(wire.Finished(epoch, (result,)))
        worker.say(a_report())
        ended += len(runs)


def test_f68_a_client_that_never_reads_costs_the_broker_little(
    home: Path, tmp_path: Path
) -> None:
    count, peers = pick(500, 2000), Peers()
    chronicle = Chronicle(tmp_path)
    with lonely_broker(find_places(os.environ)) as (_, address):
        worker = peers.connect(address.workers)
        worker.say(a_greet(total=100_000, incarnation=an_id(868), greeting=1), a_report())
        epoch = worker.hear(wire.Welcome).epoch
        before = resident_bytes(address.pid)

        silent = peers.connect(address.clients)
        silent.say(a_hello(968))
        for first in range(1, count + 1, 100):
            specs = [a_spec(n, memory_bytes=MIB) for n in range(first, first + 100)]
            chronicle.submitted("silent", specs, stays=False)
            silent.say(wire.Submit(tuple(specs)))
        serve(worker, epoch, count, bytes(100 << 10), chronicle)
        worker.say(wire.Finished(epoch, ()))
        other = peers.connect(address.clients)
        one_more = (a_spec(4711, memory_bytes=MIB),)
        chronicle.submitted("other", one_more, stays=True)
        other.say(a_hello(969), wire.Submit(one_more))
        asked_at = time.monotonic()
        serve(worker, epoch, 1, b"mine", chronicle)
        mine = other.hear(wire.Ended, 5).outcomes
        chronicle.told("other", mine)

        grown = resident_bytes(address.pid) - before
        took_s = time.monotonic() - asked_at
        print(f"RSS +{grown / MIB:.1f} MiB for {count / 10:.0f} MiB of results")
        print(f"another client was answered after {took_s:.3f} s")
        assert [one.job_id for one in mine] == [an_id(4711)]
        assert grown < 40 * MIB
        checker = chronicle.checker(state_file(os.environ))
        checker.assert_clean()
        assert checker.outcomes() == {"succeeded": count + 1}
        peers.close()


def test_f69_connections_that_end_or_are_killed_leave_nothing() -> None:
    with System() as system:
        address = find_address(system.places)
        assert address is not None
        fds = fds_of(address.pid)
        come_and_go(address.clients, 4, 50, killed=1)  # whatever is made once is made now
        system.load(4).wait()
        system.settle()
        until(lambda: fds_of(address.pid) <= fds + 2, 10)
        fds, resident = fds_of(address.pid), resident_bytes(address.pid)
        load = system.load(40, seconds=(0.0, 0.2), pause_s=0.05)
        load.until("accepted", 1)

        most = come_and_go(address.clients, 20, 50, killed=6, count_of=address.pid)

        system.settle()
        until(lambda: fds_of(address.pid) == fds, 10, lambda: str(fds_of(address.pid)))
        until(lambda: resident_bytes(address.pid) - resident < 10 * MIB, 5)
        grown = resident_bytes(address.pid) - resident
        print(f"{most - fds} descriptors came and went, RSS {grown / MIB:+.1f} MiB")
        assert most - fds >= 1000
        assert system.assert_clean() == {"succeeded": 44}
        assert set(system.checker().starts().values()) == {1}


def come_and_go(
    address: str, processes: int, each: int, *, killed: int, count_of: int = 0
) -> int:
    """Connect from many processes at once; give the descriptors in use at the height."""
    words = [sys.executable, "-m", "tests.faults.crowd", address, str(each)]
    pipe = subprocess.PIPE
    crowd = [
        subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe) for _ in range(processes)
    ]
    for one in crowd:
        assert one.stdout
        assert one.stdout.readline() == b"there\n"
    height = fds_of(count_of) if count_of else 0
    for number, one in enumerate(crowd):
        if number < killed:
            one.kill()
        one.communicate()
    return height


def fds_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
