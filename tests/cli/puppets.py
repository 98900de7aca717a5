"""A broker that says what it is told to, for what speaks to brokers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import zmq

from grn_zmq import wire

Answer = Callable[[wire.Message], wire.Message | None]


@contextmanager
def a_broker(directory: Path, answer: Answer) -> Iterator[tuple[str, list[wire.Message]]]:
    """A broker that answers what it is told to; gives its address and what it has heard."""
    heard: list[wire.Message] = []
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        address = f"ipc://{directory}/sock"
        socket.bind(address)
        socket.setsockopt(zmq.LINGER, 0)
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                if socket.poll(20):
                    peer, *frames = socket.recv_multipart()
                    heard.append(wire.decode(frames))
                    if (reply := answer(heard[-1])) is not None:
                        socket.send_multipart([peer, *wire.encode(reply)])

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield address, heard
        finally:
            ended.set()
            thread.join()
