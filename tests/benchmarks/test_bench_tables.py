"""What a benchmark prints: figures short enough to be read, and nothing that was not seen."""

import pytest

from benchmarks.__main__ import arguments
from benchmarks.plots import bars
from benchmarks.run import contenders, missing
from grn_zmq.bench.claims import Claim, judge
from grn_zmq.bench.figures import Book, Look, Measured
from grn_zmq.bench.sizes import FULL, QUICK, SHORT
from grn_zmq.bench.tables import (
    CONTENDER_HEADERS,
    aligned,
    claim_rows,
    contender_rows,
    markdown,
    number,
)
from tests.benchmarks.books import a_book, a_measurement


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (123_456.0, "123,000"),
        (12.345, "12.3"),
        (0.01234, "0.0123"),
        (999.9, "1,000"),
    ],
)
def test_a_number_has_three_digits_that_count(value: float | None, text: str) -> None:
    assert number(value) == text


def test_a_line_says_what_was_seen_and_what_was_wanted() -> None:
    claim = Claim("noop", "no-op", "rate", unit="B", at_most=True, must=1024.0)

    assert claim_rows([judge(claim, a_book(a_measurement(rate=[2000.0])))]) == [
        ["no-op", "2,000 B", "<= 1,024", "-", "NO"]
    ]
    assert claim_rows([judge(claim, Book())]) == [
        ["no-op", "-", "<= 1,024", "-", "not measured"]
    ]


def test_contenders_stand_beside_the_echo_of_their_own_moment() -> None:
    book = a_book(
        a_measurement(rate=[5_000.0], submits=[8_000.0]),
        a_measurement("latency", p50_s=[1e-3]),
        a_measurement("commands", "tsp", rate=[200.0]),
    )

    limit, ours = contender_rows(book)

    assert limit[:6] == ["bare echo", "9,000", "1", "-", "150 us", "1"]
    assert ours[:6] == ["ours", "5,000", "0.5", "8,000", "1,000 us", "10"]
    assert len(limit) == len(ours) == len(CONTENDER_HEADERS)


def test_a_table_is_aligned_or_markdown() -> None:
    assert aligned(["A", "B"], [["long", "x"]]) == ["A     B", "long  x"]
    assert markdown(["A", "B"], [["1", "2"]]) == ["| A | B |", "| --- | --- |", "| 1 | 2 |"]


def test_trouble_is_told_with_its_row_and_contender() -> None:
    book = a_book(a_measurement(trouble="failed"), a_measurement("latency"))

    assert book.troubles() == ["noop: ours: failed"]


def test_a_machine_that_does_something_else_is_told_by_the_echo() -> None:
    restless = Measured("noop", "ours", {}, (Look(10_000.0, 1e-4), Look(30_000.0, 1e-4)))

    assert "between 10,000 and 30,000 jobs/s" in a_book(restless).unrest()
    assert a_book(a_measurement()).unrest() == ""
    assert Book().unrest() == ""


def test_bars_are_in_order_of_merit() -> None:
    book = a_book(
        a_measurement(rate=[5_000.0]),
        a_measurement("noop", "ray", rate=[20_000.0]),
        a_measurement("latency", "ray", p50_s=[50e-6]),
    )

    rates, times = bars(book)

    assert [name for name, _ in rates] == ["ray", "bare echo", "ours"]
    assert [name for name, _ in times] == ["ray", "bare echo"]
    assert [value for _, value in times] == pytest.approx([0.05, 0.15])


def test_ours_goes_first_and_peers_only_where_they_take_part() -> None:
    assert contenders("noop", ["ray", "tsp"]) == ["ours", "ray"]
    assert contenders("payload", ["ray", "dask"]) == ["ours", "echo", "ray"]
    assert contenders("commands", ["ray", "tsp"]) == ["ours", "tsp"]


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peers.find_spec", lambda name: None)
    monkeypatch.setattr("benchmarks.run.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")

    assert missing(["warm", "noop"], ["celery", "process-pool"]) == {
        "warm": "torch is not installed",
        "celery": "celery, redis, redis-server not installed",
    }


def test_a_command_line_names_rows_peers_and_a_size() -> None:
    asked = arguments(["--only", "latency,noop", "--peers", "none", "--quick"])

    assert (asked.only, asked.peers, asked.size) == (["latency", "noop"], [], QUICK)
    assert arguments([]).size is FULL
    assert arguments(["--short"]).size is SHORT


@pytest.mark.parametrize("words", [["--only", "speed"], ["--peers", "slurm"]])
def test_an_unknown_name_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        arguments(words)

    assert f"'{words[1]}' is none of " in capsys.readouterr().err
