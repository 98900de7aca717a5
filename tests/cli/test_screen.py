"""The frames of `grn top`: a scene, what is chosen, and a size make lines."""

import time
from dataclasses import replace
from typing import Any

import pytest

from grn_zmq import wire
from grn_zmq.cli.live.bars import bar, short_bytes
from grn_zmq.cli.live.pages import HELP, KEPT_LINES, WATCHING_HELP, LogPane, help_page, log_page
from grn_zmq.cli.live.screen import Layout, Shown, layout, render, whole
from grn_zmq.cli.live.styled import Span, filled, in_ascii, painted, plain
from grn_zmq.cli.tables import columns_of
from grn_zmq.facts import DeviceRow, JobRow, Scene
from grn_zmq.units import GIB, KIB, MIB, TIB
from tests.builders import a_device, a_device_row, a_job_row

WAITING = {
    "state": "queued",
    "measuring": False,
    "device": "",
    "lease_bytes": 0,
    "used_bytes": 0,
    "peak_bytes": 0,
    "why": "no device has room: it needs 3.1 GiB",
}


def a_scene(rows: tuple[JobRow, ...] = (), devices: int = 2, **changes: Any) -> Scene:
    waiting = sum(row.state == "queued" for row in rows)
    scene = Scene(
        paused=False,
        stopping=False,
        queued=waiting,
        running=len(rows) - waiting,
        ended=0,
        first=0,
        rows=rows,
        devices=tuple(map(a_device_row, range(devices))),
    )
    return replace(scene, **changes)


def jobs(count: int, **changes: Any) -> tuple[JobRow, ...]:
    return tuple(a_job_row(number + 1, **changes) for number in range(count))


def memory(used: int = 0, leased: int = 0, foreign: int = 0, idle: int = 0) -> DeviceRow:
    """A device of 1000 MiB and what has a part of it, in MiB."""
    return replace(
        a_device_row(),
        used_bytes=(used + foreign) * MIB,
        leased_bytes=leased * MIB,
        foreign_bytes=foreign * MIB,
        idle_bytes=idle * MIB,
    )


PLAIN = Shown()


def text_of(
    scene: Scene | None, shown: Shown = PLAIN, width: int = 80, height: int = 24
) -> str:
    return "\n".join(map(plain, render(scene, shown, width, height)))


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (memory(), "··········"),
        (memory(used=300, leased=300), "███·······"),
        (memory(used=300, leased=500), "███░░·····"),
        (memory(leased=500), "░░░░░·····"),
        (memory(used=300, leased=500, foreign=200), "███░░××···"),
        (memory(foreign=1000), "××××××××××"),
        (memory(used=900, leased=900, foreign=500), "█████×××××"),
        (memory(used=10, leased=20, foreign=10), "█░×·······"),
        (memory(used=1, leased=1), "··········"),
        (memory(used=400, leased=300, idle=100), "████······"),
    ],
)
def test_a_bar_tells_used_leased_and_foreign_memory_apart(row: DeviceRow, text: str) -> None:
    spans = bar(row, 10)

    assert plain(spans) == text
    assert len({span.style for span in spans}) == len(spans)


@pytest.mark.parametrize("width", range(4))
def test_a_bar_has_the_width_it_was_given(width: int) -> None:
    assert columns_of(plain(bar(memory(300, 500, 200), width))) == width


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "-"),
        (512, "512B"),
        (20 * KIB, "20.0K"),
        (90 * MIB, "90.0M"),
        (1000 * MIB, "1000M"),
        (GIB - 1, "1.0G"),
        (11 * GIB + 200 * MIB, "11.2G"),
        (80 * GIB, "80.0G"),
        (2 * TIB, "2.0T"),
    ],
)
def test_sizes_fit_into_a_column(size: int, text: str) -> None:
    assert short_bytes(size) == text
    assert len(text) <= 5


def test_a_frame_shows_counts_devices_and_jobs() -> None:
    rows = (a_job_row(7), *(a_job_row(number, **WAITING) for number in (8, 9)))
    scene = a_scene(rows, paused=True, queued=1999)

    lines = text_of(scene, Shown(chosen=1, rate=1.25), width=100).splitlines()

    assert lines[0] == "grn top  1 running  1,999 queued  1.2 ended/s  queue paused"
    assert " ".join(lines[1].split()) == "DEVICE MEMORY TOTAL USED LEASED OTHERS UTIL JOBS"
    assert [line.split()[0] for line in lines[2:4]] == ["host:0", "host:1"]
    assert lines[2].split()[2:] == ["1000M", "300M", "200M", "100M", "-", "1/4"]
    assert lines[4].split("   ") == ["", "", "", "█ used", "░ leased", "× others", "· free"]
    assert " ".join(lines[5].split()) == "JOB STATE DEVICE LEASE USED PRED RUN NAME WHY"
    assert " ".join(lines[6].split()) == "7 measuring host:0 1000M 90.0M - 1.0 s fit"
    assert lines[7].startswith(">     8 queued      -")
    assert lines[8].endswith("fit   no device has room: it needs 3.1 GiB")
    assert lines[-2] == "job 8: no device has room: it needs 3.1 GiB; fit"
    assert lines[-1].endswith("q quit")


@pytest.mark.parametrize("width", [1, 7, 20, 40, 79, 80, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 6, 7, 24, 60])
@pytest.mark.parametrize("devices", [0, 1, 8])
def test_a_frame_fills_every_screen_and_never_more(
    width: int, height: int, devices: int
) -> None:
    scene = a_scene(jobs(9, name="名前 mit Umlauten äöü"), devices)

    frame = render(scene, Shown(chosen=3), width, height)

    assert len(frame) == height
    assert max(columns_of(plain(line)) for line in frame) <= width
    assert {columns_of(filled(line, width, colour=False)) for line in frame} == {width}


def test_devices_leave_half_of_a_screen_to_jobs() -> None:
    assert layout(2, 24) == Layout(devices=2, jobs=16)
    assert layout(8, 24) == Layout(devices=8, jobs=10)
    assert layout(16, 24) == Layout(devices=9, jobs=9)
    assert layout(8, 5) == Layout(devices=0, jobs=0)

    lines = text_of(a_scene(jobs(20), devices=16)).splitlines()

    assert lines[10] == "… and 8 more devices"
    assert [line.split()[0] for line in lines[13:-2]] == [str(one) for one in range(1, 10)]


def test_a_narrow_screen_leaves_out_what_matters_least() -> None:
    narrow = text_of(a_scene(jobs(1)), width=50)

    assert "TOTAL" in narrow
    assert "OTHERS" not in narrow
    assert "STATE" in narrow
    assert "PRED" not in narrow


def test_temperatures_are_shown_where_devices_tell_them() -> None:
    warm = replace(a_device_row(1), temperature_c=61)
    scene = a_scene()

    assert "TEMP" not in text_of(scene)
    lines = text_of(replace(scene, devices=(a_device_row(), warm))).splitlines()
    assert [line.split()[-2] for line in lines[1:4]] == ["TEMP", "-", "61°C"]


def test_devices_are_in_order_and_say_what_is_measured() -> None:
    scene = a_scene()
    devices = tuple(
        replace(a_device_row(index), facts=a_device(index, name="RTX")) for index in (10, 9)
    )

    lines = text_of(replace(scene, devices=devices), width=160).splitlines()

    assert [line.split()[0] for line in lines[2:4]] == ["host:9", "host:10"]
    assert lines[2].endswith("RTX, measuring train.py::fit")


def test_only_the_part_of_the_list_that_fits_is_shown() -> None:
    scene = a_scene(jobs(200)[90:150], queued=1990, running=10, first=90)

    lines = text_of(scene, Shown(first=100, chosen=105)).splitlines()

    numbers = [int(line.replace(">", " ").split()[0]) for line in lines[6:-2]]
    assert numbers == list(range(101, 117))
    assert [line for line in lines if line.startswith(">")] == [lines[11]]
    assert lines[-2].startswith("job 106: ")


def test_a_part_of_the_list_that_is_not_there_yet_is_empty() -> None:
    scene = a_scene(jobs(5), queued=2000)

    lines = text_of(scene, Shown(first=1000, chosen=1010)).splitlines()

    assert set(lines[6:-1]) == {""}


def test_a_job_is_called_by_its_name_its_command_or_its_type() -> None:
    rows = (
        a_job_row(1, name="mine", title="python a.py"),
        a_job_row(2, name="", title="python a.py"),
        a_job_row(3, name="", job_type="/home/me/train.py::fit"),
    )

    lines = text_of(a_scene(rows)).splitlines()

    assert [line.split(" s  ")[1] for line in lines[6:9]] == [
        "mine",
        "python a.py",
        "train.py::fit",
    ]


def test_what_is_unusual_about_a_state_is_said() -> None:
    rows = (
        a_job_row(1, measuring=True, attempt=2),
        a_job_row(2, measuring=False),
        a_job_row(3, **{**WAITING, "waits_for": "held"}),
    )

    lines = text_of(a_scene(rows)).splitlines()

    assert [line[8:19].strip() for line in lines[6:9]] == ["measuring 2", "running", "held"]


def test_the_chosen_job_is_told_of_in_full() -> None:
    row = a_job_row(4, measuring=False, pid=4711, priority=3, wait_s=75.0)

    assert text_of(a_scene((row,)), Shown(chosen=0)).splitlines()[-2] == (
        "job 4: waited 1:15, peak 100.0 MiB, pid 4711, priority 3; fit"
    )


def test_text_of_users_cannot_act_on_the_screen() -> None:
    evil = a_job_row(1, name="a\x1b[2Jb\nc\rd", **{**WAITING, "why": "x\x07\x1b[0m"})

    for line in render(a_scene((evil,)), Shown(chosen=0), 80, 24):
        assert plain(line).isprintable()


def test_trouble_and_stopping_are_in_the_first_line() -> None:
    gone = Shown(trouble="the broker is gone for 3 s")

    assert text_of(None, gone).splitlines()[0] == "grn top  the broker is gone for 3 s"
    assert text_of(a_scene(stopping=True), gone).splitlines()[0] == (
        "grn top  the broker is gone for 3 s  0 running  0 queued  stopping"
    )


def test_a_frame_on_paper_has_as_many_lines_as_it_takes() -> None:
    lines = list(map(plain, whole(a_scene(jobs(40), devices=16, queued=1960), 120)))

    assert len(lines) == 1 + 1 + 16 + 1 + 1 + 40 + 1
    assert lines[-1] == "… and 1,960 more jobs: `grn ps` lists all"
    assert not any(">" in line for line in lines)


def test_colours_are_codes_around_the_same_text() -> None:
    line = [Span("a"), Span("██", "used"), Span("", "bad"), Span("b", "chosen")]

    assert painted(line) == "a\x1b[32m██\x1b[0m\x1b[7mb\x1b[0m"
    assert filled(line, 6, colour=False) == "a██b  "
    assert in_ascii("█░×· é…") == "#-x. ?~"


@pytest.mark.parametrize(("keys", "count"), [(HELP, 8), (WATCHING_HELP, 4)])
def test_the_help_page_names_every_key(keys: Any, count: int) -> None:
    lines = list(map(plain, help_page(keys, 80, 24)))

    assert len(lines) == 24
    assert [line for line in lines if line.startswith("  q ")]
    assert lines.index("") == 1 + count


def test_a_log_shows_the_last_lines_as_a_terminal_would() -> None:
    pane = LogPane()

    pane.add("one\ntwo\r\n\x1b[31mred\x1b[0m\tx\n")
    pane.add("10 %\r")
    pane.add("20 %")

    assert pane.last(10) == ["one", "two", "red     x", "20 %"]
    assert pane.last(2) == ["red     x", "20 %"]
    assert pane.last(0) == []
    page = list(map(plain, log_page(a_job_row(3), pane, 40, 4)))
    assert page == ["job 3 fit", "red     x", "20 %", "q or Esc: back to the list"]


def test_a_log_keeps_no_more_than_it_can_show() -> None:
    pane = LogPane()

    pane.add("line\n" * (KEPT_LINES + 100))

    assert len(pane.last(10 * KEPT_LINES)) == KEPT_LINES
    assert "nothing printed yet" in plain(log_page(a_job_row(), LogPane(), 40, 4)[1])


def test_eight_devices_and_two_thousand_jobs_cost_little() -> None:
    """A turn takes a scene off the wire and draws it; there is one in a second."""
    rows = jobs(150, **{**WAITING, "why": "x" * 100})
    frames = wire.encode(wire.SceneIs(a_scene(rows, devices=8, queued=2000)))
    turns = 20
    begun = time.process_time()

    for turn in range(turns):
        message = wire.decode(frames)
        assert isinstance(message, wire.SceneIs)
        shown = Shown(first=turn, chosen=turn, rate=float(turn))
        for line in render(message.scene, shown, 160, 50):
            filled(line, 160, colour=True)

    assert (time.process_time() - begun) / turns < 0.15
