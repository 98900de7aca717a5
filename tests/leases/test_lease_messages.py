"""What a lease says to the broker, and what its process has of it; the broker is played."""

import gc
import os
import time

import pytest

import grn_zmq as grn
from grn_zmq import leased, wire
from grn_zmq.records import Released
from tests.leases.played import LONG_S, VARIABLES, Played, a_lease, let_go
from tests.leases.telling import Told
from tests.waiting import until


def test_a_lease_is_a_job_of_its_own_kind_with_whole_devices(played: Played) -> None:
    lease, spec = a_lease(played, 2, "15m", name="mine", priority=3)

    assert (spec.kind, spec.gpus, spec.exclusive, spec.among) == ("lease", 2, True, ())
    assert (spec.timeout_s, spec.name, spec.priority) == (900.0, "mine", 3)
    assert spec.title.startswith("lease of ")
    assert spec.job_type == spec.title
    assert not spec.detached
    assert lease.job_id == spec.job_id
    let_go(played, lease)


def test_s02_the_owner_lists_its_devices_as_integers_and_sets_the_variables(
    played: Played,
) -> None:
    lease, spec = a_lease(played, 2)

    assert lease.devices == [1, 3]
    assert lease.environment == VARIABLES
    assert {name: os.environ[name] for name in VARIABLES} == VARIABLES
    assert os.environ["GRN_JOB_ID"] == spec.job_id
    let_go(played, lease)
    assert lease.devices == []
    assert not any(name in os.environ for name in (*VARIABLES, "GRN_JOB_ID"))


def test_p06_acquiring_twice_raises_and_releasing_twice_is_harmless(played: Played) -> None:
    lease, _ = a_lease(played, 2)

    with pytest.raises(RuntimeError, match="this lease has nvml:1,3 already: release it"):
        lease.acquire()
    let_go(played, lease)
    lease.release()

    assert played.broker.quiet()


def test_p06_a_released_lease_can_be_acquired_again_and_gives_the_ids(played: Played) -> None:
    lease, first = a_lease(played, 2)
    let_go(played, lease)

    promise = played.do(lease.acquire)
    second = played.accept()
    played.grant(second.job_id)

    assert promise.result(LONG_S) == [1, 3]
    assert second.job_id != first.job_id
    let_go(played, lease)


def test_two_threads_cannot_acquire_one_lease(played: Played) -> None:
    lease = grn.Lease(2)
    promise = played.do(lease.acquire)
    spec = played.accept()

    with pytest.raises(RuntimeError, match="another thread is acquiring"):
        lease.acquire()
    played.grant(spec.job_id)
    promise.result(LONG_S)
    let_go(played, lease)


def test_s02_a_lease_that_nobody_has_any_more_is_released(played: Played) -> None:
    lease, spec = a_lease(played, 2)

    del lease
    gc.collect()

    assert played.take_release() == (Released(spec.job_id, 1, failed=False),)
    played.answer_devices(4)
    until(lambda: "CUDA_VISIBLE_DEVICES" not in os.environ)


def test_s03_a_claim_needs_no_variable_to_stay_alive(played: Played) -> None:
    promise = played.do(lambda: grn.claim_gpus(2) and None)
    played.grant(played.accept().job_id)
    promise.result(LONG_S)
    gc.collect()

    assert played.broker.quiet()
    with pytest.raises(RuntimeError, match="claimed <Lease of nvml:1,3> already"):
        grn.claim_gpus()
    released = played.do(grn.release_gpus)
    played.take_release()
    played.answer_devices(4)
    released.result(LONG_S)
    grn.release_gpus()
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


@pytest.mark.e2e
def test_a_forked_child_does_not_release_the_lease_of_its_parent(played: Played) -> None:
    lease, _ = a_lease(played, 2)

    child = os.fork()
    if child == 0:
        try:
            lease.release()
            leased._let_all_go()
            grn.release_gpus()
            os._exit(0 if os.environ["NV_GPU"] == "GPU-a,GPU-b" else 2)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)

    assert status == 0
    assert played.broker.quiet()
    assert lease.devices == [1, 3]
    let_go(played, lease)


def test_s10_a_placeholder_is_called_once_for_each_device_and_what_it_gives_is_kept(
    played: Played,
) -> None:
    calls: list[tuple[int, str]] = []

    def placeholder(device_no: int) -> str:
        calls.append((device_no, os.environ["CUDA_VISIBLE_DEVICES"]))
        return f"memory on {device_no}"

    lease, _ = a_lease(played, 2, placeholder=placeholder)

    assert calls == [(0, "GPU-a,GPU-b"), (1, "GPU-a,GPU-b")]
    assert lease.placeholders == ["memory on 0", "memory on 1"]
    let_go(played, lease)
    assert lease.placeholders == []


def test_s10_a_placeholder_may_say_how_it_is_released(played: Played) -> None:
    released: list[int] = []

    class Counted:
        def __call__(self, device_no: int) -> int:
            return device_no

        def release(self, held: int) -> None:
            released.append(held)

    lease, _ = a_lease(played, 2, placeholder=Counted())
    let_go(played, lease)

    assert released == [1, 0]


def test_s13_a_logger_is_told_of_every_step(played: Played) -> None:
    told = Told()

    lease, _ = a_lease(played, 2, logger=told)
    let_go(played, lease)

    assert told.steps[0] == "waiting for 2 devices"
    assert told.steps[1].startswith("acquired nvml:1,3 after 0.")
    assert told.steps[2:] == ["set CUDA_VISIBLE_DEVICES=GPU-a,GPU-b", "released nvml:1,3"]
    assert told.warnings == []


def test_s14_a_debug_delay_lies_between_the_grant_and_the_first_use(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[tuple[float, bool]] = []

    def sleep(seconds: float) -> None:
        slept.append((seconds, "CUDA_VISIBLE_DEVICES" in os.environ))

    monkeypatch.setattr(time, "sleep", sleep)
    lease, _ = a_lease(played, 2, debug_delay=1.5)

    assert slept == [(1.5, False)]
    let_go(played, lease)


def test_a_second_lease_is_beside_the_first_and_not_within_it(played: Played) -> None:
    first, _ = a_lease(played, 2)
    second, spec = a_lease(played, 2)

    assert (spec.among, spec.parent) == ((), "")
    assert os.environ["NV_GPU"] == "GPU-a,GPU-b,GPU-a,GPU-b"
    let_go(played, first)
    let_go(played, second)


def test_a_claim_inside_a_job_is_a_child_of_that_job(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRN_JOB_ID", "a" * 32)

    lease, spec = a_lease(played, 2)

    assert spec.parent == "a" * 32
    let_go(played, lease)


def test_leases_are_released_at_the_end_of_the_program_before_it_waits_for_jobs(
    played: Played,
) -> None:
    _lease, spec = a_lease(played, 2)

    leased._let_all_go()

    assert played.broker.hear(wire.Release).runs == (Released(spec.job_id, 1, failed=False),)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_lease_tells_what_it_is() -> None:
    assert repr(grn.Lease(2)) == "<Lease of 2 devices, not acquired>"
