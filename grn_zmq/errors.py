"""Every error a user can meet.

GrnError
├── BrokerUnavailable (ConnectionError)   nobody answers: start one
├── BrokerRunning (RuntimeError)          there is one already
├── UnsafeDirectory (PermissionError)     others could reach our sockets or files
├── StateError (RuntimeError)             what the broker keeps on disk cannot be used
│   ├── StateTooNew                       a newer version wrote it
│   ├── StateDamaged                      it is broken, or another program's
│   ├── StateMissing                      it was here, and is gone
│   ├── StateInUse                        another broker has it
│   └── StateUnwritable                   the disk does not take it
├── VersionMismatch (ConnectionError)     broker and client speak different protocols
├── RequestRefused (ValueError)           the broker said no, and why
│   ├── QueueFull                         it has as many jobs, or bytes, as it may have
│   ├── TooManyClients (ConnectionError)  as many programs are connected as may be
│   ├── DiskFull                          its disk is nearly full
│   ├── Draining                          it is being stopped
│   ├── IdConflict                        that id belongs to another job
│   └── Quarantined                       jobs of this type have killed their workers
├── UnknownJob (LookupError)              no such job
├── ResultExpired (LookupError)           it ended long ago: its value was let go
├── TooLarge (ValueError)                 more bytes than a message may carry
├── NotPicklable (TypeError)              an argument or result that cannot travel
├── DeviceError (ValueError)              devices that do not exist or cannot be read
└── JobError                              the job ended without a value of its own
    ├── JobFailed                         it raised, but its exception could not travel
    ├── JobExited                         it left by sys.exit or os._exit
    ├── JobKilled                         a signal ended it
    ├── JobLost                           its worker died: it may or may not have run
    ├── JobNotStarted                     its process could not be started
    ├── WaitTimeout (TimeoutError)        it waited longer than its `timeout`
    ├── TimeLimitExceeded (TimeoutError)  it ran longer than its `time_limit`
    ├── JobOutOfMemory (MemoryError)      it ran out of device memory, each time it was tried
    └── JobTooLarge (MemoryError)         no device here could ever hold it
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from signal import SIGKILL
from typing import ClassVar

from .units import format_bytes


class GrnError(Exception):
    """Base of all errors of this package.

    Of several jobs that were spawned together, `accepted` are those that run all the same.
    """

    accepted: Sequence[str] = ()


class BrokerUnavailable(GrnError, ConnectionError):
    """No broker answers where this user's broker should be."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}. Start broker and workers with `grn start` (or `grn-start`), "
            f"or run your program under `grn run`"
        )
        self.reason = reason


class BrokerRunning(GrnError, RuntimeError):
    """A broker of this user is running already."""

    def __init__(self, pid: int) -> None:
        super().__init__(
            f"a broker of this name is already running (pid {pid}). Use it as it is, stop it "
            f"with `grn stop` (and its --name), or start another one under another name"
        )
        self.pid = pid


class UnsafeDirectory(GrnError, PermissionError):
    """A directory of ours that others could reach or that cannot hold our sockets."""


class StateError(GrnError, RuntimeError):
    """What the broker keeps on disk cannot be used; nothing in it was changed."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self.path = path


class StateTooNew(StateError):
    """A newer version of this package wrote what the broker keeps; this one cannot read it."""

    def __init__(self, path: Path, version: int, known: int) -> None:
        super().__init__(
            path,
            f"{path} was written by a newer version of grn (its format is {version}, this one "
            f"knows {known}). Start the newer version; or, if its jobs and what was learned "
            f"may be forgotten, move the whole directory {path.parent} away",
        )
        self.version = version
        self.known = known


class StateDamaged(StateError):
    """The file is broken: starting without it would silently forget accepted jobs."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            path,
            f"{path} is damaged ({why}), so the broker does not start: its jobs would be "
            f"forgotten. Put a backup in its place; or, if its jobs and what was learned may "
            f"be forgotten, move the whole directory {path.parent} away",
        )
        self.why = why


class StateMissing(StateError):
    """There was a file, its marker says, and now there is none."""

    def __init__(self, path: Path, marker: Path) -> None:
        super().__init__(
            path,
            f"{path} is gone, though {marker.name} beside it says that jobs were kept there, "
            f"so the broker does not start: they would be forgotten. Put the file back; or, "
            f"if they may be forgotten, remove {marker}",
        )
        self.marker = marker


class StateInUse(StateError):
    """Another broker keeps its jobs there."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path,
            f"another broker keeps its jobs in {path.parent}. Use that one, stop it with "
            f"`grn stop`, or keep a second one apart by a name (GRN_NAME)",
        )


class StateUnwritable(StateError):
    """The disk does not take what must be kept."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            path,
            f"cannot keep jobs in {path.parent}: {why}. Make room or make it writable, or set "
            f"XDG_STATE_HOME to a directory of your own",
        )
        self.why = why


class VersionMismatch(GrnError, ConnectionError):
    """Broker and peer speak different versions of the protocol."""

    def __init__(self, ours: int, reason: str) -> None:
        super().__init__(
            f"this process speaks protocol {ours}, but {reason}. Stop the broker with "
            f"`grn stop` and start it from the same installation"
        )
        self.ours = ours


class RequestRefused(GrnError, ValueError):
    """The broker refused a request; nothing was changed by it."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class QueueFull(RequestRefused):
    """The broker has as many jobs, or bytes of them, as it may have: try again in a moment."""

    retry_after_s: ClassVar[float] = 1.0


class TooManyClients(RequestRefused, ConnectionError):
    """As many programs are connected to the broker as may be."""


class DiskFull(RequestRefused):
    """The disk of the broker is nearly full: it takes no jobs, but ends those it has."""


class Draining(RequestRefused):
    """The broker is being stopped and takes no more jobs."""


class IdConflict(RequestRefused):
    """The id of this job belongs to another one."""


class Quarantined(RequestRefused):
    """Jobs of this type have killed their workers again and again."""


class UnknownJob(GrnError, LookupError):
    """The broker does not know this job."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"no job {job_id}: it was never accepted here, or ended so long ago that it is "
            f"no longer listed (see `grn ps --all`)"
        )
        self.job_id = job_id


class ResultExpired(GrnError, LookupError):
    """The job ended long ago; how is known, but its value was let go."""

    def __init__(self, job_id: str, text: str) -> None:
        super().__init__(text)
        self.job_id = job_id


class TooLarge(GrnError, ValueError):
    """A function, or its surroundings, with more bytes than one message may carry."""

    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"too large to travel: {what}, {format_bytes(size_bytes)} when pickled; the limit "
            f"is {format_bytes(limit_bytes)}. Pass data as arguments, which may have any size, "
            f"or write a file and pass its path"
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class NotPicklable(GrnError, TypeError):
    """A value that cannot travel to the job process or back."""

    def __init__(self, what: str, cause: BaseException) -> None:
        super().__init__(
            f"{what} cannot be pickled ({type(cause).__name__}: {cause}). Make it inside the "
            f"function, or decorate with @grn.job(inline=True) to run in this very process"
        )
        self.what = what


class DeviceError(GrnError, ValueError):
    """Devices that were asked for do not exist or cannot be read."""


class JobError(GrnError):
    """The job ended without a value or exception of its own.

    `last_lines` is the end of what it printed, as far as that is known; `summary` the text
    without it.
    """

    def __init__(self, job_id: str, text: str) -> None:
        super().__init__(text)
        self.job_id = job_id
        self.summary = text
        self.last_lines = ""


def _called(job_id: str, job_type: str) -> str:
    """Name a job so that its user knows which call it was."""
    return f"{job_type} (job {job_id[:8]})" if job_type else f"job {job_id}"


class JobFailed(JobError):
    """The function raised an exception that could not be carried over."""

    def __init__(
        self, job_id: str, *, error_type: str, error_text: str, traceback_text: str
    ) -> None:
        super().__init__(
            job_id,
            f"the job raised {error_type}: {error_text}\n\n"
            f"Its exception could not be pickled; this was its traceback:\n{traceback_text}",
        )
        self.error_type = error_type
        self.error_text = error_text
        self.traceback_text = traceback_text


class JobExited(JobError):
    """The function left by `sys.exit` or `os._exit` instead of returning."""

    def __init__(self, job_id: str, *, exit_status: int, job_type: str = "") -> None:
        super().__init__(
            job_id,
            f"{_called(job_id, job_type)} exited with status {exit_status} instead of "
            f"returning: it, or what it called, left by sys.exit or os._exit",
        )
        self.exit_status = exit_status


class JobKilled(JobError):
    """A signal ended the job process."""

    def __init__(self, job_id: str, *, signal: int, job_type: str = "") -> None:
        hint = ". This is often the machine running out of memory: see `dmesg`"
        super().__init__(
            job_id,
            f"{_called(job_id, job_type)} was killed by signal {signal}"
            f"{hint if signal == SIGKILL else ''}",
        )
        self.signal = signal


class _ForAReason(JobError):
    """What happened to the job is told by a reason that the broker gave."""

    said: ClassVar[str]

    def __init__(self, job_id: str, reason: str, job_type: str = "") -> None:
        called = _called(job_id, job_type)
        super().__init__(job_id, self.said.format(job=called, reason=reason))
        self.reason = reason


class JobLost(_ForAReason):
    """The job's worker or broker died while it ran: it may or may not have finished."""

    said = (
        "{job} was lost: {reason}. It may have run; it was not run again. Call it again if "
        "that is safe"
    )


class JobNotStarted(_ForAReason):
    """The job's process could not be started; its function never ran."""

    said = "{job} could not be started: {reason}"


class WaitTimeout(_ForAReason, TimeoutError):
    """The job waited longer than its `timeout` for a device; it never ran.

    Of a lease, `free` are the indices of the devices that nobody had.
    """

    said = "{job} was given up: {reason}"
    free: Sequence[int] = ()


class TimeLimitExceeded(_ForAReason, TimeoutError):
    """The job ran longer than its `time_limit` and was ended."""

    said = "{job} was ended: {reason}"


class JobOutOfMemory(JobError, MemoryError):
    """The job ran out of device memory, each time it was tried; the text reports on it."""

    def __init__(
        self,
        job_id: str,
        report: str,
        *,
        peak_bytes: int,
        device: str,
        attempts: int,
        job_type: str = "",
    ) -> None:
        times = "once" if attempts == 1 else f"{attempts} times"
        super().__init__(
            job_id,
            report
            or f"{_called(job_id, job_type)} ran out of memory: tried {times}, it reached "
            f"{format_bytes(peak_bytes)} on {device}",
        )
        self.peak_bytes = peak_bytes
        self.device = device
        self.attempts = attempts


class JobTooLarge(JobError, MemoryError):
    """No device of this machine could ever hold the job."""

    def __init__(
        self,
        job_id: str,
        *,
        job_type: str,
        need_bytes: int,
        largest_bytes: int,
        declared_by: str = "",
    ) -> None:
        """Say what does not fit; `declared_by` is the option that said so, if one did."""
        need, largest = format_bytes(need_bytes), format_bytes(largest_bytes)
        super().__init__(
            job_id,
            f"{job_type} was declared to need {need} of device memory ({declared_by}), but the "
            f"largest device here has {largest}. Declare less, or leave {declared_by} out"
            if declared_by
            else f"{job_type} was measured at {need} of device memory, but the largest device "
            f"here has {largest}. Make the job smaller, or restart the broker on a larger "
            f"device (`grn start --devices ...`). If the measurement is out of date: "
            f"grn profiles forget {shlex.quote(job_type)}",
        )
        self.job_type = job_type
        self.need_bytes = need_bytes
        self.largest_bytes = largest_bytes
