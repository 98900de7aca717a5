"""The same work for every contender: many in flight, one in flight, payloads."""

import statistics
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from .contender import Contender, Sample, SharedWork, require
from .sizes import PIECE_BYTES, Size

# Calls before anything is timed, and as many again to see how fast it is.
WARM: Final = 20
FEWEST: Final = 20
MB: Final = 1e6
# Large payloads that take longer are not repeated.
PATIENCE_S: Final = 30.0


def noop(contender: Contender, size: Size) -> Iterator[Sample]:
    """Bursts of jobs that do nothing: how many per second, handed over and done."""
    count = _count_in(contender, size)
    for _ in range(size.repeats):
        begun = time.perf_counter()
        handles = [contender.submit("noop") for _ in range(count)]
        handed = time.perf_counter()
        values = contender.gather(handles)
        ended = time.perf_counter()
        require(values == [1] * count, f"{count} times 1 was not what came back")
        yield "rate", count / (ended - begun)
        yield "submits", count / (handed - begun)


def _count_in(contender: Contender, size: Size) -> int:
    """How many jobs make a burst; a slow contender gets fewer."""
    for _ in range(WARM):
        contender.call("noop")
    begun = time.perf_counter()
    contender.gather([contender.submit("noop") for _ in range(WARM)])
    rate = WARM / (time.perf_counter() - begun)
    return int(max(FEWEST, min(size.burst, rate * size.burst_s)))


def latency(contender: Contender, size: Size) -> Iterator[Sample]:
    """One job in flight, on processes that are warm: seconds from the call to the value."""
    for _ in range(WARM):
        contender.call("noop")
    for _ in range(size.repeats):
        times: list[float] = []
        for _ in range(size.calls):
            begun = time.perf_counter()
            value = contender.call("noop")
            times.append(time.perf_counter() - begun)
            require(value == 1, "1 was not what came back")
        yield "p50_s", statistics.median(times)
        yield "p99_s", sorted(times)[int(0.99 * (len(times) - 1))]


def payload(contender: Contender, size: Size) -> Iterator[Sample]:
    """Many payloads of 1 MiB at once, there and back, in MB of both ways per second."""
    piece = data(PIECE_BYTES)
    contender.gather([contender.submit("echo", piece) for _ in range(2)])
    for _ in range(size.repeats):
        begun = time.perf_counter()
        values = contender.gather([contender.submit("echo", piece) for _ in range(size.pieces)])
        seconds = time.perf_counter() - begun
        require(all(_same(value, piece) for value in values), "not the piece that was sent")
        yield "mb_per_s", 2 * size.pieces * PIECE_BYTES / MB / seconds


def large(contender: Contender, size: Size) -> Iterator[Sample]:
    """One large payload, there and back, in seconds; the first time is not counted."""
    whole = data(size.large_bytes)
    first_s = 0.0
    for turn in range(size.repeats + 1):
        begun = time.perf_counter()
        value = contender.call("echo", whole)
        seconds = time.perf_counter() - begun
        require(_same(value, whole), "not what was sent")
        del value
        first_s = first_s or seconds
        if turn or first_s > PATIENCE_S:
            yield "seconds", seconds
        if first_s > PATIENCE_S:
            return


def data(size_bytes: int) -> Any:
    """An array where numpy is installed, else bytes; no two pages of it are alike."""
    pages = (number.to_bytes(8, "little") * 512 for number in range(size_bytes // 4096))
    plain = b"".join(pages)
    if find_spec("numpy") is None:
        return plain
    return import_module("numpy").frombuffer(plain, dtype="uint8").copy()


def _same(value: Any, sent: Any) -> bool:
    return bytes(memoryview(value).cast("B")) == bytes(memoryview(sent).cast("B"))


SHARED: Final[dict[str, SharedWork]] = {
    "noop": noop,
    "latency": latency,
    "payload": payload,
    "large": large,
}
