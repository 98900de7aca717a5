"""Keeps on disk what jobs print, while they run; `grn_zmq/logfiles.py` has the form.

A disk that is full or fails costs the log some bytes, which it says as soon as it can, and
never the job anything.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from loguru import logger

from grn_zmq import logfiles
from grn_zmq.logfiles import BEFORE, LOG_BYTES, LogFiles
from grn_zmq.paths import make_private
from grn_zmq.records import Run

from .surroundings import label_of

# A disk that fails does so with every line that is printed.
WARN_AGAIN_S: Final = 600.0

_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class LogWriter:
    """One open log, to which one attempt appends."""

    def __init__(self, directory: Path, job_id: str) -> None:
        """Go on with the log of the job, or begin one.

        Raises:
            OSError: It cannot be opened; `FileNotFoundError` if there is no directory.
        """
        self._files = LogFiles(directory, job_id)
        self._fd = self._streams_fd = -1
        self._size = self._streams_size = 0
        self._stream = ""
        try:
            self._open()
        except OSError:
            self.close()
            raise

    def write(self, stream: str, data: bytes) -> None:
        """Append this.

        Raises:
            OSError: Some of it may be there; close this then, and open another.
        """
        if self._size + self._streams_size > LOG_BYTES:
            self.close()
            self._files.put_aside()
            self._open()
        if stream != self._stream:
            self._note(stream, self._size)
            self._stream = stream
        _write_all(self._fd, data)
        self._size += len(data)

    def say(self, text: str) -> None:
        """Append a line of our own, apart from what the job has printed.

        Raises:
            OSError: As for `write`.
        """
        last = os.pread(self._fd, 1, self._size - 1) if self._size else b"\n"
        apart = "" if last == b"\n" else "\n"
        self.write("stderr", f"{apart}grn: {text}\n".encode(errors="replace"))

    def close(self) -> None:
        """Let go of the files. May be called twice."""
        for fd in (self._fd, self._streams_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._streams_fd = -1

    def _open(self) -> None:
        files = self._files
        self._stream = ""  # of whoever wrote last: not known
        self._streams_size = 0
        try:
            self._fd = os.open(files.log, _APPEND)
        except FileNotFoundError:
            files.put_aside()  # what is left of it, if a writer died in between
            self._fd = os.open(files.log, _APPEND | os.O_CREAT, 0o600)
            self._stream = "stdout"
        self._size = os.fstat(self._fd).st_size
        if not self._size and (before := files.printed_before()):
            self._note(BEFORE, before)

    def _note(self, word: str, number: int) -> None:
        text = logfiles.line(word, number)
        if self._streams_fd < 0:
            self._streams_fd = os.open(self._files.streams, _APPEND | os.O_CREAT, 0o600)
            self._streams_size = os.fstat(self._streams_fd).st_size
            if self._streams_size:
                text = b"\n" + text  # the last line may have been cut short
        _write_all(self._streams_fd, text)
        self._streams_size += len(text)


class JobLogs:
    """The logs of the attempts that run under one worker. Nothing here ever raises."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[str, LogWriter] = {}
        self._lost_bytes: dict[str, int] = {}
        self._warn_at = float("-inf")

    def begin(self, run: Run) -> None:
        """Tell where an attempt begins, if others came before it."""
        if run.attempt > 1:
            place = f" on {label}" if (label := label_of(run.devices)) else ""
            with self._going_on(run.job_id):
                self._log(run.job_id).say(f"attempt {run.attempt}{place}")

    def write(self, job_id: str, stream: str, data: bytes) -> None:
        """Keep what a job has printed."""
        with self._going_on(job_id, len(data)):
            self._log(job_id).write(stream, data)

    def end(self, job_id: str) -> None:
        """The attempt that ran has ended."""
        self._lost_bytes.pop(job_id, None)
        if log := self._open.pop(job_id, None):
            log.close()

    def close(self) -> None:
        """The worker ends."""
        for job_id in list(self._open):
            self.end(job_id)

    def _log(self, job_id: str) -> LogWriter:
        log = self._open.get(job_id)
        if log is None:
            try:
                log = LogWriter(self._directory, job_id)
            except FileNotFoundError:
                make_private(self._directory)
                log = LogWriter(self._directory, job_id)
            self._open[job_id] = log
        if lost := self._lost_bytes.get(job_id, 0):
            log.say(f"{lost} bytes of output are missing here: they could not be written")
            del self._lost_bytes[job_id]
        return log

    @contextlib.contextmanager
    def _going_on(self, job_id: str, size: int = 0) -> Iterator[None]:
        """Take it if this many bytes cannot be written; the next try opens the log anew."""
        try:
            yield
        except OSError as error:
            if log := self._open.pop(job_id, None):
                log.close()
            self._lost_bytes[job_id] = self._lost_bytes.get(job_id, 0) + size
            self._warn(job_id, error)

    def _warn(self, job_id: str, error: OSError) -> None:
        now = time.monotonic()
        if now >= self._warn_at:
            self._warn_at = now + WARN_AGAIN_S
            facts = {"job": job_id, "why": str(error)}
            logger.bind(facts=facts).warning("cannot keep what jobs print; they go on")


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
