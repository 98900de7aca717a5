"""The shipped race demonstration: two claimers on three GPUs, one visibly waiting."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.conftest import forget_client
from tests.e2e.scene import ROOT
from tests.nvml.driver import TORCH_STUB, FakeDriver
from tests.waiting import PATIENCE

pytestmark = pytest.mark.e2e

SCRIPT = ROOT / "examples" / "race.py"
# Longer than what a claimer waits before it says what for.
SLEEP_S = 2.5


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[FakeDriver]:
    """Three GPUs under a broker."""
    driver = FakeDriver(home / "nvml", [1000] * 3)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in driver.environment().items():
            patch.setenv(name, value)
        patch.setenv("PYTHONPATH", str(TORCH_STUB))
        with grn.start("nvml"):
            yield driver
            forget_client()


def start(number: int, gpus: int) -> "subprocess.Popen[str]":
    options = ("--id", str(number), "--nb-gpus", str(gpus), "--sleep", str(SLEEP_S))
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), "--backend", "pytorch", *options],
        stderr=subprocess.PIPE,
        text=True,
    )


def test_s27_of_two_claimers_one_visibly_waits_for_the_other(machine: FakeDriver) -> None:
    claimers = [start(1, 1), start(2, 2)]
    shown = [one.communicate(timeout=60 * PATIENCE)[1] for one in claimers]

    assert [one.returncode for one in claimers] == [0, 0], shown
    for number, gpus, text in ((1, 1, shown[0]), (2, 2, shown[1])):
        assert len(re.findall(rf"^claimer {number}  [\d:]+  \w+", text, re.MULTILINE)) >= 9
        taken = re.findall(r"working on GPUs \[([\d, ]+)\]", text)
        assert [len(one.split(",")) for one in taken] == [gpus]
        assert text.rstrip().endswith("finished")
    waited = ["still waiting for all devices" in text for text in shown]
    assert any(waited), shown
