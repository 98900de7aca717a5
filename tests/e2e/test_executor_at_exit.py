"""What becomes of an executor that its program never shut down."""

import signal
from pathlib import Path

import pytest

from tests.e2e.scripts import (
    all_leases_are_freed,
    end_of,
    run_script,
    running_script,
    write_script,
)
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]

# argv: a directory in which jobs leave their numbers, and how the program ends.
SUBMITS = """
import atexit, sys, time
from pathlib import Path

place = Path(sys.argv[1])

@atexit.register  # before ours, so after it: a library that takes its time to leave
def leave():
    deadline = time.monotonic() + 1
    while not (place / "1").exists() and time.monotonic() < deadline:
        time.sleep(0.01)

def note(n):
    (place / str(n)).touch()
    while n == 0 and not (place / "gate").exists():
        time.sleep(0.01)

pool = grn.Executor(max_workers=1)
pool.submit(note, 9).result()  # measured: from now on jobs begin beside each other
futures = [pool.submit(note, n) for n in range(6)]
if sys.argv[2] == "raises":
    while not (place / "0").exists():
        time.sleep(0.01)
    raise SystemError("boom")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path / "submits.py", SUBMITS)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    return place


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_at_a_normal_end_all_that_was_submitted_runs(script: Path, place: Path) -> None:
    (place / "gate").touch()

    done = run_script(script, place, "ends")

    assert (done.returncode, done.stderr) == (0, "")
    assert names(place) == [*"0123459", "gate"]


def test_after_an_exception_nothing_more_is_started(script: Path, place: Path) -> None:
    done = run_script(script, place, "raises")

    assert done.returncode == 1
    assert done.stderr.endswith("SystemError: boom\n"), done.stderr
    all_leases_are_freed(10)
    assert names(place) == ["0", "9"]


def test_ctrl_c_ends_the_wait_at_the_end_and_nothing_more_is_started(
    script: Path, place: Path
) -> None:
    with running_script(script, place, "ends") as process:
        until((place / "0").exists)

        process.send_signal(signal.SIGINT)
        end_of(process, 10)

    all_leases_are_freed(10)
    assert names(place) == ["0", "9"]
