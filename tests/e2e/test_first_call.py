"""The first thing a user does, end to end, on host-memory devices and on stand-in GPUs."""

import pytest

import grn_zmq as grn

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("host_server")]


@grn.job()
def add(a: int, b: int = 1) -> int:
    return a + b


def test_r01_a_decorated_function_returns_its_own_value() -> None:
    assert add(1, b=2) == 3


def test_many_calls_give_their_values_in_order() -> None:
    assert list(add.map(range(50), range(50))) == [2 * n for n in range(50)]
