"""Whether the code behind a job type is still the same: what counts, and what does not."""

import functools
import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grn_zmq.naming import version_of_command, version_of_function

FIT = """
    def fit(width, rate=0.1):
        layers = [lambda x: x * rate for _ in range(width)]
        return sum(layer(2.5) for layer in layers)
"""


def function(code: str, name: str = "fit") -> Callable[..., Any]:
    """Define a function as a program would whose file has this text."""
    space: dict[str, Any] = {}
    exec(compile(textwrap.dedent(code), "program.py", "exec"), space)
    found: Callable[..., Any] = space[name]
    return found


def version(code: str, name: str = "fit") -> str:
    return version_of_function(function(code, name))


def test_the_same_code_has_the_same_version() -> None:
    assert version(FIT) == version(FIT)
    assert len(version(FIT)) == 16


@pytest.mark.parametrize(
    "same",
    [
        "\n\n# a comment\nimport os\n" + textwrap.dedent(FIT),
        FIT.replace("        return", "\n\n        # why\n        return"),
        FIT.replace("fit(width, rate=0.1)", "fit(width,\n            rate=0.1)"),
    ],
    ids=["moved down", "lines apart", "signature on two lines"],
)
def test_where_the_lines_stand_does_not_matter(same: str) -> None:
    assert version(same) == version(FIT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2.5", "3.5"),
        ("sum(", "max("),
        ("x * rate", "x + rate"),
        ("range(width)", "range(width + 1)"),
        ("return", "width = 1\n        return"),
    ],
)
def test_other_code_has_another_version_also_within(old: str, new: str) -> None:
    assert old in FIT
    assert version(FIT.replace(old, new)) != version(FIT)


def test_a_set_in_the_code_reads_the_same_in_every_process() -> None:
    code = "def fit(kind): return kind in {%s}"
    names = [f"'name {number}'" for number in range(20)]

    # Two equal sets that were filled in another order, as another process would.
    assert version(code % ", ".join(names)) == version(code % ", ".join(reversed(names)))
    assert version(code % ", ".join(names)) != version(code % ", ".join(names[1:]))


def test_decorators_and_partials_show_the_function_behind_them() -> None:
    fit = function(FIT)

    @functools.wraps(fit)
    def wrapped(*args: Any) -> Any:
        return fit(*args)

    assert version_of_function(wrapped) == version(FIT)
    assert version_of_function(functools.partial(functools.partial(fit, 3), 4)) == version(FIT)


@pytest.mark.parametrize("builtin", [len, int, functools.partial(max, 3)], ids=str)
def test_what_has_no_code_has_no_version(builtin: Callable[..., Any]) -> None:
    assert version_of_function(builtin) == ""


def test_a_command_is_another_when_its_script_was_written_again(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("1")
    command = ["python", str(script), "--lr", "0.1"]
    before = version_of_command(command)

    assert version_of_command([*command[:-1], "0.2"]) == before
    facts = script.stat()
    os.utime(script, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))

    assert version_of_command(command) != before


def test_a_program_of_its_own_counts_and_one_found_by_its_name_does_not(tmp_path: Path) -> None:
    program = tmp_path / "simulate"
    program.touch()

    assert version_of_command([str(program), "--steps", "3"]) != ""
    assert version_of_command(["no-such-program", "x"]) == ""
    assert version_of_command(["\0", "x.py"]) == ""
