"""What keys do in the live view: they choose a job, say what is shown, and give orders."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ... import wire
from ...facts import JobRow, Scene
from ..common import printable
from ..listing import called
from ..states import HELD, state_of
from .pages import HELP, WATCHING_HELP
from .screen import KEYS, Shown, row_at
from .styled import Line, Span, clipped

_STEPS: Final = {"up": -1, "k": -1, "down": 1, "j": 1}
WATCHING_KEYS: Final = "↑↓ move  ? help  q quit"
# What follows a name shall be seen, too.
_NAME: Final = 24
# What a broker tells at once; screens are smaller.
MOST_ROWS: Final = 200


class Mode(Enum):
    """What has the screen, and so the keys."""

    LIST = "list"
    CONFIRM = "confirm"
    HELP = "help"
    LOG = "log"


# What stands in the place of the list when one of these keys is pressed.
_PAGES: Final = {"c": Mode.CONFIRM, "l": Mode.LOG, "enter": Mode.LOG}
_PAUSED: Final = {True: "is paused: no more jobs start", False: "goes on"}
_HELD: Final = {True: "held", False: "released"}


@dataclass(frozen=True, slots=True)
class Leave:
    """End the view."""


@dataclass(frozen=True, slots=True)
class Look:
    """Ask for the scene now: another part of the list is to be seen."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Send this to the broker."""

    message: wire.Message


Wish = Leave | Look | Tell


class View:
    """The list, the place in it, and what was asked for; knows no terminal and no clock."""

    def __init__(self, title: str = "grn top", *, watching: bool = False) -> None:
        """Begin at the top of the list.

        Args:
            watching: Only look: nothing is cancelled, held or paused from here.
        """
        self.title = title
        self.mode = Mode.LIST
        self.scene: Scene | None = None
        self.chosen = 0
        self.first = 0
        self.subject: JobRow | None = None
        self._watching = watching
        self._page = 1
        self._notice = ""
        self._when_done = ""

    @property
    def total(self) -> int:
        """How many jobs the whole list has."""
        return self.scene.queued + self.scene.running if self.scene else 0

    @property
    def help(self) -> Sequence[tuple[str, str]]:
        """What the keys do."""
        return WATCHING_HELP if self._watching else HELP

    @property
    def row(self) -> JobRow | None:
        """The chosen job, as far as it is known."""
        return row_at(self.scene, self.chosen)

    def window(self) -> tuple[int, int]:
        """Which part of the list to ask for: what is seen, and as much on either side."""
        return max(0, self.first - self._page), min(MOST_ROWS, 3 * self._page)

    def set_page(self, jobs: int) -> None:
        """Have so many lines for jobs."""
        self._page = max(1, jobs)
        self._move_to(self.chosen)

    def hear(self, scene: Scene) -> None:
        """Take in how things are now; who was chosen stays so, wherever its line has gone."""
        before = self.row
        self.scene = scene
        place = self.chosen
        for at, row in enumerate(scene.rows, scene.first):
            if before is not None and row.job_id == before.job_id:
                place = at
        self._move_to(place)

    def hear_answer(self, answer: wire.Message) -> None:
        """Say what became of the last order."""
        match answer:
            case wire.Acted(_, (undone, *_)):
                self._notice = f"{self._subject()} {undone.why}"
            case wire.Cancelling(()):
                self._notice = f"{self._subject()} has ended already"
            case wire.Acted() | wire.Cancelling():
                self._notice = self._when_done
            case wire.Refused():
                self._notice = answer.text

    def press(self, key: str) -> list[Wish]:
        """Do what a key stands for, here or by these wishes."""
        self._notice = ""
        match self.mode:
            case Mode.CONFIRM:
                return self._confirm(key)
            case Mode.HELP:
                self.mode = Mode.LIST
                return []
            case Mode.LOG:
                if key in ("q", "esc"):
                    self.mode = Mode.LIST
                return []
            case Mode.LIST:
                return self._act(key) or self._move(key)

    def _act(self, key: str) -> list[Wish]:
        if key == "q":
            return [Leave()]
        if key == "?":
            self.mode = Mode.HELP
        elif self._watching:
            return []
        elif key == "p" and self.scene is not None:
            paused = not self.scene.paused
            return self._tell(wire.Pause(paused), f"the queue {_PAUSED[paused]}")
        elif key == "h" or key in _PAGES:
            return self._act_on(key, self.row)
        return []

    def _act_on(self, key: str, row: JobRow | None) -> list[Wish]:
        self.subject = row
        if row is None:
            self._notice = "there is no job to choose"
        elif key in _PAGES:
            self.mode = _PAGES[key]
        else:
            held = state_of(row) != HELD
            when_done = f"{self._subject()} is {_HELD[held]}"
            return self._tell(wire.Hold((row.job_id,), held), when_done)
        return []

    def _confirm(self, key: str) -> list[Wish]:
        self.mode = Mode.LIST
        if key not in ("y", "Y") or self.subject is None:
            self._notice = f"{self._subject()} goes on"
            return []
        message = wire.Cancel((self.subject.job_id,), interrupt=False)
        return self._tell(message, f"{self._subject()} is being cancelled")

    def _tell(self, message: wire.Message, when_done: str) -> list[Wish]:
        self._when_done = when_done
        return [Tell(message), Look()]

    def _subject(self) -> str:
        if self.subject is None:
            return "it"
        return f"job {self.subject.number} ({clipped(called(self.subject), _NAME)})"

    def _move(self, key: str) -> list[Wish]:
        places = {
            **{name: self.chosen + step for name, step in _STEPS.items()},
            "pgup": self.chosen - self._page,
            "pgdn": self.chosen + self._page,
            "home": 0,
            "end": self.total - 1,
        }
        if key not in places:
            return []
        before = self.first
        self._move_to(places[key])
        return [Look()] if self.first != before else []

    def _move_to(self, place: int) -> None:
        """Choose that place, or the nearest there is, and have it on the screen."""
        self.chosen = max(0, min(place, self.total - 1))
        lowest = max(0, self.chosen - self._page + 1)
        self.first = min(max(self.first, lowest), self.chosen)
        self.first = max(0, min(self.first, self.total - self._page))

    def shown(self, rate: float | None, trouble: str) -> Shown:
        """What the frame says beside the scene."""
        return Shown(self.title, self.first, self.chosen, rate, trouble, self._footer())

    def _footer(self) -> Line:
        if self.mode is Mode.CONFIRM:
            return [Span(f"Cancel {printable(self._subject())}? y/n", "warning")]
        if self._notice:
            return [Span(printable(self._notice), "warning")]
        return [Span(WATCHING_KEYS if self._watching else KEYS, "faint")]
