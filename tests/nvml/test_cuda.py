"""A job process on the played GPUs: what it sees, what fits, and the torch on top."""

from pathlib import Path

import pytest

from tests.nvml.asking import JobProcess, Raised
from tests.nvml.driver import FakeDriver

pytestmark = pytest.mark.e2e


def a_driver(tmp_path: Path, *sizes_mib: int) -> FakeDriver:
    return FakeDriver(tmp_path, sizes_mib or [1000])


def used(driver: FakeDriver, count: int) -> list[int]:
    return [driver.used_mib(index) for index in range(count)]


def test_what_does_not_fit_is_out_of_memory_in_the_words_of_torch(tmp_path: Path) -> None:
    driver = a_driver(tmp_path, 4096)
    driver.set_used_elsewhere(0, 2560)

    with JobProcess(driver) as job, JobProcess(driver) as other:
        other.alloc(512)
        with pytest.raises(Raised) as caught:
            job.alloc(2048)

    assert caught.value.name == "cuda.OutOfMemoryError"
    assert caught.value.text.startswith(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        "4.00 GiB of which 1024.00 MiB is free."
    )


def test_a_refused_allocation_changes_nothing_and_room_is_used_to_the_last(
    tmp_path: Path,
) -> None:
    driver = a_driver(tmp_path)

    with JobProcess(driver) as job:
        job.alloc(600)
        with pytest.raises(Raised):
            job.alloc(401)
        assert driver.by_pid(0) == {job.pid: 600}

        job.alloc(400)
        assert driver.used_mib(0) == 1000


def test_processes_that_allocate_at_once_never_share_a_byte(tmp_path: Path) -> None:
    driver = a_driver(tmp_path, 100)
    greedy = """import cuda
def fill():
    got = 0
    try:
        while True:
            cuda.alloc(1)
            got += 1
    except cuda.OutOfMemoryError:
        return got
fill()"""

    with JobProcess(driver) as one, JobProcess(driver) as two, JobProcess(driver) as three:
        jobs = [one, two, three]
        for job in jobs:
            job.tell(greedy)
        got = {job.pid: job.answer() for job in jobs}

        assert sum(got.values()) == 100
        assert driver.by_pid(0) == {pid: mib for pid, mib in got.items() if mib}


def test_memory_is_given_back_in_part_or_whole_but_never_more(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)

    with JobProcess(driver) as job:
        job.do("import cuda; cuda.alloc(500); cuda.free(200)")
        assert driver.used_mib(0) == 300

        with pytest.raises(Raised, match="cannot give back 400"):
            job.do("cuda.free(400)")
        job.do("cuda.free()")
        assert driver.used_mib(0) == 0
        assert driver.by_pid(0) == {}


def test_a_killed_process_makes_room_for_the_next(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)

    with JobProcess(driver) as job:
        job.alloc(900)
    with JobProcess(driver) as job:
        job.alloc(900)

        assert driver.by_pid(0) == {job.pid: 900}


def test_a_fork_holds_its_own_memory_and_not_its_parents(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)
    fork = """import cuda
cuda.alloc(100)
ready, tell = os.pipe()
child = os.fork()
if child == 0:
    cuda.alloc(200)
    os.write(tell, b".")
    os.read(os.pipe()[0], 1)
os.read(ready, 1)
child"""

    with JobProcess(driver) as job:
        child = job.do(fork)

        assert driver.by_pid(0) == {job.pid: 100, child: 200}
        job.do(f"os.kill({child}, 9); os.waitpid({child}, 0)")
        assert driver.by_pid(0) == {job.pid: 100}


@pytest.mark.parametrize(
    ("visible", "device", "expected"),
    [
        ("2", 0, [0, 0, 7]),
        ("2,0", 1, [7, 0, 0]),
        ("{1}", 0, [0, 7, 0]),
        ("{2},{0}", 0, [0, 0, 7]),
        ("{1:.12}", 0, [0, 7, 0]),
    ],
)
def test_cuda_visible_devices_maps_what_the_process_counts(
    tmp_path: Path, visible: str, device: int, expected: list[int]
) -> None:
    driver = a_driver(tmp_path, 100, 200, 300)
    visible = visible.format(*(driver.uuid(index) for index in range(3)))

    with JobProcess(driver, CUDA_VISIBLE_DEVICES=visible) as job:
        job.alloc(7, device)

        assert used(driver, 3) == expected


@pytest.mark.parametrize(
    ("visible", "count"),
    [("", 0), ("-1", 0), ("1,junk,0", 1), ("9", 0), ("0,0", 0), ("GPU-0123", 0), ("1, 0", 2)],
)
def test_what_names_no_device_ends_the_list(tmp_path: Path, visible: str, count: int) -> None:
    driver = a_driver(tmp_path, 100, 200)

    with JobProcess(driver, CUDA_VISIBLE_DEVICES=visible) as job:
        assert job.do("import torch; torch.cuda.device_count()") == count
        with pytest.raises(Raised, match=r"No CUDA GPUs|invalid device ordinal"):
            job.alloc(1, device=count)


def test_cuda_may_count_otherwise_unless_it_is_told_the_order(tmp_path: Path) -> None:
    driver = a_driver(tmp_path, 100, 200)
    driver.set_cuda_order([1, 0])

    with JobProcess(driver, CUDA_VISIBLE_DEVICES="0") as job:
        job.alloc(7)
        assert used(driver, 2) == [0, 7]
    with JobProcess(driver, CUDA_VISIBLE_DEVICES=driver.uuid(0)) as job:
        job.alloc(7)
        assert used(driver, 2) == [7, 0]
    with JobProcess(driver, CUDA_DEVICE_ORDER="PCI_BUS_ID") as job:
        job.alloc(7)
        assert used(driver, 2) == [7, 0]


def test_after_the_first_allocation_the_choice_of_devices_is_fixed(tmp_path: Path) -> None:
    driver = a_driver(tmp_path, 100, 200)

    with JobProcess(driver, CUDA_VISIBLE_DEVICES="1") as job:
        job.alloc(3)
        job.do("os.environ['CUDA_VISIBLE_DEVICES'] = '0'; cuda.alloc(4)")

        assert used(driver, 2) == [0, 7]


def test_nothing_can_be_allocated_on_a_lost_gpu(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)
    driver.lose(0)

    with JobProcess(driver) as job:
        with pytest.raises(Raised, match="CUDA error"):
            job.alloc(1)


def test_a_tensor_costs_a_context_and_whole_blocks(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)
    million = 1_000_000  # 3.8 MiB of floats: two blocks

    with JobProcess(driver) as job:
        job.do("import torch; torch.cuda.is_available(), torch.cuda.max_memory_reserved()")
        assert driver.used_mib(0) == 0

        job.do(f"t = torch.rand({million}).cuda(); u = torch.ones(10, device='cuda:0'); 0")
        assert driver.used_mib(0) == 16 + 4 + 2
        assert job.do("torch.cuda.memory_allocated() >> 20") == 6
        assert job.do("u.to('cpu').sum().item()") == 10


def test_a_deleted_tensor_stays_reserved_until_the_cache_is_emptied(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)

    with JobProcess(driver) as job:
        job.do("import torch; t = torch.zeros(100 << 18).to('cuda'); del t; 0")
        assert driver.used_mib(0) == 116
        assert job.do("torch.cuda.memory_allocated()") == 0

        job.do("t = torch.empty(100 << 18, device='cuda'); del t; torch.cuda.empty_cache()")
        assert driver.used_mib(0) == 16
        assert job.do("torch.cuda.max_memory_reserved() >> 20") == 100
        assert job.do("torch.cuda.max_memory_allocated() >> 20") == 100
        job.do("torch.cuda.reset_peak_memory_stats()")
        assert job.do("torch.cuda.max_memory_reserved()") == 0


def test_a_tensor_that_does_not_fit_raises_what_torch_raises(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)

    with JobProcess(driver) as job:
        job.do("import torch; torch.OutOfMemoryError is torch.cuda.OutOfMemoryError")
        with pytest.raises(Raised, match=r"Tried to allocate 2.00 GiB") as caught:
            job.do("torch.rand(512 << 20, device='cuda')")
        pickled = job.do("import pickle; pickle.dumps(torch.OutOfMemoryError('x'), 0).decode()")

    assert caught.value.name == "torch.OutOfMemoryError"
    assert "ctorch\nOutOfMemoryError\n" in pickled


def test_a_fork_of_a_process_that_used_cuda_cannot_use_it(tmp_path: Path) -> None:
    driver = a_driver(tmp_path)
    fork = """import torch
torch.rand(1, device="cuda")
child = os.fork()
if child == 0:
    try:
        torch.rand(1, device="cuda")
    except RuntimeError as problem:
        os._exit("forked subprocess" in str(problem))
    os._exit(2)
os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])"""

    with JobProcess(driver) as job:
        assert job.do(fork) == 1


def test_a_fraction_limits_what_torch_reserves_and_is_asked_for_at_its_first_use(
    tmp_path: Path,
) -> None:
    with JobProcess(a_driver(tmp_path)) as job:
        job.do("import torch; half = torch.cuda.set_per_process_memory_fraction; 0")
        job.do("torch.cuda._lazy_call(lambda: half(0.5)); 0")
        assert job.do("torch.cuda.is_initialized()") is False

        with pytest.raises(Raised, match=r"Tried to allocate 600\.00 MiB"):
            job.do("x = torch.empty(600 << 18, device='cuda'); 0")

        assert job.do("x = torch.empty(400 << 18, device='cuda'); x.numel()") == 400 << 18
