import pytest

from broker.cells import key_of
from broker.estimates import Kind
from broker.profiles import Profiles
from tests.broker.learned import (
    KEY,
    a_card,
    a_run,
    cell_of,
    estimate,
    learn,
    lease,
    profiles_of,
)
from tests.builders import MIB


def test_nothing_is_known_before_the_first_run() -> None:
    assert Profiles().estimate(KEY, a_card()) is None
    assert lease(profiles_of(100)) == 100


def test_the_largest_peak_is_what_is_needed() -> None:
    assert lease(profiles_of(10, 900, 300)) == 900


def test_the_margin_shrinks_as_evidence_grows() -> None:
    young, old = estimate(profiles_of(100)), estimate(profiles_of(*[100] * 1000))

    assert young.lease_bytes == old.lease_bytes
    assert old.noise_bytes < young.noise_bytes / 10
    assert old.bias_bytes < young.bias_bytes / 100


def test_a_type_measured_on_another_model_gets_more_room() -> None:
    profiles = profiles_of(*[100] * 50, device_class="A100")

    here, there = estimate(profiles), estimate(profiles, device_class="H100")

    assert there.lease_bytes >= here.lease_bytes
    assert there.bias_bytes > 10 * here.bias_bytes
    assert there.sure_bytes == 0


def test_what_was_measured_on_this_model_counts_for_it() -> None:
    profiles = profiles_of(*[100] * 50, device_class="A100")
    learn(profiles, 400, device_class="H100")

    assert lease(profiles, device_class="A100") == 100
    assert lease(profiles, device_class="H100") == 400
    assert lease(profiles, device_class="other") >= 400


def test_the_margin_never_shuts_out_what_was_measured_to_fit() -> None:
    profiles = profiles_of(950)
    profiles.observe(KEY, "A100", a_run(990, "failed"))

    assert lease(profiles) == 1000
    assert lease(profiles_of(1000)) == 1000


def test_what_needs_more_than_the_device_keeps_its_size() -> None:
    assert lease(profiles_of(1001)) == 1001
    assert estimate(profiles_of(1001)).sure_bytes == 1001 * MIB


def test_a_device_holds_at_most_a_hundred_jobs_that_use_nothing() -> None:
    assert lease(profiles_of(0)) == 10
    assert lease(profiles_of(0), total=5000) == 50


def test_arguments_make_cells_and_their_order_does_not_matter() -> None:
    assert key_of("fit", {"a": 1, "b": "x"}) == key_of("fit", {"b": "x", "a": 1})
    assert key_of("fit", {"a": 1}) != key_of("fit", {"a": 2})
    assert key_of("fit", {"a": 1}) != key_of("fit", {})
    assert key_of("fit", {"a": 1, "b": 1.5}) != key_of("fit", {"a": 1, "b": "1.5"})


def test_r60_a_larger_run_is_learned_at_once() -> None:
    profiles = profiles_of(*[10] * 20)
    learn(profiles, 900)

    assert lease(profiles) >= 900


def test_r61_arguments_keep_separate_profiles() -> None:
    small, large = key_of("fit", {"n": 10}), key_of("fit", {"n": 900})
    profiles = profiles_of(10, key=small)
    learn(profiles, 900, key=large)

    assert lease(profiles, small) == 10
    assert lease(profiles, large) == 900


def test_names_are_modelled_apart() -> None:
    profiles = Profiles()
    for size in (8, 64, 256):
        learn(profiles, size, key=key_of("fit", {"net": "small", "n": size}))
        learn(profiles, 3 * size, key=key_of("fit", {"net": "large", "n": size}))

    assert lease(profiles, key_of("fit", {"net": "small", "n": 100})) == pytest.approx(
        108, 0.01
    )
    assert lease(profiles, key_of("fit", {"net": "large", "n": 100})) == pytest.approx(
        324, 0.01
    )
    assert profiles.estimate(key_of("fit", {"net": "other", "n": 100}), a_card()) is None


def test_sizes_are_modelled_per_model_of_device() -> None:
    profiles = Profiles()
    for size in (8, 64, 256):
        learn(profiles, size, key=key_of("fit", {"n": size}))
    learn(profiles, 200, key=key_of("fit", {"n": 8}), device_class="H100")

    there = estimate(profiles, key_of("fit", {"n": 64}), device_class="H100")

    assert there.kind is Kind.EXTRAPOLATED
    assert there.lease_bytes >= 200 * MIB


def test_a_size_that_ran_out_of_memory_is_never_modelled_below_that() -> None:
    profiles = Profiles()
    for size in (8, 64, 256):
        learn(profiles, size, key=key_of("fit", {"n": size}))
    between = key_of("fit", {"n": 100})

    profiles.observe(between, "A100", a_run(300, "oom", asked=50))

    assert lease(profiles, between) > 350


def test_r29_two_failed_runs_are_a_lower_bound() -> None:
    profiles = Profiles()
    learn(profiles, 100, outcome="failed")
    assert profiles.estimate(KEY, a_card()) is None

    learn(profiles, 90, outcome="killed")

    assert estimate(profiles).kind is Kind.BOUND
    assert 100 <= lease(profiles) < 120


def test_l12_what_it_asked_for_counts_on_top_of_what_it_had() -> None:
    profiles = profiles_of(*[100] * 20)

    learn(profiles, 600, outcome="oom", asked=200)

    assert lease(profiles) > 800


def test_r32_without_knowing_what_it_asked_for_a_fifth_more_is_needed() -> None:
    profiles = profiles_of(*[100] * 20)

    learn(profiles, 600, outcome="oom")

    assert lease(profiles) > 720


def test_a_victim_proves_no_more_than_what_it_had() -> None:
    profiles = profiles_of(*[100] * 20)

    learn(profiles, 95, outcome="oom", culprit=False)

    assert lease(profiles) == 100


def test_cancelled_and_lost_runs_teach_nothing() -> None:
    profiles = profiles_of(*[100] * 20)
    before = estimate(profiles)

    learn(profiles, 900, outcome="cancelled")
    learn(profiles, 900, outcome="lost")

    assert estimate(profiles) == before


def test_a_bound_that_no_run_comes_near_is_forgotten_in_time() -> None:
    profiles = profiles_of(*[100] * 20)
    learn(profiles, 600, outcome="oom")

    learn(profiles, *[100] * 30)

    assert lease(profiles) == 100


def test_a_bound_that_runs_confirm_is_the_new_level() -> None:
    profiles = profiles_of(*[100] * 20)
    profiles.note_growth(KEY, "A100", 300 * MIB)
    assert lease(profiles) > 300

    learn(profiles, *[300] * 5)

    assert lease(profiles) == 300
    assert not profiles.doubts(KEY, "A100")


def test_growth_beyond_the_promise_counts_before_the_run_ends() -> None:
    profiles = profiles_of(*[100] * 20)

    profiles.note_growth(KEY, "A100", 300 * MIB)

    assert lease(profiles) > 300
    assert profiles.doubts(KEY, "A100")
    assert not profiles.doubts(KEY, "H100")


def test_r107_a_stand_in_below_the_truth_is_corrected_by_the_first_real_run() -> None:
    profiles = Profiles()
    learn(profiles, 100, stand_in=True)
    assert lease(profiles) == pytest.approx(108)

    learn(profiles, 500)

    assert lease(profiles) == 500
    assert estimate(profiles).kind is Kind.MEASURED


def test_r107_a_stand_in_above_the_truth_is_replaced_by_the_first_real_run() -> None:
    profiles = Profiles()
    learn(profiles, 800, stand_in=True)

    learn(profiles, 100)

    assert lease(profiles) == 100
    assert cell_of(profiles).runs == 1


def test_a_stand_in_that_ran_out_of_memory_is_raised() -> None:
    profiles = Profiles()
    learn(profiles, 100, stand_in=True)

    learn(profiles, 300, outcome="oom", asked=100)

    assert lease(profiles) > 400


def test_a_declared_size_counts_until_something_was_measured() -> None:
    profiles = Profiles()
    declared = profiles.estimate(KEY, a_card(), memory_bytes=500 * MIB)

    assert declared is not None
    assert (declared.lease_bytes, declared.kind) == (500 * MIB, Kind.PRIOR)

    learn(profiles, 100)
    measured = profiles.estimate(KEY, a_card(), memory_bytes=500 * MIB)
    assert measured is not None
    assert measured.lease_bytes == 100 * MIB


def test_a_settled_run_counts_where_it_runs_and_until_it_ends() -> None:
    profiles = Profiles()
    profiles.note_settled(KEY, "A100", 200 * MIB)

    assert estimate(profiles).kind is Kind.SETTLED
    assert lease(profiles) == pytest.approx(216)

    learn(profiles, 150)
    assert lease(profiles) == 150


def test_an_unseen_run_teaches_no_level() -> None:
    profiles = profiles_of(100)
    learn(profiles, 0, seen=False)

    assert cell_of(profiles).runs == 1
    assert cell_of(profiles).mean_bytes == 100 * MIB


def test_an_unseen_first_run_is_better_than_none() -> None:
    profiles = Profiles()
    learn(profiles, 0, seen=False)

    assert lease(profiles) == 10


def test_durations_are_those_of_the_last_two_runs() -> None:
    profiles = Profiles()
    assert profiles.duration_s(KEY, "A100") is None

    for run_s in (100.0, 10.0, 20.0):
        learn(profiles, 100, run_s=run_s)

    assert profiles.duration_s(KEY, "A100") == 15
    assert profiles.duration_s(KEY, "") == 15
    assert profiles.duration_s(key_of("fit", {"n": 7}), "A100") == 15


def test_only_runs_without_company_say_how_long_it_takes_alone() -> None:
    profiles = Profiles()
    learn(profiles, 100, run_s=30.0)
    assert profiles.solo_s(KEY, "A100") is None

    learn(profiles, 100, run_s=10.0, alone=True)

    assert profiles.solo_s(KEY, "A100") == 10


def test_l02_the_highest_utilisation_is_kept() -> None:
    profiles = Profiles()
    for highest, mean in ((0.9, 0.5), (0.4, 0.3)):
        learn(profiles, 100, utilisation=highest, mean_utilisation=mean)

    assert cell_of(profiles).utilisation == 0.9
    assert cell_of(profiles).mean_utilisation == pytest.approx(0.4)


def test_what_it_would_have_managed_with_is_kept_apart() -> None:
    profiles = Profiles()
    learn(profiles, 100, need_bytes=70 * MIB)

    assert cell_of(profiles).need_bytes == 70 * MIB
    assert lease(profiles) == 100


def test_the_largest_arguments_that_did_fit_are_found() -> None:
    profiles = Profiles()
    for size in (32, 64, 128, 512):
        learn(profiles, size, key=key_of("fit", {"net": "a", "n": size}))
    learn(profiles, 999, key=key_of("fit", {"net": "b", "n": 8}))
    too_much = key_of("fit", {"net": "a", "n": 256})

    assert profiles.largest_below(too_much, "A100") == ({"net": "a", "n": 128}, 128 * MIB)
    assert profiles.largest_below(too_much, "H100") is None
    assert profiles.largest_below(key_of("fit", {"net": "a", "n": 8}), "A100") is None


def test_types_with_new_estimates_are_named() -> None:
    profiles = profiles_of(100)
    assert profiles.changed == {"fit"}
    profiles.changed.clear()

    profiles.note_growth(KEY, "A100", 50 * MIB)
    assert profiles.changed == {"fit"}
