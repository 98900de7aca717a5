from broker.jobs import Job
from broker.ordering import OrderKey, order_key
from broker.waiting import Heads, Waiting, class_of
from tests.builders import a_job, an_id


def by_number(job: Job) -> OrderKey:
    return order_key(job.spec.priority, 0.0, None, 0.0, job.number)


def a_queue(*jobs: Job) -> Waiting:
    waiting = Waiting(by_number)
    for job in jobs:
        waiting.add(job)
    return waiting


def heads(waiting: Waiting) -> list[Job]:
    return [one.head for _, one in waiting.ordered()]


def test_jobs_of_one_class_wait_in_the_order_they_came() -> None:
    jobs = [a_job(number) for number in (3, 1, 2)]
    waiting = a_queue(*jobs)

    seen = []
    while waiting.ordered():
        seen += heads(waiting)
        waiting.remove(seen[-1])

    assert seen == jobs
    assert len(waiting) == 0


def test_a_job_put_first_heads_its_class() -> None:
    waiting = a_queue(a_job(1), a_job(3))
    again = a_job(2)

    waiting.add(again, first=True)

    assert heads(waiting) == [again]
    assert len(waiting) == 3


def test_a_job_put_first_heads_even_an_empty_class() -> None:
    waiting = a_queue()
    again = a_job(2)

    waiting.add(again, first=True)

    assert heads(waiting) == [again]


def test_heads_are_one_per_class_and_the_longest_waiting_first() -> None:
    small, large, later = (
        a_job(3, job_type="small"),
        a_job(1, job_type="large"),
        a_job(2, job_type="large"),
    )
    waiting = a_queue(small, large, later)

    assert heads(waiting) == [large, small]

    waiting.remove(large)
    assert heads(waiting) == [later, small]


def test_a_class_moves_back_when_its_next_job_came_later() -> None:
    waiting = a_queue(a_job(1), a_job(9), a_job(5, job_type="other"))

    waiting.remove(waiting.ordered()[0][1].head)

    assert [job.number for job in heads(waiting)] == [5, 9]


def test_need_policy_parent_pin_priority_and_history_make_the_class() -> None:
    again, careful = a_job(), a_job()
    again.level = 1
    careful.wary = True
    classes = {
        class_of(job)
        for job in (
            a_job(),
            a_job(job_type="other"),
            a_job(by={"n": 1}),
            a_job(policy="pack"),
            a_job(parent=an_id(9)),
            a_job(pin="GPU-1"),
            a_job(priority=1),
            a_job(memory_bytes=1),
            again,
            careful,
        )
    }

    assert len(classes) == 10
    assert class_of(a_job(1)) == class_of(a_job(2, name="other", payload=b"other"))


def test_a_job_can_leave_from_the_middle() -> None:
    first, middle, last = (a_job(number) for number in (1, 2, 3))
    waiting = a_queue(first, middle, last)

    waiting.remove(middle)

    assert list(waiting) == [first, last]
    assert middle not in waiting
    assert last in waiting
    assert heads(waiting) == [first]


def test_classes_are_found_by_type_until_they_are_empty() -> None:
    job, other = a_job(1, by={"n": 1}), a_job(2, by={"n": 2})
    waiting = a_queue(job, other, a_job(3, job_type="other"))

    assert [one.head for one in waiting.of_types(["train.py::fit", "gone"])] == [job, other]

    waiting.remove(job)
    waiting.remove(other)
    assert list(waiting.of_types(["train.py::fit"])) == []


def test_every_new_head_is_noted_once() -> None:
    waiting = a_queue(a_job(1), a_job(2), a_job(3, job_type="other"))
    assert len(waiting.fresh) == 2
    waiting.fresh.clear()

    waiting.add(a_job(4))
    assert waiting.fresh == []

    waiting.remove(heads(waiting)[0])
    assert [one.head.number for one in waiting.fresh] == [2]


def test_a_pass_takes_classes_in_their_turn() -> None:
    """A long class must not overtake older jobs of another."""
    waiting = a_queue(a_job(1), a_job(4), a_job(2, job_type="b"), a_job(3, job_type="c"))
    turn = Heads(list(waiting.ordered()))

    seen: list[int] = []
    while (one := turn.next()) is not None:
        seen.append(one.head.number)
        waiting.remove(one.head)
        if one.jobs:
            turn.again(one)

    assert seen == [1, 2, 3, 4]
