"""The examples of `examples/services` run on host memory, with an interpreter of their own."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

import grn_zmq as grn
from grn_zmq.environments.files import read_environments
from tests.conftest import forget_client
from tests.waiting import PATIENCE

pytestmark = pytest.mark.e2e

SERVICES = Path(__file__).parents[2] / "examples" / "services"


@pytest.fixture(scope="module")
def prefix(home: Path) -> Iterator[str]:
    """Two devices and a service called `plain`; gives where its interpreter is."""
    venv.create(home / "plain", with_pip=False)
    table = f'[environments.plain]\nkind = "interpreter"\npython = "{home}/plain/bin/python"\n'
    (home / "lab.toml").write_text(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRN_ENVIRONMENTS", str(home / "lab.toml"))
        with grn.start("host:2x200MiB", max_jobs=2, debug=True):
            yield str(home / "plain")
            forget_client()


def example(name: str, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(SERVICES / name), *words],
        capture_output=True,
        text=True,
        timeout=60 * PATIENCE,
        env={**os.environ, "GRN_REPORT": "0"},
    )


def test_p16_a_service_says_which_devices_it_has(prefix: str) -> None:
    done = example("which_devices.py", "plain")

    assert done.returncode == 0, done.stderr
    assert f"interpreter  {prefix}\n" in done.stdout
    assert re.search(r"^devices      host:[01]$", done.stdout, re.MULTILINE)


def test_several_devices_are_told_together(prefix: str) -> None:
    done = example("which_devices.py", "plain", "--gpus", "2")

    assert re.search(r"^devices      host:[01],host:[01]$", done.stdout, re.MULTILINE), done


def test_a_service_that_nobody_offers_is_said_to_be_missing(prefix: str) -> None:
    done = example("which_devices.py", "caffe")

    assert done.returncode == 1
    assert "no worker offers caffe; offered: plain" in done.stderr


def test_output_of_a_function_run_there_goes_where_ours_goes(prefix: str) -> None:
    done = example("run_there.py", "plain", "--gpus", "2", "--epochs", "2")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [
        "epoch 1: loss 0.3333",
        "epoch 2: loss 0.1111",
        "final loss 0.1111",
    ]
    assert done.stdout.startswith("training on 2 devices: host:")
    assert done.stderr == "done\n"


def test_the_shipped_file_can_be_read_and_shows_three_kinds() -> None:
    path = SERVICES / "services.toml"

    offered = {one.name: one.kind for one in read_environments(str(path)).offers}

    assert len(tomllib.loads(path.read_text())["environments"]) == 3
    assert offered["tensorflow-2.16.1"] == offered["tensorflow"] == "docker"
    assert (offered["plain"], offered["conda"]) == ("interpreter", "prefix")
