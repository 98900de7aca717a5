"""What is learned of imports, and when a zygote is worth its start."""

from workers.imports import (
    FIRST_PAUSE_S,
    MOST_NAMES,
    MOST_TYPES,
    WORTH_MODULES,
    Learned,
    Plan,
)

HEAVY = {"torch": 1500, "torch._dynamo": 300}


def a_plan(*, launches: int = 1, job_type: str = "fit") -> Plan:
    plan = Plan()
    for _ in range(launches):
        plan.launched(job_type, now=10.0)
    return plan


def test_what_types_import_is_put_together_in_their_order() -> None:
    learned = Learned()
    learned.take("fit", {"numpy": 100, "torch": 1500})
    learned.take("plot", {"numpy": 90, "matplotlib.pyplot": 200})
    learned.take("other", {"scipy": 40})

    assert list(learned.weights(["fit", "plot"]).items()) == [
        ("numpy", 100),
        ("torch", 1500),
        ("matplotlib.pyplot", 200),
    ]


def test_what_a_job_process_says_wrongly_is_not_taken() -> None:
    learned = Learned()

    learned.take("fit", {1: 2, "a": "b", "x" * 1000: 1, "fine": -5})

    assert learned.weights(["fit", "never seen"]) == {"fine": 1}


def test_neither_types_nor_names_fill_the_memory() -> None:
    learned = Learned()
    for number in range(MOST_TYPES + 1):
        learned.take(f"type {number}", {"numpy": 1})
    learned.take("many", {f"name{number}": 1 for number in range(2 * MOST_NAMES)})

    assert not learned.weights(["type 0"])
    assert len(learned.weights(["many"])) == MOST_NAMES


def test_the_first_process_of_light_jobs_is_no_reason_and_the_second_is() -> None:
    assert not a_plan(launches=1).due({"json": 5}, now=10.0)
    assert a_plan(launches=2).due({}, now=10.0)


def test_heavy_imports_are_a_reason_at_once() -> None:
    plan = a_plan(launches=1)

    assert plan.due({"numpy": WORTH_MODULES}, now=10.0)
    assert not plan.due({"numpy": WORTH_MODULES - 1}, now=10.0)


def test_a_zygote_is_followed_by_another_only_if_much_is_missing() -> None:
    plan = a_plan(launches=5)
    plan.begun(HEAVY)

    assert not plan.due(HEAVY, now=10.0)
    assert not plan.due({**HEAVY, "shutil": 1}, now=10.0)
    assert plan.due({**HEAVY, "pandas": 400}, now=10.0)


def test_after_a_death_the_next_start_waits_longer_each_time() -> None:
    plan = a_plan(launches=2)
    plan.died(now=10.0)
    plan.died(now=10.0)

    assert not plan.due({}, now=10.0 + FIRST_PAUSE_S)
    assert plan.due({}, now=10.0 + 2 * FIRST_PAUSE_S)


def test_one_that_served_is_started_again_soon() -> None:
    plan = a_plan(launches=2)
    plan.died(now=10.0)
    plan.served()
    plan.died(now=20.0)

    assert plan.due({}, now=20.0 + FIRST_PAUSE_S)


def test_after_a_rest_light_jobs_begin_anew_and_heavy_ones_are_remembered() -> None:
    plan = a_plan(launches=9)
    plan.begun(HEAVY)
    plan.rest()
    plan.launched("fit", now=1000.0)

    assert not plan.due({}, now=1000.0)
    assert plan.due(HEAVY, now=1000.0)
