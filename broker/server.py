"""The broker's shell: two ROUTER sockets, one poll loop, no decisions."""

import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import zmq
from loguru import logger

from grn_zmq import wire
from grn_zmq.discovery import Address, BrokerLock
from grn_zmq.lifeline import ending_signals
from grn_zmq.paths import Places

from .core import BrokerCore
from .effects import Effect, Forget, Note, Remember, Send, Watch
from .outbox import Outbox
from .settings import Settings
from .store import Store
from .watching import Watching

CLIENT: Final = b"c"
WORKER: Final = b"w"

TICK_S: Final = 1.0
RETRY_S: Final = 0.01
# No socket starves the other, and none the tick.
DRAIN: Final = 256

# Which side may say what: a client cannot act as a worker, nor the other way round.
_ALLOWED: Final = {CLIENT: wire.FromClient, WORKER: wire.FromWorker}

# No ZMTP heartbeats: on one machine the kernel tells who died, and a client that was merely
# stopped (Ctrl-Z) must find its connection as it left it.
_OPTIONS: Final = {
    zmq.ROUTER_MANDATORY: 1,
    zmq.LINGER: 0,
    zmq.SNDHWM: 1000,
    zmq.RCVHWM: 1000,
    zmq.MAXMSGSIZE: wire.MAX_FRAME_BYTES,
    zmq.HANDSHAKE_IVL: 2000,
    zmq.BACKLOG: 1024,
}


class BrokerServer:
    """Feeds the core with messages, ends of processes and time, and does what it says."""

    def __init__(
        self,
        places: Places,
        state: Path | None = None,
        settings: Settings | None = None,
        supervisor_pid: int = 0,
    ) -> None:
        """Take the lock, open what was kept, and listen.

        Args:
            state: The file of what is kept; by default one next to the sockets.

        Raises:
            BrokerRunning: Another broker of this user is alive.
            StateTooNew: A newer version of this package wrote the file.
            UnsafeDirectory: Others could reach the sockets or the file.
        """
        places.make()
        self._lock = BrokerLock(places)
        self._store = Store(state or places.directory / "state.db")
        self._places = places
        self._supervisor_pid = supervisor_pid or os.getpid()
        self._context = zmq.Context()
        self._sockets = {
            CLIENT: self._bind(places.clients_socket),
            WORKER: self._bind(places.workers_socket),
        }
        self._outboxes = {side: Outbox(socket) for side, socket in self._sockets.items()}
        self._watching = Watching()
        # Milliseconds since 1970: later than that of any broker before.
        self.core = BrokerCore(time.time_ns() // 1_000_000, os.getpid(), settings or Settings())
        for cell_id, cell in self._store.load():
            self.core.book.profiles.restore(cell_id, cell)

    def _bind(self, path: os.PathLike[str]) -> "zmq.Socket[bytes]":
        socket = self._context.socket(zmq.ROUTER)
        for option, value in _OPTIONS.items():
            socket.setsockopt(option, value)
        # The lock is ours, so a socket file left here belongs to nobody.
        if os.path.exists(path):
            os.unlink(path)
        socket.bind(f"ipc://{os.fspath(path)}")
        os.chmod(path, 0o600)
        return socket

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        self._watching.stop_on(*ending_signals())
        self._lock.publish(
            Address(
                pid=os.getpid(),
                supervisor_pid=self._supervisor_pid,
                clients=f"ipc://{self._places.clients_socket}",
                workers=f"ipc://{self._places.workers_socket}",
            )
        )
        logger.info("broker ready")
        try:
            self._loop()
        finally:
            self._close()

    def _loop(self) -> None:
        poller = zmq.Poller()
        for socket in self._sockets.values():
            poller.register(socket, zmq.POLLIN)
        poller.register(self._watching.fileno(), zmq.POLLIN)
        tick_at = time.monotonic()
        while not self._watching.stopping:
            idle = all(outbox.empty for outbox in self._outboxes.values())
            wait_s = max(0.0, tick_at - time.monotonic()) if idle else RETRY_S
            ready = dict(poller.poll(math.ceil(wait_s * 1000)))
            for side, socket in self._sockets.items():
                if socket in ready:
                    self._drain(side, socket)
            if self._watching.fileno() in ready:
                for name in self._watching.take_gone():
                    self._carry_out(self.core.lose(name, time.monotonic()))
            if time.monotonic() >= tick_at:
                self._carry_out(self.core.tick(time.monotonic()))
                tick_at = time.monotonic() + TICK_S
            for outbox in self._outboxes.values():
                outbox.flush()

    def _drain(self, side: bytes, socket: "zmq.Socket[bytes]") -> None:
        for _ in range(DRAIN):
            try:
                first = socket.recv(flags=zmq.DONTWAIT, copy=False)
            except zmq.Again:
                return
            frames = socket.recv_multipart() if first.more else []
            try:
                message = _by_its_real_pid(wire.decode(frames), first)
                if not isinstance(message, _ALLOWED[side]):
                    raise wire.BadMessage(f"{message.kind} does not belong on this socket")
            except wire.BadMessage as error:
                logger.bind(facts={"why": str(error)}).warning("ignored a malformed message")
                continue
            self._carry_out(self.core.handle(side + first.bytes, message, time.monotonic()))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer, message):
                    self._outboxes[peer[:1]].send(peer[1:], message)
                case Note(text, facts, level):
                    logger.bind(facts=facts).log(level.upper(), text)
                case Watch(name, pid):
                    self._watching.watch(name, pid)
                case Remember(cell_id, cell):
                    self._store.remember(cell_id, cell)
                case Forget(job_type):
                    self._store.forget(job_type)

    def _close(self) -> None:
        self._lock.withdraw()
        for socket in self._sockets.values():
            socket.close()
        self._context.term()
        for path in (self._places.clients_socket, self._places.workers_socket):
            path.unlink(missing_ok=True)
        self._places.sweep()
        self._watching.close()
        self._store.close()
        logger.info("broker stopped")
        self._lock.close()  # last: whoever takes it next makes sockets of the same names


def _by_its_real_pid(message: wire.Message, frame: zmq.Frame) -> wire.Message:
    """Trust the kernel, not the greeting, on who greets: a container counts pids anew."""
    if not isinstance(message, wire.Hello | wire.Greet):
        return message
    # `localhost:<uid>:<gid>:<pid>` on ipc; pid 0 for a peer outside our pid namespace.
    pid = str(frame.get("Peer-Address")).rpartition(":")[2]
    return replace(message, pid=int(pid)) if pid.isdigit() and int(pid) else message
