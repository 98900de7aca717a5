"""Calls of decorated functions: values there and back, many at once, spawned and attached."""

import concurrent.futures
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from grn_zmq.openers import IDLE_S
from tests.e2e.scripts import run_script, write_script
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("small_server")]


@grn.job()
def add(a: int, b: int = 1) -> int:
    return a + b


@grn.job
def bare(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return args, kwargs


@grn.job(type="shared-of-two")
def wait_for(path: str) -> str:
    while not os.path.exists(path):
        time.sleep(0.01)
    return path


@grn.job(jobstr="shared-of-two")
def quick() -> str:
    return "quick"


class Model:
    def __init__(self, weight: int) -> None:
        self.weight = weight

    @grn.job()
    def train(self, steps: int) -> int:
        return self.weight * steps


@grn.job()
class Point:
    def __init__(self, x: int) -> None:
        self.x = x


def test_r02_a_job_without_parentheses_runs_as_any_other() -> None:
    assert bare(1, "a", None, key=[1.5]) == ((1, "a", None), {"key": [1.5]})


def test_p01_a_function_with_its_closure_runs_elsewhere() -> None:
    offset = {"by": 40}

    @grn.job()
    def shifted(x: int) -> tuple[int, int]:
        return x + offset["by"], os.getpid()

    value, pid = shifted(2)

    assert value == 42
    assert pid != os.getpid()


def test_p02_large_values_come_back_whole() -> None:
    content = os.urandom(3 << 20)

    assert bare(content) == ((content,), {})


def test_a_method_takes_its_instance_along() -> None:
    model = Model(7)

    assert model.train(3) == 21
    assert model.train.submit(2).result() == 14
    assert list(model.train.map([1, 2])) == [7, 14]


def test_a_class_can_be_a_job_too() -> None:
    assert Point(3).x == 3


def test_r06_two_functions_of_one_type_share_one_profile(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "open").touch()
    wait_for(str(tmp_path / "open"))
    held = [wait_for.submit(str(gate)) for _ in range(2)]
    until(lambda: all(future.running() for future in held))

    # Never measured it would wait for an idle device, and there is none.
    assert quick.submit().result(timeout=5 * PATIENCE) == "quick"

    assert not any(future.done() for future in held)
    gate.touch()
    assert [future.result() for future in held] == [str(gate)] * 2


def test_type_names_the_job_type() -> None:
    assert wait_for.job_type == quick.job_type == "shared-of-two"


def test_env_is_added_to_the_environment_of_the_job() -> None:
    @grn.job(env={"ADDED": "by option", "HOME": "/nowhere"})
    def look() -> tuple[str | None, str | None]:
        return os.environ.get("ADDED"), os.environ.get("HOME")

    assert look() == ("by option", "/nowhere")
    assert look.with_options(env={})() == (None, os.environ.get("HOME"))
    assert "ADDED" not in os.environ


def test_map_gives_values_in_order_and_takes_several_iterables() -> None:
    assert list(add.map([1, 2, 3], iter([10, 20, 30, 40]))) == [11, 22, 33]
    assert list(add.map([])) == []


def test_map_raises_where_a_job_failed_and_cancels_the_rest(tmp_path: Path) -> None:
    @grn.job()
    def third_fails(n: int, gate: str) -> int:
        if n == 2:
            raise ValueError(n)
        while n > 2 and not os.path.exists(gate):
            time.sleep(0.01)
        return n

    third_fails(0, "")
    values = third_fails.map(range(6), [str(tmp_path / "gate")] * 6)

    assert [next(values), next(values)] == [0, 1]
    with pytest.raises(ValueError, match="2"):
        next(values)
    assert third_fails(1, "") == 1


def test_map_has_a_timeout(tmp_path: Path) -> None:
    values = wait_for.map([str(tmp_path / "never")], timeout=0.2)

    with pytest.raises(TimeoutError):
        next(values)


def test_a_spawned_job_is_found_again_by_its_id() -> None:
    job_id = add.spawn(20, b=22)

    assert grn.attach(job_id).result() == 42
    assert grn.attach(job_id).result() == 42


def test_spawn_map_gives_the_ids_in_order() -> None:
    ids = add.spawn_map(range(20), range(20))

    assert len(set(ids)) == 20
    assert [grn.attach(one).result() for one in ids] == [2 * n for n in range(20)]
    assert add.spawn_map([]) == []


def test_a_spawned_job_outlives_its_script_and_is_attached_elsewhere(tmp_path: Path) -> None:
    gate, spawner = tmp_path / "gate", tmp_path / "spawner.py"
    write_script(
        spawner,
        """
        import os, sys, time

        @grn.job()
        def waits(path):
            while not os.path.exists(path):
                time.sleep(0.01)
            print("not for the spawner")
            return {"path": path}

        print(waits.spawn(sys.argv[1]))
        """,
    )
    attacher = write_script(
        tmp_path / "attacher.py",
        "import sys\nprint(grn.attach(sys.argv[1]).result(), grn.attach(sys.argv[1]).result())",
    )

    spawned = run_script(spawner, gate)
    gate.touch()
    attached = run_script(attacher, spawned.stdout.strip())

    assert spawned.returncode == 0, spawned.stderr
    assert attached.stdout.count(f"{{'path': '{gate}'}}") == 2, attached.stderr
    assert grn.attach(spawned.stdout.strip()).result() == {"path": str(gate)}


def test_an_unknown_id_is_an_unknown_job() -> None:
    for job_id in ("0" * 32, "not an id", ""):
        with pytest.raises(grn.UnknownJob):
            grn.attach(job_id).result()


def test_a_job_of_ours_can_be_attached_to_while_it_runs(tmp_path: Path) -> None:
    future = wait_for.submit(str(tmp_path / "gate"))

    assert grn.attach(future.job_id) is future

    (tmp_path / "gate").touch()
    assert future.result() == str(tmp_path / "gate")


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def test_r38_eight_threads_run_many_jobs_each() -> None:
    def many(thread: int) -> list[int]:
        called = [add(thread, n) for n in range(10)]
        return called + [f.result() for f in [add.submit(thread, n) for n in range(10)]]

    found = in_threads(8, many)

    assert found == [[t + n for n in range(10)] * 2 for t in range(8)]


def test_r38_eight_threads_make_the_first_call_at_once(tmp_path: Path) -> None:
    script = write_script(
        tmp_path / "first.py",
        """
        import threading

        @grn.job()
        def f(n):
            return n * n

        found, start = [], threading.Barrier(8)

        def one(n):
            start.wait()
            found.append(f(n))

        threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        print(sorted(found))
        """,
    )

    done = run_script(script)

    assert done.stdout == "[0, 1, 4, 9, 16, 25, 36, 49]\n", done.stderr
    assert done.stderr == ""


def test_threads_of_a_client_do_not_pile_up() -> None:
    add(1)
    before = threading.active_count()

    list(add.map(range(40)))

    # On a loaded machine one that opens results may seem stuck, and another helps for a while.
    assert threading.active_count() < before + 4, threading.enumerate()
    until(
        lambda: threading.active_count() <= before,
        IDLE_S + 2,
        lambda: str(threading.enumerate()),
    )
