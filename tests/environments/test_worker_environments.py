"""Attempts in environments: a real worker, played containers, a real sandbox."""

import os
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grn_zmq import payload, wire
from grn_zmq.parcels import find_parcels
from grn_zmq.records import Leased, Result
from tests.builders import an_attempt
from tests.environments.fakes import IMAGE, Programs, until_there
from tests.environments.offering import OfferingBench

pytestmark = pytest.mark.e2e

GPUS = (Leased("GPU-a", 0, "nvml:0"), Leased("GPU-c", 2, "nvml:2"))

# Before played programs stand in its way.
PODMAN = shutil.which("podman")

TABLES = """
[environments.tensorflow]
version = "1.4.0"
kind = "docker"
image = "{image}"
python = "{python}"
variables = {{ FROM_TABLE = "yes" }}

[environments.pod]
kind = "podman"
image = "{image}"

[environments.sif]
kind = "apptainer"
image = "{image}"

[environments.plain]
kind = "interpreter"
python = "{python}"

[environments.odd]
kind = "interpreter"
python = "{odd}"

[environments.gone]
kind = "interpreter"
python = "/nowhere/python"

[environments.wrapped]
kind = "prefix"
command = "env WRAPPED={{device}}"

[environments.realpod]
kind = "podman"
program = "{podman}"
image = "/:O"
options = "--rootfs"
python = "{python}"

[environments.safe]
kind = "bubblewrap"
mounts = ["{place}"]
"""


@pytest.fixture(scope="module")
def programs(home: Path) -> Iterator[Programs]:
    place = home / "containers"
    place.mkdir()
    programs = Programs(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", programs.path)
        yield programs


@pytest.fixture(scope="module")
def interpreter(home: Path) -> str:
    venv.create(home / "tf", with_pip=False)
    return str(home / "tf" / "bin" / "python")


@pytest.fixture(scope="module")
def odd(home: Path) -> Path:
    """An interpreter beside which there is no program called python."""
    (home / "odd").mkdir()
    odd = home / "odd" / "python-of-ours"
    odd.symlink_to(os.path.realpath(sys.executable))
    return odd


@pytest.fixture(scope="module")
def bench(
    home: Path, programs: Programs, interpreter: str, odd: Path
) -> Iterator[OfferingBench]:
    tables = home / "lab.toml"
    podman = PODMAN or "podman"
    tables.write_text(
        TABLES.format(image=IMAGE, python=interpreter, place=home, podman=podman, odd=odd)
    )
    bench = OfferingBench(home, tables)
    yield bench
    bench.close()
    assert list(find_parcels(os.environ).shm.glob("box-*")) == []


def shown(place: Path) -> str:
    return (place / "shown").read_text()


def show(place: Path, text: str) -> tuple[str, ...]:
    """A command that writes what a shell makes of this text."""
    return "sh", "-c", f"echo {text} > {place}/shown"


def value_of(result: Result) -> Any:
    assert result.outcome == "succeeded", (result.error_type, result.error_text)
    return payload.load_value(result.payload)


def test_p17_a_worker_offers_each_name_to_the_broker(bench: OfferingBench) -> None:
    offered = {one.name: one.kind for one in bench.greet.environments}

    assert offered == {
        "tensorflow-1.4.0": "docker",
        "tensorflow": "docker",
        "pod": "podman",
        "sif": "apptainer",
        "plain": "interpreter",
        "odd": "interpreter",
        "gone": "interpreter",
        "wrapped": "prefix",
        "realpod": "podman",
        "safe": "bubblewrap",
    }


def test_p20_a_command_runs_in_a_docker_container_with_the_leased_devices(
    bench: OfferingBench, programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_CALLER", "not passed on")
    text = '"$FROM_TABLE/$ASKED/$CUDA_VISIBLE_DEVICES/$GRN_ATTEMPT/$OF_CALLER/$PWD"'

    result = bench.run_command(
        *show(tmp_path, text),
        environment="tensorflow",
        devices=GPUS,
        variables={"ASKED": "gpu {gpu}"},
    )

    assert (result.outcome, result.exit_status) == ("succeeded", 0)
    assert shown(tmp_path) == f"yes/gpu 0,2/GPU-a,GPU-c/1//{tmp_path}\n"
    line = programs.lines()[-1]
    assert line[:5] == ["docker", "run", "--rm", "--name", f"grn-{result.job_id}-1"]
    assert f"{os.getuid()}:{os.getgid()}" in line
    assert '"device=GPU-a,GPU-c"' in line
    assert not any("gpu 0,2" in word for word in line), "values can be read by everybody"


@pytest.mark.parametrize(("name", "program"), [("pod", "podman"), ("sif", "apptainer")])
def test_p20_podman_and_apptainer_run_the_command_too(
    bench: OfferingBench, programs: Programs, tmp_path: Path, name: str, program: str
) -> None:
    asked = {"ASKED": "a,b"}

    result = bench.run_command(
        *show(tmp_path, '"$ASKED/$GRN_DEVICE"'), environment=name, variables=asked
    )

    assert result.exit_status == 0
    assert shown(tmp_path) == "a,b/host:0\n"
    assert programs.lines()[-1][0] == program


def test_the_status_of_the_command_is_that_of_the_job(bench: OfferingBench) -> None:
    assert bench.run_command("sh", "-c", "exit 3", environment="tensorflow").exit_status == 3


def test_p16_a_function_runs_in_the_environment_that_is_named(
    bench: OfferingBench, interpreter: str
) -> None:
    result = bench.run(lambda: sys.prefix, environment="plain")

    assert value_of(result) == str(Path(interpreter).parents[1])


def test_p20_a_function_runs_in_a_container(
    bench: OfferingBench, programs: Programs, interpreter: str
) -> None:
    def where() -> tuple[str, str, str | None]:
        inside = os.environ
        return sys.prefix, inside["GRN_JOB_ID"], inside.get("XDG_STATE_HOME")

    result = bench.run(where, environment="tensorflow-1.4.0")

    assert value_of(result) == (str(Path(interpreter).parents[1]), result.job_id, None)
    line = programs.lines()[-1]
    assert any(word.startswith(f"{find_parcels(os.environ).shm}/box-") for word in line)


def test_commands_of_an_interpreter_are_found_first(
    bench: OfferingBench, interpreter: str, tmp_path: Path
) -> None:
    bench.run_command(*show(tmp_path, "$(command -v python)"), environment="plain")

    assert shown(tmp_path).strip() == interpreter


@pytest.mark.parametrize("word", ["python", "python3"])
def test_python_is_that_of_the_environment_whatever_it_is_called(
    bench: OfferingBench, odd: Path, tmp_path: Path, word: str
) -> None:
    write = f"import sys; open({str(tmp_path / 'shown')!r}, 'w').write(sys.executable)"
    bench.run_command(word, "-c", write, environment="odd")

    assert (tmp_path / "shown").read_text() == str(odd)


def test_a_missing_interpreter_is_an_error_and_not_another_one(bench: OfferingBench) -> None:
    result = bench.run_command("python", "-c", "pass", environment="gone")

    assert result.error_type == "JobNotStarted"
    assert "there is no interpreter /nowhere/python" in result.error_text


def test_a_prefix_stands_before_the_command(bench: OfferingBench, tmp_path: Path) -> None:
    bench.run_command(*show(tmp_path, "$WRAPPED"), environment="wrapped")

    assert shown(tmp_path).strip() == "host:0"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed here")
def test_p20_commands_and_functions_run_in_a_real_sandbox(
    bench: OfferingBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    command = bench.run_command(
        "sh", "-c", "echo in > here; touch /usr/there", environment="safe"
    )
    call = bench.run(lambda: os.access("/usr", os.W_OK), environment="safe")

    assert command.exit_status != 0
    assert (tmp_path / "here").read_text() == "in\n"
    assert value_of(call) is False


# Where the kernel has the older cgroups, or limits that nobody may raise, as in many sandboxes.
CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
"""


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A podman that can run something here, in a copy of our own file system."""
    if PODMAN is None:
        pytest.skip("podman is not installed here")
    trial = [PODMAN, "run", "--rm", "--net=host", "--rootfs", "/:O", "true"]
    done = subprocess.run(trial, capture_output=True, text=True)
    if done.returncode:
        (tmp_path / "containers.conf").write_text(CONTAINERS_CONF)
        monkeypatch.setenv("CONTAINERS_CONF", str(tmp_path / "containers.conf"))
        done = subprocess.run(trial, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"podman cannot run anything here: {done.stderr.strip()}")
    return PODMAN


def test_p20_commands_and_functions_run_in_a_real_container(
    podman: str, bench: OfferingBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    command = bench.run_command(
        *show(tmp_path, '"$(cat /proc/1/comm)/$ASKED/$PWD"'),
        environment="realpod",
        variables={"ASKED": "a,b"},
    )
    call = bench.run(lambda: (os.getcwd(), os.getuid(), sys.prefix), environment="realpod")

    assert command.exit_status == 0
    assert shown(tmp_path) == f"podman-init/a,b/{tmp_path}\n"
    assert value_of(call)[:2] == (str(tmp_path), os.getuid())


def test_p20_a_real_container_ends_with_its_job(
    podman: str, bench: OfferingBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    job_id = bench.give(a_sleeper(tmp_path), environment="realpod", grace_s=0.2)
    until_there(tmp_path / "begun")
    bench.broker.send(wire.End(1, "kill", (wire_id(job_id),)))
    result = bench.broker.result()
    bench.broker.recorded(result)

    listed = subprocess.run([podman, "ps", "-a"], capture_output=True, text=True).stdout
    assert result.outcome != "succeeded"
    assert job_id not in listed


def test_one_that_is_not_offered_fails_the_attempt_by_name(bench: OfferingBench) -> None:
    result = bench.run(lambda: 1, environment="caffe")

    assert (result.outcome, result.error_type) == ("failed", "JobNotStarted")
    assert (
        "does not offer the environment caffe; it offers gone, odd, plain, pod, "
        in result.error_text
    )
    assert value_of(bench.run(lambda: 2)) == 2  # the next one is none the worse


def test_a_program_that_is_not_there_is_named(
    bench: OfferingBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/no/such")

    call = bench.run(lambda: 1, environment="pod")
    command = bench.run_command("true", environment="pod")

    assert call.error_text == (
        "the environment pod could not be entered: podman: No such file or directory"
    )
    assert command.exit_status == 127


def a_sleeper(place: Path) -> Callable[[], None]:
    """A function that says when it has begun; it travels by value, as those of scripts do."""

    def sleep() -> None:
        import time

        (place / "begun").write_text("yes")
        time.sleep(600)

    return sleep


def test_a_cancelled_function_is_interrupted_inside(
    bench: OfferingBench, tmp_path: Path
) -> None:
    def wait_for_it() -> str:
        import time

        (tmp_path / "begun").write_text("yes")
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            return "interrupted"
        return "slept"

    job_id = bench.give(wait_for_it, environment="plain")
    until_there(tmp_path / "begun")
    bench.broker.send(wire.End(1, "interrupt", (wire_id(job_id),)))
    result = bench.broker.result()
    bench.broker.recorded(result)

    assert value_of(result) == "interrupted"


def wire_id(job_id: str) -> Any:
    return an_attempt(int(job_id, 16))


def test_a_container_whose_client_was_killed_is_ended_before_the_job_is(
    bench: OfferingBench, programs: Programs, tmp_path: Path
) -> None:
    with programs.daemon() as containers:
        job_id = bench.give(a_sleeper(tmp_path), environment="tensorflow", grace_s=0.1)
        until_there(tmp_path / "begun")
        bench.broker.send(wire.End(1, "kill", (wire_id(job_id),)))
        result = bench.broker.result()
        bench.broker.recorded(result)

        assert [one.poll() for one in containers] == [-signal.SIGKILL]
        assert programs.lines()[-1] == ["docker", "rm", "-f", f"grn-{job_id}-1"]
        assert (result.outcome, result.signal) == ("killed", signal.SIGTERM)


def test_containers_of_a_worker_that_died_are_ended_by_the_next(
    bench: OfferingBench, programs: Programs, tmp_path: Path
) -> None:
    with programs.daemon() as containers:
        job_id = bench.give(a_sleeper(tmp_path), environment="tensorflow")
        until_there(tmp_path / "begun")
        bench.worker.kill()
        bench.worker.again()
        bench.broker.welcome()

        # Found by the mark in its environment; where others may not read that, by its name.
        assert containers[0].poll() is not None
        assert ["docker", "rm", "-f", f"grn-{job_id}-1"] in programs.lines()
        assert list(find_parcels(os.environ).shm.glob("box-*")) == []
