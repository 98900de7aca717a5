"""`grn lease`: a command with whole devices to itself."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

import grn_zmq as grn
from grn_zmq.cli.lease import lease
from tests.cli.verbs import facts, said
from tests.conftest import forget_client
from tests.e2e.scene import a_stranger, alive, device
from tests.e2e.scripts import all_leases_are_freed, leases
from tests.leases.claimers import Claimer
from tests.nvml.driver import FakeDriver
from tests.waiting import PATIENCE, until

VERB = "from grn_zmq.cli.lease import lease; lease(prog_name='grn lease')"
LONG_S = 30 * PATIENCE
TIMED_OUT, UNREACHABLE = 124, 3


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[FakeDriver]:
    """Three GPUs of 1000 MiB under a broker."""
    driver = FakeDriver(home / "nvml", [1000] * 3)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in driver.environment().items():
            patch.setenv(name, value)
        with grn.start("nvml", debug=True):
            yield driver
            forget_client()


@pytest.fixture
def gpus(machine: FakeDriver) -> Iterator[FakeDriver]:
    yield machine
    all_leases_are_freed(10)


@contextmanager
def running(*words: str, **variables: str) -> "Iterator[subprocess.Popen[str]]":
    """`grn lease` with these words; killed if the test has not ended it."""
    process = subprocess.Popen(
        [sys.executable, "-c", VERB, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def run(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    with running(*words, **variables) as process:
        out, err = process.communicate(timeout=LONG_S)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.mark.e2e
def test_a_command_has_its_devices_and_nobody_else_has_them(gpus: FakeDriver) -> None:
    script = 'echo "$CUDA_VISIBLE_DEVICES $NV_GPU $GRN_DEVICE $CUDA_DEVICE_ORDER"'

    done = run("-n", "2", "--", "sh", "-c", script)

    both = f"{gpus.uuid(0)},{gpus.uuid(1)}"
    assert done.stdout == f"{both} {both} nvml:0,nvml:1 PCI_BUS_ID\n"
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.e2e
def test_the_status_is_that_of_the_command(gpus: FakeDriver) -> None:
    assert run("--", "sh", "-c", "exit 7").returncode == 7
    assert run("--", "sh", "-c", "kill -9 $$").returncode == 137
    missing = run("no-such-command-anywhere")
    assert (missing.returncode, missing.stderr) == (
        127,
        "grn: cannot run no-such-command-anywhere: there is no such command\n",
    )
    directory = run("--", "/tmp")
    assert directory.returncode == 126
    assert directory.stderr.startswith("grn: cannot run /tmp: it is there, but cannot be run")


@pytest.mark.e2e
def test_variables_may_stand_in_front_of_the_command(gpus: FakeDriver) -> None:
    done = run("A=5 sh -c 'echo $A $GRN_DEVICE'")

    assert done.stdout == "5 nvml:0\n"


@pytest.mark.e2e
def test_a_lease_of_a_command_is_listed_under_its_name(gpus: FakeDriver) -> None:
    with running("-n", "2", "--name", "notebook", "--", "sleep", "600") as process:
        until(lambda: leases() == 2, 20)
        (row,) = facts("ps")

        assert (row["kind"], row["name"], row["title"]) == (
            "lease",
            "notebook",
            "lease of sleep",
        )
        assert (row["client_pid"], row["device"]) == (process.pid, "nvml:0,1")
        assert "lease of sleep" in said("ps")
        process.terminate()


@pytest.mark.e2e
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_are_passed_on_to_the_command(gpus: FakeDriver, signum: int) -> None:
    name = signal.Signals(signum).name.removeprefix("SIG")
    script = f"trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.02; done"
    with running("--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

        process.send_signal(signum)

        assert process.communicate(timeout=LONG_S)[0] == f"got {name}\n"
        assert process.returncode == 9


@pytest.mark.e2e
def test_ctrl_c_on_a_terminal_reaches_the_command_once(gpus: FakeDriver) -> None:
    """The terminal sends it to both: passing it on would make two of it."""
    steps = "for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done"
    script = f"trap 'echo got INT' INT; echo ready; {steps}; exit 5"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", VERB, "--", "sh", "-c", script])
    shown = b""
    try:
        while b"got INT" not in shown:
            shown += os.read(terminal, 4096)
            if shown.endswith(b"ready\r\n"):
                os.write(terminal, b"\x03")
        while data := os.read(terminal, 4096):
            shown += data
    except OSError:
        pass  # EIO: the other side is closed
    os.close(terminal)
    _, status = os.waitpid(pid, 0)

    assert shown.count(b"got INT") == 1, shown
    assert os.waitstatus_to_exitcode(status) == 5


@pytest.mark.e2e
def test_s08_kill_9_ends_the_command_too_and_frees_its_devices(gpus: FakeDriver) -> None:
    with running("-n", "3", "--", "sh", "-c", "echo $$; exec sleep 600") as process:
        assert process.stdout is not None
        command = int(process.stdout.readline())

        process.kill()

        until(lambda: not alive(command), 2)
        all_leases_are_freed(2)


@pytest.mark.e2e
def test_a_wait_is_bounded_by_its_timeout_and_told(gpus: FakeDriver) -> None:
    with Claimer(gpus) as other:
        other.claim("2")

        done = run("-n", "2", "--timeout", "0", "--", "echo", "never")

        assert (done.returncode, done.stdout) == (TIMED_OUT, "")
        assert done.stderr.startswith("grn: lease of echo (job ")
        assert "2 wanted, of 3 devices 1 is free: nvml:2" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.e2e
def test_who_waits_says_so_and_begins_when_there_is_a_device(gpus: FakeDriver) -> None:
    with Claimer(gpus) as other:
        other.claim("3")
        with running("--", "echo", "begun") as process:
            assert process.stderr is not None
            line = process.stderr.readline()
            other.release()

            assert line.startswith(
                "grn: still waiting for 1 device: waiting for an idle device"
            )
            assert process.communicate(timeout=LONG_S)[0] == "begun\n"
            assert process.returncode == 0


@pytest.mark.e2e
@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_it_waits_leaves_nothing_behind(
    gpus: FakeDriver, signum: int, status: int
) -> None:
    with Claimer(gpus) as other:
        other.claim("3")
        with running("--", "echo", "never") as process:
            until(lambda: len(facts("ps")) == 2, 20)

            process.send_signal(signum)

            assert process.communicate(timeout=LONG_S) == ("", "")
            assert process.returncode == status
        until(lambda: len(facts("ps")) == 1)


@pytest.mark.e2e
def test_a_waiting_lease_that_is_cancelled_ends_its_command(gpus: FakeDriver) -> None:
    with Claimer(gpus) as other:
        other.claim("3")
        with running("--", "echo", "never") as process:
            until(lambda: len(facts("ps")) == 2, 20)
            said("cancel", "@")

            assert process.communicate(timeout=LONG_S) == (
                "",
                "grn: the lease was cancelled while it waited\n",
            )
            assert process.returncode == 130


@pytest.mark.e2e
def test_more_than_are_managed_is_one_line_and_status_1(gpus: FakeDriver) -> None:
    done = run("-n", "9", "--", "true")

    assert done.returncode == 1
    assert done.stderr.endswith("it wants 9 devices, 3 are managed\n")


@pytest.mark.e2e
def test_all_are_all_that_are_managed(gpus: FakeDriver) -> None:
    assert run("-n", "all", "--", "sh", "-c", "echo $GRN_DEVICE").stdout == (
        "nvml:0,nvml:1,nvml:2\n"
    )


@pytest.mark.e2e
def test_s05_a_command_does_not_join_strangers(gpus: FakeDriver) -> None:
    with a_stranger() as pid:
        gpus.hold(0, pid, 10)
        until(lambda: device(0).processes)

        assert run("--", "sh", "-c", "echo $GRN_DEVICE").stdout == "nvml:1\n"
    until(lambda: not device(0).processes)


@pytest.mark.e2e
def test_without_a_broker_it_says_so_and_leaves_with_3(tmp_path: Path) -> None:
    nowhere = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    os.chmod(tmp_path, 0o700)

    done = run("--", "true", **nowhere)

    assert done.returncode == UNREACHABLE
    assert done.stderr.startswith("grn: no broker is running in ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("-n", "0", "--", "true"), "'0': write 1, 2, …, or all"),
        (("-n", "-3", "--", "true"), "'-3': write 1, 2, …, or all"),
        (("-n", "half", "--", "true"), "'half': write 1, 2, …, or all"),
        (("--timeout", "soon", "--", "true"), "'soon' is no time"),
        ((), "no command: write"),
        (("echo a", "echo b"), "a lease is for one command, and these are 2"),
    ],
)
def test_s24_a_wrong_command_line_is_refused_with_status_2(
    words: tuple[str, ...], text: str
) -> None:
    done = CliRunner().invoke(lease, words)

    assert done.exit_code == 2
    assert text in done.stderr
