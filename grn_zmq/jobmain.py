"""The job process: takes runs from its worker, calls the function, answers.

    worker -> job    {"setup": true, "environment": ...} + context, once, first
                     {"kind": "call" | "command", "job_id", "attempt", ...} + content + 2 pipes
    job -> worker    {"ready": true, "pid", "baseline_bytes"} once set up
                     {"outcome": "succeeded" | "failed" | "exited" | "oom", ...}
                     + value or exception

The end of the socket asks the process to leave. A command replaces the process; its outcome
is the exit status that the keeper reports.
"""

import os
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from . import caps, channel, frameworks, keeper
from .jobenv import JobEnvironment, texts_in
from .peaks import reset_peak
from .placeholders import fill_words

if TYPE_CHECKING:
    from . import answers

# Run by `interpreter -P -c BOOT package_dir ctl_fd job_fd`.
BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from grn_zmq.jobmain import main; main()"
)
# How long atexit handlers and threads may take once the worker asked the process to leave.
LEAVE_S: Final = 5.0
# What shells say of a command that is not there, and of one that cannot be run.
NOT_FOUND_STATUS: Final = 127
NOT_EXECUTABLE_STATUS: Final = 126
# For files of our own, whatever the body of a run has set.
OWN_UMASK: Final = 0o077


def main() -> NoReturn:
    """Become the keeper; its fork becomes the job process."""
    ctl_fd, job_fd = int(sys.argv[2]), int(sys.argv[3])
    for fd in (ctl_fd, job_fd):
        os.set_inheritable(fd, False)
    keeper.keep(socket.socket(fileno=ctl_fd), lambda: serve(job_fd))


def serve(job_fd: int) -> NoReturn:
    """Be the job process until the worker closes the socket."""
    keeper.close_others({job_fd})
    job = JobSide(socket.socket(fileno=job_fd))
    try:
        while (packet := channel.receive(job.sock)) is not None:
            job.react(packet)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the worker closed the socket while we worked
    _leave()


class JobSide:
    """What one job process remembers between its runs."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock_file = _file_of(sock.fileno())
        self.pid = os.getpid()
        # The last one only: a closure over data is a new function with every call.
        self.function: tuple[Callable[..., Any], Callable[..., Any] | None] | None = None
        self.environment = JobEnvironment()
        self.setup_error: BaseException | None = None
        self.on_interrupt: Any = signal.default_int_handler
        signal.signal(signal.SIGINT, _ignore_signal)
        # A fork of the user's must not answer in our name.
        os.register_at_fork(after_in_child=sock.close)

    def react(self, packet: channel.Packet) -> None:
        """Do what one packet asks for."""
        if "setup" in packet.header:
            self.set_up(packet)
        elif packet.header["kind"] == "command":
            self.run_command(packet)
        else:
            self.run_call(packet)

    def set_up(self, packet: channel.Packet) -> None:
        """Take over the client's context; what fails is told by the first run."""
        from . import answers, payload  # noqa: F401  (so that they are in the baseline)
        from .context import Context

        try:
            context = Context.from_bytes(packet.body)
            extra = texts_in(packet.header, "environment")
            context.adopt(extra)
            self.environment.adopt({**context.environment, **extra})
            _freshen()
            _teach_multiprocessing()
        except BaseException as error:
            self.setup_error = error
        size = _resident_bytes()
        channel.send(self.sock, {"ready": True, "pid": self.pid, "baseline_bytes": size})

    def run_call(self, packet: channel.Packet) -> None:
        """Call the function, flush, answer."""
        from . import answers

        streams = _take_streams(packet.fds)
        cap = _cap(packet.header)
        self.environment.update(packet.header, cap)
        cwd, umask = _cwd(), os.umask(OWN_UMASK)
        os.umask(umask)
        reset_peak()
        frameworks.reset_counters()
        before_bytes = _peak_bytes()
        try:
            header, body = self._call(packet, cap)
        except BaseException as error:  # an interrupt between the function and the answer
            header, body = answers.failure(error, packet.header)
        if os.getpid() != self.pid:
            os._exit(0)  # a fork inside the function came back from it
        os.umask(OWN_UMASK)
        try:
            header, body = answers.or_in_parcel((header, body), packet.header)
        except BaseException as error:
            header, body = answers.failure(error, packet.header)
        intact = _flush() and _streams() == streams and _cwd() == cwd
        threads, children = threading.active_count() - 1, _has_children()
        header |= {
            "threads": threads,
            "children": children,
            "clean": intact and not threads and not children and self._can_go_on(),
            "before_bytes": before_bytes,
            "peak_bytes": _peak_bytes(),
            **frameworks.counters()._asdict(),
        }
        _silence_streams()
        self._answer(header, body, str(packet.header["late"]))
        os.umask(umask)

    def _can_go_on(self) -> bool:
        """Whether this process has the function it was sent, and no cap stays."""
        return self.function is not None and caps.can_be_lifted()

    def _answer(self, header: dict[str, object], body: bytes, late: str) -> None:
        """Send the answer; if the body of the run closed our socket, leave it in a file."""
        if _file_of(self.sock.fileno()) == self.sock_file:
            channel.send(self.sock, header, body)
            return
        if late:
            channel.write_file(late, header, body)
        _leave()

    def _call(self, packet: channel.Packet, cap: caps.Cap | None) -> "answers.Result":
        from . import answers, payload

        try:
            signal.signal(signal.SIGINT, self.on_interrupt)
            if self.setup_error is not None:
                raise self.setup_error
            # Also where it cannot run: the worker sends no function twice.
            function, content = self._function(packet)
            self.environment.check()
            with caps.capped(cap):
                args, kwargs = payload.load_arguments(content)
                value = function(*args, **kwargs)
                if isinstance(value, Coroutine):
                    value = _await(value)
                return {"outcome": "succeeded"}, payload.dump_value(value)
        except SystemExit as request:
            return answers.departure(request, packet.header)
        except BaseException as error:
            return answers.failure(error, packet.header)
        finally:
            chosen = signal.getsignal(signal.SIGINT)  # None: by C code, unknown to Python
            self.on_interrupt = signal.default_int_handler if chosen is None else chosen
            signal.signal(signal.SIGINT, _ignore_signal)

    def _function(self, packet: channel.Packet) -> tuple[Callable[..., Any], memoryview]:
        """Return what to call, and the rest of the content: its arguments."""
        from . import payload

        size = packet.header["function_size"]
        assert isinstance(size, int)
        content = memoryview(packet.body)
        if size:
            self.function = None  # before the next is loaded: they may be large
            self.function = payload.load_function(content[:size])
        assert self.function is not None
        if packet.header["token"]:
            content, size = _parcel(packet.header), 0
        function, stand_in = self.function
        if packet.header["stand_in"] and stand_in is not None:
            function = stand_in
        return function, content[size:]

    def run_command(self, packet: channel.Packet) -> NoReturn:
        """Become the command."""
        import msgpack

        _take_streams(packet.fds)
        cap = _cap(packet.header)
        self.environment.update(packet.header, cap)
        try:
            body = _parcel(packet.header) if packet.header["token"] else packet.body
        except OSError as error:
            _refuse(f"its command cannot be read: {error}", NOT_EXECUTABLE_STATUS)
        words = msgpack.unpackb(body, unicode_errors="surrogatepass")
        argv = fill_words(words, texts_in(packet.header, "placeholders"))
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        try:
            if self.setup_error is not None:
                raise self.setup_error
            self.environment.check()
            _open_stdin(str(packet.header["stdin"]))
            if cap is not None and cap.on_host:
                caps.limit_data(cap)
        except BaseException as error:
            _refuse(f"{argv[0]}: cannot be started: {error}", NOT_EXECUTABLE_STATUS)
        try:
            os.execvp(argv[0], argv)
        except FileNotFoundError:
            _refuse(f"{argv[0]}: command not found", NOT_FOUND_STATUS)
        except (OSError, ValueError) as error:
            _refuse(f"{argv[0]}: cannot be run: {error}", NOT_EXECUTABLE_STATUS)


def _parcel(header: Mapping[str, object]) -> memoryview:
    """The content of a run that was too large to be sent."""
    from . import answers

    return answers.parcels_of(header).read(str(header["token"]))


def _file_of(fd: int) -> tuple[int, int] | None:
    """What tells the file behind a descriptor from all others; None if it is closed."""
    try:
        facts = os.fstat(fd)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _open_stdin(path: str) -> None:
    """Make a FIFO standard input; without a path it stays empty."""
    if path:
        fd = os.open(path, os.O_RDONLY)
        os.dup2(fd, 0)
        os.close(fd)


def _refuse(text: str, status: int) -> NoReturn:
    os.write(2, f"grn: {text}\n".encode(errors="surrogateescape"))
    os._exit(status)


def _freshen() -> None:
    """Give the interpreter the streams and the `__main__` a job expects."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    # No __file__: multiprocessing's spawn would run the user's script again. What lives in
    # __main__ travels by value.
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.modules["__main__"].__dict__["__builtins__"] = sys.modules["builtins"]


def _teach_multiprocessing() -> None:
    """Let functions and classes of `__main__` travel to the job's own workers by value."""
    import pickle
    from multiprocessing.reduction import ForkingPickler

    import cloudpickle

    def reducer_override(self: object, thing: object) -> object:
        by_value = isinstance(thing, types.FunctionType | type)
        if by_value and getattr(thing, "__module__", None) == "__main__":
            return pickle.loads, (cloudpickle.dumps(thing),)
        return NotImplemented

    setattr(ForkingPickler, "reducer_override", reducer_override)  # noqa: B010


def _await(coroutine: Coroutine[Any, Any, Any]) -> Any:
    import asyncio

    async def awaited() -> Any:
        return await coroutine

    return asyncio.run(awaited())


def _cap(header: Mapping[str, object]) -> caps.Cap | None:
    """What this run may have; None if it is not to be held to it."""
    cap_bytes, total_bytes = header["cap_bytes"], header["total_bytes"]
    assert isinstance(cap_bytes, int)
    assert isinstance(total_bytes, int)
    return caps.Cap(cap_bytes, total_bytes, bool(header["on_host"])) if cap_bytes else None


def _ignore_signal(number: int, frame: object) -> None:
    """Do nothing. Unlike SIG_IGN this is not inherited by what the job starts."""


def _take_streams(fds: list[int]) -> list[tuple[int, int]]:
    """Make the run's pipes standard output and error; return what tells them apart."""
    for target, fd in zip((1, 2), fds, strict=True):
        os.dup2(fd, target)
        os.close(fd)
    return _streams()


def _streams() -> list[tuple[int, int]]:
    """Say what files standard output and error are; nothing if Python writes elsewhere."""
    if sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__:
        return []
    try:
        return [(stat.st_dev, stat.st_ino) for stat in (os.fstat(1), os.fstat(2))]
    except OSError:
        return []


def _silence_streams() -> None:
    """Send what is written between two runs nowhere: it belongs to neither."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.close(null)


def _flush() -> bool:
    """Write out all buffers, C's too; False if a stream is broken."""
    try:
        for stream in {sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__} - {None}:
            stream.flush()  # type: ignore[union-attr]
        keeper.flush_c_streams()
    except Exception:
        return False
    return True


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _peak_bytes() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _leave() -> NoReturn:
    """End as an interpreter does: threads, atexit handlers, buffers; but not for ever."""
    import atexit

    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, LEAVE_S)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        _flush()
    finally:
        os._exit(0)
