"""What README and docs name exists: commands, verbs, options, files, messages."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import grn_zmq as grn
from grn_zmq import facts, records, wire
from grn_zmq.cli.main import VERBS
from grn_zmq.cli.main import grn as command_line
from grn_zmq.cli.run import run
from grn_zmq.options import JobOptions

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCS = {path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")}
COMMANDS = re.findall(r"^```sh\n(.*?)\n```", README, re.MULTILINE | re.DOTALL)
CODE = "\n".join(re.findall(r"`[^`\n]+`|```.*?```", README, re.DOTALL))


def rows_below(header: str) -> list[str]:
    """The first cell of each row of a table of the README."""
    table = README.split(f"| {header} |", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)


def test_the_first_command_runs_the_example_by_what_it_has_installed() -> None:
    steps = COMMANDS[0].split(" && ")

    assert steps == [
        "python3 -m venv .venv",
        ".venv/bin/pip install -q -e .",
        '.venv/bin/grn run ".venv/bin/python examples/sweep.py"',
    ]
    assert (ROOT / "examples" / "sweep.py").is_file()


def test_the_second_command_is_what_the_checks_run() -> None:
    checks = (ROOT / ".ci" / "run").read_text().splitlines()

    steps = COMMANDS[1].split(" && ")
    assert steps == [".venv/bin/pip install -q -e '.[dev]'", ".venv/bin/pytest"]
    assert set(steps) <= set(checks)


def test_every_option_is_named_and_no_other() -> None:
    assert sorted(rows_below("option")) == sorted(one.name for one in fields(JobOptions))


def test_the_other_names_of_options_work() -> None:
    old = {"jobstr": "x", "resource_policy": "packing", "continue_on_server_unavailable": True}
    new = {"type": "x", "policy": "pack", "when_unavailable": "local"}

    assert all(f"`{name}" in README for name in old)
    assert JobOptions.parse(old) == JobOptions.parse(new)


def test_every_verb_is_named_and_no_other() -> None:
    named = set(re.findall(r"(?:^|[`/ (])grn (\w[\w-]*)", CODE, re.MULTILINE))

    assert named - {"import"} == set(VERBS)


def options_of(verb: str) -> set[str]:
    """What a verb takes, or one of the verbs below it."""
    command = command_line.get_command(click.Context(command_line), verb)
    assert command is not None
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return {
        "--help",
        *(
            switch
            for one in (command, *below)
            for option in one.params
            for switch in option.opts
        ),
    }


def test_every_switch_of_a_grn_command_exists() -> None:
    called = r"(?:^|[`/ (])grn (\w[\w-]*)((?:(?! -- |[`|#\n]).)*)"
    lines = re.findall(called, CODE, re.MULTILINE)
    written = {
        (verb, switch)
        for verb, rest in lines
        if verb in VERBS and verb != "simulate"  # which reads its options elsewhere
        for switch in re.findall(r"(?<=\s)--[a-z][a-z-]*", re.sub(r"\"[^\"]*\"", "", rest))
    }

    assert {("start", "--detach"), ("submit", "--param"), ("wait", "--timeout")} <= written
    assert {one for one in written if one[1] not in options_of(one[0])} == set()


def test_every_switch_of_a_row_or_paragraph_is_some_verbs() -> None:
    known = set().union(*map(options_of, VERBS))
    about = README.split("## Commands", 1)[1].split("## How it works", 1)[0]

    named = set(re.findall(r"`(--[a-z][a-z-]*)", about))
    assert len(named) > 20
    assert named <= known


@pytest.mark.parametrize("name", sorted(set(re.findall(r"(?<!/)\bgrn\.([A-Za-z_]\w*)", CODE))))
def test_every_name_of_the_package_exists(name: str) -> None:
    assert hasattr(grn, name) or name == "GrnError"


def test_every_script_is_installed() -> None:
    scripts = (ROOT / "pyproject.toml").read_text().split("[project.scripts]")[1]

    for script in set(re.findall(r"`(grn-\w+)", README)) - {"grn-zmq"}:
        assert f"\n{script} = " in scripts


@pytest.mark.parametrize("name", ["README.md", *sorted(f"docs/{name}" for name in DOCS)])
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())

    missing = [
        link
        for link in links
        if not link.startswith("http") and not (page.parent / link).exists()
    ]
    assert missing == []


def test_a_wrong_command_line_has_the_status_the_table_says() -> None:
    assert CliRunner().invoke(run, ["one", "two"]).exit_code == 2
    assert "| 2 | the command line is wrong |" in README


@pytest.mark.parametrize("kind", sorted(wire.MESSAGES))
def test_every_message_is_described_with_its_fields_in_order(kind: str) -> None:
    names = [one.name for one in fields(wire.MESSAGES[kind])]
    row = re.search(rf"^\| `{kind}` \| ([^|]*) \|", DOCS["protocol.md"], re.MULTILINE)

    assert row is not None, f"docs/protocol.md does not describe {kind}"
    assert re.findall(r"`(\w+)`", row[1]) == names


def test_every_record_is_described_with_its_fields_in_order() -> None:
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^#)", DOCS["protocol.md"], re.M | re.S))
    described = {
        name: re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
        for name, section in sections.items()
    }

    assert described == {
        name: [one.name for one in fields(record)]
        for name, record in {**vars(records), **vars(facts)}.items()
        if isinstance(record, type) and is_dataclass(record)
    }
