"""Threads that open results: in order, and past whatever hangs."""

import threading
import time
from functools import partial

from grn_zmq.openers import STUCK_S, Openers
from tests.waiting import until


def test_tasks_run_in_order_in_a_thread_of_their_own() -> None:
    openers, done = Openers(), list[tuple[int, bool]]()

    for number in range(100):
        openers.put(partial(lambda n: done.append((n, openers.is_this_thread)), number))

    until(lambda: len(done) == 100)
    assert done == [(number, True) for number in range(100)]
    assert not openers.is_this_thread
    assert len(openers._threads) == 1


def test_a_task_that_fails_does_not_end_its_thread() -> None:
    openers, done = Openers(), threading.Event()

    def fail() -> None:
        raise SystemExit

    openers.put(fail)
    openers.put(done.set)

    until(done.is_set)


def test_what_hangs_holds_up_nobody_else() -> None:
    openers, hanging, go_on = Openers(), threading.Semaphore(0), threading.Event()
    done = threading.Event()

    def hang() -> None:
        hanging.release()
        go_on.wait(60)

    for _ in range(3):
        openers.put(hang)
    openers.put(done.set)
    later = time.monotonic() + STUCK_S
    while not done.is_set():
        openers.tick(later)  # as if each look came after a while
        later += STUCK_S
        done.wait(0.05)
    go_on.set()

    assert sum(hanging.acquire(timeout=5) for _ in range(3)) == 3


def test_without_tasks_nobody_has_to_look() -> None:
    openers = Openers()

    assert openers.tick(0.0) is None
