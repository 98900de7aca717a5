"""Which GPU a job sees, in job processes and in the caller's own."""

import os
import threading
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.e2e.scripts import devices, run_script, write_script
from tests.nvml import cuda
from tests.nvml.driver import FakeDriver
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("gpu_server")]

ONE_LINE = """
from tests.nvml import cuda

@grn.job()
def train(lr):
    cuda.alloc(100)
    open("ran", "a").write("once ")
    return lr * 2

print(train(0.25))
"""

CUDA_IS_UP = """
import os, sys
from tests.nvml import cuda

@grn.job(inline=True)
def first():
    cuda.alloc(500)
    return os.environ["CUDA_VISIBLE_DEVICES"]

@grn.job(inline=True)
def second():
    cuda.alloc(10)
    return os.environ["CUDA_VISIBLE_DEVICES"]

@grn.job()
def shipped():
    return os.environ["CUDA_VISIBLE_DEVICES"]

one = first()
assert "CUDA_VISIBLE_DEVICES" not in os.environ
# The other card is emptier now, but this process cannot go there.
assert [second(), second()] == [one, one], "not the same device"
assert shipped() != one, "a job process may go where there is most room"

os.environ["CUDA_VISIBLE_DEVICES"] = "kept"
second()
assert os.environ["CUDA_VISIBLE_DEVICES"] == "kept"
try:
    grn.job(inline=True)(lambda: 1 / 0)()
except ZeroDivisionError:
    pass
assert os.environ["CUDA_VISIBLE_DEVICES"] == "kept"
print("good")
"""

THREADS = """
import os, threading

@grn.job(inline=True)
def where():
    return os.environ["CUDA_VISIBLE_DEVICES"]

@grn.job(inline=True)
def there():
    return os.environ["CUDA_VISIBLE_DEVICES"]

found, start = [], threading.Barrier(8)

def one(n):
    start.wait()
    found.append((where, there)[n % 2]())

threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
assert len(found) == 8 and len(set(found)) == 1, found
assert "CUDA_VISIBLE_DEVICES" not in os.environ
print("good")
"""

AT_IMPORT = (
    "import os\nSEEN = os.environ.get('CUDA_VISIBLE_DEVICES')\ndef seen(): return SEEN\n"
)


@grn.job()
def look() -> dict[str, str | None]:
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NV_GPU", "GRN_JOB_ID")
    found = {name: os.environ.get(name) for name in names}
    cuda.alloc(10)
    return found


@grn.job()
def holds_here() -> list[int]:
    cuda.alloc(50)
    uuid = os.environ["CUDA_VISIBLE_DEVICES"]
    cards = cuda.all_cards(os.environ["FAKE_NVML_DIR"])
    assert [card.text("uuid") for card in cuda.visible_cards()] == [uuid]
    return [card.held_bytes(os.getpid()) // cuda.MIB for card in cards]


def fill(gpus: FakeDriver, index: int, *, free: int) -> None:
    """Let a foreign process, ourselves, hold most of one GPU, and the broker know."""
    gpus.hold(free, os.getpid(), 0)
    gpus.hold(index, os.getpid(), 950)
    until(lambda: foreign(index) > 900 * cuda.MIB and foreign(free) == 0)


def foreign(index: int) -> int:
    return next(row.foreign_bytes for row in devices() if row.facts.index == index)


def test_r01_a_script_with_the_decorator_as_its_only_change_runs(tmp_path: Path) -> None:
    done = run_script(write_script(tmp_path / "train.py", ONE_LINE))

    assert done.stdout == "0.5\n", done.stderr
    assert (tmp_path / "ran").read_text() == "once "
    assert done.stderr == ""


def test_p03_without_a_number_a_job_sees_one_device(gpus: FakeDriver) -> None:
    seen = look()["CUDA_VISIBLE_DEVICES"]

    assert seen in (gpus.uuid(0), gpus.uuid(1))


def test_r42_a_job_sees_its_device_from_the_first_line(
    tmp_path: Path, gpus: FakeDriver
) -> None:
    (tmp_path / "at_import.py").write_text(AT_IMPORT)
    script = write_script(
        tmp_path / "sees.py",
        """
        import at_import, os
        print(grn.job()(at_import.seen)(), at_import.SEEN)
        """,
    )

    done = run_script(script, PYTHONPATH=f"{tmp_path}:{Path(__file__).parents[2]}")

    here, there = done.stdout.split()[1], done.stdout.split()[0]
    assert here == "None", done.stderr
    assert there in (gpus.uuid(0), gpus.uuid(1))


def test_r44_p30_jobs_of_one_client_use_the_devices_they_are_charged_for(
    gpus: FakeDriver,
) -> None:
    gpus.set_cuda_order([1, 0])
    try:
        for busy, other in ((0, 1), (1, 0)):
            fill(gpus, busy, free=other)
            future = holds_here.submit()
            held = future.result(10 * PATIENCE)
            seen = look()

            assert (held[other], held[busy]) == (50, 0)
            assert future.outcome is not None
            assert future.outcome.device == f"nvml:{other}"
            assert seen["CUDA_VISIBLE_DEVICES"] == seen["NV_GPU"] == gpus.uuid(other)
            assert seen["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    finally:
        gpus.hold(1, os.getpid(), 0)
        until(lambda: foreign(0) == foreign(1) == 0)


def test_r43_r45_inline_jobs_stay_on_the_first_device_and_leave_no_trace(
    tmp_path: Path,
) -> None:
    done = run_script(write_script(tmp_path / "up.py", CUDA_IS_UP))

    assert done.stdout == "good\n", done.stderr


def test_r45_the_first_inline_jobs_of_eight_threads_agree_on_a_device(tmp_path: Path) -> None:
    done = run_script(write_script(tmp_path / "threads.py", THREADS))

    assert done.stdout == "good\n", done.stderr


def test_two_shipped_jobs_at_once_see_a_device_each(tmp_path: Path, gpus: FakeDriver) -> None:
    gate = tmp_path / "gate"

    @grn.job()
    def big(path: str) -> str:
        import time

        cuda.alloc(600)
        while not os.path.exists(path):
            time.sleep(0.01)
        return os.environ["CUDA_VISIBLE_DEVICES"]

    big(__file__)
    futures = [big.submit(str(gate)) for _ in range(2)]
    until(lambda: all(future.running() for future in futures))
    threading.Timer(0.1, gate.touch).start()

    assert {future.result() for future in futures} == {gpus.uuid(0), gpus.uuid(1)}
