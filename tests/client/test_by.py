"""`by=`: the values that name a measurement must be able to travel and to be compared."""

from typing import Any

import pytest

import grn_zmq as grn
from grn_zmq.submission import bind_by


def by_x(value: Any) -> dict[str, Any]:
    return bind_by(lambda x: x, ("x",), (value,), {})


class Number:
    """Like a number of numpy or torch."""

    def item(self) -> int:
        return 7


@pytest.mark.parametrize(
    "value", [0, -3, True, 1.5, -(2**63), 2**63 - 1, "", "text", "ü€😀", "x" * 4096]
)
def test_numbers_and_texts_are_taken_as_they_are(value: Any) -> None:
    assert by_x(value) == {"x": value}


def test_none_is_a_value_of_its_own() -> None:
    def fit(limit: int | None = None) -> None: ...

    assert bind_by(fit, ("limit",), (), {}) == {"limit": "None"}
    assert bind_by(fit, ("limit",), (3,), {}) == {"limit": 3}


def test_a_number_of_a_library_is_taken_by_its_value() -> None:
    assert by_x(Number()) == {"x": 7}


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        2**63,
        2**70,
        -(2**70),
        "x" * 100_000,
        "a\ud800",
        "two\nlines",
        [1],
        b"bytes",
    ],
    ids=lambda value: f"{value!r:.12}",
)
def test_a_value_that_cannot_travel_is_refused_by_the_name_of_its_argument(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"by='x': ") as caught:
        by_x(value)

    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", ["config", "kwargs", "batch_size"])
def test_an_argument_among_many_is_found_whatever_they_are_called(name: str) -> None:
    def gathers(**config: Any) -> None: ...
    def also_gathers(**kwargs: Any) -> None: ...

    for function in (gathers, also_gathers):
        assert bind_by(function, (name,), (), {name: 3}) == {name: 3}


def test_a_default_counts_as_given() -> None:
    def fit(batch_size: int = 8, **config: Any) -> None: ...

    assert bind_by(fit, ("batch_size",), (), {"lr": 1}) == {"batch_size": 8}


def test_an_argument_that_this_call_does_not_give_is_named() -> None:
    def fit(epochs: int, **config: Any) -> None: ...

    with pytest.raises(TypeError, match=r"by='batch_size'.* it has epochs, lr"):
        bind_by(fit, ("batch_size",), (3,), {"lr": 0.1})


def test_arguments_that_do_not_fit_the_function_are_told_in_its_own_words() -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        bind_by(lambda x: x, ("x",), (), {})


@pytest.mark.parametrize("option", ["type", "name"])
@pytest.mark.parametrize("text", ["\ud800", "x" * 5000])
def test_a_type_or_name_that_cannot_travel_fails_when_decorating(
    option: str, text: str
) -> None:
    with pytest.raises(TypeError, match=f"{option}="):
        grn.job(**{option: text})
