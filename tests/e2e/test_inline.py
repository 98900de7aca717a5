"""`inline=True`: the caller's own process runs the job, under a lease."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from tests.e2e.scripts import all_leases_are_freed, leases
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]

ITEMS: list[int] = []


@grn.job(inline=True)
def same(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return args, kwargs


@grn.job(inline=True)
def numbers(count: int) -> Iterator[int]:
    for n in range(count):
        got = yield n
        if got:
            yield got


@grn.job(inline=True)
async def counted(count: int) -> AsyncIterator[int]:
    try:
        for n in range(count):
            yield n
    finally:
        ITEMS.append(leases_now())


@grn.job()
def shipped(n: int) -> int:
    return n + 1


def leases_now() -> int:
    return leases()


def test_r03_arguments_are_the_same_objects() -> None:
    one, two, lock = object(), [1], threading.Lock()

    args, kwargs = same(one, two, key=lock, other=one)

    assert args[0] is one
    assert args[1] is two
    assert kwargs["key"] is lock
    assert kwargs["other"] is one


def test_r04_values_are_the_same_objects() -> None:
    function = lambda: 1  # noqa: E731
    with socket.socket() as open_socket:
        returned = [
            grn.job(inline=True)(lambda x=x: x)() for x in (function, open_socket, ITEMS)
        ]

        assert returned[0] is function
        assert returned[1] is open_socket
        assert returned[2] is ITEMS


def test_an_inline_job_holds_a_lease_while_it_runs() -> None:
    assert grn.job(inline=True)(leases_now)() == 1
    all_leases_are_freed()


def test_r31_an_exception_of_an_inline_job_is_that_very_object() -> None:
    error = RuntimeError("boom")

    @grn.job(inline=True)
    def fails() -> None:
        raise error

    with pytest.raises(RuntimeError) as caught:
        fails()

    assert caught.value is error
    all_leases_are_freed()


def test_r33_an_inline_job_that_exits_frees_its_lease() -> None:
    @grn.job(inline=True)
    def leaves() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit) as caught:
        leaves()

    assert caught.value.code == 3
    all_leases_are_freed()


def test_r37_signal_handlers_are_left_alone() -> None:
    def mine(number: int, frame: object) -> None: ...

    before = {number: signal.signal(number, mine) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        same()
        with pytest.raises(ZeroDivisionError):
            grn.job(inline=True)(lambda: 1 / 0)()
        shipped(1)
        with pytest.raises(TypeError):
            shipped("a")  # type: ignore[arg-type]

        assert [signal.getsignal(number) for number in before] == [mine, mine]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_r41_a_generator_holds_its_lease_until_it_is_exhausted() -> None:
    items = numbers(3)
    assert leases() == 0

    assert next(items) == 0
    assert leases() == 1
    assert items.send(7) == 7  # type: ignore[attr-defined]
    assert list(items) == [1, 2]

    all_leases_are_freed()


def test_r41_a_generator_frees_its_lease_when_it_is_closed() -> None:
    items = numbers(3)
    next(items)

    items.close()  # type: ignore[attr-defined]

    all_leases_are_freed()


def test_r41_an_async_generator_is_closed_before_its_lease_is_freed() -> None:
    async def main() -> list[int]:
        whole = [n async for n in counted(3)]
        items = counted(3)
        async for n in items:
            if n == 1:
                break
        await items.aclose()  # type: ignore[attr-defined]
        return whole

    ITEMS.clear()
    assert asyncio.run(main()) == [0, 1, 2]
    assert ITEMS == [1, 1]
    all_leases_are_freed()


def test_r40_an_inline_coroutine_holds_its_lease_until_it_finishes() -> None:
    @grn.job(inline=True)
    async def work(value: object) -> object:
        await asyncio.sleep(0.05)
        assert await asyncio.to_thread(leases) == 1
        return value

    value = object()

    assert asyncio.run(work(value)) is value
    all_leases_are_freed()


def test_an_inline_job_beside_many_shipped_ones_of_its_own() -> None:
    @grn.job(inline=True)
    def outer() -> list[int]:
        return [shipped(0), *shipped.map([1, 2])]

    assert outer() == [1, 2, 3]


def test_r39_inline_jobs_of_one_type_nest() -> None:
    @grn.job(inline=True)
    def nested(depth: int) -> int:
        return 1 + (nested(depth - 1) if depth else 0)

    @grn.job(inline=True)
    async def nested_async(depth: int) -> int:
        return 1 + (await nested_async(depth - 1) if depth else 0)

    assert nested(3) == 4
    assert asyncio.run(asyncio.wait_for(nested_async(3), 10 * PATIENCE)) == 4
    all_leases_are_freed()


def test_a_stand_in_of_an_async_inline_job_is_awaited() -> None:
    ran: list[str] = []

    @grn.job(inline=True)
    async def real(n: int) -> int:
        ran.append(f"real {n}")
        return n

    @real.profile
    async def light(n: int) -> None:
        ran.append(f"light {n}")

    assert asyncio.run(real(1)) == 1
    assert asyncio.run(real(2)) == 2
    assert ran == ["light 1", "real 1", "real 2"]


def test_an_inline_job_changes_the_directory_of_its_caller(tmp_path: Path) -> None:
    @grn.job(inline=True)
    def moves() -> str:
        os.chdir(tmp_path)
        return os.getcwd()

    before = os.getcwd()
    try:
        assert moves() == str(tmp_path)
        assert os.getcwd() == str(tmp_path)
    finally:
        os.chdir(before)
