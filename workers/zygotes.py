"""One zygote as its worker sees it, and what it was asked to fork."""

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from grn_zmq import channel
from grn_zmq.zygote import BOOT

from .jobevents import number_in
from .keepers import ForkedKeeper, readable
from .zygotekeys import Key

# A fork takes milliseconds; from a zygote that stands still nothing more is expected.
FORK_S: Final = 2.0
# From the end of its socket to that of a process.
END_S: Final = 0.5
# The slowest imports known take ten seconds on an idle machine.
IMPORT_S: Final = 120.0
SAID_BYTES: Final = 4096


class Seedling:
    """A keeper with its job process that was asked for, and that nobody has used yet."""

    def __init__(self, ctl: socket.socket, job: socket.socket, said_fd: int) -> None:
        self.ctl = ctl
        self.job = job
        self.said_fd = said_fd
        self._keeper: ForkedKeeper | None = None

    def keeper(self, seconds: float = FORK_S) -> ForkedKeeper | None:
        """Wait until it is there; None if it does not come."""
        if self._keeper is None and readable(self.ctl.fileno(), seconds):
            try:
                packet = channel.receive(self.ctl)
            except (OSError, ValueError):
                return None
            if packet is not None and len(packet.fds) == 1:
                self._keeper = ForkedKeeper(number_in(packet.header, "keeper"), packet.fds[0])
        return self._keeper

    def close(self) -> None:
        """Let go of it: it ends by itself."""
        self.ctl.close()
        self.job.close()
        os.close(self.said_fd)


@dataclass(frozen=True, slots=True)
class Ended:
    """A zygote is of no use any more.

    `blamed` is the module that must not be imported in the next one, if that is the reason.
    If it is `unfit`, there is to be no next one.
    """

    why: str
    blamed: str = ""
    unfit: bool = False


class Zygote:
    """A process that job processes are forked from, from its start on."""

    def __init__(self, key: Key, names: Sequence[str], now: float) -> None:
        """Execute it.

        Raises:
            OSError: The interpreter could not be executed.
            ValueError: Nor can any with these variables.
        """
        self.key = key
        self.names = tuple(names)
        self.ready = False
        self.environment: Mapping[str, str] = {}
        self.spare: Seedling | None = None
        self._importing = ""
        self._heard_at = now
        with ExitStack() as opened:
            self._sock, far = channel.pair()
            opened.enter_context(self._sock)
            self._said_fd = os.memfd_create("grn-said", os.MFD_CLOEXEC)
            opened.callback(os.close, self._said_fd)
            with far:
                channel.send(self._sock, {"preload": list(names), "path": list(key.sys_path)})
                self.process = self._execute(far.fileno())
            opened.pop_all()
        self._sock.setblocking(False)

    def _execute(self, fd: int) -> "subprocess.Popen[bytes]":
        key = self.key
        words = [key.interpreter, *key.flags, "-P", "-c", BOOT, key.package_dir]
        return subprocess.Popen(
            [*words, str(fd), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said_fd,
            pass_fds=[fd],
            cwd="/",
            env=dict(key.environment),
            start_new_session=True,
        )

    def fileno(self) -> int:
        return self._sock.fileno()

    def hear(self, now: float) -> Ended | None:
        """Take what it says; tell if it is over with it."""
        try:
            while (packet := channel.receive(self._sock)) is not None:
                self._heard_at = now
                channel.close_all(packet.fds)
                if ended := self._take(packet.header):
                    return ended
        except BlockingIOError:
            late = not self.ready and now - self._heard_at > IMPORT_S
            return Ended("it takes too long", self._importing) if late else None
        except (OSError, ValueError) as error:
            return Ended(str(error))
        return self._death()

    def _take(self, header: Mapping[str, object]) -> Ended | None:
        if "refused" in header:
            name = str(header["refused"])
            return Ended(str(header.get("why")), name, unfit=not name)
        if "importing" in header:
            self._importing = str(header["importing"])
        if "ready" in header:
            self.ready, self._importing = True, ""
            found = header.get("environment")
            self.environment = dict(found) if isinstance(found, dict) else {}
        return None

    def _death(self) -> Ended:
        try:
            status = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            return Ended("it closed its socket", self._importing)
        said = os.pread(self._said_fd, SAID_BYTES, 0).decode(errors="replace").strip()
        why = (said.splitlines() or [f"it ended with status {status}"])[-1]
        # Whoever kills it, the kernel short of memory for one, has nothing against a module.
        return Ended(why, "" if status == -9 else self._importing)

    def fork(self) -> Seedling:
        """Give a keeper that is being forked: the spare one, if that lives.

        Raises:
            OSError: It cannot be asked for one.
        """
        spare, self.spare = self.spare, None
        if spare is not None:
            if (keeper := spare.keeper()) and keeper.lives:
                return spare
            spare.close()
            if keeper is not None:
                keeper.wait(0)
        return self._ask()

    def keep_spare(self) -> None:
        """Have one forked in advance.

        Raises:
            OSError: It cannot be asked for one.
        """
        if self.spare is None:
            self.spare = self._ask()

    def _ask(self) -> Seedling:
        with ExitStack() as far, ExitStack() as near:
            ctl, far_ctl = channel.pair()
            near.enter_context(ctl)
            far.enter_context(far_ctl)
            job, far_job = channel.pair()
            near.enter_context(job)
            far.enter_context(far_job)
            said_fd = os.memfd_create("grn-said", os.MFD_CLOEXEC)
            near.callback(os.close, said_fd)
            fds = [far_ctl.fileno(), far_job.fileno(), said_fd]
            channel.send(self._sock, {"fork": True}, fds=fds)
            near.pop_all()
        return Seedling(ctl, job, said_fd)

    def end(self) -> list[ForkedKeeper]:
        """Kill it and let go of its spare; what it has forked for others goes on.

        Returns:
            What is to be reaped besides its own process, which is killed but not reaped.
        """
        left = self.drop_spare()
        self._sock.close()
        os.close(self._said_fd)
        self.process.kill()
        return left

    def drop_spare(self) -> list[ForkedKeeper]:
        """Let go of the spare one, which then has to be reaped."""
        spare, self.spare = self.spare, None
        keeper = spare.keeper() if spare else None
        if spare is not None:
            spare.close()
        return [keeper] if keeper else []
