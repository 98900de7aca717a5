"""R46, R47, R48, R69, P15: which devices there are, and what is no device."""

import os
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from grn_zmq.errors import DeviceError
from grn_zmq.units import GIB, MIB
from workers.devices import choose, nvml
from workers.devices.choose import default_max_jobs, describe, open_device, plan
from workers.devices.gpus import Gpu, whole
from workers.devices.nvml import NoDriver
from workers.devices.shares import sizes

FOUR = [Gpu(0, "GPU-aa00-0"), Gpu(1, "GPU-aa11-1"), Gpu(2, "GPU-bb22-2"), Gpu(3, "GPU-cc33-3")]


@pytest.fixture
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "list_gpus", lambda: FOUR)


@pytest.fixture
def plain_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 GiB, of which 5 are available, and no driver."""

    def none() -> list[Gpu]:
        raise NoDriver(pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))

    monkeypatch.setattr(nvml, "list_gpus", none)
    monkeypatch.setattr(choose, "physical_bytes", lambda: 10 * GIB)
    monkeypatch.setattr(choose, "available_bytes", lambda: 5 * GIB)


def indices(names: list[str]) -> list[int]:
    return [int(name.removeprefix("nvml:").partition("/")[0]) for name in names]


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize("text", [None, "auto", "nvml", "NVML"])
def test_r48_all_gpus_are_used_by_default(text: str | None) -> None:
    assert plan(text, {}) == [f"nvml:{gpu.index}/{gpu.uuid}" for gpu in FOUR]


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("0,1", [0, 1]),
        ("3, 1", [1, 3]),
        ("GPU-cc33-3", [3]),
        ("GPU-b", [2]),
        ("gpu-AA11,0", [0, 1]),
    ],
)
def test_r46_r47_the_daemon_keeps_to_what_it_may_see(visible: str, expected: list[int]) -> None:
    assert indices(plan("auto", {"CUDA_VISIBLE_DEVICES": visible})) == expected


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    "visible",
    [
        "",
        " ",
        "4",
        "-1",
        "0,0",
        "0,GPU-aa00",
        "GPU-",
        "GPU-a",
        "GPU-zz",
        "0,,1",
        "0,",
        "MIG-1",
        "all",
        "0x1",
        "１",
        "9" * 5000,
    ],
)
@pytest.mark.parametrize("text", [None, "nvml", "nvml:0"])
def test_r47_what_names_no_gpu_is_refused_in_one_clear_line(
    visible: str, text: str | None
) -> None:
    with pytest.raises(DeviceError) as caught:
        plan(text, {"CUDA_VISIBLE_DEVICES": visible})

    line = str(caught.value)
    assert "\n" not in line
    assert f"CUDA_VISIBLE_DEVICES={visible!r}" in line
    assert "GPUs here: 0 (GPU-aa00-0), 1 (GPU-aa11-1)" in line


@pytest.mark.usefixtures("four_gpus")
def test_gpus_are_chosen_by_option_too() -> None:
    assert indices(plan("nvml:2,0", {})) == [0, 2]
    assert indices(plan("nvml:GPU-bb22-2", {"CUDA_VISIBLE_DEVICES": "2,3"})) == [2]


@pytest.mark.usefixtures("four_gpus")
def test_an_option_cannot_choose_what_the_variable_hides() -> None:
    with pytest.raises(DeviceError, match=r"GPU 0, which CUDA_VISIBLE_DEVICES='1,2' keeps"):
        plan("nvml:0", {"CUDA_VISIBLE_DEVICES": "1,2"})


def test_a_gpu_cut_into_instances_is_refused_with_a_way_out() -> None:
    with pytest.raises(DeviceError, match=r"GPU 1 has MIG .* --devices nvml:0, or switch"):
        whole([Gpu(0, "GPU-0"), Gpu(1, "GPU-1", partitioned=True)])


@pytest.mark.usefixtures("plain_machine")
@pytest.mark.parametrize("visible", [None, "", "0", "junk"])
def test_r69_without_a_driver_host_memory_is_used(visible: str | None) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}

    names = plan(None, environ)

    assert names == [f"host:{index}of2/{2 * GIB}of{4 * GIB}" for index in (0, 1)]


@pytest.mark.usefixtures("plain_machine")
def test_p15_asking_for_gpus_without_a_driver_names_the_error_and_the_way_out() -> None:
    with pytest.raises(DeviceError, match=r"NVML Shared Library Not Found.*--devices host"):
        plan("nvml", {})


def test_p15_a_broken_driver_is_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[Gpu]:
        raise NoDriver(pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH))

    monkeypatch.setattr(nvml, "list_gpus", broken)

    with pytest.raises(DeviceError, match=r"version mismatch.*--devices host"):
        plan("auto", {})


def test_a_driver_without_gpus_means_host_memory_unless_gpus_were_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvml, "list_gpus", list)

    assert plan("auto", {"CUDA_VISIBLE_DEVICES": ""})[0].startswith("host:0of2/")
    with pytest.raises(DeviceError, match="has no GPU"):
        plan("nvml", {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [2 * GIB] * 2),
        ("1", [4 * GIB]),
        ("4", [GIB] * 4),
        ("4x2GiB", [2 * GIB] * 4),
        ("4X512M", [512 * MIB] * 4),
        ("1000MiB,500MiB", [1000 * MIB, 500 * MIB]),
        ("1000,500", [1000 * MIB, 500 * MIB]),
        ("2x1G, 500", [GIB, GIB, 500 * MIB]),
        ("1x10GiB", [10 * GIB]),
    ],
)
def test_memory_is_shared_as_it_is_written(text: str, expected: list[int]) -> None:
    assert sizes(text, available_bytes=5 * GIB, physical_bytes=10 * GIB) == expected


@pytest.mark.parametrize(
    "text",
    ["0", "0x1G", "1025", "9" * 5000, "-1", "x", "4x", "x2G", "2G,", ",", "4x0", "1x10b",
     "1x11GiB", "2x6GiB", "1e3", "4x2GiB4", "two", "2000x1M", "1x999999999T"],
)  # fmt: skip
def test_shares_that_cannot_be_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(DeviceError, match=r"--devices host:.*cannot be used") as caught:
        sizes(text, available_bytes=5 * GIB, physical_bytes=10 * GIB)

    assert "\n" not in str(caught.value)


def test_too_large_shares_are_refused_with_both_numbers() -> None:
    with pytest.raises(DeviceError, match=r"12\.0 GiB, but this machine has 10\.0 GiB"):
        sizes("2x6GiB", available_bytes=5 * GIB, physical_bytes=10 * GIB)


@pytest.mark.parametrize("text", ["gpu", "cuda:0", "auto:1", ":", "hosts", "tpu"])
def test_an_unknown_kind_of_device_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(DeviceError, match=r"not understood: write auto, nvml"):
        plan(text, {})


@pytest.mark.parametrize(
    "name", ["", "host:0", "nvml:0", "host:0of0/1of2", "host:0of2/3of2", "host:0of1/0of0"]
)
def test_what_is_no_name_is_not_opened(name: str) -> None:
    with pytest.raises(DeviceError, match="no name of a device"):
        open_device(name)


def test_the_banner_says_which_devices() -> None:
    assert describe(["nvml:0/GPU-a", "nvml:1/GPU-b"]) == "GPUs {0, 1}"
    two = [f"host:{index}of2/{4 * GIB}of{8 * GIB}" for index in (0, 1)]
    assert describe(two) == "host devices {0, 1} of 4.0 GiB"
    uneven = [f"host:0of2/{1000 * MIB}of{1500 * MIB}", f"host:1of2/{500 * MIB}of{1500 * MIB}"]
    assert describe(uneven) == "host devices {0, 1} of 1000.0 MiB, 500.0 MiB"


def test_cores_limit_jobs_on_host_memory_and_nothing_on_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))

    assert default_max_jobs(["nvml:0/GPU-a"]) is None
    assert default_max_jobs([f"host:{index}of2/1of2" for index in (0, 1)]) == 8
    assert default_max_jobs([f"host:{index}of16/1of16" for index in range(16)]) == 2


@pytest.mark.e2e
def test_the_drivers_bindings_are_loaded_only_for_gpus() -> None:
    code = (
        "import sys; from workers.devices.choose import open_device, plan;"
        "[open_device(name) for name in plan('host:2x16M', {})]; print('pynvml' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root
    )

    assert (done.stdout, done.stderr) == ("False\n", "")
