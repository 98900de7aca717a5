"""What bodies and values of the fault suite do to themselves and to those around them."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

from tests.faults.bodies import note

MIB: Final = 1 << 20
PAGE: Final = 4096
HIGHEST_FD: Final = 1024
NOBODY: Final = 65534


def nothing() -> None:
    """Do no harm."""


def give(value: Any) -> Any:
    return value


def size_of(data: bytes) -> int:
    return len(data)


def give_random() -> str:
    return os.urandom(5000).hex()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def wait_for(gate: str) -> None:
    while not Path(gate).exists():
        time.sleep(0.01)


def leave_at_once() -> NoReturn:
    print("leaving now", flush=True)
    os._exit(3)


def leave() -> NoReturn:
    print("leaving now")
    sys.exit(4)


def fail() -> NoReturn:
    raise LookupError("nothing here")


def die(signum: int) -> None:
    print("dying now", flush=True)
    os.kill(os.getpid(), signum)


class Stuck(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("stuck in here")
        self.lock = threading.Lock()


def raise_stuck() -> NoReturn:
    raise Stuck


def give_stuck() -> dict[str, Any]:
    return {"lock": threading.Lock()}


class Trap:
    """Calls something wherever it is unpickled."""

    def __init__(self, spring: Callable[..., Any], *args: Any) -> None:
        self._spring = spring, args

    def __reduce__(self) -> tuple[Any, ...]:
        return self._spring


def give_trap(spring: Callable[..., Any], *args: Any) -> Trap:
    return Trap(spring, *args)


def loop() -> NoReturn:
    while True:
        time.sleep(0.1)


def die_while_opened(ledger: str) -> None:
    """The body of a job that never gets as far as its body."""
    note(ledger, "start")
    os.kill(os.getpid(), signal.SIGKILL)


def allocate_while_opened(ledger: str) -> bytearray:
    note(ledger, "start")
    return bytearray(1 << 60)


def daemonise(pids: str) -> None:
    """Leave a grandchild behind: another session, no parent, deaf to most signals."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    fd = os.open(pids, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, f"{os.getpid()}\n".encode())
    os.close(fd)
    loop()


def daemonise_and(pids: str, then: Callable[..., Any], *args: Any) -> Any:
    daemonise(pids)
    while not Path(pids).exists():
        time.sleep(0.01)
    return then(*args)


def hold_stdout() -> int:
    """Leave a child that never closes the standard output."""
    return subprocess.Popen(["sleep", "600"], start_new_session=True).pid


def be_deaf(pids: str, mib: int = 0) -> NoReturn:
    """Hold memory, have grandchildren that hold it too, and end by SIGKILL only."""
    note_time(f"{pids}.began")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = hold(mib)
    for _ in range(2):
        daemonise(pids)
    while held is not None:
        time.sleep(0.1)
    raise AssertionError("nobody ends here")


def note_time(path: str, mib: int = 0) -> None:
    """Write down when this was called, by the clock of all processes; then take memory."""
    Path(path).write_text(str(time.monotonic()))
    take(mib)


def multiply(most: int) -> NoReturn:
    """Fork until the kernel refuses; root first becomes somebody whom it may refuse."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    else:
        most += _tasks_of_mine()
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    while True:
        if os.fork() == 0:
            loop()


def _tasks_of_mine() -> int:
    """How many threads this user has, which is what the limit counts."""
    count = 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if place.stat().st_uid == os.geteuid():
                count += len(list((place / "task").iterdir()))
        except OSError:
            continue
    return count


def take(mib: int) -> None:
    """Take so much memory, and use it."""
    hold(mib)


def hold(mib: int) -> list[bytearray]:
    """Give so much memory that is in use."""
    held = []
    for _ in range(mib):
        block = bytearray(MIB)
        block[::PAGE] = b"\1" * (MIB // PAGE)
        held.append(block)
    return held


def take_on_gpu(mib: int) -> None:
    from tests.nvml import cuda

    cuda.alloc(mib)


def talk(mib: int, line: int) -> None:
    """Write so much in lines of this length, with escape sequences, and fail."""
    text = b"\x1b[31mred\x1b]0;title\x07 " + b"x" * line + b"\n"
    written = 0
    while written < mib * MIB:
        written += os.write(1, text[: line + 32])
    raise RuntimeError("talked enough")


def talk_and_die() -> None:
    print("\x1b[31mred\x1b]0;title\x07", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def destroy_surroundings(directory: str) -> str:
    """Lose the working directory and every descriptor, and change the umask."""
    os.makedirs(directory)
    os.chdir(directory)
    os.rmdir(directory)
    os.umask(0o777)
    os.closerange(0, HIGHEST_FD)
    return "still here"


def kill_my_worker() -> NoReturn:
    """Kill the worker: the parent of the keeper, which is the parent of this process."""
    keeper = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(keeper.rpartition(")")[2].split()[1]), signal.SIGKILL)
    loop()
