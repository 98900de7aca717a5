"""What a review found once; each of these failed before it was mended."""

from broker.cells import Cell, CellId, key_of
from broker.estimates import MOST_BYTES
from broker.profiles import MOST_TYPES, Observed, Profiles
from grn_zmq import wire
from tests.broker.machine import Machine
from tests.builders import MIB, a_device, a_spec

DEVICE = a_device(total=16_000)


def observe(profiles: Profiles, outcome: str, peak: int, job_type: str = "fit") -> None:
    observed = Observed(outcome, peak * MIB, run_s=1.0)
    profiles.observe(key_of(job_type, {}), "host", observed)


def lease(profiles: Profiles, memory: int = 0, job_type: str = "fit") -> int | None:
    found = profiles.estimate(key_of(job_type, {}), DEVICE, memory * MIB)
    return None if found is None else found.lease_bytes // MIB


def test_a_far_fetched_argument_leads_to_a_figure_that_can_be_sent() -> None:
    machine = Machine(1000)
    machine.know(10, by={"n": 1}, runs=2)
    machine.know(900, by={"n": 2}, runs=2)

    machine.submit(a_spec(1, by={"n": 2**62}))
    machine.run(1, peak=100)

    assert machine.outcome(1).predicted_bytes <= MOST_BYTES
    assert machine.sent(wire.Ended)


def test_failures_that_took_nothing_do_not_make_a_type_known() -> None:
    profiles = Profiles()
    observe(profiles, "failed", 0)
    observe(profiles, "failed", 0)

    assert lease(profiles) is None
    assert lease(profiles, memory=10_000) == 10_000


def test_what_was_declared_stands_against_lower_bounds_until_a_run_outgrows_it() -> None:
    profiles = Profiles()
    observe(profiles, "oom", 100)
    assert lease(profiles, memory=8000) == 8000

    profiles.note_growth(key_of("fit", {}), "host", 9000 * MIB)
    assert lease(profiles, memory=8000) == 9720


def test_a_job_that_could_not_be_started_teaches_nothing() -> None:
    machine = Machine(1000)
    for number in (1, 2):
        machine.submit(a_spec(number))
        machine.run(number, peak=50, outcome="failed", error_type="JobNotStarted")

    machine.submit(a_spec(3))
    assert machine.lease(3).measuring


def test_its_margin_does_not_shut_a_job_out_beside_a_small_stranger() -> None:
    machine = Machine(24_000)
    machine.submit(a_spec(1, oom_retries=0))
    machine.run(1, peak=20_000, outcome="oom", asked_bytes=2000 * MIB)
    machine.use(0, foreign=500)

    machine.submit(a_spec(2))

    assert machine.placed(2) == [True]


def test_old_code_counts_less_after_a_restart_too() -> None:
    profiles = Profiles()
    old = Cell("1", runs=20, trust=20, mean_bytes=100.0, max_bytes=100)
    new = Cell("2", runs=5, trust=5, mean_bytes=100.0, max_bytes=100)
    profiles.restore(CellId("fit", (("n", 1),), "host"), old)
    profiles.restore(CellId("fit", (("n", 2),), "host"), new)

    profiles.note_version("fit", "2")

    assert (old.trust, new.trust) == (2, 5)


def test_code_that_needs_less_than_before_is_believed_in_time() -> None:
    profiles = Profiles()
    profiles.note_version("fit", "1")
    for _ in range(4):
        observe(profiles, "succeeded", 1200)
    profiles.note_version("fit", "2")
    assert lease(profiles) == 1200

    for _ in range(20):
        observe(profiles, "succeeded", 200)

    assert lease(profiles) == 200


def test_the_largest_peak_of_unchanged_code_is_never_forgotten() -> None:
    profiles = Profiles()
    observe(profiles, "succeeded", 1200)
    for _ in range(50):
        observe(profiles, "succeeded", 200)

    assert lease(profiles) == 1200


def test_a_kept_device_is_let_go_when_a_stranger_takes_what_it_was_kept_for() -> None:
    machine = Machine(1000)
    machine.know(900, job_type="big")
    machine.know(100, job_type="small")
    machine.submit(a_spec(1, job_type="small"))
    machine.submit(a_spec(2, job_type="big"))
    for _ in range(10):
        machine.wait(100.0)
        machine.use(0, j1=100)
    machine.submit(a_spec(3, job_type="other", memory_bytes=100 * MIB))
    assert machine.placed(3) == [False]

    machine.use(0, foreign=500, j1=100)
    machine.wait(1.0)
    machine.use(0, foreign=500, j1=100)

    assert machine.placed(3) == [True]


def test_a_measuring_run_that_takes_nothing_opens_its_device_in_the_end() -> None:
    machine = Machine(1000)
    machine.know(300, job_type="known")
    machine.submit(a_spec(1))
    machine.start(1)
    machine.submit(a_spec(2, job_type="known"))

    machine.wait(4.0)
    assert machine.placed(2) == [False]
    for _ in range(700):
        machine.use(0, j1=0)
    assert machine.placed(2) == [True]


def test_types_that_were_not_seen_for_long_are_forgotten() -> None:
    profiles = Profiles()
    for number in range(MOST_TYPES + 5):
        observe(profiles, "succeeded", 100, job_type=f"type {number}")

    assert lease(profiles, job_type="type 4") is None
    assert lease(profiles, job_type="type 5") is not None


def test_who_had_company_at_the_last_moment_has_not_had_all_of_the_device() -> None:
    machine = Machine(1000)
    machine.know(300, job_type="neighbour")
    machine.submit(a_spec(1))
    machine.start(1)
    for _ in range(1000):
        machine.use(0, j1=500)
    machine.submit(a_spec(2, job_type="neighbour"))
    assert machine.placed(2) == [True]

    machine.finish(1, peak=700, outcome="oom", asked_bytes=200 * MIB)

    assert machine.states(1) == ["queued"]
