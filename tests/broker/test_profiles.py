from broker.profiles import Profiles, key_of
from tests.builders import MIB

TOTAL = 1000 * MIB
KEY = key_of("fit", {})


def profiles_of(*peaks: int, device_class: str = "A100") -> Profiles:
    profiles = Profiles()
    for peak in peaks:
        profiles.observe(KEY, device_class, peak * MIB)
    return profiles


def lease(profiles: Profiles, device_class: str = "A100", total: int = TOTAL) -> float:
    return profiles.lease_bytes(KEY, device_class, total) / MIB


def test_nothing_is_known_before_the_first_run() -> None:
    assert not Profiles().knows(KEY)
    assert profiles_of(1).knows(KEY)


def test_the_largest_peak_is_what_is_needed() -> None:
    assert profiles_of(10, 900, 300).need_bytes(KEY, "A100") == 900 * MIB


def test_the_margin_shrinks_as_evidence_grows() -> None:
    assert round(lease(profiles_of(100)), 3) == 115
    assert round(lease(profiles_of(*[100] * 12)), 3) == 104
    assert 103 < lease(profiles_of(*[100] * 1000)) < 103.1


def test_a_type_measured_on_another_model_gets_more_room() -> None:
    profiles = profiles_of(*[100] * 50, device_class="A100")

    assert lease(profiles, "H100") == 125
    assert profiles.need_bytes(KEY, "H100") == 100 * MIB


def test_what_was_measured_on_this_model_counts_for_it() -> None:
    profiles = profiles_of(*[100] * 50, device_class="A100")
    profiles.observe(KEY, "H100", 400 * MIB)

    assert profiles.need_bytes(KEY, "A100") == 100 * MIB
    assert profiles.need_bytes(KEY, "H100") == 400 * MIB
    assert profiles.need_bytes(KEY, "other") == 400 * MIB


def test_the_margin_never_shuts_out_what_was_measured_to_fit() -> None:
    assert lease(profiles_of(950)) == 1000
    assert lease(profiles_of(1000)) == 1000


def test_what_needs_more_than_the_device_keeps_its_margin() -> None:
    assert lease(profiles_of(1001)) > 1001


def test_a_device_holds_at_most_a_hundred_jobs_that_use_nothing() -> None:
    assert lease(profiles_of(0)) == 10


def test_arguments_make_cells_and_their_order_does_not_matter() -> None:
    assert key_of("fit", {"a": 1, "b": "x"}) == key_of("fit", {"b": "x", "a": 1})
    assert key_of("fit", {"a": 1}) != key_of("fit", {"a": 2})
    assert key_of("fit", {"a": 1}) != key_of("fit", {})
    assert key_of("fit", {"a": 1, "b": 1.5}) != key_of("fit", {"a": 1, "b": "1.5"})
