"""The protocol as a model, searched to its end; and its mutants, which must be found out."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

MODEL = Path(__file__).with_name("job.pml")
# The whole search takes about 6 s and 420 MiB on an idle core.
SEARCH_S = 60.0

needs_spin = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("gcc")),
    reason="needs spin and gcc (apt-get install spin gcc)",
)
pytestmark = [pytest.mark.e2e, needs_spin]


def search(directory: Path, *defines: str) -> str:
    """Search all states of the model; give what the search has to say."""
    for words in (
        ["spin", "-a", "-DNBC=1", *defines, str(MODEL)],
        ["gcc", "-w", "-O2", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"],
    ):
        made = subprocess.run(
            words, cwd=directory, capture_output=True, text=True, timeout=SEARCH_S * PATIENCE
        )
        assert made.returncode == 0, made.stdout + made.stderr
    return subprocess.run(
        ["./pan", "-E", "-m3000000"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=SEARCH_S * PATIENCE,
    ).stdout


def states(said: str) -> int:
    found = re.search(r"(\d+) states, stored", said)
    assert found, said
    return int(found[1])


@pytest.mark.parametrize("defines", [[], ["-DCANCEL=1"]], ids=["plain", "cancel"])
def test_no_order_of_kills_and_messages_breaks_the_protocol(
    tmp_path: Path, defines: list[str]
) -> None:
    said = search(tmp_path, *defines)

    assert "errors: 0" in said, said
    assert "max search depth too small" not in said
    assert states(said) > 2_000_000  # it was a search, not a model that cannot move
    assert list(tmp_path.glob("*.trail")) == []


@pytest.mark.parametrize(
    "defines",
    [["-DFENCE=0"], ["-DWAL=0"], ["-DCANCEL=1", "-DCANCEL_WAL=0"]],
    ids=["no-fence", "no-write-ahead", "cancel-not-written-ahead"],
)
def test_a_protocol_without_one_of_its_rules_is_found_out(
    tmp_path: Path, defines: list[str]
) -> None:
    said = search(tmp_path, *defines)

    assert "errors: 1" in said, said
    assert "bodyruns" in said
    assert len(list(tmp_path.glob("*.trail"))) == 1
