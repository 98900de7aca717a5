"""A worker whose device cannot be read goes on talking about its jobs, but not about it."""

from tests.broker.machine import Machine
from tests.builders import a_spec


def test_a_worker_that_starts_and_ends_jobs_but_never_reports_gets_no_more() -> None:
    machine = Machine(1000)
    machine.know(100)
    for number in range(1, 4):  # each takes a second or more: it is never quiet for long
        machine.submit(a_spec(number))
        machine.run(number)

    machine.wait(0.0)

    assert "worker silent: it gets no new jobs" in machine.notes()
    machine.submit(a_spec(9))
    assert machine.placed(9) == [False]


def test_it_gets_jobs_again_with_its_next_report() -> None:
    machine = Machine(1000)
    machine.know(100)
    machine.wait(6.0)
    machine.submit(a_spec(1))
    assert machine.placed(1) == [False]

    machine.use(0)

    assert machine.placed(1) == [True]
