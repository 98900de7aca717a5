"""How long profiles last: other code, bounded numbers, forgetting, another broker."""

from broker.cells import key_of
from broker.profiles import MOST_CELLS, Profiles
from tests.broker.learned import KEY, a_card, cell_of, estimate, learn, lease, profiles_of
from tests.builders import MIB


def test_other_code_keeps_the_figures_and_trusts_them_less() -> None:
    profiles = Profiles()
    profiles.note_version("fit", "1")
    learn(profiles, *[100] * 50)
    before = estimate(profiles)
    assert not profiles.young(KEY, "A100")

    profiles.note_version("fit", "2")
    after = estimate(profiles)

    assert after.lease_bytes == before.lease_bytes
    assert after.bias_bytes > 5 * before.bias_bytes
    assert after.runs == 50
    assert profiles.young(KEY, "A100")
    assert cell_of(profiles).version == "2"


def test_the_same_code_or_none_at_all_changes_no_trust() -> None:
    profiles = Profiles()
    profiles.note_version("fit", "1")
    learn(profiles, *[100] * 50)
    before = estimate(profiles)

    profiles.note_version("fit", "1")
    profiles.note_version("fit", "")
    profiles.note_version("other", "2")

    assert estimate(profiles) == before


def test_trust_in_other_code_grows_again() -> None:
    profiles = Profiles()
    profiles.note_version("fit", "1")
    learn(profiles, *[100] * 50)
    profiles.note_version("fit", "2")
    changed = estimate(profiles)

    learn(profiles, *[100] * 20)

    assert estimate(profiles).bias_bytes < changed.bias_bytes / 3


def test_other_code_makes_old_failures_harmless() -> None:
    profiles = Profiles()
    profiles.note_version("fit", "1")
    learn(profiles, 100, 100, outcome="failed")

    profiles.note_version("fit", "2")

    assert profiles.estimate(KEY, a_card()) is None


def test_a_type_keeps_a_bounded_number_of_cells_and_the_oldest_go() -> None:
    profiles = Profiles()
    for number in range(MOST_CELLS + 50):
        learn(profiles, 100, key=key_of("fit", {"lr": number}))
        learn(profiles, 100, key=key_of("fit", {"lr": 0}))  # still in use
    learn(profiles, 100, key=key_of("other", {}))

    of_fit = [dict(cell_id.by)["lr"] for cell_id, _ in profiles if cell_id.job_type == "fit"]

    assert len(of_fit) == MOST_CELLS
    assert {0, MOST_CELLS + 49} <= set(of_fit)
    assert 1 not in of_fit
    assert lease(profiles, key_of("other", {})) == 100


def test_what_is_forgotten_must_be_measured_again() -> None:
    profiles = profiles_of(100)
    learn(profiles, 100, device_class="H100")
    learn(profiles, 100, key=key_of("fit", {"n": 1}))
    profiles.note_settled(KEY, "A100", 100 * MIB)

    assert profiles.forget("fit") == 3
    assert profiles.estimate(KEY, a_card()) is None
    assert profiles.forget("fit") == 0


def test_r62_what_an_earlier_broker_knew_is_taken_over() -> None:
    earlier = Profiles()
    earlier.note_version("fit", "1")
    learn(earlier, 100, 110, 120)
    learn(earlier, 300, key=key_of("fit", {"n": 1}), device_class="H100")

    later = Profiles()
    for cell_id, cell in earlier:
        later.restore(cell_id, cell)

    assert estimate(later) == estimate(earlier)
    assert list(later) == list(earlier)
    before = estimate(later)
    later.note_version("fit", "1")
    assert estimate(later) == before
    later.note_version("fit", "2")
    assert estimate(later).bias_bytes > before.bias_bytes
