"""The command lines of containers: user, mounts, variables and the leased devices."""

import os
import shutil
import subprocess
from itertools import pairwise

import pytest

from grn_zmq.environments import (
    Apptainer,
    BadEnvironment,
    Bubblewrap,
    Docker,
    Environment,
    Interpreter,
    Mount,
    Podman,
    Prefix,
)
from tests.environments.attempts import GPUS, SHARE, a_request

DOCKER = Docker(name="tensorflow", version="1.4.0", image="tf:1.4", mounts=("/data:/d:ro",))
HERE = Mount("/home/me/work", writable=True)


def pairs(words: list[str], switch: str) -> list[str]:
    """What follows each occurrence of a switch."""
    return [two for one, two in pairwise(words) if one == switch]


def test_p20_docker_gets_user_mounts_variables_and_the_leased_devices() -> None:
    request = a_request(devices=GPUS, variables={"B": "secret", "A": "1"}, mounts=(HERE,))

    assert DOCKER.words(request) == [
        *("docker", "run", "--rm", "--name", "grn-7-1", "--init", "--net=host"),
        *("--ulimit", "memlock=-1", "--shm-size", "1g", "-u", "1000:100"),
        *("-v", "/data:/d:ro", "-v", "/etc/passwd:/etc/passwd:ro"),
        *("-v", "/etc/group:/etc/group:ro", "-v", "/home/me/work:/home/me/work"),
        *("-w", "/home/me/work", "--gpus", '"device=GPU-a,GPU-c"'),
        *("-e", "NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-c", "-e", "A", "-e", "B", "tf:1.4"),
    ]


@pytest.mark.parametrize("devices", [(), (SHARE,)])
@pytest.mark.parametrize("kind", [Docker, Podman, Apptainer])
def test_p20_without_a_gpu_a_container_sees_none(
    kind: type[Docker | Apptainer], devices: tuple[object, ...]
) -> None:
    words = kind(name="x", image="i").words(a_request(devices=devices))

    assert not {"--gpus", "--device", "--nv"} & set(words)
    if kind is not Apptainer:  # whose image cannot ask for GPUs by itself
        assert "NVIDIA_VISIBLE_DEVICES=void" in pairs(words, "-e")


def test_p20_switches_of_docker_can_be_left_out() -> None:
    plain = Docker(
        name="x", image="i", net="", shm_size="", memlock=False, user=False, init=False
    )

    assert plain.words(a_request()) == [
        *("docker", "run", "--rm", "--name", "grn-7-1", "-w", "/home/me/work"),
        *("-e", "NVIDIA_VISIBLE_DEVICES=void", "i"),
    ]


def test_docker_reads_what_its_caller_types_only_if_there_is_something() -> None:
    assert "-i" not in DOCKER.words(a_request())
    assert "-i" in DOCKER.words(a_request(stdin=True))


def test_p20_podman_names_gpus_by_cdi_and_stays_the_same_user() -> None:
    words = Podman(name="x", image="i").words(a_request(devices=GPUS))

    assert pairs(words, "--device") == ["nvidia.com/gpu=GPU-a", "nvidia.com/gpu=GPU-c"]
    assert "--userns=keep-id" in words
    assert "--gpus" not in words
    assert "--ulimit" not in words  # nobody but root may raise it


def test_podman_of_root_maps_no_users() -> None:
    assert "--userns=keep-id" not in Podman(name="x", image="i").words(a_request(uid=0))


def test_p20_apptainer_binds_directories_and_passes_variables_with_commas() -> None:
    box = Apptainer(name="x", image="tf.sif", mounts=("/data",), variables={"A": "1"})
    request = a_request(
        devices=GPUS, mounts=(HERE,), variables={"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-c"}
    )

    assert box.words(request) == [
        *("apptainer", "exec", "--nv", "--bind", "/data:/data"),
        *("--bind", "/home/me/work:/home/me/work", "--pwd", "/home/me/work", "tf.sif"),
    ]
    assert box.settings(request) == {
        "APPTAINERENV_A": "1",
        "APPTAINERENV_CUDA_VISIBLE_DEVICES": "GPU-a,GPU-c",
    }


def test_singularity_has_variables_of_its_own_name() -> None:
    box = Apptainer(name="x", image="i", program="/opt/bin/singularity", variables={"A": "1"})

    assert box.settings(a_request()) == {"SINGULARITYENV_A": "1"}


def test_bubblewrap_lets_only_the_working_directory_be_written() -> None:
    words = Bubblewrap(name="x").words(a_request(mounts=(HERE, Mount("/opt/code"))))

    assert pairs(words, "--bind") == ["/proc", "/home/me/work"]
    assert pairs(words, "--ro-bind") == ["/", "/sys", "/opt/code"]
    assert words[-3:] == ["--chdir", "/home/me/work", "--"]


def test_an_interpreter_puts_its_programs_first() -> None:
    tf = Interpreter(name="tf", python="/opt/tf/bin/python", variables={"A": "1"})

    assert tf.words(a_request()) == []
    assert tf.settings(a_request(surroundings={"PATH": "/usr/bin"})) == {
        "PATH": "/opt/tf/bin:/usr/bin",
        "A": "1",
    }


def test_a_prefix_may_name_the_device() -> None:
    bound = Prefix(name="x", command=("numactl", "--cpunodebind={gpu}"))

    words = bound.words(a_request(placeholders={"gpu": "2"}))

    assert words == ["numactl", "--cpunodebind=2"]


@pytest.mark.parametrize(
    ("box", "farewell"),
    [
        (DOCKER, ["docker", "rm", "-f", "grn-7-1"]),
        (Podman(name="x", image="i"), ["podman", "rm", "-f", "-t", "0", "grn-7-1"]),
        (Apptainer(name="x", image="i"), []),
        (Interpreter(name="x", python="/p"), []),
    ],
)
def test_containers_of_a_service_are_ended_by_name(
    box: Environment, farewell: list[str]
) -> None:
    assert box.farewell(a_request()) == farewell


def test_what_is_mounted_already_is_not_mounted_again() -> None:
    needed = (Mount("/home/me/work/src"), HERE, Mount("/"), Mount("/opt/code"), Mount("/data"))
    box = Docker(name="x", image="i", passwd=False, mounts=("/big:/data",))

    words = box.words(a_request(mounts=needed))

    assert pairs(words, "-v") == [
        "/big:/data",
        "/opt/code:/opt/code:ro",
        "/home/me/work:/home/me/work",
    ]


def test_a_directory_that_a_command_line_would_take_apart_is_refused_by_name() -> None:
    with pytest.raises(BadEnvironment, match=r"'/a:b'.*':'.*rename it"):
        DOCKER.words(a_request(cwd="/a:b", mounts=(Mount("/a:b", writable=True),)))


@pytest.mark.e2e
@pytest.mark.skipif(shutil.which("docker") is None, reason="there is no docker client here")
def test_p20_the_real_docker_client_understands_the_line() -> None:
    line = DOCKER.words(a_request(devices=GPUS, variables={"A": "1"}, stdin=True))

    done = subprocess.run(
        [*line, "true"],
        capture_output=True,
        text=True,
        # There is nobody: an image is not even asked for.
        env={"PATH": os.environ["PATH"], "DOCKER_HOST": "unix:///no/such/socket"},
    )

    assert "annot connect" in done.stderr or "failed to connect" in done.stderr
    assert "Usage" not in done.stderr
