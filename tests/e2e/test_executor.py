"""`grn.Executor` where a `concurrent.futures.Executor` is expected."""

import asyncio
import concurrent.futures
import os
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from tests.e2e.scripts import all_leases_are_freed, broker_pid, stopped
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]


def square(n: int) -> int:
    return n * n


def add(a: int, b: int = 0, *, c: int = 0) -> int:
    return a + b + c


def pid_of(_: object = None) -> int:
    return os.getpid()


def wait_for(path: str) -> str:
    while not os.path.exists(path):
        time.sleep(0.01)
    return path


def fail_at(n: int) -> int:
    if n == 3:
        raise ZeroDivisionError(n)
    return n


def variable(name: str) -> str | None:
    return os.environ.get(name)


class Adder:
    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, n: int) -> int:
        return n + self.by

    def method(self, n: int) -> int:
        return n + self.by


def all_run(futures: "Sequence[concurrent.futures.Future[Any]]") -> bool:
    return all(future.running() for future in futures)


@pytest.fixture
def gate(tmp_path: Path) -> str:
    return str(tmp_path / "gate")


def test_it_is_an_executor_that_runs_elsewhere() -> None:
    with grn.Executor() as pool:
        assert isinstance(pool, concurrent.futures.Executor)
        future = pool.submit(pid_of)
        assert isinstance(future, concurrent.futures.Future)
        assert future.result() != os.getpid()


def test_submit_passes_arguments_of_any_kind() -> None:
    with grn.Executor() as pool:
        assert pool.submit(add, 1, b=2, c=3).result() == 6
        assert pool.submit(pow, 2, 5).result() == 32
        assert pool.submit(partial(add, 1), 2).result() == 3
        assert pool.submit(Adder(5).method, 1).result() == 6
        assert pool.submit(Adder(6), 1).result() == 7
        assert pool.submit(lambda x: x + 1, 1).result() == 2


def test_map_keeps_the_order_and_takes_several_iterables() -> None:
    with grn.Executor() as pool:
        assert list(pool.map(square, range(20), chunksize=5)) == [n * n for n in range(20)]
        assert list(pool.map(add, [1, 2], iter([10, 20, 30]))) == [11, 22]


def test_map_raises_at_the_item_that_failed() -> None:
    with grn.Executor() as pool:
        values = pool.map(fail_at, range(5))
        assert [next(values) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ZeroDivisionError):
            next(values)


def test_map_has_a_timeout(gate: str) -> None:
    with grn.Executor() as pool:
        values = pool.map(wait_for, [gate], timeout=0.1)
        with pytest.raises(TimeoutError):
            next(values)
        Path(gate).touch()


def test_leaving_the_with_block_waits(gate: str) -> None:
    with grn.Executor() as pool:
        future = pool.submit(wait_for, gate)
        threading.Timer(0.2, Path(gate).touch).start()

    assert future.done()
    assert future.result() == gate


def test_submit_after_shutdown_raises() -> None:
    pool = grn.Executor()
    pool.shutdown()

    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(square, 1)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.map(square, [1])
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(square, threading.Lock())  # type: ignore[arg-type]
    pool.shutdown()


def test_shutdown_without_wait_returns_and_the_jobs_go_on(gate: str) -> None:
    pool = grn.Executor(max_workers=1)
    futures = [pool.submit(wait_for, gate) for _ in range(2)]

    pool.shutdown(wait=False)

    assert not any(future.done() for future in futures)
    Path(gate).touch()
    assert [future.result(10 * PATIENCE) for future in futures] == [gate] * 2


@pytest.mark.parametrize("max_workers", [1, None])
def test_shutdown_can_cancel_what_has_not_begun(gate: str, max_workers: int | None) -> None:
    pool = grn.Executor(max_workers, type=f"of its own {max_workers}")
    futures = [pool.submit(wait_for, gate) for _ in range(4)]
    until(futures[0].running)

    pool.shutdown(wait=False, cancel_futures=True)

    for future in futures[1:]:
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(5 * PATIENCE)
    assert futures[0].running()
    Path(gate).touch()
    assert futures[0].result() == gate
    pool.shutdown()


@pytest.mark.parametrize("max_workers", [1, 2])
def test_max_workers_bounds_the_jobs_at_once(tmp_path: Path, max_workers: int) -> None:
    gates = [tmp_path / str(n) for n in range(4)]
    with grn.Executor(max_workers) as pool:
        pool.submit(wait_for, __file__).result()
        futures = [pool.submit(wait_for, str(gate)) for gate in gates]
        for n, gate in enumerate(gates):
            first, rest = futures[n : n + max_workers], futures[n + max_workers :]
            until(partial(all_run, first))
            assert not any(future.running() or future.done() for future in rest)
            gate.touch()
            futures[n].result()


def test_without_max_workers_the_devices_decide(tmp_path: Path) -> None:
    with grn.Executor() as pool:
        pool.submit(wait_for, __file__).result()
        gates = [str(tmp_path / str(n)) for n in range(3)]
        futures = [pool.submit(wait_for, gate) for gate in gates]
        until(lambda: all(future.running() for future in futures))
        for gate in gates:
            Path(gate).touch()


def test_submit_never_blocks(gate: str) -> None:
    pool = grn.Executor(max_workers=1)
    first = pool.submit(wait_for, gate)
    until(first.running)

    with stopped(broker_pid()):
        started = time.monotonic()
        futures = [pool.submit(square, n) for n in range(100)]
        took = time.monotonic() - started
        assert futures[50].cancel()

    Path(gate).touch()
    assert took < 2 * PATIENCE
    assert [f.result() for f in futures if not f.cancelled()] == [
        n * n for n in range(100) if n != 50
    ]
    pool.shutdown()


def test_held_and_running_tasks_can_be_cancelled(gate: str) -> None:
    with grn.Executor(max_workers=1) as pool:
        first, second, third = (pool.submit(wait_for, gate) for _ in range(3))
        until(first.running)
        assert second.cancel()
        assert second.cancelled()
        assert first.cancel()
        until(third.running)
        Path(gate).touch()
        assert third.result() == gate
    with pytest.raises(concurrent.futures.CancelledError):
        first.result()


def test_job_options_hold_for_all_its_jobs() -> None:
    with grn.Executor(env={"MINE": "given"}, reuse=False, type="mine") as pool:
        assert pool.submit(variable, "MINE").result() == "given"
        assert len(set(pool.map(pid_of, range(3)))) == 3


def test_a_decorated_function_keeps_its_own_options() -> None:
    job = grn.job(env={"MINE": "its own"})(variable)

    with grn.Executor(env={"MINE": "the pool's"}) as pool:
        assert pool.submit(job, "MINE").result() == "its own"
        with pytest.raises(TypeError, match="is inline"):
            pool.submit(job.with_options(inline=True), "MINE")


def test_what_cannot_be_pickled_fails_at_submit() -> None:
    with grn.Executor() as pool:
        with pytest.raises(grn.NotPicklable, match="argument 'n'"):
            pool.submit(square, threading.Lock())  # type: ignore[arg-type]
        assert pool.submit(square, 3).result() == 9


def test_an_event_loop_takes_it_as_its_executor() -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        with grn.Executor() as pool:
            return await asyncio.gather(
                *(loop.run_in_executor(pool, square, n) for n in range(4))
            )

    assert asyncio.run(main()) == [0, 1, 4, 9]


def test_tasks_submitted_by_a_callback_run_too() -> None:
    found: list[int] = []
    with grn.Executor() as pool:
        again = threading.Event()

        def more(future: "concurrent.futures.Future[int]") -> None:
            found.append(future.result())
            if future.result() < 100:
                pool.submit(square, future.result()).add_done_callback(more)
            else:
                again.set()

        pool.submit(square, 2).add_done_callback(more)
        assert again.wait(20 * PATIENCE)

    assert found == [4, 16, 256]
    all_leases_are_freed()
