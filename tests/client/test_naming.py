"""Job types: one string per function, wherever and however the program is started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.naming import type_of_command

JOB = """
import grn_zmq as grn

@grn.job()
def job():
    pass

if __name__ == "__main__":
    print(job.job_type)
"""

CLASSES = """
import grn_zmq as grn

class A:
    @grn.job()
    def train(self): pass

class B:
    @grn.job()
    def train(self): pass

@grn.job()
class C: pass

@grn.job()
class D: pass

one, two = grn.job()(lambda: 1), grn.job()(lambda: 2)
three = grn.job()(lambda: 3)
jobs = [A.train, B.train, C, D, one, two, three]
print(*[each.job_type for each in jobs], sep="\\n")
"""


@grn.job()
def importable() -> None: ...


def said(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "here" / "job.py"
    path.parent.mkdir()
    path.write_text(JOB)
    return path


def test_r07_the_type_is_the_same_from_any_directory(script: Path, tmp_path: Path) -> None:
    expected = f"{script.resolve()}::job"

    assert said("job.py", cwd=script.parent) == expected
    assert said("./here/../here/job.py", cwd=tmp_path) == expected
    assert said(script, cwd=Path("/")) == expected


def test_r07_a_link_to_the_script_is_the_script(script: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to(script)

    assert said(link, cwd=tmp_path) == f"{script.resolve()}::job"


def test_r07_the_same_name_elsewhere_is_another_type(script: Path, tmp_path: Path) -> None:
    other = tmp_path / "there" / "job.py"
    other.parent.mkdir()
    other.write_text(JOB)

    assert said(other, cwd=tmp_path) != said(script, cwd=tmp_path)


def test_r07_an_importable_function_is_named_by_its_module(script: Path) -> None:
    program = "import job; print(job.job.job_type)"

    assert importable.job_type == f"{__name__}::importable"
    assert said("-c", program, cwd=script.parent) == "job::job"
    assert said("-m", "job", cwd=script.parent) == "job::job"


def test_r08_classes_methods_and_lambdas_have_types_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "many.py"
    path.write_text(CLASSES)

    types = said(path, cwd=tmp_path).split("\n")

    assert len(set(types)) == 7
    assert types[:4] == [f"{path.resolve()}::{n}" for n in ("A.train", "B.train", "C", "D")]
    assert said(path, cwd=Path("/")).split("\n") == types


def test_r06_an_explicit_name_wins() -> None:
    assert grn.job(type="mine")(importable.grn_function).job_type == "mine"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --lr 0.1 --n=3", "python train.py --lr # --n=#"),
        ("run  1e-3\t-5 +2. .5", "run  #\t# # #"),
        ("sh run7.sh v2", "sh run7.sh v2"),
    ],
)
def test_a_command_is_named_without_its_numbers(command: str, name: str) -> None:
    assert type_of_command(command) == name
