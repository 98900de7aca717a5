"""Out of memory by its words: as users have reported them of each library."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grn_zmq.errors import JobTooLarge
from grn_zmq.oom import MAX_TEXT, asked, asked_by, asked_in
from grn_zmq.tracebacks import dump_exception, load_exception
from grn_zmq.units import GIB, KIB, MIB
from tests.waiting import PATIENCE

RUNTIME = "builtins.RuntimeError builtins.Exception"
MEMORY = "builtins.MemoryError builtins.Exception"
TORCH = f"torch.OutOfMemoryError {RUNTIME}"
XLA = f"jaxlib.xla_extension.XlaRuntimeError {RUNTIME}"
TENSORFLOW = "tensorflow.python.framework.errors_impl.ResourceExhaustedError"
CUPY = f"cupy.cuda.memory.OutOfMemoryError {MEMORY}"
NUMPY = f"numpy._core._exceptions._ArrayMemoryError {MEMORY}"
NUMBA = "numba.cuda.cudadrv.driver.CudaAPIError"

OF_A_GPU = [
    (
        TORCH,
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        "23.65 GiB of which 11.06 MiB is free. Including non-PyTorch memory, this process "
        "has 23.60 GiB memory in use.",
        2 * GIB,
    ),
    (
        f"torch.cuda.OutOfMemoryError {RUNTIME}",
        "CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total capacity; "
        "8.57 MiB already allocated; 9.28 GiB free; 4.68 MiB cached)",
        12 * MIB + MIB // 2,
    ),
    (RUNTIME, "CUDA out of memory. Tried to allocate 1024.00 KiB (GPU 0; …)", 1024 * KIB),
    (
        TORCH,
        "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
        "per_process_memory_fraction limit. Requested size: 1.50 GiB",
        3 * GIB // 2,
    ),
    (RUNTIME, "CUDA out of memory. Tried to allocate more than 1EB memory.", 0),
    (RUNTIME, "HIP out of memory. Tried to allocate 20.00 MiB", 20 * MIB),
    (TORCH, "", 0),
    (
        "torch.AcceleratorError",
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at "
        "some other API call, so the stacktrace below might be incorrect.",
        0,
    ),
    (
        RUNTIME,
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        0,
    ),
    (RUNTIME, "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", 0),
    (RUNTIME, "cuFFT error: CUFFT_ALLOC_FAILED", 0),
    (
        CUPY,
        "Out of memory allocating 2,147,483,648 bytes (allocated so far: 0 bytes).",
        2 * GIB,
    ),
    (CUPY, "out of memory to allocate 1073741824 bytes (total 12373894656 bytes)", GIB),
    (NUMBA, "[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY", 0),
    (f"pycuda._driver.MemoryError {MEMORY}", "cuMemAlloc failed: out of memory", 0),
    (
        MEMORY,
        "std::bad_alloc: out_of_memory: CUDA error (failed to allocate 33295450768 bytes) "
        "at: cuda_memory_resource.hpp:62: cudaErrorMemoryAllocation out of memory",
        33295450768,
    ),
    (
        TENSORFLOW,
        "OOM when allocating tensor with shape[64,2016,9,9] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
        64 * 2016 * 9 * 9 * 4,
    ),
]
OF_THE_HOST = [
    (
        NUMPY,
        "Unable to allocate 58.0 GiB for an array with shape (176351, 176460) and data type "
        "uint16",
        58 * GIB,
    ),
    (NUMPY, "Unable to allocate 201. GiB for an array with shape (2999, 2999)", 201 * GIB),
    (NUMPY, "Unable to allocate 8.00 PiB for an array with shape (1,)", 8 << 50),
    (NUMPY, "Unable to allocate 900. EiB for an array with shape (1,)", (1 << 62) - 1),
    (MEMORY, "Unable to allocate 12 elements", 12),
    (MEMORY, "", 0),
    (
        RUNTIME,
        "[enforce fail at alloc_cpu.cpp:73] . DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 4000000000 bytes. Error code 12 (Cannot allocate memory)",
        4000000000,
    ),
    ("builtins.OSError", "[Errno 12] Cannot allocate memory", 0),
    (MEMORY, "std::bad_alloc", 0),
    (
        TENSORFLOW,
        "OOM when allocating tensor with shape[1000,1000] and type double on "
        "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
        8_000_000,
    ),
]
OF_EITHER = [
    (
        XLA,
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes.",
        2 * GIB,
    ),
    (XLA, "RESOURCE_EXHAUSTED: Out of memory allocating 20029400304 bytes.", 20029400304),
    (
        XLA,
        "RESOURCE_EXHAUSTED: Failed to allocate request for 2.99GiB (3206250496B) on device "
        "ordinal 0",
        3206250496,
    ),
    (RUNTIME, "Resource exhausted: Out of memory while trying to allocate 24 bytes.", 24),
    (TENSORFLOW, "OOM when allocating tensor with shape[100,4096,32]", 0),
    (TENSORFLOW, "failed to allocate memory [Op:Mul]", 0),
    (
        "onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException",
        "bfc_arena.cc:376 Failed to allocate memory for requested buffer of size 536870912",
        536870912,
    ),
]
OF_NOBODY = [
    ("builtins.ValueError", "the model ran out of memory slots"),
    (RUNTIME, "CUDA error: device-side assert triggered"),
    (RUNTIME, "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"),
    ("google.api_core.exceptions.ResourceExhausted", "429 RESOURCE_EXHAUSTED: quota exceeded"),
    ("grpc.RpcError", "RESOURCE_EXHAUSTED: Received message larger than max (5 vs. 4)"),
    ("builtins.FileNotFoundError", "[Errno 2] No such file or directory"),
    ("pickle.PicklingError", "Can't pickle <class 'MemoryError'>"),
]


@pytest.mark.parametrize(("names", "text", "count"), OF_A_GPU + OF_EITHER)
def test_l12_a_gpu_that_ran_out_of_memory_says_what_was_asked_for(
    names: str, text: str, count: int
) -> None:
    assert asked(names, text, on_host=False) == count


@pytest.mark.parametrize(("names", "text", "count"), OF_THE_HOST + OF_EITHER)
def test_a_host_device_that_ran_out_of_memory_says_what_was_asked_for(
    names: str, text: str, count: int
) -> None:
    assert asked(names, text, on_host=True) == count


@pytest.mark.parametrize(("names", "text", "count"), OF_THE_HOST)
def test_a_job_on_a_gpu_that_exhausts_the_machine_is_no_out_of_memory_of_its_gpu(
    names: str, text: str, count: int
) -> None:
    assert asked(names, text, on_host=False) is None


@pytest.mark.parametrize(("names", "text", "count"), OF_A_GPU)
def test_a_job_on_a_host_device_that_exhausts_a_gpu_has_not_exhausted_its_device(
    names: str, text: str, count: int
) -> None:
    assert asked(names, text, on_host=True) is None


@pytest.mark.parametrize(("names", "text"), OF_NOBODY)
@pytest.mark.parametrize("on_host", [True, False])
def test_other_failures_are_none(names: str, text: str, on_host: bool) -> None:
    assert asked(names, text, on_host=on_host) is None


def raised(error: BaseException) -> BaseException:
    """The same exception with a frame of this file."""
    try:
        raise error
    except BaseException as caught:
        return caught


def test_a_wrapper_around_an_out_of_memory_is_one() -> None:
    def wrapped(*, explicitly: bool) -> BaseException:
        try:
            try:
                raise MemoryError
            except MemoryError as error:
                if explicitly:
                    raise ValueError("the batch is too large") from error
                raise ValueError("the batch is too large") from None
        except ValueError as error:
            return error

    assert asked_by(wrapped(explicitly=True), on_host=True) == 0
    assert asked_by(wrapped(explicitly=False), on_host=True) is None


def test_the_largest_wish_of_a_group_counts() -> None:
    texts = [f"CUDA out of memory. Tried to allocate {n}.00 MiB" for n in (3, 7, 5)]
    group = ExceptionGroup("three workers", [RuntimeError(text) for text in texts])

    assert asked_by(group, on_host=False) == 7 * MIB


def test_an_exit_while_an_out_of_memory_was_handled_came_from_it() -> None:
    leaving = SystemExit(1)
    leaving.__context__ = MemoryError()

    assert asked_by(leaving, on_host=True) == 0


def test_an_exception_that_wraps_itself_is_looked_at_once() -> None:
    first, second = RuntimeError("a"), MemoryError()
    first.__cause__, second.__cause__ = second, first

    assert asked_by(first, on_host=True) == 0


def test_an_exception_without_text_of_its_own_is_none() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert asked_by(Mute(), on_host=True) is None


def test_what_a_nested_job_ran_out_of_was_not_its_callers() -> None:
    passed_on = load_exception(dump_exception(raised(MemoryError())), "1")
    too_large = JobTooLarge("1", job_type="t", need_bytes=2, largest_bytes=1)

    assert asked_by(raised(MemoryError()), on_host=True) == 0
    assert asked_by(passed_on, on_host=True) is None
    assert asked_by(raised(too_large), on_host=True) is None


def test_the_end_of_a_programs_standard_error_is_read_alike() -> None:
    python = 'Traceback (most recent call last):\n  File "x.py", line 1\nMemoryError\n'
    torch = "x\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.\n"
    cplusplus = "terminate called after throwing an instance of 'std::bad_alloc'\n"

    assert asked_in(python, on_host=True) == 0
    assert asked_in(cplusplus, on_host=True) == 0
    assert asked_in(torch, on_host=False) == 3 * GIB
    assert asked_in("x.py: error: no such option: --MemoryError\n", on_host=True) is None
    assert asked_in("", on_host=True) is None


TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n'
AT_THE_SAME = "\nDuring handling of the above exception, another exception occurred:\n\n"
BECAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
LAUNCHER = f"{TRACEBACK}torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"


@pytest.mark.parametrize(
    "said",
    [
        f"{TRACEBACK}MemoryError\nsmaller batch\n{TRACEBACK}ValueError: no such column\n",
        "MemoryError: smaller batch\n" + "step\n" * 10 + "error: no such column\n",
        f"{TRACEBACK}MemoryError\n" * 3 + f"{TRACEBACK}KeyError: 'x'\n",
    ],
)
def test_a_program_that_went_on_after_an_out_of_memory_ended_for_another_reason(
    said: str,
) -> None:
    assert asked_in(said, on_host=True) is None


@pytest.mark.parametrize(
    "said",
    [
        f"{TRACEBACK}ValueError: x\nwent on\n{TRACEBACK}MemoryError\n",
        f"{TRACEBACK}MemoryError\n{AT_THE_SAME}{TRACEBACK}ValueError: the batch is too large\n",
        f"{TRACEBACK}MemoryError\n{BECAUSE}{TRACEBACK}ValueError\n{BECAUSE}{TRACEBACK}KeyError\n",
        f"{TRACEBACK}MemoryError\n{LAUNCHER}",
        "MemoryError: no more\n" + "so it ends\n" * 5,
    ],
)
def test_what_the_last_traceback_came_from_ended_the_program(said: str) -> None:
    assert asked_in(said, on_host=True) == 0


BEGINNINGS = [
    *("RESOURCE_EXHAUSTED ", "RMM failure ", "OOM when allocating tensor ", "cuMemAlloc"),
    *(
        "Unable to allocate ",
        "Unable to allocate 1",
        "CU",
        "HIP",
        "torch ",
        "\n",
        "a.",
        "1",
        " ",
    ),
    *("tensor with shape[", "allocating tensor with shape[1,", "tried to allocate 1,", "cupy."),
    *(
        "RESOURCE_EXHAUSTED failed to allocate request for 1 (",
        f"{TRACEBACK}x\n",
        "tensorflow ",
    ),
    *(f"{TRACEBACK}MemoryError{BECAUSE}", "_ArrayMemory", "std::bad_alloc: ", "out of memory "),
]


@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("on_host", [True, False])
def test_a_text_that_only_ever_begins_is_soon_done_with(beginning: str, on_host: bool) -> None:
    text = beginning * (MAX_TEXT // len(beginning))
    before = time.thread_time()

    asked(text, text, on_host=on_host)
    asked_in(text, on_host=on_host)

    assert time.thread_time() - before < 2 * PATIENCE


@pytest.mark.parametrize("digits", [19, 26, 400, 5000])
@pytest.mark.parametrize(
    "text",
    [
        "Unable to allocate {} GiB for an array with shape (1,)",
        "Unable to allocate 1.{} EiB for an array with shape (1,)",
        "std::bad_alloc: failed to allocate {} bytes",
        "RESOURCE_EXHAUSTED: Failed to allocate request for 1GiB ({}B) on device ordinal 0",
        "OOM when allocating tensor with shape[{0},{0}] and type double",
    ],
)
def test_a_wish_of_any_number_of_digits_fits_a_message(text: str, digits: int) -> None:
    count = asked_in(text.format("9" * digits), on_host=True)

    assert count is None or 0 <= count < 1 << 62


WORDS = st.sampled_from(
    [
        *(
            "Unable to allocate",
            "tried to allocate",
            "MemoryError",
            "\n",
            " ",
            "array with shape",
        ),
        *("CUDA out of memory.", "GiB", "K", "\u212a", "\u0663", ",", ".", "(", "B)", "bytes"),
        *(
            "allocating tensor with shape[",
            "] and type",
            "float",
            "OOM when",
            "requested size:",
        ),
        *("RESOURCE_EXHAUSTED", "std::bad_alloc", "9" * 18, TRACEBACK, AT_THE_SAME),
    ]
)


@settings(max_examples=500, deadline=None)
@given(st.lists(WORDS | st.text(max_size=5) | st.integers(0).map(str)), st.booleans())
def test_no_text_is_too_much(words: list[str], on_host: bool) -> None:
    for text in ("".join(words), " ".join(words)):
        for count in (asked(MEMORY, text, on_host=on_host), asked_in(text, on_host=on_host)):
            assert count is None or 0 <= count < 1 << 62
