"""The live view at work: one loop around keys, signals, scenes and the screen."""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Final

import zmq

from ... import wire
from ...facts import JobRow
from ..tables import use_colours
from .feed import Feed
from .following import Followed
from .fullscreen import FullScreen, Signals
from .keys import Keys
from .pace import Pace
from .pages import help_page, log_page
from .screen import layout, render
from .styled import Span, filled, in_ascii
from .topview import Leave, Look, Mode, Tell, View, Wish

EVERY_S: Final = 1.0
# What a job prints is looked for more often: people wait for it.
LOG_EVERY_S: Final = 0.25
# After an escape character, the rest of a key that sends several comes within this.
ESCAPE_S: Final = 0.05
# As shells have it: the status of a program that a signal has ended.
BY_SIGNAL: Final = 128

_NOBODY: Final = wire.Refused("", "there is no broker that could be told", ())


class Live:
    """Draws until it is left, by a key or a signal, or until all is done."""

    def __init__(
        self,
        view: View,
        *,
        every_s: float = EVERY_S,
        done: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare; `run` takes the terminal.

        Args:
            every_s: How long a scene is good for.
            done: Asked in every turn; the view ends once it says so.
        """
        self._view = view
        self._every_s = every_s
        self._done = done
        self._keys = Keys()
        self._pace = Pace()
        self._followed: Followed | None = None
        self._due = 0.0
        self._again = False
        self._left = False
        self._colour = use_colours()
        self._ascii_only = "utf" not in (sys.stdout.encoding or "").lower()

    @property
    def left(self) -> bool:
        """Whether somebody wanted to leave, before all was done."""
        return self._left

    def run(self) -> int:
        """Show it; give the status to leave with: 0, or 128 and the signal that ended it."""
        with ExitStack() as stack:
            self._feed = stack.enter_context(closing(Feed()))
            self._signals = stack.enter_context(Signals())
            self._screen = stack.enter_context(FullScreen())
            stack.callback(self._follow, None)
            self._fit()
            while not (self._left or self._signals.ended_by or self._done()):
                now = time.monotonic()
                self._look(now)
                self._draw(now)
                self._wait()
            return BY_SIGNAL + self._signals.ended_by if self._signals.ended_by else 0

    def _look(self, now: float) -> None:
        """Ask for the next scene, if it is time, and read on in a log that is followed."""
        if now >= self._due:
            asked = self._feed.ask(*self._view.window(), now)
            self._again = not asked and self._feed.asking
            self._due = now + self._every_s
        self._follow(self._view.subject if self._view.mode is Mode.LOG else None)

    def _follow(self, row: JobRow | None) -> None:
        """Read on in the log of that job, or stop reading in any."""
        if self._followed is not None and row is not self._followed.row:
            self._followed.close()
            self._followed = None
        if self._followed is None and row is not None:
            self._followed = Followed(row)
        if self._followed is not None:
            self._followed.read_on()

    def _draw(self, now: float) -> None:
        width, height = self._screen.size()
        lines = self._frame(width, height, now)
        texts = [filled(line, width, colour=self._colour) for line in lines]
        self._screen.draw(list(map(in_ascii, texts)) if self._ascii_only else texts)

    def _frame(self, width: int, height: int, now: float) -> list[list[Span]]:
        view = self._view
        if view.mode is Mode.HELP:
            return help_page(view.help, width, height)
        if self._followed is not None:
            return log_page(self._followed.row, self._followed.pane, width, height)
        shown = view.shown(self._pace.per_second, self._feed.trouble(now))
        return render(view.scene, shown, width, height)

    def _wait(self) -> None:
        """Wait until something happens or is due, and take it in."""
        poller = zmq.Poller()
        for source in (self._screen.fileno(), self._signals.fileno(), self._feed.socket):
            if source is not None:
                poller.register(source, zmq.POLLIN)
        ready = dict(poller.poll(round(self._pause_s() * 1000)))
        if self._signals.fileno() in ready:
            self._on_signal()
        if self._screen.fileno() in ready:
            self._on_keys()
        elif self._keys.undecided:
            self._carry_out(self._keys.settle())
        self._on_answers()

    def _pause_s(self) -> float:
        pause_s = max(0.0, self._due - time.monotonic())
        if self._view.mode is Mode.LOG:
            pause_s = min(pause_s, LOG_EVERY_S)
        return min(pause_s, ESCAPE_S) if self._keys.undecided else pause_s

    def _on_signal(self) -> None:
        self._signals.take()
        if self._signals.suspended:
            self._signals.suspended = False
            self._screen.suspend()
        if self._signals.resized:
            self._signals.resized = False
            self._screen.forget()
            self._fit()

    def _on_keys(self) -> None:
        data = self._screen.read()
        if data:
            self._carry_out(self._keys.feed(data))
        else:
            self._left = True  # the terminal is gone

    def _carry_out(self, keys: list[str]) -> None:
        for key in keys:
            for wish in self._view.press(key):
                self._grant(wish)

    def _grant(self, wish: Wish) -> None:
        match wish:
            case Leave():
                self._left = True
            case Look():
                self._due = 0.0
            case Tell(message):
                if not self._feed.tell(message):
                    self._view.hear_answer(_NOBODY)

    def _on_answers(self) -> None:
        for message in self._feed.take():
            if isinstance(message, wire.SceneIs):
                self._pace.note(message.scene.ended, time.monotonic())
                self._view.hear(message.scene)
                self._fit()
                self._due = 0.0 if self._again else self._due
            else:
                self._view.hear_answer(message)

    def _fit(self) -> None:
        """Let the view know how much of the list there is room for."""
        devices = len(self._view.scene.devices) if self._view.scene else 0
        _, height = self._screen.size()
        self._view.set_page(layout(devices, height).jobs)
