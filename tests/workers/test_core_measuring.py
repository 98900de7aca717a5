"""What a worker learns of an attempt's memory and load, and how often it looks."""

from signal import SIGABRT, SIGKILL
from typing import Any

import pytest

from grn_zmq import wire
from grn_zmq.frameworks import Counters
from grn_zmq.units import GIB
from tests.builders import MIB, a_run, an_attempt
from tests.workers.acting import EPOCH, a_level, a_return, a_worker, assign, replies, result_in
from workers.core import WorkerCore
from workers.events import Gone, Level
from workers.reporting import (
    IDLE_SAMPLE_S,
    MANY,
    MOST_SAMPLE_S,
    SAMPLE_S,
    YOUNG_FOR_S,
    YOUNG_SAMPLE_S,
)
from workers.runs import LAST_WORDS_BYTES

TORCH_TEXT = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0"


def a_gpu_worker() -> WorkerCore:
    return a_worker(on_host=False)


def counted(reserved: int, reserved_peak: int, allocated_peak: int) -> Counters:
    return Counters(reserved * MIB, reserved_peak * MIB, allocated_peak * MIB)


def a_load(utilisation: float) -> Level:
    return Level(0, 0, 0, utilisation, {}, frozenset())


def test_what_a_framework_counted_is_added_to_what_it_cannot_know() -> None:
    core = a_gpu_worker()
    assign(core, a_run(1))
    core.sampled(a_level(j1=150), now=1.0)  # 100 in the pool, so a context of 50

    result = result_in(core.returned(1, a_return(counters=counted(100, 700, 600)), now=2.0))

    assert (result.peak_bytes, result.need_bytes) == (750 * MIB, 650 * MIB)


def test_a_sampled_peak_above_the_counters_stays() -> None:
    core = a_gpu_worker()
    assign(core, a_run(1))
    core.sampled(a_level(j1=900), now=1.0)  # of a child, that is gone
    core.sampled(a_level(j1=150), now=1.1)

    result = result_in(core.returned(1, a_return(counters=counted(100, 700, 600)), now=2.0))

    assert (result.peak_bytes, result.need_bytes) == (900 * MIB, 650 * MIB)


@pytest.mark.parametrize("counters", [None, Counters()])
def test_without_a_framework_there_is_no_need(counters: Counters | None) -> None:
    core = a_gpu_worker()
    assign(core, a_run(1))
    core.sampled(a_level(j1=150), now=1.0)

    result = result_in(core.returned(1, a_return(counters=counters), now=2.0))

    assert (result.peak_bytes, result.need_bytes) == (150 * MIB, 0)


def test_counters_on_top_of_a_guessed_use_teach_nothing() -> None:
    core = a_gpu_worker()
    assign(core, a_run(1))
    level = a_level(j1=150)
    core.sampled(Level(0, 0, 0, 0.0, level.by_job, frozenset()), now=1.0)

    result = result_in(core.returned(1, a_return(counters=counted(100, 700, 600)), now=2.0))

    assert (result.peak_bytes, result.need_bytes, result.seen) == (0, 0, False)


def test_an_account_that_was_kept_makes_an_unseen_run_a_seen_one() -> None:
    core = a_gpu_worker()
    assign(core, a_run(1), a_run(2))

    left = result_in(core.gone(1, Gone(1, None, peak_bytes=5 * MIB), now=2.0))
    came_back = result_in(core.returned(2, a_return(peak_bytes=6 * MIB), now=2.0))

    assert (left.peak_bytes, left.seen) == (5 * MIB, True)
    assert (came_back.peak_bytes, came_back.seen) == (6 * MIB, True)


def test_l02_the_load_of_the_device_is_told_by_peak_and_mean() -> None:
    core = a_worker()
    core.sampled(a_load(1.0), now=0.0)  # before it began
    assign(core, a_run(1), now=0.5)
    core.sampled(a_load(0.0), now=1.0)
    core.sampled(a_load(0.9), now=2.0)
    core.sampled(a_load(0.1), now=5.0)  # for three times as long

    result = result_in(core.returned(1, a_return(), now=6.0))

    assert result.utilisation == 0.9
    assert result.mean_utilisation == pytest.approx((0.9 + 3 * 0.1) / 4)


def test_a_single_look_at_the_load_is_its_mean_too() -> None:
    core = a_worker()
    assign(core, a_run(1))
    core.sampled(a_load(0.4), now=1.0)

    result = result_in(core.returned(1, a_return(), now=1.0))

    assert (result.utilisation, result.mean_utilisation) == (0.4, 0.4)


def test_a_young_type_is_looked_at_more_often_for_a_minute() -> None:
    core = a_worker()
    assert core.sample_s(0.0, 0.0) == IDLE_SAMPLE_S
    assign(core, a_run(1))
    assert core.sample_s(0.0, 0.0) == SAMPLE_S

    assign(core, a_run(2, young=True), now=10.0)

    assert core.sample_s(10.0 + YOUNG_FOR_S - 1, 0.0) == YOUNG_SAMPLE_S
    assert core.sample_s(10.0 + YOUNG_FOR_S, 0.0) == SAMPLE_S


def test_a_dear_look_is_taken_less_often_but_often_enough() -> None:
    core = a_worker()
    assign(core, a_run(1, young=True))

    assert 0.001 / core.sample_s(0.0, 0.001) < 0.02
    assert core.sample_s(0.0, 0.005) == SAMPLE_S


def test_very_many_jobs_are_looked_at_as_often_as_that_stays_cheap() -> None:
    core = a_worker()
    for number in range(1, MANY + 2):
        assign(core, a_run(number, young=True))

    assert core.sample_s(0.0, 0.0001) == SAMPLE_S
    assert 0.0015 / core.sample_s(0.0, 0.0015) < 0.01
    assert core.sample_s(0.0, 1.0) == MOST_SAMPLE_S


def test_l12_what_an_exception_asked_for_is_told_with_an_out_of_memory() -> None:
    core = a_worker()
    assign(core, a_run(1))

    returned = a_return(outcome="failed", error_type="E", payload=b"x", asked_bytes=2 * GIB)
    result = result_in(core.returned(1, returned, now=1.0))

    assert (result.outcome, result.asked_bytes) == ("oom", 2 * GIB)
    assert (result.error_type, result.payload) == ("E", b"x")


def left(core: WorkerCore, said: bytes = b"", **gone: Any) -> Any:
    """The result of a command that wrote this to standard error, and ended so."""
    assign(core, a_run(1, kind="command"))
    (active,) = core.runs.values()
    active.hear(said)
    return result_in(core.gone(1, Gone(**{"exit_status": None, "signal": None, **gone}), 1.0))


def test_a_command_is_believed_by_the_end_of_its_standard_error() -> None:
    long = b"x" * LAST_WORDS_BYTES

    told = left(a_gpu_worker(), long + TORCH_TEXT, exit_status=1)
    aborted = left(a_gpu_worker(), TORCH_TEXT, signal=SIGABRT)
    long_ago = left(a_gpu_worker(), TORCH_TEXT + long, exit_status=1)
    went_well = left(a_gpu_worker(), TORCH_TEXT, exit_status=0)
    elsewhere = left(a_worker(), TORCH_TEXT, exit_status=1)

    assert (told.outcome, told.asked_bytes, told.exit_status) == ("oom", 2 * GIB, 1)
    assert told.error_type == "JobExited"
    assert (aborted.outcome, aborted.signal) == ("oom", SIGABRT)
    assert (long_ago.outcome, went_well.outcome) == ("failed", "succeeded")
    assert elsewhere.outcome == "failed"


def test_a_kill_by_the_kernel_on_host_memory_is_an_out_of_memory() -> None:
    by_kernel = left(a_worker(), signal=SIGKILL, kernel_oom=True)
    by_somebody = left(a_worker(), signal=SIGKILL)
    on_a_gpu = left(a_gpu_worker(), signal=SIGKILL, kernel_oom=True)

    assert (by_kernel.outcome, by_kernel.signal) == ("oom", SIGKILL)
    assert by_kernel.error_text == "killed by signal 9 by the kernel, which had no memory left"
    assert (by_somebody.outcome, on_a_gpu.outcome) == ("killed", "killed")


def test_an_end_that_was_asked_for_is_no_out_of_memory() -> None:
    core = a_worker()
    assign(core, a_run(1), a_run(2))
    core.handle(wire.End(EPOCH, "kill", (an_attempt(1), an_attempt(2))), now=0.5)

    killed = result_in(core.gone(1, Gone(None, SIGKILL, kernel_oom=True), now=1.0))
    core.returned(2, a_return(outcome="failed", asked_bytes=5), now=1.0)
    failed = result_in(core.gone(2, Gone(0, None), now=1.0))

    assert (killed.outcome, failed.outcome, failed.asked_bytes) == ("killed", "failed", 0)


def test_a_command_that_went_on_after_an_out_of_memory_is_not_run_again() -> None:
    header = b"Traceback (most recent call last):\n"
    survived = header + TORCH_TEXT + b"\nwith a smaller batch\n"

    failed = left(a_gpu_worker(), survived + header + b"KeyError: 'x'\n", exit_status=1)

    assert (failed.outcome, failed.error_type) == ("failed", "JobExited")


def test_whatever_a_command_says_at_its_end_the_worker_goes_on() -> None:
    said = b"MemoryError: Unable to allocate " + b"9" * 5000 + b" GiB for an array with shape"

    result = left(a_worker(), said, exit_status=1)

    assert result.outcome == "oom"
    assert 0 <= result.asked_bytes < 1 << 62


def test_an_idle_device_is_looked_at_often_enough_to_see_what_strangers_give_back() -> None:
    core = a_worker()
    freed_at = core.sample_s(0.0, 0.0)
    core.sampled(a_level(foreign=500), now=0.0)

    told = core.sampled(a_level(foreign=100), now=freed_at)

    assert freed_at <= 0.25
    assert replies(told, wire.Report)
