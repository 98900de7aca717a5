"""Ready-made placeholders, and whether a framework has touched CUDA already.

A placeholder is a little memory on a leased device, so that programs that look at NVML instead
of asking the broker see it in use. Nothing here imports a framework until its placeholder is
called; whether one was used is only asked of those that are loaded.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from .frameworks import quietly

Placeholder = Callable[[int], Any]

# What every function of the CUDA driver answers before the first cuInit.
_NOT_INITIALISED: Final = 3


class Backend:
    """The placeholder of one framework: call it with a device as the process counts them."""

    name: str
    module: str

    def __call__(self, device_no: int) -> Any:
        """Take a little memory on a device, and give what keeps it."""
        raise NotImplementedError

    def release(self, held: Any) -> None:
        """Give that memory back, as far as the framework lets go of it."""

    def check(self) -> None:
        """Refuse now what would fail only once a device has been waited for.

        Raises:
            ModuleNotFoundError: The framework is not installed.
        """
        if self.module not in sys.modules and find_spec(self.module) is None:
            raise ModuleNotFoundError(
                f"placeholder={self.name!r} needs {self.module}, which is not installed for "
                f"{sys.executable}. Install it, or lease without a placeholder",
                name=self.module,
            )


class _Pytorch(Backend):
    name = "pytorch"
    module = "torch"

    def __call__(self, device_no: int) -> Any:
        return import_module("torch").zeros(1, device=f"cuda:{device_no}")

    def release(self, held: Any) -> None:
        del held  # its caller has dropped it before
        import_module("torch").cuda.empty_cache()


class _Tensorflow(Backend):
    name = "tensorflow"
    module = "tensorflow"

    def __call__(self, device_no: int) -> Any:
        tensorflow = import_module("tensorflow")
        with tensorflow.device(f"GPU:{device_no}"):
            return tensorflow.zeros([1])


class _Pycuda(Backend):
    name = "pycuda"
    module = "pycuda"

    def __call__(self, device_no: int) -> Any:
        driver = import_module("pycuda.driver")
        driver.init()
        context = driver.Device(device_no).make_context()
        try:
            memory = driver.mem_alloc(1)
        finally:
            context.pop()  # the program makes its own contexts, and finds none of ours current
        return context, memory

    def release(self, held: Any) -> None:
        context, memory = held
        context.push()
        memory.free()
        context.pop()
        context.detach()


pytorch: Final = _Pytorch()
tensorflow: Final = _Tensorflow()
pycuda: Final = _Pycuda()

BY_NAME: Final = {one.name: one for one in (pytorch, tensorflow, pycuda)}


def find(placeholder: Placeholder | str | None) -> Placeholder | None:
    """Give the placeholder that a user means: a function, one of ours by its name, or none.

    Raises:
        TypeError: It cannot be called.
        ValueError: There is none of this name.
        ModuleNotFoundError: Its framework is not installed.
    """
    if placeholder is None or placeholder == "none":
        return None
    if isinstance(placeholder, str):
        if placeholder not in BY_NAME:
            known = ", ".join(map(repr, BY_NAME))
            raise ValueError(
                f"placeholder={placeholder!r}: there are {known}, or give a function"
            )
        placeholder = BY_NAME[placeholder]
    if not callable(placeholder):
        raise TypeError(f"placeholder={placeholder!r} must be a function of a device's number")
    if isinstance(placeholder, Backend):
        placeholder.check()
    return placeholder


def contexts() -> list[str]:
    """The loaded frameworks that keep a context on a GPU, and so keep a part of it."""
    found = {
        "PyTorch": _of_torch,
        "TensorFlow": _of_tensorflow,
        "JAX": _of_jax,
        "pycuda": _of_pycuda,
    }
    return [name for name, asks in found.items() if any(quietly(asks))]


def initialised() -> list[str]:
    """Who has initialised CUDA in this process: from then on its devices are fixed."""
    return contexts() or (["CUDA"] if any(quietly(_of_driver)) else [])


def _of_torch() -> list[bool]:
    cuda = sys.modules.get("torch.cuda")
    return [cuda.is_initialized()] if cuda is not None else []


def _of_tensorflow() -> list[bool]:
    """Its eager context, without making one: asked for its GPUs only if it is complete."""
    eager = sys.modules.get("tensorflow.python.eager.context")
    context = eager.context_safe() if eager is not None else None
    return [context is not None and context._initialized and context.num_gpus() > 0]


def _of_jax() -> list[bool]:
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None or not bridge.backends_are_initialized():
        return []
    return [device.platform == "gpu" for device in sys.modules["jax"].local_devices()]


def _of_pycuda() -> list[bool]:
    """Whether a context of it is current: it raises if there is none."""
    driver = sys.modules.get("pycuda.driver")
    return [] if driver is None else [driver.Context.get_device() is not None]


def _of_driver() -> list[bool]:
    """Ask CUDA itself, if its library is loaded; `torch.cuda.is_available()` is enough."""
    try:
        library = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
    except OSError:
        return []
    count = ctypes.c_int()
    return [library.cuDeviceGetCount(ctypes.byref(count)) != _NOT_INITIALISED]
