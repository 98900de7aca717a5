"""The zygote: a warm interpreter of a client's that job processes are forked from.

It has imported what jobs like those to come have imported before, and does nothing with it:
importing was found to be safe before a fork, computing was not. After each import it looks
whether it could still fork safely; if not it says so and ends, and its worker starts another
without that module.

    worker -> zygote    {"preload": [names], "path": sys.path}, once, first
                        {"fork": true} + far ends of control and job socket, and a file
    zygote -> worker    {"importing": name} before each
                        {"refused": name, "why": text}, and it ends; without a name if it
                        was unfit from its start
                        {"ready": true, "environment": {...}}: variables that imports have set

A fork becomes a keeper, says {"keeper": pid} with a pidfd on its control socket, and is from
then on like one that was executed. The end of the zygote's socket ends the zygote; what it has
forked goes on.
"""

import gc
import importlib
import os
import signal
import socket
import sys
import time
import weakref
from collections.abc import Iterable
from typing import Final, NoReturn

from . import channel, jobmain, jobstate, keeper
from .frameworks import quietly
from .imported import UNSAFE, file_of, loaded, shared_roots
from .jobcall import flush

# Run by `interpreter -P -c BOOT package_dir socket_fd worker_pid`.
BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from grn_zmq.zygote import main; main()"
)
# Threads that libraries stop for a fork may be started again behind it; so long we wait.
SETTLE_S: Final = 0.05
# It only gives memory back, and was never seen to harm a fork.
_HARMLESS_THREADS: Final = frozenset({"jemalloc_bg_thd"})
_GPU_FILES: Final = "/dev/nvidia"


def main() -> NoReturn:
    """Import what the worker names, then fork whenever it asks."""
    fd, worker_pid = int(sys.argv[2]), int(sys.argv[3])
    keeper.prctl(keeper.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != worker_pid:
        os._exit(keeper.BROKEN_STATUS)
    os.set_inheritable(fd, False)
    sock = socket.socket(fileno=fd)
    try:
        before = dict(os.environ)
        if (packet := channel.receive(sock)) is not None:
            _warm_up(sock, packet.header)
            changed = {name: v for name, v in os.environ.items() if before.get(name) != v}
            channel.send(sock, {"ready": True, "environment": changed})
            _serve(sock)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the worker has no use for us any more
    os._exit(0)  # what libraries have to do at an end is for those who used them


def _warm_up(sock: socket.socket, header: dict[str, object]) -> None:
    _import_own()
    path, names = header["path"], header["preload"]
    assert isinstance(path, list)
    assert isinstance(names, list)
    roots = shared_roots(path)
    sys.path[:] = [entry for entry in path if f"{entry}/".startswith(roots)]
    sys.argv = [""]
    watch = _Watch(roots)
    if why := watch.danger():  # by what the user's site runs in every interpreter
        _refuse(sock, "", why)
    for name in names:
        if name in sys.modules:
            continue
        channel.send(sock, {"importing": name})
        if why := _import(name) or watch.danger():
            _refuse(sock, name, why)
    flush()  # or every fork would say it again
    # Each fork would invalidate them one by one, and so copy the pages they are on.
    sys.path_importer_cache.clear()
    loaded()
    _keep_finalizers()
    gc.collect()
    gc.freeze()


def _refuse(sock: socket.socket, name: str, why: str) -> NoReturn:
    channel.send(sock, {"refused": name, "why": why})
    os._exit(0)


def _import_own() -> None:
    """Import what every job process needs of ours."""
    import multiprocessing.reduction  # noqa: F401

    import cloudpickle  # noqa: F401

    from . import answers, context, jobtrain, payload  # noqa: F401


def _import(name: str) -> str:
    """Import one module; say why that failed, if it did."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Made up by another module, as jobs of this type had it; nothing was loaded here.
        return "" if f"{name}.".startswith(f"{error.name}.") else str(error)
    except BaseException as error:  # half a library is worse than none
        return f"{type(error).__name__}: {error}"
    return ""


def _keep_finalizers() -> None:
    """Leave what imports want to clean up at the end to nobody: it is shared by all forks."""
    for one in list(getattr(weakref.finalize, "_registry", ())):
        one.atexit = False


class _Watch:
    """Looks for what makes a fork unsafe, or a job's code stale."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        found = _open_files()
        self._files = {fd for fd, file in found.items() if not file.startswith(_GPU_FILES)}
        self._modules = set(sys.modules)

    def danger(self) -> str:
        """Say what the last import brought that must not be there; nothing if all is well."""
        fresh = [name for name in list(sys.modules) if name not in self._modules]
        self._modules.update(fresh)
        if unsafe := UNSAFE.intersection(fresh):
            return f"it loads {', '.join(sorted(unsafe))}"
        files = [file_of(sys.modules.get(name)) for name in fresh]
        if own := [file for file in files if file and not file.startswith(self._roots)]:
            return f"it loads {own[0]}, which may be edited"
        opened = {fd: file for fd, file in _open_files().items() if fd not in self._files}
        if opened:
            return f"it opens {', '.join(sorted(opened.values()))}"
        if jobstate.has_children():
            return "it starts a process"
        return _dangerous_threads()


def _open_files() -> dict[int, str]:
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass  # the one that the list was read by
    return found


def _dangerous_threads() -> str:
    """Fork once and name the threads that are there then: some stop before every fork."""
    if not _threads():
        return ""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    time.sleep(SETTLE_S)
    left = _threads()
    return f"it runs threads: {', '.join(left)}" if left else ""


def _threads() -> list[str]:
    """Name the threads besides this one that are not known to be harmless."""
    found: list[str] = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as comm:
                name = comm.read().strip()
        except OSError:
            continue  # it has ended
        if int(task) != os.getpid() and name not in _HARMLESS_THREADS:
            found.append(name)
    return found


def _serve(sock: socket.socket) -> None:
    """Fork for the worker until it is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers need nobody to reap them
    while (packet := channel.receive(sock)) is not None:
        _fork(sock, packet.fds)
        channel.close_all(packet.fds)


def _fork(sock: socket.socket, fds: list[int]) -> None:
    ctl_fd, job_fd, said_fd = fds
    try:
        pid = os.fork()
    except OSError as error:
        os.write(said_fd, f"the zygote cannot fork: {error.strerror}\n".encode())
        return
    if pid == 0:
        try:
            sock.close()
            os.dup2(said_fd, 2)
            os.close(said_fd)
            _be_keeper(socket.socket(fileno=ctl_fd), job_fd)
        finally:
            os._exit(keeper.BROKEN_STATUS)


def _be_keeper(ctl: socket.socket, job_fd: int) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.getpid()
    pidfd = os.pidfd_open(pid)
    channel.send(ctl, {"keeper": pid}, fds=[pidfd])
    os.close(pidfd)
    keeper.keep(ctl, lambda: _be_job(job_fd))


def _be_job(job_fd: int) -> NoReturn:
    reseed()
    jobmain.serve(job_fd)


def reseed() -> None:
    """Let what was loaded before the fork give other random numbers in every process."""
    quietly(_reseed_numpy)
    quietly(_reseed_torch)


def _reseed_numpy() -> Iterable[object]:
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()
    return ()


def _reseed_torch() -> Iterable[object]:
    # Not torch.seed(), which looks for GPUs as well.
    if torch := sys.modules.get("torch"):
        torch.default_generator.seed()
    return ()
