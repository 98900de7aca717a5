"""What can travel to a job and back, and what is said of what cannot."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from pickle import PickleBuffer
from typing import Any

import pytest

import tests.workers.launching as jobs
from grn_zmq import payload
from grn_zmq.errors import NotPicklable
from workers.jobevents import Exited, Outcome

start = jobs.start


class Decorated:
    """Stands for a decorated function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.grn_function = function


def blamed(dump: Callable[..., object], *args: Any) -> str:
    with pytest.raises(NotPicklable) as caught:
        dump(*args)
    return caught.value.what


def test_a_closure_and_its_stand_in_survive() -> None:
    offset = 5

    function, stand_in = payload.load_function(
        payload.dump_function(lambda x: x + offset, lambda x: x - offset)
    )

    assert stand_in is not None
    assert (function(1), stand_in(1)) == (6, -4)
    assert payload.load_function(payload.dump_function(len)) == (len, None)


def test_a_decorated_function_arrives_undecorated() -> None:
    blob = payload.dump_function(Decorated(len), Decorated(max))  # type: ignore[arg-type]

    assert payload.load_function(blob) == (len, max)


def test_arguments_and_values_survive() -> None:
    blob = payload.dump_arguments((1, "two"), {"three": [3]}).joined()

    assert payload.load_arguments(memoryview(blob)) == ((1, "two"), {"three": [3]})
    assert payload.load_value(payload.dump_value({"a": 1.5}).joined()) == {"a": 1.5}


def test_large_buffers_are_not_copied_but_stand_behind_the_pickle() -> None:
    large, small = bytearray(b"x" * 200_000), bytearray(b"y" * 200)
    value = {"large": PickleBuffer(large), "small": PickleBuffer(small)}

    packed = payload.dump_value(value)

    assert any(memoryview(one).obj is large for one in packed.pieces)
    assert not any(memoryview(one).obj is small for one in packed.pieces)
    assert packed.size_bytes == len(packed.joined())


def test_large_buffers_become_part_of_what_is_read_as_they_are() -> None:
    packed = payload.dump_arguments((PickleBuffer(bytearray(b"x" * 200_000)), 7), {})
    room = bytearray(packed.joined() + b"whatever was there before")

    (data, seven), _ = payload.load_arguments(memoryview(room))
    at = room.index(b"xxx")
    room[at] = ord("!")

    assert (bytes(data[:2]), len(data), seven) == (b"!x", 200_000, 7)
    assert at % payload.ALIGNED_TO == 0


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_what_could_be_changed_still_can_be(kind: type) -> None:
    data = PickleBuffer(kind(b"x" * 200_000))

    read = payload.load_value(payload.dump_value(data).joined())

    assert memoryview(read).readonly == (kind is bytes)
    assert bytes(read) == b"x" * 200_000


def test_a_digest_names_the_content() -> None:
    assert payload.digest(b"") != payload.digest(b"x")
    assert len(payload.digest(memoryview(b"x"))) == 64


def test_an_argument_that_cannot_travel_is_named_down_to_the_part() -> None:
    def train(data: object, *, other: object = None) -> None: ...

    lock = threading.Lock()
    box = type("Box", (), {})()
    box.inner = [1, lock]

    assert blamed(payload.dump_arguments, ({"lock": lock},), {}, train) == (
        "argument 'data'['lock'] (a _thread.lock)"
    )
    assert blamed(payload.dump_arguments, (1,), {"other": box}, train) == (
        "argument 'other'.inner[1] (a _thread.lock)"
    )
    assert blamed(payload.dump_arguments, (1, lock), {}) == "argument 2 (a _thread.lock)"
    assert blamed(payload.dump_value, [lock]) == "the result[0] (a _thread.lock)"


def test_a_variable_a_function_uses_is_named() -> None:
    lock = threading.Lock()

    def train() -> object:
        return lock

    assert blamed(payload.dump_function, train) == (
        "variable 'lock' used by train (a _thread.lock)"
    )
    assert blamed(payload.dump_function, len, Decorated(train)) == (
        "variable 'lock' used by train (a _thread.lock)"
    )


def test_a_global_a_function_uses_is_named() -> None:
    with socket.socket() as sock:
        scope: dict[str, Any] = {"sock": sock, "__name__": "__main__"}
        exec("def train():\n    return [sock.fileno() for _ in range(2)]", scope)

        assert blamed(payload.dump_function, scope["train"]) == (
            "global 'sock' used by train (a socket)"
        )


def test_the_error_says_what_to_do() -> None:
    with pytest.raises(NotPicklable, match="inline=True") as caught:
        payload.dump_value(threading.Lock())

    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.e2e
def test_importing_this_module_loads_nothing_heavy() -> None:
    code = (
        "import sys, grn_zmq.payload, grn_zmq.jobmain;"
        "heavy = {'cloudpickle', 'zmq', 'pickle', 'asyncio', 'hashlib', 'multiprocessing'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    root = Path(__file__).parents[2]

    subprocess.run([sys.executable, "-S", "-c", code], check=True, cwd=root, env=_path())


def _path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.e2e
def test_ten_megabytes_travel_both_ways(start: jobs.Start) -> None:
    data = os.urandom(10 * jobs.MIB)

    assert jobs.value_of(start(), lambda x: x[::-1], data) == data[::-1]


@pytest.mark.e2e
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_works_with_a_function_of_main_p38(
    start: jobs.Start, method: str
) -> None:
    def square(x: int) -> int:
        return x * x

    def squares(method: str) -> list[int]:
        import multiprocessing

        with multiprocessing.get_context(method).Pool(2) as pool:
            return pool.map(square, range(5))

    for function in (square, squares):
        function.__module__, function.__qualname__ = "__main__", function.__name__
    process = start()

    assert jobs.value_of(process, squares, method) == [0, 1, 4, 9, 16]
    process.close()
    jobs.until(process, Exited)


@pytest.mark.e2e
def test_a_result_that_cannot_be_pickled_is_a_failure_that_names_it(start: jobs.Start) -> None:
    process = start()

    outcome = jobs.outcome_of(process, lambda: {"lock": threading.Lock()})

    assert outcome.outcome == "failed"
    assert "the result['lock'] (a _thread.lock)" in outcome.error_text
    assert jobs.value_of(process, lambda: 1) == 1


@pytest.mark.e2e
def test_a_stand_in_is_called_instead(start: jobs.Start) -> None:
    process = start()

    process.feed(jobs.a_call(lambda: "real", stand_in=True, stand_in_function=lambda: "cheap"))

    assert payload.load_value(jobs.until(process, Outcome).body) == "cheap"
