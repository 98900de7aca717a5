"""A broker that knows nothing but scenes: of any size, and gone when a test wants it."""

import os
import threading
from dataclasses import replace
from types import TracebackType

import zmq

from grn_zmq import wire
from grn_zmq.discovery import Address, BrokerLock
from grn_zmq.facts import Scene
from grn_zmq.paths import find_places
from grn_zmq.units import MIB
from tests.builders import a_device_row, a_job_row

DEVICES = 8


def a_busy_scene(look: int, first: int, most: int, jobs: int) -> Scene:
    """So many jobs on eight devices; everything is different in every look."""
    numbers = range(first + 1, min(first + most, jobs) + 1)
    rows = (
        a_job_row(
            number,
            used_bytes=(number + look) * MIB,
            run_s=float(number + look),
            why=f"waiting for memory: needs {look}.{number} GiB, which nobody has",
        )
        for number in numbers
    )
    devices = (
        replace(a_device_row(index), used_bytes=(100 + (look * 53 + index) % 800) * MIB)
        for index in range(DEVICES)
    )
    return Scene(
        paused=False,
        stopping=False,
        queued=jobs - DEVICES,
        running=DEVICES,
        ended=17 * look,
        first=first,
        rows=tuple(rows),
        devices=tuple(devices),
    )


class SceneBroker:
    """Lives where this user's broker would, from `with` to its end."""

    def __init__(self, jobs: int) -> None:
        self.looks = 0
        self._jobs = jobs
        self._ended = threading.Event()
        self._places = find_places(os.environ)
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> "SceneBroker":
        self._places.make()
        self._lock = BrokerLock(self._places)
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        address = f"ipc://{self._places.clients_socket}"
        self._socket.bind(address)
        self._lock.publish(Address(os.getpid(), 0, address, ""))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._lock.withdraw()
        self._lock.close()
        self._socket.close()
        self._context.term()

    def _serve(self) -> None:
        while not self._ended.is_set():
            if not self._socket.poll(20):
                continue
            peer, *frames = self._socket.recv_multipart()
            message = wire.decode(frames)
            if isinstance(message, wire.AskScene):
                self.looks += 1
                scene = a_busy_scene(self.looks, message.first, message.most, self._jobs)
                self._socket.send_multipart([peer, *wire.encode(wire.SceneIs(scene))])
