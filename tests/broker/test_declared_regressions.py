"""What once went wrong with declared needs: broken brokers, jobs that waited for ever."""

from dataclasses import replace
from typing import Any

import pytest

from broker.settings import Settings
from grn_zmq import wire
from grn_zmq.amounts import format_amount, parse_amount
from grn_zmq.records import DeviceProcess, JobSpec
from tests.broker.machine import CLIENT, Machine, worker
from tests.builders import MIB, a_device, a_hello, a_report, a_spec, an_id, held

SETTINGS = Settings(capacity={"cpu": {"0": "2"}}, gather_s=0.0)


def machine(*totals: int, **how: Any) -> Machine:
    return Machine(*totals, settings=SETTINGS, **how)


def errand(number: int, cpu: str = "1", **more: Any) -> JobSpec:
    return a_spec(number, gpus=0, resources={"cpu": cpu}, job_type="errand", **more)


def a_lease(number: int, **more: Any) -> JobSpec:
    facts = {"kind": "lease", "exclusive": True, "function": "", "payload": b""}
    return a_spec(number, job_type="lease", **facts | more)


def wait_long(there: Machine, *indices: int, minutes: int = 30) -> None:
    for _ in range(minutes):
        there.wait(60.0)
        for index in indices:
            there.use(index)


@pytest.mark.parametrize("text", ["1e-40", "1/1001", "0.0000000000001", "1e-13"])
def test_amounts_that_could_not_be_read_again_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        parse_amount(text)


@pytest.mark.parametrize("text", ["1", "0.5", "1/3", "0.000000000001", "999/1000", "1e3"])
def test_what_is_written_of_an_amount_is_read_as_the_same(text: str) -> None:
    assert parse_amount(format_amount(parse_amount(text))) == parse_amount(text)


def test_why_of_an_ended_job_whose_queue_is_gone_is_answered() -> None:
    there = machine(1000)
    there.say(CLIENT, wire.CreateQueue(an_id(5000), "q", {"cpu": {"0": "1"}}, (), None))
    there.submit(a_spec(1, queue="q", gpus=0, kind="command", resources={"cpu": "1"}))
    there.run(1)
    there.say(CLIENT, wire.DeleteQueue("q", end_running=False))

    there.say(CLIENT, wire.AskWhy(an_id(1)))

    assert len(there.sent(wire.WhyIs, CLIENT)) == 1


def test_devices_are_not_asked_for_as_a_resource() -> None:
    with pytest.raises(ValueError, match="gpus, share"):
        a_spec(1, queue="q", gpus=0, resources={"gpu": "0.5"})


def test_a_job_something_is_kept_for_may_be_forgotten_while_the_queue_is_paused() -> None:
    there = machine(1000, 1000)
    there.submit(a_spec(1, exclusive=True))
    there.submit(a_spec(2, gpus=2, job_type="pair", detached=True))
    there.submit(a_spec(3, exclusive=True, job_type="other"))
    there.say(CLIENT, wire.Pause(True))
    there.say(CLIENT, wire.Cancel((an_id(2),), interrupt=False))
    there.say(CLIENT, wire.Clean((an_id(2),)))

    there.say(CLIENT, wire.AskWhy(an_id(3)))

    assert len(there.sent(wire.WhyIs, CLIENT)) == 1


def test_nothing_is_kept_for_who_waits_for_strangers() -> None:
    there = machine(1000)
    there.know(100, "small")
    strangers = (DeviceProcess(4711, 5 * MIB, ""),)
    there.say(worker(0), a_report(foreign_bytes=5 * MIB, processes=strangers))
    there.submit(a_lease(1))

    for _ in range(15):
        there.wait(60.0)
        there.say(worker(0), a_report(foreign_bytes=5 * MIB, processes=strangers))
    there.submit(a_spec(2, job_type="small"))

    assert there.states(1, 2) == ["queued", "assigned"]


def test_nothing_is_kept_for_who_waits_for_an_environment() -> None:
    there = machine(1000)
    there.submit(errand(1, "2", environment="tf"))
    wait_long(there, 0, minutes=15)

    there.submit(errand(2, "2"))

    assert there.states(1, 2) == ["queued", "assigned"]


def test_nothing_is_kept_for_who_waits_for_a_full_queue() -> None:
    there = machine(1000)
    there.know(100, "small")
    there.say(CLIENT, wire.CreateQueue(an_id(5000), "q", {"gpu": {"0": "1"}}, (), 1))
    in_queue = {"queue": "q", "kind": "command"}
    there.submit(a_spec(1, gpus=0, **in_queue), a_spec(2, share="0.5", **in_queue))
    wait_long(there, 0, minutes=15)

    there.submit(a_spec(3, job_type="small"))

    assert there.states(1, 2, 3) == ["assigned", "queued", "assigned"]


def test_what_can_never_be_any_more_is_refused_after_a_restart() -> None:
    there = machine(1000)
    there.submit(errand(1, "2", detached=True))
    there.submit(errand(2, "2", detached=True))

    there.commit()
    there.settings = replace(SETTINGS, capacity={"cpu": {"0": "1"}})
    there.crash()
    there.say(CLIENT, a_hello())
    there.join(0, 1000, inventory=(held(1),))

    assert there.states(1, 2) == ["assigned", "failed"]
    assert "never" in there.outcome(2).error_text


def test_several_devices_of_which_too_few_are_large_enough_are_refused() -> None:
    there = machine(1000, 4000)

    there.submit(a_spec(1, gpus=-1, job_type="large", memory_bytes=2000 * MIB))

    assert there.states(1) == ["failed"]
    assert "2 devices, 1 are large enough" in there.outcome(1).error_text


def test_parents_that_have_all_of_a_resource_do_not_keep_their_children_waiting() -> None:
    there = machine(1000)
    there.submit(errand(1), errand(2))
    there.start(1)
    there.start(2)

    there.submit(errand(3, "2", parent=an_id(1)), errand(4, "2", parent=an_id(2)))

    assert "assigned" in there.states(3, 4)


def test_one_who_kept_its_device_does_not_stand_behind_those_it_keeps_out() -> None:
    there = machine(1000)
    there.say(b"other", a_hello(901, pid=1901))
    kept = (DeviceProcess(900, 5 * MIB, ""),)
    there.say(worker(0), a_report(foreign_bytes=5 * MIB, processes=kept))
    there.submit(a_lease(1), peer=b"other")

    there.submit(a_lease(2))

    assert there.states(1, 2) == ["queued", "assigned"]


def test_a_lease_of_several_devices_is_of_one_kind() -> None:
    there = machine()
    for index, kind in enumerate(["host", "nvml", "nvml"]):
        device = replace(a_device(index % 2, 1000), kind=kind, uuid=f"{kind}-{index}")
        there.join(index, 1000, device=device, worker=f"{kind}-{index}")

    there.submit(a_spec(1, gpus=2, job_type="pair"))
    there.submit(a_spec(2, gpus=3, job_type="three"))

    assert there.job(1).device.startswith("nvml:")
    assert "2 are managed" in there.outcome(2).error_text


def test_idle_processes_are_ended_for_a_share() -> None:
    there = machine(1000)
    there.submit(a_spec(1, share="0.5"))
    there.use(0, idle=20)

    there.submit(a_spec(2, share="0.5"))

    assert there.sent(wire.EndIdle, worker(0))
