"""Futures of jobs: waited for, awaited, cancelled; a broker that stands still blocks nobody."""

import asyncio
import concurrent.futures
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from tests.e2e.scripts import all_leases_are_freed, broker_pid, is_gone, leases, stopped
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]


@grn.job()
def waits(gate: str, note: str = "") -> int:
    if note:
        with open(note + ".draft", "w") as file:
            file.write(str(os.getpid()))
        os.rename(note + ".draft", note)
    while not os.path.exists(gate):
        time.sleep(0.01)
    return os.getpid()


@grn.job()
async def slept(value: int) -> tuple[int, int]:
    await asyncio.sleep(0.01)
    return value, os.getpid()


@grn.job()
async def waits_async(gate: str) -> str:
    while not os.path.exists(gate):
        await asyncio.sleep(0.01)
    return gate


@grn.job()
def add(a: int, b: int) -> int:
    return a + b


@pytest.fixture
def gate(tmp_path: Path) -> str:
    return str(tmp_path / "gate")


def opened(gate: str) -> None:
    Path(gate).touch()


def pid_in(note: Path) -> int:
    until(note.exists)
    return int(note.read_text())


def test_a_future_tells_the_truth_about_its_job(gate: str) -> None:
    future = waits.submit(gate)
    assert isinstance(future, concurrent.futures.Future)
    until(future.running)
    assert not future.done()

    opened(gate)

    assert isinstance(future.result(), int)
    assert future.done()
    assert not future.running()
    assert not future.cancelled()
    assert not future.cancel()


def test_a_queued_future_does_not_run(gate: str, tmp_path: Path) -> None:
    new = waits.with_options(type="a type of its own")
    first, second = new.submit(gate), new.submit(gate, str(tmp_path / "note"))
    until(first.running)

    assert not second.running()
    assert second.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        second.result()
    assert second.cancelled()
    assert not second.running()
    opened(gate)
    first.result()
    assert not (tmp_path / "note").exists()


def test_p32_a_running_job_is_cancelled_and_its_process_gone(gate: str, tmp_path: Path) -> None:
    future = waits.submit(gate, str(tmp_path / "note"))
    pid = pid_in(tmp_path / "note")

    assert future.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(timeout=5 * PATIENCE)

    assert future.cancelled()
    assert future.cancel()
    is_gone(pid, 0.1)
    all_leases_are_freed()


def test_result_has_a_timeout_that_does_not_cancel(gate: str) -> None:
    future = waits.submit(gate)

    with pytest.raises(TimeoutError):
        future.result(timeout=0.05)

    opened(gate)
    assert isinstance(future.result(), int)


def test_as_completed_and_wait_take_our_futures(gate: str) -> None:
    add(0, 0)
    waits.with_options(type="known").submit(__file__).result()
    slow = waits.with_options(type="known").submit(gate)
    quick = [add.submit(n, n) for n in range(3)]

    done, left = concurrent.futures.wait([slow, *quick], return_when="FIRST_COMPLETED")
    assert done <= set(quick)
    assert slow in left
    found = {future.result() for future in concurrent.futures.as_completed(quick)}
    assert found == {0, 2, 4}

    slow.cancel()
    assert concurrent.futures.wait([slow], timeout=10 * PATIENCE).done == {slow}
    assert list(concurrent.futures.as_completed([slow])) == [slow]


def test_callbacks_are_called_once_the_job_has_ended(gate: str) -> None:
    called: list[Any] = []
    future = waits.submit(gate)
    future.add_done_callback(called.append)
    assert not called

    opened(gate)

    until(lambda: called == [future])


def test_cancelling_many_takes_one_moment() -> None:
    more_than_fit_into_one_message = 4200
    new = waits.with_options(type="of many")
    values = new.map(["/nowhere"] * more_than_fit_into_one_message, timeout=0.1)
    started = time.monotonic()

    with pytest.raises(TimeoutError):
        next(values)

    all_leases_are_freed()
    assert time.monotonic() - started < 5 * PATIENCE


def test_a_future_can_be_awaited() -> None:
    async def main() -> list[int]:
        futures = [add.submit(n, 1) for n in range(5)]
        first = await futures[0]
        return [first, *await asyncio.gather(*futures[1:]), await futures[0]]

    assert asyncio.run(main()) == [1, 2, 3, 4, 5, 1]


def test_an_awaited_future_raises_what_its_job_raised() -> None:
    async def main() -> None:
        await add.submit("a", 1)  # type: ignore[arg-type]

    with pytest.raises(TypeError):
        asyncio.run(main())


def test_r40_awaiting_an_async_job_gives_its_value() -> None:
    async def main() -> list[tuple[int, int]]:
        return [await slept(1), *await asyncio.gather(slept(2), slept(3))]

    found = asyncio.run(main())

    assert [value for value, _ in found] == [1, 2, 3]
    assert os.getpid() not in {pid for _, pid in found}
    again: Any = slept.submit(4).result()
    assert again[0] == 4


def test_r40_an_async_job_holds_its_lease_until_it_finishes(gate: str) -> None:
    async def main() -> tuple[int, str]:
        task = asyncio.create_task(waits_async(gate))
        while not await asyncio.to_thread(leases):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        during = await asyncio.to_thread(leases)
        opened(gate)
        return during, await task

    assert asyncio.run(main()) == (1, gate)
    all_leases_are_freed()


async def ticks_while(step: Callable[[], Any], count: int = 20) -> float:
    """Do the step in the loop; give the longest time the loop stood still around it."""
    longest, before = 0.0, time.monotonic()
    for n in range(count):
        if n == 3:
            step()
        await asyncio.sleep(0.01)
        longest, before = max(longest, time.monotonic() - before), time.monotonic()
    return longest


def test_cancelling_an_awaiting_task_cancels_the_job(gate: str, tmp_path: Path) -> None:
    note = tmp_path / "note"

    async def main() -> None:
        task = asyncio.create_task(asyncio.wait_for(waits.submit(gate, str(note)), 60))
        while not note.exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    is_gone(pid_in(note))
    all_leases_are_freed()


def test_cancelling_a_job_raises_cancelled_where_it_is_awaited(gate: str) -> None:
    async def main() -> None:
        future = waits.submit(gate)
        asyncio.get_running_loop().call_later(0.05, future.ask_to_cancel)
        await future

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_cancelling_in_asyncio_does_not_block_the_loop(gate: str) -> None:
    async def main() -> float:
        future = waits.submit(gate)
        waiting = asyncio.ensure_future(waits_async(gate))
        tasks = [asyncio.create_task(asyncio.wait_for(future, 60)), waiting]
        while not future.running():
            await asyncio.sleep(0.01)
        with stopped(broker_pid()):
            longest = await ticks_while(lambda: [task.cancel() for task in tasks])
            assert [task.cancelled() for task in tasks] == [True, True]
        return longest

    assert asyncio.run(main()) < 1.0 * PATIENCE
    all_leases_are_freed(10)


def test_a_time_limit_around_an_async_job_ends_it(gate: str) -> None:
    async def main() -> None:
        await asyncio.wait_for(waits_async(gate), 0.3)

    with pytest.raises(TimeoutError):
        asyncio.run(main())

    all_leases_are_freed()
