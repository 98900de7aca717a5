"""Real job processes: what they tell of their memory, and what they are held to."""

import dataclasses
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grn_zmq import payload
from grn_zmq.context import Context
from grn_zmq.frameworks import Counters
from grn_zmq.units import GIB, MIB
from tests.nvml.driver import TORCH_STUB, FakeDriver
from tests.workers.launching import Start, a_call, a_command, start, until
from workers.jobevents import Event, Exited, Outcome, Output, Run
from workers.jobprocess import JobProcess

__all__ = ["start"]  # a fixture

pytestmark = pytest.mark.e2e

CAP = 100 * MIB


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU of 1000 MiB and a torch that uses it, for all that is started."""
    driver = FakeDriver(tmp_path, [1000])
    for name, value in driver.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(TORCH_STUB))
    return driver


def on_host(function: Callable[..., Any], *args: object, cap_bytes: int = 0) -> Run:
    return a_call(function, *args, on_host=True, total_bytes=GIB, cap_bytes=cap_bytes)


def on_gpu(function: Callable[..., Any], *args: object, cap_mib: int = 0) -> Run:
    return a_call(function, *args, total_bytes=1000 * MIB, cap_bytes=cap_mib * MIB)


def outcome_of(process: JobProcess, run: Run) -> Outcome:
    process.feed(run)
    return until(process, Outcome)


def value_of(process: JobProcess, run: Run) -> Any:
    outcome = outcome_of(process, run)
    assert outcome.outcome == "succeeded", outcome.error_text
    return payload.load_value(outcome.body)


def take(size: int) -> int:
    return len(bytearray(size))


def take_and(how: str, size: int) -> None:
    """Run out of memory, and leave in some way."""
    try:
        bytearray(size)
    except MemoryError:
        if how == "exit":
            sys.exit(3)
        raise ValueError("the batch is too large")  # noqa: B904  (a context is no cause)


def data_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_DATA)[0]


def fill_torch(mib: int) -> float:
    import torch

    held: Any = torch.empty(mib << 18, device="cuda")
    del held
    fraction: float = torch.cuda.get_per_process_memory_fraction()
    return fraction


def raise_of_torch() -> None:
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total")


def environment() -> dict[str, str]:
    return dict(os.environ)


def test_l12_an_out_of_memory_is_told_with_what_was_asked_for(start: Start) -> None:
    process = start()

    of_gpu = outcome_of(process, on_gpu(raise_of_torch))
    of_host = outcome_of(process, on_host(raise_of_torch))

    assert (of_gpu.outcome, of_gpu.asked_bytes) == ("oom", 2 * GIB)
    assert (of_host.outcome, of_host.asked_bytes) == ("failed", None)


@pytest.mark.parametrize("how", ["raise", "exit"])
def test_what_came_of_an_out_of_memory_is_one(how: str, start: Start) -> None:
    outcome = outcome_of(start(), on_host(take_and, how, 500 * MIB, cap_bytes=CAP))

    assert outcome.asked_bytes == 0
    assert outcome.outcome == ("exited" if how == "exit" else "oom")


def test_on_host_memory_the_over_user_gets_a_memory_error_and_the_next_run_its_own_cap(
    start: Start,
) -> None:
    process = start()
    unlimited = value_of(process, on_host(data_limit))

    too_much = outcome_of(process, on_host(take, 200 * MIB, cap_bytes=CAP))
    within = value_of(process, on_host(take, 90 * MIB, cap_bytes=CAP))
    more = value_of(process, on_host(take, 200 * MIB, cap_bytes=3 * CAP))
    uncapped = value_of(process, on_host(take, 200 * MIB))

    assert (too_much.outcome, too_much.error_type) == ("oom", "MemoryError")
    assert too_much.clean
    assert (within, more, uncapped) == (90 * MIB, 200 * MIB, 200 * MIB)
    assert value_of(process, on_host(data_limit)) == unlimited


def test_a_limit_of_the_users_own_that_is_lower_wins(start: Start) -> None:
    context = Context.capture()
    limits = [one for one in context.limits if one[0] != "RLIMIT_DATA"]
    own = ("RLIMIT_DATA", 300 * MIB, resource.RLIM_INFINITY)
    process = start(dataclasses.replace(context, limits=(*limits, own)))

    assert value_of(process, on_host(data_limit, cap_bytes=GIB)) == 300 * MIB


def test_a_command_is_held_to_its_lease_too(start: Start) -> None:
    words = (sys.executable, "-c", f"len(bytearray({200 * MIB}))")
    process, before = start(), list[Event]()
    held = dataclasses.replace(a_command(*words), on_host=True, total_bytes=GIB, cap_bytes=CAP)

    process.feed(held)
    exited = until(process, Exited, before)

    said = b"".join(event.data for event in before if isinstance(event, Output))
    assert exited.status == 1
    assert said.endswith(b"MemoryError\n")


def test_a_job_that_a_capped_job_asks_for_is_not_held_to_its_callers_cap(
    start: Start,
) -> None:
    def context_inside() -> bytes:
        return Context.capture().to_bytes()

    uncapped = value_of(start(), on_host(data_limit))
    inside = value_of(start(), on_host(context_inside, cap_bytes=CAP))

    nested = start(Context.from_bytes(inside))

    assert value_of(nested, on_host(data_limit)) == uncapped
    assert value_of(nested, on_host(environment)).keys() & {"GRN_UNCAPPED_DATA"} == set()


def test_torch_is_asked_for_its_peaks_and_each_run_has_its_own(
    start: Start, gpu: FakeDriver
) -> None:
    process = start(Context.capture())

    first = outcome_of(process, on_gpu(fill_torch, 300))
    second = outcome_of(process, on_gpu(fill_torch, 100))

    assert first.counters == Counters(300 * MIB, 300 * MIB, 300 * MIB)
    assert second.counters == Counters(300 * MIB, 300 * MIB, 100 * MIB)


def test_a_job_that_never_used_torch_is_not_made_to(start: Start, gpu: FakeDriver) -> None:
    def import_only() -> bool:
        import torch

        return bool(torch.cuda.is_initialized())

    outcome = outcome_of(start(Context.capture()), on_gpu(import_only, cap_mib=500))

    assert payload.load_value(outcome.body) is False
    assert outcome.counters == Counters()
    assert gpu.used_mib(0) == 0


def test_torch_is_capped_when_it_first_uses_a_gpu_and_only_for_the_run(
    start: Start, gpu: FakeDriver
) -> None:
    process = start(Context.capture())

    too_much = outcome_of(process, on_gpu(fill_torch, 400, cap_mib=300))
    within = value_of(process, on_gpu(fill_torch, 200, cap_mib=250))
    uncapped = value_of(process, on_gpu(fill_torch, 500))

    assert (too_much.outcome, too_much.asked_bytes) == ("oom", 400 * MIB)
    assert (within, uncapped) == (0.25, 1.0)


def test_jax_and_cupy_are_capped_by_variables_of_the_run(start: Start) -> None:
    process = start()

    capped = value_of(process, on_gpu(environment, cap_mib=250))
    uncapped = value_of(process, on_gpu(environment))

    assert capped["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.250000"
    assert capped["CUPY_GPU_MEMORY_LIMIT"] == str(250 * MIB)
    assert not any("MEM" in name for name in uncapped.keys() - os.environ.keys())


@pytest.mark.parametrize("name", ["XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"])
def test_what_the_user_has_set_stays(
    name: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, ".5")
    monkeypatch.setenv("CUPY_GPU_MEMORY_LIMIT", "10%")

    seen = value_of(start(Context.capture()), on_gpu(environment, cap_mib=250))

    shares = {key: seen[key] for key in seen if key.endswith("_MEM_FRACTION")}
    assert shares == {name: ".5"}
    assert seen["CUPY_GPU_MEMORY_LIMIT"] == "10%"
