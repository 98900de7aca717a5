"""Several brokers of one user, told apart by name, each with devices of its own."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.scripts import TRACEBACK, Running, run, started
from tests.nvml.driver import FakeDriver
from tests.waiting import until

pytestmark = pytest.mark.e2e

A, B = {"GRN_NAME": "a"}, {"GRN_NAME": "b"}
WHERE = "sh -c 'echo on $GRN_DEVICE'"


@pytest.fixture(scope="module")
def brokers(gpus: FakeDriver) -> Iterator[tuple[Running, Running]]:
    """One on the first GPU, named by an option, one on the second, named by a variable."""
    with (
        started("--devices", "nvml:0", "--name", "a") as first,
        started("--devices", "nvml:1", environment=B) as second,
    ):
        yield first, second


def facts(*words: str, environment: dict[str, str]) -> object:
    done = run("grn", *words, "--json", environment=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_r71_two_brokers_run_at_once_and_each_client_reaches_its_own(
    brokers: tuple[Running, Running], home: Path
) -> None:
    for environment, device in ((A, "nvml:0"), (B, "nvml:1")):
        done = run("grn", "run", WHERE, environment=environment)
        assert f"on {device}".encode() in done.stdout, done.stderr

        status = facts("status", environment=environment)
        assert isinstance(status, dict)
        assert status["directory"] == str(home / "runtime" / f"grn-{environment['GRN_NAME']}")
        assert [one["device"] for one in status["workers"]] == [device]
        jobs = facts("ps", "--all", environment=environment)
        assert isinstance(jobs, list)
        assert [one["device"] for one in jobs] == [device]

    nameless = run("grn", "status")
    assert nameless.returncode == 3
    assert f"no broker is running in {home}/runtime/grn".encode() in nameless.stderr


def test_what_each_of_them_keeps_is_in_directories_of_its_own(
    brokers: tuple[Running, Running], home: Path
) -> None:
    for name in ("a", "b"):
        assert (home / "state" / f"grn-{name}" / "state.db").exists()
        assert list((home / "state" / f"grn-{name}" / "spool").iterdir())
    assert not (home / "state" / "grn").exists()


def test_a_gpu_that_one_of_them_manages_is_refused_to_a_third(
    brokers: tuple[Running, Running], home: Path
) -> None:
    refused = run("grn", "start", "--devices", "nvml", "--name", "c")

    (line,) = refused.stderr.decode().splitlines()
    assert refused.returncode == 1
    assert "GPU 0 is managed already, by the broker in" in line
    assert str(home / "runtime" / "grn-a") in line
    assert run("grn", "status", environment={"GRN_NAME": "c"}).returncode == 3


def test_host_memory_may_be_shared_by_brokers(brokers: tuple[Running, Running]) -> None:
    for name in ("c", "d"):
        words = ("--devices", "host:1x200MiB", WHERE)
        done = run("grn", "run", *words, environment={"GRN_NAME": name})
        assert b"on host:0" in done.stdout, done.stderr


def test_the_name_may_be_said_before_any_verb(brokers: tuple[Running, Running]) -> None:
    status = run("grn", "--name", "b", "status", "--json")

    assert b"grn-b" in status.stdout
    assert run("grn", "--name", "a/b", "status").returncode == 2


def test_stopping_one_leaves_the_other_alone_and_its_gpu_to_whoever_wants_it(
    brokers: tuple[Running, Running],
) -> None:
    first, second = brokers

    stopped = run("grn", "stop", environment=A)

    assert stopped.returncode == 0, stopped.stderr
    assert first.ended() == 0
    assert second.process.poll() is None
    assert run("grn", "status", environment=B).returncode == 0
    with started("--devices", "nvml:0", "--name", "c") as third:
        assert "Managing GPUs {0}" in third.out


@pytest.mark.parametrize(
    "words",
    [
        ("grn", "start", "--name", "a/b"),
        ("grn-broker", "--name", "a/b"),
        ("grn-workers", "--name", "a/b"),
    ],
)
@pytest.mark.usefixtures("home")
def test_a_name_that_cannot_be_is_refused_in_one_line(words: tuple[str, ...]) -> None:
    refused = run(*words)

    (line,) = refused.stderr.decode().splitlines()
    assert refused.returncode == 2
    assert line.startswith(f"{words[0]}: --name a/b cannot be: write a name of letters")


@pytest.mark.parametrize("verb", ["status", "ps", "stop", "devices", "start", "doctor"])
@pytest.mark.usefixtures("home")
def test_a_variable_that_is_no_name_is_refused_by_every_verb(verb: str) -> None:
    refused = run("grn", verb, environment={"GRN_NAME": "a b"})

    assert refused.returncode == 2, refused
    assert b"GRN_NAME=a b cannot be" in refused.stderr
    assert TRACEBACK.encode() not in refused.stderr


@pytest.mark.usefixtures("home")
def test_a_broker_alone_starts_without_devices() -> None:
    with started("--no-workers", "--name", "alone") as broker:
        name = {"GRN_NAME": "alone"}
        assert "No workers here" in broker.out
        status = facts("status", environment=name)
        assert isinstance(status, dict)
        assert status["devices"] == 0

        assert run("grn", "stop", environment=name).returncode == 0
        assert broker.ended() == 0
    until(lambda: not (Path(os.environ["XDG_RUNTIME_DIR"]) / "grn-alone/broker.json").exists())
