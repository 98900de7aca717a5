"""The verbs about queues, without any broker: what they ask for, print and refuse."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from grn_zmq import wire
from grn_zmq.capacities import parse_capacity
from grn_zmq.cli import create_queue as creating
from grn_zmq.cli import delete_queue as deleting
from grn_zmq.cli import enqueue as enqueueing
from grn_zmq.cli.create_queue import create_queue
from grn_zmq.cli.delete_queue import delete_queue
from grn_zmq.cli.enqueue import enqueue
from grn_zmq.cli.queues.reading import read_json5
from grn_zmq.refusals import refusal
from tests.builders import an_id
from tests.cli.queuerows import a_queue

pytestmark = pytest.mark.usefixtures("home")

Answer = Callable[[wire.Message], wire.Message]


class Broker:
    """Answers as it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.heard: list[wire.Message] = []
        self.answer: Answer = lambda _: wire.QueuesAre((a_queue(),))

    def ask(self, question: wire.Message, answer: type) -> wire.Message:
        self.heard.append(question)
        given = self.answer(question)
        if isinstance(given, wire.Refused):
            raise refusal(given.reason, given.text)
        assert isinstance(given, answer)
        return given


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    played = Broker()
    for module in (creating, deleting, enqueueing):
        monkeypatch.setattr(module, "ask", played.ask)
    return played


def call(verb: click.Command, *words: str, stdin: str = "") -> Result:
    done = CliRunner().invoke(verb, words, input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def created(broker: Broker, *words: str, stdin: str = "") -> wire.CreateQueue:
    done = call(create_queue, *words, stdin=stdin)
    assert done.exit_code == 0, done.stderr
    (order,) = broker.heard
    assert isinstance(order, wire.CreateQueue)
    return order


def enqueued(*words: str) -> dict[str, Any]:
    done = call(enqueue, "--dry-run", "--output", "json", *words)
    assert done.exit_code == 0, done.stderr
    (job,) = json.loads(done.stdout)
    found: dict[str, Any] = job
    return found


def refused(verb: click.Command, *words: str) -> str:
    done = call(verb, *words)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    return " ".join(done.stderr.split())


def test_g04_a_queue_is_made_of_json5_in_text_in_a_file_or_from_stdin(
    broker: Broker, tmp_path: Path
) -> None:
    path = tmp_path / "have.json5"
    path.write_text("// what we have\n{gpu: 4, cpu: 16}\n")
    made = []

    for words, stdin in (
        (("q1", "--json", "{gpu:4,cpu:16}"), ""),
        (("--json={gpu:4,cpu:16}", "q1"), ""),
        (("q1", "--capacity", "{gpu:4,cpu:16}"), ""),
        (("q1", "--file", str(path)), ""),
        (("q1", "--file", "-"), "{gpu:4,cpu:16}"),
    ):
        broker.heard.clear()
        made.append(created(broker, *words, stdin=stdin))

    assert {order.name for order in made} == {"q1"}
    assert all(order.capacity == parse_capacity("{gpu:4,cpu:16}") for order in made)
    assert len({order.request for order in made}) == len(made)
    assert {(order.prefix, order.max_jobs) for order in made} == {((), None)}


def test_a_queue_that_was_made_is_told_as_it_was_written(broker: Broker) -> None:
    row = a_queue(prefix=("python", "a b.py"), max_jobs=3)
    broker.answer = lambda _: wire.QueuesAre((row,))

    said = call(create_queue, "q1", "--json", "{gpu:4,cpu:16}").stdout
    facts = json.loads(
        call(create_queue, "q1", "--json", "{gpu:4,cpu:16}", "--output", "json").stdout
    )

    assert said == (
        "Created queue q1: {gpu:4,cpu:16}, 3 jobs at once; it runs python 'a b.py' …\n"
    )
    assert (facts["kind"], facts["name"], facts["max_jobs"]) == ("queue", "q1", 3)
    assert facts["capacity"]["gpu"] == dict.fromkeys("0123", "1")


def test_g44_a_prefix_is_an_option_or_stands_behind_the_name(broker: Broker) -> None:
    option = created(broker, "q1", "--json", "{gpu:1}", "--prefix", "python 'a b.py'")
    broker.heard.clear()
    words = created(broker, "--capacity", "{gpu:1}", "q1", "python", "a b.py")

    assert option.prefix == words.prefix == ("python", "a b.py")


def test_a_queue_may_be_nothing_but_so_many_jobs_at_once(broker: Broker) -> None:
    order = created(broker, "one-by-one", "--max-jobs", "1")

    assert (order.capacity, order.max_jobs) == ({}, 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("q1",), "what does it have? Say --json '{gpu:4,cpu:16}', or --file FILE"),
        (("q1", "--json", "{gpu:"), "is no JSON5"),
        (("q1", "--json", "gpu:4", "cpu:16"), "put it in quotes"),
        (("q1", "--json", "{}", "--file", "x"), "--json and --file say the same"),
        (("q1", "--file", "/no/such/file"), "cannot read /no/such/file: No such file"),
        (("q1", "--file", "/"), "cannot read /: Is a directory"),
        (("q1", "--json", "{}", "--max-jobs", "0"), "0 is not from 1"),
        (("q1", "--json", "{}", "--prefix", "'"), "--prefix: quotes do not match"),
        (("q1", "--json", "{}", "--prefix", " "), "--prefix: no word is in it"),
        (("q1", "--json", "{}", "--prefix", "a", "b"), "give one of them"),
        (("a b", "--json", "{}"), "'a b' is no name of a queue"),
        (("", "--json", "{}"), "'' is no name of a queue"),
        (("x" * 200, "--json", "{}"), "is no name of a queue"),
        (("--json", "{}"), "Missing argument 'NAME'"),
        (("\udcff", "--json", "{}"), "is no name of a queue"),
        (("q1", "--json", "\udcff"), "put it in quotes"),
        (("q1", "--json", "{x:{'\udcff':1}}"), "is no name of an instance"),
        (("q1", "--file", "/\udcff"), "No such file"),
    ],
)
def test_g32_a_queue_that_cannot_be_is_refused_before_anybody_is_asked(
    broker: Broker, words: tuple[str, ...], told: str
) -> None:
    assert told in refused(create_queue, *words)
    assert broker.heard == []


def test_a_file_that_is_no_text_is_refused(broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"{gpu:4,\xff}")

    assert "is no text in UTF-8" in refused(create_queue, "q1", "--file", str(path))


def test_g32_what_the_broker_refuses_is_one_line_or_json(broker: Broker) -> None:
    broker.answer = lambda _: wire.Refused("queue-exists", "queue q1 exists", ())

    plain = call(create_queue, "q1", "--json", "{gpu:4}")
    facts = call(create_queue, "q1", "--json", "{gpu:4}", "--output", "json")

    assert (plain.exit_code, plain.stdout, plain.stderr) == (1, "", "grn: queue q1 exists\n")
    assert json.loads(facts.stdout) == {"error": "queue q1 exists"}


NEEDS = ("--json", "{gpu:0.5}")
TRAIN = ("python", "train.py", "lr=0.01")
VISIBLE = "CUDA_VISIBLE_DEVICES={gpu}"


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    "words",
    [
        ("q1", "--env", VISIBLE, *NEEDS, "--", *TRAIN),
        ("q1", "--env", VISIBLE, *NEEDS, *TRAIN),
        ("--env", VISIBLE, "q1", *NEEDS, *TRAIN),
        ("--env", VISIBLE, *NEEDS, "q1", "--", *TRAIN),
        ("q1", f"--env={VISIBLE}", "--json={gpu:0.5}", "--", *TRAIN),
        ("q1", *NEEDS, "--", VISIBLE, *TRAIN),
        ("q1", *NEEDS, VISIBLE, *TRAIN),
        ("q1", *NEEDS, f"{VISIBLE} python train.py lr=0.01"),
        ("q1", "--require", "{gpu:0.5}", f"--env={VISIBLE}", "--", *TRAIN),
        ("--", "q1", VISIBLE, *TRAIN),
    ],
    ids=" ".join,
)
def test_g17_g19_a_command_may_be_written_in_all_ways_of_grass(words: tuple[str, ...]) -> None:
    job = enqueued(*words)

    assert job["command"] == list(TRAIN)
    assert job["variables"] == {"CUDA_VISIBLE_DEVICES": "{gpu}"}
    assert job["queue"] == "q1"
    assert (job["gpus"], job["share"]) == ((0, "") if words[0] == "--" else (1, "0.5"))


@pytest.mark.usefixtures("broker")
def test_g19_what_follows_the_first_word_belongs_to_the_command() -> None:
    plain = enqueued("q1", "sh", "--json", "x", "--", "-q", "A=1")
    after = enqueued("q1", "--", "sh", "-c", "a b", "--", "--name")
    alone = enqueued("q1", "--", "a b")

    assert plain["command"] == ["sh", "--json", "x", "--", "-q", "A=1"]
    assert after["command"] == ["sh", "-c", "a b", "--", "--name"]
    assert alone["command"] == ["a b"]
    assert (plain["variables"], plain["gpus"], plain["resources"]) == ({}, 0, {})


@pytest.mark.usefixtures("broker")
def test_the_options_of_submit_are_taken_too(tmp_path: Path) -> None:
    job = enqueued(
        *("q1", "--name", "n", "--priority", "3", "--after", "12", "--hold", "--time", "2h"),
        *("--env", "A=1", "--env", "B=x=y", "--cwd", str(tmp_path), "--retries", "1"),
        *("--json", "{gpu:2,cpu:4,licence:0.5}", "--begin", "+1h", "--", *TRAIN),
    )

    assert (job["name"], job["priority"], job["after"], job["held"]) == ("n", 3, ["12"], True)
    assert job["variables"] == {"A": "1", "B": "x=y"}
    assert (job["cwd"], job["time_limit_s"], job["retries"]) == (str(tmp_path), 7200.0, 1)
    assert (job["gpus"], job["share"]) == (2, "")
    assert job["resources"] == {"cpu": "4", "licence": "0.5"}
    assert job["begin_s"] == 3600.0


@pytest.mark.usefixtures("broker")
def test_a_grid_is_one_job_for_each_value() -> None:
    words = (
        "q1",
        *NEEDS,
        "--param",
        "lr=0.1,0.01",
        "--",
        "python",
        "train.py",
        "{lr}",
        "{gpu}",
    )

    done = call(enqueue, "--dry-run", *words)

    needs = "--json '{gpu:0.5}'"
    assert done.stdout.splitlines() == [
        f"python train.py 0.1 '{{gpu}}'  # {needs}",
        f"python train.py 0.01 '{{gpu}}'  # {needs}",
    ]


def test_g44_in_a_queue_with_a_prefix_the_words_are_arguments(broker: Broker) -> None:
    broker.answer = lambda _: wire.QueuesAre((a_queue(prefix=("python", "fit.py")),))

    assert enqueued("q1", "lr=0.1", "bs=8")["command"] == ["python", "fit.py", "lr=0.1", "bs=8"]
    assert enqueued("q1", "--", "--lr", "0.1")["command"] == ["python", "fit.py", "--lr", "0.1"]
    assert enqueued("q1")["command"] == ["python", "fit.py"]
    assert enqueued("q1", "a b")["command"] == ["python", "fit.py", "a b"]
    assert enqueued("q1", "lr=0.1")["variables"] == {}


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("q1",), "no command: write the command behind the queue"),
        (("q1", "--"), "no command"),
        (("q1", "A=1"), "no command"),
        (("q1", "'"), "quotes do not match"),
        (("q1", "--json", "{gpu:2.5}", "true"), "gpu: 2.5 GPUs cannot be had"),
        (("q1", "--json", "{gpu", "true"), "is no JSON5"),
        (("q1", "--json", "{cpu:[4]}", "true"), "cpu: a list where an amount is expected"),
        (("q1", "--lr=0.1"), "If it belongs to the command, write"),
        (("q1", "--gpus", "2", "true"), "No such option '--gpus'"),
        (("q1", "--cwd", "/no/such/place", "true"), "is no directory"),
        (("q1", "--env", "A", "true"), "write NAME=VALUE"),
        (("q1", *NEEDS, "--file", "x", "true"), "--json and --file say the same"),
        (("q1", "--json", "{cpu:1}", "--param", "cpu=1", "a {cpu}"), "take another name"),
        (("a b", "true"), "'a b' is no name of a queue"),
        ((), "Missing argument 'NAME'"),
    ],
)
def test_g32_a_job_that_cannot_be_is_refused_with_what_to_do(
    words: tuple[str, ...], told: str
) -> None:
    assert told in refused(enqueue, *words)


def test_g32_a_queue_that_is_not_there_is_named(broker: Broker) -> None:
    broker.answer = lambda _: wire.Refused("unknown-queue", "there is no queue q9", ())

    for verb, words in ((enqueue, ("q9", "true")), (delete_queue, ("q9",))):
        done = call(verb, *words)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr == "grn: there is no queue q9\n"


@pytest.mark.usefixtures("broker")
def test_what_is_meant_for_a_shell_is_told_to_be_passed_on() -> None:
    done = call(enqueue, "--dry-run", "q1", "echo a | wc")

    assert done.stderr.startswith("grn: no shell is used, so | is passed")


@pytest.mark.parametrize(
    ("words", "cancelled", "running", "told"),
    [
        ((), 3, 2, ": cancelled 3 jobs that waited; 2 jobs run on to their end"),
        ((), 0, 1, ": 1 job runs on to its end"),
        ((), 0, 0, ""),
        (("--kill",), 3, 2, ": cancelled 1 job that waited; ending 2 jobs: TERM, and after"),
    ],
)
def test_g10_deleting_a_queue_says_what_becomes_of_its_jobs(
    broker: Broker, words: tuple[str, ...], cancelled: int, running: int, told: str
) -> None:
    def answer(message: wire.Message) -> wire.Message:
        if isinstance(message, wire.DeleteQueue):
            return wire.Acted(tuple(map(an_id, range(cancelled))), ())
        if running:
            return wire.QueuesAre((a_queue(running=running, closing=True),))
        return wire.Refused("unknown-queue", "gone", ())

    broker.answer = answer

    said = call(delete_queue, "q1", *words).stdout
    facts = json.loads(call(delete_queue, "q1", *words, "--json").stdout)

    assert said.startswith(f"Deleted queue q1{told}")
    assert broker.heard[0] == wire.DeleteQueue("q1", bool(words))
    assert facts["cancelled"] + facts["ending"] == len(facts["job_ids"]) == cancelled
    assert facts["ending"] + facts["running"] == running


def test_stdin_that_a_shell_has_closed_is_said_to_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(click.UsageError, match="it is closed"):
        read_json5(None, "-")
    assert read_json5("{}", None) == "{}"
