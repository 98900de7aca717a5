"""L10, R52, R57, R59: whose the memory of a GPU is. Figures are MiB."""

from collections.abc import Mapping

from grn_zmq.units import MIB
from workers.devices.attribution import Attribution, Reading, attribute

A, B, OTHER, STRANGER = 11, 12, 21, 1_000_011


def a_reading(used: int, by_pid: Mapping[int, int | None] | None = None) -> Reading:
    return Reading(
        used * MIB,
        {pid: None if n is None else n * MIB for pid, n in (by_pid or {}).items()},
    )


def whose(
    now: Reading,
    owners: Mapping[int, str | None],
    *keys: str,
    quiet: Reading | None = None,
) -> tuple[dict[str, int], int, set[str]]:
    found: Attribution = attribute(now, owners, keys, quiet or a_reading(0))
    by_tree = {key: count // MIB for key, count in found.by_tree.items()}
    return by_tree, found.foreign_bytes // MIB, set(found.seen)


def test_l10_each_tree_has_what_its_processes_have() -> None:
    now = a_reading(800, {A: 100, B: 700})

    assert whose(now, {A: "a", B: "b"}, "a", "b") == ({"a": 100, "b": 700}, 0, {"a", "b"})


def test_r52_the_rest_is_foreign() -> None:
    now = a_reading(950, {A: 100, OTHER: 800})

    assert whose(now, {A: "a", OTHER: None}, "a") == ({"a": 100}, 850, {"a"})


def test_a_job_that_uses_no_gpu_is_not_seen() -> None:
    now = a_reading(830, {OTHER: 800})

    assert whose(now, {OTHER: None}, "a") == ({"a": 0}, 830, set())


def test_r59_unknown_memory_of_the_only_job_is_what_the_device_gained() -> None:
    now = a_reading(350, {A: None})

    assert whose(now, {A: "a"}, "a", quiet=a_reading(50)) == ({"a": 300}, 50, {"a"})


def test_r59_what_others_gained_or_lost_meanwhile_is_theirs() -> None:
    quiet = a_reading(250, {OTHER: 200})

    grown = whose(
        a_reading(850, {A: None, OTHER: 500}), {A: "a", OTHER: None}, "a", quiet=quiet
    )
    left = whose(a_reading(350, {A: None}), {A: "a"}, "a", quiet=quiet)

    assert grown == ({"a": 300}, 550, {"a"})
    assert left == ({"a": 300}, 50, {"a"})


def test_r59_a_job_beside_readable_ones_has_what_they_do_not_have() -> None:
    now = a_reading(800, {A: None, B: 600})

    assert whose(now, {A: "a", B: "b"}, "a", "b") == ({"a": 200, "b": 600}, 0, {"a", "b"})


def test_r59_several_unknown_jobs_share_the_gain_and_teach_nothing() -> None:
    now = a_reading(850, {A: None, B: None})

    found = whose(now, {A: "a", B: "b"}, "a", "b", quiet=a_reading(50))

    assert found == ({"a": 400, "b": 400}, 50, set())


def test_r59_unknown_memory_of_a_stranger_is_not_taken_for_a_job_that_is_not_listed() -> None:
    now = a_reading(350, {OTHER: None})

    assert whose(now, {OTHER: None}, "a", quiet=a_reading(50)) == ({"a": 0}, 350, set())


def test_a_listed_process_holds_something_whatever_the_figures_say() -> None:
    found = attribute(a_reading(40, {A: None}), {A: "a"}, ["a"], a_reading(50))

    assert found.by_tree == {"a": 1}


def test_r57_a_process_of_another_namespace_is_the_only_jobs() -> None:
    now = a_reading(350, {STRANGER: 300})

    assert whose(now, {}, "a", quiet=a_reading(50)) == ({"a": 300}, 50, {"a"})


def test_r57_a_process_that_was_there_before_any_job_is_foreign() -> None:
    quiet = a_reading(300, {STRANGER: 300})

    assert whose(a_reading(400, {STRANGER: 400}), {}, "a", quiet=quiet) == (
        {"a": 0},
        400,
        set(),
    )


def test_r57_a_driver_that_lists_nobody_still_shows_the_gain() -> None:
    quiet = a_reading(50)

    assert whose(a_reading(350), {}, "a", quiet=quiet) == ({"a": 300}, 50, {"a"})
    assert whose(a_reading(80), {}, "a", quiet=quiet) == ({"a": 0}, 80, set())


def test_memory_that_vanished_makes_nothing_negative() -> None:
    now = a_reading(100, {A: 300})

    assert whose(now, {A: "a"}, "a", quiet=a_reading(500)) == ({"a": 300}, 0, {"a"})


def test_processes_in_trees_have_owners_and_strangers_have_none() -> None:
    now = a_reading(950, {A: 100, OTHER: 800})

    found = attribute(now, {A: "a", OTHER: None}, ["a"], a_reading(0))

    assert found.owners == {A: "a"}


def test_r57_a_process_of_another_namespace_has_the_only_job_as_its_owner() -> None:
    now = a_reading(350, {STRANGER: 300})

    alone = attribute(now, {}, ["a"], a_reading(50))
    one_of_two = attribute(now, {}, ["a", "b"], a_reading(50))
    before_any = attribute(now, {}, ["a"], a_reading(350, {STRANGER: 300}))

    assert alone.owners == {STRANGER: "a"}
    assert one_of_two.owners == before_any.owners == {}
