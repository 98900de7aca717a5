"""Placeholders of frameworks, and whether CUDA was initialised; the frameworks are played."""

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from grn_zmq import backends
from tests.nvml.driver import TORCH_STUB


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Loaded modules, to be played; those that the test process really has are hidden."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("torch", "tensorflow", "pycuda", "jax"):
            monkeypatch.delitem(sys.modules, name)
    return monkeypatch


def play(modules: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    module = ModuleType(name)
    vars(module).update(contents)
    modules.setitem(sys.modules, name, module)


def test_s11_each_framework_has_a_placeholder_by_name_and_as_a_function(
    modules: pytest.MonkeyPatch,
) -> None:
    for module in ("torch", "tensorflow", "pycuda"):
        play(modules, module)

    for name in ("pytorch", "tensorflow", "pycuda"):
        assert backends.find(name) is getattr(backends, name)
        assert backends.find(getattr(backends, name)) is getattr(backends, name)


@pytest.mark.e2e
def test_s11_frameworks_are_imported_only_when_their_placeholder_is_called() -> None:
    code = (
        "import sys; from grn_zmq import backends; backends.find('pytorch'); "
        "print('torch' in sys.modules, backends.initialised())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{TORCH_STUB}:{Path(__file__).parents[2]}"},
    )

    assert done.stdout == "False []\n", done.stderr


def test_s28_a_framework_that_is_missing_is_told_before_any_waiting(
    modules: pytest.MonkeyPatch,
) -> None:
    modules.setattr(backends, "find_spec", lambda name: None)

    with pytest.raises(ModuleNotFoundError, match="placeholder='pycuda' needs pycuda, which"):
        backends.find("pycuda")


def test_s10_any_function_of_a_number_is_a_placeholder() -> None:
    assert backends.find(hex) is hex
    assert backends.find(None) is None
    assert backends.find("none") is None


@pytest.mark.parametrize(
    ("placeholder", "error"), [("caffe", ValueError), (3, TypeError), (b"pytorch", TypeError)]
)
def test_what_is_no_placeholder_is_refused(placeholder: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="placeholder="):
        backends.find(placeholder)


def test_s11_the_pytorch_placeholder_is_a_tensor_on_the_device(
    modules: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    cuda = SimpleNamespace(empty_cache=lambda: calls.append("empty_cache"))
    play(modules, "torch", zeros=lambda *size, device: (size, device), cuda=cuda)

    held = backends.pytorch(1)
    backends.pytorch.release(held)

    assert held == ((1,), "cuda:1")
    assert calls == ["empty_cache"]


def test_s11_the_tensorflow_placeholder_is_made_on_the_device(
    modules: pytest.MonkeyPatch,
) -> None:
    devices: list[str] = []

    def device(name: str) -> Any:
        devices.append(name)
        return nullcontext()

    play(modules, "tensorflow", device=device, zeros=lambda shape: shape)

    assert backends.tensorflow(2) == [1]
    assert devices == ["GPU:2"]


def test_s11_the_pycuda_placeholder_leaves_no_context_current_and_goes_whole(
    modules: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    def step(name: str) -> Any:
        return lambda: done.append(name)

    context = SimpleNamespace(pop=step("pop"), push=step("push"), detach=step("detach"))
    play(
        modules,
        "pycuda.driver",
        init=step("init"),
        Device=lambda number: SimpleNamespace(make_context=lambda: context),
        mem_alloc=lambda size: SimpleNamespace(free=step("free")),
    )

    backends.pycuda.release(backends.pycuda(0))

    assert done == ["init", "pop", "push", "free", "pop", "detach"]


def test_without_any_framework_nothing_was_initialised(modules: pytest.MonkeyPatch) -> None:
    assert backends.contexts() == []
    assert backends.initialised() == []


def test_s26_pytorch_that_used_cuda_is_noticed(modules: pytest.MonkeyPatch) -> None:
    play(modules, "torch.cuda", is_initialized=lambda: True)

    assert backends.initialised() == ["PyTorch"]


def test_s26_pytorch_that_is_only_imported_is_fine(modules: pytest.MonkeyPatch) -> None:
    play(modules, "torch.cuda", is_initialized=lambda: False)

    assert backends.initialised() == []


@pytest.mark.parametrize(
    ("initialised", "gpus", "found"),
    [(True, 2, ["TensorFlow"]), (True, 0, []), (False, 2, [])],
)
def test_s26_the_eager_context_of_tensorflow_counts_once_it_has_gpus(
    modules: pytest.MonkeyPatch, initialised: bool, gpus: int, found: list[str]
) -> None:
    context = SimpleNamespace(_initialized=initialised, num_gpus=lambda: gpus)
    play(modules, "tensorflow.python.eager.context", context_safe=lambda: context)

    assert backends.initialised() == found


def test_s26_a_context_of_pycuda_is_noticed_and_none_is_no_error(
    modules: pytest.MonkeyPatch,
) -> None:
    def none() -> Any:
        raise RuntimeError("cuCtxGetDevice failed: invalid device context")

    play(modules, "pycuda.driver", Context=SimpleNamespace(get_device=none))
    assert backends.initialised() == []

    play(modules, "pycuda.driver", Context=SimpleNamespace(get_device=lambda: "GPU 0"))
    assert backends.initialised() == ["pycuda"]


def test_s26_jax_on_a_gpu_is_noticed(modules: pytest.MonkeyPatch) -> None:
    play(modules, "jax._src.xla_bridge", backends_are_initialized=lambda: True)
    play(modules, "jax", local_devices=lambda: [SimpleNamespace(platform="gpu")])

    assert backends.initialised() == ["JAX"]


_LIBCUDA = """
static int ready;
int cuInit(unsigned flags) { (void)flags; ready = 1; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return ready ? 0 : 3; }
"""


@pytest.mark.e2e
def test_s26_cuda_itself_tells_that_it_was_initialised(
    modules: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As `torch.cuda.is_available()` does it, before torch calls itself initialised."""
    source, library = tmp_path / "cuda.c", tmp_path / "libcuda.so.1"
    source.write_text(_LIBCUDA)
    words = ["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(source), "-o"]
    subprocess.run([*words, str(library)], check=True)
    code = (
        "import ctypes, sys; from grn_zmq import backends; told = [backends.initialised()]; "
        "cuda = ctypes.CDLL(sys.argv[1]); told += [backends.initialised()]; "
        "cuda.cuInit(0); told += [backends.initialised(), backends.contexts()]; print(told)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(library)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )

    assert done.stdout == "[[], [], ['CUDA'], []]\n", done.stderr
