"""One socket to one broker process; used up when that process dies.

A stream that is cut is connected again by the socket itself, without a word to us: the monitor
tells, so that whoever speaks here can greet anew.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import zmq
from zmq.utils.monitor import recv_monitor_message

from . import wire
from .batches import share_of_message
from .discovery import Address
from .failpoints import failpoint
from .pending import Pending
from .records import JobSpec
from .templates import Template

MAX_BATCH_BYTES: Final = 8 << 20
LINGER_MS: Final = 500
# What could not be sent is tried again so soon: the socket has no event for that.
SEND_AGAIN_MS: Final = 10

Outgoing = wire.Message | Pending


@dataclass(frozen=True, slots=True)
class Turn:
    """What a wait has brought."""

    connected: bool
    cut: bool
    readable: bool
    broker_died: bool


class Link:
    """Sends what is queued, receives what comes, and notices cuts and the broker's death."""

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        address: Address,
        wakeup: int,
        refuse: Callable[[wire.Refused], None],
    ) -> None:
        """Connect, without waiting for anybody.

        Args:
            wakeup: A descriptor that ends a wait when something was queued.
            refuse: Is told of jobs that cannot be put into words.

        Raises:
            ProcessLookupError: The broker has died since.
        """
        # One that is not near has no pid here; it is gone when its connection is.
        self._pidfd = os.pidfd_open(address.pid) if address.near else -1
        self._wakeup = wakeup
        self._refuse = refuse
        self._queued: deque[Outgoing] = deque()
        self._unsent: deque[tuple[wire.Frames, bool]] = deque()
        # Whether this broker knows the message for many like calls.
        self.takes_calls = False
        self._socket = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._monitor = self._socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        )
        self._socket.connect(address.clients)
        self._poller = zmq.Poller()
        for source in (self._socket, self._monitor, wakeup):
            self._poller.register(source, zmq.POLLIN)
        if address.near:
            self._poller.register(self._pidfd, zmq.POLLIN)

    def queue(self, messages: Sequence[Outgoing]) -> None:
        """Send later, from the thread of this link; jobs in a row travel in one message."""
        self._queued.extend(messages)

    @property
    def has_news(self) -> bool:
        """Whether something was queued since the last flush."""
        return bool(self._queued)

    @property
    def busy(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._queued or self._unsent)

    def drop_queued(self) -> None:
        """Forget what was not sent: its connection is gone, and all is said again."""
        self._queued.clear()
        self._unsent.clear()

    def wait(self, timeout_s: float | None) -> Turn:
        """Wait until something happens, or something is to be sent."""
        timeout = None if timeout_s is None else round(timeout_s * 1000)
        if self.busy:
            timeout = SEND_AGAIN_MS if timeout is None else min(timeout, SEND_AGAIN_MS)
        ready = dict(self._poller.poll(timeout))
        if self._wakeup in ready:
            os.eventfd_read(self._wakeup)
        events = list(self._events()) if self._monitor in ready else []
        cut = zmq.EVENT_DISCONNECTED in events
        return Turn(
            connected=events[-1:] == [zmq.EVENT_HANDSHAKE_SUCCEEDED],
            cut=cut,
            readable=self._socket in ready,
            broker_died=self._pidfd in ready if self._pidfd >= 0 else cut,
        )

    def _events(self) -> Iterator[int]:
        while self._monitor.poll(0):
            yield recv_monitor_message(self._monitor)["event"]

    def flush(self) -> bool:
        """Send what is queued, as far as the socket takes it; True if jobs were sent."""
        sent_jobs = False
        while self.busy:
            if not self._unsent:
                self._unsent.extend(self._frames(self._next_message()))
                continue
            frames, is_submit = self._unsent[0]
            try:
                self._socket.send_multipart(frames, flags=zmq.DONTWAIT)
            except zmq.Again:
                return sent_jobs
            self._unsent.popleft()
            if is_submit:
                sent_jobs = True
                failpoint("client.submit.sent")
        return sent_jobs

    def messages(self) -> Iterator[wire.Message]:
        """Give what has come.

        Raises:
            BadMessage: By the next step: bytes that are no message. Go on with a new call.
        """
        while True:
            try:
                frames = self._socket.recv_multipart(flags=zmq.DONTWAIT)
            except zmq.Again:
                return
            yield wire.decode(frames)

    def close(self, *, linger: bool) -> None:
        """Let go of everything; with `linger` what was sent has a moment to leave."""
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close(linger=LINGER_MS if linger else 0)
        if self._pidfd >= 0:
            os.close(self._pidfd)

    def _next_message(self) -> Outgoing | list[Pending]:
        """Give a message, or the jobs that travel together in the next one."""
        first = self._queued.popleft()
        if not isinstance(first, Pending):
            return first
        template = first.template if self.takes_calls else None
        most = wire.MAX_JOBS_PER_MESSAGE if template is None else wire.MAX_CALLS_PER_MESSAGE
        jobs, filled = [first], _share(first, template)
        while self._queued and len(jobs) < most:
            following = self._queued[0]
            if not isinstance(following, Pending):
                break
            if self.takes_calls and following.template is not template:
                break
            filled += _share(following, template)
            if filled > 1.0:
                break
            jobs.append(following)
            self._queued.popleft()
        return jobs

    def _frames(self, message: Outgoing | list[Pending]) -> list[tuple[wire.Frames, bool]]:
        """Encode a message; a job that cannot be said is refused here, and it alone."""
        if isinstance(message, Pending):
            message = [message]
        jobs = message if isinstance(message, list) else []
        try:
            said = self._in_words(jobs) if isinstance(message, list) else message
            return [(wire.encode(said), bool(jobs))]
        except ValueError as error:  # BadMessage, or text that is no Unicode
            if len(jobs) > 1:
                return [one for job in jobs for one in self._frames(job)]
            ids = tuple(job.job_id for job in jobs)
            self._refuse(wire.Refused("bad-request", f"cannot be sent: {error}", ids))
            return []

    def _in_words(self, jobs: list[Pending]) -> wire.Message:
        template = jobs[0].template
        if template is None or not self.takes_calls:
            return wire.Submit(tuple(one.spec for one in jobs if one.spec is not None))
        return wire.Calls(
            template.like,
            tuple([one.job_id for one in jobs]),
            tuple([one.payload for one in jobs]),
        )


def _share(job: Pending, template: Template | None) -> float:
    """The part of one message that a job takes, at most; large arguments travel alone."""
    if template is not None:
        return len(job.payload) / MAX_BATCH_BYTES
    spec = job.spec
    return 0.0 if spec is None else _share_of_spec(spec)


def _share_of_spec(spec: JobSpec) -> float:
    values = (text for text in spec.by.values() if isinstance(text, str))
    texts = (spec.job_type, spec.name, spec.stdin, *spec.by, *values, *spec.retry_on)
    texts += (spec.title, spec.on_end, *spec.after, *spec.after_any)
    texts += (*spec.variables, *spec.variables.values())
    return share_of_message(*texts) + len(spec.payload) / MAX_BATCH_BYTES
