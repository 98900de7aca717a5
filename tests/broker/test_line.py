import math

import pytest

from broker.line import Line, Point, fit


def through(*pairs: tuple[float, float]) -> Line:
    line = fit([Point((x,), value, 1.0) for x, value in pairs])
    assert line is not None
    return line


def test_a_line_goes_through_two_points() -> None:
    line = through((8, 100), (16, 180))

    assert line.at((12,)) == pytest.approx(140)
    assert line.at((32,)) == pytest.approx(340)
    assert line.residual == pytest.approx(0, abs=1e-6)


def test_a_plane_goes_through_two_and_a_space_through_three_numbers() -> None:
    plane = fit([Point((x, y), 5 + 2 * x + 3 * y, 1) for x in (1, 2) for y in (10, 40)])
    space = fit(
        [Point((x, y, z), x + 2 * y - 3 * z, 1) for x in (1, 2) for y in (3, 5) for z in (7, 8)]
    )

    assert plane is not None
    assert plane.at((1.5, 20)) == pytest.approx(68)
    assert space is not None
    assert space.at((1, 4, 9)) == pytest.approx(-18)


def test_the_residual_says_how_far_points_are_off() -> None:
    line = through((0, 10), (1, 30), (2, 30), (3, 50))

    assert 3 < line.residual < 7


def test_what_was_seen_more_often_weighs_more() -> None:
    often = fit([Point((0,), 0, 1), Point((1,), 100, 10), Point((1,), 200, 1)])

    assert often is not None
    assert often.at((1,)) == pytest.approx(1200 / 11)


def test_one_point_makes_no_line() -> None:
    assert fit([Point((8,), 100, 1)]) is None
    assert fit([Point((8,), 100, 1), Point((8,), 120, 3)]) is None
    assert fit([Point((8, 1), 100, 1), Point((16, 1), 200, 1)]) is None


def test_points_that_leave_a_direction_open_make_no_plane() -> None:
    assert fit([Point((n, 2 * n), 100 * n, 1) for n in (1, 2, 3, 4)]) is None


def test_a_number_that_never_changed_has_no_slope() -> None:
    line = fit([Point((n, 7), 100 * n, 1) for n in (1, 2, 3)])

    assert line is not None
    assert line.slopes[0] == pytest.approx(100)
    assert line.slopes[1] == 0
    assert line.inside((2, 7))
    assert not line.inside((2, 8))


def test_tiny_and_huge_numbers_stand_side_by_side() -> None:
    line = fit(
        [Point((a * 1e-6, b * 1e9), a + b, 1) for a, b in ((1, 1), (2, 5), (3, 2), (4, 7))]
    )

    assert line is not None
    assert line.at((2.5e-6, 3e9)) == pytest.approx(5.5)


def test_the_range_is_that_of_each_number() -> None:
    line = through((8, 1), (64, 2), (32, 3))

    assert line.inside((8,))
    assert line.inside((64,))
    assert not line.inside((65,))
    assert line.beyond((64,)) == 0
    assert line.beyond((120,)) == pytest.approx(1)
    assert line.beyond((1,)) == pytest.approx(7 / 56)


def test_any_line_is_finite() -> None:
    line = through((-(2.0**63), 1), (2.0**63, 1e12))

    assert math.isfinite(line.at((0.0,)))
    assert math.isfinite(line.beyond((1e300,)))
