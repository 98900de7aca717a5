"""Waiting for many jobs: said once which, and again only where the broker may not know."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grn_zmq import wire
from grn_zmq.cli import attending
from grn_zmq.cli.attending import Attendant
from grn_zmq.discovery import Address
from tests.builders import an_id, an_outcome
from tests.cli.puppets import Answer, a_broker
from tests.waiting import PATIENCE

JOBS = [an_id(number) for number in range(1, 121)]


@contextmanager
def attended(
    directory: Path, patch: pytest.MonkeyPatch, answer: Answer
) -> Iterator[tuple[Attendant, list[wire.Message]]]:
    with a_broker(directory, answer) as (clients, heard):
        patch.setattr(attending, "find_broker", lambda: Address(1, 0, clients, ""))
        with Attendant() as attendant:
            yield attendant, heard


def all_of(attendant: Attendant, job_ids: list[str]) -> None:
    """Wait for the end of all of them, as `grn wait` does."""
    left = list(job_ids)
    while left:
        ended = attendant.ended(left, 60.0 * PATIENCE)
        left = [one for one in left if one not in ended]


def test_jobs_that_end_one_by_one_are_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(1, 121))

    def one_more(message: wire.Message) -> wire.Message | None:
        if isinstance(message, wire.Attach | wire.Received):
            number = next(numbers, None)
            return wire.Ended((an_outcome(number),)) if number else None
        return None

    with attended(tmp_path, monkeypatch, one_more) as (attendant, heard):
        all_of(attendant, JOBS)

    attached = [one.job_ids for one in heard if isinstance(one, wire.Attach)]
    assert attached == [tuple(JOBS)]


def test_a_broker_that_has_lost_the_connection_is_told_all_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attending, "LISTEN_S", 0.2)
    state = {"hellos": 0}

    def forgetful(message: wire.Message) -> wire.Message | None:
        match message:
            case wire.Hello():
                state["hellos"] += 1
            case wire.Attach(job_ids) if len(job_ids) < 3 and state["hellos"] == 1:
                return wire.Refused("greet-first", "greet before anything else", ())
            case wire.Attach(job_ids) if state["hellos"] == 2:
                return wire.Ended(tuple(an_outcome(number) for number in (1, 2, 3)))
        return None

    with attended(tmp_path, monkeypatch, forgetful) as (attendant, heard):
        all_of(attendant, JOBS[:3])

    kinds = [one.kind for one in heard if not isinstance(one, wire.Received)]
    assert kinds == ["hello", "attach", "attach", "hello", "attach"]
    assert isinstance(heard[4], wire.Attach)
    assert sorted(heard[4].job_ids) == sorted(JOBS[:3])
