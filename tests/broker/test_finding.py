"""References: numbers, ranges, lists, beginnings of ids, names, and counting from the end."""

import pytest

from broker.finding import find
from broker.jobs import Job
from tests.builders import a_job, a_spec

IDS = ["abcd" + "0" * 28, "abce" + "0" * 28, "ffff" + "1" * 28, "1234" + "5" * 28]


def jobs() -> list[Job]:
    """Jobs 1 to 4; the second and the third share a name."""
    names = ["", "night", "night", "12"]
    return [
        Job(a_spec(job_id=IDS[at], name=names[at]), at + 1, session="s", queued_at=0.0)
        for at in range(4)
    ]


def numbers(ref: str) -> list[int]:
    (found,) = find([ref], jobs())
    assert not found.error
    return [IDS.index(one) + 1 for one in found.job_ids]


def error(ref: str) -> str:
    (found,) = find([ref], jobs())
    assert found.job_ids == ()
    return found.error


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("1", [1]),
        ("3", [3]),
        ("2-3", [2, 3]),
        ("2-99", [2, 3, 4]),
        ("4,1", [1, 4]),
        ("1,1-2", [1, 2]),
        ("@", [4]),
        ("@~1", [3]),
        ("@,1", [1, 4]),
        ("ffff", [3]),
        ("abcd0", [1]),
        (IDS[1], [2]),
        ("night", [2, 3]),
        ("night,1", [1, 2, 3]),
        ("12", [4]),
        ("12345", [4]),
    ],
)
def test_g31_a_reference_means_these_jobs(ref: str, expected: list[int]) -> None:
    assert numbers(ref) == expected


@pytest.mark.parametrize(
    "ref", ["9", "7-8", "day", "abcdf", "1,9", "fff", "3-2", "1" * 5000, "²", "@~²", "9" * 15]
)
def test_a_reference_to_nothing_says_so(ref: str) -> None:
    assert error(ref).startswith("no job ")


def test_three_digits_are_too_few_to_be_meant_as_the_beginning_of_an_id() -> None:
    assert error("fff").startswith("no job")


def test_g31_an_ambiguous_beginning_names_what_it_could_mean() -> None:
    twins = [a_job(17), a_job(18)]

    (found,) = find(["00000000000000000000"], twins)

    assert found.job_ids == ()
    assert "is the beginning of 2 ids" in found.error
    assert "(17)" in found.error


@pytest.mark.parametrize(
    ("ref", "text"), [("@~4", "there are 4"), ("", "empty"), (",", "empty")]
)
def test_what_is_no_reference_says_so(ref: str, text: str) -> None:
    (found,) = find([ref], jobs())

    assert found.job_ids == ()
    assert text in found.error or found.error.startswith("no job @~4")


def test_many_references_are_answered_in_their_order() -> None:
    found = find(["2", "@", "x"], jobs())

    assert [one.ref for one in found] == ["2", "@", "x"]
