"""A GPU, read through NVML. The only file that knows nvidia-ml-py; never touches CUDA."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pynvml

from grn_zmq.errors import DeviceError
from grn_zmq.units import GIB, MIB

from ..proctree import (
    OwnerCache,
    descendants,
    inner_pids,
    job_named,
    own_lineage,
    owner,
    start_time,
)
from .attribution import Attribution, Reading, attribute
from .device import DeviceInfo, DeviceUnreadable, Sample, Tree
from .gpus import Gpu
from .slowly import Slowly

# Below this a size in GiB says too little to tell two cards apart.
_SMALL_BYTES: Final = 8 * GIB
_ABSENT: Final = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
_OLD_DRIVER: Final = (
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
)
# Closer than all that a machine can have between two cards, but not than a common board.
_NVLINK_DISTANCE: Final = 1
_Slot = tuple[int, int, int]
_LOST: Final = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)


class NoDriver(DeviceError):
    """NVML does not answer. `absent`: there is no driver, rather than a broken one."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"NVML does not answer ({error}): repair the NVIDIA driver, "
            f"or run on host memory with --devices host"
        )
        self.absent = getattr(error, "value", None) in _ABSENT


def list_gpus() -> list[Gpu]:
    """List the GPUs of this machine, whatever CUDA_VISIBLE_DEVICES says.

    Raises:
        NoDriver: No driver answers.
    """
    try:
        pynvml.nvmlInit()
        try:
            found = [_gpu(index) for index in range(pynvml.nvmlDeviceGetCount())]
            return [gpu for gpu in found if gpu is not None]
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise NoDriver(error) from None


class NvmlDevice:
    """One GPU, by uuid, so that no other order of cards can mix it up."""

    def __init__(self, uuid: str) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NoDriver(error) from None
        self._open = True
        self._has_v2 = True
        self._owned: dict[int, str | None] = {}
        self._owners = OwnerCache()
        self._trees: Mapping[str, Tree] = {}
        self._vitals: Slowly[tuple[float, int | None]] = Slowly()
        self._met: dict[int, set[int]] = {}
        self._accounted: dict[int, int] = {}
        try:
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
        except pynvml.NVMLError as error:
            self.close()
            raise DeviceError(f"GPU {uuid} cannot be opened: {error}") from None
        self._name = uuid
        try:
            self.info = self._read_info(uuid)
            self._name = f"GPU {self.info.index}"
            self._quiet = self._read()
        except DeviceUnreadable:
            self.close()
            raise

    def sample(self, trees: Mapping[str, Tree]) -> Sample:
        """Ask the driver once about memory, processes and load."""
        reading = self._read()
        found, self._owned = self._attribute(reading, trees)
        if trees.keys() - self._trees.keys():
            self._vitals.forget()  # what was read before a run began tells nothing of it
        self._trees = dict(trees)
        self._remember_pids(trees)
        if not trees:
            self._quiet = reading
        utilisation, temperature_c = self._read_vitals()
        return Sample(
            used_bytes=max(reading.used_bytes, sum(found.by_tree.values())),
            foreign_bytes=found.foreign_bytes,
            by_tree=found.by_tree,
            utilisation=utilisation,
            seen=found.seen,
            temperature_c=temperature_c,
            processes={
                pid: count or 0
                for pid, count in reading.by_pid.items()
                if pid not in reading.drawing or pid in found.owners
            },
            owners=found.owners,
        )

    def held_bytes(self, tree: Tree) -> int:
        """Return what the tree holds; where it cannot be told apart, rather more."""
        trees = {
            k: other for k, other in self._trees.items() if other.root_pid != tree.root_pid
        }
        found, _ = self._attribute(self._read(), {**trees, "": tree})
        return found.by_tree[""]

    def accounted_bytes(self, tree: Tree) -> int:
        """Ask for the peaks of its processes, ended ones too, if accounting mode is on."""
        if not _or_none(lambda: pynvml.nvmlDeviceGetAccountingMode(self._handle)):
            return 0
        highest = 0
        for pid in {tree.main_pid, *self._met.get(tree.root_pid, ())}:
            stats = self._read_account(pid)
            peak = int((stats and stats.maxMemoryUsage) or 0)
            if peak > self._accounted.get(pid, 0):
                self._accounted[pid] = peak
                highest = max(highest, peak)
        return highest

    def close(self) -> None:
        """Let go of the driver."""
        if self._open:
            self._open = False
            _or_none(pynvml.nvmlShutdown)

    def _read_info(self, uuid: str) -> DeviceInfo:
        with self._readable():
            total, _, printed = self._read_memory()
            name = _text(pynvml.nvmlDeviceGetName(self._handle))
            small = printed < _SMALL_BYTES
            size = f"{printed // MIB} MiB" if small else f"{round(printed / GIB)} GiB"
            return DeviceInfo(
                index=int(pynvml.nvmlDeviceGetIndex(self._handle)),
                name=name,
                uuid=uuid,
                total_bytes=total,
                kind="nvml",
                device_class=f"{name} {size}",
                display=bool(_or_none(lambda: pynvml.nvmlDeviceGetDisplayActive(self._handle))),
                links=_links(self._handle, uuid),
            )

    def _read(self) -> Reading:
        with self._readable():
            _, used, _ = self._read_memory()
            computing, drawing = self._read_list("Compute"), self._read_list("Graphics")
        merged = dict(computing)
        for pid, count in drawing.items():
            known = merged.get(pid)
            merged[pid] = count if known is None else max(known, count or 0)
        return Reading(used, merged, frozenset(drawing.keys() - computing.keys()))

    def _read_memory(self) -> tuple[int, int, int]:
        """Return what jobs can have, what is in use of it, and the memory of the card."""
        if self._has_v2:
            try:
                memory = pynvml.nvmlDeviceGetMemoryInfo(self._handle, pynvml.nvmlMemory_v2)
            except pynvml.NVMLError as error:
                if error.value not in _OLD_DRIVER:
                    raise
                self._has_v2 = False
            else:
                total = int(memory.total)
                capacity = total - int(memory.reserved)
                used = int(memory.used)
                if used + int(memory.free) > capacity:
                    used = capacity - int(memory.free)  # it counted what is reserved
                return capacity, max(0, used), total
        memory = pynvml.nvmlDeviceGetMemoryInfo(self._handle)
        return int(memory.total), int(memory.used), int(memory.total)

    def _read_list(self, kind: str) -> dict[int, int | None]:
        """Read one list; a process may be on it several times, once per instance."""
        read = getattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses")
        try:
            listed = read(self._handle)
        except pynvml.NVMLError as error:
            if error.value not in _OLD_DRIVER:
                raise
            older = getattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses_v2")
            listed = _or_none(lambda: older(self._handle)) or []
        found: dict[int, int | None] = {}
        for process in listed:
            pid, count = int(process.pid), process.usedGpuMemory
            found[pid] = found.get(pid) if count is None else int(count) + (found.get(pid) or 0)
        return found

    def _attribute(
        self, reading: Reading, trees: Mapping[str, Tree]
    ) -> tuple[Attribution, dict[int, str | None]]:
        owned = self._find_owners(reading, trees)
        return attribute(reading, owned, trees.keys(), self._quiet), owned

    def _find_owners(
        self, reading: Reading, trees: Mapping[str, Tree]
    ) -> dict[int, str | None]:
        """Say whose each listed process is; one that does not exist here is left out."""
        roots = {tree.root_pid: key for key, tree in trees.items()}
        # The caller of an inline job may have started broker and workers, and so all jobs.
        tops = frozenset((*roots, *own_lineage(os.getppid())))
        inner: dict[int, str] | None = None
        owned: dict[int, str | None] = {}
        for pid in reading.by_pid:
            top = owner(pid, tops, self._owners)
            if top in roots:
                owned[pid] = roots[top]
                continue
            if (started := start_time(pid)) is not None:
                # A container lives below others, and is known by its job's variables.
                job_id = job_named(pid, started)
                owned[pid] = job_id if job_id in trees else None
                continue
            inner = _inner_owners(trees) if inner is None else inner
            if pid in inner:
                owned[pid] = inner[pid]
            elif pid in self._owned:
                # It died a moment ago and the driver still lists it.
                key = self._owned[pid]
                owned[pid] = key if key in trees else None
        return owned

    def _read_account(self, pid: int) -> Any:
        return _or_none(lambda: pynvml.nvmlDeviceGetAccountingStats(self._handle, pid))

    def _remember_pids(self, trees: Mapping[str, Tree]) -> None:
        """Keep who was here in which tree, for as long as the tree is."""
        roots = {tree.root_pid for tree in trees.values()}
        self._met = {root: pids for root, pids in self._met.items() if root in roots}
        for pid, key in self._owned.items():
            if key is not None:
                self._met.setdefault(trees[key].root_pid, set()).add(pid)
        known = {tree.main_pid for tree in trees.values()}.union(*self._met.values())
        self._accounted = {pid: n for pid, n in self._accounted.items() if pid in known}

    def _read_vitals(self) -> tuple[float, int | None]:
        now = time.monotonic()
        vitals = self._vitals.recent(now)
        if vitals is None:
            rates = _or_none(lambda: pynvml.nvmlDeviceGetUtilizationRates(self._handle))
            sensor = pynvml.NVML_TEMPERATURE_GPU
            heat = _or_none(lambda: pynvml.nvmlDeviceGetTemperature(self._handle, sensor))
            utilisation = 0.0 if rates is None else min(1.0, int(rates.gpu) / 100)
            vitals = (utilisation, None if heat is None else int(heat))
            self._vitals.keep(vitals, now, time.monotonic())
        return vitals

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except pynvml.NVMLError as error:
            lost = getattr(error, "value", None) in _LOST
            raise DeviceUnreadable(self._name, f"NVML: {error}", lost=lost) from None


def _inner_owners(trees: Mapping[str, Tree]) -> dict[int, str]:
    """Map the pids that our processes have in namespaces of their own."""
    return {
        inner: key
        for key, tree in trees.items()
        for pid in (tree.root_pid, *descendants(tree.root_pid))
        for inner in inner_pids(pid)
    }


def _gpu(index: int) -> Gpu | None:
    """Look at one GPU; None if the driver has lost it, so that the others can be used."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
    except pynvml.NVMLError as error:
        if error.value in _LOST:
            return None
        raise
    mig = _or_none(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    return Gpu(index, uuid, partitioned=mig is not None and bool(mig[0]))


def _links(handle: Any, own: str) -> dict[str, int]:
    """Say how far the other GPUs are: an NVLink, else what of the machine is between."""
    linked, found = _linked_slots(handle), {}
    for index in range(_or_none(pynvml.nvmlDeviceGetCount) or 0):
        try:
            other = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(pynvml.nvmlDeviceGetUUID(other))
            if uuid == own:
                continue
            if linked and _slot(pynvml.nvmlDeviceGetPciInfo(other)) in linked:
                found[uuid] = _NVLINK_DISTANCE
            else:
                found[uuid] = int(pynvml.nvmlDeviceGetTopologyCommonAncestor(handle, other))
        except pynvml.NVMLError:
            continue  # it is lost, or nobody knows
    return found


def _linked_slots(handle: Any) -> set[_Slot]:
    """List what is at the other ends of its NVLinks; behind a switch all are equally far."""
    found: set[_Slot] = set()
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            if pynvml.nvmlDeviceGetNvLinkState(handle, link):
                found.add(_slot(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link)))
        except pynvml.NVMLError:
            break  # it has no more
    return found


def _slot(pci: Any) -> _Slot:
    return int(pci.domain), int(pci.bus), int(pci.device)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _or_none(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except pynvml.NVMLError:
        return None
