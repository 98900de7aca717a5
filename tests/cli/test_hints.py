"""Hints about commands that do what was written, and perhaps not what was meant."""

import pytest
from click.testing import CliRunner

from grn_zmq.cli.queueing.hints import brace_hints, hints_about, shell_hint
from grn_zmq.cli.submit import submit
from grn_zmq.units import parse_seconds, spell_seconds


@pytest.mark.parametrize(
    "command",
    ["echo a | wc", "make > log", "make >log 2>&1", "a && b", "cat < x", "sleep 1 & ", "a ; b"],
)
def test_what_is_meant_for_a_shell_is_told_to_be_passed_on(command: str) -> None:
    hint = shell_hint(command)

    assert hint.startswith("no shell is used")
    assert "sh -c" in hint


@pytest.mark.parametrize(
    "command",
    ["grep '|' x", "sh -c 'a | b > c'", 'echo "a > b"', "pip install x >=3", "curl a?b=1&c=2"],
)
def test_other_commands_need_no_hint(command: str) -> None:
    assert shell_hint(command) == ""


def test_a_name_in_braces_that_is_almost_a_parameter_is_named() -> None:
    (hint,) = brace_hints(["--lr", "{lrr}", "{lr}"], ["lr", "bs"])

    assert hint.startswith("{lrr} stays as it is")
    assert hint.endswith("Did you mean {lr}?")


@pytest.mark.parametrize("word", ["{gpu}", "{job}", "{{lrr}}", "{print}", '{"lr": 1}'])
def test_other_braces_are_nobodys_mistake(word: str) -> None:
    assert brace_hints([word], ["lr", "gpus"]) == []


def test_a_resource_of_the_job_is_no_parameter_that_was_misspelt() -> None:
    assert hints_about([], [["{cpu}"]], ["cpus"], ["cpu"]) == []
    assert len(hints_about([], [["{cpu}"]], ["cpus"])) == 1


def test_the_same_is_said_once() -> None:
    assert len(hints_about(["a | b", "a | b"], [["{lrr}"], ["{lrr}"]], ["lr"])) == 2


@pytest.mark.usefixtures("home")
def test_a_hint_is_a_line_on_stderr_and_the_command_stays_as_it_is() -> None:
    done = CliRunner().invoke(submit, ["--dry-run", "echo a | wc"])

    assert (done.exit_code, done.stdout) == (0, "echo a '|' wc\n")
    assert done.stderr.startswith("grn: no shell is used, so | is passed")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.5, "0.5s"), (90, "1m30s"), (5400, "1h30m"), (43200, "12h"), (90000, "1d1h")],
)
def test_times_are_spelt_as_people_write_them(seconds: float, text: str) -> None:
    assert spell_seconds(seconds) == text
    assert parse_seconds(text) == seconds
