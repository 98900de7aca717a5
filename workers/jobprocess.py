"""One job process as its worker sees it: descriptors to watch, runs in, events out.

Nothing here blocks on the job. Reading never waits for the end of a pipe: a grandchild may
hold it open for ever.
"""

import fcntl
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from grn_zmq import channel

from .jobevents import Event, Exited, Output, Ready, Run, Stream, number_in, outcome_in
from .keepers import Keeper

# Large pipes spare the worker most wake-ups; the kernel may refuse (a limit per user).
PIPE_BYTES: Final = 1024 * 1024
READ_BYTES: Final = 256 * 1024
# A keeper that was told to end, or has said it does, needs milliseconds.
REAP_S: Final = 5.0

Learn = Callable[[Mapping[object, object]], None]


class JobProcess:
    """A keeper and the job process below it. Made by a launcher."""

    def __init__(
        self,
        keeper: Keeper,
        ctl: socket.socket,
        job: socket.socket,
        said_fd: int,
        sweep: Callable[[], set[int]],
        forget: Callable[[Keeper], None],
        learn: Learn = lambda imported: None,
        *,
        forked: bool = False,
    ) -> None:
        """Take over all descriptors.

        Args:
            said_fd: A file with what the interpreter wrote before its first run.
            sweep: Kills what a killed keeper left; returns the processes it met.
            forget: Given the keeper once it is dead, or has said that it ends: it is reaped
                there.
            learn: Told what runs have imported, as the job process counts it.
            forked: Whether it shares memory with the zygote it came from.
        """
        self.keeper_pid = keeper.pid
        self.pid: int | None = None
        self.baseline_bytes = self._own_bytes = 0
        self.faults: int | None = None
        self.exited = False
        self.forked = forked
        self._keeper = keeper
        self._ctl: socket.socket | None = ctl
        self._job: socket.socket | None = job
        self._said_fd = said_fd
        self._sweep = sweep
        self._forget = forget
        self._learn = learn
        self._pipes: dict[int, Stream] = {}
        self._sent = ""
        self._late = ""
        self._ready = False
        self._proved = False
        for sock in (ctl, job):
            sock.setblocking(False)

    @property
    def ready(self) -> bool:
        """Whether it is set up, so that its baseline is known."""
        return self._ready

    def filenos(self) -> list[int]:
        """Return what to watch now; changes with every feed, outcome and end."""
        sockets = [sock.fileno() for sock in (self._ctl, self._job) if sock is not None]
        return sockets + list(self._pipes)

    def is_output(self, fd: int) -> bool:
        """Whether this is where the job prints to."""
        return fd in self._pipes

    def keeps(self, kept_bytes: int) -> None:
        """Files that stay mapped there are not its last run's, nor the need of its next."""
        self.baseline_bytes = self._own_bytes + kept_bytes

    def feed(self, run: Run) -> None:
        """Hand over a run; also before Ready. One at a time: the last must have ended.

        If the process is ending, nothing happens, and Exited tells.
        """
        blob = b"" if run.function == self._sent else run.function_blob
        header: dict[str, object] = {
            "job_id": run.job_id,
            "attempt": run.attempt,
            "kind": run.kind,
            "stand_in": run.stand_in,
            "environment": dict(run.environment),
            "placeholders": dict(run.placeholders),
            "function": run.function,
            "function_size": len(blob),
            "stdin": run.stdin,
            "on_host": run.on_host,
            "total_bytes": run.total_bytes,
            "cap_bytes": run.cap_bytes,
            "token": run.token,
            "parcels": list(run.parcels),
            "session": run.session,
            "detached": run.detached,
            "late": run.late,
            "prefix": list(run.prefix),
            "queue_prefix": list(run.queue_prefix),
            "python": run.python,
            "box": run.box.as_map() if run.box else None,
        }
        self._late = run.late
        self._close_pipes()
        far_ends = [self._make_pipe("stdout"), self._make_pipe("stderr")]
        try:
            if self._job is not None:
                channel.send(self._job, header, blob + run.content, far_ends)
                self._sent = run.function
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            channel.close_all(far_ends)

    def read(self, fd: int) -> list[Event]:
        """Take what one of `filenos()` has to say."""
        if fd in self._pipes:
            return self._read_pipe(fd)
        if self._job is not None and fd == self._job.fileno():
            return self._read_job()
        if self._ctl is not None and fd == self._ctl.fileno():
            return self._read_ctl()
        return []

    def signal(self, signum: int) -> None:
        """Send a signal to the job's process group."""
        self._tell({"signal": signum})

    def kill(self) -> None:
        """End the whole tree now; Exited follows once it is gone."""
        if self.exited:
            return
        if self._tell({"kill": True}):
            self._keeper.send_signal(signal.SIGCONT)  # somebody may have stopped it
        else:
            self._keeper.kill()

    def close(self) -> None:
        """Ask the process to end quietly, once it is idle; Exited follows."""
        if self._job is not None:
            self._job.close()
            self._job = None

    def destroy(self) -> None:
        """Close everything and reap the keeper; before Exited this kills the tree."""
        self.close()
        self._close_pipes()
        if self._ctl is not None:
            self._ctl.close()
            self._ctl = None
        if self._said_fd >= 0:
            os.close(self._said_fd)
            self._said_fd = -1
            if not self._proved:
                self._reap()
            self._forget(self._keeper)

    def _tell(self, header: dict[str, object]) -> bool:
        if self._ctl is None:
            return False
        try:
            channel.send(self._ctl, header)
        except OSError:
            return False
        return True

    def _make_pipe(self, stream: Stream) -> int:
        """Make a pipe, watch its near end, return the far one (it must block)."""
        near, far = os.pipe()
        os.set_blocking(near, False)
        try:
            fcntl.fcntl(near, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            pass
        self._pipes[near] = stream
        return far

    def _close_pipes(self) -> None:
        channel.close_all(self._pipes)
        self._pipes.clear()

    def _read_pipe(self, fd: int) -> list[Event]:
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return []
        if not data:
            del self._pipes[fd]
            os.close(fd)
            return []
        return [Output(self._pipes[fd], data)]

    def _drain_pipes(self) -> list[Event]:
        """Read all the job wrote so far; a pipe's size of it, if others go on writing."""
        events: list[Event] = []
        for fd in list(self._pipes):
            left = fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
            while left > 0 and (read := self._read_pipe(fd)):
                events += read
                left -= sum(len(event.data) for event in read if isinstance(event, Output))
        return events

    def _read_job(self) -> list[Event]:
        assert self._job is not None
        try:
            packet = channel.receive(self._job)
            if packet is None:
                self.close()
                return []
            channel.close_all(packet.fds)
            if "ready" in packet.header:
                return self._on_ready(packet.header)
            outcome = outcome_in(packet)
            if isinstance(imported := packet.header.get("imported"), dict):
                self._learn(imported)
        except BlockingIOError:
            return []
        except ValueError:  # the user's code wrote to our socket: believe its exit only
            self.close()
            return []
        self._late = ""
        events = self._drain_pipes()
        self._close_pipes()
        return [*events, outcome]

    def _on_ready(self, header: Mapping[str, object]) -> list[Event]:
        self._ready = True
        self.pid = number_in(header, "pid")
        self.baseline_bytes = self._own_bytes = number_in(header, "baseline_bytes")
        self.faults = number_in(header, "faults") if self.forked else None
        return [Ready(self.pid)]

    def _read_ctl(self) -> list[Event]:
        assert self._ctl is not None
        try:
            packet = channel.receive(self._ctl)
        except BlockingIOError:
            return []
        except ValueError:
            packet = None
        if packet is not None and "pid" in packet.header:
            self.pid = number_in(packet.header, "pid")
            return []
        # What the job said last may still be unread.
        events = self._rest_of_job()
        self._ctl.close()
        self._ctl = None
        self.exited = True
        last = self._keeper_killed() if packet is None else self._exit_of(packet.header)
        events += self._drain_pipes()
        self._close_pipes()
        return [*events, *self._late_outcome(), last]

    def _late_outcome(self) -> list[Event]:
        """The answer of a run whose body had closed our socket, if there is one."""
        if not self._late:
            return []
        late, self._late = self._late, ""
        try:
            packet = channel.read_file(late)
            return [] if packet is None else [outcome_in(packet)]
        except ValueError:
            return []

    def _rest_of_job(self) -> list[Event]:
        events: list[Event] = []
        while self._job is not None and (more := self._read_job()):
            events += more
        self.close()
        return events

    def _exit_of(self, header: Mapping[str, object]) -> Exited:
        self._proved = True
        status, signum = header.get("status"), header.get("signal")
        return Exited(
            status=status if isinstance(status, int) else None,
            signal=signum if isinstance(signum, int) else None,
            max_rss_bytes=number_in(header, "max_rss_bytes"),
            left_over=number_in(header, "left_over"),
            error_text=self._said(),
        )

    def _keeper_killed(self) -> Exited:
        """The keeper went without a word: what it kept is ours now."""
        # Its children become ours only when it is dead, a moment after its sockets closed.
        self._reap()
        left_over = self._sweep() - {self.pid}
        return Exited(None, signal.SIGKILL, 0, len(left_over), self._said())

    def _said(self) -> str:
        """Return what the interpreter said at its start, unless all went well."""
        if self._ready:
            return ""
        return os.pread(self._said_fd, READ_BYTES, 0).decode(errors="replace").strip()

    def _reap(self) -> None:
        try:
            self._keeper.wait(REAP_S)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
