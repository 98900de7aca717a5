"""Programs, brokers and workers in different pid and mount namespaces, as containers are."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from grn_zmq.discovery import find_address
from grn_zmq.paths import find_places
from tests.cli.scripts import Running, run, script, started
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("home")]

HOST = ("--devices", "host:1x500MiB", "--max-jobs", "4")
# Pids count from 1 in there; what is inside ends with the one that made it.
UNSHARE = shutil.which("unshare") or "/usr/bin/unshare"
APART = (UNSHARE, "--pid", "--fork", "--kill-child", "--mount-proc")
# As what frees a device when its holder is killed, and then some for a loaded machine.
FREED_S = 2.0

# Holds the device until it is killed. No two that hold it can have the lock at once.
HOLDER = """
import fcntl, os, sys, time
import grn_zmq as grn

print("asks", flush=True)
with grn.acquire(), open(sys.argv[1], "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("holds", os.environ["GRN_DEVICE"], "as pid", os.getpid(), flush=True)
    while True:
        time.sleep(0.05)
"""


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    if not os.path.exists(UNSHARE):
        pytest.skip("there is no unshare here")
    tried = subprocess.run([*APART, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no pid namespace can be made here: {tried.stderr.strip()}")


@contextmanager
def killed(running: Running) -> Iterator[Running]:
    """End it for good afterwards: what is in a namespace of its own is not asked."""
    try:
        yield running
    finally:
        running.process.kill()
        running.__exit__(None, None, None)


@contextmanager
def a_server(below: Sequence[str] = ()) -> Iterator[Running]:
    """A broker with one device that nobody shares, here or in a namespace of its own."""
    with killed(started(*HOST, below=below)) as server:
        until(lambda: find_address(find_places(os.environ)), 20, server.said)
        yield server


@contextmanager
def a_holder(directory: Path, below: Sequence[str] = ()) -> Iterator[Running]:
    """A program that wants the device for itself."""
    program = directory / "holder.py"
    program.write_text(HOLDER)
    words = [*below, sys.executable, str(program), str(directory / "lock")]
    with killed(Running(words[0], *words[1:])) as holder:
        holder.until_out("asks")
        yield holder


def check_one_after_the_other(first: Running, second: Running) -> None:
    """The second waits for as long as the first lives, and not much longer."""
    first.until_out("holds host:0")
    until(lambda: b"queued" in run("grn", "ps").stdout, 20, second.said)
    assert "holds" not in second.out

    first.process.send_signal(signal.SIGKILL)

    second.until_out("holds host:0", FREED_S * 2)
    assert second.process.poll() is None


@pytest.mark.parametrize("inside", ["the first", "the second", "both"])
def test_p19_holders_in_pid_namespaces_of_their_own_never_have_one_device_together(
    tmp_path: Path, inside: str
) -> None:
    with (
        a_server(),
        a_holder(tmp_path, () if inside == "the second" else APART) as first,
    ):
        first.until_out("holds host:0")
        with a_holder(tmp_path, () if inside == "the first" else APART) as second:
            check_one_after_the_other(first, second)


@pytest.mark.parametrize("apart", [(), APART], ids=["outside", "in-another"])
def test_p19_a_holder_that_the_broker_cannot_see_has_its_device_until_it_dies(
    tmp_path: Path, apart: Sequence[str]
) -> None:
    with a_server(APART), a_holder(tmp_path, apart) as first:
        first.until_out("holds host:0")
        address = find_address(find_places(os.environ))
        assert address is not None
        assert not address.near
        with a_holder(tmp_path, apart) as second:
            check_one_after_the_other(first, second)


def test_p19_workers_that_cannot_see_a_holder_keep_its_device_for_it(tmp_path: Path) -> None:
    workers = script("grn-workers", *HOST)
    with (
        killed(started("--no-workers")) as broker,
        killed(Running(APART[0], *APART[1:], *workers)) as pool,
    ):
        pool.until_err("broker found")
        with a_holder(tmp_path) as first:
            first.until_out("holds host:0")
            with a_holder(tmp_path) as second:
                check_one_after_the_other(first, second)
        assert broker.process.poll() is None


def test_p19_holders_that_see_the_broker_at_different_paths_take_turns(
    tmp_path: Path, home: Path
) -> None:
    ours, theirs = home / "runtime", tmp_path / "r"
    (theirs / "grn").mkdir(parents=True, mode=0o700)
    mounts = f"mount --bind {ours / 'grn'} {theirs / 'grn'} && mount -t tmpfs none {ours}"
    inside = f'{mounts} && XDG_RUNTIME_DIR={theirs} exec "$@"'
    with a_server(), a_holder(tmp_path, (*APART, "sh", "-c", inside, "sh")) as first:
        first.until_out("holds host:0")
        with a_holder(tmp_path) as second:
            check_one_after_the_other(first, second)


def test_stop_does_not_signal_pids_of_another_namespace(tmp_path: Path) -> None:
    with a_server(APART) as server:
        refused = run("grn", "stop")

        assert refused.returncode == 1
        assert b"is in another pid namespace" in refused.stderr
        assert server.process.poll() is None
        assert b"in a pid namespace of its own" in run("grn", "status").stdout
