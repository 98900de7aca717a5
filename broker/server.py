"""The broker's shell: two ROUTER sockets, a journal, one poll loop, no decisions.

Everything a turn of the loop has changed is committed before any message of that turn leaves.
"""

import math
import os
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import zmq
from loguru import logger

from grn_zmq import logfiles, wire
from grn_zmq.discovery import Address, BrokerLock
from grn_zmq.failpoints import failpoint
from grn_zmq.lifeline import ending_signals
from grn_zmq.lifelock import shows_life
from grn_zmq.parcels import Parcels
from grn_zmq.paths import Places

from .coalescing import coalesced
from .completing import Completing
from .core import BrokerCore
from .effects import (
    Discard,
    DiscardLog,
    DiscardOf,
    Effect,
    Hook,
    Note,
    Quit,
    Send,
    Unwatch,
    Watch,
)
from .failing import after_commit, before_commit
from .hooks import Hooks
from .journal import Journal, JournalFailed
from .listening import CLIENT, WORKER, Listening
from .logroom import LogRoom
from .outbox import Outbox
from .settings import Settings
from .telling import Telling
from .trimming import Trimming
from .unseen import Unseen
from .watching import Watching, is_stopped

TICK_S: Final = 1.0
RETRY_S: Final = 0.01
# How often to look for socket files that are gone, and for memory that the dead have kept.
LOOK_S: Final = 5.0
# No socket starves the other, and none the tick.
DRAIN: Final = 256
# Last words to clients and workers, when stopped by order.
LINGER_MS: Final = 500

# The statuses a supervisor tells apart: stopped by order, to be started again, broken.
STOPPED: Final = 0
START_AGAIN: Final = 75
BROKEN: Final = 70

# Which side may say what: a client cannot act as a worker, nor the other way round.
_ALLOWED: Final = {CLIENT: wire.FromClient, WORKER: wire.FromWorker}


class BrokerServer:
    """Feeds the core with messages, ends of processes and time, and does what it says."""

    def __init__(
        self,
        places: Places,
        state: Path,
        parcels: Parcels,
        settings: Settings | None = None,
        supervisor_pid: int = 0,
    ) -> None:
        """Take the locks, take back what was kept, and listen.

        Raises:
            BrokerRunning: Another broker of this user is alive.
            StateError: What was kept cannot be used.
            UnsafeDirectory: Others could reach the sockets or the file.
        """
        places.make()
        self._lock = BrokerLock(places)
        failpoint("broker.start.locked")
        self._journal = Journal(state, _boot_id())
        failpoint("broker.start.opened")
        self._places = places
        self._parcels = parcels
        self._supervisor_pid = supervisor_pid or os.getpid()
        self._logs = state.with_name("logs")
        self._hooks = Hooks(self._logs)
        self._log_room = LogRoom(self._logs)
        self._after_commit: list[Discard | DiscardOf | DiscardLog | Hook] = []
        self._sends: list[Send] = []
        self._telling = Telling()
        self._notes: list[Note] = []
        self._watching = Watching()
        self._unseen = Unseen()
        self._trimming = Trimming()
        self._status: int | None = None
        self._look_at = self._sweep_at = 0.0
        self.core = BrokerCore(self._journal.epoch, os.getpid(), settings or Settings())
        self._completing = Completing(self.core, self._journal, self._take)
        self._restore()
        failpoint("broker.start.restored")
        self._context = zmq.Context()
        self._listening = Listening(self._context, places)
        self._outboxes = {
            side: Outbox(socket) for side, socket in self._listening.sockets.items()
        }

    def _restore(self) -> None:
        kept = self._journal.load()
        born = {one.name: self._journal.born(one.name) for one in kept.sessions}
        effects = self.core.restore(kept, time.monotonic())
        watches = [one for one in effects if isinstance(one, Watch)]
        for one in watches:
            self._watching.watch(one.name, one.pid, born[one.name])
        self._take([one for one in effects if not isinstance(one, Watch)])
        self._commit()
        self._sweep()

    def _sweep(self, *, attached: bool = True) -> None:
        """Remove parcels that no job or result names; at the end those of attached jobs too."""
        jobs = [one for one in self.core.book.jobs.values() if attached or one.spec.detached]
        tokens = {job.spec.token for job in jobs if job.live}
        tokens |= {job.outcome.token for job in jobs if job.outcome}
        self._parcels.sweep(tokens - {""}, {job.session for job in jobs if job.live})
        logfiles.sweep(self._logs, self.core.book.jobs)

    def run(self) -> int:
        """Serve until SIGTERM, SIGINT or an order to stop; give the exit status."""
        self._watching.stop_on(*ending_signals())
        self._publish()
        logger.bind(facts={"epoch": self.core.book.epoch}).info("broker ready")
        try:
            self._loop()
            self._close()
        except JournalFailed as error:
            # What the disk did to the last commit is not known: only a new start tells.
            logger.error(f"cannot keep jobs: {error}")
            os._exit(BROKEN)
        except Exception:
            # Nothing of this turn was told to anybody: a new start is at the last commit.
            logger.exception("the broker is broken and leaves")
            os._exit(BROKEN)
        return START_AGAIN if self._status is None else self._status

    def _publish(self) -> None:
        self._lock.publish(
            Address(
                pid=os.getpid(),
                supervisor_pid=self._supervisor_pid,
                clients=f"ipc://{self._places.clients_socket}",
                workers=f"ipc://{self._places.workers_socket}",
            )
        )

    def _loop(self) -> None:
        poller = zmq.Poller()
        for socket in self._listening.filenos():
            poller.register(socket, zmq.POLLIN)
        poller.register(self._watching.fileno(), zmq.POLLIN)
        tick_at = time.monotonic()
        while not self._watching.stopping and self._status is None:
            due = min(tick_at, self.core.next_due)
            idle = all(outbox.empty for outbox in self._outboxes.values())
            wait_s = max(0.0, due - time.monotonic()) if idle else RETRY_S
            ready = dict(poller.poll(math.ceil(wait_s * 1000)))
            heard = False
            for side, socket in self._listening.sockets.items():
                if socket in ready:
                    self._drain(side, socket)
                    heard = True
            if heard:
                self._take(self.core.go_on(time.monotonic()))
            self._notice_disconnected(ready)
            if self._watching.fileno() in ready:
                for name in self._watching.take_gone():
                    self._take(self.core.lose(name, time.monotonic()))
            if time.monotonic() >= due:
                tick_at = self._tick(tick_at)
            self._commit_and_send()

    def _tick(self, tick_at: float) -> float:
        now = time.monotonic()
        failpoint("broker.tick")
        for session in self.core.absent(now):
            # Of one that we cannot see, its life lock tells that it only stands still.
            held = not session.pid and shows_life(self._places.life(session.name))
            if held or is_stopped(session.pid):
                self.core.excuse(session, now)
        self._take(self.core.tick(now))
        if now < tick_at:
            return tick_at
        self._journal.tick()
        self._watching.try_again()
        for name in self._unseen.overdue(now):
            self._take(self.core.lose(name, now))
        self._trimming.tick()
        self._telling.tick()
        self._hooks.go_on()
        self._log_room.tick(now, self.core.is_live)
        self.core.set_disk_full(not self._journal.accepting)
        self._look_after_sockets(now)
        if now >= self._sweep_at:
            self._sweep_at = now + LOOK_S
            self._parcels.sweep_kept()
        return now + TICK_S

    def _look_after_sockets(self, now: float) -> None:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._listening.guard(limit)
        if now < self._look_at or self._listening.closed:
            return
        self._look_at = now + LOOK_S
        if not (self._listening.is_whole and self._lock.is_whole):
            logger.warning("our socket files are gone: making them anew")
            self._listening.bind_again()
            self._lock.take_again()
            self._publish()

    def _drain(self, side: bytes, socket: "zmq.Socket[bytes]") -> None:
        for _ in range(DRAIN):
            try:
                first = socket.recv(flags=zmq.DONTWAIT, copy=False)
            except zmq.Again:
                return
            frames = socket.recv_multipart() if first.more else []
            try:
                message = self._weighed(_by_its_real_pid(wire.decode(frames), first))
                if not isinstance(message, _ALLOWED[side]):
                    raise wire.BadMessage(f"{message.kind} does not belong on this socket")
            except wire.BadMessage as error:
                self._answer_malformed(side + first.bytes, error)
                continue
            if isinstance(message, wire.Hello | wire.Greet):
                self._listening.note_peer(side, first)
            if isinstance(message, wire.Greet):
                self._unseen.greeted(side + first.bytes, message)
            failpoint("broker.received")
            self._take(self.core.react(side + first.bytes, message, time.monotonic()))

    def _answer_malformed(self, peer: bytes, error: wire.BadMessage) -> None:
        """Nothing is changed by it; a client that we know is told, or it would wait."""
        logger.bind(facts={"why": str(error)}).warning("ignored a malformed message")
        if self.core.client_of(peer) is not None:
            self._take([Send(peer, wire.Refused("bad-request", str(error), ()))])

    def _weighed(self, message: wire.Message) -> wire.Message:
        """Add how large the values are that lie in parcels."""
        if not isinstance(message, wire.Finished) or not any(r.token for r in message.results):
            return message
        weighed = [
            replace(one, token_bytes=self._parcels.size_bytes(one.token) or 0)
            if one.token
            else one
            for one in message.results
        ]
        return replace(message, results=tuple(weighed))

    def _notice_disconnected(self, ready: "dict[object, int]") -> None:
        for peer in self._listening.gone(ready):
            self._trimming.note_gone()
            self._unseen.disconnected(peer, time.monotonic())
            session = self.core.client_of(peer)
            if session is not None and is_stopped(session.pid):
                # Ctrl-Z: it is no reason to end its jobs, and it will be back.
                logger.bind(facts={"pid": session.pid}).info("a client stands still")
                continue
            self.core.disconnected(peer, time.monotonic())

    def _take(self, effects: list[Effect]) -> None:
        """Do what can be done at once; what others can see waits for the commit."""
        for effect in effects:
            match effect:
                case Send():
                    self._sends.append(effect)
                case Note():
                    self._notes.append(effect)
                case Watch(name, pid):
                    self._watching.watch(name, pid)
                case Unwatch(name):
                    self._watching.unwatch(name)
                    self._places.life(name).unlink(missing_ok=True)
                case Quit():
                    self._status = STOPPED
                case _:
                    self._after_commit.append(effect)

    def _commit_and_send(self) -> None:
        self._commit()
        effects, self._after_commit = self._after_commit, []
        sends, self._sends = self._sends, []
        for send in coalesced(sends):
            message = self._completing.complete(send)
            self._outboxes[send.peer[:1]].send(send.peer[1:], message, send.protocol)
        for effect in effects:
            match effect:
                case Discard(token):
                    self._parcels.remove(token)
                case DiscardOf(session, needed):
                    self._parcels.remove_session(session, needed)
                case DiscardLog(job_id):
                    logfiles.remove(self._logs, job_id)
                case Hook():
                    self._hooks.add(effect)
        for outbox in self._outboxes.values():
            outbox.flush()
        if effects or sends:
            failpoint("broker.sent")
        notes, self._notes = self._notes, []
        for note in notes:  # nobody need wait for these
            self._telling.tell(note)

    def _commit(self) -> None:
        batch = self.core.take_batch()
        if batch.empty:
            return
        before_commit(batch)
        self._journal.write(batch)
        after_commit(batch)

    def _close(self) -> None:
        self._commit_and_send()
        self._lock.withdraw()
        self._listening.close(LINGER_MS if self._status == STOPPED else 0)
        self._context.term()
        if self._status == STOPPED:
            self._places.sweep()
            self._sweep(attached=False)
            self._hooks.close()  # else they end by themselves: the next broker waits for us
        self._watching.close()
        self._journal.close()
        logger.info("broker stopped")
        sys.stderr.flush()
        self._lock.close()  # last: whoever takes it next makes sockets of the same names


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _by_its_real_pid(message: wire.Message, frame: zmq.Frame) -> wire.Message:
    """Trust the kernel, not the greeting, on who greets: a container counts pids anew."""
    if not isinstance(message, wire.Hello | wire.Greet):
        return message
    # `localhost:<uid>:<gid>:<pid>` on ipc; pid 0 for a peer outside our pid namespace, whose
    # own pid would be somebody else's here.
    pid = str(frame.get("Peer-Address")).rpartition(":")[2]
    return replace(message, pid=int(pid)) if pid.isdigit() else message
