"""Trains in real processes: each call has its own end, and what never began is given back."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from grn_zmq import wire
from grn_zmq.records import AttemptId
from tests.waiting import until
from tests.workers.stage import Bench, Ends, ScriptedBroker, lives, read_when_there

pytestmark = pytest.mark.e2e

_numbers = count(1000, 1000)


@pytest.fixture(scope="module")
def bench(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    # By value: importing all of pytest would be the first call's time.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    bench = Bench(tmp_path_factory.mktemp("orders"))
    yield bench
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert bench.worker.process.poll() is None, "the worker died"
    bench.close()


def double(number: int) -> int:
    return 2 * number


def run(bench: Bench, function: Any, arguments: list[Any]) -> tuple[list[str], list[Any]]:
    """The ids of these calls, and their ends in the same order."""
    bench.broker.heard.clear()
    ids = bench.broker.give_train(next(_numbers), function, arguments, devices=bench.devices)
    ends = bench.broker.ends_of(ids)
    recorded(bench, ends)
    return ids, [ends[one] for one in ids]


def recorded(bench: Bench, ends: Ends) -> None:
    done = tuple(AttemptId(one, 1) for one, end in ends.items() if end is not None)
    bench.broker.send(wire.Recorded(bench.broker.epoch, done))


def printed(bench: Bench) -> dict[str, bytes]:
    """What each job has printed."""
    found: dict[str, bytes] = {}
    for message in bench.broker.heard:
        for piece in message.pieces if isinstance(message, wire.Output) else ():
            found[piece.job_id] = found.get(piece.job_id, b"") + piece.data
    return found


def test_five_hundred_calls_return_in_their_order(bench: Bench) -> None:
    ids, values = run(bench, double, list(range(500)))

    assert values == [2 * one for one in range(500)]
    told = [m.job_ids for m in bench.broker.heard if isinstance(m, wire.Returned)]
    assert sum(map(len, told)) == 499
    assert [one for some in told for one in some] == ids[1:]


def test_each_call_knows_its_own_id(bench: Bench) -> None:
    ids, values = run(bench, lambda _: os.environ["GRN_JOB_ID"], list(range(20)))

    assert values == ids


def print_some(number: int) -> int:
    if number % 3 == 0:
        print("out", number)
    if number % 5 == 0:
        print("error", number, file=sys.stderr)
    if number % 7 == 0:
        os.system(f"echo child {number}")
    return number


def test_what_a_call_prints_is_its_own(bench: Bench) -> None:
    ids, values = run(bench, print_some, list(range(60)))

    assert values == list(range(60))
    expected = {}
    for number, job_id in enumerate(ids):
        lines = {f"out {number}"} if number % 3 == 0 else set()
        lines |= {f"error {number}"} if number % 5 == 0 else set()
        lines |= {f"child {number}"} if number % 7 == 0 else set()
        if lines:
            expected[job_id] = lines
    found = {one: set(data.decode().splitlines()) for one, data in printed(bench).items()}
    assert found == expected


def fail_at_ten(number: int) -> int:
    if number == 10:
        raise KeyError(number)
    if number == 12:
        sys.exit(3)
    return os.getpid()


def test_a_failing_call_does_not_stop_the_train(bench: Bench) -> None:
    _, ends = run(bench, fail_at_ten, list(range(30)))

    assert (ends[10].outcome, ends[10].error_type) == ("failed", "KeyError")
    assert (ends[12].error_type, ends[12].exit_status) == ("JobExited", 3)
    assert len({end for end in ends if isinstance(end, int)}) == 1


def leave_something(number: int, what: str, directory: str) -> int:
    if number == 5:
        if what == "thread":
            threading.Thread(target=time.sleep, args=(0.2,)).start()
        elif what == "daemon":
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    Path(directory, "pid").write_text(str(os.getpid()))
                    time.sleep(1000)
                os._exit(0)
            os.wait()
        elif what == "cwd":
            os.chdir(directory)
        elif what == "umask":
            os.umask(0o123)
        elif what == "streams":
            os.dup2(1, 2)
        else:
            os.closerange(3, 4096)
    return number


@pytest.mark.parametrize("what", ["thread", "daemon", "cwd", "umask", "streams", "files"])
def test_after_a_call_that_leaves_something_the_rest_is_given_back(
    bench: Bench, tmp_path: Path, what: str
) -> None:
    directory = str(tmp_path)
    _, ends = run(bench, lambda n: leave_something(n, what, directory), list(range(30)))

    assert ends == [*range(6), *[None] * 24]
    if what == "daemon":
        assert not lives(int(read_when_there(tmp_path / "pid")))


def test_a_call_that_kills_its_process_is_the_only_one_that_ends_so(bench: Bench) -> None:
    _, ends = run(bench, lambda n: n if n != 5 else os._exit(7), list(range(30)))

    assert ends[:5] == list(range(5))
    assert (ends[5].outcome, ends[5].exit_status) == ("failed", 7)
    assert ends[6:] == [None] * 24


def wait_at_five(number: int, directory: str) -> int:
    if number == 5:
        print("waiting", flush=True)
        while not os.path.exists(directory + "/go"):
            time.sleep(0.01)
    return number


def test_behind_a_call_that_takes_long_nobody_waits(bench: Bench, tmp_path: Path) -> None:
    directory = str(tmp_path)
    bench.broker.heard.clear()
    ids = bench.broker.give_train(
        next(_numbers),
        lambda n: wait_at_five(n, directory),
        list(range(30)),
        devices=bench.devices,
    )

    ends = bench.broker.ends_of([*ids[:5], *ids[6:]], 2.0)
    assert [ends[one] for one in ids[6:]] == [None] * 24
    until(lambda: bench.broker.within(wire.Report, 1.0) and printed(bench))
    assert printed(bench) == {ids[5]: b"waiting\n"}
    started = [m for m in bench.broker.heard if isinstance(m, wire.Started)]
    assert started[-1].runs[0].job_id == ids[5]
    (tmp_path / "go").write_text("")
    ends |= bench.broker.ends_of([ids[5]])
    recorded(bench, ends)


def test_a_recall_gives_back_what_has_not_begun(bench: Bench, tmp_path: Path) -> None:
    ids = bench.broker.give_train(
        next(_numbers), lambda _: time.sleep(0.02), list(range(200)), devices=bench.devices
    )
    bench.broker.next(wire.Returned)
    bench.broker.send(wire.Recall(bench.broker.epoch))

    ends = bench.broker.ends_of([ids[-1]], 1.0)
    back = bench.broker.next(wire.GivenBack, 1.0) if ids[-1] not in ends else None
    assert ends[ids[-1]] is None, back


def sleep_a_little(number: int) -> int:
    time.sleep(0.02)
    return number


def test_one_that_follows_can_be_cancelled(bench: Bench) -> None:
    ids = bench.broker.give_train(
        next(_numbers), sleep_a_little, list(range(30)), devices=bench.devices
    )
    bench.broker.send(wire.End(bench.broker.epoch, "interrupt", (AttemptId(ids[20], 1),)))

    ends = bench.broker.ends_of(ids)
    recorded(bench, ends)
    assert ends[ids[20]].outcome == "cancelled"
    assert [ends[one] for one in ids if one != ids[20]] == [n for n in range(30) if n != 20]


def test_the_current_one_can_be_cancelled(bench: Bench) -> None:
    ids = bench.broker.give_train(
        next(_numbers),
        lambda n: time.sleep(100 if n == 3 else 0),
        list(range(30)),
        devices=bench.devices,
    )
    started = bench.broker.next(wire.Started)
    while started.runs[0].job_id != ids[3]:
        started = bench.broker.next(wire.Started)
    bench.broker.send(wire.End(bench.broker.epoch, "interrupt", (AttemptId(ids[3], 1),)))

    ends = bench.broker.ends_of([ids[3]])
    recorded(bench, ends)
    assert ends[ids[3]].error_type == "KeyboardInterrupt"


def hold_at(number: int, path: str) -> int:
    if number == 100:
        Path(path).write_text(str(os.getpid()))
        time.sleep(1000)
    return number


def test_after_kill_9_only_the_one_that_ran_is_interrupted(
    bench: Bench, tmp_path: Path
) -> None:
    path = str(tmp_path / "pid")
    ids = bench.broker.give_train(
        next(_numbers), lambda n: hold_at(n, path), list(range(400)), devices=bench.devices
    )
    read_when_there(tmp_path / "pid")

    bench.worker.kill()
    bench.worker.again()

    greet = bench.broker.welcome()
    states = {one.job_id: one.state for one in greet.inventory}
    assert [one for one in ids if states.get(one) == "interrupted"] == [ids[100]]
    assert {one for one in ids if states.get(one) == "finished"} <= set(ids[:100])
    assert not states.keys() & set(ids[101:])
    done = tuple(AttemptId(one.job_id, one.attempt) for one in greet.inventory)
    bench.broker.send(wire.Recorded(bench.broker.epoch, done))


def test_a_greeting_lists_the_current_one_and_those_that_have_ended(
    bench: Bench, tmp_path: Path
) -> None:
    path = str(tmp_path / "pid")
    ids = bench.broker.give_train(
        next(_numbers), lambda n: hold_at(n, path), list(range(400)), devices=bench.devices
    )
    read_when_there(tmp_path / "pid")

    bench.broker.send(wire.Refused("greet-first", "", ()))

    greet = bench.broker.welcome()
    states = {one.job_id: one.state for one in greet.inventory}
    assert states == dict.fromkeys(ids[:100], "finished") | {ids[100]: "running"}
    bench.broker.send(wire.End(bench.broker.epoch, "kill", (AttemptId(ids[100], 1),)))
    recorded(bench, bench.broker.ends_of(ids[:101]))


def test_a_train_outlives_its_broker_as_far_as_it_had_come(
    bench: Bench, tmp_path: Path
) -> None:
    path = str(tmp_path / "pid")
    ids = bench.broker.give_train(
        next(_numbers), lambda n: hold_at(n, path), list(range(400)), devices=bench.devices
    )
    read_when_there(tmp_path / "pid")

    bench.broker.close()
    bench.broker = ScriptedBroker(epoch=2)

    greet = bench.broker.welcome()
    states = {one.job_id: one.state for one in greet.inventory}
    assert states == dict.fromkeys(ids[:100], "finished") | {ids[100]: "running"}
    ends = bench.broker.ends_of(ids[:100])
    assert [ends[one] for one in ids[:100]] == list(range(100))
    bench.broker.send(wire.End(bench.broker.epoch, "kill", (AttemptId(ids[100], 1),)))
    ends |= bench.broker.ends_of(ids[100:101])
    recorded(bench, ends)
