"""The job process: takes runs from its worker, calls the function, answers.

    worker -> job    {"setup": true, "environment": ...} + context, once, first
                     {"kind": "call" | "command", "job_id", "attempt", ...} + content + 2 pipes
                     the same of many calls at once: see `traincalls`
    job -> worker    {"ready": true, "pid", "baseline_bytes", "faults"} once set up
                     {"outcome": "succeeded" | "failed" | "exited" | "oom", ...}
                     + value or exception; "imported" among it if modules were loaded

The end of the socket asks the process to leave. A command replaces the process; its outcome
is the exit status that the keeper reports.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from . import caps, channel, frameworks, jobstate, keeper
from .imported import Imported
from .jobcall import answer_of, cap_of, flush, freshen, leave, teach_multiprocessing
from .jobenv import JobEnvironment, texts_in
from .placeholders import fill_words

if TYPE_CHECKING:
    from . import answers

# Run by `interpreter -P -c BOOT package_dir ctl_fd job_fd`.
BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from grn_zmq.jobmain import main; main()"
)
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
    leave()


class JobSide:
    """What one job process remembers between its runs."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock_file = jobstate.file_of(sock.fileno())
        self.pid = os.getpid()
        # The last one only: a closure over data is a new function with every call.
        self.function: tuple[Callable[..., Any], Callable[..., Any] | None] | None = None
        # One that came with calls of which none has begun: it is not sent again.
        self.unloaded: bytes | memoryview = b""
        self.environment = JobEnvironment()
        self.imported = Imported()
        self.setup_error: BaseException | None = None
        self.on_interrupt: Any = signal.default_int_handler
        signal.signal(signal.SIGINT, jobstate.ignore_signal)
        # A fork of the user's must not answer in our name.
        os.register_at_fork(after_in_child=sock.close)

    def react(self, packet: channel.Packet) -> None:
        """Do what one packet asks for."""
        if "setup" in packet.header:
            self.set_up(packet)
        elif packet.header["kind"] == "command":
            self.run_command(packet)
        elif "train" in packet.header:
            from .jobtrain import run_train

            run_train(self, packet)
        else:
            self.run_call(packet)

    def set_up(self, packet: channel.Packet) -> None:
        """Take over the client's context; what fails is told by the first run."""
        from . import answers, jobtrain, payload  # noqa: F401  (they are in the baseline)
        from .context import Context

        try:
            context = Context.from_bytes(packet.body)
            extra = texts_in(packet.header, "environment")
            context.adopt(extra)
            self.environment.adopt({**context.environment, **extra})
            freshen()
            teach_multiprocessing()
        except BaseException as error:
            self.setup_error = error
        self.imported.begin()
        facts = {
            "pid": self.pid,
            "baseline_bytes": jobstate.resident_bytes(),
            "faults": jobstate.faults(),
        }
        channel.send(self.sock, {"ready": True, **facts})

    def run_call(self, packet: channel.Packet) -> None:
        """Call the function, flush, answer."""
        from . import answers

        streams = jobstate.take_streams(packet.fds)
        cap = cap_of(packet.header)
        self.environment.update(packet.header, cap)
        cwd, umask = jobstate.cwd(), os.umask(OWN_UMASK)
        os.umask(umask)
        jobstate.begin_peak(exactly=bool(packet.header.get("young", True)))
        frameworks.reset_counters()
        before_bytes = jobstate.peak_bytes()
        try:
            result = self._call(packet, cap)
        except BaseException as error:  # an interrupt between the function and the answer
            result = answers.failure(error, packet.header)
        if os.getpid() != self.pid:
            os._exit(0)  # a fork inside the function came back from it
        os.umask(OWN_UMASK)
        header, body = answers.as_sent(result, packet.header)
        del result  # it may hold the file of the arguments
        kept_bytes = answers.tidy()
        intact = flush() and jobstate.streams() == streams and jobstate.cwd() == cwd
        threads, children = threading.active_count() - 1, jobstate.has_children()
        alone = jobstate.is_only_child()
        header = {
            "threads": threads,
            "children": children,
            "alone": alone,
            "clean": intact and not threads and not children and self.can_go_on(),
            "before_bytes": before_bytes,
            "peak_bytes": jobstate.peak_bytes(),
            "kept_bytes": kept_bytes,
            **frameworks.counters()._asdict(),
            **header,
        }
        jobstate.silence_streams()
        self._answer(header, body, str(packet.header["late"]))
        os.umask(umask)

    def can_go_on(self) -> bool:
        """Whether this process has the function it was sent, and no cap stays."""
        return self.function is not None and caps.can_be_lifted()

    def _answer(self, header: dict[str, object], body: bytes, late: str) -> None:
        """Send the answer; if the body of the run closed our socket, leave it in a file."""
        if jobstate.file_of(self.sock.fileno()) == self.sock_file:
            channel.send(self.sock, header | self.imported.news(), body)
            return
        if late:
            channel.write_file(late, header, body)
        leave()

    def _call(self, packet: channel.Packet, cap: caps.Cap | None) -> "answers.Result":
        from . import answers

        try:
            signal.signal(signal.SIGINT, self.on_interrupt)
            if self.setup_error is not None:
                raise self.setup_error
            if packet.header.get("box"):
                self.environment.check()
                return _call_in_box(packet)
            # Also where it cannot run: the worker sends no function twice.
            function, content = self.function_in(packet)
            self.environment.check()
            return answer_of(function, content, cap)
        except SystemExit as request:
            return answers.departure(request, packet.header)
        except BaseException as error:
            return answers.failure(error, packet.header)
        finally:
            chosen = signal.getsignal(signal.SIGINT)  # None: by C code, unknown to Python
            self.on_interrupt = signal.default_int_handler if chosen is None else chosen
            signal.signal(signal.SIGINT, jobstate.ignore_signal)

    def function_in(self, packet: channel.Packet) -> tuple[Callable[..., Any], memoryview]:
        """Return what to call, and the rest of the content: its arguments."""
        from . import payload

        shipped, content = _shipped(packet)
        blob, self.unloaded = shipped or self.unloaded, b""
        if len(blob):
            self.function = None  # before the next is loaded: they may be large
            self.function = payload.load_function(blob)
        assert self.function is not None
        function, stand_in = self.function
        if packet.header["stand_in"] and stand_in is not None:
            function = stand_in
        return function, content

    def run_command(self, packet: channel.Packet) -> NoReturn:
        """Become the command."""
        import msgpack

        jobstate.take_streams(packet.fds)
        cap = cap_of(packet.header)
        self.environment.update(packet.header, cap)
        try:
            body = _parcel(packet.header) if packet.header["token"] else packet.body
        except OSError as error:
            _refuse(f"its command cannot be read: {error}", NOT_EXECUTABLE_STATUS)
        words = msgpack.unpackb(body, unicode_errors="surrogatepass")
        of_queue = list(map(str, _list_in(packet.header, "queue_prefix")))
        if words[: len(of_queue)] != of_queue:  # who submitted it may not have known
            words = [*of_queue, *words]
        argv = fill_words(words, texts_in(packet.header, "placeholders"))
        python = str(packet.header.get("python") or "")
        if python and argv[:1] in (["python"], ["python3"]):
            argv[0] = python  # there may be none of this name beside it
        argv = [*map(str, _list_in(packet.header, "prefix")), *argv]
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


def _call_in_box(packet: channel.Packet) -> "answers.Result":
    """Call inside the environment of the job; nothing of the function is loaded here."""
    from .boxing import Box, call_in_box

    return call_in_box(Box.of(packet.header["box"]), packet.header, *_shipped(packet))


def _shipped(packet: channel.Packet) -> tuple[memoryview, memoryview]:
    """Give the function as it travelled, empty if it is here already, and the arguments."""
    size = packet.header["function_size"]
    assert isinstance(size, int)
    content = memoryview(packet.body)
    rest = _parcel(packet.header) if packet.header["token"] else content[size:]
    return content[:size], rest


def _parcel(header: Mapping[str, object]) -> memoryview:
    """The content of a run that was too large to be sent."""
    from . import answers

    return answers.readings.read(answers.parcels_of(header), str(header["token"]))


def _list_in(header: Mapping[str, object], name: str) -> list[object]:
    value = header.get(name)
    return value if isinstance(value, list) else []


def _open_stdin(path: str) -> None:
    """Make a FIFO standard input; without a path it stays empty."""
    if path:
        fd = os.open(path, os.O_RDONLY)
        os.dup2(fd, 0)
        os.close(fd)


def _refuse(text: str, status: int) -> NoReturn:
    os.write(2, f"grn: {text}\n".encode(errors="surrogateescape"))
    os._exit(status)
