"""What decorating does by itself, without any broker."""

import asyncio
import functools
import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import cloudpickle
import pytest

import grn_zmq as grn


@grn.job()
def documented(lr: float, *rest: int, batch_size: int = 32, **more: str) -> float:
    """Train a little."""
    return lr * batch_size


@grn.job
def bare(a: int, b: int = 1) -> int:
    return a + b


class Trainer:
    def __init__(self, rate: int) -> None:
        self.rate = rate

    @grn.job()
    def train(self, steps: int) -> int:
        """Train with this trainer."""
        return self.rate * steps

    @staticmethod
    @grn.job()
    def still(steps: int) -> int:
        return steps

    @classmethod
    def name(cls) -> str:
        return cls.__name__


def original(lr: float, *rest: int, batch_size: int = 32, **more: str) -> float:
    """Train a little."""
    return 0.0


def test_r02_the_parentheses_may_be_left_out() -> None:
    assert isinstance(bare, grn.JobFunction)
    assert bare.options == grn.job()(original).options
    assert bare.local(1, b=2) == 3


def test_r05_a_decorated_function_looks_like_the_original() -> None:
    decorated = grn.job()(original)

    assert decorated.__name__ == "original"
    assert decorated.__doc__ == "Train a little."
    assert decorated.__wrapped__ is original
    assert decorated.__module__ == original.__module__
    assert inspect.signature(decorated) == inspect.signature(original)


def test_r05_a_decorated_method_looks_like_the_original() -> None:
    bound = Trainer(2).train

    assert bound.__name__ == "train"
    assert bound.__doc__ == "Train with this trainer."
    assert list(inspect.signature(Trainer.train).parameters) == ["self", "steps"]
    assert list(inspect.signature(bound).parameters) == ["steps"]
    assert bound.__self__.rate == 2
    assert bound.local(3) == 6
    assert Trainer.still.local(3) == 3


def test_r40_a_decorated_coroutine_function_is_seen_as_one() -> None:
    @grn.job()
    async def fetch() -> int:
        return 1

    if sys.version_info >= (3, 12):
        assert inspect.iscoroutinefunction(fetch)
    else:
        assert asyncio.iscoroutinefunction(fetch)


def test_r41_a_generator_is_refused_unless_it_is_inline() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for function in (numbers, later):
        with pytest.raises(TypeError, match=r"is a generator.*inline=True"):
            grn.job()(function)
        assert grn.job(inline=True)(function).__name__ == function.__name__


@pytest.mark.parametrize("thing", [3, "train", None])
def test_only_functions_are_decorated(thing: Any) -> None:
    with pytest.raises(TypeError, match=r"grn.job decorates functions"):
        grn.job()(thing)


def test_an_argument_named_in_by_must_exist() -> None:
    with pytest.raises(TypeError, match=r"by='batch' is no argument of bare"):
        grn.job(by=("batch",))(bare.grn_function)
    assert grn.job(by="lr")(original).options.by == ("lr",)
    assert grn.job(by="anything")(original).options.by == ("anything",)


def test_r20_a_profiler_stays_the_function_it_was() -> None:
    job = grn.job()(original)

    def light(lr: float) -> str:
        return f"light {lr}"

    assert job.profile(light) is light
    assert light(0.5) == "light 0.5"


def test_r21_a_second_profiler_is_refused_by_both_names() -> None:
    job = grn.job()(original)

    def light() -> None: ...
    def lighter() -> None: ...

    job.profile(light)
    with pytest.raises(AttributeError, match=r"<locals>\.light already; .*<locals>\.lighter"):
        job.profile(lighter)


def test_l01_the_old_name_takes_the_old_option_and_has_a_profile() -> None:
    job = grn.gpu_load_balance(continue_on_server_unavailable=True)(original)

    @job.profile
    def light(lr: float) -> float:
        return lr

    assert job.options.when_unavailable == "local"
    assert job.stand_in is light
    assert (
        grn.gpu_load_balance(continue_on_server_unavailable=False)(
            original
        ).options.when_unavailable
        == "raise"
    )


def test_with_options_changes_a_copy() -> None:
    job = grn.job(name="first")(original)
    job.profile(original)

    changed = job.with_options(name="second", policy="pack")

    assert (changed.options.name, changed.options.policy) == ("second", "pack")
    assert changed.stand_in is original
    assert job.options.name == "first"


def test_a_decorated_function_travels_by_name_where_it_can_be_imported() -> None:
    assert pickle.loads(pickle.dumps(documented)) is documented
    assert pickle.loads(pickle.dumps(Trainer.train)) is Trainer.train


def test_a_local_decorated_function_travels_by_value_and_may_call_itself() -> None:
    @grn.job(name="kept")
    def factorial(n: int) -> int:
        return 1 if n == 0 else n * factorial.local(n - 1)

    copy = pickle.loads(cloudpickle.dumps(factorial))

    assert copy.local(5) == 120
    assert copy.options == factorial.options
    assert copy.job_type == factorial.job_type


@pytest.mark.parametrize(
    "function",
    [functools.partial(original, 1.0), len, str.upper, Trainer(3).name, Trainer],
    ids=["partial", "builtin", "method", "bound method", "class"],
)
def test_every_callable_can_be_decorated_and_sent(function: Callable[..., Any]) -> None:
    job = grn.job()(function)

    assert job.job_type
    assert pickle.loads(cloudpickle.dumps(job)).job_type == job.job_type


def test_partials_of_different_functions_are_different_types() -> None:
    first = grn.job()(functools.partial(original, 1.0))
    second = grn.job()(functools.partial(bare.grn_function, 1))

    assert first.job_type != second.job_type
    assert first.job_type == grn.job()(original).job_type


def test_what_a_decorated_object_has_does_not_hide_what_a_job_has() -> None:
    class Thing:
        def __init__(self) -> None:
            self.submit = "its own"
            self.options = "its own"

        def __call__(self) -> int:
            return 1

    job = grn.job()(Thing())

    assert callable(job.submit)
    assert job.local() == 1


def test_submitting_an_inline_job_says_to_call_it() -> None:
    job = grn.job(inline=True)(original)

    with pytest.raises(TypeError, match="is inline: it runs in its caller"):
        job.submit(0.1)
    with pytest.raises(TypeError, match="is inline: it runs in its caller"):
        job.spawn(0.1)
    with pytest.raises(TypeError, match="is inline: it runs in its caller"):
        list(job.map([0.1]))


def test_decorating_loads_nothing_heavy() -> None:
    program = (
        "import sys, grn_zmq as grn\n"
        "@grn.job()\n"
        "def f(): pass\n"
        "heavy = {'zmq', 'cloudpickle', 'pynvml', 'msgpack', 'loguru', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ)
    )

    assert done.stdout == "[]\n", done.stderr
