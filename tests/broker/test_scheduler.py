from typing import Any

from broker.estimates import Estimate, Kind
from broker.scheduler import Decision, DeviceView, Hold, Place, Refuse, Why, Wish, decide
from tests.builders import MIB, a_view


def a_known(
    index: int = 0, free: int = 1000, need: int = 300, sure: int | None = None, **changes: Any
) -> DeviceView:
    """A device as a job sees it whose type was measured at `need` MiB."""
    sure = need if sure is None else sure
    estimate = Estimate(need * MIB, 0.0, 0.0, Kind.MEASURED, runs=20, sure_bytes=sure * MIB)
    sizes = {"estimate": estimate, "lease_bytes": need * MIB}
    return a_view(index, free=free, **{**sizes, **changes})


def a_shared(index: int = 0, free: int = 1000, headroom: int = 0, **changes: Any) -> DeviceView:
    """A device on which others run."""
    return a_known(index, free, idle=False, headroom_bytes=headroom * MIB, **changes)


def decide_for(*devices: DeviceView, **wish: Any) -> Decision:
    return decide(Wish("fit", **wish), devices)


def why(decision: Decision) -> Why:
    assert isinstance(decision, Hold)
    return decision.why


def test_without_devices_a_job_waits() -> None:
    text = "waiting for a device: no worker is connected"

    assert decide_for() == Hold(Why.NO_DEVICE, text)


def test_an_unmeasured_type_takes_all_that_is_free_of_the_emptiest_idle_device() -> None:
    decision = decide_for(a_view(0, free=700), a_view(1, free=900), a_view(2, idle=False))

    assert decision == Place("worker 1", lease_bytes=900 * MIB, measuring=True)


def test_equal_devices_are_taken_in_the_order_of_their_index() -> None:
    assert decide_for(a_view(1), a_view(0)) == Place("worker 0", 1000 * MIB, measuring=True)
    assert decide_for(a_known(1), a_known(0)) == Place("worker 0", 300 * MIB, measuring=False)


def test_an_unmeasured_type_waits_while_its_type_is_measured() -> None:
    decision = decide_for(a_view(), type_being_measured=True)

    assert decision == Hold(Why.PROFILE, "waiting for profile of fit")


def test_r27_an_unmeasured_type_waits_for_an_idle_device() -> None:
    busy = a_view(0, idle=False, jobs=3)
    measuring = a_view(1, closed=True, jobs=1)

    assert decide_for(busy, measuring) == Hold(
        Why.NO_IDLE_DEVICE,
        "waiting for an idle device: fit was never measured and runs alone first "
        "(jobs: device 0 has 3, device 1 has 1)",
    )


def test_an_unmeasured_type_waits_where_strangers_took_it_all() -> None:
    assert decide_for(a_view(free=-5)) == Hold(
        Why.NO_ROOM, "waiting for memory: others fill even device 0, the emptiest"
    )


def test_an_unmeasured_type_does_not_take_a_device_that_is_kept() -> None:
    decision = decide_for(a_view(held_for="large"))

    text = (
        "waiting for memory: device 0 is kept for large, which has waited longer; "
        "1000.0 MiB are left beside it"
    )
    assert decision == Hold(Why.RESERVED, text)


def test_an_unmeasured_type_takes_an_idle_device_that_nobody_keeps() -> None:
    kept, other = a_view(0, free=900, held_for="large"), a_view(1, free=500)

    assert decide_for(kept, other) == Place("worker 1", 500 * MIB, measuring=True)


def test_spread_takes_the_emptiest_device() -> None:
    decision = decide_for(a_known(0, free=400), a_known(1, free=900), policy="spread")

    assert decision == Place("worker 1", lease_bytes=300 * MIB, measuring=False)


def test_pack_takes_the_fullest_device_with_room() -> None:
    devices = [a_known(0, free=900), a_known(1, free=400), a_known(2, free=299)]

    assert decide_for(*devices, policy="pack") == Place("worker 1", 300 * MIB, measuring=False)


def test_the_last_free_byte_of_an_idle_device_can_be_used() -> None:
    assert decide_for(a_known(free=300)) == Place("worker 0", 300 * MIB, measuring=False)
    assert why(decide_for(a_known(lease_bytes=300 * MIB + 1, free=300))) is Why.NO_ROOM


def test_where_jobs_share_the_headroom_stays_free() -> None:
    assert decide_for(a_shared(free=350, headroom=50)) == Place(
        "worker 0", 300 * MIB, measuring=False
    )
    assert why(decide_for(a_shared(free=349, headroom=50))) is Why.NO_ROOM


def test_an_idle_device_needs_no_headroom() -> None:
    decision = decide_for(a_known(free=300, headroom_bytes=500 * MIB))

    assert decision == Place("worker 0", 300 * MIB, measuring=False)


def test_r63_without_room_the_hold_names_need_and_the_nearest_device() -> None:
    decision = decide_for(a_known(0, free=100), a_known(1, free=250))

    text = "waiting for memory: needs 300.0 MiB, device 1 has 250.0 MiB free"
    assert decision == Hold(Why.NO_ROOM, text)


def test_r63_without_headroom_the_hold_names_it_too() -> None:
    decision = decide_for(a_shared(free=320, headroom=50))

    text = (
        "waiting for memory: needs 300.0 MiB, device 0 has 320.0 MiB free, "
        "of which 50.0 MiB stay free for growth"
    )
    assert decision == Hold(Why.NO_ROOM, text)


def test_an_overcommitted_device_is_shown_as_full() -> None:
    decision = decide_for(a_known(free=-50))

    assert isinstance(decision, Hold)
    assert decision.text.endswith("device 0 has 0 B free")


def test_a_known_job_does_not_join_a_measuring_run() -> None:
    assert decide_for(a_shared(closed=True, jobs=1)) == Hold(
        Why.NO_PLACE,
        "waiting for a device: a job that is being measured, or ran out of memory before, "
        "has it to itself (jobs: device 0 has 1)",
    )
    assert decide_for(a_shared(0, closed=True), a_known(1)) == Place(
        "worker 1", 300 * MIB, measuring=False
    )


def test_a_full_house_is_not_entered_although_there_is_room() -> None:
    assert decide_for(a_shared(has_place=False, jobs=2)) == Hold(
        Why.NO_PLACE,
        "waiting for a place: every device has its most jobs at once (jobs: device 0 has 2)",
    )


def test_r64_what_fits_no_device_is_refused_with_both_numbers() -> None:
    small, large = a_known(0, need=1200), a_known(1, need=1100, total=1099)

    assert decide_for(small, large) == Refuse(1100 * MIB, largest_bytes=1099 * MIB)


def test_a_guess_alone_refuses_nothing() -> None:
    guessed = a_known(need=1000, sure=0, free=900)

    assert why(decide_for(guessed)) is Why.NO_ROOM


def test_what_fits_one_busy_device_waits_for_it() -> None:
    small = a_known(0, need=3000)
    large = a_known(1, need=3000, total=10_000, free=100)

    decision = decide_for(small, large)

    assert isinstance(decision, Hold)
    assert decision.text.endswith("device 1 has 100.0 MiB free")


def test_every_device_has_its_own_need() -> None:
    decision = decide_for(a_known(0, need=600, free=500), a_known(1, need=400, free=500))

    assert decision == Place("worker 1", 400 * MIB, measuring=False)


def test_a_model_of_which_nothing_is_known_is_not_taken_for_roomy() -> None:
    """Somewhere else a first run has settled: it says nothing about this model."""
    unknown = a_view(0, free=900, idle=False)
    known = a_shared(1, free=500)

    assert decide_for(unknown, known) == Place("worker 1", 300 * MIB, measuring=False)
    assert isinstance(decide_for(unknown, a_shared(1, free=100)), Hold)


def test_a_full_trust_window_holds_the_rest_of_the_type() -> None:
    assert decide_for(a_known(), window_full=True) == Hold(
        Why.PROFILE,
        "waiting for profile of fit: as many run as its unfinished first run can vouch for",
    )


def test_the_last_try_has_all_of_the_largest_device() -> None:
    devices = [a_known(0, free=900), a_known(1, free=2000, total=2000), a_known(2, total=500)]

    decision = decide_for(*devices, alone_on_bytes=2000 * MIB)

    assert decision == Place("worker 1", 2000 * MIB, measuring=False, alone=True)


def test_the_last_try_waits_until_the_largest_device_is_idle() -> None:
    small, large = a_known(0), a_shared(1, total=2000, jobs=2)

    assert decide_for(small, large, alone_on_bytes=large.total_bytes) == Hold(
        Why.NO_IDLE_DEVICE,
        "waiting for an idle device: fit ran out of memory beside others and runs alone next "
        "(jobs: device 1 has 2)",
    )


def test_where_sharing_loses_a_job_waits_for_an_idle_device() -> None:
    assert decide_for(a_shared(shares=False, jobs=1)) == Hold(
        Why.NO_IDLE_DEVICE,
        "waiting for an idle device: sharing was measured to be slower than one after the "
        "other here (jobs: device 0 has 1)",
    )
    assert decide_for(a_shared(0, shares=False), a_known(1, free=300)) == Place(
        "worker 1", 300 * MIB, measuring=False
    )


def test_a_victim_keeps_away_from_jobs_that_are_in_doubt() -> None:
    assert decide_for(a_shared(doubted=True, jobs=1), wary=True) == Hold(
        Why.NO_PLACE,
        "waiting for a place beside jobs that keep to what they were measured to need: "
        "a neighbour outgrew its lease before (jobs: device 0 has 1)",
    )
    assert isinstance(decide_for(a_shared(doubted=True)), Place)
    assert isinstance(decide_for(a_shared(doubted=False), wary=True), Place)


def test_a_kept_device_is_named_with_whom_it_is_kept_for() -> None:
    decision = decide_for(a_shared(free=350, headroom=100, held_for="large"))

    text = (
        "waiting for memory: device 0 is kept for large, which has waited longer; "
        "350.0 MiB are left beside it"
    )
    assert decision == Hold(Why.RESERVED, text)


def test_beside_what_is_kept_there_may_be_room() -> None:
    decision = decide_for(a_shared(free=350, held_for="large"))

    assert decision == Place("worker 0", 300 * MIB, measuring=False)
