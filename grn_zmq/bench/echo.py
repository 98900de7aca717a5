"""The limit: a DEALER, a ROUTER in Python, two DEALERs that echo, and back, over ipc.

Nobody who puts a Python broker between client and workers, with a message per job, is faster.
The rate is that of small messages with many in flight, the latency that of one in flight.
"""

import contextlib
import os
import pickle
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import zmq

from ..errors import GrnError
from ..lifeline import end_with_parent
from . import jobs
from .contender import require
from .figures import Look
from .sizes import WINDOW, WORKERS, Size

# A message takes a fraction of a millisecond: what takes so long is broken.
ANSWER_MS: Final = 20_000
END_S: Final = 5.0
POLL_MS: Final = 1_000
# Messages taken from one socket before the other is looked at.
DRAIN: Final = 500
# Of so many runs the best counts: the limit is what can be had.
RUNS: Final = 3


class EchoSilent(GrnError):
    """There is nothing to compare with."""

    def __init__(self) -> None:
        super().__init__(
            f"the bare ZeroMQ echo has not answered within {ANSWER_MS // 1000} s; is this "
            f"machine able to start processes? (`grn doctor`)"
        )


class Echo:
    """The echo and its client. Small frames are copied, large ones (`copy=False`) are not."""

    def __init__(self, directory: Path, *, copy: bool = True) -> None:
        self._directory = directory
        self._copy = copy
        self._processes: list[subprocess.Popen[bytes]] = []
        self._noop = pickle.dumps((jobs.noop, ()), 5)
        self._context = zmq.Context()
        self._socket = _socket(self._context, zmq.DEALER)
        self._count = 0
        self._came: dict[int, Any] = {}

    @property
    def pids(self) -> set[int]:
        return {one.pid for one in self._processes}

    def start(self, workers: int = WORKERS) -> None:
        self._directory.mkdir(exist_ok=True)
        self._run("route", str(workers))
        for _ in range(workers):
            self._run("echo", "")
        self._socket.rcvtimeo = ANSWER_MS
        self._socket.connect(_address(self._directory, "front"))
        try:
            self.call("noop")
        except zmq.Again:
            raise EchoSilent from None

    def _run(self, part: str, workers: str) -> None:
        words = [part, str(self._directory), str(os.getpid()), str(int(self._copy)), workers]
        command = [sys.executable, "-P", "-m", "grn_zmq.bench.echo", *words]
        # Ctrl-C is for whoever measures; these end with it.
        self._processes.append(
            subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        )

    def submit(self, name: str, *args: Any) -> int:
        self._count += 1
        body = memoryview(args[0]).cast("B") if args else self._noop
        self._socket.send_multipart([struct.pack("<Q", self._count), body], 0, self._copy)
        return self._count

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        values: list[Any] = []
        for handle in handles:
            while handle not in self._came:
                self._take()
            values.append(self._came.pop(handle))
        return values

    def call(self, name: str, *args: Any) -> Any:
        return self.gather([self.submit(name, *args)])[0]

    def _take(self) -> None:
        frames: list[Any] = self._socket.recv_multipart(0, self._copy)
        number, body = frames if self._copy else [one.buffer for one in frames]
        self._came[struct.unpack("<Q", number)[0]] = body

    def pipelined(self, count: int) -> float:
        """Send so many small messages, never more than a window of them at once; per second."""
        begun = time.perf_counter()
        sent = got = 0
        while got < count:
            while sent < count and sent - got < WINDOW:
                self.submit("noop")
                sent += 1
            self._take()
            got += 1
        seconds = time.perf_counter() - begun
        require(all(body == self._noop for body in self._came.values()), "not what was sent")
        require(len(self._came) == count, "not as many as were sent")
        self._came.clear()
        return count / seconds

    def look(self, size: Size) -> Look:
        """Measure rate and latency, in a second or so."""
        self.pipelined(WINDOW)
        rate = max(self.pipelined(size.echo_jobs) for _ in range(RUNS))
        times: list[float] = []
        for _ in range(size.echo_calls):
            begun = time.perf_counter()
            self.call("noop")
            times.append(time.perf_counter() - begun)
        return Look(rate, statistics.median(times))

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._context.destroy(linger=0)


@contextlib.contextmanager
def standing_echo(directory: Path) -> Iterator[Echo]:
    """An echo that waits, at no cost, to be measured again."""
    echo = Echo(directory)
    try:
        echo.start()
        yield echo
    finally:
        echo.stop()


def _socket(context: "zmq.Context[zmq.Socket[bytes]]", kind: int) -> "zmq.Socket[bytes]":
    socket = context.socket(kind)
    socket.set_hwm(0)
    socket.linger = 0
    return socket


def _address(directory: Path, end: str) -> str:
    return f"ipc://{directory / end}"


def route(directory: Path, workers: int, *, copy: bool) -> None:
    """Hand what clients send to the workers in turn, and back what those answer."""
    context = zmq.Context()
    front, back = _socket(context, zmq.ROUTER), _socket(context, zmq.ROUTER)
    front.bind(_address(directory, "front"))
    back.bind(_address(directory, "back"))
    peers = [back.recv_multipart()[0] for _ in range(workers)]
    poller = zmq.Poller()
    poller.register(front, zmq.POLLIN)
    poller.register(back, zmq.POLLIN)
    turn = 0
    while True:
        ready = dict(poller.poll(POLL_MS))
        if back in ready:
            for frames in _drained(back, copy):
                front.send_multipart(frames[1:], 0, copy)
        if front in ready:
            for frames in _drained(front, copy):
                back.send_multipart([peers[turn], *frames], 0, copy)
                turn = turn + 1 if turn + 1 < workers else 0


def _drained(socket: "zmq.Socket[bytes]", copy: bool) -> Iterator[list[Any]]:
    for _ in range(DRAIN):
        try:
            yield socket.recv_multipart(zmq.NOBLOCK, copy)
        except zmq.Again:
            return


def answer(directory: Path, *, copy: bool) -> None:
    """Be a worker that gives back what it gets."""
    socket = _socket(zmq.Context(), zmq.DEALER)
    socket.connect(_address(directory, "back"))
    socket.send(b"ready")
    while True:
        if not socket.poll(POLL_MS):
            continue
        frames: list[Any] = socket.recv_multipart(0, copy)
        socket.send_multipart(frames, 0, copy)


def main() -> None:
    part, directory, parent_pid, copy, workers = sys.argv[1:]
    end_with_parent(int(parent_pid))
    if part == "route":
        route(Path(directory), int(workers), copy=copy == "1")
    else:
        answer(Path(directory), copy=copy == "1")


if __name__ == "__main__":
    main()
