"""Every error a user can meet.

GrnError
├── BrokerUnavailable (ConnectionError)   nobody answers: start one
├── BrokerRunning (RuntimeError)          there is one already
├── UnsafeDirectory (PermissionError)     others could reach our sockets or files
├── StateTooNew (RuntimeError)            a newer version wrote the broker's state
├── VersionMismatch (ConnectionError)     broker and client speak different protocols
├── RequestRefused (ValueError)           the broker said no, and why
├── UnknownJob (LookupError)              no such job, or its result is gone
├── TooLarge (ValueError)                 more bytes than a message may carry
├── NotPicklable (TypeError)              an argument or result that cannot travel
├── DeviceError (ValueError)              devices that do not exist or cannot be read
└── JobError                              the job ended without a value of its own
    ├── JobFailed                         it raised, but its exception could not travel
    ├── JobExited                         it left by sys.exit or os._exit
    ├── JobKilled                         a signal ended it
    ├── JobLost                           its worker died: it may or may not have run
    ├── JobNotStarted                     its process could not be started
    ├── JobOutOfMemory (MemoryError)      it ran out of device memory, each time it was tried
    └── JobTooLarge (MemoryError)         no device here could ever hold it
"""

import shlex
from pathlib import Path
from signal import SIGKILL

from .units import format_bytes


class GrnError(Exception):
    """Base of all errors of this package."""


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
            f"a broker is already running (pid {pid}). Use it as it is, or stop it with "
            f"`grn stop`"
        )
        self.pid = pid


class UnsafeDirectory(GrnError, PermissionError):
    """A directory of ours that others could reach or that cannot hold our sockets."""


class StateTooNew(GrnError, RuntimeError):
    """A newer version of this package wrote what the broker keeps; this one cannot read it."""

    def __init__(self, path: Path, version: int, known: int) -> None:
        super().__init__(
            f"{path} was written by a newer version of grn (its format is {version}, this one "
            f"knows {known}). Start the newer version, or move the file away: its contents "
            f"are then unknown, and job types are measured anew"
        )
        self.path = path
        self.version = version
        self.known = known


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


class UnknownJob(GrnError, LookupError):
    """The broker does not know this job, or no longer has its result."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"no job {job_id}: it was never accepted here, its result was already "
            f"handed over and dropped, or the broker was restarted since"
        )
        self.job_id = job_id


class TooLarge(GrnError, ValueError):
    """Arguments or a result with more bytes than one message may carry."""

    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"too large to travel: {what}, {format_bytes(size_bytes)} when pickled; the limit "
            f"is {format_bytes(limit_bytes)}. Write a file and pass its path"
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
    """The job ended without a value or exception of its own."""

    def __init__(self, job_id: str, text: str) -> None:
        super().__init__(text)
        self.job_id = job_id


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


class JobLost(JobError):
    """The job's worker or broker died while it ran: it may or may not have finished."""

    def __init__(self, job_id: str, reason: str, job_type: str = "") -> None:
        super().__init__(
            job_id,
            f"{_called(job_id, job_type)} was lost: {reason}. It may have run; it was not run "
            f"again. "
            f"Call it again if that is safe",
        )
        self.reason = reason


class JobNotStarted(JobError):
    """The job's process could not be started; its function never ran."""

    def __init__(self, job_id: str, reason: str, job_type: str = "") -> None:
        super().__init__(job_id, f"{_called(job_id, job_type)} could not be started: {reason}")
        self.reason = reason


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
        """Say what does not fit, and who said so.

        Args:
            declared_by: The option that declared the need; empty if it was measured.
        """
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
