"""What is promised to a job, by what is known: each source of an estimate, and its doubt."""

import math
import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cells import By, Cell
from broker.estimates import (
    Estimate,
    Kind,
    above_bound,
    from_cell,
    from_failures,
    from_prior,
    from_settled,
    from_stand_in,
    on_other_class,
    split,
)
from broker.line import Numbers
from broker.models import Model
from tests.builders import MIB


def from_others(numbers: tuple[float, ...], others: Mapping[Numbers, Cell]) -> Estimate | None:
    """What a model of the other runs says."""
    model = Model.of(others)
    return None if model is None or not numbers else model.estimate(numbers)


def a_cell(*peaks: int, **changes: int) -> Cell:
    """A cell that was measured at these MiB."""
    mean = sum(peaks) / len(peaks) * MIB if peaks else 0.0
    squares = sum((peak * MIB - mean) ** 2 for peak in peaks)
    most = max(peaks, default=0) * MIB
    runs = len(peaks)
    cell = Cell(runs=runs, trust=runs, mean_bytes=mean, squares=squares, max_bytes=most)
    for name, value in changes.items():
        setattr(cell, name, value * MIB if name.endswith("_bytes") else value)
    return cell


def cells_of(**peaks: int) -> dict[Numbers, Cell]:
    """`n8=100`: with n=8 it was measured at 100 MiB."""
    return {(float(name[1:]),): a_cell(peak) for name, peak in peaks.items()}


def sure(found: Estimate | None) -> Estimate:
    assert found is not None
    return found


def mib(found: Estimate | None) -> float:
    return sure(found).lease_bytes / MIB


def doubt(found: Estimate | None) -> float:
    """How far one such job may be off, as a part of what it is promised."""
    one = sure(found)
    return math.hypot(one.noise_bytes, one.bias_bytes) / one.lease_bytes


def test_what_was_measured_is_promised_as_its_largest_peak() -> None:
    found = sure(from_cell(a_cell(10, 900, 300)))

    assert found.kind is Kind.MEASURED
    assert found.lease_bytes == found.sure_bytes == 900 * MIB
    assert found.runs == 3


def test_the_margin_shrinks_as_evidence_grows() -> None:
    doubts = [doubt(from_cell(a_cell(*[100] * runs))) for runs in (1, 2, 5, 20, 100)]

    assert doubts == sorted(doubts, reverse=True)
    assert doubts[0] == pytest.approx(0.06 * math.sqrt(2), rel=0.01)
    assert doubts[-1] < 0.011


def test_runs_that_differ_leave_more_doubt_than_equal_ones() -> None:
    equal = from_cell(a_cell(*[100] * 10))
    various = from_cell(a_cell(60, 140, 60, 140, 60, 140, 60, 140, 60, 140))

    assert doubt(various) > 2 * doubt(equal)


def test_other_code_widens_the_doubt_and_keeps_the_figure() -> None:
    before = from_cell(a_cell(*[100] * 50))
    after = from_cell(a_cell(*[100] * 50, trust=2))

    assert sure(after).lease_bytes == sure(before).lease_bytes
    assert doubt(after) > 3 * doubt(before)


def test_nothing_is_promised_from_nothing() -> None:
    assert from_cell(Cell()) is None
    assert from_failures(Cell()) is None
    assert from_stand_in(Cell()) is None
    assert from_others((8.0,), {}) is None
    assert from_others((), {(): a_cell(100)}) is None


def test_r29_two_failures_teach_a_lower_bound() -> None:
    once = a_cell(failures=1, bound_bytes=100)
    twice = a_cell(failures=2, bound_bytes=100)

    assert from_failures(once) is None
    assert mib(from_failures(twice)) == pytest.approx(108, abs=0.1)
    assert sure(from_failures(twice)).kind is Kind.BOUND
    assert doubt(from_failures(twice)) == pytest.approx(0.30)


def test_r32_one_out_of_memory_teaches_a_lower_bound() -> None:
    found = from_failures(a_cell(ooms=1, bound_bytes=600))

    assert mib(found) > 600


def test_what_failed_above_the_successes_raises_them() -> None:
    cell = a_cell(*[100] * 20, bound_bytes=600)

    found = sure(from_cell(cell))

    assert mib(found) == pytest.approx(648, abs=0.1)
    assert found.bias_bytes >= 0.1 * found.lease_bytes
    assert found.sure_bytes == 100 * MIB


def test_what_failed_below_the_successes_changes_nothing() -> None:
    assert from_cell(a_cell(100, bound_bytes=90)) == from_cell(a_cell(100))


def test_what_failed_at_the_level_of_the_successes_changes_nothing() -> None:
    """Runs succeed at that level: the failure had another reason."""
    assert from_cell(a_cell(100, bound_bytes=100)) == from_cell(a_cell(100))


def test_r107_a_stand_in_gives_a_first_figure_and_never_an_exact_one() -> None:
    found = sure(from_stand_in(a_cell(stand_in_bytes=100)))

    assert found.kind is Kind.STAND_IN
    assert found.lease_bytes == int(108 * MIB)
    assert found.sure_bytes == 0
    assert doubt(found) == pytest.approx(0.15)


def test_a_declared_size_is_promised_as_it_is_with_wide_doubt() -> None:
    found = from_prior(500 * MIB)

    assert found.lease_bytes == found.sure_bytes == 500 * MIB
    assert found.kind is Kind.PRIOR
    assert doubt(found) == pytest.approx(0.30)


def test_a_settled_run_vouches_with_a_margin() -> None:
    found = from_settled(100 * MIB)

    assert found.lease_bytes == int(108 * MIB)
    assert found.kind is Kind.SETTLED
    assert doubt(found) == pytest.approx(0.15)


def test_another_model_of_device_gets_more_room_and_is_sure_of_nothing() -> None:
    here = sure(from_cell(a_cell(*[100] * 50)))
    there = on_other_class(here)

    assert mib(there) == pytest.approx(108, abs=0.1)
    assert doubt(there) > 0.12
    assert there.sure_bytes == 0


SIZES = (8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256)


def linear(size: float) -> float:
    """Weights and context of 900 MiB, and 40 MiB a sample."""
    return 900 + 40 * size


@pytest.mark.parametrize("seen", [(8, 64, 256), (8, 16, 256), (8, 192, 256)])
def test_three_sizes_predict_the_others_between_them(seen: tuple[int, ...]) -> None:
    others: dict[Numbers, Cell] = {(float(size),): a_cell(int(linear(size))) for size in seen}

    for size in set(SIZES) - set(seen):
        found = from_others((float(size),), others)
        assert sure(found).kind is Kind.MODELLED
        assert 1.0 <= mib(found) / linear(size) <= 1.25, size


@pytest.mark.parametrize("seed", range(20))
def test_three_sizes_predict_the_others_although_runs_differ_by_3_percent(seed: int) -> None:
    noise = random.Random(seed)
    others: dict[Numbers, Cell] = {
        (float(size),): a_cell(*(int(linear(size) * noise.gauss(1, 0.03)) for _ in range(3)))
        for size in (8, 64, 256)
    }

    for size in set(SIZES) - {8, 64, 256}:
        found = from_others((float(size),), others)
        assert 1.0 <= mib(found) / linear(size) <= 1.25, size


def test_neighbours_that_were_seen_bound_the_line() -> None:
    """Memory that jumps: the line would be far above at 9, and far below at 200."""
    others = cells_of(n8=100, n16=1000, n256=1000)

    assert mib(from_others((9.0,), others)) <= 1000 * 1.08
    assert mib(from_others((200.0,), others)) == pytest.approx(1080, abs=1)
    assert mib(from_others((12.0,), others)) >= 100 * 1.08


def test_memory_that_falls_with_the_number_is_not_clamped() -> None:
    others = cells_of(n8=1000, n16=500, n32=300)

    assert 300 < mib(from_others((12.0,), others)) < 1000


def test_above_the_range_nothing_below_the_largest_is_promised() -> None:
    others = cells_of(n8=100, n16=200, n32=400)
    falling = cells_of(n8=400, n16=300, n32=200)

    assert sure(from_others((64.0,), others)).kind is Kind.EXTRAPOLATED
    assert mib(from_others((64.0,), others)) == pytest.approx(864, abs=1)
    assert mib(from_others((33.0,), falling)) >= 100


def test_the_further_out_the_more_doubt() -> None:
    others = cells_of(n8=100, n16=200, n32=400)
    doubts = [doubt(from_others((n,), others)) for n in (40.0, 100.0, 1000.0, 100_000.0)]

    assert doubts == sorted(doubts)
    assert doubts[0] >= 0.12
    assert doubts[-1] > 3 * doubts[0]


def test_below_the_range_at_least_half_of_the_smallest_is_promised() -> None:
    others = cells_of(n64=1000, n128=2000, n256=4000)

    assert mib(from_others((1.0,), others)) == pytest.approx(500, abs=1)
    assert mib(from_others((60.0,), others)) == pytest.approx(1012.5, abs=1)


def test_with_one_size_known_smaller_ones_get_as_much() -> None:
    others = cells_of(n64=1000)

    assert mib(from_others((32.0,), others)) == 1000
    assert doubt(from_others((32.0,), others)) == pytest.approx(0.05 * math.sqrt(2))


def test_with_one_size_known_larger_ones_get_more_in_proportion() -> None:
    others = cells_of(n64=1000)

    assert mib(from_others((128.0,), others)) == pytest.approx(1800, abs=1)
    assert mib(from_others((65.0,), others)) == pytest.approx(1080, abs=1)
    assert doubt(from_others((128.0,), others)) == pytest.approx(0.15)


def test_sizes_that_never_succeeded_are_no_points() -> None:
    others: dict[Numbers, Cell] = {
        (8.0,): a_cell(100),
        (16.0,): a_cell(failures=5, bound_bytes=9000),
    }

    assert mib(from_others((16.0,), others)) < 250


def test_two_numbers_make_a_plane() -> None:
    others: dict[Numbers, Cell] = {
        (float(size), float(width)): a_cell(500 + 10 * size + 2 * width)
        for size in (8, 64)
        for width in (100, 400)
    }

    found = from_others((32.0, 200.0), others)

    assert 1.0 <= mib(found) / (500 + 320 + 400) <= 1.25
    assert sure(found).kind is Kind.MODELLED
    assert sure(from_others((32.0, 500.0), others)).kind is Kind.EXTRAPOLATED


def test_three_numbers_make_a_space() -> None:
    others: dict[Numbers, Cell] = {
        (a, b, c): a_cell(int(300 + 10 * a + 5 * b + c))
        for a in (1.0, 50.0)
        for b in (1.0, 50.0)
        for c in (1.0, 50.0)
    }

    assert 1.0 <= mib(from_others((20.0, 30.0, 40.0), others)) / 690 <= 1.25


def test_names_are_apart_and_numbers_are_together() -> None:
    by: By = (("amp", True), ("batch", 8), ("lr", 0.1), ("net", "resnet"))

    group, numbers = split(by)

    assert numbers == (8.0, 0.1)
    assert group == (("amp", True), ("net", "resnet"), ("batch", "#"), ("lr", "#"))
    assert split((("batch", 8),))[0] == split((("batch", 16),))[0]
    assert split((("batch", 8),))[0] != split((("width", 8),))[0]
    assert split((("net", "a"), ("n", 1)))[0] != split((("net", "b"), ("n", 1)))[0]


def test_the_fourth_number_counts_as_a_name() -> None:
    group, numbers = split((("a", 1), ("b", 2), ("c", 3), ("d", 4)))

    assert numbers == (1.0, 2.0, 3.0)
    assert ("d", 4) in group


def test_what_is_no_number_to_reckon_with_is_a_name() -> None:
    assert split((("x", math.nan), ("y", math.inf), ("z", True), ("s", "8")))[1] == ()


# What may travel as a value of `by`, the extremes included.
numbers = st.floats(-(2.0**62), 2.0**62)


@given(
    st.dictionaries(st.tuples(numbers, numbers), st.integers(0, 10**6), min_size=1, max_size=6),
    st.tuples(numbers, numbers),
)
def test_any_numbers_give_a_finite_estimate(
    peaks: dict[tuple[float, float], int], asked: tuple[float, float]
) -> None:
    others: dict[Numbers, Cell] = {at: a_cell(peak) for at, peak in peaks.items()}

    found = sure(from_others(asked, others))

    assert found.lease_bytes >= 0
    assert 0 <= found.noise_bytes < math.inf
    assert 0 <= found.bias_bytes < math.inf


def test_a_number_next_to_nothing_gives_a_finite_estimate() -> None:
    found = sure(from_others((1.0,), {(5e-324,): a_cell(100)}))

    assert found.lease_bytes >= 100 * MIB
    assert found.bias_bytes < math.inf


def test_a_bound_never_lowers_what_is_promised() -> None:
    found = from_prior(500 * MIB)

    for bound in (0, 1, 499, 500, 501, 10_000):
        raised = above_bound(found, a_cell(bound_bytes=bound))
        assert raised.lease_bytes >= max(500, bound) * MIB
