"""What keys do in `grn top`, and what is told to the broker; no terminal, no broker."""

from dataclasses import replace
from typing import Any

import pytest

from grn_zmq import wire
from grn_zmq.cli.live.keys import Keys
from grn_zmq.cli.live.pace import Pace
from grn_zmq.cli.live.styled import plain
from grn_zmq.cli.live.topview import Leave, Look, Mode, Tell, View, Wish
from grn_zmq.facts import Scene, Undone
from tests.builders import a_job_row, an_id


def a_scene(first: int = 0, rows: int = 60, total: int = 100, **changes: Any) -> Scene:
    """So many of `total` jobs, from a place in the list on; job 1 is at place 0."""
    scene = Scene(
        paused=False,
        stopping=False,
        queued=total,
        running=0,
        ended=0,
        first=first,
        rows=tuple(a_job_row(place + 1) for place in range(first, min(first + rows, total))),
        devices=(),
    )
    return replace(scene, **changes)


def a_view(scene: Scene | None = None, page: int = 10, **options: Any) -> View:
    view = View(**options)
    view.hear(scene or a_scene())
    view.set_page(page)
    return view


def pressed(view: View, *keys: str) -> list[Wish]:
    return [wish for key in keys for wish in view.press(key)]


def footer(view: View) -> str:
    return plain(view.shown(None, "").footer)


def mode(view: View) -> Mode:
    return view.mode


def first_row(view: View) -> str:
    assert view.row is not None
    return view.row.job_id


@pytest.mark.parametrize(
    ("keys", "chosen", "first"),
    [
        ((), 0, 0),
        (("up",), 0, 0),
        (("down", "j", "down"), 3, 0),
        (("down", "down", "k", "up"), 0, 0),
        (("pgdn",), 10, 1),
        (("pgdn", "pgdn", "pgup"), 10, 10),
        (("end",), 99, 90),
        (("end", "down", "pgdn"), 99, 90),
        (("end", "home"), 0, 0),
        (("end", "up", "up"), 97, 90),
    ],
)
def test_keys_move_through_the_list(keys: tuple[str, ...], chosen: int, first: int) -> None:
    view = a_view()

    pressed(view, *keys)

    assert (view.chosen, view.first) == (chosen, first)


def test_another_part_of_the_list_is_asked_for_at_once() -> None:
    view = a_view()

    assert pressed(view, "down") == []
    assert pressed(view, "pgdn") == [Look()]
    assert view.window() == (0, 30)
    assert pressed(view, "end") == [Look()]
    assert view.window() == (80, 30)
    assert view.row is None


def test_who_is_chosen_stays_chosen_when_others_end() -> None:
    view = a_view()
    pressed(view, "down", "down", "down")

    view.hear(replace(a_scene(), rows=a_scene().rows[2:], queued=98))

    assert (view.chosen, first_row(view)) == (1, an_id(4))


def test_when_the_chosen_job_has_ended_its_place_stays_chosen() -> None:
    view = a_view()
    pressed(view, "down", "down", "down")

    view.hear(replace(a_scene(), rows=(*a_scene().rows[:3], *a_scene().rows[4:]), queued=99))

    assert (view.chosen, first_row(view)) == (3, an_id(5))


@pytest.mark.parametrize("total", [0, 1, 5])
def test_a_list_that_shrinks_keeps_the_choice_within_it(total: int) -> None:
    view = a_view()
    pressed(view, "end")

    view.hear(a_scene(total=total))

    assert (view.chosen, view.first) == (max(0, total - 1), 0)


def test_a_smaller_screen_still_shows_the_chosen_job() -> None:
    view = a_view()
    pressed(view, *("down",) * 9)

    view.set_page(4)

    assert (view.chosen, view.first) == (9, 6)


def test_cancelling_asks_first_and_says_what_became_of_it() -> None:
    view = a_view()

    assert pressed(view, "down", "c") == []
    assert footer(view) == "Cancel job 2 (fit)? y/n"
    assert pressed(view, "y") == [Tell(wire.Cancel((an_id(2),), interrupt=False)), Look()]
    view.hear_answer(wire.Cancelling((an_id(2),)))

    assert footer(view) == "job 2 (fit) is being cancelled"
    view.press("down")
    assert footer(view).endswith("q quit")


@pytest.mark.parametrize("key", ["n", "esc", "q", "enter", "up"])
def test_whatever_is_not_yes_cancels_nothing(key: str) -> None:
    view = a_view()

    assert pressed(view, "c", key) == []
    assert footer(view) == "job 1 (fit) goes on"
    assert mode(view) is Mode.LIST


def test_the_job_that_was_asked_about_is_cancelled_also_if_the_list_moved() -> None:
    view = a_view()
    pressed(view, "c")

    view.hear(replace(a_scene(), rows=a_scene().rows[1:], queued=99))

    assert Tell(wire.Cancel((an_id(1),), interrupt=False)) in pressed(view, "y")


def test_a_job_that_ended_meanwhile_cannot_be_cancelled() -> None:
    view = a_view()
    pressed(view, "c", "y")

    view.hear_answer(wire.Cancelling(()))

    assert footer(view) == "job 1 (fit) has ended already"


def test_holding_is_undone_by_the_same_key() -> None:
    held = a_job_row(1, state="queued", waits_for="held")
    view = a_view()

    assert pressed(view, "h") == [Tell(wire.Hold((an_id(1),), held=True)), Look()]
    view.hear_answer(wire.Acted((an_id(1),), ()))
    assert footer(view) == "job 1 (fit) is held"
    view.hear(_only(held))
    assert pressed(view, "h") == [Tell(wire.Hold((an_id(1),), held=False)), Look()]
    view.hear_answer(wire.Acted((an_id(1),), ()))
    assert footer(view) == "job 1 (fit) is released"


def _only(row: Any) -> Scene:
    return replace(a_scene(), rows=(row,), queued=1)


def test_what_could_not_be_done_is_said_with_its_reason() -> None:
    view = a_view()
    pressed(view, "h")

    view.hear_answer(wire.Acted((), (Undone(an_id(1), "is running"),)))
    assert footer(view) == "job 1 (fit) is running"
    view.hear_answer(wire.Refused("bad-request", "no such thing", ()))
    assert footer(view) == "no such thing"


def test_the_queue_is_paused_and_goes_on_by_the_same_key() -> None:
    view = a_view()

    assert pressed(view, "p") == [Tell(wire.Pause(True)), Look()]
    view.hear_answer(wire.Acted((), ()))
    assert footer(view) == "the queue is paused: no more jobs start"
    view.hear(a_scene(paused=True))
    assert pressed(view, "p") == [Tell(wire.Pause(False)), Look()]


@pytest.mark.parametrize("key", ["l", "enter"])
def test_a_log_is_followed_until_it_is_left(key: str) -> None:
    view = a_view()

    pressed(view, "down", key)
    assert (mode(view), view.subject) == (Mode.LOG, view.row)
    assert pressed(view, "x", "c", "down") == []
    assert mode(view) is Mode.LOG
    assert pressed(view, "q") == []
    assert mode(view) is Mode.LIST


def test_help_is_left_by_any_key() -> None:
    view = a_view()

    pressed(view, "?")
    assert mode(view) is Mode.HELP
    assert pressed(view, "q") == []
    assert mode(view) is Mode.LIST


def test_g46_the_view_is_left_with_q() -> None:
    assert pressed(a_view(), "q") == [Leave()]
    assert pressed(View(), "q") == [Leave()]


@pytest.mark.parametrize("key", ["c", "l", "h", "enter"])
def test_without_jobs_there_is_nothing_to_act_on(key: str) -> None:
    view = a_view(a_scene(total=0))

    assert pressed(view, key) == []
    assert (mode(view), footer(view)) == (Mode.LIST, "there is no job to choose")


def test_before_the_first_scene_keys_do_no_harm() -> None:
    view = View()

    assert pressed(view, "c", "h", "p", "end", "pgup", "x") == []
    assert view.window()[0] == 0


def test_who_only_watches_changes_nothing() -> None:
    view = a_view(title="grn demo", watching=True)

    assert pressed(view, "c", "h", "p", "l", "enter", "y") == []
    assert mode(view) is Mode.LIST
    assert footer(view) == "↑↓ move  ? help  q quit"
    assert len(view.help) == 4
    assert pressed(view, "q") == [Leave()]


def test_text_of_users_cannot_act_on_the_terminal() -> None:
    view = a_view(_only(a_job_row(1, name="evil\x1b[2J")))

    pressed(view, "c")

    assert footer(view).isprintable()


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"jk?", ["j", "k", "?"]),
        (b"\x1b[A\x1b[B\x1bOA\x1bOB", ["up", "down", "up", "down"]),
        (b"\x1b[5~\x1b[6~", ["pgup", "pgdn"]),
        (b"\x1b[H\x1b[F\x1b[1~\x1b[4~\x1bOH\x1bOF", ["home", "end"] * 3),
        (b"\r\n", ["enter", "enter"]),
        (b"\x1b[1;5C\x1b[15~q", ["q"]),
        (b"\x1bq", ["esc", "q"]),
        (b"\xff\xc3\xa4", ["ä"]),
    ],
)
def test_what_terminals_send_becomes_keys(data: bytes, keys: list[str]) -> None:
    assert Keys().feed(data) == keys


def test_a_key_may_come_in_pieces() -> None:
    keys = Keys()

    assert keys.feed(b"j\x1b") == ["j"]
    assert keys.undecided
    assert keys.feed(b"[") == []
    assert keys.feed(b"5") == []
    assert keys.feed(b"~q") == ["pgup", "q"]
    assert not keys.undecided
    assert keys.settle() == []


def test_an_escape_that_nothing_follows_is_a_key() -> None:
    keys = Keys()
    keys.feed(b"\x1b")

    assert keys.settle() == ["esc"]
    assert not keys.undecided


def test_the_pace_is_that_of_the_last_ten_seconds() -> None:
    pace = Pace()

    assert pace.per_second is None
    for second in range(30):
        pace.note(100 if second < 15 else 100 + 3 * (second - 15), now=float(second))

    assert pace.per_second == pytest.approx(3.0)


def test_the_pace_begins_anew_with_another_broker() -> None:
    pace = Pace()
    pace.note(500, now=0.0)
    pace.note(510, now=1.0)
    assert pace.per_second == pytest.approx(10.0)

    pace.note(2, now=2.0)
    assert pace.per_second is None
    pace.note(4, now=4.0)
    assert pace.per_second == pytest.approx(1.0)
