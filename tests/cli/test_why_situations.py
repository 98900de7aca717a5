"""`grn why` against a real broker, in one situation after the other."""

import subprocess
from collections.abc import Iterator

import pytest

from grn_zmq.units import MIB
from tests.cli.scripts import script
from tests.cli.verbs import cancel_all, facts, grn, said, submit, until_state
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]

ENDLESS = ("--", "sleep", "1000")


@pytest.fixture(autouse=True)
def _nothing_is_left_to_the_next() -> Iterator[None]:
    yield
    if grn("status").exit_code == 0:
        grn("resume")
        cancel_all()


def code(number: int) -> str:
    found: str = facts("why", str(number))["code"]
    return found


def test_measuring_held_dependency_begin_time_and_a_paused_queue() -> None:
    first = submit("--type", "new", *ENDLESS)
    until_state(first, "running")
    twin = submit("--type", "new", *ENDLESS)
    held = submit("--hold", *ENDLESS)
    after = submit("--after", str(first), *ENDLESS)
    early = submit("--begin", "+2h", *ENDLESS)

    assert code(twin) == "profile"
    assert "waiting for profile of new" in said("why", str(twin))
    assert facts("why", str(twin))["blockers"] == [first]
    assert code(held) == "held"
    assert f"grn release {held}" in said("why", str(held))
    assert code(after) == "dependency"
    assert f"waiting for job {first} (running) to succeed" in said("why", str(after))
    assert code(early) == "begin-time"
    assert facts("why", str(early))["until"].startswith(("for 2:00:0", "for 1:59:"))
    said("pause")
    paused = submit("--type", "other", *ENDLESS)
    assert code(paused) == "paused"


def test_alone_on_every_device_and_no_place() -> None:
    alone = [submit("--exclusive", "--memory", "10M", "--type", "a", *ENDLESS) for _ in "ab"]
    for number in alone:
        until_state(number, "running")
    waits = submit("--type", "never seen", *ENDLESS)
    assert code(waits) == "no-idle-device"
    assert {one["text"] for one in facts("why", str(waits))["devices"]} == {
        "somebody has it alone"
    }
    cancel_all()

    many = [submit("--memory", "10M", "--type", "a", *ENDLESS) for _ in range(5)]
    for number in many[:4]:
        until_state(number, "running")
    reason = facts("why", str(many[4]))
    assert reason["code"] == "no-place"
    assert {(one["jobs"], one["max_jobs"]) for one in reason["devices"]} == {(2, 2)}


def test_a_figure_set_by_hand_is_what_is_needed() -> None:
    said("profiles", "set", "hungry", "600MiB")
    hungry = [submit("--type", "hungry", *ENDLESS) for _ in range(3)]
    for number in hungry[:2]:
        until_state(number, "running")

    reason = facts("why", str(hungry[2]))

    assert reason["code"] == "no-room"
    assert {one["needed_bytes"] for one in reason["devices"]} == {int(600 * MIB * 1.08)}
    assert {one["total_bytes"] for one in reason["devices"]} == {1000 * MIB}


def test_draining_which_ends_the_broker() -> None:
    runs = [submit("--exclusive", "--memory", "10M", "--type", "b", *ENDLESS) for _ in "ab"]
    for number in runs:
        until_state(number, "running")
    stays = submit("--type", "b", *ENDLESS)
    with subprocess.Popen(script("grn", "stop", "--drain"), stdout=subprocess.DEVNULL) as stop:
        until(lambda: code(stays) == "draining")
        reason = facts("why", str(stays))
        said("cancel", *map(str, runs))
        assert stop.wait(30 * PATIENCE) == 0

    assert reason["until"] == "until broker and workers are started again"
