"""What once went wrong on a machine with one device: each story, and that it ends well now."""

import asyncio
import concurrent.futures
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from tests.conftest import forget_client
from tests.e2e.listed import all_jobs
from tests.e2e.scripts import all_leases_are_freed, devices
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("one_device")]

LONG_S = 30 * PATIENCE


@pytest.fixture(scope="module")
def one_device(home: Path) -> Iterator[grn.Server]:
    with grn.start("host:1x1000MiB", max_jobs=4, debug=True) as server:
        yield server
        forget_client()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """Jobs wait until it is touched; afterwards no job is left."""
    yield tmp_path / "gate"
    (tmp_path / "gate").touch()
    until(lambda: not all_jobs(ended=False), 20, lambda: f"{all_jobs(ended=False)}")


@grn.job()
def add(a: int, b: int) -> int:
    return a + b


@grn.job()
def waits(gate: Any) -> None:
    while not os.path.exists(gate):
        time.sleep(0.01)


@grn.job(inline=True)
def inline() -> int:
    return os.getpid()


@grn.job()
def umask_here() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


@grn.job(by=("size",))
def sized(**config: Any) -> Any:
    return config["size"]


def states(job_type: str) -> list[str]:
    return [row.state for row in all_jobs(ended=True) if row.job_type == job_type]


def in_thread(function: Callable[[], Any]) -> "concurrent.futures.Future[Any]":
    """Run this in a thread that nobody waits for at the end of the program."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    threading.Thread(target=lambda: future.set_result(function()), daemon=True).start()
    return future


def test_an_inline_job_and_a_call_that_begin_together_leave_their_worker_alive(
    gate: Path,
) -> None:
    call = add.with_options(reuse=False)  # so that it needs a process that is not there yet
    assert (inline(), call(1, 1)) == (os.getpid(), 2)
    worker = devices()[0].worker_pid
    measured = waits.with_options(type="measured alone").submit(str(gate))
    until(measured.running)
    first = in_thread(inline)
    until(lambda: states(inline.job_type)[-1] == "queued")
    second = call.submit(1, 2)
    until(lambda: states(call.job_type)[-1] == "queued")

    gate.touch()

    assert first.result(LONG_S) == os.getpid()
    assert second.result(LONG_S) == 3
    assert devices()[0].worker_pid == worker


def test_cancel_in_a_callback_returns_at_once_and_ends_the_job(gate: Path) -> None:
    waits(__file__)
    slow = waits.submit(str(gate))
    until(slow.running)
    said: list[tuple[bool, float]] = []

    def end_the_other(_: object) -> None:
        started = time.monotonic()
        said.append((slow.cancel(), time.monotonic() - started))

    add.submit(1, 1).add_done_callback(end_the_other)

    with pytest.raises(concurrent.futures.CancelledError):
        slow.result(LONG_S)
    ((cancelled, took),) = said
    assert cancelled
    assert took < 2 * PATIENCE


@pytest.mark.parametrize(
    "value", [float("nan"), 2**70, "x" * 100_000, "a\ud800"], ids=lambda v: f"{v!r:.9}"
)
def test_a_value_of_by_that_cannot_be_sent_is_refused_and_the_next_call_works(
    value: Any,
) -> None:
    waiting = add.submit(1, 1)

    with pytest.raises((TypeError, ValueError), match="by='size'"):
        sized.submit(size=value)
    with pytest.raises(TypeError, match="by='size'"):
        sized.submit(other=value)

    assert sized(size=3) == 3
    assert waiting.result(LONG_S) == 2


@pytest.mark.parametrize("what", ["type", "name"])
def test_a_job_that_cannot_be_sent_is_refused_alone(what: str) -> None:
    bad = add.with_options(type="bad")
    if what == "type":
        bad.job_type = "of a directory with a \udcff"
    else:
        object.__setattr__(bad.options, "name", "\udcff")
    held, go_on = threading.Event(), threading.Event()

    def hold_the_connection(_: object) -> None:
        held.set()
        assert go_on.wait(LONG_S)

    add.submit(0, 0).add_done_callback(hold_the_connection)
    assert held.wait(LONG_S)

    futures = [add.submit(1, 1), bad.submit(1, 2), add.submit(1, 3)]  # in one message
    go_on.set()

    assert (futures[0].result(LONG_S), futures[2].result(LONG_S)) == (2, 4)
    with pytest.raises(grn.RequestRefused, match="cannot be sent"):
        futures[1].result(LONG_S)
    assert add(1, 4) == 5


def test_r36_ctrl_c_in_the_wait_after_the_stand_in_gives_the_lease_back(gate: Path) -> None:
    main = threading.get_ident()

    @grn.job(inline=True, type="has a stand-in")
    def heavy() -> None:
        raise AssertionError("the device was never ours")

    @heavy.profile
    def light() -> None:
        # Of a new type and ours, so it begins beside us, and then has the device alone.
        until(waits.with_options(type="takes the device").submit(str(gate)).running)

    def interrupt() -> None:
        until(lambda: states("takes the device") == ["running"])
        until(lambda: states("has a stand-in") == ["queued"])
        signal.pthread_kill(main, signal.SIGINT)

    interrupted = in_thread(interrupt)
    with pytest.raises(KeyboardInterrupt):
        heavy()
    interrupted.result(LONG_S)
    gate.touch()

    until(lambda: states("takes the device") == ["succeeded"])
    until(lambda: states("has a stand-in") == ["cancelled"])
    all_leases_are_freed()


def test_many_inline_coroutines_leave_the_threads_of_the_loop_to_their_bodies() -> None:
    @grn.job(inline=True)
    async def body(n: int) -> int:
        return await asyncio.to_thread(abs, -n)

    async def main() -> list[int]:
        asyncio.get_running_loop().set_default_executor(
            concurrent.futures.ThreadPoolExecutor(4)
        )
        bodies = asyncio.gather(*(body(n) for n in range(60)))
        return await asyncio.wait_for(bodies, LONG_S)

    assert asyncio.run(main()) == list(range(60))
    all_leases_are_freed()


def test_calls_that_take_turns_with_two_functions_of_one_type_share_a_process() -> None:
    def one() -> tuple[str, int]:
        return "one", os.getpid()

    def other() -> tuple[str, int]:
        return "other", os.getpid()

    first, second = (grn.job(type="of two functions")(function) for function in (one, other))

    values = [job() for job in (first, second, first, second, second, first)]

    assert [value[0] for value in values] == ["one", "other", "one", "other", "other", "one"]
    assert len({value[1] for value in values}) == 1


def test_a_umask_that_changes_between_two_calls_is_seen_by_the_second() -> None:
    before = os.umask(0o022)
    try:
        first = umask_here()
        os.umask(0o077)
        second = umask_here()
    finally:
        os.umask(before)

    assert (first, second) == (0o022, 0o077)


def test_map_with_an_item_that_cannot_be_pickled_cancels_those_before_it(gate: Path) -> None:
    job = waits.with_options(type="mapped in vain")

    with pytest.raises(grn.NotPicklable):
        job.map([str(gate), str(gate), threading.Lock()])

    # Those that were not on their way yet never go.
    until(lambda: set(states("mapped in vain")) <= {"cancelled"}, 10)
    all_leases_are_freed()


def test_a_callback_that_waits_for_a_job_is_told_why_it_cannot() -> None:
    errors: list[BaseException] = []

    def wait(_: object) -> None:
        for call in (add, add.spawn):
            try:
                call(1, 2)
            except RuntimeError as error:
                errors.append(error)

    add.submit(1, 2).add_done_callback(wait)

    until(lambda: len(errors) == 2)
    assert all("another thread" in str(error) for error in errors)
    assert add(2, 1) == 3
