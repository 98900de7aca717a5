"""Every shipped example runs to its end: on stand-in GPUs, the main ones on host memory too."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import grn_zmq as grn
from tests.nvml.driver import TORCH_STUB
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("gpu_server")]

EXAMPLES = Path(__file__).parents[2] / "examples"
MODELS = ("linear", "mlp", "conv")
READ_AT_LEAST = 60


def shown_by(*words: str, text: str = "", **environment: str) -> str:
    """What a program prints; it must end well."""
    done = subprocess.run(
        words,
        input=text,
        capture_output=True,
        text=True,
        timeout=60 * PATIENCE,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, f"{words} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_example(name: str, *words: str, text: str = "", **environment: str) -> str:
    return shown_by(sys.executable, str(EXAMPLES / name), *words, text=text, **environment)


def check_sweep(shown: str, kind: str) -> None:
    """Two sweeps of twelve jobs on two devices, each with company somewhere."""
    assert len(re.findall(rf"^ +\d+ +[\d.]+ +{kind}:[01] ", shown, re.MULTILINE)) == 24
    for sweep in shown.split("Second sweep"):
        at_once = re.findall(
            rf"^{kind}:[01]: \d+ jobs, at most (\d+) at once", sweep, re.MULTILINE
        )
        assert max(map(int, at_once)) >= 2, "no device was shared"
    assert re.search(r"^Best: width \d+, rate 0.[13], ", shown, re.MULTILINE)


def check_digits(shown: str) -> None:
    """Nine runs of three types, and each has learned to read."""
    # Nine programs write to one pipe: a line of one may begin where another's stands.
    line = rf"({'|'.join(MODELS)}) +seed (\d): (\d+)% of digits read, on \w+:"
    found = re.findall(line, shown)
    assert sorted((model, seed) for model, seed, _ in found) == sorted(
        (model, seed) for model in MODELS for seed in "123"
    ), shown
    assert min(int(part) for _, _, part in found) >= READ_AT_LEAST


def test_hello() -> None:
    assert re.fullmatch(
        r"in process \d+ on nvml:[01]\nHello, world!\n", run_example("hello.py")
    )


def test_r109_sweep_shares_gpus_without_any_framework() -> None:
    check_sweep(run_example("sweep.py"), "nvml")


def test_sweep_measures_what_torch_takes_on_a_gpu() -> None:
    shown = run_example("sweep.py", PYTHONPATH=str(TORCH_STUB))

    check_sweep(shown, "nvml")
    # Tensors in blocks of 2 MiB and a context of 16 MiB, as the stand-in for torch has them.
    for width in (32, 64, 96):
        assert f"{width + 16}.0 MiB" in shown


def test_r92_sweep_runs_under_grn_run_on_host_memory(tmp_path: Path) -> None:
    """As README's first command does it: with a broker of its own, there and back again."""
    runtime = tmp_path / "r"
    runtime.mkdir(mode=0o700)
    command = f"{sys.executable} {EXAMPLES / 'sweep.py'}"
    words = (sys.executable, "-m", "grn_zmq.cli.main", "run", "--devices", "host:2x1000MiB")

    apart = {"XDG_RUNTIME_DIR": str(runtime), "XDG_STATE_HOME": str(tmp_path / "s")}
    shown = shown_by(*words, "--max-jobs", "4", command, **apart)

    check_sweep(shown, "host")
    assert not (runtime / "grn" / "broker.json").exists()


def test_batch_sizes_in_between_are_predicted() -> None:
    shown = run_example("batch_sizes.py", PYTHONPATH=str(TORCH_STUB))

    between = shown.split("Sizes in between")[1]
    rows = re.findall(r"^ +\d+ +([\d.]+) MiB +([\d.]+) MiB +(\d+)$", between, re.MULTILINE)
    assert len(rows) == 4
    for predicted, peak, attempts in rows:
        assert 1.0 <= float(predicted) / float(peak) <= 1.25
        assert attempts == "1"


def test_measure_with_a_shorter_run() -> None:
    shown = run_example("measure_with_a_shorter_run.py")

    assert shown.count("measuring one step instead") == 1
    assert len(re.findall(r"^seed \d: 40 steps on nvml:[01]$", shown, re.MULTILINE)) == 4


def test_fire_and_forget() -> None:
    ids = run_example("fire_and_forget.py", "2", "3")
    assert len(ids.split()) == 2

    assert run_example("fire_and_forget.py", "--collect", text=ids) == "4.0\n9.0\n"
    assert grn.attach(ids.split()[0]).result() == 4.0


def test_r95_mnist_by_xargs() -> None:
    runs = [f"--model {model} --seed {seed}" for model in MODELS for seed in (1, 2, 3)]
    train = (sys.executable, str(EXAMPLES / "mnist" / "train.py"))

    check_digits(shown_by("xargs", "-P", "9", "-L", "1", *train, text="\n".join(runs)))


def test_mnist_by_make() -> None:
    makefile = str(EXAMPLES / "mnist" / "Makefile")

    check_digits(shown_by("make", "-j9", "-f", makefile, f"PYTHON={sys.executable}"))


def test_every_example_has_a_test() -> None:
    # Those that need a broker of their own are tested beside what they show.
    tests = "".join(one.read_text() for one in Path(__file__).parents[1].rglob("test_*.py"))

    untested = [
        one.name
        for one in EXAMPLES.iterdir()
        if not one.name.startswith(("_", ".")) and f'"{one.name}"' not in tests
    ]
    assert untested == []
