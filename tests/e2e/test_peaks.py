"""What is measured of a run: short peaks, frameworks' counters, the driver's account, load."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from tests.e2e import grabbing
from tests.e2e.scene import LONG_S, MIB, Machine, a_machine, row_of, rows_of
from tests.nvml import cuda
from tests.nvml.driver import TORCH_STUB

pytestmark = pytest.mark.e2e

# The shortest peak that is always caught while a type is young; see docs.
SHORTEST_S = 0.1
RUNS = 20
BASE_MIB, PEAK_MIB = 10, 900


@pytest.fixture(scope="module", params=["nvml", "host"])
def machine(request: pytest.FixtureRequest, home: Path) -> Iterator[Machine]:
    with a_machine(request.param, home, 1000, 1000) as machine:
        yield machine


@pytest.fixture(scope="module")
def torch_on_path() -> Iterator[None]:
    """Jobs of this module find the stand-in for torch."""
    sys.path.insert(0, str(TORCH_STUB))
    yield
    sys.path.remove(str(TORCH_STUB))


def peak_shortly(base: int, peak: int, seconds: float) -> None:
    """Hold a little, and for a moment a lot."""
    if not os.environ["GRN_DEVICE"].startswith("nvml"):
        kept, held = grabbing.grab(base), grabbing.grab(peak - base)
        del kept, held
        return
    cuda.alloc(base)
    cuda.alloc(peak - base)
    time.sleep(seconds)
    cuda.free(peak - base)


def test_r54_the_shortest_peak_that_is_documented_is_learned_in_20_of_20_runs(
    machine: Machine,
) -> None:
    sizes = machine.mib(BASE_MIB), machine.mib(PEAK_MIB)
    jobs = [grn.job(type=f"r54-{number}")(peak_shortly) for number in range(RUNS)]

    for run in [job.submit(*sizes, SHORTEST_S) for job in jobs]:
        run.result(LONG_S)

    peaks = [rows_of(f"r54-{number}")[0].peak_bytes for number in range(RUNS)]
    assert [peak >= sizes[1] * MIB for peak in peaks] == [True] * RUNS, peaks


def fill_torch(mib: int) -> dict[str, int]:
    """Hold so much through torch for no time at all, and give it back to the device."""
    import torch

    held: Any = torch.empty(mib * MIB // 4, device="cuda")
    del held
    torch.cuda.empty_cache()
    return {"context": torch.cuda.CONTEXT_BYTES}


@pytest.mark.parametrize("machine", ["nvml"], indirect=True)
def test_a_peak_of_no_length_is_learned_from_torch(
    machine: Machine, torch_on_path: None
) -> None:
    job = grn.job(type="torch")(fill_torch).submit(700)

    context = job.result(LONG_S)["context"]

    assert row_of(job.job_id).peak_bytes == 700 * MIB + context


def fill_unseen(mib: int) -> None:
    """Hold memory for no time at all, and leave without a word."""
    cuda.alloc(mib)
    os._exit(0)


@pytest.mark.parametrize("machine", ["nvml"], indirect=True)
def test_a_process_that_left_is_known_by_the_drivers_account(machine: Machine) -> None:
    machine.gpus.accounting()
    job = grn.job(type="account")(fill_unseen)
    try:
        with pytest.raises(grn.JobExited):
            job(800)
    finally:
        machine.gpus.accounting(False)

    assert rows_of("account")[0].peak_bytes == 800 * MIB


@pytest.mark.parametrize("machine", ["nvml"], indirect=True)
def test_an_out_of_memory_reaches_its_caller_as_it_was_raised(
    machine: Machine, torch_on_path: None
) -> None:
    with pytest.raises(RuntimeError, match=r"CUDA out of memory\. Tried to allocate 1\.95 GiB"):
        grn.job(type="too much")(fill_torch)(2000)
