"""Grids of commands: which values there are, in which order, and where they stand."""

import pytest

from grn_zmq.cli.queueing.sweeps import (
    MOST_JOBS,
    fill,
    grid,
    names_in,
    parse_array,
    parse_name,
    parse_param,
    type_of_grid,
)
from grn_zmq.naming import type_of_command
from grn_zmq.placeholders import NAMES

VALUES = {"lr": "0.1", "model.size": "large", "array": "3", "index": "3"}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("lr=0.1,0.01", ("0.1", "0.01")),
        ("lr=0.1", ("0.1",)),
        ("lr=0.1, 0.01", ("0.1", "0.01")),
        ("lr=a=b,c", ("a=b", "c")),
        (r"lr=a\,b,c", ("a,b", "c")),
        ('lr=["a,b", "", 1e-3, 10, true]', ("a,b", "", "1e-3", "10", "true")),
    ],
)
def test_values_are_separated_by_commas_or_listed(text: str, values: tuple[str, ...]) -> None:
    assert parse_param(text) == ("lr", values)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lr", "write NAME=VALUE"),
        ("lr=", "empty value"),
        ("lr=1,,2", "empty value"),
        ("=1", "is no name"),
        ("a b=1", "is no name"),
        ("1st=1", "is no name"),
        ("lr=[1,2", "no JSON list"),
        ("lr=[1],[2]", "no JSON list"),
        ("lr=[]", "no JSON list"),
        ("lr=[[1]]", "texts and numbers only"),
        ("lr=[null]", "texts and numbers only"),
        ("array=1", "index of --array"),
        ("index=1", "index of --array"),
    ],
)
def test_what_is_no_list_of_values_is_refused_with_how_to_write_it(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_param(text)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_names_that_a_lease_fills_in_are_not_to_be_had(name: str) -> None:
    with pytest.raises(ValueError, match="filled in by the lease"):
        parse_param(f"{name}=1,2")


def test_a_name_that_no_message_can_carry_is_refused() -> None:
    assert parse_name("x" * 4096) == "x" * 4096
    with pytest.raises(ValueError, match=r"at most 4,096 characters, this one 70,000"):
        parse_name("x" * 70_000)


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("1-4", (1, 2, 3, 4)),
        ("0-10:5", (0, 5, 10)),
        ("1-10:4", (1, 5, 9)),
        ("1,3,7", (1, 3, 7)),
        ("5", (5,)),
        ("7,1-3", (7, 1, 2, 3)),
        ("1-3,2-4", (1, 2, 3, 4)),
    ],
)
def test_indices_are_ranges_and_lists(text: str, indices: tuple[int, ...]) -> None:
    assert parse_array(text) == indices


@pytest.mark.parametrize(
    "text", ["", "a", "1-", "-1", "1-3-5", "4-1", "1-3:0", "1,,2", "1.5", "1-4%2", "٣"]
)
def test_what_is_no_list_of_indices_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_array(text)


def test_more_jobs_than_anybody_means_are_refused_before_they_are_made() -> None:
    with pytest.raises(ValueError, match=r"999,999,999 jobs: at most 100,000 at once. Split"):
        parse_array("1-999999999")
    with pytest.raises(ValueError, match="at most"):
        grid({"a": ["x"] * 400, "b": ["y"] * 400}, None)

    assert len(parse_array(f"1-{MOST_JOBS}")) == MOST_JOBS


def test_the_last_name_varies_fastest_and_the_array_faster_still() -> None:
    points = grid({"lr": ("0.1", "0.01"), "bs": ("8", "16")}, (1, 2))

    assert [(one["lr"], one["bs"], one["array"]) for one in points] == [
        *(("0.1", "8", "1"), ("0.1", "8", "2"), ("0.1", "16", "1"), ("0.1", "16", "2")),
        *(("0.01", "8", "1"), ("0.01", "8", "2"), ("0.01", "16", "1"), ("0.01", "16", "2")),
    ]
    assert all(one["index"] == one["array"] for one in points)


def test_without_a_grid_there_is_one_job_without_values() -> None:
    assert grid({}, None) == [{}]


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{lr}", "0.1"),
        ("--lr={lr}", "--lr=0.1"),
        ("{lr}{lr}", "0.10.1"),
        ("{model.size}", "large"),
        ("{array}/{index}", "3/3"),
        ("{{lr}}", "{lr}"),
        ("{{{lr}}}", "{0.1}"),
        ("{{{{lr}}}}", "{{lr}}"),
        ('{"lr": {lr}}', '{"lr": 0.1}'),
        ('{"a":{"lr":{lr}}}', '{"a":{"lr":0.1}}'),
        ("{gpu} {{gpu}} {other} {} { lr } ${lr", "{gpu} {{gpu}} {other} {} { lr } ${lr"),
        ("awk '{print $1}'", "awk '{print $1}'"),
    ],
)
def test_g18_names_in_braces_are_replaced_and_other_braces_left_alone(
    text: str, filled: str
) -> None:
    assert fill(text, VALUES) == filled


def test_a_value_is_not_looked_at_again() -> None:
    assert fill("{a} {b}", {"a": "{b}", "b": "{a}"}) == "{b} {a}"


def test_literal_braces_do_not_use_a_value() -> None:
    assert names_in(["{a} x", "{{b}}", "{{{c}}}", '{"d": {e}}']) == {"a", "c", "e"}


def test_all_commands_of_a_grid_over_numbers_have_the_type_of_each() -> None:
    words = ["python", "train.py", "--lr", "{lr}", "--bs={bs}", "--steps", "100"]

    typed = type_of_grid(words, ["lr", "bs"])

    assert typed == "python train.py --lr # --bs=# --steps #"
    assert typed == type_of_command("python train.py --lr 0.1 --bs=8 --steps 100")


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (["a", "out/{lr}/x"], "a out/#/x"),
        (["a", "{lr}", "{gpu}"], "a # '{gpu}'"),
        (["a", "b 1", "2"], "a 'b 1' #"),
    ],
)
def test_a_grid_is_of_one_type_wherever_its_values_stand(words: list[str], typed: str) -> None:
    assert type_of_grid(words, ["lr"]) == typed
