"""What one decision costs while very many jobs wait: the row's figure, times our patience."""

import time

import pytest

from benchmarks.decisions import Bench, facts_of
from tests.waiting import PATIENCE

DEVICES = 8
QUEUED = 10_000
CLASSES = 50


@pytest.mark.parametrize("resources", [0, 5])
def test_g41_one_decision_takes_under_five_milliseconds(resources: int) -> None:
    bench = Bench(QUEUED, CLASSES, DEVICES, resources, time.thread_time_ns)
    bench.run(300)

    figures = facts_of(bench)

    assert len(bench.core.book.waiting) > QUEUED - 1000
    assert figures["finish"]["p50_us"] < 5000 * PATIENCE
