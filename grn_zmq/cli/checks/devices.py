"""Checks of GPUs, their driver, and memory; what the driver says comes from the workers."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...units import format_bytes
from .finding import OK, PROBLEM, WARNING, Finding, Process

# A driver that is not kept loaded takes seconds to answer the first time.
LOOK_S: Final = 5.0

_DRIVER_VERSION: Final = Path("/sys/module/nvidia/version")
_CARDS: Final = Path("/sys/bus/pci/devices")
_NVIDIA: Final = "0x10de"
_DISPLAY: Final = "0x03"  # class of a PCI device that shows or computes
# The first pid namespace of every Linux has this inode.
_HOST_PIDS: Final = "pid:[4026531836]"
_MPS: Final = "nvidia-cuda-mps-control"
_MPS_PIPE: Final = "CUDA_MPS_PIPE_DIRECTORY"
# What each framework understands as: take only what is needed.
_FRUGAL: Final = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": ("JAX", ("false", "0")),
    "TF_FORCE_GPU_ALLOW_GROWTH": ("TensorFlow", ("true", "1")),
}


class Look:
    """A look at the devices, taken by a process of its own while other checks run."""

    def __init__(self, seconds: float = LOOK_S) -> None:
        self._seconds = seconds
        self._process = subprocess.Popen(
            [sys.executable, "-m", "grn_zmq.workers.looking"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
        )

    def facts(self) -> dict[str, Any]:
        """Give what was seen; `error` alone if that cannot be had."""
        try:
            said, complaint = self._process.communicate(timeout=self._seconds)
            found: dict[str, Any] = json.loads(said)
            return found
        except subprocess.TimeoutExpired:
            self.close()
            return {"error": f"NVML did not answer within {self._seconds:g} s", "slow": True}
        except ValueError:
            last = (complaint.decode(errors="replace").splitlines() or ["it said nothing"])[-1]
            return {"error": f"NVML could not be asked: {last}"}

    def close(self) -> None:
        """End it, if it still looks."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


def count_cards() -> int:
    """Count the NVIDIA GPUs that are plugged in, driver or not."""
    found = 0
    for device in _CARDS.iterdir() if _CARDS.is_dir() else ():
        try:
            vendor = (device / "vendor").read_text().strip()
            kind = (device / "class").read_text()
        except OSError:
            continue
        found += vendor == _NVIDIA and kind.startswith(_DISPLAY)
    return found


def check_gpus(facts: Mapping[str, Any], cards: int) -> Finding:
    """Whether the driver answers, and for how many GPUs."""
    name = "gpus"
    if facts.get("slow"):
        fix = "keep the driver loaded: sudo nvidia-smi -pm 1; then look with nvidia-smi"
        return Finding(name, PROBLEM, facts["error"], fix)
    if facts["error"] and not facts.get("absent"):
        fix = "after an update of the driver restart; else reinstall it: nvidia-smi must work"
        return Finding(name, PROBLEM, facts["error"].partition(": repair")[0], fix)
    if facts["error"] and cards:
        fix = "install or load it (sudo modprobe nvidia); in a container run with --gpus all"
        return Finding(name, PROBLEM, "there is an NVIDIA GPU, but no driver answers", fix)
    return _check_answering(facts["gpus"], cards)


def _check_answering(gpus: Sequence[Mapping[str, Any]], cards: int) -> Finding:
    name = "gpus"
    if not gpus:
        return Finding(name, OK, "no NVIDIA GPU here: jobs share host memory")
    for gpu in gpus:
        if gpu["error"]:
            reset = f"reset it: sudo nvidia-smi -r -i {gpu['index']}"
            return Finding(name, PROBLEM, gpu["error"], f"leave it out of devices, or {reset}")
    models = sorted({f"{gpu['name']} {format_bytes(gpu['total_bytes'])}" for gpu in gpus})
    text = f"{len(gpus)} of {', '.join(models)}{_driver_version()}"
    if len(gpus) < cards:
        fix = "if all should be here: dmesg | grep -i xid, and restart"
        return Finding(name, WARNING, f"{text}; {cards} are plugged in", fix)
    return Finding(name, OK, text)


def _driver_version() -> str:
    try:
        return f", driver {_DRIVER_VERSION.read_text().strip()}"
    except OSError:
        return ""


def check_mig(facts: Mapping[str, Any]) -> Finding:
    """Whether a GPU is cut into instances, which cannot be shared by memory."""
    gpus = facts.get("gpus", [])
    if not gpus:
        return Finding("mig", OK, "no GPU that could be cut into MIG instances")
    cut = [str(gpu["index"]) for gpu in gpus if gpu["partitioned"]]
    if not cut:
        return Finding("mig", OK, "no GPU is cut into MIG instances")
    whole = ",".join(str(gpu["index"]) for gpu in gpus if not gpu["partitioned"])
    way = f'devices = "nvml:{whole}" leaves it out, or ' if whole else ""
    text = f"GPU {', '.join(cut)} has MIG switched on and cannot be shared by memory"
    return Finding("mig", PROBLEM, text, f"{way}sudo nvidia-smi -i {cut[0]} -mig 0")


def check_mps(environ: Mapping[str, str], processes: Sequence[Process]) -> Finding:
    """Whether MPS stands between jobs and GPUs."""
    pids = [process.pid for process in processes if process.program == _MPS]
    pipe = environ.get(_MPS_PIPE)
    if pids:
        text = f"MPS runs (pid {pids[0]}): the memory of jobs may be listed under its server"
        fix = f"if `grn ps` shows no memory of jobs that run: echo quit | {_MPS}"
        return Finding("mps", WARNING, text, fix)
    if pipe:
        text = f"{_MPS_PIPE}={pipe}, but no MPS runs that could be seen"
        return Finding("mps", WARNING, text, f"unset {_MPS_PIPE}, or start {_MPS} -d")
    return Finding("mps", OK, "no MPS between jobs and GPUs")


def check_pids(facts: Mapping[str, Any], namespace: str) -> Finding:
    """Whether the processes that the driver lists are the ones we know."""
    fix = "in a container: run it with --pid=host; until then jobs are measured one at a time"
    gpus = facts.get("gpus", [])
    if not gpus:
        return Finding("pids", OK, "no GPU that could list processes")
    listed = [process for gpu in gpus for process in gpu["processes"]]
    hidden = [process["pid"] for process in listed if not process["here"]]
    if hidden:
        text = f"NVML lists process {hidden[0]}, which does not exist here: pids are hidden"
        return Finding("pids", WARNING, text, fix)
    if namespace != _HOST_PIDS:
        text = "pids are those of a container: NVML lists jobs by those of the host"
        return Finding("pids", WARNING, text, fix)
    if listed and not any(process["used_bytes"] for process in listed):
        text = "NVML lists processes but not what each uses, as under WSL"
        return Finding("pids", WARNING, text, "none: jobs are measured while they are alone")
    return Finding("pids", OK, "NVML and we know processes by the same pids")


def check_preallocation(environ: Mapping[str, str]) -> Finding:
    """Whether the user's own variables let frameworks take whole GPUs."""
    for variable, (framework, frugal) in _FRUGAL.items():
        value = environ.get(variable, "")
        if value and value.lower() not in frugal:
            text = f"{variable}={value}: each job of {framework} takes most of a GPU"
            fix = f"unset {variable}: jobs then get {variable}={frugal[0]}"
            return Finding("preallocation", WARNING, text, fix)
    return Finding("preallocation", OK, "JAX and TensorFlow take what they need")


def check_memory(facts: Mapping[str, Any], machine_bytes: int) -> Finding:
    """How much host memory jobs can have, and whether it was too little before."""
    if "physical_bytes" not in facts:
        return Finding("memory", WARNING, "could not be read", "look at `free -h`")
    most, left = facts["physical_bytes"], facts["available_bytes"]
    text = f"{format_bytes(most)} of host memory, {format_bytes(left)} available"
    if most < machine_bytes:
        text += f" (a control group's; the machine has {format_bytes(machine_bytes)})"
    if kills := facts["kernel_kills"]:
        times = "once" if kills == 1 else f"{kills:,} times"
        fix = "`dmesg` says whom; set max_jobs lower, or name what makes jobs large in by="
        text += f"; the kernel has killed {times} for lack of it"
        return Finding("memory", WARNING, text, fix)
    return Finding("memory", OK, text)


def check_fork(facts: Mapping[str, Any]) -> Finding:
    """Whether a fresh interpreter is alone in its process, and so can be forked safely."""
    threads = facts.get("threads", 1)
    if threads == 1:
        return Finding("fork", OK, "a fresh interpreter has one thread, so forking is safe")
    text = f"a fresh interpreter has {threads} threads already: jobs forked from it may hang"
    fix = "find who starts them: LD_PRELOAD, sitecustomize, .pth files in site-packages"
    return Finding("fork", WARNING, text, fix)
