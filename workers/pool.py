"""The job processes and callers a worker watches, behind one epoll descriptor."""

import errno
import os
import select
import time
from collections.abc import Iterator, Mapping
from typing import Final

from loguru import logger

from grn_zmq.context import Context
from grn_zmq.lifelock import is_held
from grn_zmq.peaks import reset_peak

from .devices.device import Tree
from .jobevents import Event, Packet, Run
from .jobprocess import JobProcess
from .launcher import Launcher
from .proctree import descendants, resident_bytes

# In the place of a descriptor that could not be had.
NOT_WATCHED: Final = -1


class Pool:
    """Job processes by key, and by job id the callers that run inline jobs themselves."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._epoll = select.epoll()
        if launcher.fileno() >= 0:
            self._epoll.register(launcher.fileno(), select.EPOLLIN)
        self._processes: dict[int, JobProcess] = {}
        self._commands: set[int] = set()
        self._owners: dict[int, int] = {}
        self._callers: dict[int, str] = {}
        self._caller_trees: dict[str, tuple[int, Tree]] = {}
        self._lives: dict[str, int] = {}

    def fileno(self) -> int:
        return self._epoll.fileno()

    def __len__(self) -> int:
        return len(self._processes)

    def __contains__(self, key: int) -> bool:
        return key in self._processes

    def add_wakeup(self, fd: int) -> None:
        """Let this descriptor end a wait too; its bytes are thrown away."""
        os.set_blocking(fd, False)
        self._epoll.register(fd, select.EPOLLIN)
        self._owners[fd] = -1

    def launch(
        self, key: int, context: Context, environment: Mapping[str, str], job_type: str = ""
    ) -> None:
        """See `Launcher.launch`."""
        self._processes[key] = self._launcher.launch(context, environment, job_type)
        self._register(key)

    def feed(self, key: int, run: Run) -> None:
        if run.kind == "command":
            self._commands.add(key)
        self._processes[key].feed(run)
        self._register(key)

    def feed_train(self, key: int, run: Run, packet: Packet) -> None:
        self._processes[key].feed_train(run, packet)
        self._register(key)

    def take_back(self, key: int) -> int:
        if key not in self:
            return 0
        taken = self._processes[key].take_back()
        self._register(key)
        return taken

    def answers(self, key: int) -> list[Event]:
        """What calls of a train have answered by now."""
        if key not in self:
            return []
        events = self._processes[key].read_answers()
        self._register(key)
        return events

    def signal(self, key: int, signum: int) -> None:
        self._processes[key].signal(signum)

    def kill(self, key: int) -> None:
        self._processes[key].kill()

    def close_process(self, key: int) -> None:
        self._processes[key].close()
        self._register(key)

    def tree(self, key: int, *, with_baseline: bool = True) -> Tree | None:
        """Where the processes of this job are.

        Args:
            with_baseline: None until they are ready, for their baseline is known only then.
                A run may be at work before we have heard that they are.
        """
        process = self._processes[key]
        if with_baseline and (process.pid is None or not process.ready):
            return None
        main_pid = process.keeper_pid if process.pid is None else process.pid
        # A command replaces the interpreter, so all it has is its own.
        if key in self._commands:
            return Tree(process.keeper_pid, main_pid)
        return Tree(process.keeper_pid, main_pid, process.baseline_bytes, faults=process.faults)

    def is_alone(self, key: int) -> bool:
        """Whether nothing else lives below its keeper: a daemon it left is its sibling now."""
        process = self._processes[key]
        return process.pid is not None and not descendants(process.keeper_pid, [process.pid])

    def reset_peak(self, key: int) -> None:
        """Forget what the job process once had; what it keeps is what counts."""
        pid = self._processes[key].pid
        if pid is not None:
            reset_peak(pid)

    def keeps(self, key: int, kept_bytes: int) -> None:
        """It has files mapped for its next run: that is nobody's need."""
        self._processes[key].keeps(kept_bytes)

    def is_forked(self, key: int) -> bool:
        """Whether it shares memory with the process that it was forked from."""
        return self._processes[key].forked

    def baseline_bytes(self, key: int) -> int:
        return 0 if key in self._commands else self._processes[key].baseline_bytes

    def watch_caller(self, job_id: str, pid: int, life: int | None = None) -> bool:
        """Watch a process that runs an inline job; False if it is gone already.

        What it once had is no job's from now on; look at it before if it is another's.

        Args:
            pid: 0 for one in another pid namespace; what it uses cannot be told then.
            life: Where its life lock shows that it lives, if it has one; ours from now on.
        """
        if not pid:
            if life is not None:
                self._lives[job_id] = life
            return True
        try:
            pidfd = os.pidfd_open(pid)
            self._epoll.register(pidfd, select.EPOLLIN)
            self._callers[pidfd] = job_id
        except OSError as error:
            if error.errno == errno.ESRCH:
                return False
            pidfd = NOT_WATCHED  # too many open files: no proof that the caller is dead
            logger.bind(facts={"why": str(error)}).error("cannot watch a caller")
        reset_peak(pid)
        tree = Tree(pid, pid, resident_bytes(pid), counts_root=True)
        self._caller_trees[job_id] = (pidfd, tree)
        return True

    def unwatch_caller(self, job_id: str) -> None:
        if (life := self._lives.pop(job_id, None)) is not None:
            os.close(life)
        if job_id in self._caller_trees:
            pidfd, _ = self._caller_trees.pop(job_id)
            if pidfd != NOT_WATCHED:
                del self._callers[pidfd]
                self._epoll.unregister(pidfd)
                os.close(pidfd)

    def caller_tree(self, job_id: str) -> Tree | None:
        watched = self._caller_trees.get(job_id)
        return watched[1] if watched else None

    def events(self, *, outputs: bool = True) -> Iterator[tuple[int, Event] | str]:
        """Give what happened: (key, event) of a job process, or the job of a gone caller.

        Args:
            outputs: Whether to read what jobs print; else it waits in their pipes.
        """
        yield from [one for one, life in self._lives.items() if not is_held(life)]
        for fd, _ in self._epoll.poll(0):
            if fd in self._callers:
                yield self._callers[fd]
            elif self._owners.get(fd) == -1:
                os.read(fd, 4096)
            elif fd in self._owners:
                key = self._owners[fd]
                process = self._processes[key]
                if not outputs and process.is_output(fd):
                    continue
                events = process.read(fd)
                self._register(key)
                yield from ((key, event) for event in events)
            elif fd == self._launcher.fileno():
                self._launcher.hear(time.monotonic())
        self._launcher.look(time.monotonic())

    def destroy(self, key: int) -> None:
        """After its exit: close and reap."""
        process = self._processes.pop(key)
        self._commands.discard(key)
        self._forget_fds(key, set())
        process.destroy()

    def close(self) -> None:
        """Kill whatever is left."""
        for key in list(self._processes):
            self.destroy(key)
        for job_id in [*self._caller_trees, *self._lives]:
            self.unwatch_caller(job_id)
        self._launcher.close()
        self._epoll.close()

    def _register(self, key: int) -> None:
        """Watch exactly what the process has open now."""
        current = set(self._processes[key].filenos())
        self._forget_fds(key, current)
        for fd in current:
            if self._owners.get(fd) != key:
                self._epoll.register(fd, select.EPOLLIN)
                self._owners[fd] = key

    def _forget_fds(self, key: int, current: set[int]) -> None:
        for fd in [fd for fd, owner in self._owners.items() if owner == key]:
            if fd not in current:
                del self._owners[fd]
                try:
                    self._epoll.unregister(fd)
                except OSError:
                    pass  # closing it has taken it out already
