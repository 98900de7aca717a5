"""What `grn top` costs where there is much to see, and what it does where there is nothing."""

import os
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.scenes import SceneBroker
from tests.cli.screens import Screen
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("home")]

# The part of a core that it may take; on an idle machine it takes less than a hundredth.
MOST = 0.15
LONG_S = 5.0


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_eight_devices_and_two_thousand_jobs_take_a_small_part_of_a_core() -> None:
    with SceneBroker(2000) as broker, Screen("grn", "top", width=160, height=50) as screen:
        screen.until("1,992 queued")
        begun, spent, looks = time.monotonic(), cpu_s(screen.process.pid), broker.looks
        cleared = screen.raw.count(b"\x1b[2J")

        until(lambda: screen.lines and time.monotonic() - begun > LONG_S, LONG_S + 5)

        part = (cpu_s(screen.process.pid) - spent) / (time.monotonic() - begun)
        print(f"grn top: {part:.1%} of a core, {broker.looks - looks} looks in {LONG_S:.0f} s")
        assert part < MOST
        assert broker.looks - looks >= 2
        assert screen.raw.count(b"\x1b[2J") == cleared, "it flickers"
        screen.press(b"q")
        assert screen.ended() == 0


def test_the_whole_list_can_be_seen_a_window_at_a_time() -> None:
    with SceneBroker(2000), Screen("grn", "top", width=100, height=30) as screen:
        screen.until(">     1 ")

        screen.press(b"\x1b[F")
        screen.until(">  2000 ")
        screen.press(b"\x1b[5~")
        screen.until(">  1984 ")
        screen.press(b"\x1b[H")
        screen.until(">     1 ")


def test_a_broker_that_goes_away_is_missed_until_the_next_one_is_there() -> None:
    with ExitStack() as stack:
        with SceneBroker(20):
            screen = stack.enter_context(Screen("grn", "top"))
            screen.until("8 running  12 queued")

        screen.until("the broker is gone for ")
        screen.until("`grn start` starts one")
        screen.press(b"p")
        screen.until("there is no broker that could be told")
        with SceneBroker(30):
            screen.until_gone("the broker is gone")
            screen.until("8 running  22 queued")
            screen.press(b"q")
            assert screen.ended() == 0
