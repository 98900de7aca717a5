"""`grn why`: the text, the figures of every device, and what will end the wait."""

import json
from collections.abc import Iterator

import pytest

import grn_zmq as grn
from grn_zmq.cli.why import HEADERS, cells_of
from grn_zmq.facts import DeviceReason
from grn_zmq.units import MIB
from tests.cli.verbs import cancel_all, facts, said, submit, until_ended, until_state


def a_reason(**changes: object) -> DeviceReason:
    found: dict[str, object] = {
        "device": "host:0",
        "name": "host memory",
        "total_bytes": 1000 * MIB,
        "foreign_bytes": 100 * MIB,
        "idle_bytes": 0,
        "leased_bytes": 600 * MIB,
        "measured_bytes": 50 * MIB,
        "charged_bytes": 600 * MIB,
        "free_bytes": 300 * MIB,
        "needed_bytes": 400 * MIB,
        "headroom_bytes": 0,
        "jobs": 1,
        "max_jobs": 2,
        "text": "100.0 MiB too little",
    }
    return DeviceReason(**(found | changes))  # type: ignore[arg-type]


def test_a_device_is_shown_with_all_its_figures() -> None:
    assert dict(zip(HEADERS, cells_of(a_reason()), strict=True)) == {
        "DEVICE": "host:0",
        "TOTAL": "1000.0 MiB",
        "FOREIGN": "100.0 MiB",
        "LEASED": "600.0 MiB",
        "MEASURED": "50.0 MiB",
        "FREE": "300.0 MiB",
        "NEEDED": "400.0 MiB",
        "JOBS": "1/2",
        "HERE": "100.0 MiB too little",
    }


def test_what_is_not_known_and_what_sharing_needs_are_told() -> None:
    unknown = a_reason(needed_bytes=0, max_jobs=None, text="", free_bytes=-MIB)
    shared = a_reason(headroom_bytes=20 * MIB)

    assert cells_of(unknown)[5:] == ("-1.0 MiB", "?", "1", "-")
    assert cells_of(shared)[6] == "400.0 MiB+20.0 MiB"


@pytest.fixture(scope="module")
def broker(small_server: grn.Server) -> Iterator[grn.Server]:
    yield small_server
    cancel_all()


@pytest.mark.e2e
@pytest.mark.usefixtures("broker")
def test_why_has_the_numbers_of_each_device_and_what_ends_the_wait() -> None:
    running = [submit("--memory", "900M", "--type", "large", "--", "sleep", "60") for _ in "ab"]
    for number in running:
        until_state(number, "running")
    waits = submit("--memory", "700M", "--type", "next", "--", "sleep", "60")

    text = said("why")
    reason = facts("why", str(waits))

    first, header, *devices, last = text.splitlines()
    assert first.startswith(f"Job {waits}: waiting for memory: needs 700.0 MiB")
    assert header.split() == list(HEADERS)
    assert sorted(line.split()[0] for line in devices) == ["host:0", "host:1"]
    assert all("700.0 MiB" in line and "100.0 MiB" in line for line in devices)
    assert last.startswith("It waits until 600.0 MiB more are free on host:")
    assert (reason["number"], reason["code"]) == (waits, "no-room")
    assert set(reason["blockers"]) <= set(running)
    assert {one["needed_bytes"] for one in reason["devices"]} == {700 * MIB}
    assert {one["leased_bytes"] for one in reason["devices"]} == {900 * MIB}
    cancel_all()


@pytest.mark.e2e
@pytest.mark.usefixtures("broker")
def test_who_does_not_wait_is_told_as_such() -> None:
    runs = submit("--memory", "10M", "--type", "small", "--", "sleep", "60")
    over = submit("--memory", "10M", "--type", "small", "--", "sh", "-c", "exit 3")
    until_state(runs, "running")
    until_ended(over)

    assert said("why", str(runs)).startswith(f"Job {runs}: it does not wait: it is running on ")
    assert said("why", str(over)).startswith(f"Job {over}: it does not wait: it failed")
    assert facts("why", str(over))["code"] == "ended"
    cancel_all()


@pytest.mark.e2e
@pytest.mark.usefixtures("broker")
def test_what_never_fits_is_told_with_the_numbers() -> None:
    number = submit("--memory", "5G", "--type", "giant", "--", "true")
    until_ended(number)

    text = said("why", str(number))
    reason = json.loads(said("why", str(number), "--json"))

    assert "5.0 GiB" in text
    assert "1000.0 MiB" in text
    assert "too small" in text
    assert reason["code"] == "never-fits"
