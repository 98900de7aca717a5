"""Jobs that leave a class from its middle, and come back to it."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from broker.ordering import OrderKey
from broker.waiting import Waiting
from tests.builders import a_job

MOVES = st.lists(st.tuples(st.sampled_from(["add", "remove"]), st.integers(0, 5)), max_size=40)


def order(job: object) -> OrderKey:
    return (0, 0.0, job.number)  # type: ignore[attr-defined]


@given(MOVES)
def test_whoever_comes_and_goes_the_queue_is_as_it_should_be(
    moves: list[tuple[str, int]],
) -> None:
    jobs = [a_job(number) for number in range(6)]
    waiting, model = Waiting(order), deque[int]()
    for move, at in moves:
        if move == "add" and at not in model:
            waiting.add(jobs[at])
            model.append(at)
        elif move == "remove" and at in model:
            waiting.remove(jobs[at])
            model.remove(at)

        assert [job.number for job in waiting] == list(model)
        assert len(waiting) == len(model)
        heads = [one.head.number for _, one in waiting.ordered()]
        assert heads == list(model)[:1]
