"""Broker and workers apart: pools join by address, each runs what fits it, and stays."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq.discovery import find_address
from grn_zmq.paths import find_places
from tests.cli.scripts import Running, run
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("home")]

WHERE = "sh -c 'echo on $GRN_DEVICE'"
SMALL, LARGE = "host:0", "host:1"


def devices() -> dict[str, dict[str, object]]:
    """What the broker has, by name; nothing while there is none."""
    done = run("grn", "devices", "--json")
    return (
        {one["device"]: one for one in json.loads(done.stdout)} if done.returncode == 0 else {}
    )


def a_broker() -> Running:
    broker = Running("grn-broker")
    until(lambda: find_address(find_places(os.environ)), 20, broker.said)
    return broker


def pool(*words: str) -> Running:
    """A pool that is not told which broker is there by anything but its options."""
    elsewhere = {"XDG_RUNTIME_DIR": "/nowhere", "GRN_NAME": "other"}
    return Running("grn-workers", "--max-jobs", "4", *words, environment=elsewhere)


@pytest.fixture(scope="module")
def broker(home: Path) -> Iterator[Running]:
    """A broker alone."""
    with a_broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def pools(broker: Running) -> Iterator[tuple[Running, Running]]:
    """A small device that joined by the broker's directory, a large one by its address."""
    directory = find_places(os.environ).directory
    address = f"ipc://{directory}/workers/broker.sock"
    with pool("--devices", "host:1x300MiB", "--broker", str(directory)) as small:
        small.until_err("broker found")
        with pool("--devices", "host:1x900MiB", "--broker", address) as large:
            large.until_err("broker found")
            until(lambda: len(devices()) == 2, 20, large.said)
            yield small, large


def placed_on(*words: str) -> list[str]:
    done = run("grn", "run", *words)
    assert done.returncode == 0, done.stderr
    return re.findall(r"on (host:\d)", done.stdout.decode())


def test_g42_workers_join_by_address_and_get_jobs(pools: tuple[Running, Running]) -> None:
    assert {name: one["total_bytes"] for name, one in devices().items()} == {
        SMALL: 300 << 20,
        LARGE: 900 << 20,
    }
    assert len({one["uuid"] for one in devices().values()}) == 2

    assert set(placed_on("--memory", "250MiB", *[WHERE] * 6)) == {SMALL, LARGE}


def test_g43_a_job_runs_only_where_it_fits(pools: tuple[Running, Running]) -> None:
    large = placed_on("--memory", "700MiB", "--type", "large", *[WHERE] * 4)

    assert large == [LARGE] * 4


def test_g43_what_fits_no_worker_is_refused_until_one_joins_that_it_fits(
    pools: tuple[Running, Running],
) -> None:
    directory = str(find_places(os.environ).directory)
    huge = ("--memory", "1100MiB", "--type", "huge", WHERE)
    refused = run("grn", "run", *huge)
    assert refused.returncode == 1
    assert b"the largest device here has 900.0 MiB" in refused.stderr

    with pool("--devices", "host:1x1300MiB", "--broker", directory) as third:
        until(lambda: "host:2" in devices(), 20, third.said)

        assert placed_on(*huge) == ["host:2"]
        third.process.send_signal(signal.SIGTERM)
        assert third.ended() == 0
    until(lambda: set(devices()) == {SMALL, LARGE})


def test_a_pool_that_was_killed_comes_back_under_its_number(
    pools: tuple[Running, Running],
) -> None:
    directory = str(find_places(os.environ).directory)
    with pool("--devices", "host:1x400MiB", "--broker", directory) as first:
        until(lambda: "host:2" in devices(), 20, first.said)
        first.process.kill()
        first.ended()
    with pool("--devices", "host:1x400MiB", "--broker", directory) as second:
        second.until_err("Managing host devices {2}")
        second.until_err("broker found")
        until(lambda: set(devices()) == {SMALL, LARGE, "host:2"}, 20, second.said)


def test_a_pool_that_joined_stays_when_the_broker_is_stopped_and_serves_the_next(
    pools: tuple[Running, Running], broker: Running
) -> None:
    stopped = run("grn", "stop")

    assert stopped.returncode == 0, stopped.stderr
    assert broker.ended() == 0
    for one in pools:
        one.until_err("waiting for the next broker")
        assert one.process.poll() is None
    with a_broker() as following:
        until(lambda: len(devices()) == 2, 20, following.said)
        assert placed_on(WHERE)[0] in (SMALL, LARGE)
        assert run("grn", "stop").returncode == 0


def test_an_address_of_another_machine_is_refused_in_one_line() -> None:
    refused = run("grn-workers", "--broker", "tcp://10.0.0.1:5555")

    (line,) = refused.stderr.decode().splitlines()
    assert refused.returncode == 2
    assert line.startswith("grn-workers: --broker tcp://10.0.0.1:5555 cannot be: ")


def test_a_broker_in_no_directory_is_refused_in_one_line() -> None:
    refused = run("grn-workers", "--broker", "/nowhere/grn")

    (line,) = refused.stderr.decode().splitlines()
    assert refused.returncode == 2
    assert "there is no directory /nowhere" in line


def test_an_option_for_the_name_beside_one_for_the_broker_is_refused() -> None:
    refused = run("grn-workers", "--broker", "/run/grn", "--name", "b")

    assert refused.returncode == 2
    assert b"leave --name out" in refused.stderr
