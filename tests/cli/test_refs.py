"""References: what cannot be one is refused here, the rest asked for in messages that fit."""

import pytest

from grn_zmq import wire
from grn_zmq.cli import refs
from grn_zmq.cli.refcheck import check_ref
from grn_zmq.cli.refs import NoSuchJob, find, find_one
from grn_zmq.facts import Found
from tests.builders import a_job_row, an_id

MANY = tuple(an_id(number) for number in range(1, 4001))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The references of each question; whatever is asked for means 4,000 jobs, or one."""
    questions: list[tuple[str, ...]] = []

    def answer(question: wire.FindJobs, _: type) -> wire.JobsFound:
        questions.append(question.refs)
        found = [Found(one, MANY if "-" in one else MANY[:1], "") for one in question.refs]
        wire.encode(question)
        wire.encode(wire.JobsFound(tuple(found)))
        return wire.JobsFound(tuple(found))

    monkeypatch.setattr(refs, "ask", answer)
    return questions


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\udcff", r"'\\udcff' is no job: write a number, a name or @"),
        ("a\nb", r"is no job: write a number"),
        ("1," * 35_000, r"it has 70,000 characters, and at most 4,096 can be. Write a long"),
    ],
)
def test_what_cannot_be_a_reference_is_refused_without_asking(
    asked: list[tuple[str, ...]], text: str, said: str
) -> None:
    with pytest.raises(NoSuchJob, match=said) as refused:
        find(["1", text])

    assert asked == []
    assert len(str(refused.value)) < 300
    with pytest.raises(ValueError, match=said):
        check_ref(text)


def test_a_name_of_the_greatest_length_can_be_one() -> None:
    assert check_ref("ä" * 4096) == "ä" * 4096


def test_single_jobs_are_asked_for_together(asked: list[tuple[str, ...]]) -> None:
    found = find([*map(str, range(400)), "@", "@~3", "7", "7"])

    assert found == [MANY[0]]
    assert [len(one) for one in asked] == [402]


def test_many_ranges_and_long_names_go_in_messages_that_can_be_sent_and_answered(
    asked: list[tuple[str, ...]],
) -> None:
    assert find([f"{at}-{at + 3999}" for at in range(1, 40_000, 4000)]) == list(MANY)
    find([f"{at:04}" * 1024 for at in range(600)])

    assert sum(map(len, asked)) == 610
    assert len(asked) < 610


def test_where_one_job_is_wanted_those_that_are_meant_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [a_job_row(number) for number in (3, 4, 5, 9)]
    monkeypatch.setattr(refs, "find", lambda _: ["a", "b", "c", "d"])
    monkeypatch.setattr(refs, "rows_of", lambda _: rows)

    with pytest.raises(NoSuchJob, match=r"^fit means 4 jobs \(3-5, 9\): name one of them$"):
        find_one("fit")
    rows[:] = [a_job_row(number) for number in range(1, 400, 2)]
    with pytest.raises(NoSuchJob, match=r"\(1, 3, 5, .*, …\): name one") as many:
        find_one("fit")
    assert len(str(many.value)) < 200
