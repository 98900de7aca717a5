"""Where jobs that share a device get less done than one after the other, they stop."""

import random

import pytest

from broker.cells import key_of
from broker.sharing import FEWEST, LONGEST_TEST, PEACE, TEST_RUNS, TRY_AGAIN_AFTER, Sharing
from tests.broker.machine import Machine
from tests.builders import a_spec

KEY = key_of("fit", {})


def after(
    runs: int,
    *,
    slower: float,
    sharing: Sharing,
    company: float = 2.0,
    device_class: str = "GPU",
) -> Sharing:
    """So many runs of ten seconds that took `slower` times as long in company."""
    for _ in range(runs):
        sharing.observe(KEY, device_class, company, 10.0, 10.0 * slower)
    return sharing


def test_sharing_pays_until_shown_otherwise() -> None:
    assert Sharing().pays("GPU")


def lost(sharing: Sharing | None = None, device_class: str = "GPU") -> Sharing:
    """Two at once took three times as long, and the test confirmed it."""
    sharing = after(FEWEST, slower=3.0, sharing=sharing or Sharing(), device_class=device_class)
    return after(TEST_RUNS, company=1.0, slower=1.0, sharing=sharing, device_class=device_class)


@pytest.mark.parametrize(
    ("slower", "pays"), [(1.0, True), (1.9, True), (2.0, False), (3.0, False)]
)
def test_two_at_once_must_be_faster_than_one_after_the_other(slower: float, pays: bool) -> None:
    assert after(FEWEST, slower=slower, sharing=Sharing()).pays("GPU") is pays


def test_a_few_runs_are_no_suspicion() -> None:
    sharing = after(FEWEST - 1, slower=5.0, sharing=Sharing())
    assert sharing.pays("GPU")

    assert not after(1, slower=5.0, sharing=sharing).pays("GPU")


def test_a_suspicion_that_the_test_confirms_stops_sharing() -> None:
    sharing = lost()

    after(LONGEST_TEST + PEACE, company=1.0, slower=1.0, sharing=sharing)
    assert not sharing.pays("GPU")


def test_jobs_that_became_longer_by_themselves_are_found_out_by_the_test() -> None:
    """Alone they are as long as beside others: it was not the company that slowed them."""
    sharing = after(FEWEST, slower=3.0, sharing=Sharing())
    assert not sharing.pays("GPU")

    after(TEST_RUNS, company=1.0, slower=3.0, sharing=sharing)
    assert sharing.pays("GPU")
    after(PEACE - 1, slower=3.0, sharing=sharing)
    assert sharing.pays("GPU")


def test_a_test_without_anything_to_compare_ends() -> None:
    sharing = after(FEWEST, slower=3.0, sharing=Sharing())
    for number in range(LONGEST_TEST):
        sharing.observe(key_of(f"other {number}", {}), "GPU", 1.0, 10.0, 10.0)

    assert sharing.pays("GPU")


def test_runs_without_company_say_nothing_about_sharing() -> None:
    assert after(100, company=1.1, slower=5.0, sharing=Sharing()).pays("GPU")


def test_each_model_of_device_is_judged_by_itself() -> None:
    sharing = lost()

    assert not sharing.pays("GPU")
    assert sharing.pays("other")


def test_durations_that_differ_for_other_reasons_do_not_stop_sharing() -> None:
    """Sharing gains a third; single runs are off by a factor of two either way."""
    noise, sharing = random.Random(1), Sharing()
    for _ in range(200):
        sharing.observe(KEY, "GPU", 2.0, 10.0, 15.0 * noise.uniform(0.5, 1.5))
        assert sharing.pays("GPU")


def test_sharing_is_tried_again_later() -> None:
    sharing = lost()

    after(TRY_AGAIN_AFTER - 1, company=1.0, slower=1.0, sharing=sharing)
    assert not sharing.pays("GPU")
    after(1, company=1.0, slower=1.0, sharing=sharing)
    assert sharing.pays("GPU")
    assert not lost(sharing).pays("GPU")


def test_short_runs_and_those_without_a_run_alone_are_left_out() -> None:
    sharing = Sharing()
    for _ in range(50):
        sharing.observe(KEY, "GPU", 2.0, None, 60.0)
        sharing.observe(KEY, "GPU", 2.0, 1.0, 4.9)

    assert sharing.pays("GPU")


def test_a_machine_on_which_sharing_loses_goes_on_one_at_a_time() -> None:
    machine = Machine(1000)
    machine.know(200)
    at_once: list[int] = []
    for first in range(1, 81, 2):  # two at a time, each four times as slow as alone
        machine.submit(a_spec(first), a_spec(first + 1))
        at_once.append(sum(machine.placed(first, first + 1)))
        run_s = 40.0 if at_once[-1] == 2 else 10.0
        for number in (first, first + 1):
            machine.run(number, peak=200, run_s=run_s)

    assert at_once[0] == 2
    assert at_once[-1] == 1

    machine.submit(a_spec(101), a_spec(102))
    assert machine.placed(101, 102) == [True, False]
    assert "sharing was measured to be slower" in machine.why(102)


def test_a_machine_tries_sharing_again_after_many_runs_alone() -> None:
    machine = Machine(1000)
    machine.know(200)
    lost(machine.core.book.sharing, device_class="host")
    machine.submit(a_spec(1), a_spec(2))
    assert machine.placed(1, 2) == [True, False]
    machine.run(1, peak=200)
    machine.run(2, peak=200)

    machine.know(200, runs=TRY_AGAIN_AFTER)

    machine.submit(a_spec(3), a_spec(4))
    assert machine.placed(3, 4) == [True, True]


def test_who_waited_for_an_idle_device_starts_when_sharing_is_tried_again() -> None:
    machine = Machine(1000, 1000)
    machine.know(200)
    machine.know(600, "large")
    sharing = machine.core.book.sharing
    lost(sharing, device_class="host")
    machine.submit(a_spec(1), a_spec(2, job_type="large"))
    machine.submit(a_spec(3))
    assert machine.placed(1, 2, 3) == [True, True, False]

    after(TRY_AGAIN_AFTER, company=1.0, slower=1.0, sharing=sharing, device_class="host")
    for index in (0, 1):
        machine.use(index)
    machine.wait(1.0)

    assert machine.placed(3) == [True]
