"""Starting and stopping broker and workers from Python: for tests, and for `grn run`."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Any, Final

from .discovery import find_address, lock_holder, supervisor
from .errors import BrokerRunning, BrokerUnavailable
from .paths import find_places

# Longer than a supervisor takes to end jobs and workers, or to give that up.
STOP_S: Final = 30.0
READY_TEXT: Final = "ready"


class Server:
    """A broker with its workers that this process started; stops with `stop` or `with`."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: IO[bytes]) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> str:
        """What broker and workers have logged so far."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def stop(self) -> None:
        """End jobs, workers and broker. May be called twice."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()  # its children follow it
                self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                stream.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def start(
    devices: str | None = None,
    *,
    max_jobs: int | None = None,
    debug: bool = False,
    log: IO[Any] | None = None,
) -> Server:
    """Start a broker and workers for this user; return when jobs can be submitted.

    Args:
        devices: As `grn start --devices`: None for GPUs or shares of host memory.
        max_jobs: Jobs at once on each device; None for the default of the devices.
        log: Where broker and workers log; None keeps it for `Server.log()`.

    Raises:
        BrokerRunning: A broker of this user lives already.
        BrokerUnavailable: It did not come up; the text has its own error.
    """
    if pid := occupant():
        raise BrokerRunning(pid)
    command = [sys.executable, "-m", "grn_zmq.cli.main", "start", "--notify"]
    if devices is not None:
        command += ["--devices", devices]
    if max_jobs is not None:
        command += ["--max-jobs", str(max_jobs)]
    if debug:
        command += ["--debug"]
    kept = tempfile.TemporaryFile(prefix="grn-log-")  # noqa: SIM115
    with _interrupts_wait() as interrupted:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # while we hold it open, broker and workers live
            stdout=subprocess.PIPE,
            stderr=log or kept,
            start_new_session=True,
        )
        server = Server(process, kept)
    try:
        if interrupted:
            raise KeyboardInterrupt
        assert process.stdout is not None
        # It says one word when all workers have joined, and ends by itself if they do not.
        if process.stdout.readline().decode().strip() == READY_TEXT:
            return server
    except BaseException:  # an interrupt
        server.stop()
        raise
    why = "its log says why" if log else last_line(server.log())
    server.stop()
    raise BrokerUnavailable(f"broker and workers did not start: {why}")


@contextmanager
def _interrupts_wait() -> Iterator[list[int]]:
    """Let Ctrl-C wait until a child is known that would be forgotten otherwise."""
    came: list[int] = []
    ours = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not ours or before is not signal.default_int_handler:
        yield came
        return
    signal.signal(signal.SIGINT, lambda signum, _: came.append(signum))
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def last_line(text: str) -> str:
    """The last thing a failed process said, which is why it failed.

    Others may still have logged that they end too: their lines begin with the time.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    spoken = [line for line in lines if not line[:4].isdecimal()]
    said = (spoken or lines or ["it said nothing"])[-1]
    return said.removeprefix("grn: ").removeprefix("grn-broker: ")


def running_pid() -> int | None:
    """The pid of this user's broker, if one is ready."""
    address = find_address(find_places(os.environ))
    return address.pid if address else None


def occupant() -> int | None:
    """The pid of the broker that is there, or of the `grn start` that brings it back."""
    places = find_places(os.environ)
    return running_pid() or lock_holder(places) or supervisor(places)
