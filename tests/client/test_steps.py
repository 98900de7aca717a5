"""What a client keeps of a job: its id, and the steps that somebody may wait for."""

import os

from grn_zmq.futures import Future
from grn_zmq.pending import Pending
from grn_zmq.submission import new_id
from tests.builders import a_spec, an_id
from tests.client.scripted import a_client


def test_a_child_makes_other_ids_than_its_parent() -> None:
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(write, new_id().encode())
        os._exit(0)
    os.waitpid(pid, 0)

    child = os.read(read, 32).decode()
    os.close(read)
    os.close(write)

    assert child not in {new_id() for _ in range(10)}
    assert len(child) == 32


def test_who_waits_for_a_step_of_a_job_may_come_before_or_after_it() -> None:
    for early in (True, False):
        with a_client() as client:
            pending = Pending(a_spec(1), Future(an_id(1), client))
        events = [pending.accepted, pending.cancel_taken] if early else []
        assert not any(one.is_set() for one in events)

        pending.accept()
        pending.take_cancel()

        assert pending.accepted.wait(0)
        assert pending.cancel_taken.wait(0)
        assert all(one.is_set() for one in events)
