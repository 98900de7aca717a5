"""The two ROUTER sockets: bound, watched, and bound again when their files vanish."""

import errno
import os
from collections.abc import Container
from pathlib import Path
from typing import Final

import zmq
from loguru import logger
from zmq.utils.monitor import recv_monitor_message

from grn_zmq import wire
from grn_zmq.paths import Places

CLIENT: Final = b"c"
WORKER: Final = b"w"

# Who stopped answering is cut off after six seconds, and finds us again when it goes on.
_OPTIONS: Final = {
    zmq.ROUTER_MANDATORY: 1,
    zmq.LINGER: 0,
    zmq.SNDHWM: 1000,
    zmq.RCVHWM: 1000,
    zmq.MAXMSGSIZE: wire.MAX_FRAME_BYTES,
    zmq.HANDSHAKE_IVL: 2000,
    zmq.HEARTBEAT_IVL: 2000,
    zmq.HEARTBEAT_TIMEOUT: 6000,
    zmq.HEARTBEAT_TTL: 6000,
    zmq.BACKLOG: 1024,
}

# libzmq aborts if a connection finds no descriptor: the doors are closed before that.
CLOSE_AT: Final = 0.8
OPEN_AT: Final = 0.7


class Listening:
    """Who may come in, and who has gone."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", places: Places) -> None:
        self._paths = {CLIENT: places.clients_socket, WORKER: places.workers_socket}
        self._places = places
        self.sockets: dict[bytes, zmq.Socket[bytes]] = {}
        self._monitors: dict[bytes, zmq.Socket[bytes]] = {}
        self._inodes: dict[bytes, int] = {}
        self._peers: dict[tuple[bytes, int], bytes] = {}
        self._gone: list[bytes] = []
        for side in self._paths:
            socket = context.socket(zmq.ROUTER)
            for option, value in _OPTIONS.items():
                socket.setsockopt(option, value)
            self.sockets[side] = socket
            self._monitors[side] = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            self._bind(side)

    def _bind(self, side: bytes) -> None:
        path = self._paths[side]
        # The lock is ours, so a socket file that lies here belongs to nobody.
        path.unlink(missing_ok=True)
        self.sockets[side].bind(f"ipc://{path}")
        os.chmod(path, 0o600)
        self._inodes[side] = path.stat().st_ino

    def filenos(self) -> "list[zmq.Socket[bytes]]":
        """What to poll for reading."""
        return [*self.sockets.values(), *self._monitors.values()]

    def note_peer(self, side: bytes, frame: zmq.Frame) -> None:
        """Remember on which connection a greeting came, to know later who has gone.

        Who had the same descriptor before has gone by now, and is not to be mistaken for it.
        """
        self._gone += self._read_monitors()
        self._peers[side, frame.get(zmq.SRCFD)] = side + frame.bytes

    def gone(self, ready: Container[object]) -> list[bytes]:
        """The peers whose connection has ended since the last call.

        Args:
            ready: Of what is polled, that which has something to say.
        """
        if any(monitor in ready for monitor in self._monitors.values()):
            self._gone += self._read_monitors()
        gone, self._gone = self._gone, []
        return gone

    def _read_monitors(self) -> list[bytes]:
        gone: list[bytes] = []
        for side, monitor in self._monitors.items():
            while monitor.poll(0):
                event = recv_monitor_message(monitor)
                peer = self._peers.pop((side, event["value"]), None)
                if peer is not None:
                    gone.append(peer)
        return gone

    @property
    def is_whole(self) -> bool:
        """Whether newcomers find our sockets where we put them."""
        return all(_inode(path) == self._inodes[side] for side, path in self._paths.items())

    def bind_again(self) -> None:
        """Put the sockets back; who is connected does not notice.

        Nothing is unbound before: libzmq would cut off everybody who came in by that door.
        """
        self._places.make()
        for side in self._paths:
            self._bind(side)

    def guard(self, limit: int) -> None:
        """Let nobody in while descriptors are scarce, and everybody when they are not.

        Closing cuts off those that are connected, too; they come back when there is room.
        """
        used = len(os.listdir("/proc/self/fd"))
        if self._inodes and used >= CLOSE_AT * limit:
            logger.bind(facts={"used": used, "limit": limit}).error(
                "nearly all descriptors are in use: nobody else is let in (ulimit -Hn)"
            )
            for side in self._paths:
                self._unbind(side)
            self._inodes.clear()
        elif not self._inodes and used <= OPEN_AT * limit:
            logger.info("descriptors are free again")
            for side in self._paths:
                self._bind(side)

    @property
    def closed(self) -> bool:
        return not self._inodes

    def _unbind(self, side: bytes) -> None:
        try:
            self.sockets[side].unbind(f"ipc://{self._paths[side]}")
        except zmq.ZMQError as error:
            if error.errno != errno.ENOENT:
                raise

    def close(self, linger_ms: int) -> None:
        for side, socket in self.sockets.items():
            socket.disable_monitor()
            self._monitors[side].close(linger=0)
            socket.close(linger=linger_ms)
        for path in self._paths.values():
            path.unlink(missing_ok=True)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
