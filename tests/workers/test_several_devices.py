"""Attempts that have several devices, or none: what they are told, and what is told of them."""

import json
from dataclasses import replace
from signal import SIGKILL
from typing import Any

import pytest

from grn_zmq import wire
from grn_zmq.frameworks import Counters
from grn_zmq.records import Begun, Leased, Run
from tests.builders import HOST_0, MIB, a_release, a_run, an_attempt, an_id
from tests.workers.acting import (
    EPOCH,
    a_level,
    a_return,
    a_worker,
    assign,
    begun,
    replies,
    result_in,
    written,
)
from workers.core import WorkerCore
from workers.effects import Effect, Feed, Kill, Launch, UnwatchCaller, WatchCaller
from workers.events import Elsewhere, Gone, Level
from workers.spoollog import FinishRecord
from workers.surroundings import environment_of, label_of, placeholders_of

GPU_0 = Leased("GPU-aa", 0, "nvml:0")
GPU_2 = Leased("GPU-cc", 2, "nvml:2")
HOST_1 = Leased("host-1", 1, "host:1")
GRANTED = {"cpu": {"0": "4"}, "disk-space": {"a": "0.5", "b": "1.25"}}


def a_gpu_worker() -> WorkerCore:
    return a_worker(on_host=False)


def a_pair(number: int = 1, **changes: Any) -> Run:
    return a_run(number, **{"devices": (GPU_0, GPU_2), **changes})


def environment(run: Run) -> dict[str, str]:
    return environment_of(run, placeholders_of(run), {})


def elsewhere(device: Leased, mib: int, *, number: int = 1, own: bool = True) -> Elsewhere:
    job_id = an_id(number)
    return Elsewhere(device.uuid, {job_id: mib * MIB}, frozenset([job_id] if own else ()))


def begun_in(effects: list[Effect]) -> Begun:
    ((one,),) = (started.runs for started in replies(effects, wire.Started))
    return one


def uses(core: WorkerCore, level: Level, now: float = 5.0) -> dict[str, int]:
    """What is reported of each device, in MiB; the worker's own has no name."""
    (report,) = replies(core.sampled(level, now), wire.Report)
    return {use.device: use.used_bytes // MIB for use in report.uses}


def test_r70_a_job_of_two_gpus_has_both_in_its_environment_and_in_the_order_of_its_lease() -> (
    None
):
    found = environment(a_pair())

    assert found["CUDA_VISIBLE_DEVICES"] == found["NV_GPU"] == "GPU-aa,GPU-cc"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert found["GRN_DEVICE"] == "nvml:0,nvml:2"


def test_a_job_without_a_device_sees_no_gpu_whatever_it_asks_for() -> None:
    found = environment(a_run(1, devices=(), variables={"CUDA_VISIBLE_DEVICES": "0"}))

    assert found["CUDA_VISIBLE_DEVICES"] == found["NV_GPU"] == found["GRN_DEVICE"] == ""


def test_on_host_memory_what_the_user_says_about_gpus_stays() -> None:
    run = a_run(1, devices=(HOST_0, HOST_1), variables={"CUDA_VISIBLE_DEVICES": "0"})

    found = environment(run)

    assert (found["CUDA_VISIBLE_DEVICES"], found["GRN_DEVICE"]) == ("0", "host:0,host:1")
    assert "NV_GPU" not in found


def test_g51_all_that_was_granted_is_in_the_environment() -> None:
    found = environment(a_run(1, granted=GRANTED, variables={"GRN_RESOURCE_CPU": "all"}))

    assert json.loads(found["GRN_RESOURCES"]) == GRANTED
    assert (found["GRN_RESOURCE_CPU"], found["GRN_AMOUNT_CPU"]) == ("0", "4")
    assert found["GRN_RESOURCE_DISK_SPACE"] == "a,b"
    assert found["GRN_AMOUNT_DISK_SPACE"] == "1.75"


def test_g51_without_a_grant_there_are_no_variables_of_resources() -> None:
    assert not [name for name in environment(a_pair()) if "RESOURCE" in name]


def test_g18_placeholders_name_all_devices_and_instances() -> None:
    run = a_pair(granted=GRANTED, variables={"ON_{gpu}": "{device} {uuid} {disk-space} {cpu}"})

    assert environment(run)["ON_0,2"] == "nvml:0,nvml:2 GPU-aa,GPU-cc a,b 0"


def test_g18_gpu_is_the_granted_instance_and_no_other_name_is_taken_by_a_resource() -> None:
    granted = {"gpu": {"2": "0.5"}, "name": {"x": "1"}}
    values = placeholders_of(a_run(1, name="fit", granted=granted))

    assert (values["gpu"], values["name"]) == ("2", "fit")


def test_the_label_of_a_lease_has_all_its_indices() -> None:
    assert label_of((GPU_0, GPU_2)) == "nvml:0,2"
    assert label_of((HOST_1,)) == "host:1"
    assert label_of(()) == ""


def test_r70_what_began_is_told_with_all_its_devices_and_their_variables() -> None:
    effects = assign(a_gpu_worker(), a_pair(granted={"cpu": {"0": "4"}}))

    one = begun_in(effects)
    assert (one.device, one.indices) == ("nvml:0,2", (0, 2))
    assert one.environment["CUDA_VISIBLE_DEVICES"] == "GPU-aa,GPU-cc"
    assert one.environment["GRN_RESOURCE_CPU"] == "0"


@pytest.mark.parametrize("devices", [(GPU_0,), (), (GPU_0, Leased("GPU-bb", 1, "nvml:1"))])
def test_a_process_is_used_again_for_the_same_devices_only(devices: tuple[Leased, ...]) -> None:
    core = a_gpu_worker()
    first = assign(core, a_pair(1))
    core.returned(1, a_return(), now=1.0)
    again = assign(core, a_pair(2), now=2.0)
    core.returned(1, a_return(), now=3.0)

    other = assign(core, a_run(3, devices=devices), now=4.0)

    assert [one.devices for one in first if isinstance(one, Launch)] == [(GPU_0, GPU_2)]
    assert [one.process for one in again if isinstance(one, Feed)] == [1]
    assert [one.devices for one in other if isinstance(one, Launch)] == [devices]


def test_the_use_of_every_device_is_told_by_its_name() -> None:
    core = a_gpu_worker()
    assign(core, a_pair())
    core.seen_elsewhere(elsewhere(GPU_2, 300))

    assert uses(core, a_level(j1=100)) == {"": 100, "GPU-cc": 300}


def test_growth_on_another_device_is_news_as_well() -> None:
    core = a_gpu_worker()
    assign(core, a_pair())
    core.sampled(a_level(j1=100), now=5.0)

    assert core.sampled(a_level(j1=100), now=5.1) == []
    core.seen_elsewhere(elsewhere(GPU_2, 300))
    assert uses(core, a_level(j1=100), now=5.2) == {"": 100, "GPU-cc": 300}


def test_the_peak_of_a_job_is_the_largest_of_its_devices() -> None:
    core = a_gpu_worker()
    assign(core, a_pair())
    core.seen_elsewhere(elsewhere(GPU_2, 300))
    core.sampled(a_level(j1=100), now=1.0)
    core.seen_elsewhere(elsewhere(GPU_2, 50))
    core.sampled(a_level(j1=200), now=2.0)

    result = result_in(core.returned(1, a_return(), now=3.0))

    assert (result.peak_bytes, result.seen) == (300 * MIB, True)


def test_a_guess_on_another_device_takes_room_and_teaches_nothing() -> None:
    core = a_gpu_worker()
    assign(core, a_pair())
    core.seen_elsewhere(elsewhere(GPU_2, 300, own=False))

    assert uses(core, a_level()) == {"": 0, "GPU-cc": 300}
    result = result_in(core.returned(1, a_return(), now=6.0))
    assert (result.peak_bytes, result.seen) == (0, False)


def test_of_host_memory_each_device_of_a_lease_has_an_equal_part() -> None:
    core = a_worker()
    assign(core, a_run(1, devices=(HOST_0, HOST_1)))

    assert uses(core, a_level(j1=120)) == {"": 120, "host-1": 120}


def test_counters_of_frameworks_are_believed_on_a_single_device_only() -> None:
    counters = Counters(100 * MIB, 700 * MIB, 600 * MIB)
    peaks = []
    for devices in ((GPU_0,), (GPU_0, GPU_2)):
        core = a_gpu_worker()
        assign(core, a_run(1, devices=devices))
        core.sampled(a_level(j1=150), now=1.0)
        result = result_in(core.returned(1, a_return(counters=counters), now=2.0))
        peaks.append((result.peak_bytes // MIB, result.need_bytes // MIB))

    assert peaks == [(750, 650), (150, 0)]


def test_a_look_at_a_device_whose_job_has_ended_meanwhile_changes_nothing() -> None:
    core = a_gpu_worker()

    core.seen_elsewhere(elsewhere(GPU_2, 300))

    assert core.inventory == ()


def test_a_lease_is_held_by_its_caller_until_that_is_gone() -> None:
    core = a_gpu_worker()
    lease = a_pair(kind="lease", function="", context="", pid=55)

    effects = assign(core, lease)
    asked = core.handle(wire.End(EPOCH, "terminate", (an_attempt(1),)), 1.0)
    gone = core.caller_gone(lease.job_id, 2.0)

    assert effects[0] == WatchCaller(lease.job_id, 55)
    assert asked == []
    assert UnwatchCaller(lease.job_id) in gone
    assert result_in(gone).outcome == "killed"


def test_a_released_lease_has_succeeded() -> None:
    core = a_gpu_worker()
    assign(core, a_pair(kind="lease", function="", context=""))

    effects = core.handle(wire.Release((a_release(1),)), 1.0)

    assert result_in(effects).outcome == "succeeded"
    assert [type(one) for one in written(effects)] == [FinishRecord]


def test_a_job_without_a_device_runs_as_any_other_and_uses_nothing() -> None:
    core = a_gpu_worker()
    effects = assign(core, a_run(1, devices=()))

    assert (begun_in(effects).device, begun_in(effects).indices) == ("", ())
    assert uses(core, a_level()) == {"": 0}
    result = result_in(core.returned(1, a_return(), now=6.0))
    assert (result.outcome, result.peak_bytes, result.seen) == ("succeeded", 0, False)


def test_a_job_without_a_device_has_not_run_out_of_one() -> None:
    core = a_worker()
    assign(core, a_run(1, devices=()), a_run(2, devices=(), kind="command"))
    failed = a_return(outcome="failed", error_type="MemoryError", asked_bytes=5)

    raised = result_in(core.returned(1, failed, now=1.0))
    killed = result_in(core.gone(2, Gone(None, SIGKILL, kernel_oom=True), now=1.0))

    assert (raised.outcome, raised.error_type, raised.asked_bytes) == (
        "failed",
        "MemoryError",
        0,
    )
    assert (killed.outcome, killed.asked_bytes) == ("killed", 0)
    assert killed.error_text == "killed by signal 9 by the kernel, which had no memory left"


def test_what_began_is_said_again_with_its_devices_to_a_broker_that_is_new() -> None:
    core = a_worker()
    run = a_run(1, devices=(replace(HOST_0),))
    assert begun(1) in assign(core, run)
    number, _ = core.greet()

    effects = core.handle(wire.Welcome(wire.PROTOCOL, EPOCH, 77, greeting=number), 3.0)

    assert begun(1, ran_s=3.0) in effects


def test_a_pair_that_must_end_is_killed_with_its_one_process() -> None:
    core = a_gpu_worker()
    assign(core, a_pair(grace_s=1.0))
    core.handle(wire.End(EPOCH, "terminate", (an_attempt(1),)), 1.0)

    assert core.tick(2.0) == [Kill(1)]
