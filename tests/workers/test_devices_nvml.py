"""L10, P09, P15, P27, R42, R44, R46-R48, R52, R53, R56-R59 against the stand-in driver."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pynvml
import pytest

from grn_zmq.errors import DeviceError
from grn_zmq.records import Leased
from grn_zmq.units import GIB, MIB
from tests.nvml.asking import JobProcess, until
from tests.nvml.driver import LIBRARY, UNKNOWN, FakeDriver
from workers.devices.choose import open_device, plan
from workers.devices.device import FRAMEWORK_DEFAULTS, DeviceUnreadable, Sample, Tree
from workers.devices.nvml import NvmlDevice
from workers.surroundings import device_variables

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]

MakeDriver = Callable[..., FakeDriver]

# A child of a job process, and one below it, each holding what it is told.
BELOW = """
import subprocess, sys
mib, *rest = {sizes}
code = '''
import subprocess, sys, cuda
cuda.alloc(int(sys.argv[2]))
if sys.argv[3:]:
    more = [sys.executable, "-c", sys.argv[1], sys.argv[1], *sys.argv[3:]]
    child = subprocess.Popen(more, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
print(flush=True)
sys.stdin.read()
'''
command = [sys.executable, "-c", code, code, *map(str, {sizes})]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
len(child.stdout.readline())
"""


@pytest.fixture
def make_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeDriver:
    """Plug a driver into this very process, as LD_LIBRARY_PATH does for a new one."""

    def make(*sizes_mib: int, reserved_mib: int = 0) -> FakeDriver:
        driver = FakeDriver(tmp_path, sizes_mib or [1000], reserved_mib=reserved_mib)
        monkeypatch.setenv("FAKE_NVML_DIR", driver.environment()["FAKE_NVML_DIR"])
        monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(tmp_path / "lib" / LIBRARY)))
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return driver

    return make


def opened(driver: FakeDriver, index: int = 0) -> NvmlDevice:
    return NvmlDevice(driver.uuid(index))


def a_tree(job: JobProcess) -> Tree:
    return Tree(job.pid, job.pid, counts_root=True)


def mib(sample: Sample) -> tuple[dict[str, int], int, set[str]]:
    by_tree = {key: count // MIB for key, count in sample.by_tree.items()}
    return by_tree, sample.foreign_bytes // MIB, set(sample.seen)


def run(driver: FakeDriver, code: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    outside = {key: text for key, text in os.environ.items() if not key.startswith("CUDA_")}
    environment = {**outside, **driver.environment(), **variables}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)


def test_r46_a_fresh_process_finds_the_gpus_it_may_see(make_driver: MakeDriver) -> None:
    driver = make_driver(1000, 1000, 1000, 1000)
    code = (
        "import os; from workers.devices.choose import describe, plan;"
        "print(describe(plan(None, os.environ)))"
    )

    assert run(driver, code).stdout == "GPUs {0, 1, 2, 3}\n"
    assert run(driver, code, CUDA_VISIBLE_DEVICES="0,1").stdout == "GPUs {0, 1}\n"
    assert run(driver, code, CUDA_VISIBLE_DEVICES=driver.uuid(2)).stdout == "GPUs {2}\n"
    assert run(driver, code, CUDA_VISIBLE_DEVICES="").returncode != 0


def test_p15_no_driver_means_host_memory_or_a_clear_no(make_driver: MakeDriver) -> None:
    driver = make_driver(1000)
    driver.no_driver()

    assert plan("auto", {"CUDA_VISIBLE_DEVICES": ""})[0].startswith("host:")
    with pytest.raises(DeviceError, match=r"Driver Not Loaded.*--devices host"):
        plan("nvml", {})


def test_p15_a_driver_that_fails_is_not_taken_for_none(make_driver: MakeDriver) -> None:
    make_driver(1000).fail_next("init")

    with pytest.raises(DeviceError, match=r"Unknown Error.*--devices host"):
        plan("auto", {})


def test_a_lost_gpu_does_not_keep_the_others_from_starting(make_driver: MakeDriver) -> None:
    driver = make_driver(1000, 1000)
    driver.lose(0)

    assert plan(None, {}) == [f"nvml:1/{driver.uuid(1)}"]


def test_a_gpu_cut_into_instances_is_refused(make_driver: MakeDriver) -> None:
    driver = make_driver(1000, 1000)
    driver.set(1, "mig_mode", 1)

    with pytest.raises(DeviceError, match="GPU 1 has MIG"):
        plan(None, {})
    assert plan("nvml:0", {}) == [f"nvml:0/{driver.uuid(0)}"]


def test_what_the_driver_reserves_is_no_room_and_no_use(make_driver: MakeDriver) -> None:
    driver = make_driver(24564, reserved_mib=500)

    device = open_device(plan(None, {})[0])

    assert device.info.total_bytes == (24564 - 500) * MIB
    assert device.info.device_class == "NVIDIA Stand-in 24 GiB"
    assert (device.info.index, device.info.uuid) == (0, driver.uuid(0))
    assert device.sample({}).used_bytes == 0


def test_an_old_driver_is_read_without_what_it_reserves(
    make_driver: MakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = make_driver(1000, reserved_mib=100)
    monkeypatch.setattr(pynvml, "nvmlMemory_v2", 7)

    device = opened(driver)

    assert device.info.total_bytes == 1000 * MIB
    assert device.sample({}).foreign_bytes in (0, 100 * MIB)


def test_small_cards_are_told_apart_by_size(make_driver: MakeDriver) -> None:
    driver = make_driver(1000, 500)

    classes = {opened(driver, index).info.device_class for index in (0, 1)}

    assert classes == {"NVIDIA Stand-in 1000 MiB", "NVIDIA Stand-in 500 MiB"}


def test_r42_r44_p09_a_job_sees_the_device_it_is_charged_for(make_driver: MakeDriver) -> None:
    driver = make_driver(1000, 1000)
    driver.set_cuda_order([1, 0])
    device = opened(driver, 1)

    variables = device_variables([Leased(driver.uuid(1), 1, "nvml:1")])
    with JobProcess(driver, **variables) as job:
        job.alloc(100)

        assert mib(device.sample({"job": a_tree(job)})) == ({"job": 100}, 0, {"job"})
    assert variables["CUDA_VISIBLE_DEVICES"] == variables["NV_GPU"] == driver.uuid(1)
    assert variables["GRN_DEVICE"] == "nvml:1"
    assert not FRAMEWORK_DEFAULTS.keys() & variables.keys()


def test_l10_a_job_is_charged_with_its_own_memory_beside_another(
    make_driver: MakeDriver,
) -> None:
    driver = make_driver(1000)
    device = opened(driver)
    with JobProcess(driver) as small, JobProcess(driver) as large:
        small.alloc(100)
        large.alloc(700)

        sample = device.sample({"small": a_tree(small), "large": a_tree(large)})

        assert mib(sample) == ({"small": 100, "large": 700}, 0, {"small", "large"})
        assert sample.processes == {small.pid: 100 * MIB, large.pid: 700 * MIB}
        assert sample.owners == {small.pid: "small", large.pid: "large"}


def test_r52_memory_of_others_is_foreign_until_they_free_it(make_driver: MakeDriver) -> None:
    driver = make_driver(1000)
    device = opened(driver)
    with JobProcess(driver) as other, JobProcess(driver) as job:
        other.alloc(800)
        job.alloc(50)
        assert mib(device.sample({"job": a_tree(job)})) == ({"job": 50}, 800, {"job"})

        other.do("import cuda; cuda.free()")

        assert mib(device.sample({"job": a_tree(job)})) == ({"job": 50}, 0, {"job"})


def test_r53_child_and_grandchild_are_measured_with_the_job(make_driver: MakeDriver) -> None:
    driver = make_driver(1000)
    device = opened(driver)
    with JobProcess(driver) as job:
        job.alloc(100)
        job.do(BELOW.format(sizes=[200, 300]))

        assert mib(device.sample({"job": a_tree(job)})) == ({"job": 600}, 0, {"job"})
        assert device.held_bytes(a_tree(job)) == 600 * MIB
        job.do("child.kill()")


def test_a_process_that_computes_and_draws_is_counted_once(make_driver: MakeDriver) -> None:
    driver = make_driver(1000)
    device = opened(driver)
    with JobProcess(driver) as job:
        driver.hold(0, job.pid, 100)
        driver.hold(0, job.pid, 60, graphics=True)

        assert mib(device.sample({"job": a_tree(job)}))[0] == {"job": 100}


def test_r56_a_job_without_gpu_use_is_not_seen(make_driver: MakeDriver) -> None:
    driver = make_driver(1000)
    device = opened(driver)
    with JobProcess(driver) as job, JobProcess(driver) as other:
        other.alloc(300)

        assert mib(device.sample({"job": a_tree(job)})) == ({"job": 0}, 300, set())


@pytest.mark.parametrize("elsewhere", [0, 150])
def test_r57_with_other_pids_a_lone_job_is_measured_by_difference(
    make_driver: MakeDriver, elsewhere: int
) -> None:
    driver = make_driver(1000)
    driver.set_used_elsewhere(0, elsewhere)
    driver.shift_pids()
    device = opened(driver)
    with JobProcess(driver) as job:
        job.alloc(300)

        assert mib(device.sample({"job": a_tree(job)})) == ({"job": 300}, elsewhere, {"job"})
        assert device.held_bytes(a_tree(job)) == 300 * MIB


def test_r57_with_other_pids_jobs_side_by_side_teach_nothing_but_take_room(
    make_driver: MakeDriver,
) -> None:
    driver = make_driver(1000)
    driver.shift_pids()
    device = opened(driver)
    with JobProcess(driver) as one, JobProcess(driver) as two:
        one.alloc(100)
        two.alloc(500)

        sample = device.sample({"one": a_tree(one), "two": a_tree(two)})

        assert mib(sample) == ({"one": 300, "two": 300}, 0, set())


def test_r57_a_namespace_below_ours_is_seen_through(
    make_driver: MakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = make_driver(1000)
    driver.shift_pids()
    device = opened(driver)
    monkeypatch.setattr("workers.devices.nvml.inner_pids", lambda pid: [pid + 1_000_000])
    with JobProcess(driver) as one, JobProcess(driver) as two:
        one.alloc(100)
        two.alloc(500)

        sample = device.sample({"one": a_tree(one), "two": a_tree(two)})

        assert mib(sample) == ({"one": 100, "two": 500}, 0, {"one", "two"})


@pytest.mark.parametrize("call", ["memory", "processes"])
def test_r58_one_failing_poll_says_so_and_the_next_succeeds(
    make_driver: MakeDriver, call: str
) -> None:
    driver = make_driver(1000)
    device = opened(driver)
    driver.fail_next("memory" if call == "memory" else "processes", code=UNKNOWN)

    with pytest.raises(
        DeviceUnreadable, match="GPU 0 cannot be read: NVML: Unknown Error"
    ) as e:
        device.sample({})

    assert not e.value.lost
    assert device.sample({}).used_bytes == 0


def test_r58_a_lost_gpu_is_called_lost_and_may_come_back(make_driver: MakeDriver) -> None:
    driver = make_driver(1000)
    device = opened(driver)
    driver.lose(0)

    for read in (lambda: device.sample({}), lambda: device.held_bytes(Tree(1, 1))):
        with pytest.raises(DeviceUnreadable, match="lost") as caught:
            read()
        assert caught.value.lost

    driver.lose(0, lost=False)
    assert device.sample({}).used_bytes == 0


def test_r59_unknown_memory_of_a_process_is_measured_by_difference(
    make_driver: MakeDriver,
) -> None:
    driver = make_driver(1000)
    driver.hide_process_memory()
    device = opened(driver)
    with JobProcess(driver) as before, JobProcess(driver) as job:
        before.alloc(200)
        device.sample({})
        job.alloc(300)

        assert mib(device.sample({"job": a_tree(job)})) == ({"job": 300}, 200, {"job"})
        assert device.held_bytes(a_tree(job)) == 300 * MIB
        job.do("import cuda; cuda.free()")
        assert device.held_bytes(a_tree(job)) == 0


def test_a_process_that_just_died_and_is_still_listed_stays_its_jobs(
    make_driver: MakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = make_driver(1000)
    device = opened(driver)
    with JobProcess(driver) as dying, JobProcess(driver) as other:
        dying.alloc(300)
        trees = {"dying": a_tree(dying), "idle": a_tree(other)}
        device.sample(trees)
        monkeypatch.setattr("workers.devices.nvml.owner", lambda pid, roots, cache: None)
        monkeypatch.setattr("workers.devices.nvml.start_time", lambda pid: None)

        assert mib(device.sample(trees)) == ({"dying": 300, "idle": 0}, 0, {"dying"})
        assert mib(device.sample({"idle": trees["idle"]})) == ({"idle": 0}, 300, set())


def test_memory_of_a_killed_job_is_free_again(make_driver: MakeDriver) -> None:
    driver = make_driver(1000)
    device = opened(driver)
    with JobProcess(driver) as job:
        job.alloc(400)
        assert device.held_bytes(a_tree(job)) == 400 * MIB

    until(lambda: device.sample({}).used_bytes == 0)
    assert device.held_bytes(Tree(job.pid, job.pid)) == 0


def test_p27_load_and_heat_are_part_of_a_sample(make_driver: MakeDriver) -> None:
    driver = make_driver(1000)
    driver.set_utilisation(0, 37)
    driver.set(0, "temperature", 61)

    sample = opened(driver).sample({})

    assert (sample.utilisation, sample.temperature_c) == (0.37, 61)


def test_the_load_is_read_anew_when_a_run_begins(make_driver: MakeDriver) -> None:
    driver = make_driver(1000)
    device = opened(driver)
    with JobProcess(driver) as job:
        driver.set_utilisation(0, 90)
        assert device.sample({}).utilisation == 0.9
        driver.set_utilisation(0, 10)
        begun = device.sample({"job": a_tree(job)})

    assert begun.utilisation == 0.1


def test_a_gpu_that_is_not_there_cannot_be_opened(make_driver: MakeDriver) -> None:
    make_driver(1000)

    with pytest.raises(DeviceError, match="GPU GPU-none cannot be opened: Not Found"):
        NvmlDevice("GPU-none")


def test_closing_twice_does_no_harm(make_driver: MakeDriver) -> None:
    device = opened(make_driver(8 * 1024))
    device.close()
    device.close()

    assert device.info.total_bytes == 8 * GIB
    with pytest.raises(DeviceUnreadable):
        device.sample({})


def test_a_tree_may_be_given_under_any_key(make_driver: MakeDriver) -> None:
    driver = make_driver(1000)
    device = opened(driver)
    with JobProcess(driver) as job:
        job.alloc(10)
        trees: Mapping[str, Tree] = {"": a_tree(job)}

        assert mib(device.sample(trees)) == ({"": 10}, 0, {""})
        assert device.held_bytes(a_tree(job)) == 10 * MIB
