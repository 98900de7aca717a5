"""Queues through the command line as users of Grass know it, on six stand-in GPUs."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.gates import Gates
from tests.cli.queuing import MakeQueue, enqueue, refused
from tests.cli.verbs import facts, grn, row_of, said, until_ended, until_state
from tests.nvml.driver import FakeDriver
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("no_queues")]


def test_g04_a_queue_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "have.json5"
    path.write_text("{gpu: 4, /* slots */ cpu: 16,}\n")

    said("create-queue", "filed", "--file", str(path))

    (found,) = facts("show", "filed")
    assert found["capacity"]["gpu"] == dict.fromkeys("0123", "1")
    assert len(found["capacity"]["cpu"]) == 16


def test_g10_deleting_a_queue_cancels_what_waits_and_leaves_what_runs(gates: Gates) -> None:
    said("create-queue", "doomed", "--json", "{slot:1}")
    running = enqueue("doomed", "{slot:1}", *gates.command("runs"))
    waiting = [enqueue("doomed", "{slot:1}", *gates.command(f"waits{n}")) for n in range(2)]
    gates.await_begun("runs")

    told = said("delete-queue", "doomed")

    assert told == (
        "Deleted queue doomed: cancelled 2 jobs that waited; 1 job runs on to its end\n"
    )
    until_ended(*waiting)
    assert {row_of(one)["state"] for one in waiting} == {"cancelled"}
    assert row_of(running)["state"] == "running"
    assert "was deleted" in refused("enqueue", "doomed", "--", "true")
    gates.open()
    assert until_state(running, "succeeded", "failed")["state"] == "succeeded"
    until(lambda: "no queue doomed" in refused("enqueue", "doomed", "--", "true"), 20)


def test_g10_what_runs_is_ended_if_that_is_asked_for(gates: Gates) -> None:
    said("create-queue", "doomed", "--json", "{slot:1}")
    running = enqueue("doomed", "{slot:1}", *gates.command("runs"))
    gates.await_begun("runs")

    told = said("delete-queue", "doomed", "--kill")

    assert told.startswith("Deleted queue doomed: ending 1 job: TERM")
    until_ended(running)
    assert row_of(running)["state"] == "cancelled"


def gone(name: str) -> bool:
    """Delete what could be made only because workers might still have joined."""
    said("delete-queue", name)
    return False


def test_g23_g32_what_can_never_be_is_refused_when_it_is_submitted(queue: MakeQueue) -> None:
    with queue("q", "{gpu:2,cpu:4}"):
        unknown = refused("enqueue", "q", "--json", "{licence:1}", "--", "true")
        large = refused("enqueue", "q", "--json", "{gpu:3}", "--", "true")
        again = refused("create-queue", "q", "--json", "{gpu:1}")
        nowhere = refused("enqueue", "nowhere", "--", "true")
        far = "{gpu:{'17':1}}"
        until(lambda: grn("create-queue", "far", "--json", far).exit_code or gone("far"), 20)
        device = refused("create-queue", "far", "--json", far)
        twice = refused("create-queue", "twice", "--json", "{gpu:[2]}")

        assert "'licence'" in unknown
        assert "gpu: 3 are needed, and there are 2" in large
        assert "queue q exists" in again
        assert "no queue nowhere" in nowhere
        assert "no device 17" in device
        assert "at most 1 of each" in twice
        assert len({unknown, large, again, nowhere, device, twice}) == 6
        assert facts("show", "q")[0]["jobs"] == []


def test_g24_show_lists_what_waits_runs_and_has_ended_of_all_queues_or_one(
    queue: MakeQueue, gates: Gates
) -> None:
    with queue("one", "{gpu:2,cpu:[4]}"), queue("two", "{slot:1}"):
        ended = enqueue("one", "{cpu:0.5}", "--", "false")
        until_ended(ended)
        running = enqueue("one", "{gpu:0.5,cpu:3}", *gates.command("runs"))
        gates.await_begun("runs")
        waiting = enqueue("one", "{cpu:2}", "--", "true")
        elsewhere = enqueue("two", "{slot:1}", "--", "true")
        until_ended(elsewhere)
        until(lambda: row_of(running)["pid"])

        one, everything = said("show", "one"), said("show")
        (told,) = facts("show", "one")
        mixed = facts("show", "one", str(elsewhere))

        assert one.splitlines()[0] == (
            "Queue one: gpu 1.5 of 2 left, cpu 1 of 4 left; 1 queued, 1 running, 1 ended"
        )
        lines = {int(line.split()[0]): line for line in one.splitlines()[2:]}
        assert set(lines) == {ended, running, waiting}
        assert re.search(r"F failed +cpu=0\.5 .* exit 1$", lines[ended])
        assert re.search(r"R running +cpu:0=3 gpu:[01]=0\.5 .* pid \d+", lines[running])
        assert re.search(r"PD queued +cpu=2 .* cpu: needs 2, 1 left of 4", lines[waiting])
        assert everything.startswith(one)
        assert "\n\nQueue two: slot 1 of 1 left; 0 queued, 0 running, 1 ended\n" in everything
        assert "\n\nOutside of queues: cpu " in everything
        assert [job["number"] for job in told["jobs"]] == [ended, running, waiting]
        assert (told["queued"], told["running"], told["ended"]) == (1, 1, 1)
        assert told["jobs"][1]["granted"]["cpu"] == {"0": "3"}
        assert [found["kind"] for found in mixed] == ["queue", "command"]
        assert re.search(
            r"queue +one\n +needs +gpu=0\.5 cpu=3\n +has", said("show", str(running))
        )
        gates.open()


def test_g24_a_queue_comes_before_a_job_of_the_same_name(queue: MakeQueue) -> None:
    with queue("alike", "{slot:1}"):
        number = enqueue("alike", "{slot:1}", "--name", "alike", "--", "true")
        until_ended(number)

        assert said("show", "alike").startswith("Queue alike: ")
    assert said("show", "alike").startswith("Job\n")


def test_g44_a_queue_with_a_prefix_runs_only_that_and_so_many_at_once(
    queue: MakeQueue, gates: Gates
) -> None:
    script, place, _, _ = gates.command("x", "all")
    prefix = ("--prefix", f"{script} {place}", "--max-jobs", "1")
    with queue("q", "{}", *prefix):
        said("enqueue", "q", "first", "all")
        second = int(said("enqueue", "q", "-q", "--", "second", "all"))
        gates.await_begun("first")

        assert row_of(second)["title"] == f"{script} {place} second all"
        assert row_of(second)["state"] == "queued"
        assert "--max-jobs" in facts("why", str(second))["text"]
        gates.open()
        gates.await_begun("second")


@pytest.mark.parametrize(
    "words",
    [
        ("create-queue", "q", "--json", "{}"),
        ("enqueue", "q", "--json", "{gpu:1}", "--", "true"),
        ("delete-queue", "q"),
        ("show",),
    ],
)
def test_g32_without_a_broker_the_status_is_3_and_one_line_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        done = grn(*words)

    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert "`grn start`" in done.stderr


@pytest.mark.parametrize("verb", ["create-queue", "enqueue"])
def test_g32_a_wrong_command_line_is_json_only_for_who_wants_json(verb: str) -> None:
    words = (verb, "q", "--json", "{gpu:", "true")

    plain, facts = grn(*words), grn(verb, "--output", "json", *words[1:])

    assert (plain.exit_code, plain.stdout) == (2, "")
    assert "is no JSON5" in json.loads(facts.stdout)["error"]
    assert facts.exit_code == 2


def test_making_deleting_and_showing_queues_loads_no_client() -> None:
    heavy = ("grn_zmq.client", "asyncio", "rich", "cloudpickle", "concurrent.futures", "json5")
    verbs = ("create_queue", "delete_queue", "show")
    imports = "; ".join(f"import grn_zmq.cli.{verb}" for verb in verbs)
    code = f"import sys; {imports}; print([one for one in {heavy} if one in sys.modules])"

    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, cwd="/")

    assert done.stdout == b"[]\n", done.stderr


TRAIN = """
import json, os, sys
name = "-".join(sys.argv[1:]) or "none"
facts = {"words": sys.argv[1:], "cwd": os.getcwd(), **os.environ}
with open(f"{os.environ['OUT']}/{name}.part", "w") as file:
    json.dump(facts, file)
os.rename(f"{os.environ['OUT']}/{name}.part", f"{os.environ['OUT']}/{name}")
"""

LOOP = """
import os

for lr in [0.01, 0.1]:
    for batch_size in [8, 16, 32]:
        os.system(
            "grn enqueue q1 --json '{gpu:0.5}' --cwd=%s --env='CUDA_VISIBLE_DEVICES={gpu}'"
            " -- CUDA_VISIBLE_DEVICES={gpu} python train.py lr=%s batch_size=%s"
            % (os.environ["DATA"], lr, batch_size)
        )
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with train.py, which says what it saw in another."""
    place = tmp_path / "data"
    place.mkdir()
    (place / "train.py").write_text(TRAIN)
    monkeypatch.chdir(place)
    monkeypatch.setenv("OUT", str(tmp_path))
    monkeypatch.setenv("DATA", f"{place}/")
    return place


def told(data: Path, name: str) -> dict[str, Any]:
    path = data.parent / name
    until(path.exists, 30, lambda: f"{path} was never written")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def shell(line: str) -> str:
    """What a command line of the README prints, run as a user runs it."""
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=60 * PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, ""), (line, done.stderr)
    return done.stdout


def test_g50_the_commands_of_grass_work_with_another_name(
    data: Path, six_gpus: FakeDriver
) -> None:
    made = shell('grn create-queue q1 --json "{gpu:4,cpu:16}"')
    visible = '--env "CUDA_VISIBLE_DEVICES={gpu}"'
    need = '--json "{gpu:0.5}"'
    ways = (
        f"grn enqueue q1 {visible} {need} -- python train.py lr=0.01",
        f"cd / && grn enqueue q1 {visible} {need} --cwd={data}/ -- python train.py lr=0.02",
        f"grn enqueue q1 {visible} --env PYTHONPATH=.. {need} -- python train.py lr=0.03",
        f"grn enqueue q1 {visible} {need} python train.py lr=0.04",
        f"grn enqueue q1 {need} -- CUDA_VISIBLE_DEVICES={{gpu}} python train.py lr=0.05",
        f"grn enqueue q1 {need} CUDA_VISIBLE_DEVICES={{gpu}} python train.py lr=0.06",
    )

    for at, way in enumerate(ways, 1):
        assert re.fullmatch(rf"Submitted job \d+: python train.py lr=0.0{at}\n", shell(way))

    assert made == "Created queue q1: {gpu:4,cpu:16}\n"
    for at in range(1, 7):
        seen = told(data, f"lr=0.0{at}")
        index = int(seen["GRN_RESOURCE_GPU"])
        assert index < 4
        assert seen["CUDA_VISIBLE_DEVICES"] == six_gpus.uuid(index)
        assert (seen["cwd"], seen["GRN_AMOUNT_GPU"]) == (str(data), "0.5")
    assert told(data, "lr=0.03")["PYTHONPATH"] == ".."
    until(lambda: facts("show", "q1")[0]["ended"] == 6, 20)
    assert shell("grn show").startswith(
        "Queue q1: gpu 4 of 4 left, cpu 16 of 16 left; 0 queued"
    )
    assert shell("grn show q1").count("python train.py lr=0.0") == 6
    assert shell("grn delete-queue q1") == "Deleted queue q1\n"


def test_g50_a_loop_in_python_feeds_six_configurations(data: Path) -> None:
    (data / "loop.py").write_text(LOOP)
    said("create-queue", "q1", "--json", "{gpu:4,cpu:16}")

    printed = shell(f"{sys.executable} loop.py")

    pairs = [(lr, size) for lr in ("0.01", "0.1") for size in ("8", "16", "32")]
    titles = [f"python train.py lr={lr} batch_size={size}" for lr, size in pairs]
    assert re.findall(r"job \d+: (.*)", printed) == titles
    for lr, size in pairs:
        seen = told(data, f"lr={lr}-batch_size={size}")
        assert seen["words"] == [f"lr={lr}", f"batch_size={size}"]
    until(lambda: facts("show", "q1")[0]["ended"] == 6, 20)
    numbers = [job["number"] for job in facts("show", "q1")[0]["jobs"]]
    assert numbers == list(range(numbers[0], numbers[0] + 6))
