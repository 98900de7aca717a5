"""Queues, and what jobs have and need of them, as they are written and told."""

import pytest

from grn_zmq.capacities import parse_capacity, parse_need, write_capacity, write_need
from grn_zmq.cli.queues.texts import has_text, headline, needs_text, resources_text
from tests.builders import a_job_row
from tests.cli.queuerows import a_queue


def test_a_queue_is_told_in_one_line() -> None:
    left = {"gpu": {"0": "0.5", "1": "1"}, "cpu": {"0": "12"}}
    row = a_queue(capacity="{gpu:2,cpu:[16]}", left=left, queued=1, running=2, ended=1234)
    other = a_queue("", "{cpu:[2]}", max_jobs=3, prefix=("a", "b c"), closing=True)

    assert headline(row) == (
        "Queue q1: gpu 1.5 of 2 left, cpu 12 of 16 left; 1 queued, 2 running, 1,234 ended"
    )
    assert headline(other) == (
        "Outside of queues: cpu 2 of 2 left; deleted, goes with its last running job; at most "
        "3 at once; runs a 'b c' …; 0 queued, 0 running, 0 ended"
    )


def test_g24_what_a_job_has_and_needs_is_told_briefly() -> None:
    granted = {"gpu": {"1": "0.5"}, "cpu": dict.fromkeys("03", "1")}
    row = a_job_row(queue="q1", share="0.5", resources={"cpu": "2"}, granted=granted)

    assert has_text(granted) == "gpu:1=0.5 cpu:0,3"
    assert needs_text(row) == "gpu=0.5 cpu=2"
    assert resources_text(row) == "gpu:1=0.5 cpu:0,3"
    assert resources_text(a_job_row(state="failed", queue="q", gpus=2)) == "gpu=2"
    assert resources_text(a_job_row(state="queued", queue="q", gpus=0)) == ""
    assert resources_text(a_job_row()) == ""
    assert needs_text(a_job_row(gpus=-1, resources={"licence": "1"})) == "gpus=-1 licence=1"


@pytest.mark.parametrize(
    "text",
    [
        "{gpu:4,cpu:16}",
        "{hdd:[32,64,128],RAM:[512]}",
        "{gpu:{'2':1,'4':0.5},x:['1/3']}",
        "{gpu:{'1':1,'0':1}}",
        "{}",
    ],
)
def test_what_is_written_is_read_as_the_same(text: str) -> None:
    assert write_capacity(parse_capacity(text)) == text


@pytest.mark.parametrize("text", ["{gpu:0.5,cpu:4}", "{gpu:1}", "{gpu:-1}", "{x:'1/3'}", "{}"])
def test_what_is_needed_is_written_as_it_is_read(text: str) -> None:
    assert write_need(parse_need(text, "q")) == text
