"""Jobs that submit jobs, on one device that has room for one measuring run only."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.conftest import forget_client
from tests.e2e.scripts import all_leases_are_freed, run_script, write_script
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("one_device")]


@pytest.fixture(scope="module")
def one_device(home: Path) -> Iterator[grn.Server]:
    with grn.start("host:1x1000MiB", max_jobs=1, debug=True) as server:
        yield server
        forget_client()


@grn.job()
def same_type(depth: int) -> int:
    return 1 + (same_type(depth - 1) if depth else 0)


@grn.job()
def leaf(n: int) -> int:
    return n * n


@grn.job()
def fans_out(count: int) -> list[int]:
    return list(leaf.map(range(count)))


@grn.job()
def outer(count: int) -> list[list[int]]:
    futures = [fans_out.submit(count) for _ in range(2)]
    return [future.result() for future in futures]


@grn.job(inline=True)
def inline_leaf(n: int) -> int:
    return leaf(n) + 1


@grn.job()
def uses_inline(n: int) -> int:
    return inline_leaf(n) + inline_leaf(n)


@grn.job()
def uses_executor(count: int) -> list[int]:
    with grn.Executor(max_workers=2) as pool:
        return list(pool.map(abs, range(-count, 0)))


@grn.job()
async def nested_async(depth: int) -> int:
    return 1 + (await nested_async(depth - 1) if depth else 0)


@grn.job()
def fails_below() -> int:
    return leaf("not a number")  # type: ignore[arg-type]


@grn.job()
def spawns() -> str:
    return leaf.spawn(9)


def test_r39_a_job_that_calls_a_job_of_its_own_type_returns() -> None:
    started = time.monotonic()

    assert same_type(1) == 2
    assert time.monotonic() - started < 2 * PATIENCE
    assert same_type(4) == 5


def test_r39_jobs_in_jobs_in_jobs_share_one_device() -> None:
    assert outer(3) == [[0, 1, 4]] * 2
    all_leases_are_freed()


def test_r39_an_inline_job_runs_inside_a_job() -> None:
    assert uses_inline(3) == 20
    all_leases_are_freed()


def test_r39_an_executor_works_inside_a_job() -> None:
    assert uses_executor(4) == [4, 3, 2, 1]


def test_r39_async_jobs_await_each_other() -> None:
    assert nested_async.submit(2).result(10 * PATIENCE) == 3


def test_r31_an_exception_crosses_both_jobs_with_all_frames() -> None:
    with pytest.raises(TypeError) as caught:
        fails_below()

    names = [entry.name for entry in caught.traceback]
    assert names.index("fails_below") < names.index("leaf")


def test_a_job_spawned_by_a_job_outlives_it() -> None:
    assert grn.attach(spawns()).result(10 * PATIENCE) == 81


def test_r39_a_function_of_a_script_calls_itself(tmp_path: Path) -> None:
    script = write_script(
        tmp_path / "fib.py",
        """
        @grn.job()
        def fib(n):
            return n if n < 2 else fib(n - 1) + fib(n - 2)

        if __name__ == "__main__":
            print(fib(4))
        """,
    )

    done = run_script(script)

    assert done.stdout == "3\n", done.stderr


def test_two_nesting_jobs_at_once_do_not_wait_for_each_other() -> None:
    futures = [same_type.submit(2) for _ in range(3)]

    assert [future.result(20 * PATIENCE) for future in futures] == [3, 3, 3]


def test_cancelling_an_outer_job_ends_the_inner_one(tmp_path: Path) -> None:
    @grn.job()
    def waits(note: str) -> None:
        import os

        Path(note).write_text(str(os.getpid()))
        while True:
            time.sleep(0.01)

    @grn.job()
    def waits_below(note: str) -> None:
        waits(note)

    from tests.e2e.scripts import is_gone
    from tests.waiting import until

    note = tmp_path / "note"
    future = waits_below.submit(str(note))
    until(lambda: note.exists() and note.read_text())

    assert future.cancel()

    is_gone(int(note.read_text()))
    all_leases_are_freed()
