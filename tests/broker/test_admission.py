"""What keeps jobs out: each no has a reason of its own. And types that kill their workers."""

from typing import Any

import pytest

from broker.settings import Settings
from grn_zmq import wire
from tests.broker.machine import CLIENT, Machine
from tests.builders import a_hello, a_spec, an_id, held


def reasons(machine: Machine) -> list[str]:
    return [one.reason for one in machine.sent(wire.Refused, CLIENT)]


def kill_worker(machine: Machine, life: int, *interrupted: Any) -> None:
    """The worker dies with what runs on it, and another comes."""
    machine.lose(an_id(800 if life == 1 else 8000 + life))
    machine.join(0, 1000, incarnation=an_id(8001 + life), inventory=interrupted)


def test_there_are_only_so_many_jobs() -> None:
    machine = Machine(settings=Settings(most_jobs=2))
    machine.submit(a_spec(1), a_spec(2), a_spec(3))
    assert reasons(machine) == ["queue-full"]
    assert machine.sent(wire.Refused)[0].job_ids == (an_id(3),)

    machine.say(CLIENT, wire.Cancel((an_id(1),), interrupt=False))
    machine.submit(a_spec(3))

    assert len(machine.sent(wire.Accepted)) == 1


def test_there_are_only_so_many_bytes_of_arguments() -> None:
    machine = Machine(settings=Settings(most_bytes=1000))
    machine.submit(a_spec(1, payload=b"x" * 900))
    machine.commit()

    machine.submit(a_spec(2, payload=b"x" * 200), a_spec(3, payload=b"x" * 100))

    assert reasons(machine) == ["queue-full"]
    assert machine.states(3) == ["queued"]
    assert an_id(2) not in machine.core.book.jobs


def test_one_job_with_more_bytes_than_that_is_taken_if_nothing_else_is_here() -> None:
    machine = Machine(settings=Settings(most_bytes=1000))

    machine.submit(a_spec(1, payload=b"x" * 2000))

    assert machine.states(1) == ["queued"]


def test_the_bytes_of_ended_jobs_do_not_count_nor_does_a_restart_forget_those_of_others() -> (
    None
):
    machine = Machine(settings=Settings(most_bytes=1000))
    machine.submit(a_spec(1, payload=b"x" * 500), a_spec(2, payload=b"x" * 400))
    machine.say(CLIENT, wire.Cancel((an_id(1),), interrupt=False))
    assert machine.core.book.payload_bytes == 400

    machine.restart()

    assert machine.core.book.payload_bytes == 400


def test_f55_a_full_disk_keeps_jobs_out_until_there_is_room() -> None:
    machine = Machine()
    machine.submit(a_spec(1))
    machine.core.set_disk_full(True)
    machine.submit(a_spec(1), a_spec(2))
    assert reasons(machine) == ["disk-full"]
    assert len(machine.sent(wire.Accepted)) == 1  # that one is here already

    machine.core.set_disk_full(False)
    machine.submit(a_spec(2))

    assert machine.states(2) == ["queued"]


def test_f52_an_id_belongs_to_one_job_also_after_a_restart() -> None:
    machine = Machine()
    machine.submit(a_spec(1, payload=b"one"))
    machine.restart()
    machine.say(CLIENT, a_hello())

    machine.submit(a_spec(1, payload=b"one"))
    assert [one.jobs[0].number for one in machine.sent(wire.Accepted)] == [1]
    machine.submit(a_spec(1, payload=b"two"))
    assert reasons(machine) == ["id-conflict"]
    machine.submit(a_spec(1, payload=b"one", priority=5))
    assert reasons(machine) == ["id-conflict"]

    assert len(machine.core.book.jobs) == 1


def test_f44_a_type_whose_runs_kill_their_worker_three_times_is_quarantined() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(9, job_type="good"))
    machine.run(9, peak=10)
    for life in (1, 2, 3):
        machine.submit(a_spec(life))
        machine.start(life)
        if life == 3:
            machine.submit(a_spec(4), a_spec(5, job_type="good"))
        kill_worker(machine, life, held(life, state="interrupted"))

    assert machine.states(1, 2, 3, 4) == ["lost", "lost", "lost", "failed"]
    assert "quarantined" in machine.outcome(4).error_text
    machine.submit(a_spec(6))
    assert reasons(machine) == ["quarantined"]
    assert "grn profiles forget train.py::fit" in machine.sent(wire.Refused)[0].text
    machine.run(5, peak=10)
    assert machine.states(5) == ["succeeded"]


def test_a_quarantined_job_is_not_retried() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, retries=100))
    for life in (1, 2, 3):
        machine.start(1)
        kill_worker(machine, life, held(1, life, "interrupted"))

    assert machine.states(1) == ["lost"]
    assert machine.job(1).attempt == 3


def test_types_that_ran_side_by_side_share_the_blame() -> None:
    machine = Machine(1000)
    machine.know(10, "a")
    machine.know(10, "b")
    number = 0
    for life in range(1, 6):
        for job_type in "ab":
            number += 1
            machine.submit(a_spec(number, job_type=job_type))
            machine.start(number)
        kill_worker(machine, life)
        for job_type in "ab":
            assert not machine.core.book.poison.quarantined(job_type, machine.now)

    for job_type in "ab":
        machine.submit(a_spec(number := number + 1, job_type=job_type))
        machine.start(number)
    kill_worker(machine, 6)

    assert machine.core.book.poison.quarantined("a", machine.now) == 6


@pytest.mark.parametrize("how", ["success", "forget", "a day"])
def test_blame_is_cleared(how: str) -> None:
    machine = Machine(1000)
    for life in (1, 2):
        machine.submit(a_spec(life))
        machine.start(life)
        kill_worker(machine, life, held(life, state="interrupted"))
    if how == "success":
        machine.submit(a_spec(8))
        machine.run(8)
    elif how == "forget":
        machine.say(CLIENT, wire.ForgetProfiles(("train.py::fit",)))
    else:
        machine.wait(24 * 3600.0)
        machine.use(0)
    machine.submit(a_spec(3))
    machine.start(3)
    kill_worker(machine, 3, held(3, state="interrupted"))

    machine.submit(a_spec(4))

    assert reasons(machine) == []


def test_an_orderly_end_of_a_worker_is_nobody_s_fault() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    machine.say(machine.peer_of(machine.job(1)), wire.Leaving())

    machine.lose(an_id(800))

    assert not machine.core.book.poison.blamed("train.py::fit")


@pytest.mark.parametrize("cleared", [False, True])
def test_quarantine_outlives_the_broker(cleared: bool) -> None:
    machine = Machine(1000)
    for life in (1, 2, 3):
        machine.submit(a_spec(life))
        machine.start(life)
        kill_worker(machine, life, held(life, state="interrupted"))
    if cleared:
        machine.say(CLIENT, wire.ForgetProfiles(("train.py::fit",)))
    machine.restart()
    machine.say(CLIENT, a_hello())

    machine.submit(a_spec(4))

    assert reasons(machine) == ([] if cleared else ["quarantined"])


def test_a_program_too_many_is_told_so_and_those_that_are_here_may_come_back() -> None:
    machine = Machine(1000, settings=Settings(most_clients=1))

    machine.say(b"second", a_hello(901))
    (refused,) = machine.sent(wire.Refused)
    assert refused.reason == "too-many-clients"
    assert "1 programs are connected" in refused.text
    machine.say(b"again", a_hello())

    assert machine.sent(wire.Welcome)
