"""Choose among a machine's GPUs by the words CUDA uses. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from grn_zmq.errors import DeviceError

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine as NVML counts it."""

    index: int
    uuid: str
    partitioned: bool = False


def pick(gpus: Sequence[Gpu], text: str, source: str) -> list[Gpu]:
    """Return the GPUs that a list of indices, uuids or beginnings of uuids names.

    Args:
        source: Where the list was written, for the error.

    Raises:
        DeviceError: It names none, one that does not exist, or one twice.
    """
    picked: list[Gpu] = []
    for entry in map(str.strip, text.split(",")):
        gpu = _find(gpus, entry, text, source)
        if gpu in picked:
            raise _refusal(gpus, text, source, f"it names GPU {gpu.index} twice")
        picked.append(gpu)
    return sorted(picked, key=lambda gpu: gpu.index)


def whole(gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs, none of which may be cut into MIG instances.

    Raises:
        DeviceError: One is: a job that is given it would see one instance only.
    """
    for gpu in gpus:
        if gpu.partitioned:
            others = ",".join(str(other.index) for other in gpus if not other.partitioned)
            way_out = f"leave it out with --devices nvml:{others}, or " if others else ""
            raise DeviceError(
                f"GPU {gpu.index} has MIG switched on and cannot be shared by memory: "
                f"{way_out}switch MIG off with nvidia-smi -mig 0"
            )
    return list(gpus)


def _find(gpus: Sequence[Gpu], entry: str, text: str, source: str) -> Gpu:
    if not entry:
        raise _refusal(
            gpus, text, source, "it names no GPU" if not text.strip() else "an entry is empty"
        )
    if entry.isascii() and entry.isdigit():
        named = [gpu for gpu in gpus if str(gpu.index) == (entry.lstrip("0") or "0")]
    elif entry.lower().startswith("gpu-") and len(entry) > len("gpu-"):
        named = [gpu for gpu in gpus if gpu.uuid.lower().startswith(entry.lower())]
    else:
        raise _refusal(gpus, text, source, f"{entry!r} is neither an index nor a GPU uuid")
    if not named:
        raise _refusal(gpus, text, source, f"there is no GPU {entry!r}")
    if len(named) > 1:
        raise _refusal(gpus, text, source, f"{entry!r} fits more than one GPU")
    return named[0]


def _refusal(gpus: Sequence[Gpu], text: str, source: str, why: str) -> DeviceError:
    here = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus)
    return DeviceError(f"{source}={text!r} cannot be used: {why}; GPUs here: {here}")
