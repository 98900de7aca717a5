"""The calls of a train, one after the other, in the job process: fast, and each by itself.

What can only change between trains is done once for all of them. What a call may have changed
is looked at after each: whoever leaves a thread, a child, another directory or other streams
behind is the last.
"""

import fcntl
import mmap
import os
import pickle
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Protocol

from . import channel, frameworks, jobstate
from .jobcall import awaited, flush, leave
from .jobenv import InPlace, JobEnvironment
from .limits import parcel_from
from .payload import Packed, dump_value
from .peaks import reset_peak
from .traincalls import (
    MARK_BYTES,
    PACKET_FDS,
    Calls,
    calls_in,
    full_answer,
    mark,
    plain_answer,
)

if TYPE_CHECKING:
    import socket

    from . import answers

# For files of our own, whatever the body of a call has set.
OWN_UMASK: Final = 0o077
# Values that pickle itself writes as cloudpickle would.
_PLAIN: Final = frozenset({type(None), bool, int, float, complex, str, bytes})
# `signal.signal` without its enumerations of numbers: ten times as fast.
_set_handler: Final[Callable[[int, Any], Any]] = sys.modules["_signal"].signal
_get_handler: Final[Callable[[int], Any]] = sys.modules["_signal"].getsignal
_SIGINT: Final = int(signal.SIGINT)
_job_id: Final = InPlace("GRN_JOB_ID")
_job_number: Final = InPlace("GRN_JOB_NUMBER")


class Side(Protocol):
    """What a job process remembers between its runs."""

    sock: "socket.socket"
    pid: int
    environment: JobEnvironment
    setup_error: BaseException | None
    on_interrupt: Any
    unloaded: bytes | memoryview

    def function_in(self, packet: channel.Packet) -> tuple[Callable[..., Any], memoryview]:
        """What to call, and the arguments."""

    def can_go_on(self) -> bool:
        """Whether another run is possible here."""


def run_train(side: Side, packet: channel.Packet) -> None:
    """Do the calls of a packet, until the last or until the rest was taken back."""
    calls = calls_in(packet.header)
    assert calls is not None
    train = _Train(side, packet, calls)
    try:
        train.run()
    finally:
        train.close()


class _Train:
    """The calls of one packet."""

    def __init__(self, side: Side, packet: channel.Packet, calls: Calls) -> None:
        out, err, self._answers, self._tokens, marks = packet.fds[:PACKET_FDS]
        self._side = side
        self._header = packet.header
        self._calls = calls
        self._page = _page_of(marks, calls.slot)
        os.close(marks)
        self._streams = jobstate.take_streams([out, err])
        self._answers_file = jobstate.file_of(self._answers)
        self._late = str(packet.header["late"])
        side.environment.update(packet.header, None)
        _job_id.enter()
        _job_number.enter()
        self._packet: channel.Packet | None = packet
        self._error = side.setup_error
        self._function: Callable[..., Any] = _no_function
        size = packet.header["function_size"]
        assert isinstance(size, int)
        self._function_size = size
        self._content = memoryview(packet.body)[size:]
        self._cwd = jobstate.cwd()
        self._umask = os.umask(OWN_UMASK)
        os.umask(self._umask)
        self._on_host = bool(packet.header["on_host"])
        self._parcel_from = parcel_from(detached=bool(packet.header["detached"]))
        self._unread = bytearray(4)
        if not calls.first:
            reset_peak()
            frameworks.reset_counters()
        self._before_bytes = jobstate.peak_bytes()

    def _load(self, packet: channel.Packet) -> None:
        """Make the function ready; that takes the time of the first call."""
        self._packet = None
        try:
            if self._error is None:
                self._function, _ = self._side.function_in(packet)
                self._side.environment.check()
        except BaseException as error:
            self._error = error

    def close(self) -> None:
        """Let go of what is this packet's; a function that was not needed is kept."""
        if self._packet is not None and (size := self._function_size):
            self._side.unloaded = self._packet.body[:size]
        jobstate.silence_streams()
        os.close(self._answers)
        os.close(self._tokens)

    def run(self) -> None:
        calls, tokens, page = self._calls, self._tokens, self._page
        begun, at, told = mark(calls.train, calls.first), 0, 0
        set_id, set_number = _job_id.set, _job_number.set
        columns = zip(calls.job_ids, calls.attempts, calls.numbers, calls.sizes, strict=True)
        for job_id, attempt, number, size in columns:
            try:
                os.eventfd_read(tokens)
            except BlockingIOError:
                return  # taken back, and all that follow
            begun += 1
            page[0] = begun
            set_id(job_id.encode())
            set_number(b"%d" % number)
            if attempt != told:
                os.environ["GRN_ATTEMPT"] = str(attempt)
                told = attempt
            arguments = self._content[at : at + size]
            at += size
            if not self._do(arguments, job_id, attempt):
                return

    def _do(self, arguments: memoryview, job_id: str, attempt: int) -> bool:
        """Do one call and answer; False if no other can follow."""
        began_at = time.monotonic()
        try:
            header, body = self._call(arguments)
        except BaseException as error:  # an interrupt between the function and the answer
            header, body = self._failure(error)
        run_s = time.monotonic() - began_at
        if os.getpid() != self._side.pid:
            os._exit(0)  # a fork inside the function came back from it
        clean = self._is_clean()
        if jobstate.file_of(self._answers) != self._answers_file:
            self._leave_late(header, body, f"{self._late}{job_id}-{attempt}")
        small = body.size_bytes < self._parcel_from
        if header is None and clean and small and not self._has_more():
            _write(self._answers, plain_answer(run_s, body.joined()))
            return True
        full, data = self._full(header, body, clean=clean)
        _write(self._answers, full_answer(run_s, full, data))
        # What it printed is read before the next call can print: it is its own.
        return clean and channel.receive(self._side.sock) is not None

    def _call(self, arguments: memoryview) -> tuple[dict[str, object] | None, Packed]:
        try:
            _set_handler(_SIGINT, self._side.on_interrupt)
            if self._packet is not None:
                self._load(self._packet)
            if self._error is not None:
                raise self._error
            args, kwargs = pickle.loads(arguments)
            value = self._function(*args, **kwargs)
            if isinstance(value, Coroutine):
                value = awaited(value)
            return None, _dump(value)
        except SystemExit as request:
            from . import answers

            return answers.departure(request, self._header)
        except BaseException as error:
            return self._failure(error)
        finally:
            chosen = _get_handler(_SIGINT)  # None: by C code, unknown to Python
            self._side.on_interrupt = signal.default_int_handler if chosen is None else chosen
            _set_handler(_SIGINT, jobstate.ignore_signal)

    def _failure(self, error: BaseException) -> "answers.Result":
        from . import answers

        return answers.failure(error, self._header)

    def _is_clean(self) -> bool:
        """Whether the call has left everything as it was."""
        return (
            flush()
            and os.umask(self._umask) == self._umask
            and threading.active_count() == 1
            and not jobstate.has_children()
            and jobstate.is_only_child()
            and jobstate.streams() == self._streams
            and jobstate.cwd() == self._cwd
            and self._side.can_go_on()
        )

    def _has_more(self) -> bool:
        """Whether there is more to tell than the value: it printed, or used a GPU."""
        unread = self._unread
        for fd in (1, 2):
            fcntl.ioctl(fd, termios.FIONREAD, unread)
            if any(unread):
                return True
        return not self._on_host and any(frameworks.counters())

    def _full(
        self, header: dict[str, object] | None, body: Packed, *, clean: bool
    ) -> tuple[dict[str, object], bytes]:
        """Give all that an ordinary run tells."""
        from . import answers

        os.umask(OWN_UMASK)
        try:
            ended: dict[str, object] = header or {"outcome": "succeeded"}
            told, data = answers.as_sent((ended, body), self._header)
            kept_bytes = answers.tidy()
        finally:
            os.umask(self._umask)
        return {
            "threads": threading.active_count() - 1,
            "children": jobstate.has_children(),
            "clean": clean,
            "before_bytes": self._before_bytes,
            "peak_bytes": jobstate.peak_bytes(),
            "kept_bytes": kept_bytes,
            **frameworks.counters()._asdict(),
            **told,
        }, data

    def _leave_late(self, header: dict[str, object] | None, body: Packed, path: str) -> None:
        """The call closed our pipe: leave its answer in a file, and end."""
        full, data = self._full(header, body, clean=False)
        os.umask(OWN_UMASK)
        channel.write_file(path, full, data)
        leave()


def _no_function(*args: object, **kwargs: object) -> None:
    raise AssertionError("there is no function")


def _dump(value: object) -> Packed:
    if type(value) in _PLAIN:
        return Packed.of(pickle.dumps(value, 5))
    return dump_value(value)


def _write(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


_pages: Final[dict[int, memoryview]] = {}


def _page_of(marks: int, slot: int) -> memoryview:
    """Map our page of the marks, once: a mapping that is closed might close another's file."""
    if slot not in _pages:
        mapped = mmap.mmap(marks, MARK_BYTES, offset=slot * MARK_BYTES)
        _pages[slot] = memoryview(mapped).cast("Q")
    return _pages[slot]
