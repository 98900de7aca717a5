"""Inline jobs of many threads, and waits for a lease that are given up."""

import asyncio
import os
import signal
import threading
import time
from typing import Any

import pytest

import grn_zmq as grn
from grn_zmq.client import this_client
from grn_zmq.wire import AskJobs, JobsAre
from tests.e2e.scripts import all_leases_are_freed
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]


@grn.job(inline=True)
def same(*args: Any) -> tuple[Any, ...]:
    return args


@grn.job(inline=True, type="held")
def hold(begun: threading.Event, end: threading.Event) -> None:
    begun.set()
    assert end.wait(30 * PATIENCE)


def test_inline_jobs_of_many_threads_take_their_turns() -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda n=n: found.append(same(n)[0])) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20 * PATIENCE)

    assert sorted(found) == list(range(8))
    all_leases_are_freed()


def test_a_waiting_inline_job_does_not_keep_nested_ones_of_others_from_running() -> None:
    begun, end = threading.Event(), threading.Event()
    nested_done = threading.Event()

    @grn.job(inline=True)
    def outer() -> None:
        begun.set()
        assert end.wait(30 * PATIENCE)
        same(1)
        nested_done.set()

    @grn.job(inline=True, type="waits for two devices to be idle")
    def waiter() -> None: ...

    first = threading.Thread(target=outer)
    first.start()
    assert begun.wait(10 * PATIENCE)
    other_begun, other_end = threading.Event(), threading.Event()
    second = threading.Thread(target=hold, args=(other_begun, other_end))
    second.start()
    assert other_begun.wait(10 * PATIENCE)
    third = threading.Thread(target=waiter)
    third.start()
    until(lambda: len(queued()) == 1)

    end.set()

    assert nested_done.wait(10 * PATIENCE)
    other_end.set()
    for thread in (first, second, third):
        thread.join(10 * PATIENCE)
        assert not thread.is_alive()


def queued() -> list[str]:
    rows = this_client().ask(AskJobs(0, False), JobsAre).rows
    return [row.job_type for row in rows if row.state == "queued"]


def occupied(count: int) -> tuple[list[threading.Thread], threading.Event]:
    """Keep devices busy with jobs of types that were never measured."""
    end, threads = threading.Event(), []
    for n in range(count):
        begun = threading.Event()
        job = hold.with_options(type=f"occupies {n} {time.monotonic_ns()}")
        threads.append(threading.Thread(target=job, args=(begun, end)))
        threads[-1].start()
        assert begun.wait(10 * PATIENCE)
    return threads, end


def test_giving_up_the_wait_for_a_lease_leaves_nothing_behind() -> None:
    threads, end = occupied(2)

    async def main() -> None:
        @grn.job(inline=True, type="never begins")
        async def never() -> None:
            raise AssertionError

        await asyncio.wait_for(never(), 0.2)

    started = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert time.monotonic() - started < 3 * PATIENCE
    until(lambda: not queued(), 2)

    end.set()
    for thread in threads:
        thread.join(10 * PATIENCE)
    all_leases_are_freed()


def test_r36_an_interrupted_wait_for_a_lease_leaves_nothing_behind() -> None:
    threads, end = occupied(2)
    never = hold.with_options(type="never begins either")
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        until(lambda: bool(queued()))
        signal.pthread_kill(main, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        never(threading.Event(), threading.Event())
    interrupter.join()
    until(lambda: not queued(), 2)

    end.set()
    for thread in threads:
        thread.join(10 * PATIENCE)
    all_leases_are_freed()


def test_r43_variables_are_put_back_whatever_order_threads_leave_in() -> None:
    assert "GRN_DEVICE" not in os.environ
    first, second = threading.Event(), threading.Event()
    begun_first, begun_second = threading.Event(), threading.Event()
    same(1)
    hold_known = hold.with_options(type=same.job_type)
    threads = [
        threading.Thread(target=hold_known, args=(begun_first, first)),
        threading.Thread(target=hold_known, args=(begun_second, second)),
    ]
    for thread, begun in zip(threads, (begun_first, begun_second), strict=True):
        thread.start()
        assert begun.wait(10 * PATIENCE)

    assert os.environ["GRN_DEVICE"].startswith("host:")
    first.set()
    threads[0].join(10 * PATIENCE)
    assert os.environ["GRN_DEVICE"].startswith("host:")
    second.set()
    threads[1].join(10 * PATIENCE)

    assert "GRN_DEVICE" not in os.environ
