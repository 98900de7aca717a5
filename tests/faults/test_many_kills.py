"""A broker killed at many random moments of one long run: nobody but the log can tell."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.scripts import run
from tests.faults.forms import pick
from tests.faults.harness import System
from tests.faults.load import Load
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

JOBS = 200
LONGEST_OUTAGE_S = 5.0
# From one kill to the next, about.
CYCLE_S = pick(1.3, 2.3)
# By how many kills clients are ahead: each has a long job from the first on.
AHEAD = pick(1, 4)


def test_a_broker_killed_again_and_again_keeps_every_promise(system: System) -> None:
    kills = pick(10, 100)
    chance = random.Random(kills)
    system.load(4).wait()
    profiles = known()
    pace = Pace(system.home / "pace", AHEAD / kills)
    loads = [
        start_load(system, kills, pace, JOBS // 2, seconds=(0.0, 0.1, 0.3)),
        start_load(system, kills, pace, JOBS // 4, detached=0, seconds=(0.2, 1.0)),
        start_load(system, kills, pace, JOBS // 4, detached=4, seconds=(0.1, pick(3.0, 15.0))),
    ]
    system.until_running(1)
    outages = []
    busy = 0

    for number in range(kills):
        time.sleep(chance.uniform(0.2, 2 * (CYCLE_S - 0.5) - 0.2))
        busy += bool(system.running())
        outages.append(kill_under(system, loads, pace, (number + 1 + AHEAD) / kills))

    system.settle(60)
    assert system.assert_clean() == {"succeeded": JOBS + 4}
    assert set(system.checker().starts().values()) == {1}
    assert len({job_id for _, job_id, *_ in system.ledger.lines()}) == JOBS + 4
    after = known()
    assert profiles
    assert all(after[name] >= runs for name, runs in profiles.items())
    assert system.log().count("which=broker") == kills
    print(f"outages: longest {max(outages):.2f} s, mean {sum(outages) / kills:.2f} s")
    print(f"jobs were at work at {busy} of {kills} kills")
    assert busy >= 0.9 * kills
    assert max(outages) < LONGEST_OUTAGE_S * PATIENCE


class Pace:
    """Lets clients submit no faster than brokers are killed, so that none dies idle."""

    def __init__(self, path: Path, share: float) -> None:
        self.path = path
        self.set(share)

    def set(self, share: float) -> None:
        draft = self.path.with_suffix(".draft")
        draft.write_text(str(share))
        draft.rename(self.path)


def start_load(system: System, kills: int, pace: Pace, count: int, **order: Any) -> Load:
    """Let a client submit so many jobs, as evenly as the kills allow."""
    pause_s = CYCLE_S * kills / count
    return system.load(count, pause_s=pause_s, pace=str(pace.path), **order)


def kill_under(system: System, loads: list[Load], pace: Pace, share: float) -> float:
    """Kill the broker; give how long nobody was served. What ran still runs, or is done.

    Args:
        share: What part of all jobs may be submitted from then on: some wait for a broker.
    """
    before = system.running()
    victim = system.broker_pid()
    told = sum(load.count("accepted") + load.count("told") for load in loads)
    system.kill(victim)
    killed_at = time.monotonic()
    pace.set(share)
    until(lambda: system.broker_pid() != victim, LONGEST_OUTAGE_S)
    system.wait_back(LONGEST_OUTAGE_S)
    outage_s = time.monotonic() - killed_at
    busy = any(load.process.poll() is None for load in loads)
    if busy and system.jobs():
        until(
            lambda: sum(one.count("accepted") + one.count("told") for one in loads) > told,
            20,
            lambda: "\n".join(load.said() for load in loads) + f"\n{system.log()}",
        )
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
