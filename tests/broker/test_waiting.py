from broker.scheduler import Hold, Why
from broker.waiting import Waiting, class_of
from tests.builders import a_job, an_id

HOLD = Hold(Why.NO_ROOM, "waiting for memory")


def test_jobs_of_one_class_wait_in_the_order_they_came() -> None:
    waiting = Waiting()
    jobs = [a_job(number) for number in (1, 2, 3)]
    for job in jobs:
        waiting.add(job)

    seen = []
    while (job_now := waiting.next_like(jobs[0])) is not None:
        seen.append(job_now)
        waiting.remove(job_now)

    assert seen == jobs
    assert len(waiting) == 0


def test_a_job_put_first_heads_its_class() -> None:
    waiting = Waiting()
    waiting.add(a_job(1))
    again = a_job(2)

    waiting.add(again, first=True)

    assert waiting.heads() == [again]


def test_heads_are_one_per_class_and_the_longest_waiting_first() -> None:
    waiting = Waiting()
    small, large, later = (
        a_job(3, job_type="small"),
        a_job(1, job_type="large"),
        a_job(2, job_type="large"),
    )
    for job in (small, large, later):
        waiting.add(job)

    assert waiting.heads() == [large, small]


def test_need_policy_parent_and_pin_make_the_class() -> None:
    classes = {
        class_of(job)
        for job in (
            a_job(),
            a_job(job_type="other"),
            a_job(by={"n": 1}),
            a_job(policy="pack"),
            a_job(parent=an_id(9)),
            a_job(pin="GPU-1"),
        )
    }

    assert len(classes) == 6
    assert class_of(a_job(1)) == class_of(a_job(2, name="other", payload=b"other"))


def test_a_job_can_leave_from_the_middle() -> None:
    waiting = Waiting()
    first, middle, last = (a_job(number) for number in (1, 2, 3))
    for job in (first, middle, last):
        waiting.add(job)

    waiting.remove(middle)

    assert list(waiting) == [first, last]
    assert middle not in waiting
    assert last in waiting


def test_the_reason_is_that_of_the_whole_class_and_goes_with_it() -> None:
    waiting = Waiting()
    first, second, other = a_job(1), a_job(2), a_job(3, job_type="other")
    for job in (first, second, other):
        waiting.add(job)

    waiting.hold(first, HOLD)

    assert waiting.why(second) == HOLD
    assert waiting.why(other) is None

    waiting.remove(first)
    waiting.remove(second)
    assert waiting.why(second) is None
