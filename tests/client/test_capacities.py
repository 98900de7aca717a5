"""Capacities and needs as people write them: exact, or refused with the right form."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grn_zmq.amounts import format_amount, parse_amount
from grn_zmq.capacities import (
    CAPACITY_FORMS,
    MOST_INSTANCES,
    NEED_FORM,
    parse_capacity,
    parse_need,
)
from grn_zmq.control_messages import CreateQueue
from grn_zmq.declared import Declared, parse_gpus, parse_resource
from tests.builders import a_spec, an_id


def test_g04_names_need_no_quotes_and_all_of_json5_may_be_written() -> None:
    short = parse_capacity("{gpu:2,cpu:[16]}")

    assert short == {"gpu": {"0": "1", "1": "1"}, "cpu": {"0": "16"}}
    assert parse_capacity('{"gpu": 2, "cpu": [16]}') == short
    assert parse_capacity("// ours\n{gpu: 2, /* cores */ cpu: [0x10,],}\n") == short


def test_g05_a_number_is_so_many_instances_of_one() -> None:
    assert parse_capacity("{gpu:4}") == {"gpu": dict.fromkeys("0123", "1")}
    assert parse_capacity("{gpu:4.0}") == parse_capacity("{gpu:4}")


def test_g06_a_list_is_an_instance_for_each_amount() -> None:
    assert parse_capacity("{hdd:[32,64.5,128]}") == {
        "hdd": {"0": "32", "1": "64.5", "2": "128"}
    }


def test_g07_an_object_gives_instances_their_names() -> None:
    assert parse_capacity("{gpu:{'4':1,'2':0.5}}") == {"gpu": {"4": "1", "2": "0.5"}}
    assert list(parse_capacity("{gpu:{'4':1,'2':1}}")["gpu"]) == ["4", "2"]


@pytest.mark.parametrize(
    ("written", "exact"),
    [("0.1", "0.1"), (".5", "0.5"), ("1e-3", "0.001"), ("'1/3'", "1/3"), ("+2", "2")],
)
def test_g15_amounts_are_taken_as_they_are_written(written: str, exact: str) -> None:
    assert parse_capacity(f"{{x:[{written}]}}") == {"x": {"0": exact}}
    assert parse_need(f"{{x:{written}}}", "q").resources == {"x": exact}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "nothing is written here"),
        ("{gpu:4", "'{gpu:4' is no JSON5 (line 1: Unexpected end of input at column 7)"),
        ("{\ngpu:}", "is no JSON5 (line 2: Unexpected"),
        ("{gpu:4,gpu:2}", 'Duplicate key "gpu"'),
        ("gpu:4", "'gpu:4' has no braces: put it in quotes"),
        ("[4]", "'[4]' names no resource"),
        ("{gpu:0}", "gpu has no instance"),
        ("{gpu:[]}", "gpu has no instance"),
        ("{gpu:{}}", "gpu has no instance"),
        ("{gpu:0.5}", "one instance of so much is gpu:[0.5]"),
        ("{gpu:-1}", "gpu: -1 is not an amount"),
        ("{gpu:[-0.5]}", "gpu: -0.5 is not an amount"),
        ("{gpu:true}", "gpu: true or false where an amount is expected"),
        ("{gpu:null}", "gpu: null where an amount is expected"),
        ("{gpu:[[1]]}", "gpu: a list where an amount is expected"),
        ("{gpu:[{}]}", "gpu: an object where an amount is expected"),
        ("{gpu:[NaN]}", "gpu: 'NaN' is not an amount"),
        ("{gpu:[Infinity]}", "gpu: 'Infinity' is not an amount"),
        ("{gpu:[1e999]}", "gpu: '1e999' is not an amount"),
        ("{gpu:'many'}", "gpu: 'many' is not an amount"),
        ("{RAM:65536}", "one pool of so much is RAM:[65536]"),
        ("{'my gpu':1}", "'my gpu' is no name of a resource"),
        ("{gpu:{'a b':1}}", "gpu: 'a b' is no name of an instance"),
        ("{gpu:{'0,1':1}}", "gpu: '0,1' is no name of an instance"),
        ("{gpu:{'':1}}", "gpu: '' is no name of an instance"),
        ("{gpu:" + "[" * 5000, "has too many braces in each other"),
    ],
    ids=lambda text: str(text)[:30],
)
def test_g32_a_capacity_that_is_none_is_refused_with_the_right_form(
    text: str, told: str
) -> None:
    with pytest.raises(ValueError) as refused:
        parse_capacity(text)

    assert told in str(refused.value)
    assert str(refused.value).endswith(CAPACITY_FORMS)
    assert len(str(refused.value)) < 300


def test_what_is_far_too_long_is_refused_unread() -> None:
    for text in ("{" * 100_000, "x" * 100_000):
        with pytest.raises(ValueError, match="has 100,000 characters: at most 20,000"):
            parse_capacity(text)
    most = parse_capacity(f"{{x:{MOST_INSTANCES}}}")
    assert len(most["x"]) == MOST_INSTANCES


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", Declared(0, "", {}, "q")),
        ("{}", Declared(0, "", {}, "q")),
        ("{gpu:0.5,cpu:4}", Declared(1, "0.5", {"cpu": "4"}, "q")),
        ("{gpu:1}", Declared(1, "1", {}, "q")),
        ("{gpu:2}", Declared(2, "", {}, "q")),
        ("{gpu:-1}", Declared(-1, "", {}, "q")),
        ("{gpu:0,cpu:0,licence:1}", Declared(0, "", {"licence": "1"}, "q")),
        ("{printer:1}", Declared(0, "", {"printer": "1"}, "q")),
    ],
)
def test_g09_g13_g37_a_need_is_devices_a_part_of_one_and_amounts_of_anything(
    text: str, meant: Declared
) -> None:
    assert parse_need(text, "q") == meant


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{gpu:2.5}", "gpu: 2.5 GPUs cannot be had: it is a whole number of them, or a part"),
        ("{gpu:-2}", "gpu: -2 is not an amount"),
        ("{gpu:5000}", "gpu: 5000 GPUs are more than any machine has (1,024)"),
        ("{cpu:-1}", "cpu: -1 is not an amount"),
        ("{cpu:[4]}", "cpu: a list where an amount is expected"),
        ("{'a b':1}", "'a b' is no name of a resource"),
        ("{gpu:}", "is no JSON5"),
        ("[]", "names no resource"),
    ],
)
def test_g32_g37_a_need_that_is_none_is_refused_with_the_right_form(
    text: str, told: str
) -> None:
    with pytest.raises(ValueError) as refused:
        parse_need(text, "q")

    assert told in str(refused.value)
    assert str(refused.value).endswith(NEED_FORM)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, (0, "")),
        (1, (1, "")),
        (1.0, (1, "")),
        ("2", (2, "")),
        (-1, (-1, "")),
        ("all", (-1, "")),
        (0.5, (1, "0.5")),
        (0.1, (1, "0.1")),
        ("1/3", (1, "1/3")),
        (Fraction(1, 3), (1, "1/3")),
    ],
)
def test_a_number_of_gpus_is_whole_or_a_part_of_one(
    written: Any, meant: tuple[int, str]
) -> None:
    assert parse_gpus(written) == meant
    assert a_spec(gpus=meant[0], share=meant[1]).gpus == meant[0]


@pytest.mark.parametrize("written", [-2, 2.5, "many", True, float("nan"), float("inf"), 1025])
def test_what_is_no_number_of_gpus_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="GPUs"):
        parse_gpus(written)


@pytest.mark.parametrize(
    ("name", "amount"), [("cpu", 0), ("cpu", -1), ("cpu", "x"), ("a b", 1), ("", 1), ("1a", 1)]
)
def test_what_is_no_amount_of_a_resource_is_refused(name: str, amount: Any) -> None:
    with pytest.raises(ValueError):
        parse_resource(name, amount)


@given(
    st.dictionaries(
        st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,8}", fullmatch=True).filter(
            lambda name: name.isascii()
        ),
        st.lists(st.fractions(0, 1000, max_denominator=1000), min_size=1, max_size=4),
        max_size=3,
    )
)
def test_what_was_read_can_travel_and_is_what_was_written(
    declared: dict[str, list[Fraction]],
) -> None:
    lists = (
        f"'{name}': [{', '.join(repr(format_amount(one)) for one in amounts)}]"
        for name, amounts in declared.items()
    )

    found = parse_capacity(f"{{{', '.join(lists)}}}")

    CreateQueue(an_id(1), "q", found, (), None)
    assert {
        name: [parse_amount(amount) for amount in instances.values()]
        for name, instances in found.items()
    } == declared
