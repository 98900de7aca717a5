import pytest

from broker.jobs import LIFE, LIVE, IllegalStep, State, Step
from tests.builders import a_job, an_id


def test_an_illegal_step_changes_nothing_and_names_state_and_step() -> None:
    job = a_job()

    with pytest.raises(IllegalStep, match=f"job {an_id(1)} is queued: it cannot start"):
        job.take(Step.START)
    assert job.state is State.QUEUED


def test_no_step_leads_out_of_an_end() -> None:
    ends = set(State) - LIVE

    assert {state: dict(LIFE[state]) for state in ends} == {state: {} for state in ends}


def test_every_live_state_can_be_cancelled() -> None:
    assert {LIFE[state][Step.CANCEL] for state in LIVE} == {State.CANCELLED}


def test_a_job_whose_worker_died_is_never_run_again_by_itself() -> None:
    assert LIFE[State.ASSIGNED][Step.LOSE_WORKER] is State.LOST
    assert LIFE[State.RUNNING][Step.LOSE_WORKER] is State.LOST


def test_every_state_has_its_place_in_the_table() -> None:
    assert set(LIFE) == set(State)
