"""A broker killed at many random moments of one long run: nobody but the log can tell."""

import json
import random
import time

import pytest

from tests.cli.scripts import run
from tests.faults.forms import pick
from tests.faults.harness import System
from tests.faults.load import Load
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

JOBS = 200
LONGEST_OUTAGE_S = 5.0


def test_a_broker_killed_again_and_again_keeps_every_promise(system: System) -> None:
    kills = pick(10, 100)
    chance = random.Random(kills)
    system.load(4).wait()
    profiles = known()
    gap_s = pick(1.0, 2.0)
    loads = [
        system.load(JOBS // 2, seconds=(0.0, 0.1, 0.3), pause_s=gap_s * kills / JOBS),
        system.load(JOBS // 4, detached=0, seconds=(0.2,), pause_s=2 * gap_s * kills / JOBS),
        system.load(JOBS // 4, detached=4, seconds=(0.1, pick(3.0, 10.0)), pause_s=0.05),
    ]
    outages = []

    for _ in range(kills):
        time.sleep(chance.uniform(0.2, 1.8 * gap_s - 0.2))
        outages.append(kill_under(system, loads))

    system.settle(60)
    assert system.assert_clean() == {"succeeded": JOBS + 4}
    assert set(system.checker().starts().values()) == {1}
    assert len({job_id for _, job_id, *_ in system.ledger.lines()}) == JOBS + 4
    after = known()
    assert profiles
    assert all(after[name] >= runs for name, runs in profiles.items())
    assert system.log().count("which=broker") == kills
    print(f"outages: longest {max(outages):.2f} s, mean {sum(outages) / kills:.2f} s")
    assert max(outages) < LONGEST_OUTAGE_S * PATIENCE


def kill_under(system: System, loads: list[Load]) -> float:
    """Kill the broker; give how long nobody was served. What ran still runs, or is done."""
    before = system.running()
    victim = system.broker_pid()
    told = sum(load.count("accepted") + load.count("told") for load in loads)
    system.kill(victim)
    killed_at = time.monotonic()
    until(lambda: system.broker_pid() != victim, LONGEST_OUTAGE_S)
    system.wait_back(LONGEST_OUTAGE_S)
    outage_s = time.monotonic() - killed_at
    busy = any(load.process.poll() is None for load in loads)
    if busy and system.jobs():
        until(lambda: sum(one.count("accepted") + one.count("told") for one in loads) > told)
    until(lambda: before.items() <= {**system.running(), **finished(system)}.items(), 5)
    return outage_s


def finished(system: System) -> dict[str, int]:
    """The process in which each job that is done was done."""
    lines = system.ledger.lines()
    return {job_id: int(pid) for what, job_id, _, pid in lines if what == "finish"}


def known() -> dict[str, int]:
    """How many runs each profile is made of."""
    rows = json.loads(run("grn", "profiles", "--json").stdout)
    return {f"{row['job_type']} {row['by']} {row['device_class']}": row["runs"] for row in rows}
