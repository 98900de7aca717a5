"""Questions to a broker that may be dying: an answer, a refusal, or nothing, but soon."""

import time
from pathlib import Path

import pytest

from grn_zmq import wire
from grn_zmq.cli.asking import Asker
from grn_zmq.errors import RequestRefused
from tests.cli.puppets import a_broker


def test_the_answer_is_found_among_other_messages(tmp_path: Path) -> None:
    def answer(message: wire.Message) -> wire.Message | None:
        match message:
            case wire.Hello():
                return wire.Welcome(wire.PROTOCOL, 1, 7)
            case wire.Stop(drain):
                return wire.Stopping(3 if drain else 0, 2)
        return None

    with a_broker(tmp_path, answer) as (address, heard), Asker(address) as asker:
        answered = asker.ask(wire.Stop(True), wire.Stopping, 5.0)
        again = asker.ask(wire.Stop(False), wire.Stopping, 5.0)

    assert (answered, again) == (wire.Stopping(3, 2), wire.Stopping(0, 2))
    assert [message.kind for message in heard] == ["hello", "stop", "stop"]


def test_who_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    begun = time.monotonic()

    with a_broker(tmp_path, lambda _: None) as (address, _), Asker(address) as asker:
        answered = asker.ask(wire.Stop(False), wire.Stopping, 0.1)
        devices = asker.devices(0.1)
        jobs = asker.jobs(0.1)

    assert (answered, devices, jobs) == (None, (), [])
    assert time.monotonic() - begun < 5.0


def test_nobody_at_the_address_is_no_answer(tmp_path: Path) -> None:
    with Asker(f"ipc://{tmp_path}/nobody") as asker:
        assert asker.ask(wire.Stop(False), wire.Stopping, 0.1) is None


def test_a_broker_of_another_version_refuses_at_once(tmp_path: Path) -> None:
    refused = wire.Refused("version", "it speaks protocol 9", ())

    with (
        a_broker(tmp_path, lambda _: refused) as (address, _),
        Asker(address) as asker,
        pytest.raises(RequestRefused, match="protocol 9"),
    ):
        asker.ask(wire.Stop(False), wire.Stopping, 5.0)


@pytest.mark.parametrize("text", ["\udcff", "x" * 2_000_000])
def test_what_no_message_can_say_is_refused_and_not_sent(tmp_path: Path, text: str) -> None:
    with (
        a_broker(tmp_path, lambda _: None) as (address, heard),
        Asker(address) as asker,
        pytest.raises(RequestRefused, match="this cannot be asked"),
    ):
        asker.ask(wire.FindJobs((text,)), wire.JobsFound, 5.0)

    assert "find-jobs" not in [message.kind for message in heard]


def test_a_broker_that_has_lost_the_connection_is_not_waited_for(tmp_path: Path) -> None:
    forgot = wire.Refused("greet-first", "greet before anything else", ())
    begun = time.monotonic()

    with a_broker(tmp_path, lambda _: forgot) as (address, _), Asker(address) as asker:
        assert asker.ask(wire.Stop(False), wire.Stopping, 60.0) is None

    assert time.monotonic() - begun < 30.0
