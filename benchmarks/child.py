"""One measurement of one contender, in a process of its own; see `grn_zmq.bench.child`."""

import sys
from collections.abc import Iterator
from typing import Final

from benchmarks import growth
from benchmarks.peers import PEERS, make
from benchmarks.peers.on_tsp import commands
from grn_zmq.bench import child
from grn_zmq.bench.contender import Sample, require
from grn_zmq.bench.figures import OURS
from grn_zmq.bench.sizes import WORKERS, Size
from grn_zmq.bench.starts import HELLO, seconds_to_hello

MORE: Final = {"workers": growth.workers, "warm": growth.warm}


def work_on(name: str, row: str, size: Size) -> Iterator[Sample]:
    """What a contender does for a row, whoever it is."""
    if name == OURS and row in MORE:
        return MORE[row](size)
    if name == "tsp":
        return commands(size)
    if name not in PEERS:
        return child.work_on(name, row, size)
    if row == "first":
        return _first(name, size)
    return child.shared(row, make(name), size)


def _first(name: str, size: Size) -> Iterator[Sample]:
    """A program that starts a peer, calls one job, and says hello."""
    words = [sys.executable, "-m", "benchmarks.child", name]
    for _ in range(size.starts):
        yield "function_s", seconds_to_hello(words)


def hello(name: str) -> None:
    peer = make(name)
    peer.start(WORKERS)
    require(peer.call("noop") == 1, "1 was not what came back")
    print(HELLO, flush=True)
    peer.stop()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        hello(sys.argv[1])
    else:
        child.main(work_on)
