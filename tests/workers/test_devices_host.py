"""L10, R52, R53, R69, P38 on shares of host memory."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from grn_zmq.units import GIB, MIB
from tests import waiting
from tests.cli.scripts import any_alive
from workers.devices import host, memory
from workers.devices.device import DeviceUnreadable, Sample, Tree
from workers.devices.host import HostDevice
from workers.proctree import descendants, resident_bytes

DEADLINE_S = 30.0
GONE = 2**22 + 1
ROOT = Path(__file__).parents[2]

# argv: itself, then MiB to hold in this process, in its child, in its grandchild, ...
# Says on its own line what it had before, then obeys words on its standard input.
HOLDER = """
import json, os, subprocess, sys
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = resident()
kept = bytearray(b"x") * (int(sys.argv[2]) << 20)
below = []
if sys.argv[3:]:
    command = [sys.executable, "-c", sys.argv[1], sys.argv[1], *sys.argv[3:]]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    below = json.loads(child.stdout.readline())
print(json.dumps([[os.getpid(), before], *below]), flush=True)
for word in sys.stdin:
    kept = None
    print("freed", flush=True)
"""

POOL = """
import multiprocessing, os, sys
def hold(mib):
    global kept
    kept = bytearray(b"x") * (mib << 20)
    ready.release()
    stop.wait()
context = multiprocessing.get_context("fork")
ready, stop = context.Semaphore(0), context.Event()
workers = [context.Process(target=hold, args=(int(mib),), daemon=True) for mib in sys.argv[1:]]
for worker in workers:
    worker.start()
for worker in workers:
    ready.acquire()
print("ready", flush=True)
sys.stdin.read()
"""


class Holder:
    """A process under a keeper of its own, and what it was told to hold."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdout
        (self.keeper, _), (self.main, self.before), *rest = json.loads(
            process.stdout.readline()
        )
        self.others = [pid for pid, _ in rest]

    @property
    def tree(self) -> Tree:
        return Tree(self.keeper, self.main, baseline_bytes=self.before)


@contextmanager
def holding(*mib: int) -> Iterator[Holder]:
    """Start a keeper, a job process below it that holds the first, and so on.

    Each ends when its standard input does, so with its parent, whatever ends that.
    """
    command = [sys.executable, "-c", HOLDER, HOLDER, "0", *map(str, mib)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Holder(process)
        finally:
            below = descendants(process.pid)
            assert process.stdin
            process.stdin.close()
            until(lambda: not any_alive(below))


def until(condition: Callable[[], object]) -> None:
    waiting.until(condition, DEADLINE_S)


def a_device(
    total: int = 4 * GIB, *, sum_bytes: int | None = None, count: int = 1
) -> HostDevice:
    return HostDevice(0, count=count, total_bytes=total, sum_bytes=sum_bytes or total)


def mib(count: int) -> int:
    return round(count / MIB)


@pytest.mark.e2e
def test_l10_a_job_is_charged_with_its_own_memory_beside_another() -> None:
    with holding(100) as small, holding(400) as large:
        sample = a_device().sample({"small": small.tree, "large": large.tree})

    assert 98 <= mib(sample.by_tree["small"]) <= 110
    assert 398 <= mib(sample.by_tree["large"]) <= 410
    assert sample.seen == {"small", "large"}


@pytest.mark.e2e
def test_r53_child_and_grandchild_are_measured_with_the_job() -> None:
    with holding(100, 200, 300) as job:
        sample = a_device().sample({"job": job.tree})

        assert 600 <= mib(sample.by_tree["job"]) <= 640
        assert set(sample.processes) == {job.main, *job.others}


@pytest.mark.e2e
def test_p38_processes_of_multiprocessing_are_counted_once_each() -> None:
    command = [sys.executable, "-c", POOL, "60", "60"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        tree = Tree(process.pid, process.pid, counts_root=True)

        # Left to end with its standard input: killed, it would leave its pool behind.
        sample = a_device().sample({"job": tree})

    assert 120 <= mib(sample.by_tree["job"]) <= 165


@pytest.mark.e2e
def test_a_peak_counts_while_the_job_runs_and_not_for_what_it_holds() -> None:
    device = a_device()
    code = (
        "import sys; x = bytearray(b'x') * (200 << 20); x = None; print('freed', flush=True);"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"freed\n"
        tree = Tree(process.pid, process.pid, counts_root=True)

        assert 200 <= mib(device.sample({"job": tree}).by_tree["job"]) <= 230
        assert mib(device.held_bytes(tree)) <= 30


@pytest.mark.e2e
def test_what_a_tree_holds_leaves_out_what_it_began_with() -> None:
    with holding(100, 50) as job:
        held = a_device().held_bytes(job.tree)

    assert 150 <= mib(held) <= 175


@pytest.mark.e2e
def test_a_job_that_is_gone_holds_nothing_and_was_not_seen() -> None:
    device = a_device()

    sample = device.sample({"job": Tree(GONE, GONE + 1, baseline_bytes=MIB)})

    assert sample.by_tree == {"job": 0}
    assert sample.seen == frozenset()
    assert device.held_bytes(Tree(GONE, GONE + 1)) == 0


@pytest.mark.e2e
def test_an_inline_job_inside_a_job_is_counted_once() -> None:
    with holding(100, 50) as job:
        inner = Tree(job.main, job.main, job.before + 40 * MIB, counts_root=True)

        sample = a_device().sample({"outer": job.tree, "inner": inner})

    assert mib(sample.by_tree["outer"]) == 40
    assert 110 <= mib(sample.by_tree["inner"]) <= 130


@pytest.mark.e2e
def test_the_caller_of_an_inline_job_is_not_charged_with_the_workers_it_started() -> None:
    caller = Tree(os.getppid(), os.getppid(), counts_root=True)
    with holding(200) as job:
        sample = a_device().sample({"inline": caller})

    assert job.main not in sample.processes
    assert os.getpid() not in sample.processes


@pytest.mark.e2e
def test_many_processes_are_not_read_at_every_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    now = 1000.0

    def read(pid: int) -> int:
        reads.append(pid)
        return MIB

    monkeypatch.setattr(host, "private_bytes", read)
    monkeypatch.setattr(host, "descendants", lambda pid, without: list(range(GONE, GONE + 9)))
    monkeypatch.setattr(time, "monotonic", lambda: now)
    device = a_device()
    trees = {"job": Tree(GONE - 1, GONE - 2)}

    levels = [device.sample(trees).by_tree["job"] for _ in range(3)]

    assert levels == [9 * MIB] * 3
    assert len(reads) == 9
    now += 0.6
    device.sample(trees)
    assert len(reads) == 18


@pytest.mark.parametrize(
    ("available", "own", "siblings", "foreign"),
    [
        (10 * GIB, 0, 0, 0),  # nobody else: all of it
        (8 * GIB, 0, 0, 0),
        (6 * GIB, 0, 0, 1 * GIB),  # somebody has 2 of the 8 we share: half of that
        (6 * GIB, 0, 4 * GIB, 0),  # the other device has them: none of our business
        (2 * GIB, 0, 4 * GIB, 2 * GIB),
        (1 * GIB, 3 * GIB, 4 * GIB, 0),
        (0, 3 * GIB, 4 * GIB, 1 * GIB),
        (0, 0, 0, 4 * GIB),
        (0, 5 * GIB, 0, 0),  # we alone are beyond our share
    ],
)
def test_r52_a_device_cannot_have_what_somebody_else_has(
    available: int, own: int, siblings: int, foreign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = a_device(4 * GIB, sum_bytes=8 * GIB, count=2)
    monkeypatch.setattr(host, "available_bytes", lambda: available)
    monkeypatch.setattr(device._siblings, "held_bytes", lambda now: siblings)
    monkeypatch.setattr(host, "resident_and_peak", lambda pid: (own, own))

    sample = device.sample({"job": Tree(GONE, GONE)})

    assert sample.foreign_bytes == foreign
    assert sample.used_bytes == own + foreign


@pytest.mark.e2e
def test_r52_foreign_memory_is_noticed_when_the_machine_runs_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = a_device(GIB, sum_bytes=2 * GIB, count=2)
    with holding(800) as stranger:
        # A machine with just enough left for its two devices, and nobody but the stranger
        # on it: the real one is used by others, and counts what was freed only later.
        left = 2 * GIB + 100 * MIB
        monkeypatch.setattr(
            host, "available_bytes", lambda: left - resident_bytes(stranger.main)
        )

        # Half of the 700 that are missing, and of what Python itself takes.
        assert 350 <= mib(device.sample({}).foreign_bytes) <= 370

    assert device.sample({}).foreign_bytes == 0


def test_what_is_available_is_a_part_of_the_machine() -> None:
    assert 0 < memory.available_bytes() < memory.physical_bytes()


# One worker of two that were started alike, each with a job below it.
WORKER = """
import os, subprocess, sys, time
from workers.devices.siblings import SiblingUse
job = "import sys; x = bytearray(b'x') * (100 << 20); print(flush=True); sys.stdin.read()"
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
environment = {**os.environ, "GRN_DEVICE": sys.argv[3]}
with subprocess.Popen([sys.executable, "-c", job], env=environment, **pipes) as child:
    child.stdout.readline()
    print("ready", flush=True)
    sys.stdin.readline()
    print(SiblingUse(int(sys.argv[2])).held_bytes(time.monotonic()), flush=True)
    sys.stdin.readline()
    child.kill()
"""


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("siblings", "device", "low", "high"),
    [(1, "host:1", 100, 120), (0, "host:1", 0, 0), (1, "", 0, 0)],
)
def test_a_device_knows_what_its_siblings_jobs_hold_if_they_have_a_device(
    siblings: int, device: str, low: int, high: int
) -> None:
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", WORKER, str(index), str(siblings), device],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                )
            )
            for index in range(2)
        ]
        for worker in workers:
            assert worker.stdout
            assert worker.stdout.readline() == "ready\n"
        assert workers[0].stdin
        assert workers[0].stdout
        print(file=workers[0].stdin, flush=True)
        held = int(workers[0].stdout.readline())
        for worker in workers:
            worker.communicate("\n\n")

    assert low <= mib(held) <= high


def test_a_failing_look_at_the_machine_is_a_failed_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> int:
        raise OSError("no meminfo")

    monkeypatch.setattr(host, "available_bytes", fail)

    with pytest.raises(DeviceUnreadable, match="host:0 cannot be read: no meminfo"):
        a_device().sample({})


def test_what_a_host_device_is() -> None:
    device = a_device()

    assert (device.info.kind, device.info.device_class) == ("host", "host")
    assert (device.info.display, device.info.links) == (False, {})
    device.close()


def test_an_idle_device_is_empty() -> None:
    device = a_device(16 * MIB)

    assert device.sample({}) == Sample(0, 0, {}, 0.0, frozenset())


def test_the_limit_of_a_control_group_counts_as_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory.max").write_text(f"{GIB}\n")
    (tmp_path / "memory.current").write_text(f"{800 * MIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {300 * MIB}\n")
    monkeypatch.setattr(
        memory, "_limited_groups", lambda: [(tmp_path, memory._limit(tmp_path))]
    )

    assert memory.physical_bytes() == GIB
    assert memory.available_bytes() == 524 * MIB


def test_a_group_without_limit_is_none(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n")

    assert memory._limit(tmp_path) is None
