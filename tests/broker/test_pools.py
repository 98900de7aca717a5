"""What a queue has: whether a need fits, which instances it gets, and that nothing is lost."""

import math
import time
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.instances import MOST_TOGETHER
from broker.pools import Lack, Pools
from grn_zmq.amounts import parse_amount


def units(count: int) -> dict[str, str]:
    return {str(index): "1" for index in range(count)}


def some_pools(**capacity: Mapping[str, str]) -> Pools:
    return Pools(
        {
            name: {one: parse_amount(amount) for one, amount in instances.items()}
            for name, instances in capacity.items()
        }
    )


def needs(**amounts: str) -> dict[str, Fraction]:
    return {name: parse_amount(amount) for name, amount in amounts.items()}


def instances(granted: Mapping[str, Mapping[str, Fraction]], resource: str) -> list[str]:
    return list(granted[resource])


def test_g05_instances_of_one_are_taken_one_after_the_other() -> None:
    pools = some_pools(gpu=units(4))

    taken = [instances(pools.grant(f"job {n}", needs(gpu="1")), "gpu") for n in range(4)]

    assert taken == [["0"], ["1"], ["2"], ["3"]]
    assert not pools.fits(needs(gpu="0.001"))
    pools.check()


def test_g06_an_amount_is_taken_of_one_instance_that_has_it() -> None:
    pools = some_pools(hdd={"0": "32", "1": "64", "2": "128"})

    taken = [
        instances(pools.grant(amount, needs(hdd=amount)), "hdd")
        for amount in ("100", "20", "30")
    ]

    assert taken == [["2"], ["2"], ["0"]]
    assert pools.left()["hdd"] == {"0": 2, "1": 64, "2": 8}
    assert pools.impossible(needs(hdd="129")) == (
        "hdd: 129 is needed of one instance, and the largest of its 3 has 128"
    )


def test_g07_only_the_instances_that_were_named_are_ever_taken() -> None:
    pools = some_pools(gpu={"2": "1", "4": "1"})

    taken: set[str] = set()
    for number in range(6):
        granted = pools.grant(f"job {number}", needs(gpu="0.5"))
        taken |= granted["gpu"].keys()
        if number % 4 == 3:
            pools.release(f"job {number - 1}")
            pools.release(f"job {number - 2}")

    assert taken == {"2", "4"}
    assert pools.impossible(needs(gpu="3")) == "gpu: 3 are needed, and there are 2"


def test_g08_one_pool_has_what_many_units_have_not() -> None:
    pool, many = some_pools(RAM={"0": "512"}), some_pools(RAM=units(512))

    assert pool.impossible(needs(RAM="300")) == ""
    assert pool.fits(needs(RAM="300"))
    assert many.impossible(needs(RAM="300")) == (
        "RAM: 300 are needed, but of 512 instances of 1 a job gets at most 64. If they are one "
        "pool, declare it as a list: [512]"
    )
    assert not many.fits(needs(RAM="300"))
    assert many.fits(needs(RAM=str(MOST_TOGETHER)))
    assert not many.fits(needs(RAM=str(MOST_TOGETHER + 1)))


def test_g12_what_is_needed_is_granted_together_or_not_at_all() -> None:
    pools = some_pools(gpu=units(1), cpu=units(4))
    both = needs(gpu="0.5", cpu="4")
    pools.grant("first", both)

    assert not pools.fits(both)
    assert pools.left() == {"gpu": {"0": Fraction(1, 2)}, "cpu": dict.fromkeys("0123", 0)}
    assert pools.lacking(both) == [Lack("cpu", Fraction(4), Fraction(0), Fraction(4))]
    with pytest.raises(AssertionError):
        pools.grant("second", both)
    assert pools.granted("second") == {}
    pools.check()

    assert pools.release("first")
    assert pools.grant("second", both)["cpu"] == dict.fromkeys("0123", 1)


def test_g14_two_halves_fit_on_one_and_a_third_does_not() -> None:
    pools = some_pools(gpu=units(1))
    half = needs(gpu="0.5")

    pools.grant("first", half)
    assert pools.fits(half)
    pools.grant("second", half)

    assert not pools.fits(half)
    assert pools.holders("gpu") == ["first", "second"]
    assert pools.release("first")
    assert pools.fits(half)


def test_g15_ten_tenths_are_one_and_a_thousand_rounds_leave_exactly_one() -> None:
    pools = some_pools(gpu=units(1))
    tenth = needs(gpu="0.1")

    for _ in range(1000):
        for number in range(10):
            assert pools.fits(tenth)
            pools.grant(f"job {number}", tenth)
        assert not pools.fits(needs(gpu="0.0000000001"))
        for number in range(10):
            pools.release(f"job {number}")

    assert pools.left() == {"gpu": {"0": 1}}
    pools.check()


@pytest.mark.parametrize("amount", ["1/3", "0.7", "1e-9"])
def test_g15_amounts_that_no_float_has_leave_exactly_one(amount: str) -> None:
    pools = some_pools(gpu=units(1))

    for _ in range(1000):
        pools.grant("job", needs(gpu=amount))
        pools.release("job")

    assert pools.left() == {"gpu": {"0": 1}}


def test_g35_the_least_left_that_is_enough_is_taken_and_of_equals_the_first_declared() -> None:
    pools = some_pools(gpu={"b": "1", "a": "1", "c": "1"})

    taken = [instances(pools.grant(f"{n}", needs(gpu="0.4")), "gpu")[0] for n in range(5)]

    assert taken == ["b", "b", "a", "a", "c"]
    assert pools.able("gpu", Fraction(1, 5)) == ["b", "a", "c"]
    assert pools.able("gpu", Fraction(1, 2)) == ["c"]
    assert pools.able("licence", Fraction(1)) == []


def test_g37_a_whole_number_takes_as_many_whole_instances() -> None:
    pools = some_pools(gpu=units(4))
    pools.grant("part", needs(gpu="0.5"))

    assert pools.grant("two", needs(gpu="2")) == {"gpu": {"1": 1, "2": 1}}

    assert not pools.fits(needs(gpu="2"))
    assert pools.lacking(needs(gpu="2")) == [Lack("gpu", *map(Fraction, (2, 1, 4)))]
    assert pools.able("gpu", Fraction(2)) == ["3"]


def test_g37_two_and_a_half_are_refused_by_the_rule() -> None:
    assert some_pools(gpu=units(4)).impossible(needs(gpu="2.5")) == (
        "gpu: 2.5 is needed, but an amount above 1 must be a whole number: it has 4 instances "
        "of 1"
    )
    assert some_pools(gpu=units(1)).impossible(needs(gpu="1.5")).endswith("1 instance of 1")
    assert some_pools(ram={"0": "512"}).impossible(needs(ram="2.5")) == ""


def test_g23_what_can_never_be_had_is_named_with_what_there_is() -> None:
    pools = some_pools(gpu=units(2), ram={"0": "0.5"})

    assert pools.impossible(needs(licence="1")) == (
        "there is no resource 'licence' (there are: gpu, ram)"
    )
    assert pools.impossible(needs(gpu="3")) == "gpu: 3 are needed, and there are 2"
    assert pools.impossible(needs(ram="0.6")) == "ram: 0.6 is needed, and there is 0.5"
    assert some_pools().impossible(needs(x="1")).endswith("(there are: none)")
    assert not some_pools().fits(needs(x="1"))
    assert some_pools().lacking(needs(x="1")) == [Lack("x", *map(Fraction, (1, 0, 0)))]


def test_instances_that_were_decided_elsewhere_are_taken() -> None:
    pools = some_pools(gpu=units(4), cpu={"0": "16"})

    both = pools.grant("two", needs(gpu="2", cpu="4"), {"gpu": ["3", "1"]})
    part = pools.grant("part", needs(gpu="0.5"), {"gpu": ["2"]})

    assert both == {"gpu": {"3": 1, "1": 1}, "cpu": {"0": 4}}
    assert part == {"gpu": {"2": Fraction(1, 2)}}
    with pytest.raises(AssertionError):
        pools.grant("third", needs(gpu="0.6"), {"gpu": ["2"]})
    with pytest.raises(AssertionError):
        pools.grant("third", needs(gpu="1"), {"gpu": ["0", "2"]})
    pools.check()


def test_what_an_ancestor_has_does_not_count_against_its_jobs() -> None:
    pools = some_pools(gpu=units(1), cpu={"0": "4"})
    pools.grant("parent", needs(gpu="1"))
    whole = needs(gpu="1", cpu="1")

    assert not pools.fits(whole)
    assert not pools.fits(whole, {"stranger"})
    assert pools.fits(whole, {"parent"})
    assert pools.able("gpu", Fraction(1), {"parent"}) == ["0"]
    assert pools.lacking(whole, {"parent"}) == []
    pools.grant("child", whole, without={"parent"})

    pools.check()
    assert pools.left()["gpu"] == {"0": 0}
    assert not pools.fits(whole, {"parent"})
    pools.release("parent")
    assert not pools.fits(whole)
    pools.release("child")
    assert pools.left() == {"gpu": {"0": 1}, "cpu": {"0": 4}}
    pools.check()


def test_what_was_granted_before_a_restart_holds_whatever_there_is_now() -> None:
    pools = some_pools(gpu=units(1))
    before = {"gpu": {"0": Fraction(1), "7": Fraction(1)}, "gone": {"0": Fraction(2)}}
    pools.grant("new", needs(gpu="1"))

    pools.adopt("old", before)
    pools.adopt("old", before)

    pools.check()
    assert pools.granted("old") == before
    pools.release("new")
    assert not pools.fits(needs(gpu="0.1"))
    assert pools.release("old")
    assert not pools.release("old")
    assert pools.left() == {"gpu": {"0": 1}}


def test_it_is_ready_when_enough_of_those_who_have_it_have_ended() -> None:
    pools = some_pools(gpu=units(2), cpu={"0": "4"})
    ends = {"a": 30.0, "b": 10.0, "c": 20.0, "d": math.inf}
    pools.grant("a", needs(gpu="1"))
    pools.grant("b", needs(gpu="1"))
    pools.grant("c", needs(cpu="3"))

    def ready(now: float = 0.0, **amounts: str) -> float:
        return pools.ready_at(needs(**amounts), ends.__getitem__, now)

    assert ready(cpu="1") == 0.0
    assert ready(gpu="1") == 10.0
    assert ready(gpu="0.1") == 10.0
    assert ready(gpu="2") == 30.0
    assert ready(gpu="1", cpu="2") == 20.0
    assert ready(25.0, gpu="1") == 25.0
    assert ready(gpu="3") == math.inf
    assert ready(licence="1") == math.inf
    pools.grant("d", needs(cpu="1"))
    assert ready(cpu="4") == math.inf
    assert ready(cpu="3") == 20.0
    pools.check()


def test_ten_thousand_needs_of_five_resources_are_answered_in_milliseconds() -> None:
    names = [f"r{number}" for number in range(5)]
    pools = some_pools(**{name: units(8) for name in names})
    asked = [
        {name: Fraction(number % 90 + 1, 10) for name in names} for number in range(10_000)
    ]
    for one in asked:
        pools.fits(one)
    pools.grant("job", {name: Fraction(1) for name in names})

    spent = []
    for _ in range(5):
        pools.release("job")
        pools.grant("job", {name: Fraction(1) for name in names})
        before = time.process_time()
        for one in asked:
            pools.fits(one)
        spent.append(time.process_time() - before)

    assert min(spent) < 0.1


AMOUNTS = st.fractions(min_value=Fraction(1, 12), max_value=3, max_denominator=12)
CAPACITY = st.dictionaries(
    st.sampled_from("abc"),
    st.one_of(
        st.integers(1, 4).map(lambda n: {str(i): Fraction(1) for i in range(n)}),
        st.dictionaries(st.sampled_from("xyz"), AMOUNTS, min_size=1),
    ),
    min_size=1,
)
NEEDS = st.dictionaries(st.sampled_from("abcd"), AMOUNTS, min_size=1)
ROUNDS = st.lists(st.tuples(st.integers(0, 5), NEEDS), max_size=40)


@settings(max_examples=150, deadline=None)
@given(CAPACITY, ROUNDS)
def test_whatever_comes_and_goes_nothing_is_lost_and_nothing_is_overdrawn(
    capacity: dict[str, dict[str, Fraction]],
    rounds: list[tuple[int, dict[str, Fraction]]],
) -> None:
    pools = Pools(capacity)

    for number, wanted in rounds:
        if pools.release(f"job {number}"):
            continue
        fit = pools.fits(wanted)
        assert fit == (not pools.lacking(wanted))
        if fit:
            assert pools.impossible(wanted) == ""
            granted = pools.grant(f"job {number}", wanted)
            assert {name: sum(one.values()) for name, one in granted.items()} == wanted
        elif not pools.impossible(wanted):
            assert pools.ready_at(wanted, lambda _: 5.0, 1.0) == 5.0
        else:
            assert pools.ready_at(wanted, lambda _: 5.0, 1.0) == math.inf
        pools.check()
        assert pools.fits(wanted) == (not pools.lacking(wanted))

    for number in range(6):
        pools.release(f"job {number}")
    assert pools.left() == capacity


@settings(max_examples=100, deadline=None)
@given(CAPACITY, ROUNDS, st.sets(st.integers(0, 5)))
def test_answers_without_some_jobs_are_those_there_would_be_had_they_ended(
    capacity: dict[str, dict[str, Fraction]],
    rounds: list[tuple[int, dict[str, Fraction]]],
    left_out: set[int],
) -> None:
    pools, without = Pools(capacity), {f"job {number}" for number in left_out}
    for number, wanted in rounds:
        if not pools.granted(f"job {number}") and pools.fits(wanted):
            pools.grant(f"job {number}", wanted)

    answers = [
        (pools.fits(wanted, without), pools.lacking(wanted, without)) for _, wanted in rounds
    ]
    able = [pools.able(name, Fraction(1, 2), without) for name in "abcd"]
    for job_id in without:
        pools.release(job_id)

    assert answers == [(pools.fits(wanted), pools.lacking(wanted)) for _, wanted in rounds]
    assert able == [pools.able(name, Fraction(1, 2)) for name in "abcd"]
