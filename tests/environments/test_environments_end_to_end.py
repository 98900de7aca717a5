"""Named environments from the call to its value: broker, workers, interpreters."""

import json
import os
import sys
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import grn_zmq as grn
from grn_zmq.cli.environments import environments
from tests.cli.verbs import facts, said, submit, until_ended, until_state
from tests.conftest import forget_client
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.e2e

LONG_S = 30 * PATIENCE
NAMES = ("tensorflow", "torch", "jax")


@pytest.fixture(scope="module")
def services(home: Path) -> Iterator[dict[str, str]]:
    """Four devices, and three environments with an interpreter each; gives their prefixes."""
    prefixes = {name: str(home / name) for name in NAMES}
    tables = ""
    for name, prefix in prefixes.items():
        venv.create(prefix, with_pip=False)
        tables += f'[environments.{name}]\nkind = "interpreter"\nversion = "1.4.0"\n'
        tables += f'python = "{prefix}/bin/python"\n'
    tables += '[environments.shell]\nkind = "prefix"\ncommand = "env -i"\n'
    (home / "lab.toml").write_text(tables)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRN_ENVIRONMENTS", str(home / "lab.toml"))
        with grn.start("host:4x200MiB", max_jobs=2, debug=True):
            yield prefixes
            forget_client()


def in_environment(name: str, **options: Any) -> Callable[..., Any]:
    """Decorate a function that travels by value, as those of scripts do."""
    return grn.job(environment=name, **options)


def test_p16_a_service_is_found_by_its_name_alone(services: dict[str, str]) -> None:
    @in_environment("tensorflow")
    def where(factor: int) -> tuple[str, str, int]:
        return sys.prefix, os.environ["GRN_DEVICE"].partition(":")[0], factor * 6

    assert where(7) == (services["tensorflow"], "host", 42)


def test_p17_with_its_version_and_without(services: dict[str, str]) -> None:
    def prefix() -> str:
        return sys.prefix

    for name in ("torch", "torch-1.4.0"):
        assert in_environment(name)(prefix)() == services["torch"]


def test_exceptions_and_output_come_back(
    services: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    @in_environment("jax")
    def fail() -> None:
        print("about to fail")
        raise LookupError("lost in jax")

    with pytest.raises(LookupError, match="lost in jax") as caught:
        fail()
    assert caught.traceback[-1].name == "fail"
    until(lambda: "about to fail" in capfd.readouterr().out)


def test_variables_of_a_call_reach_its_environment(services: dict[str, str]) -> None:
    def variable() -> str:
        return os.environ["WORD"]

    assert in_environment("jax", env={"WORD": "a b"})(variable)() == "a b"


def test_p21_variables_of_the_caller_reach_a_command(
    services: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANTED", "yes")
    monkeypatch.setenv("OTHER", "no")
    command = f"/bin/echo $WANTED:$OTHER > {tmp_path}/shown"

    # In an empty environment only what its own words name is there.
    number = submit(
        *("--environment", "jax", "--envlist=WANTED", "--env", "OTHER="),
        *("--", "sh", "-c", command),
    )
    until_ended(number)

    assert (tmp_path / "shown").read_text() == "yes:\n"


def test_commands_run_with_the_interpreter_of_their_environment(
    services: dict[str, str], tmp_path: Path
) -> None:
    code = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.prefix)"

    number = submit("--environment", "torch", "--", "python", "-c", code, f"{tmp_path}/shown")
    until_ended(number)

    assert (tmp_path / "shown").read_text() == services["torch"]


def listed(*words: str) -> str:
    done = CliRunner().invoke(environments, words)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_they_are_listed(services: dict[str, str]) -> None:
    rows = {row["name"]: row for row in json.loads(listed("--json"))}

    assert set(rows) == {*NAMES, *(f"{name}-1.4.0" for name in NAMES), "shell"}
    assert rows["shell"]["devices"] == ["host:0", "host:1", "host:2", "host:3"]
    assert "tensorflow-1.4.0  interpreter  host:0,1,2,3" in listed()


def test_a_job_for_one_that_nobody_offers_waits_and_says_so(services: dict[str, str]) -> None:
    number = submit("--environment", "caffe", "--", "true")
    until_state(number, "queued")

    assert facts("why", str(number))["code"] == "environment-missing"
    assert "no worker offers caffe; offered: jax, jax-1.4.0, " in said("why", str(number))
    said("cancel", "--yes", str(number))


def test_with_timeout_0_it_fails_at_once(services: dict[str, str]) -> None:
    began = time.monotonic()

    with pytest.raises(grn.WaitTimeout, match="caffe"):
        in_environment("caffe", timeout=0)(time.time)()

    assert time.monotonic() - began < 5 * PATIENCE


def test_p25_three_services_share_four_devices_without_overlap(
    services: dict[str, str],
) -> None:
    def hold(number: int) -> tuple[str, str, float, float]:
        began = time.monotonic()
        time.sleep(0.2)
        device = os.environ["GRN_DEVICE"]
        return sys.prefix, device, began, time.monotonic()

    jobs = [in_environment(name, exclusive=True, type=f"hold {name}")(hold) for name in NAMES]
    futures = [jobs[number % 3].submit(number) for number in range(12)]
    held = [future.result(LONG_S) for future in futures]

    assert {prefix for prefix, *_ in held} == set(services.values())
    assert len({device for _, device, *_ in held}) == 4
    for _, device, began, ended in held:
        at_once = [
            one for one in held if one[1] == device and began < one[3] and one[2] < ended
        ]
        assert len(at_once) == 1, f"{device} was had by {len(at_once)} at once"
