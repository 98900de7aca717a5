"""Ratios, bounds and verdicts of a benchmark: arithmetic, no clock."""

import pytest

from benchmarks.claims import ORDER, RATES, all_claims
from benchmarks.peers import PEERS
from grn_zmq.bench.claims import Claim, R, judge, own_claims, seen
from grn_zmq.bench.figures import Book, grouped, ratio
from grn_zmq.bench.plan import ROWS
from grn_zmq.bench.sizes import FULL, QUICK, SHORT, SIZES, Size
from tests.benchmarks.books import a_book, a_measurement


def test_the_better_of_two_looks_at_the_echo_counts() -> None:
    one = a_measurement(rate=[1.0])

    assert one.echo_rate == 10_000
    assert one.echo_p50_s == 100e-6


def test_a_ratio_is_of_medians_in_one_run() -> None:
    ours = a_measurement(rate=[9.0, 100.0, 10.0])
    ray = a_measurement(contender="ray", rate=[5.0, 1.0, 7.0])
    claim = Claim("noop", "x", "rate", against="ray", must=1.0)

    assert seen(claim, a_book(ours, ray)) == 2.0


def test_a_figure_is_compared_with_the_echo_around_it() -> None:
    book = a_book(a_measurement(rate=[20_000.0]), a_measurement("latency", p50_s=[400e-6]))
    rate, latency = own_claims(FULL)[:2]

    assert seen(rate, book) == pytest.approx(2.0)
    assert seen(latency, book) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("at_most", "figure", "verdict"),
    [
        (False, 2.0, "aim"),
        (False, 1.0, "must"),
        (False, 0.9, "no"),
        (True, 1.0, "aim"),
        (True, 2.0, "must"),
        (True, 2.1, "no"),
    ],
)
def test_a_verdict_is_aim_must_or_no(at_most: bool, figure: float, verdict: str) -> None:
    must, aim = (2.0, 1.0) if at_most else (1.0, 2.0)
    claim = Claim("noop", "x", "rate", at_most=at_most, must=must, aim=aim)

    assert judge(claim, a_book(a_measurement(rate=[figure]))).verdict == verdict


def test_what_was_not_measured_is_missing_and_not_failed() -> None:
    claim = Claim("noop", "x", "rate", against="ray", must=8.0)

    assert judge(claim, a_book(a_measurement(rate=[1.0]))).verdict == "missing"
    assert judge(claim, Book()).verdict == "missing"
    assert judge(claim, Book()).seen is None


def test_a_figure_without_bounds_is_only_seen() -> None:
    claim = Claim("noop", "x", "rate", against=R)

    assert judge(claim, a_book(a_measurement(rate=[5_000.0]))).verdict == ""


def test_nothing_is_divided_by_nothing() -> None:
    assert ratio(1.0, None) is None
    assert ratio(None, 1.0) is None
    assert ratio(1.0, 0.0) is None
    assert ratio(3.0, 2.0) == 1.5


def test_samples_are_kept_by_series_in_order() -> None:
    assert grouped([("a", 1.0), ("b", 2.0), ("a", 3.0)]) == {"a": [1.0, 3.0], "b": [2.0]}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_every_claim_is_on_a_row_that_exists_and_a_peer_that_takes_part(size: Size) -> None:
    claims = all_claims(size)

    assert {one.row for one in claims} == set(ORDER)
    assert set(ROWS) <= set(ORDER)
    for claim in claims:
        if claim.against in PEERS:
            assert claim.row in PEERS[claim.against].rows
    assert set(RATES) < set(PEERS)


def test_a_full_run_takes_the_median_of_at_least_five() -> None:
    assert min(FULL.repeats, FULL.fills, FULL.starts) >= 5
    assert (FULL.queued, FULL.drained, FULL.queued_few) == (100_000, 100_000, 1_000)
    assert FULL.large_bytes == 256 << 20
    assert QUICK.deadline_s <= SHORT.deadline_s <= FULL.deadline_s
