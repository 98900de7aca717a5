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

from .couplings import Coupling
from .jobevents import (
    Event,
    Exited,
    NotBegun,
    Output,
    Packet,
    Ready,
    Run,
    Stream,
    Values,
    header_of,
    number_in,
    outcome_in,
)
from .keepers import Keeper
from .pipes import new_pipe

READ_BYTES: Final = 256 * 1024
# A keeper that ends needs milliseconds.
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
        self._coupling: Coupling | None = None
        for sock in (ctl, job):
            sock.setblocking(False)

    @property
    def ready(self) -> bool:
        """Whether it is set up, so that its baseline is known."""
        return self._ready

    def filenos(self) -> list[int]:
        """Return what to watch now; changes with every feed, outcome and end."""
        sockets = [sock.fileno() for sock in (self._ctl, self._job) if sock is not None]
        if self._coupling is None:
            return sockets + list(self._pipes)
        # While several calls may print, each is read after its end, and then it is its own.
        left = self._coupling.left
        pipes = list(self._pipes) if left == 1 else []
        return [*sockets, *([self._coupling.fd] if left else []), *pipes]

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
        self._uncouple()
        self._late = run.late
        self._send(run, header_of(run, blob), blob + run.content, [])

    def feed_train(self, run: Run, packet: Packet) -> None:
        """Hand over calls of a train; as `feed`, of which `run` is what they share.

        Raises:
            OSError: Too many files are open.
        """
        blob = b"" if run.function == self._sent else run.function_blob
        self._uncouple()
        self._late = packet.late
        attempts = list(zip(packet.job_ids, packet.attempts, strict=True))
        self._coupling = coupling = Coupling(attempts)
        sizes = list(map(len, packet.payloads))
        columns = (packet.job_ids, packet.attempts, packet.numbers, sizes)
        header = header_of(run, blob) | {
            "train": [packet.train, packet.first, packet.slot, *columns],
            "late": packet.late,
        }
        body = b"".join([blob, *packet.payloads])
        self._send(run, header, body, [*coupling.far_ends, packet.marks])
        coupling.fed()

    def take_back(self) -> int:
        """Let nothing more of a train begin; give how many of its last calls never do."""
        return self._coupling.take_back() if self._coupling else 0

    def read_answers(self) -> list[Event]:
        """Take what the calls of a train have answered by now."""
        return self._read_answers() if self._coupling else []

    def _send(self, run: Run, header: dict[str, object], body: bytes, more: list[int]) -> None:
        self._close_pipes()
        far_ends = [self._make_pipe("stdout"), self._make_pipe("stderr")]
        try:
            if self._job is not None:
                channel.send(self._job, header, body, [*far_ends, *more])
                self._sent = run.function
        except (BrokenPipeError, ConnectionResetError):
            pass
        except BlockingIOError:  # it does not even read what it is given
            self.kill()
        finally:
            channel.close_all(far_ends)

    def read(self, fd: int) -> list[Event]:
        """Take what one of `filenos()` has to say."""
        if self._coupling is not None and fd == self._coupling.fd:
            return self._read_answers()
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
        self._uncouple()
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
        """Make a pipe, watch its near end, return the far one."""
        near, far = new_pipe()
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

    def _uncouple(self) -> None:
        if self._coupling is not None:
            self._coupling.close()
            self._coupling = None

    def _read_answers(self) -> list[Event]:
        """Take the answers that are there; what a call has printed comes before its own."""
        assert self._coupling is not None
        events: list[Event] = []
        try:
            for answer in self._coupling.read():
                if answer.header is not None:
                    packet = channel.Packet(answer.header, answer.body, [])
                    outcome = outcome_in(packet)
                    events += [*self._drain_pipes(), outcome]
                    if outcome.clean:
                        self._go_on()
                elif events and isinstance(values := events[-1], Values):
                    values.run_s.append(answer.run_s)
                    values.payloads.append(answer.body)
                else:
                    events.append(Values([answer.run_s], [answer.body]))
        except ValueError:  # the user's code wrote to our pipe: believe its exit only
            events.append(NotBegun(self._coupling.take_back()))
            self._uncouple()
            self.close()
        return events

    def _go_on(self) -> None:
        """Let the next call of a train begin: what the last one printed is read."""
        if self._job is not None:
            try:
                channel.send(self._job, {"go": True})
            except OSError:
                pass  # it is ending, which its keeper tells

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
        if self._coupling is not None:
            events += self._rest_of_train(self._coupling)
        events += self._drain_pipes()
        self._close_pipes()
        return [*events, *self._late_outcome(), last]

    def _rest_of_train(self, coupling: Coupling) -> list[Event]:
        """What its calls had answered, and how many of them never began."""
        events: list[Event] = []
        while more := self.read_answers():
            events += more
        not_begun = coupling.take_back() if self._coupling else 0
        if current := coupling.current:
            job_id, attempt = current
            self._late += f"{job_id}-{attempt}"
        self._uncouple()
        return [*events, NotBegun(not_begun)]

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
