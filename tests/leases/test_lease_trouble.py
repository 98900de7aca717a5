"""Leases that do not come, come late, or are over too soon; the broker is played."""

import os
from concurrent.futures import CancelledError
from typing import Any

import pytest

import grn_zmq as grn
from grn_zmq import backends, leasing, wire
from grn_zmq.records import Released
from tests.builders import a_job_row
from tests.leases.played import LONG_S, Played, a_lease, let_go, let_go_of_lost
from tests.leases.telling import Told
from tests.waiting import until


def test_an_interrupted_wait_leaves_nothing_behind(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(leasing, "LOOKS_S", (0.05, 0.05))
    monkeypatch.setattr(leasing, "_look", interrupt)
    promise = played.acquire(2)
    spec = played.accept()
    with pytest.raises(KeyboardInterrupt):
        promise.result(LONG_S)

    assert played.broker.hear(wire.Cancel).job_ids == (spec.job_id,)
    played.grant(spec.job_id)
    assert played.broker.hear(wire.Release).runs == (Released(spec.job_id, 1, failed=True),)


def test_a_placeholder_that_fails_leaves_no_lease_behind(played: Played) -> None:
    def placeholder(device_no: int) -> None:
        raise RuntimeError("CUDA error: out of memory")

    promise = played.acquire(2, placeholder=placeholder)
    spec = played.accept()
    played.grant(spec.job_id)

    with pytest.raises(RuntimeError, match="out of memory"):
        promise.result(LONG_S)
    assert played.take_release()[0].job_id == spec.job_id
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_wait_that_takes_longer_is_told_with_its_reason(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leasing, "LOOKS_S", (0.05, 60.0))
    told = Told()
    promise = played.acquire(2, logger=told)
    spec = played.accept()
    played.broker.hear(wire.AskJobs)
    why = "waiting for 2 idle devices: free are device 2"
    row = a_job_row(1, job_id=spec.job_id, state="queued", why=why)
    played.broker.say(wire.JobsAre((row,), more=False))
    until(lambda: len(told.steps) == 2)
    played.grant(spec.job_id)

    assert told.steps[1] == f"still waiting for 2 devices: {why}"
    let_go(played, promise.result(LONG_S))


@pytest.mark.parametrize("unreadable", ["no worker", "silent workers"])
def test_s17_devices_that_cannot_be_read_raise_device_error(
    played: Played, monkeypatch: pytest.MonkeyPatch, unreadable: str
) -> None:
    monkeypatch.setattr(leasing, "LOOKS_S", (0.05, 0.05))
    promise = played.acquire()
    spec = played.accept()
    waits_for = "no-device" if unreadable == "silent workers" else "devices-missing"
    for _ in leasing.LOOKS_S:
        played.broker.hear(wire.AskJobs)
        why = "waiting for a device: no worker is connected"
        row = a_job_row(1, job_id=spec.job_id, state="queued", why=why, waits_for=waits_for)
        played.broker.say(wire.JobsAre((row,), more=False))
    if unreadable == "no worker":
        played.answer_devices(0)

    with pytest.raises(grn.DeviceError, match=r"no device can be leased: .*no worker.*doctor"):
        promise.result(LONG_S)
    assert played.broker.hear(wire.Cancel).job_ids == (spec.job_id,)


def test_s15_what_could_not_be_had_in_time_lists_what_is_free(played: Played) -> None:
    promise = played.acquire(5, timeout=0)
    spec = played.accept()
    why = "it waited 0.0 s (timeout=0): waiting for 5 idle devices"
    played.end(spec.job_id, outcome="expired", error_type="WaitTimeout", error_text=why)
    played.answer_devices(2)

    with pytest.raises(grn.WaitTimeout, match=r"5 wanted, of 2 devices 2 are free: nvml:0, "):
        promise.result(LONG_S)
    error = promise.exception()
    assert isinstance(error, TimeoutError)
    assert isinstance(error, grn.WaitTimeout)
    assert error.free == [0, 1]
    assert spec.timeout_s == 0


def test_p05_more_than_are_managed_raise_device_error_with_both_numbers(
    played: Played,
) -> None:
    promise = played.acquire(5)
    spec = played.accept()
    text = "it wants 5 devices, 3 are managed"
    played.end(spec.job_id, outcome="failed", error_type="JobNotStarted", error_text=text)

    with pytest.raises(grn.DeviceError, match=r"gpus=5 .*: it wants 5 devices, 3 are managed"):
        promise.result(LONG_S)


def test_a_refusal_that_is_about_devices_is_a_device_error(played: Played) -> None:
    promise = played.acquire()
    (spec,) = played.broker.hear(wire.Submit).jobs
    played.broker.say(wire.Refused("unknown-device", "there is no device 7", (spec.job_id,)))

    with pytest.raises(grn.DeviceError, match="there is no device 7"):
        promise.result(LONG_S)


def test_a_lease_that_is_cancelled_while_it_waits_raises_cancelled_error(
    played: Played,
) -> None:
    promise = played.acquire()
    played.end(played.accept().job_id, outcome="cancelled", device="")

    with pytest.raises(CancelledError):
        promise.result(LONG_S)


def test_s23_what_is_visible_restricts_the_claim(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    promise = played.acquire(-1)
    played.answer_devices(4)
    spec = played.accept()

    assert (spec.gpus, spec.among) == (2, ("GPU-0", "GPU-2"))
    played.grant(spec.job_id)
    lease = promise.result(LONG_S)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    let_go(played, lease)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,0"


def test_s23_a_process_that_may_see_no_gpu_fails_at_once(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    promise = played.acquire()
    played.answer_devices(4)

    with pytest.raises(grn.DeviceError, match="hides every GPU from this process"):
        promise.result(LONG_S)
    assert played.broker.quiet()


def test_s26_cuda_that_was_initialised_before_the_claim_is_warned_of(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "initialised", lambda: ["PyTorch"])
    told = Told()

    lease, _ = a_lease(played, 2, logger=told)

    (warning,) = told.warnings
    assert warning.startswith("PyTorch initialised CUDA in this process before the lease")
    assert "Acquire first" in warning
    let_go(played, lease)


def test_s12_a_framework_that_keeps_its_context_is_warned_of(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    lease, _ = a_lease(played, 2, logger=told)
    monkeypatch.setattr(backends, "contexts", lambda: ["PyTorch"])

    promise = played.do(lease.release)
    played.take_release()
    promise.result(LONG_S)

    (warning,) = told.warnings
    assert "nvml:1,3 is released, but this process still uses it (PyTorch keeps" in warning
    assert "before the process ends" in warning


def test_a_lease_that_is_over_without_a_release_is_told(played: Played) -> None:
    told = Told()
    lease, spec = a_lease(played, 2, logger=told)

    played.end(spec.job_id, outcome="lost", error_type="JobLost", error_text="its worker died")
    until(lambda: told.warnings)

    assert "the lease of nvml:1,3 is over though it was not released" in told.warnings[0]
    assert "its worker died" in told.warnings[0]
    let_go_of_lost(played, lease)


@pytest.mark.parametrize("timeout", [-1, "soon", float("nan"), 1e12])
def test_a_timeout_that_is_no_time_is_refused(timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout="):
        grn.Lease(timeout=timeout)
