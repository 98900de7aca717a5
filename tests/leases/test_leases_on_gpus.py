"""Leases of stand-in GPUs: who gets what, who waits, and what becomes of it."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.starting import running_pid
from tests.cli.verbs import facts, said
from tests.cli.verbs import grn as grn_verb
from tests.conftest import forget_client
from tests.e2e.listed import all_devices, all_jobs
from tests.e2e.scene import a_stranger, device
from tests.e2e.scripts import all_leases_are_freed, leases
from tests.leases.claimers import Claimer, Raised
from tests.nvml.asking import ask
from tests.nvml.driver import FakeDriver
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

FREED_S = 2.0


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[FakeDriver]:
    """Four GPUs of 1000 MiB under a broker."""
    driver = FakeDriver(home / "nvml", [1000] * 4)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in driver.environment().items():
            patch.setenv(name, value)
        with grn.start("nvml", debug=True):
            yield driver
            forget_client()


@pytest.fixture
def gpus(machine: FakeDriver) -> Iterator[FakeDriver]:
    """The GPUs; after the test nobody has one."""
    yield machine
    all_leases_are_freed(10)


def test_s01_one_call_gives_a_free_device_and_sets_the_variable(gpus: FakeDriver) -> None:
    with Claimer(gpus) as claimer:
        (index,) = claimer.claim()
        claimer.alloc(100)

        assert gpus.by_pid(index) == {claimer.pid: 100}
        seen = claimer.do("import os; dict(os.environ)")
        assert seen["CUDA_VISIBLE_DEVICES"] == seen["NV_GPU"] == gpus.uuid(index)
        assert seen["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert seen["GRN_DEVICE"] == f"nvml:{index}"


def test_s02_the_claim_lasts_while_its_owner_lives(gpus: FakeDriver) -> None:
    with Claimer(gpus) as claimer:
        claimer.claim("4")
        assert leases() == 4

        claimer.do("del owner; 0")
        all_leases_are_freed(FREED_S)

        claimer.claim("2")
        claimer.tell("raise SystemExit; 0")  # no release: the end of the process will do
        claimer.process.wait(10 * PATIENCE)
        all_leases_are_freed(FREED_S)


def test_s03_a_module_level_claim_needs_no_variable(gpus: FakeDriver) -> None:
    with Claimer(gpus) as claimer:
        claimer.do("import gc; grn.claim_gpus(2); gc.collect()")
        assert leases() == 2

        claimer.do("grn.release_gpus()")
        all_leases_are_freed(FREED_S)


def test_s04_several_are_different_and_come_all_at_once_or_not_at_all(
    gpus: FakeDriver,
) -> None:
    with Claimer(gpus) as first, Claimer(gpus) as second:
        taken = first.claim("3")
        assert len(set(taken)) == 3
        with pytest.raises(Raised, match="WaitTimeout"):
            second.claim("2, timeout=0")
        assert leases() == 3

        (left,) = second.claim("timeout=0")
        assert sorted([*taken, left]) == [0, 1, 2, 3]


def test_s05_a_device_with_a_foreign_process_is_never_given(gpus: FakeDriver) -> None:
    with a_stranger() as pid, Claimer(gpus) as claimer:
        gpus.hold(0, pid, 1)
        gpus.hold(2, pid, 300)
        until(lambda: device(0).processes and device(2).processes)

        assert claimer.claim("2") == [1, 3]
        claimer.release()
        with pytest.raises(Raised, match="3 wanted, of 4 devices 2 are free: nvml:1, nvml:3"):
            claimer.claim("3, timeout=0")
    until(lambda: not (device(0).processes or device(2).processes))


def test_s08_after_kill_9_the_devices_are_claimable_within_two_seconds(
    gpus: FakeDriver,
) -> None:
    with Claimer(gpus) as first, Claimer(gpus) as second:
        first.claim("4")
        first.alloc(500)
        second.claim_later("4")
        until(lambda: len(all_jobs(ended=False)) == 2)

        killed_at = time.monotonic()
        os.kill(first.pid, signal.SIGKILL)

        assert second.answer() == [0, 1, 2, 3]
        assert time.monotonic() - killed_at < FREED_S * PATIENCE


def test_s09_with_a_placeholder_others_see_the_device_in_use_when_the_claim_returns(
    gpus: FakeDriver,
) -> None:
    with Claimer(gpus) as claimer:
        first, second = claimer.claim("2, placeholder='pytorch'")

        for index in (first, second):
            assert list(ask(gpus, f"listed({index})")) == [str(claimer.pid)]
        assert ask(gpus, f"used({3 if 3 not in (first, second) else 0})") == 0


def test_s10_an_own_placeholder_is_called_for_each_device(gpus: FakeDriver) -> None:
    with Claimer(gpus) as claimer:
        claimer.do("take = lambda n: cuda.alloc(20 + n, n) or f'on {n}'; 0")
        taken = claimer.claim("3, placeholder=take")

        assert claimer.do("owner.placeholders") == ["on 0", "on 1", "on 2"]
        assert [gpus.by_pid(index)[claimer.pid] for index in taken] == [20, 21, 22]


def test_s12_after_a_release_another_process_gets_the_device_while_the_first_lives(
    gpus: FakeDriver,
) -> None:
    with Claimer(gpus) as first, Claimer(gpus) as second:
        taken = first.claim("4")
        first.alloc(100)
        first.do("cuda.free()")
        assert first.warned("owner.release()") == []

        assert second.claim("4, timeout=0") == taken
        assert first.do("1") == 1


def test_s12_where_a_framework_keeps_its_context_a_warning_says_so_and_nobody_joins_it(
    gpus: FakeDriver,
) -> None:
    with Claimer(gpus) as first:
        (index,) = first.claim("placeholder='pytorch'")

        (warning,) = first.warned("owner.release()")

        assert f"nvml:{index} is released, but this process still uses it (PyTorch" in warning
        with Claimer(gpus, CUDA_VISIBLE_DEVICES=str(index)) as second:
            with pytest.raises(Raised, match="WaitTimeout"):
                second.claim("timeout=0")
            assert first.warned("owner = grn.acquire()") == []
            assert first.do("owner.devices") == [index]  # CUDA would show it no other
            os.kill(first.pid, signal.SIGKILL)
            until(lambda: not device(index).processes)
            assert second.claim("timeout=5") == [index]


def test_s12_memory_of_its_own_is_told_of_too(gpus: FakeDriver) -> None:
    with Claimer(gpus) as claimer:
        claimer.claim()
        claimer.alloc(50)
        until(lambda: any(row.used_bytes for row in all_jobs(ended=False)))

        (warning,) = claimer.warned("owner.release()")

        assert "still uses it" in warning


def test_s13_s14_a_logger_hears_of_every_step_and_a_delay_lies_between(
    gpus: FakeDriver,
) -> None:
    with Claimer(gpus) as claimer:
        claimer.do(
            "import logging, io; heard = io.StringIO(); log = logging.getLogger('claims'); "
            "log.addHandler(logging.StreamHandler(heard)); log.setLevel('INFO')"
        )
        began = time.monotonic()
        (index,) = claimer.claim("logger=log, debug_delay=0.3")
        assert time.monotonic() - began >= 0.3
        claimer.release()

        steps = claimer.do("heard.getvalue().splitlines()")
        assert steps[0] == "waiting for 1 device"
        assert steps[1].startswith(f"acquired nvml:{index} after ")
        assert steps[2] == f"set CUDA_VISIBLE_DEVICES={gpus.uuid(index)}"
        assert steps[3] == f"released nvml:{index}"


def test_s15_too_few_fail_at_once_with_those_that_are_free(gpus: FakeDriver) -> None:
    with Claimer(gpus) as first, Claimer(gpus) as second:
        first.claim("3")
        began = time.monotonic()

        with pytest.raises(Raised, match=r"2 wanted, of 4 devices 1 is free: nvml:3"):
            second.claim("2, timeout=0")

        assert time.monotonic() - began < FREED_S * PATIENCE


def test_s16_by_default_a_claim_waits_until_a_device_is_free(gpus: FakeDriver) -> None:
    with Claimer(gpus) as first, Claimer(gpus) as second:
        taken = first.claim("4")
        second.claim_later()
        until(lambda: any(row.state == "queued" for row in all_jobs(ended=False)))

        first.release()

        assert second.answer()[0] in taken


def test_p05_more_than_are_managed_fail_at_once_with_both_numbers(gpus: FakeDriver) -> None:
    with Claimer(gpus) as claimer:
        with pytest.raises(Raised, match="it wants 5 devices, 4 are managed") as caught:
            claimer.claim("5")

        assert caught.value.name == "grn_zmq.errors.DeviceError"


def test_s24_p05_silly_counts_raise_value_error_and_p04_minus_one_is_all(
    gpus: FakeDriver,
) -> None:
    with Claimer(gpus) as claimer:
        for silly in ("0", "-2"):
            with pytest.raises(Raised, match=r"builtins.ValueError: gpus="):
                claimer.claim(silly)

        assert claimer.claim("-1") == [0, 1, 2, 3]


def test_s23_a_claim_under_a_restriction_gets_that_device_or_fails(gpus: FakeDriver) -> None:
    with Claimer(gpus, CUDA_VISIBLE_DEVICES="2") as first:
        assert first.claim() == [2]
        with Claimer(gpus, CUDA_VISIBLE_DEVICES=gpus.uuid(2)) as second:
            with pytest.raises(Raised, match="1 wanted, of 1 device none is free"):
                second.claim("timeout=0")
        with Claimer(gpus, CUDA_VISIBLE_DEVICES="5") as third:
            with pytest.raises(Raised, match="DeviceError"):
                third.claim()
        with Claimer(gpus, CUDA_VISIBLE_DEVICES="") as blind:
            with pytest.raises(Raised, match="hides every GPU"):
                blind.claim()


def test_s25_a_stranger_on_a_leased_device_is_noticed_and_the_next_grant_avoids_it(
    gpus: FakeDriver,
) -> None:
    with a_stranger() as pid, Claimer(gpus) as claimer:
        (index,) = claimer.claim()
        gpus.hold(index, pid, 200)
        until(lambda: any(one.pid == pid for one in device(index).processes))

        assert f"is a stranger that uses 200.0 MiB of nvml:{index}" in said("who", str(pid))
        claimer.release()
        taken = claimer.claim("3")
        assert index not in taken
        with Claimer(gpus) as second:
            second.claim_later("timeout='30s'")
            until(lambda: any(row.state == "queued" for row in all_jobs(ended=False)))
            why = said("why", "@")
            assert f"other programs use {index}" in why
            claimer.release()
            second.answer()
    until(lambda: not device(index).processes)


def test_s26_a_claim_after_cuda_was_initialised_warns(gpus: FakeDriver) -> None:
    with Claimer(gpus) as claimer:
        claimer.do("import torch; kept = torch.ones(10, device='cuda:0'); 0")

        (warning,) = claimer.warned("owner = grn.acquire()")

        assert warning.startswith("PyTorch initialised CUDA in this process before the lease")


def test_s28_no_framework_is_needed(gpus: FakeDriver) -> None:
    with Claimer(gpus, PYTHONPATH=str(Path(__file__).parents[1] / "nvml")) as claimer:
        claimer.claim("2")

        loaded = claimer.do("import sys; sorted(sys.modules)")
        assert not {"torch", "tensorflow", "pycuda", "jax"} & set(loaded)


def test_p07_a_b_c_get_their_devices_as_soon_as_there_are_enough(gpus: FakeDriver) -> None:
    with Claimer(gpus) as a, Claimer(gpus) as b, Claimer(gpus) as c:
        a.claim("2")
        b.claim_later("3")
        until(lambda: len(all_jobs(ended=False)) == 2)
        c.claim_later("1")
        until(lambda: len(all_jobs(ended=False)) == 3)

        a.release()

        assert sorted([*b.answer(), *c.answer()]) == [0, 1, 2, 3]


def test_p08_who_waits_for_three_holds_none(gpus: FakeDriver) -> None:
    with Claimer(gpus) as a, Claimer(gpus) as b:
        a.claim("2")
        b.claim_later("3")
        until(lambda: len(all_jobs(ended=False)) == 2)

        assert leases() == 2
        a.release()
        assert len(b.answer()) == 3


def test_a_lease_is_listed_with_its_kind_its_holder_and_its_program(gpus: FakeDriver) -> None:
    with Claimer(gpus) as claimer:
        claimer.claim("2, name='notebook'")

        (row,) = facts("ps")
        assert (row["kind"], row["name"], row["title"]) == (
            "lease",
            "notebook",
            "lease of python",
        )
        assert (row["device"], row["gpus"], row["client_pid"]) == ("nvml:0,1", 2, claimer.pid)
        whose = f"belongs to job {row['number']} (notebook"
        until(lambda: whose in said("who", str(claimer.pid)))


def test_a_process_may_hold_two_leases_and_release_either(gpus: FakeDriver) -> None:
    with Claimer(gpus) as claimer:
        first = claimer.claim("2")
        second = claimer.do("other = grn.acquire(); other.devices")
        assert not set(first) & set(second)
        claimer.do("cuda.alloc(30, 2); 0")
        assert gpus.by_pid(second[0]) == {claimer.pid: 30}

        claimer.release()

        seen = claimer.do("import os; os.environ['CUDA_VISIBLE_DEVICES']")
        assert seen == gpus.uuid(second[0])


def test_a_holder_that_calls_jobs_does_not_wait_for_itself(gpus: FakeDriver) -> None:
    with Claimer(gpus) as claimer:
        claimer.claim("4")

        assert claimer.do("grn.job(type='child')(lambda: 7)()") == 7


def test_a_child_of_a_holder_may_claim_among_its_devices(gpus: FakeDriver) -> None:
    with Claimer(gpus) as claimer:
        taken = claimer.claim("2")
        code = "import grn_zmq as grn; print(*grn.acquire(timeout=20).devices)"
        shown = claimer.do(
            "import subprocess, sys; "
            f"subprocess.check_output([sys.executable, '-c', {code!r}], text=True)"
        )

        assert int(shown) in taken


def test_a_lease_outlives_its_broker(gpus: FakeDriver) -> None:
    with Claimer(gpus) as first, Claimer(gpus) as second:
        first.claim("4")
        broker = running_pid()
        assert broker is not None

        os.kill(broker, signal.SIGKILL)
        until(lambda: running_pid() not in (None, broker), 20)

        with pytest.raises(Raised, match="WaitTimeout"):
            second.claim("timeout=1")
        first.release()
        assert second.claim("4, timeout=20") == [0, 1, 2, 3]


def workers() -> set[int]:
    return {row.worker_pid for row in all_devices()}


def test_a_lease_outlives_the_worker_that_watches_its_holder(gpus: FakeDriver) -> None:
    with Claimer(gpus) as first, Claimer(gpus) as second:
        first.claim("4")
        watching = device(0).worker_pid

        os.kill(watching, signal.SIGKILL)
        until(lambda: watching not in workers() and len(workers()) == 4, 20)

        with pytest.raises(Raised, match="WaitTimeout"):
            second.claim("timeout=2")
        first.release()
        assert second.claim("4, timeout=20") == [0, 1, 2, 3]


def test_a_lease_that_is_held_cannot_be_cancelled_but_released(gpus: FakeDriver) -> None:
    with Claimer(gpus) as claimer:
        claimer.claim("2")
        done = grn_verb("cancel", "@")
        assert done.exit_code == 1
        assert f"ends with the process that holds it: end that one (pid {claimer.pid})" in (
            done.stderr
        )

        claimer.release()

        all_leases_are_freed(FREED_S)
