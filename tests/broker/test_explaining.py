"""`grn why`: each reason to wait names the limit that binds, with the right figures."""

from typing import Any

from grn_zmq import wire
from grn_zmq.facts import DeviceReason, Reason
from tests.broker.machine import CLIENT, Machine
from tests.builders import MIB, a_hello, a_spec, an_id


def reason(machine: Machine, number: int) -> Reason:
    machine.say(CLIENT, wire.AskWhy(an_id(number)))
    (answer,) = machine.sent(wire.WhyIs)
    return answer.reason


def device(found: Reason) -> DeviceReason:
    (only,) = found.devices
    return only


def test_without_a_device() -> None:
    machine = Machine()
    machine.submit(a_spec(1))

    found = reason(machine, 1)

    assert found.code == "no-device"
    assert found.devices == ()
    assert "until a worker joins" in found.until


def test_while_its_type_is_measured() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)

    found = reason(machine, 2)

    assert found.code == "profile"
    assert found.text == "waiting for profile of train.py::fit"
    assert found.blockers == (1,)
    assert found.until == "until job 1 has ended, or needs no more for a while"


def test_while_another_type_is_measured() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2, job_type="other"))
    machine.start(1)

    found = reason(machine, 2)

    assert found.code == "no-idle-device"
    assert found.blockers == (1,)
    assert device(found).text == "somebody has it alone"


def test_without_room_every_figure_is_told() -> None:
    machine = Machine(1000)
    machine.know(600)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)
    machine.use(0, foreign=50, j1=550)

    found = reason(machine, 2)

    assert found.code == "no-room"
    here = device(found)
    assert here.device == "host:0"
    assert here.total_bytes == 1000 * MIB
    assert here.foreign_bytes == 50 * MIB
    assert here.leased_bytes == here.charged_bytes == 600 * MIB
    assert here.measured_bytes == 550 * MIB
    assert here.free_bytes == 350 * MIB
    assert here.needed_bytes == 600 * MIB
    assert here.headroom_bytes >= 0
    assert found.blockers == (machine.job(1).number,)
    assert "more are free on host:0" in found.until
    assert f"job {machine.job(1).number} has ended" in found.until


def test_where_strangers_hold_the_memory_nobody_of_ours_is_named() -> None:
    machine = Machine(1000)
    machine.know(600)
    machine.use(0, foreign=800)
    machine.submit(a_spec(1))

    found = reason(machine, 1)

    assert found.code == "no-room"
    assert found.blockers == ()
    assert "until 400.0 MiB more are free on host:0, which other programs use" in found.until


def test_without_a_place() -> None:
    machine = Machine(1000, max_jobs=1)
    machine.know(10)
    machine.submit(a_spec(1), a_spec(2))
    machine.start(1)

    found = reason(machine, 2)

    assert found.code == "no-place"
    assert (device(found).jobs, device(found).max_jobs) == (1, 1)
    assert found.until == f"until job {machine.job(1).number} has ended"


def test_held() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, held=True))

    found = reason(machine, 1)

    assert (found.code, found.until) == ("held", "until `grn release 1`")


def test_after_another() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2, after=(an_id(1),)))
    machine.start(1)

    found = reason(machine, 2)

    assert found.code == "dependency"
    assert found.text == "waiting for job 1 (running) to succeed"
    assert found.blockers == (1,)
    assert found.until == "until job 1 has ended; one that fails cancels this one"


def test_before_its_begin_time() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, begin_s=7201.0))

    found = reason(machine, 1)

    assert (found.code, found.until) == ("begin-time", "for 2:00:00")


def test_in_a_paused_queue() -> None:
    machine = Machine(1000)
    machine.say(CLIENT, wire.Pause(paused=True))
    machine.submit(a_spec(1))

    found = reason(machine, 1)

    assert (found.code, found.until) == ("paused", "until `grn resume`")


def test_while_the_broker_is_being_drained() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1), a_spec(2, detached=True))
    machine.start(1)
    machine.say(CLIENT, wire.Stop(drain=True))

    found = reason(machine, 2)

    assert (found.code, found.until) == (
        "draining",
        "until broker and workers are started again",
    )


def test_where_a_device_is_kept_for_another() -> None:
    machine = a_machine_that_keeps_a_device()

    found = reason(machine, 3)

    assert found.code == "reserved"
    assert found.blockers == (machine.job(2).number,)
    assert found.until == f"until job {machine.job(2).number} has started"
    assert "is kept for large" in found.text
    assert device(found).text == "kept for large"


def a_machine_that_keeps_a_device() -> Machine:
    """Job 2 is large and overdue, so the device drains; job 3 is small and would fit."""
    machine = Machine(1000)
    machine.know(900, job_type="large", runs=3)
    machine.know(300, job_type="small", runs=3)
    machine.submit(a_spec(1, job_type="endless", memory_bytes=300 * MIB))
    machine.start(1)
    machine.submit(a_spec(2, job_type="large"))
    machine.wait(100_000)
    machine.use(0, j1=300)
    machine.wait(1)
    machine.use(0, j1=300)
    machine.submit(a_spec(3, job_type="small"))
    return machine


def test_one_that_never_fits_is_told_with_both_numbers() -> None:
    machine = Machine(500)
    machine.join(1, 3000)
    machine.know(2000)
    machine.lose(an_id(801))
    machine.core.book.devices.pop("host-1", None)
    forget_device(machine, "HOST-1")
    machine.submit(a_spec(1))

    found = reason(machine, 1)

    assert (found.state, found.code) == ("failed", "never-fits")
    assert "needs 2.0 GiB, the largest device has 500.0 MiB" in found.text
    assert device(found).text == "too small"


def forget_device(machine: Machine, uuid: str) -> None:
    """As if the broker had been started anew without this device."""
    devices = machine.core.book.devices
    for key in [one for one, facts in devices.items() if facts.uuid == uuid]:
        del devices[key]


def test_one_that_runs_or_has_ended_does_not_wait() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))
    machine.start(1)
    assert reason(machine, 1).text == "it does not wait: it is running on host:0"

    machine.finish(1, outcome="failed", exit_status=3, error_type="JobExited", error_text="bad")

    assert reason(machine, 1).text == "it does not wait: it failed: bad"


def test_a_job_that_nobody_knows_is_refused() -> None:
    machine = Machine(1000)

    machine.say(CLIENT, wire.AskWhy(an_id(5)))

    assert machine.sent(wire.Refused)[0].reason == "unknown-job"


def test_the_row_of_a_list_has_the_same_code() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, held=True), a_spec(2))

    rows: dict[int, Any] = {n: machine.row(n) for n in (1, 2)}

    assert rows[1].waits_for == "held"
    assert rows[2].waits_for == ""


def test_a_scene_shows_who_runs_before_who_waits() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, held=True), a_spec(2, job_type="a"), a_spec(3, job_type="b"))
    machine.start(2)
    machine.say(b"other", a_hello(901))

    machine.say(CLIENT, wire.AskScene(first=0, most=2))
    scene = machine.sent(wire.SceneIs)[0].scene

    assert [row.number for row in scene.rows] == [2, 3]
    assert (scene.running, scene.queued, scene.ended) == (1, 2, 0)
    assert [row.facts.index for row in scene.devices] == [0]
    machine.say(CLIENT, wire.AskScene(first=2, most=2))
    assert [row.number for row in machine.sent(wire.SceneIs)[0].scene.rows] == [1]


def test_a_scene_from_beyond_the_end_is_empty() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1))

    machine.say(CLIENT, wire.AskScene(first=2**63 - 1, most=2**63 - 1))

    assert machine.sent(wire.SceneIs)[0].scene.rows == ()


def test_all_about_a_job_is_told_with_its_earlier_attempts() -> None:
    machine = Machine(1000)
    machine.submit(a_spec(1, retries=2, detached=True, variables={"A": "b"}))
    machine.run(1, peak=70, outcome="failed", exit_status=3)
    machine.start(1)

    machine.say(CLIENT, wire.AskJob(an_id(1)))
    (answer,) = machine.sent(wire.JobIs)

    assert (answer.row.number, answer.row.state, answer.row.attempt) == (1, "running", 2)
    assert (answer.detail.retries, answer.detail.retried) == (2, 1)
    assert answer.detail.variables == {"A": "b"}
    (tried,) = answer.detail.tried
    assert (tried.attempt, tried.device, tried.peak_bytes) == (1, "host:0", 70 * MIB)
    assert "runs again" in tried.why
