"""The library: what nvidia-ml-py reads of it, and the faults it plays."""

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pynvml
import pytest

from tests.nvml.asking import JobProcess, ask, until
from tests.nvml.cuda import started
from tests.nvml.driver import FOR_EVER, LIBRARY, PID_SHIFT, Call, FakeDriver, build

pytestmark = pytest.mark.e2e


def a_driver(tmp_path: Path, *sizes_mib: int, reserved_mib: int = 0) -> FakeDriver:
    return FakeDriver(tmp_path, sizes_mib or [1000], reserved_mib=reserved_mib)


def test_the_library_is_built_where_it_is_wanted(tmp_path: Path) -> None:
    library = build(tmp_path / "lib")

    assert library == tmp_path / "lib" / LIBRARY
    assert library.read_bytes().startswith(b"\x7fELF")


def test_gpus_of_different_sizes_and_names_are_told_apart(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path, [1000, 2000, 4000], ["NVIDIA A", "NVIDIA B", "NVIDIA C"])

    seen = ask(
        driver,
        "[[nvmlDeviceGetName(gpu(i)), nvmlDeviceGetMemoryInfo(gpu(i)).total >> 20]"
        " for i in range(nvmlDeviceGetCount())]",
    )

    assert seen == [["NVIDIA A", 1000], ["NVIDIA B", 2000], ["NVIDIA C", 4000]]


def test_a_uuid_leads_to_its_gpu_and_is_the_same_every_time(tmp_path: Path) -> None:
    driver = a_driver(tmp_path / "a", 1000, 2000)
    other = a_driver(tmp_path / "b", 500, 500)

    index = ask(
        driver, f"nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID({driver.uuid(1)!r}.encode()))"
    )

    assert index == 1
    assert ask(driver, "[nvmlDeviceGetUUID(gpu(i)) for i in (0, 1)]") == [
        other.uuid(0),
        other.uuid(1),
    ]
    assert (
        ask(driver, "error(nvmlDeviceGetHandleByUUID, b'GPU-0')") == pynvml.NVML_ERROR_NOT_FOUND
    )
    assert ask(driver, "error(gpu, 2)") == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_reserved_memory_is_used_in_the_first_version_and_apart_in_the_second(
    tmp_path: Path,
) -> None:
    driver = a_driver(tmp_path, 1000, reserved_mib=50)
    driver.set_used_elsewhere(0, 100)

    first = ask(
        driver,
        "[getattr(nvmlDeviceGetMemoryInfo(gpu(0)), key) >> 20 for key in"
        " ('total', 'used', 'free')]",
    )
    second = ask(
        driver,
        "[getattr(nvmlDeviceGetMemoryInfo(gpu(0), nvmlMemory_v2), key) >> 20 for key in"
        " ('total', 'reserved', 'used', 'free')]",
    )

    assert first == [1000, 150, 850]
    assert second == [1000, 50, 100, 850]


def test_a_gpu_says_what_a_status_table_asks_for(tmp_path: Path) -> None:
    driver = a_driver(tmp_path, 1000, 1000)
    driver.set_utilisation(1, 73)
    driver.set(1, "temperature", 66)
    driver.set(1, "display", 1)
    driver.set(1, "mig_mode", 1)

    seen = ask(
        driver,
        """[
            nvmlDeviceGetUtilizationRates(gpu(1)).gpu,
            nvmlDeviceGetTemperature(gpu(1), NVML_TEMPERATURE_GPU),
            nvmlDeviceGetTemperatureV(gpu(1), NVML_TEMPERATURE_GPU),
            nvmlDeviceGetDisplayActive(gpu(1)),
            nvmlDeviceGetDisplayMode(gpu(0)),
            nvmlDeviceGetMigMode(gpu(1)),
            error(nvmlDeviceGetMigMode, gpu(0)),
            nvmlDeviceGetPciInfo(gpu(1)).busId,
            nvmlDeviceGetMinorNumber(gpu(1)),
            nvmlDeviceGetPowerUsage(gpu(1)),
            nvmlDeviceGetComputeMode(gpu(1)),
            nvmlDeviceGetPersistenceMode(gpu(1)),
            nvmlDeviceGetTopologyCommonAncestor(gpu(0), gpu(1)),
            error(nvmlDeviceGetProcessUtilization, gpu(0), 0),
        ]""",
    )

    unsupported, nothing = pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NOT_FOUND
    assert seen[:7] == [73, 66, 66, 1, 0, [1, 1], unsupported]
    assert seen[7:] == ["00000000:02:00.0", 1, 50_000, 0, 0, 30, nothing]


def test_p35_gpus_say_what_is_between_them_and_where_their_links_end(tmp_path: Path) -> None:
    driver = a_driver(tmp_path, 1000, 1000, 1000)
    driver.set_level(0, 2, pynvml.NVML_TOPOLOGY_SINGLE)
    driver.set_nvlinks(1, [-1, 2])

    between = ask(
        driver,
        "[nvmlDeviceGetTopologyCommonAncestor(gpu(a), gpu(b))"
        " for a, b in ((0, 0), (0, 1), (0, 2), (2, 0))]",
    )
    links = ask(
        driver,
        """[
            [nvmlDeviceGetNvLinkState(gpu(1), link) for link in range(2)],
            nvmlDeviceGetNvLinkRemotePciInfo(gpu(1), 1).busId,
            error(nvmlDeviceGetNvLinkRemotePciInfo, gpu(1), 0),
            error(nvmlDeviceGetNvLinkState, gpu(1), 2),
            error(nvmlDeviceGetNvLinkState, gpu(0), 0),
        ]""",
    )

    unsupported, wrong = pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert between == [0, 30, 10, 10]
    assert links == [[0, 1], "00000000:03:00.0", unsupported, wrong, unsupported]


def test_the_system_has_versions_and_what_it_lacks_is_function_not_found(
    tmp_path: Path,
) -> None:
    driver = a_driver(tmp_path)

    versions = ask(
        driver,
        "[nvmlSystemGetDriverVersion(), nvmlSystemGetNVMLVersion(),"
        " nvmlSystemGetCudaDriverVersion(), nvmlSystemGetCudaDriverVersion_v2(),"
        " nvmlErrorString(NVML_ERROR_GPU_IS_LOST)]",
    )
    missing = ask(driver, "error(nvmlDeviceGetFanSpeed, gpu(0))")

    assert versions == ["570.00", "12.570.00", 12080, 12080, "GPU is lost"]
    assert missing == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND


def test_nothing_answers_before_init_or_after_shutdown(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)

    before = ask(
        driver, "(pynvml._LoadNvmlLibrary(), error(nvmlDeviceGetCount))[1]", init=False
    )
    after = ask(driver, "(nvmlShutdown(), error(nvmlDeviceGetCount), error(nvmlShutdown))[1:]")

    assert before == pynvml.NVML_ERROR_UNINITIALIZED
    assert after == [pynvml.NVML_ERROR_UNINITIALIZED] * 2


def test_processes_are_listed_with_their_memory_on_their_own_gpu(tmp_path: Path) -> None:
    driver = a_driver(tmp_path, 1000, 1000)

    with JobProcess(driver) as one, JobProcess(driver) as other:
        one.alloc(100)
        one.alloc(50)
        one.alloc(70, device=1)
        other.alloc(200)

        assert ask(driver, "listed(0)") == {str(one.pid): 150, str(other.pid): 200}
        assert ask(driver, "listed(1)") == {str(one.pid): 70}
        assert ask(driver, "[used(0), used(1)]") == [350, 70]
        assert driver.by_pid(0) == {one.pid: 150, other.pid: 200}


def test_a_process_from_elsewhere_and_one_that_draws_are_counted(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)

    with subprocess.Popen(["sleep", "60"]) as foreign:
        driver.hold(0, foreign.pid, 800)
        driver.hold(0, foreign.pid, 30, graphics=True)

        assert ask(driver, "[used(0), listed(0)]") == [830, {str(foreign.pid): 800}]
        drawing = "[p.pid for p in nvmlDeviceGetGraphicsRunningProcesses(gpu(0))]"
        assert ask(driver, drawing) == [foreign.pid]
        foreign.kill()


def test_use_without_a_process_counts_and_is_not_listed(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)

    driver.set_used_elsewhere(0, 800)

    assert ask(driver, "[used(0), listed(0)]") == [800, {}]
    assert driver.used_mib(0) == 800


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_death_frees_memory_even_before_it_is_reaped(tmp_path: Path, number: int) -> None:
    driver = a_driver(tmp_path)

    with JobProcess(driver) as job:
        job.alloc(300)
        os.kill(job.pid, number)
        until(lambda: not started(job.pid))

        assert job.process.returncode is None
        assert ask(driver, "[used(0), listed(0)]") == [0, {}]
        assert driver.used_mib(0) == 0
        assert driver.by_pid(0) == {}


def test_a_new_process_under_an_old_pid_holds_nothing(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)
    (tmp_path / "gpus/0/compute" / str(os.getpid())).write_text("1 104857600 104857600\n")

    assert ask(driver, "used(0)") == 0
    assert driver.used_mib(0) == 0


def test_the_list_asks_for_more_room_when_it_does_not_fit(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)
    sizes = """(lambda count, room, call: [
        call(gpu(0), byref(count), None), count.value,
        call(gpu(0), byref(count), room), count.value,
        call(gpu(0), byref(c_uint(1)), room),
        call(gpu(0), byref(c_uint(1)), None),
        call(gpu(0), None, None),
    ])(c_uint(0), (c_nvmlProcessInfo_v3_t * 5)(),
       pynvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses_v3)"""

    with JobProcess(driver) as one, JobProcess(driver) as other:
        one.alloc(1)
        other.alloc(1)
        seen = ask(driver, sizes)

    too_small, bad = pynvml.NVML_ERROR_INSUFFICIENT_SIZE, pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert seen == [too_small, 2, 0, 2, too_small, bad, bad]


def test_a_missing_driver_is_reported_until_it_is_there(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)

    driver.no_driver()
    missing = ask(driver, "[error(nvmlInit), error(nvmlInit)]", init=False)
    driver.no_driver(False)

    assert missing == [pynvml.NVML_ERROR_DRIVER_NOT_LOADED] * 2
    assert ask(driver, "nvmlDeviceGetCount()") == 1


def test_init_fails_once_with_the_code_it_was_given(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)
    driver.fail_next("init", code=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)

    seen = ask(driver, "[error(nvmlInit), error(nvmlInit), nvmlDeviceGetCount()]", init=False)

    assert seen == [pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, None, 1]


def test_init_takes_as_long_as_it_is_told_to(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)
    driver.init_delay(0.7)

    begin = time.monotonic()
    ask(driver, "0")

    assert time.monotonic() - begin > 0.7


@pytest.mark.parametrize(("call", "function"), [("memory", "used"), ("processes", "listed")])
def test_a_poll_fails_so_many_times_and_then_goes_on(
    tmp_path: Path, call: Call, function: str
) -> None:
    driver = a_driver(tmp_path)

    driver.fail_next(call, times=2, code=pynvml.NVML_ERROR_TIMEOUT)
    seen = ask(driver, f"[error({function}, 0) for _ in range(3)]")

    assert seen == [pynvml.NVML_ERROR_TIMEOUT] * 2 + [None]


def test_a_fault_of_one_gpu_spares_the_others(tmp_path: Path) -> None:
    driver = a_driver(tmp_path, 1000, 1000)
    driver.fail_next("memory", times=3, device=1)

    seen = ask(driver, "[error(used, 0), error(used, 1)]")

    assert seen == [None, pynvml.NVML_ERROR_UNKNOWN]
    assert driver.failures_left("memory", device=1) == 2
    assert driver.failures_left("memory") == 0


def test_every_failure_is_used_once_however_many_processes_poll(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)
    driver.fail_next("memory", times=100)
    poll = "sum(error(used, 0) is not None for _ in range(50))"

    with ThreadPoolExecutor(4) as pool:
        failed = list(pool.map(lambda _: ask(driver, poll), range(4)))

    assert sum(failed) == 100
    driver.fail_next("memory", times=FOR_EVER)
    assert ask(driver, poll) == 50
    driver.fail_next("memory", times=0)
    assert ask(driver, poll) == 0


def test_a_lost_gpu_fails_every_call_and_the_other_none(tmp_path: Path) -> None:
    driver = a_driver(tmp_path, 1000, 1000)
    lose = f"open({str(tmp_path / 'gpus/1/lost')!r}, 'w').close()"
    calls = (
        "[nvmlDeviceGetName, nvmlDeviceGetUUID, nvmlDeviceGetIndex, nvmlDeviceGetMemoryInfo,"
        " nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetUtilizationRates]"
    )

    while_held = ask(
        driver, f"(lambda held: ({lose}, [error(call, held) for call in {calls}])[1])(gpu(1))"
    )
    driver.lose(1)

    assert while_held == [pynvml.NVML_ERROR_GPU_IS_LOST] * 6
    assert ask(driver, "[nvmlDeviceGetCount(), error(used, 0), error(gpu, 1)]") == [
        2,
        None,
        pynvml.NVML_ERROR_GPU_IS_LOST,
    ]
    driver.lose(1, False)
    assert ask(driver, "used(1)") == 0


def test_memory_of_processes_can_be_not_available(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)

    with JobProcess(driver) as job:
        job.alloc(300)
        driver.hide_process_memory(True)

        assert ask(driver, "[used(0), listed(0)]") == [300, {str(job.pid): None}]
        driver.hide_process_memory(False)
        assert ask(driver, "listed(0)") == {str(job.pid): 300}


def test_pids_can_be_those_of_another_namespace(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)

    with JobProcess(driver) as job:
        job.alloc(300)
        driver.shift_pids(True)

        assert ask(driver, "listed(0)") == {str(job.pid + PID_SHIFT): 300}
        assert driver.by_pid(0) == {job.pid: 300}


def test_accounting_keeps_the_peak_of_a_dead_process_where_it_is_on(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)
    off = ask(
        driver,
        "[nvmlDeviceGetAccountingMode(gpu(0)),"
        f" error(nvmlDeviceGetAccountingStats, gpu(0), {os.getpid()})]",
    )

    driver.accounting(True)
    with JobProcess(driver) as job, JobProcess(driver) as later:
        job.do("import cuda; cuda.alloc(500); cuda.free(400)")
        peak = f"nvmlDeviceGetAccountingStats(gpu(0), {job.pid})"
        alive = ask(driver, f"[{peak}.maxMemoryUsage >> 20, {peak}.isRunning]")
        os.kill(job.pid, signal.SIGKILL)
        until(lambda: not started(job.pid))
        later.alloc(1)
        dead = ask(driver, f"[{peak}.maxMemoryUsage >> 20, {peak}.isRunning]")

    assert off == [0, pynvml.NVML_ERROR_NOT_SUPPORTED]
    assert ask(driver, "nvmlDeviceGetAccountingMode(gpu(0))") == 1
    assert alive == [500, 1]
    assert dead == [500, 0]
