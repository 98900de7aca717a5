"""`grn environments`, and the options by which commands ask for one."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import grn_zmq as grn
from grn_zmq import wire
from grn_zmq.cli import environments as verb
from grn_zmq.cli.submit import submit
from grn_zmq.discovery import Address
from grn_zmq.facts import EnvironmentRow
from tests.cli.puppets import a_broker

# Each is another broker to whoever has asked one before.
PIDS = count(1)
ROWS = (
    EnvironmentRow("tensorflow-1.4.0", "docker", "tf:1.4", ("nvml:0", "nvml:2", "host:1")),
    EnvironmentRow("plain", "interpreter", "/opt/bin/python", ()),
)


@contextmanager
def a_puppet(rows: tuple[EnvironmentRow, ...]) -> Iterator[None]:
    """A broker that knows these environments, where the verb looks for one."""

    def answer(message: wire.Message) -> wire.Message | None:
        return wire.EnvironmentsAre(rows) if isinstance(message, wire.AskEnvironments) else None

    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        with a_broker(Path(place), answer) as (address, _):
            found = Address(next(PIDS), 1, clients=address, workers="")
            patch.setattr("grn_zmq.cli.asking.find_broker", lambda: found)
            yield


def shown(*words: str) -> Result:
    return CliRunner().invoke(verb.environments, words)


def test_environments_are_listed_with_their_devices() -> None:
    with a_puppet(ROWS):
        done = shown()

    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "NAME              KIND         DEVICES          WHAT",
        "tensorflow-1.4.0  docker       nvml:0,2 host:1  tf:1.4",
        "plain             interpreter  -                /opt/bin/python",
    ]


def test_they_are_told_to_machines_too() -> None:
    with a_puppet(ROWS[:1]):
        facts = json.loads(shown("--json").stdout)

    assert facts == [
        {
            "name": "tensorflow-1.4.0",
            "kind": "docker",
            "text": "tf:1.4",
            "devices": ["nvml:0", "nvml:2", "host:1"],
        }
    ]


def test_who_has_none_is_told_how_to_have_some() -> None:
    with a_puppet(()):
        assert "add tables, [environments.NAME]" in shown().stdout
        assert json.loads(shown("--json").stdout) == []


@pytest.mark.usefixtures("home")
def test_without_a_broker_the_status_is_3_and_the_text_one_line() -> None:
    done = shown()

    assert done.exit_code == 3
    assert done.stderr.startswith("grn: no broker is running")
    assert len(done.stderr.splitlines()) == 1


def test_the_verb_loads_no_client_and_nothing_heavy() -> None:
    code = (
        "import sys; import grn_zmq.cli.environments; "
        "print([m for m in ('grn_zmq.client', 'asyncio', 'rich', 'cloudpickle', 'pynvml') "
        "if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout.strip() == "[]", done.stderr


def planned(*words: str) -> dict[str, object]:
    done = CliRunner().invoke(submit, ["--dry-run", "--json", *words, "--", "true"])
    assert done.exit_code == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)[0]
    return found


def test_p21_named_variables_of_the_caller_go_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A", "1")
    monkeypatch.setenv("B", "two words")
    monkeypatch.setenv("C", "stays here")

    found = planned("--envlist=A,B", "--env", "B=mine", "--environment", "tensorflow")

    assert found["variables"] == {"A": "1", "B": "mine"}
    assert found["environment"] == "tensorflow"


def test_p21_a_variable_that_is_not_there_is_named() -> None:
    done = CliRunner().invoke(submit, ["--dry-run", "--envlist=NO_SUCH_ONE", "--", "true"])

    assert done.exit_code == 2
    assert "there is no variable NO_SUCH_ONE here" in done.stderr


@pytest.mark.parametrize("name", ["a b", "x" * 129])
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    done = CliRunner().invoke(submit, ["--dry-run", "--environment", name, "--", "true"])

    assert done.exit_code == 2
    assert "--environment" in done.stderr


def test_an_inline_job_stays_where_its_caller_is() -> None:
    with pytest.raises(ValueError, match="inline=True and environment= exclude each other"):
        grn.job(inline=True, environment="tensorflow")


@pytest.mark.parametrize("name", [3, None, "a b"])
def test_an_environment_of_a_call_is_a_name(name: object) -> None:
    with pytest.raises(TypeError, match="must be a name; `grn environments` lists them"):
        grn.job(environment=name)
