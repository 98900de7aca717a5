"""A cheaper function that is measured instead of the first real run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.decorator import JobFunction
from tests.e2e import grabbing
from tests.e2e.scene import LONG_S, Machine, Scene, a_machine, row_of, rows_of

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module", params=["nvml", "host"])
def machine(request: pytest.FixtureRequest, home: Path) -> Iterator[Machine]:
    """Two devices."""
    with a_machine(request.param, home, 1000, 1000) as machine:
        yield machine


def a_job_with_stand_in(job_type: str) -> JobFunction[..., str]:
    job = grn.job(type=job_type)(grabbing.hold)
    job.profile(grabbing.light)
    return job


def test_r19_the_stand_in_runs_once_before_the_first_real_run_and_never_again(
    machine: Machine, scene: Scene
) -> None:
    job = a_job_with_stand_in("r19")

    job(scene.place, mib=machine.mib(200))
    assert scene.words() == ["light", "start", "holds", "end"]
    job(scene.place, mib=machine.mib(200))

    assert scene.words() == ["light", *["start", "holds", "end"] * 2]
    assert len({one.job_id for one in scene.notes()[:4]}) == 1


def test_r19_both_functions_get_the_arguments_of_the_call(
    machine: Machine, scene: Scene
) -> None:
    job = grn.job(type="r19-arguments")(spell)
    job.profile(spell_lightly)

    job(scene.place, "a", b="b")

    assert scene.words() == ["light-a-b-c", "real-a-b-c"]


def test_r19_what_the_stand_in_used_is_what_the_real_run_is_promised(
    machine: Machine, scene: Scene
) -> None:
    job = a_job_with_stand_in("r19-lease")
    gate = scene.close_gate()

    running = job.submit(scene.place, machine.mib(200), gate)

    scene.await_notes("holds", 1)
    row = row_of(running.job_id)
    assert not row.measuring
    promised = row.lease_bytes / grabbing.MIB / machine.mib(200)
    assert 1.05 < promised < 1.2


def test_r20_the_name_bound_by_profile_is_the_plain_function(scene: Scene) -> None:
    job = grn.job()(spell)

    bound = job.profile(spell_lightly)

    assert bound is spell_lightly
    bound(scene.place, "a")
    assert scene.words() == ["light-a-b-c"]


def test_r21_a_second_stand_in_is_refused_by_the_names_of_both() -> None:
    job = grn.job()(spell)
    job.profile(spell_lightly)

    with pytest.raises(AttributeError, match=r"spell_lightly.*grab") as caught:
        job.profile(grabbing.grab)

    assert "already" in str(caught.value)
    assert job.stand_in is spell_lightly


def test_r22_if_the_stand_in_raises_the_caller_sees_that_and_nothing_else_runs(
    machine: Machine, scene: Scene
) -> None:
    job = grn.job(type="r22")(grabbing.hold)
    job.profile(fail_lightly)

    with pytest.raises(LookupError, match="no such card"):
        job(scene.place)

    assert scene.words() == ["fails"]
    a_job_with_stand_in("r22")(scene.place)
    assert scene.words() == ["fails", "light", "start", "holds", "end"]


def test_r23_four_processes_that_call_at_once_share_one_run_of_the_stand_in(
    machine: Machine, scene: Scene
) -> None:
    gate = scene.close_gate()
    code = (
        "job = grn.job(type='r23')(g.hold); job.profile(g.light); g.note(place, 'ready'); "
        f"g.wait_at(place, {gate!r}); print(job(place, {machine.mib(100)}))"
    )
    clients = [scene.client(code) for _ in range(4)]
    scene.await_notes("ready", 4, 20)

    scene.open_gate()

    assert all(client.communicate(timeout=LONG_S)[0].strip() for client in clients)
    assert scene.words().count("light") == 1
    assert scene.words().count("end") == 4
    assert scene.words().index("light") < scene.words().index("start")
    assert {row.state for row in rows_of("r23")} == {"succeeded"}


def spell(place: str, a: str, b: str = "b", c: str = "c") -> None:
    grabbing.note(place, f"real-{a}-{b}-{c}")


def spell_lightly(place: str, a: str, b: str = "b", c: str = "c") -> None:
    grabbing.note(place, f"light-{a}-{b}-{c}")


def fail_lightly(place: str) -> None:
    grabbing.note(place, "fails")
    raise LookupError("no such card")
