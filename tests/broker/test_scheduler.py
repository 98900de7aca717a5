from typing import Any

from broker.scheduler import Decision, DeviceView, Hold, Place, Refuse, Why, decide
from tests.builders import MIB, a_view


def a_known(index: int = 0, free: int = 1000, need: int = 300, **changes: Any) -> DeviceView:
    """A device as a job sees it whose type was measured at `need` MiB."""
    sizes = {"need_bytes": need * MIB, "lease_bytes": need * MIB}
    return a_view(index, free=free, **{**sizes, **changes})


def decide_for(
    *devices: DeviceView, policy: str = "spread", being_measured: bool = False
) -> Decision:
    return decide("fit", policy, being_measured, devices)


def why(decision: Decision) -> Why:
    assert isinstance(decision, Hold)
    return decision.why


def test_without_devices_a_job_waits() -> None:
    assert why(decide_for()) is Why.NO_DEVICE


def test_an_unmeasured_type_takes_all_that_is_free_of_the_emptiest_idle_device() -> None:
    decision = decide_for(a_view(0, free=700), a_view(1, free=900), a_view(2, idle=False))

    assert decision == Place("worker 1", lease_bytes=900 * MIB, measuring=True)


def test_equal_devices_are_taken_in_the_order_of_their_index() -> None:
    assert decide_for(a_view(1), a_view(0)) == Place("worker 0", 1000 * MIB, measuring=True)
    assert decide_for(a_known(1), a_known(0)) == Place("worker 0", 300 * MIB, measuring=False)


def test_an_unmeasured_type_waits_while_its_type_is_measured() -> None:
    decision = decide_for(a_view(), being_measured=True)

    assert decision == Hold(Why.PROFILE, "waiting for profile of fit")


def test_an_unmeasured_type_waits_for_an_idle_device() -> None:
    busy = a_view(0, idle=False)
    measuring = a_view(1, being_measured=True)

    assert why(decide_for(busy, measuring)) is Why.NO_IDLE_DEVICE


def test_an_unmeasured_type_waits_where_strangers_took_it_all() -> None:
    assert why(decide_for(a_view(free=-5))) is Why.NO_ROOM


def test_spread_takes_the_emptiest_device() -> None:
    decision = decide_for(a_known(0, free=400), a_known(1, free=900), policy="spread")

    assert decision == Place("worker 1", lease_bytes=300 * MIB, measuring=False)


def test_pack_takes_the_fullest_device_with_room() -> None:
    devices = [a_known(0, free=900), a_known(1, free=400), a_known(2, free=299)]

    assert decide_for(*devices, policy="pack") == Place("worker 1", 300 * MIB, measuring=False)


def test_the_last_free_byte_can_be_used() -> None:
    assert decide_for(a_known(free=300)) == Place("worker 0", 300 * MIB, measuring=False)
    assert why(decide_for(a_known(lease_bytes=300 * MIB + 1, free=300))) is Why.NO_ROOM


def test_without_room_the_hold_names_need_and_the_nearest_device() -> None:
    decision = decide_for(a_known(0, free=100), a_known(1, free=250))

    text = "waiting for memory: needs 300.0 MiB, device 1 has 250.0 MiB free"
    assert decision == Hold(Why.NO_ROOM, text)


def test_an_overcommitted_device_is_shown_as_full() -> None:
    decision = decide_for(a_known(free=-50))

    assert isinstance(decision, Hold)
    assert decision.text.endswith("device 0 has 0 B free")


def test_a_known_job_does_not_join_a_measuring_run() -> None:
    assert why(decide_for(a_known(being_measured=True))) is Why.NO_PLACE
    assert decide_for(a_known(0, being_measured=True), a_known(1)) == Place(
        "worker 1", 300 * MIB, measuring=False
    )


def test_a_full_house_is_not_entered_although_there_is_room() -> None:
    assert why(decide_for(a_known(has_place=False))) is Why.NO_PLACE


def test_what_fits_no_device_is_refused_with_both_numbers() -> None:
    small, large = a_known(0, need=1200), a_known(1, need=1100, total=1099)

    assert decide_for(small, large) == Refuse(1100 * MIB, largest_bytes=1099 * MIB)


def test_what_fits_one_busy_device_waits_for_it() -> None:
    small = a_known(0, need=3000)
    large = a_known(1, need=3000, total=10_000, free=100)

    assert why(decide_for(small, large)) is Why.NO_ROOM


def test_every_device_has_its_own_need() -> None:
    decision = decide_for(a_known(0, need=600, free=500), a_known(1, need=400, free=500))

    assert decision == Place("worker 1", 400 * MIB, measuring=False)
