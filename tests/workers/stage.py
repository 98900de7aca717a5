"""A real worker process, and a broker whose every word is the test's."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import msgpack
import zmq

from grn_zmq import payload, wire
from grn_zmq.context import Context
from grn_zmq.discovery import Address, BrokerLock
from grn_zmq.paths import find_places, state_directory
from grn_zmq.records import AttemptId, Blob, Leased, Result, Run
from grn_zmq.tails import Tail
from tests.builders import HOST_0, MIB, a_run, an_id
from tests.waiting import PATIENCE, until
from workers.spool import spool_directory

DEVICE = f"host:0of1/{1000 * MIB}of{1000 * MIB}"
M = TypeVar("M")


class Ends(dict[str, Any]):
    """By job id: the value or the result of a call, or None if it was given back."""

    def hear(self, message: wire.Message) -> None:
        match message:
            case wire.Returned():
                for job_id, data in zip(message.job_ids, message.payloads, strict=True):
                    self._note(job_id, payload.load_value(data))
            case wire.Finished():
                for one in message.results:
                    plain = one.outcome == "succeeded" and not one.token
                    self._note(one.job_id, payload.load_value(one.payload) if plain else one)
            case wire.GivenBack():
                for attempt in message.attempts:
                    self._note(attempt.job_id, None)

    def _note(self, job_id: str, end: Any) -> None:
        assert job_id not in self or type(self[job_id]) is type(end), "ended in two ways"
        self[job_id] = end


class ScriptedBroker:
    """Says only what it is told to, and remembers what it heard."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.heard: list[wire.Message] = []
        self._peer = b""
        places = find_places(os.environ)
        places.make()
        self._lock = BrokerLock(places)
        self._context = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.LINGER, 0)
        url = f"ipc://{places.workers_socket}"
        self._router.bind(url)
        self._lock.publish(Address(os.getpid(), os.getpid(), clients="", workers=url))

    def next(self, kind: type[M], seconds: float = 20.0) -> M:
        """The next message of this kind; those before it are remembered only."""
        found = self.within(kind, seconds)
        assert found is not None, f"no {kind.__name__} after {self.heard[-5:]}"
        return found

    def within(self, kind: type[M], seconds: float) -> M | None:
        """The same; None if none comes in this time."""
        deadline = time.monotonic() + seconds * PATIENCE
        while (left_s := deadline - time.monotonic()) > 0:
            if self._router.poll(int(left_s * 1000) + 1):
                self._peer, *frames = self._router.recv_multipart()
                message = wire.decode(frames)
                self.heard.append(message)
                if isinstance(message, kind):
                    return message
        return None

    def send(self, message: wire.Message) -> None:
        self._router.send_multipart([self._peer, *wire.encode(message)])

    def welcome(self, greet: wire.Greet | None = None) -> wire.Greet:
        """Answer a greeting: this one, or the next."""
        greet = greet or self.next(wire.Greet)
        pid = os.getpid()
        self.send(wire.Welcome(wire.PROTOCOL, self.epoch, pid, greeting=greet.greeting))
        return greet

    def assign(self, *runs: Run) -> None:
        self.send(wire.Assign(self.epoch, runs))

    def give(self, number: int, function: Callable[..., Any], *args: Any, **run: Any) -> Run:
        """Assign a call, and what it needs."""
        blob = payload.dump_function(function)
        context = Context.capture().to_bytes()
        blobs = [Blob(payload.digest(one), one) for one in (blob, context)]
        call = a_run(
            number,
            function=blobs[0].digest,
            context=blobs[1].digest,
            **{"payload": payload.dump_arguments(args, {}).joined(), **run},
        )
        self.send(wire.Blobs(tuple(blobs)))
        self.assign(call)
        return call

    def give_train(
        self, first: int, function: Callable[..., Any], arguments: list[Any], **run: Any
    ) -> list[str]:
        """Assign calls that follow one another, and what they need; give their job ids."""
        blob = payload.dump_function(function)
        context = Context.capture().to_bytes()
        blobs = [Blob(payload.digest(one), one) for one in (blob, context)]
        payloads = [payload.dump_arguments((one,), {}).joined() for one in arguments]
        numbers = range(first, first + len(arguments))
        ids = tuple(map(an_id, numbers))
        tail = Tail(ids[1:], (1,) * len(ids[1:]), tuple(numbers[1:]), tuple(payloads[1:]))
        head = a_run(
            first,
            function=blobs[0].digest,
            context=blobs[1].digest,
            payload=payloads[0],
            tail=tail,
            **run,
        )
        self.send(wire.Blobs(tuple(blobs)))
        self.assign(head)
        return list(ids)

    def ends_of(self, ids: Collection[str], seconds: float = 20.0) -> Ends:
        """How each of these ended, or that it was given back; until all have."""
        ends = Ends()
        deadline = time.monotonic() + seconds * PATIENCE
        while not ends.keys() >= set(ids):
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"nothing of {len(set(ids) - ends.keys())} of them"
            if self._router.poll(int(left_s * 1000) + 1):
                self._peer, *frames = self._router.recv_multipart()
                message = wire.decode(frames)
                self.heard.append(message)
                ends.hear(message)
        return ends

    def result(self) -> Result:
        """The next result that is handed over."""
        (result,) = self.next(wire.Finished).results
        return result

    def recorded(self, *results: Result) -> None:
        ids = tuple(AttemptId(one.job_id, one.attempt) for one in results)
        self.send(wire.Recorded(self.epoch, ids))

    def close(self) -> None:
        """Be gone, as after kill -9."""
        self._router.close()
        self._context.term()
        self._lock.close()


class RealWorker:
    """One worker process after the other, for the same device."""

    def __init__(self, orders: Path, device: str = DEVICE, *options: str) -> None:
        self.orders = orders
        self.device = device
        self.options = options
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        words = ["--device", self.device, "--parent", str(os.getpid()), "--debug"]
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "grn_zmq.workers.worker",
                *words,
                *self.options,
                "--failpoints",
                str(self.orders),
            ]
        )

    def order(self, failpoint: str, what: str) -> None:
        (self.orders / failpoint).write_text(what)

    def again(self) -> None:
        """Start the next incarnation; the last one must be dead, or about to be."""
        self.wait()
        self.process = self._start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait(self, seconds: float = 20.0) -> int:
        return self.process.wait(seconds * PATIENCE)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.wait()


class Bench:
    """A welcomed worker that is given one job after the other."""

    def __init__(self, orders: Path, device: str = DEVICE, *options: str) -> None:
        self.broker = ScriptedBroker(epoch=1)
        self.worker = RealWorker(orders, device, *options)
        self.greet = self.broker.welcome()
        self.incarnation = self.greet.incarnation
        self.devices: tuple[Leased, ...] = (leased(device),)
        self._number = 0

    def give(self, function: Callable[..., Any], *args: Any, **run: Any) -> str:
        self._number += 1
        facts = {"devices": self.devices, **run}
        return self.broker.give(self._number, function, *args, **facts).job_id

    def run(self, function: Callable[..., Any], *args: Any, **run: Any) -> Result:
        """Its result; the worker has forgotten it then."""
        job_id = self.give(function, *args, **run)
        result = self.broker.result()
        self.broker.recorded(result)
        assert result.job_id == job_id
        return result

    def warm_up(self) -> None:
        """Have a zygote for calls."""
        until(lambda: payload.load_value(self.run(was_forked, reuse=False).payload))

    def run_command(self, *words: str, **run: Any) -> Result:
        """The same of a command."""
        context = Context.capture().to_bytes()
        blob = Blob(payload.digest(context), context)
        self._number += 1
        facts = {"kind": "command", "function": "", "payload": msgpack.packb(words)}
        facts |= {"devices": self.devices, **run}
        self.broker.send(wire.Blobs((blob,)))
        self.broker.assign(a_run(self._number, context=blob.digest, **facts))
        result = self.broker.result()
        self.broker.recorded(result)
        return result

    def close(self) -> None:
        self.worker.end()
        self.broker.close()


def was_forked() -> bool:
    """Whether this process came from a zygote, whose command line it has."""
    return b"grn_zmq.zygote" in Path("/proc/self/cmdline").read_bytes()


def leased(device: str) -> Leased:
    """A device as a lease of it says, by the name that its worker is started with."""
    label, _, uuid = device.partition("/")
    return Leased(uuid, int(label[-1]), label) if label.startswith("nvml") else HOST_0


def spool_files(pattern: str = "*.log") -> list[Path]:
    return sorted(spool_directory(state_directory(os.environ), "host-0").glob(pattern))


def lives(pid: int) -> bool:
    """Whether a process is there and not only waits to be reaped."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def read_when_there(path: Path, seconds: float = 20.0) -> str:
    until(lambda: path.exists() and path.read_text(), seconds)
    return path.read_text()
