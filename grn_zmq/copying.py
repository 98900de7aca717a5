"""Copies large buffers, by several threads where that is faster."""

import os
import sys
import threading
from typing import Any, Final

Buffer = bytes | bytearray | memoryview

# Between two steps signals are heard and other threads of the program go on.
STEP_BYTES: Final = 4 << 20
# From this size on a file is mapped; less is copied as fast, and a mapping takes a descriptor.
MAPPED_BYTES: Final = 4 << 20
# What a thread copies in a millisecond; less is not worth starting one.
LEAST_FOR_A_THREAD: Final = 16 << 20
# More cannot get at the memory any faster.
MOST_THREADS: Final = 4


def copy(target: memoryview, source: memoryview) -> None:
    """Copy all of the source to the beginning of the target; both are plain bytes."""
    size = len(source)
    cores = len(os.sched_getaffinity(0))
    threads = min(MOST_THREADS, cores, size // LEAST_FOR_A_THREAD)
    # Only numpy copies without the lock of the interpreter; who has large arrays has it.
    numpy = sys.modules.get("numpy")
    if numpy is None or threads < 2:
        _copy_stepwise(target, source)
        return
    part = -(-size // threads)
    parts = [(at, min(at + part, size)) for at in range(0, size, part)]
    helpers = []
    for start, end in parts[1:]:
        args = (numpy, target[start:end], source[start:end])
        helper = threading.Thread(target=_copy_unlocked, args=args, daemon=True)
        try:
            helper.start()
        except RuntimeError:  # no more threads are to be had
            _copy_unlocked(*args)
        else:
            helpers.append(helper)
    start, end = parts[0]
    _copy_unlocked(numpy, target[start:end], source[start:end])
    for helper in helpers:
        helper.join()


def _copy_stepwise(target: memoryview, source: memoryview) -> None:
    for at in range(0, len(source), STEP_BYTES):
        step = source[at : at + STEP_BYTES]
        target[at : at + len(step)] = step


def _copy_unlocked(numpy: Any, target: memoryview, source: memoryview) -> None:
    bytes_of = numpy.frombuffer
    numpy.copyto(bytes_of(target, numpy.uint8), bytes_of(source, numpy.uint8))
