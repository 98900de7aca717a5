"""Our verbs, called in this process: quick, and against the broker that runs here."""

import json
from typing import Any

from click.testing import CliRunner, Result

from grn_zmq.cli.main import grn as command_line
from tests.waiting import until


def grn(*words: str) -> Result:
    """Call a verb and give what it said and left with; a traceback fails the test."""
    done = CliRunner().invoke(command_line, words, prog_name="grn")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def said(*words: str) -> str:
    """What a verb that must succeed prints."""
    done = grn(*words)
    assert done.exit_code == 0, (words, done.stderr)
    return done.stdout


def facts(*words: str) -> Any:
    return json.loads(said(*words, "--json"))


def submit(*words: str) -> int:
    """Queue a command and give its number."""
    return int(said("submit", "--quiet", *words))


def row_of(number: int) -> dict[str, Any]:
    found: dict[str, Any] = facts("ps", str(number))[0]
    return found


def until_state(number: int, *states: str, seconds: float = 20.0) -> dict[str, Any]:
    """Wait until a job is in one of these states, and give its row."""
    until(lambda: row_of(number)["state"] in states, seconds, lambda: str(row_of(number)))
    return row_of(number)


def until_ended(*numbers: int) -> None:
    for number in numbers:
        until(lambda number=number: row_of(number)["ended_at"], 30)  # type: ignore[misc]


def cancel_all() -> None:
    """Leave no job to the next test."""
    grn("cancel", "--all", "--yes")
    until(lambda: facts("ps") == [], 30)
