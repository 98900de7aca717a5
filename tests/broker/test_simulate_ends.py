"""Policies that must end every job and do not: said, and with a status that says it too."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from broker.simulate import __main__ as command
from broker.simulate import cases
from broker.simulate.cases import Case, Scene, play, stream_of
from broker.simulate.metrics import NothingDone, figures_of
from broker.simulate.policies import BY_NAME, COLD, Policy
from broker.simulate.story import Life, Story
from broker.simulate.whatif import answers_of, cases_to_compare

TINY = ["--jobs", "30", "--devices", "2", "--policy", "cold", "--processes", "1"]
# Nobody repairs what runs out of memory; with no room for doubt something does.
CARELESS = replace(COLD, oom_retries=0, settings=BY_NAME["sticky"].settings)


def simulate(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(command.main, [*TINY, *words])
    return done.exit_code, done.output


def pretend(monkeypatch: pytest.MonkeyPatch, policy: Policy) -> None:
    """Play another policy in the place of ours."""
    monkeypatch.setattr(cases, "BY_NAME", {**BY_NAME, "cold": policy})


def test_a_policy_of_ours_that_drops_jobs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert simulate()[0] == 0
    pretend(monkeypatch, CARELESS)

    status, said = simulate("--workload", "adversary", "--jobs", "100")

    assert status == 1
    assert "grn simulate: jobs never ended" in said
    assert "of 100 under ours, cold (adversary, load 3, seed 1)" in said


def test_what_if_does_not_call_it_all_done(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, CARELESS)

    status, said = simulate(
        "--workload", "adversary", "--jobs", "100", "--what-if-devices", "+1"
    )

    assert status == 1
    assert "NEVER ENDED" in said
    assert "2 devices: all done" not in said


def test_a_policy_that_ends_nothing_is_named() -> None:
    stream = stream_of(Scene("sweep", 1, 5, 1), 3.0)
    story = Story(stream, "cold", [Life(job) for job in stream.jobs], [[(0.0, 0)]])

    with pytest.raises(NothingDone, match="no job of sweep ever succeeded: ours, cold"):
        figures_of(story, COLD)


def test_the_answer_is_the_median_of_all_seeds() -> None:
    asked = [Case(Scene("sweep", seed, 30, 1), "cold", 3.0) for seed in (1, 2, 3)]
    results = {case: play(case)[1] for case in cases_to_compare(asked, 1)}

    (answer,) = answers_of(results, 1)

    now = sorted(results[case].makespan_s for case in asked)
    assert answer.seeds == 3
    assert answer.makespan_s[0] == now[1]
    assert answer.lines()[1].strip().startswith("1 device: all done after ")
