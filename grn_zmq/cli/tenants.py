"""A command that waits for its devices.

Its process is forked before anything else is done here: a process with threads, as ours soon
is, cannot be forked safely. It waits until it is told what its devices are, and is killed
together with us, because then nobody holds its lease any more.
"""

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from ..errors import GrnError
from ..keeper import PR_SET_PDEATHSIG, prctl
from .common import say
from .states import BY_SIGNAL

NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
# Those that Python ignores for itself, and a command expects to be as usual.
_USUAL: Final = (signal.SIGPIPE, signal.SIGXFSZ)
_CHUNK: Final = 1 << 16


class NotRunnable(GrnError):
    """There is no such command, or it is none; `status` is what shells leave with."""

    def __init__(self, program: str) -> None:
        found = os.path.exists(program) if os.sep in program else False
        why = "it is there, but cannot be run" if found else "there is no such command"
        super().__init__(f"cannot run {program}: {why}")
        self.status = NOT_EXECUTABLE if found else NOT_FOUND


class Tenant:
    """A forked process that becomes the command as soon as it is told its variables."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Fork; to be called while this process has a single thread.

        Raises:
            NotRunnable: The command cannot be found: better now than after hours of waiting.
        """
        if shutil.which(words[0], path=environment.get("PATH", os.defpath)) is None:
            raise NotRunnable(words[0])
        self.program = words[0]
        self._environment = dict(environment)
        reading, self._telling = os.pipe()
        parent_pid = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # what is buffered would be written twice
                stream.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._telling)
            _become(words, reading, parent_pid)
        os.close(reading)
        self._pidfd = os.pidfd_open(self.pid)

    def begin(self, variables: Mapping[str, str]) -> None:
        """Let it become the command, with these variables beside its own."""
        data = b"\0".join(
            os.fsencode(f"{name}={value}")
            for name, value in {**self._environment, **variables}.items()
        )
        with contextlib.suppress(BrokenPipeError):  # it is dead already: waiting tells how
            while data:
                data = data[os.write(self._telling, data) :]
        self._close()

    def signal(self, signum: int) -> None:
        """Pass a signal on, if the command has not ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signum)

    def wait(self) -> int:
        """Wait for its end; give its status, as shells have it after a signal."""
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else BY_SIGNAL - code

    def dismiss(self) -> None:
        """There is nothing to run: let the process end."""
        self._close()
        self.wait()

    def _close(self) -> None:
        os.close(self._telling)


def _become(words: Sequence[str], reading: int, parent_pid: int) -> NoReturn:
    """The life of the forked process: wait for the variables, then be the command."""
    status = NOT_FOUND
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        for signum in _USUAL:
            signal.signal(signum, signal.SIG_DFL)
        data = b""
        while chunk := os.read(reading, _CHUNK):
            data += chunk
        if not data or os.getppid() != parent_pid:
            os._exit(0)
        pairs = (pair.partition(b"=") for pair in data.split(b"\0"))
        os.execvpe(words[0], list(words), {name: value for name, _, value in pairs})
    except FileNotFoundError as error:
        say(f"grn: cannot run {words[0]}: {error.strerror}", err=True)
    except OSError as error:
        say(f"grn: cannot run {words[0]}: {error.strerror}", err=True)
        status = NOT_EXECUTABLE
    finally:
        os._exit(status)
