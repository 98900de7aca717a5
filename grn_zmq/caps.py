"""Keep a run within its lease, inside the job process: `enforce=True`.

The one that wants too much then fails, and not its neighbour. On host memory the kernel
sees to it. On a GPU each framework limits its own pool; the CUDA context is outside of it.

    torch         when it first uses a GPU, in this process and those forked from it
    JAX, CuPy     by environment variables, read at their first use; commands too
    TensorFlow    if it is loaded with the function and has not used a GPU yet

A cap lasts as long as its run.
"""

import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, Final, NamedTuple

from .frameworks import quietly

# On top of a host lease: what a process reserves and hardly touches, such as the stacks of
# its threads, counts for the limit and not for the memory it was measured by.
SLACK_BYTES: Final = 32 << 20
# Tells job processes that a capped one asks for which limit they should have instead.
_UNCAPPED: Final = "GRN_UNCAPPED_DATA"


class Cap(NamedTuple):
    """What a run may have of its device, and what the device has."""

    cap_bytes: int
    total_bytes: int
    on_host: bool


class _Now:
    """What holds at present, for frameworks that wake up later."""

    cap: Cap | None = None
    torch_knows = False
    torch_capped = False
    tensorflow_capped = False


def environment(cap: Cap | None, known: Mapping[str, str]) -> dict[str, str]:
    """Give the variables that go with a cap.

    torch has one too, but what it may say differs between builds, and a word that a build
    does not know makes its first use of a GPU fail.

    Args:
        known: What is set already; the user's choice wins.
    """
    if cap is None:
        return {}
    if cap.on_host:
        return {_UNCAPPED: str(_data_limit())}
    wanted = {"CUPY_GPU_MEMORY_LIMIT": str(cap.cap_bytes)}
    if "XLA_CLIENT_MEM_FRACTION" not in known:  # the newer name: both at once are an error
        share = min(1.0, cap.cap_bytes / max(1, cap.total_bytes))
        wanted["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{share:.6f}"
    return {name: value for name, value in wanted.items() if name not in known}


@contextmanager
def capped(cap: Cap | None) -> Iterator[None]:
    """Hold what runs inside to its cap, as far as its framework can be held."""
    if cap is None:
        yield
    elif cap.on_host:
        before = _data_limit()
        limit_data(cap, _data_bytes())
        try:
            yield
        finally:
            _set_data_limit(before)
    else:
        _Now.cap = cap
        quietly(_cap_tensorflow)
        try:
            with _told_of_import("torch.cuda", _introduce_torch):
                yield
        finally:
            _Now.cap = None
            quietly(_cap_torch)


def can_be_lifted() -> bool:
    """Whether another run in this process can have another cap, or none."""
    return not _Now.tensorflow_capped


def limit_data(cap: Cap, present_bytes: int = 0) -> None:
    """Limit what this process can have, and each that it starts, to its lease."""
    wanted = present_bytes + cap.cap_bytes + SLACK_BYTES
    before = _data_limit()
    _set_data_limit(wanted if before == resource.RLIM_INFINITY else min(wanted, before))


def lift_inherited(*environments: dict[str, str] | Any) -> None:
    """Undo the cap of the job that asked for this one; it was for itself."""
    limits = [one.pop(_UNCAPPED, "") for one in environments]
    if limits and limits[0]:
        _set_data_limit(int(limits[0]))


def _data_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_DATA)[0]


def _set_data_limit(soft: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        soft = hard if soft == resource.RLIM_INFINITY else min(soft, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0


def _introduce_torch(cuda: Any) -> None:
    """Let torch take over the cap when it wakes a GPU, or now if it has."""
    if cuda.is_initialized():
        _cap_torch()
    elif not _Now.torch_knows:
        cuda._lazy_call(lambda: quietly(_cap_torch))
        _Now.torch_knows = True


def _cap_torch() -> None:
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or (_Now.cap is None and not _Now.torch_capped):
        return
    for index in range(cuda.device_count()):
        total = cuda.get_device_properties(index).total_memory
        share = 1.0 if _Now.cap is None else min(1.0, _Now.cap.cap_bytes / total)
        cuda.set_per_process_memory_fraction(share, index)
    _Now.torch_capped = _Now.cap is not None


def _cap_tensorflow() -> None:
    """Cap each GPU of a loaded TensorFlow; it refuses once it has used one."""
    config = getattr(sys.modules.get("tensorflow"), "config", None)
    if config is None or _Now.cap is None:
        return
    limit = config.LogicalDeviceConfiguration(memory_limit=_Now.cap.cap_bytes >> 20)
    for device in config.list_physical_devices("GPU"):
        config.set_logical_device_configuration(device, [limit])
        _Now.tensorflow_capped = True


@contextmanager
def _told_of_import(name: str, loaded: Callable[[Any], None]) -> Iterator[None]:
    """Call `loaded` with a module: now if it is there, else as soon as it is imported."""
    if name in sys.modules:
        quietly(lambda: loaded(sys.modules[name]))
        yield
        return
    finder = _Finder(name, loaded)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _Finder:
    """Finds one module as Python does, and tells when it has been executed."""

    def __init__(self, name: str, loaded: Callable[[Any], None]) -> None:
        self._name = name
        self._loaded = loaded

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_tell(module: Any) -> None:
                execute(module)
                quietly(lambda: self._loaded(module))

            spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec
