"""F44: a type of job that kills its workers."""

from pathlib import Path

import pytest

import grn_zmq as grn
from tests.faults import misdeeds
from tests.faults.harness import System

pytestmark = pytest.mark.e2e


def test_f44_a_type_that_kills_three_workers_is_quarantined_and_others_run_on(
    system: System, tmp_path: Path
) -> None:
    direct = system.direct
    gate = tmp_path / "gate"
    killers = []
    for _ in range(3):
        system.wait_back()
        killer = direct.submit(misdeeds.kill_my_worker, outcome="lost", type="poison")
        killers.append(direct.end(killer))

    assert [type(error) for error in killers] == [grn.JobLost] * 3
    system.wait_back()
    refused = direct.submit(misdeeds.nothing, type="poison")
    assert isinstance(refused.exception(), grn.Quarantined)
    assert "poison" in str(refused.exception())
    beside = direct.submit(misdeeds.wait_for, str(gate), type="harmless")
    gate.touch()
    assert direct.end(beside) is None
    system.settle()
    system.assert_clean()
