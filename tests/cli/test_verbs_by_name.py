"""Verbs by their own name, by another tool's, and by a slip of the finger."""

import json

import pytest

from grn_zmq.cli.main import ALIASES, VERBS
from tests.cli.scripts import run


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("word", "meant"), [("sumbit", "submit"), ("devics", "devices"), ("lst", "ps")]
)
def test_a_slip_is_answered_with_what_may_be_meant(word: str, meant: str) -> None:
    done = run("grn", word)

    assert done.returncode == 2
    assert f"Did you mean `grn {meant}`?" in done.stderr.decode()


@pytest.mark.e2e
def test_another_tools_word_will_do() -> None:
    assert b"Usage: grn cancel" in run("grn", "kill", "--help").stdout


def test_no_alias_hides_a_verb_and_each_leads_to_one() -> None:
    assert not ALIASES.keys() & VERBS.keys()
    assert set(ALIASES.values()) <= VERBS.keys()


@pytest.mark.e2e
@pytest.mark.parametrize(
    "words", [("ps", "--state", "XX", "--json"), ("show", "--jsn", "--json"), ("x", "--json")]
)
def test_g32_a_wrong_command_line_is_json_for_who_wants_json(words: tuple[str, ...]) -> None:
    done = run("grn", *words)

    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]
    assert b"Error: " in done.stderr


@pytest.mark.e2e
def test_what_belongs_to_the_command_is_left_to_it() -> None:
    done = run("grn", "submit", "--begin", "never", "--", "true", "--json")

    assert done.returncode == 2
    assert done.stdout == b""
