"""One device with one job at once: job processes used again, and jobs that submit jobs."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from tests.conftest import forget_client
from tests.e2e.scripts import all_leases_are_freed, is_gone, run_script, write_script
from tests.waiting import PATIENCE, until

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


@grn.job(reuse=True)
def pid_again(spoil_streams: bool = False) -> int:
    print("said", flush=True)
    if spoil_streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return os.getpid()


@grn.job(reuse=False)
def pid_anew() -> int:
    return os.getpid()


def test_reuse_gives_the_same_process_and_no_reuse_a_new_one_each_time() -> None:
    assert len({pid_again() for _ in range(4)}) == 1
    assert len({pid_anew() for _ in range(3)}) == 3


def test_p29_a_job_that_spoils_its_streams_spoils_no_others(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for spoil_streams in (True, False, True, False):
        pid_again(spoil_streams)

    assert capfd.readouterr().out == "said\n" * 4


def test_r39_a_job_that_calls_a_job_of_its_own_type_returns() -> None:
    started = time.monotonic()

    assert same_type(1) == 2
    assert time.monotonic() - started < 2 * PATIENCE
    assert same_type(3) == 4


def test_r39_jobs_in_jobs_in_jobs_share_one_device() -> None:
    assert outer(2) == [[0, 1]] * 2
    all_leases_are_freed()


def test_r39_an_inline_job_runs_inside_a_job() -> None:
    assert uses_inline(3) == 20
    all_leases_are_freed()


def test_r39_an_executor_works_inside_a_job() -> None:
    assert uses_executor(4) == [4, 3, 2, 1]


def test_r39_async_jobs_await_each_other() -> None:
    value: Any = nested_async.submit(2).result(10 * PATIENCE)

    assert value == 3


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
            print(fib(3))
        """,
    )

    done = run_script(script)

    assert done.stdout == "2\n", done.stderr


def test_two_nesting_jobs_at_once_do_not_wait_for_each_other() -> None:
    futures = [same_type.submit(1) for _ in range(3)]

    assert [future.result(20 * PATIENCE) for future in futures] == [2, 2, 2]


def test_cancelling_an_outer_job_ends_the_inner_one(tmp_path: Path) -> None:
    @grn.job()
    def waits(note: str) -> None:
        Path(note).write_text(str(os.getpid()))
        while True:
            time.sleep(0.01)

    @grn.job()
    def waits_below(note: str) -> None:
        waits(note)

    note = tmp_path / "note"
    future = waits_below.submit(str(note))
    until(lambda: note.exists() and note.read_text())

    assert future.cancel()

    is_gone(int(note.read_text()))
    all_leases_are_freed()
