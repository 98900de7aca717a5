"""Many connections of one process: `python -m tests.faults.crowd ADDRESS COUNT`.

It says `there` once the broker has welcomed all of them, and stays until its input ends.
"""

import os
import sys
import uuid

import zmq

from grn_zmq import wire


def main() -> None:
    address, count = sys.argv[1], int(sys.argv[2])
    context = zmq.Context()
    sockets = []
    for _ in range(count):
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(address)
        hello = wire.Hello(wire.PROTOCOL, uuid.uuid4().hex, os.getpid())
        socket.send_multipart(wire.encode(hello))
        sockets.append(socket)
    for socket in sockets:
        assert isinstance(wire.decode(socket.recv_multipart()), wire.Welcome)
    print("there", flush=True)
    sys.stdin.read()
    for socket in sockets:
        socket.close()
    context.term()


if __name__ == "__main__":
    main()
