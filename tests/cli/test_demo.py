"""`grn demo`: its figures, and that it ends cleanly whenever it ends."""

import json
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from grn_zmq.cli.live.demofigures import Ran, Round, facts, progress, summary
from grn_zmq.cli.live.demojobs import KINDS, work
from grn_zmq.units import MIB
from tests.cli.screens import Screen
from tests.cli.scripts import TRACEBACK, Running, run
from tests.waiting import processes_marked, until

MARK = "DEMO_TEST_MARK"
DEVICES = ("host:0", "host:1")


def ran(began: float, ended: float, device: str = "host:0") -> Ran:
    return Ran("small", device, 0, 24 * MIB, 0.5, began, ended)


@pytest.fixture
def apart(home: Path) -> Iterator[Mapping[str, str]]:
    """An environment by which all that a demo starts and writes can be found."""
    places = Path(tempfile.mkdtemp(prefix="grn-"))
    mark = uuid.uuid4().hex
    yield {MARK: mark, "TMPDIR": str(places), "GRN_JOB_ID": uuid.uuid4().hex}
    until(
        lambda: not processes_marked(MARK, mark), 20, lambda: f"{processes_marked(MARK, mark)}"
    )
    assert list(places.iterdir()) == []
    assert [path for path in home.rglob("*") if not path.is_dir()] == []
    shutil.rmtree(places)


def test_the_most_jobs_at_once_are_those_of_one_moment_and_device() -> None:
    one = Round("x", 5.0, [ran(0, 2), ran(1, 3), ran(1.5, 2), ran(2, 4), ran(0, 4, "host:1")])

    assert one.at_once("host:0") == 3
    assert one.at_once("host:1") == 1
    assert one.at_once("host:2") == 0


@pytest.mark.parametrize(
    ("lengths", "devices", "seconds"),
    [
        ((1.0, 2.0, 3.0), 1, 6.0),
        ((1.0, 2.0, 3.0), 2, 4.0),
        ((3.0, 1.0, 1.0), 2, 3.0),
        ((), 2, 0.0),
    ],
)
def test_one_job_per_device_takes_what_the_runs_add_up_to(
    lengths: tuple[float, ...], devices: int, seconds: float
) -> None:
    one = Round("x", 1.0, [ran(10.0, 10.0 + length) for length in lengths])

    assert one.one_per_device_s(devices) == pytest.approx(seconds)


def test_the_summary_compares_with_one_job_per_device() -> None:
    rounds = [
        Round("round 1", 8.0, [ran(0, 4), ran(4, 8, "host:1")]),
        Round("round 2", 2.0, [ran(0, 2), ran(0, 2), ran(0, 2), ran(0, 2, "host:1")]),
    ]

    *_, first, second, _, conclusion = summary(rounds, DEVICES)

    assert first.split() == ["round", "1", "8.0", "s", "1", "1", "4.0", "s"]
    assert second.split() == ["round", "2", "2.0", "s", "3", "1", "4.0", "s"]
    assert conclusion.endswith("one per device takes 2.0 times as long.")
    assert facts(rounds, DEVICES)["rounds"][1]["most_at_once"] == {"host:0": 3, "host:1": 1}


def test_a_line_about_a_job_says_what_was_predicted() -> None:
    known = Ran("large", "host:1", 96 * MIB, 97 * MIB, 0.0, 1.0, 4.0)

    assert progress(ran(0, 1)).split(";")[0].endswith("predicted not known, used 24.0 MiB")
    assert progress(known).endswith("used 97.0 MiB; waited  0.0 s, ran 3.0 s")


def test_a_toy_job_runs_as_long_as_it_says() -> None:
    began, ended = work(4 * MIB, 0.05)

    assert 0.05 <= ended - began < 5.0
    assert len({kind.job.job_type for kind in KINDS}) == len(KINDS) == 3


@pytest.mark.e2e
def test_a_demo_measures_then_packs_and_tells_both_times(apart: Mapping[str, str]) -> None:
    done = run("grn", "demo", "--json", environment=apart, timeout_s=150)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    first, second = told["rounds"]
    assert [len(one["jobs"]) for one in (first, second)] == [12, 12]
    assert {job["device"] for job in second["jobs"]} == set(told["devices"])
    assert sum(job["predicted_bytes"] == 0 for job in first["jobs"]) >= 3
    assert all(job["predicted_bytes"] for job in second["jobs"])
    for job in second["jobs"]:
        kind = next(kind for kind in KINDS if kind.name == job["kind"])
        assert job["peak_bytes"] == pytest.approx(kind.memory_bytes, rel=0.2)
        assert job["run_s"] >= kind.seconds
    assert max(second["most_at_once"].values()) > 1
    assert second["took_s"] < second["one_per_device_s"]
    assert second["one_per_device_s"] >= 12.0


@pytest.mark.e2e
def test_a_demo_on_a_terminal_is_live_and_ctrl_c_leaves_nothing(
    apart: Mapping[str, str],
) -> None:
    with Screen("grn", "demo", environment=apart) as screen:
        screen.until("grn demo, round 1: each kind is new", 60)
        screen.until(" measuring ")
        screen.press(b"c")

        screen.press(b"\x03")

        assert screen.ended(60) == 130
        assert screen.is_given_back()
        assert TRACEBACK not in screen.raw.decode()


@pytest.mark.e2e
def test_a_demo_is_left_with_q(apart: Mapping[str, str]) -> None:
    with Screen("grn", "demo", environment=apart) as screen:
        screen.until(" measuring ", 60)

        screen.press(b"q")

        assert screen.ended(60) == 0
        assert screen.is_given_back()
        assert b"Left in round 1 of 2" in screen.raw


@pytest.mark.e2e
@pytest.mark.parametrize(("signum", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_demo_without_a_terminal_can_be_ended_at_any_time(
    apart: Mapping[str, str], signum: int, status: int
) -> None:
    with Running("grn", "demo", environment=apart) as running:
        running.until_out("Twelve toy jobs")
        if signum == signal.SIGTERM:  # the other one comes while its broker starts
            running.until_out("predicted not known", 60)

        os.kill(running.pid, signum)

        assert running.ended(60) == status
        assert TRACEBACK not in running.err
