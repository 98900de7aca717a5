import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from grn_zmq.units import MIB
from workers import proctree
from workers.proctree import OwnerCache, descendants, owner

pytestmark = pytest.mark.e2e

GONE = 2**22 + 1  # above the largest pid a kernel gives

# Each process starts the next and says when the last one stands.
CHAIN = """
import subprocess, sys
if int(sys.argv[2]):
    rest = [sys.executable, "-c", sys.argv[1], sys.argv[1], str(int(sys.argv[2]) - 1)]
    child = subprocess.Popen(rest, stdin=subprocess.PIPE)
else:
    print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def a_chain(below: int) -> Iterator[int]:
    command = [sys.executable, "-c", CHAIN, CHAIN, str(below)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


@pytest.mark.parametrize("listed_by_kernel", [True, False])
def test_all_generations_are_found_parents_first(
    listed_by_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proctree, "_kernel_lists_children", lambda: listed_by_kernel)
    with a_chain(2) as root:
        child, grandchild = descendants(root)

        assert descendants(child) == [grandchild]
        assert descendants(grandchild) == []
        assert descendants(root, without=[child]) == []


def test_a_descendant_belongs_to_the_nearest_root_above_it() -> None:
    with a_chain(2) as root:
        child, grandchild = descendants(root)

        assert owner(grandchild, [root], OwnerCache()) == root
        assert owner(grandchild, [root, child], OwnerCache()) == child
        assert owner(child, [child], OwnerCache()) == child
        assert owner(os.getpid(), [root], OwnerCache()) is None


def test_what_was_found_is_kept_until_the_roots_change() -> None:
    cache = OwnerCache()
    with a_chain(1) as root:
        (child,) = descendants(root)
        assert owner(child, [GONE], cache) is None

        assert owner(child, [root], cache) == root
        assert cache.known == {(child, proctree.start_time(child)): root}
        assert owner(child, [root], cache) == root


def test_a_pid_that_came_again_is_another_process() -> None:
    cache = OwnerCache()
    with a_chain(1) as root:
        (child,) = descendants(root)
        cache.roots = frozenset([root])
        cache.known[child, 1] = None  # the same pid, started at another time

        assert owner(child, [root], cache) == root


def test_a_name_full_of_brackets_does_not_confuse_the_reading() -> None:
    code = (
        "import sys; open('/proc/self/comm', 'w').write(') R 1 (x) S');"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"

        assert owner(process.pid, [os.getpid()], OwnerCache()) == os.getpid()
        process.kill()


def test_a_vanished_process_has_nothing_and_raises_nothing() -> None:
    assert descendants(GONE) == []
    assert proctree.start_time(GONE) is None
    assert owner(GONE, [GONE + 1], OwnerCache()) is None
    assert proctree.resident_bytes(GONE) == 0
    assert proctree.peak_bytes(GONE) == 0
    assert proctree.private_bytes(GONE) == 0
    assert proctree.inner_pids(GONE) == []


def test_a_zombie_holds_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped

        assert proctree.resident_bytes(process.pid) == 0
        assert proctree.start_time(process.pid) is not None
        assert proctree.private_bytes(process.pid) == 0


def test_memory_is_read_now_at_its_peak_and_privately() -> None:
    code = (
        "import sys; x = bytearray(b'x') * (80 << 20); x = None;"
        "y = bytearray(b'y') * (20 << 20);"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"

        assert 80 * MIB < proctree.peak_bytes(process.pid) < 120 * MIB
        assert 20 * MIB < proctree.resident_bytes(process.pid) < 60 * MIB
        assert 20 * MIB < proctree.private_bytes(process.pid) < 50 * MIB
        process.kill()


def test_unreadable_private_memory_is_taken_for_the_resident(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = proctree._read
    monkeypatch.setattr(
        proctree, "_read", lambda path: b"" if path.endswith("smaps_rollup") else read(path)
    )

    assert proctree.private_bytes(os.getpid()) > 5 * MIB
