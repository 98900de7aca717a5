"""The programs users start from, unchanged but for one decorator, under the real commands."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.e2e import grabbing
from tests.e2e.scene import MIB, ROOT, Machine, a_machine, rows_of
from tests.nvml.driver import TORCH_STUB
from tests.waiting import PATIENCE, processes_marked, until

pytestmark = pytest.mark.e2e

SCRIPTS = Path(sys.executable).parent
MARK = "GRN_TEST_PROGRAM"
FRAMEWORKS = ("torch", "tensorflow", "jax", "cupy", "numpy")

JOB = """
import grn_zmq as grn
import torch

@grn.job()
def job():
    tensor = torch.rand(1000).cuda()

job()
"""

LONG_JOB = """
import time
import grn_zmq as grn
import torch

@grn.job()
def long_job(sleep):
    tensor = torch.rand(1000).cuda()
    time.sleep(sleep)
    print("long")

@long_job.profile
def short_job(*args):
    tensor = torch.rand(1000).cuda()
    print("short", *args)

long_job(0.05)
"""

SWEEP = """
import grn_zmq as grn
from tests.nvml import cuda

@grn.job()
def take(mib):
    cuda.alloc(mib)
    return mib

print(take({mib}))
"""


@pytest.fixture(scope="module")
def machine(home: Path) -> Iterator[Machine]:
    """Two GPUs of 1000 MiB."""
    with a_machine("nvml", home, 1000, 1000) as machine:
        yield machine


@pytest.fixture
def no_broker(tmp_path: Path, machine: Machine) -> dict[str, str]:
    """The environment of a user on the same GPUs who has started nothing."""
    (tmp_path / "run").mkdir(mode=0o700)
    return {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "XDG_STATE_HOME": str(tmp_path)}


def run(
    *words: str | Path, cwd: Path, env: Mapping[str, str] | None = None, text: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run a program that finds torch, these tests, and our scripts."""
    path = os.pathsep.join([str(SCRIPTS), os.environ["PATH"]])
    modules = os.pathsep.join([str(TORCH_STUB), str(ROOT)])
    return subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env={**os.environ, "PATH": path, "PYTHONPATH": modules, **(env or {})},
        input=text,
        capture_output=True,
        text=True,
        timeout=60 * PATIENCE,
    )


def test_the_first_program_runs_as_it_is(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)

    done = run("python", "job.py", cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (row,) = rows_of(f"{(tmp_path / 'job.py').resolve()}::job")
    assert row.state == "succeeded"
    assert 16 * MIB <= row.peak_bytes <= 18 * MIB  # a context and one block
    assert machine.gpus.used_mib(0) == machine.gpus.used_mib(1) == 0


def test_the_second_program_measures_its_short_job_once(
    machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(LONG_JOB)

    first, second = (run("python", "job.py", cwd=tmp_path) for _ in range(2))

    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == "short 0.05\nlong\n"
    assert second.stdout == "long\n"


@pytest.mark.parametrize("program", [JOB, LONG_JOB], ids=["job", "long_job"])
def test_grn_run_starts_what_is_missing_runs_both_and_leaves_nothing(
    program: str, no_broker: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(program)
    mark = uuid.uuid4().hex

    done = run(
        SCRIPTS / "grn-run",
        "python job.py",
        "python job.py",
        cwd=tmp_path,
        env={**no_broker, MARK: mark},
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("long") == (2 if program is LONG_JOB else 0)
    assert done.stdout.count("short") == (1 if program is LONG_JOB else 0)
    until(lambda: not processes_marked(MARK, mark), 5)
    assert not list((tmp_path / "run").rglob("*.sock"))


def test_r95_xargs_runs_nine_decorated_scripts_of_three_types_without_oom(
    machine: Machine, tmp_path: Path
) -> None:
    for name, mib in {"a": 600, "b": 500, "c": 300}.items():
        (tmp_path / f"{name}.py").write_text(SWEEP.format(mib=mib))
    lines = "".join(f"{name}.py {number}\n" for number in range(3) for name in "abc")

    done = run("xargs", "-P", "9", "-L", "1", "python", cwd=tmp_path, text=lines)

    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split()) == ["300"] * 3 + ["500"] * 3 + ["600"] * 3


def test_s28_neither_client_nor_job_process_loads_any_framework(machine: Machine) -> None:
    loaded = grn.job(type="s28")(grabbing.loaded)()

    assert "grn_zmq" in loaded
    assert not {name.partition(".")[0] for name in loaded} & {*FRAMEWORKS}


def test_s28_client_broker_workers_and_jobs_run_where_no_framework_can_be_imported(
    no_broker: dict[str, str], tmp_path: Path
) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    for name in FRAMEWORKS:
        (modules / f"{name}.py").write_text(f"raise ImportError('no {name} here')\n")
    (tmp_path / "plain.py").write_text(SWEEP.format(mib=100))

    done = run(
        SCRIPTS / "grn-run",
        "python plain.py",
        cwd=tmp_path,
        env={**no_broker, "PYTHONPATH": os.pathsep.join([str(modules), str(ROOT)])},
    )

    assert (done.returncode, done.stdout) == (0, "100\n"), done.stderr
