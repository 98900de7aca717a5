"""Tell an out-of-memory from other failures, by the words of those who raise it.

Whose memory ran out matters: a job on a GPU that exhausts the machine's memory would fail
in a larger share of the GPU too, and the other way round. Where the words leave it open
(XLA says the same for both) it counts for the device the job was on.
"""

import re
from collections.abc import Iterator
from typing import Final

# How much of a text is looked at: XLA appends a list of all its buffers.
MAX_TEXT: Final = 65_536
# Of a program that ended without a traceback: what it said last is about why.
LAST_LINES: Final = 10
# A chain this long is a loop of wrappers, and its beginning says enough.
MAX_CHAIN: Final = 64
# Frames of another job's exception are rebuilt under this name; see `tracebacks`.
_OF_ANOTHER_JOB: Final = "<job>"

# Every gap and every number below is bounded: the text is the user's, and one that repeats a
# beginning for ever must not keep us busy, nor one with a thousand digits overflow.
_DEVICE_TYPES: Final = re.compile(r"(torch|cupy)\b.{0,200}\bOutOfMemoryError")
_DEVICE: Final = re.compile(
    r"(CUDA|HIP) out of memory"
    r"|(CUDA|HIP)( driver| runtime)? error: out of memory"
    r"|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory"
    r"|(CU|HIP|ROC)[A-Z]{1,16}_(STATUS_)?ALLOC(ATION)?_FAILED"  # cuBLAS, cuDNN, cuFFT, ...
    r"|cuMemAlloc\w{0,32} failed: out of memory"  # pycuda
    r"|bad_alloc: (out_of_memory: )?(CUDA|RMM)"
    r"|RMM failure\b.{0,200}\bMaximum pool size exceeded"
    # cupy
    r"|out of memory (allocating|to allocate) [\d,]{1,32} bytes \((allocated so far|total)"
    r"|OOM when allocating tensor\b.{0,300}\bdevice:GPU",
    re.IGNORECASE,
)
_HOST: Final = re.compile(
    r"^(Memory|[\w.]{0,200}\b_?(Array)?Memory)Error\b"  # the last line of a traceback
    r"|Unable to allocate .{0,200}\barray with shape"  # numpy
    r"|DefaultCPUAllocator: (can't allocate|not enough) memory"  # torch
    r"|OOM when allocating tensor\b.{0,300}\bdevice:CPU"
    r"|\[Errno 12\] Cannot allocate memory"
    r"|std::bad_alloc(?!: (out_of_memory: )?(CUDA|RMM))",
    re.MULTILINE,
)
_TRACEBACK: Final = "Traceback (most recent call last):"
# How Python joins the tracebacks of one chain, and how far before the next one at most.
_CHAINED: Final = "above exception"
_CHAINED_WITHIN: Final = 160
# What a launcher says once a process of its own has failed, which spoke before it.
_PASSED_ON: Final = re.compile(
    r"^.{0,80}\b(ChildFailedError|CalledProcessError|ProcessExitedException)\b", re.MULTILINE
)
_EITHER_TYPES: Final = re.compile(r"tensorflow\b.{0,200}\bResourceExhaustedError")
_EITHER: Final = re.compile(
    # Not the status alone: quotas of remote services have it too.
    r"RESOURCE[_ ]EXHAUSTED\b.{0,300}?(out of memory|OOM when allocating|failed to allocate)"
    r"|Failed to allocate memory for requested buffer"  # onnxruntime
    r"|OOM when allocating tensor(?!.{0,300}\bdevice:[CG]PU)",
    re.IGNORECASE | re.DOTALL,
)

_ASKED: Final = re.compile(
    r"(?:(?:tried|trying|out of memory|unable) to allocate|out of memory allocating"
    r"|failed to allocate(?: request for)?|requested buffer of size|requested size:)\s{1,8}"
    r"(?P<count>\d[\d,]{0,24}(?:\.\d{0,18})?)\s{0,8}"
    r"(?:(?P<unit>[KMGTPE])?(?:i?B\b|\b)|bytes)"
    r"(?:\s{0,8}\((?P<exact>\d{1,18})\s{0,8}(?:B|bytes)\))?",
    re.IGNORECASE | re.ASCII,
)
_UNITS: Final = {letter: 1 << 10 * power for power, letter in enumerate("KMGTPE", start=1)}
# More is asked for by mistake only; with what a device has on top it still fits a message.
_MOST: Final = (1 << 62) - 1
_TENSOR: Final = re.compile(
    r"allocating tensor with shape\s{0,8}\[([\d,]{1,200})\] and type (\w{1,16})", re.ASCII
)
_TYPE_BYTES: Final = {
    **dict.fromkeys(("bool", "int8", "uint8"), 1),
    **dict.fromkeys(("half", "bfloat16", "int16"), 2),
    **dict.fromkeys(("float", "int32"), 4),
    **dict.fromkeys(("double", "int64", "complex64"), 8),
}


def asked_by(error: BaseException, *, on_host: bool) -> int | None:
    """Say what an exception, or one it wraps, could not get.

    Args:
        on_host: Whether the job's device is a share of the machine's memory.

    Returns:
        Bytes, 0 if it does not say how many; None if it is no out-of-memory.
    """
    found = [asked(names, text, on_host=on_host) for names, text in described(error)]
    return max((count for count in found if count is not None), default=None)


def asked_in(said: str, *, on_host: bool) -> int | None:
    """Say what a program could not get by the end of its standard error, as `asked_by`.

    Only what ended it counts. An out-of-memory that it survived was told of earlier, and is
    no reason to run it again.
    """
    return asked("", _last_words(said), on_host=on_host)


def asked(names: str, text: str, *, on_host: bool) -> int | None:
    """Decide about one exception.

    Args:
        names: Its type and the bases of it with their modules, separated by spaces; empty
            if only the text is known.
    """
    names, text = names[:MAX_TEXT], text[:MAX_TEXT]
    of_device = _DEVICE_TYPES.search(names) or _DEVICE.search(text)
    of_either = _EITHER_TYPES.search(names) or _EITHER.search(text)
    of_host = _HOST.search(text) or (not of_device and "builtins.MemoryError" in names)
    if of_either and (of_device or of_host):
        of_either = None
    if "grn_zmq.errors." in names or not (of_either or (of_host if on_host else of_device)):
        return None
    return _size(text)


def described(error: BaseException) -> Iterator[tuple[str, str]]:
    """Give names and text of an exception and of all that it wraps or came from.

    What another job raised, and this one only passes on, is left out: not this job's
    memory was too small.
    """
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo and len(seen) < MAX_CHAIN:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if not _of_another_job(one):
            yield _names(one), _text(one)
            if isinstance(one, BaseExceptionGroup):
                todo += one.exceptions
        todo += [one.__cause__, None if one.__suppress_context__ else one.__context__]


def _names(error: BaseException) -> str:
    return " ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)


def _text(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except BaseException:
        return ""


def _of_another_job(error: BaseException) -> bool:
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and step.tb_frame.f_globals.get("__name__") == _OF_ANOTHER_JOB


def _last_words(said: str) -> str:
    """Give the last traceback with those it came from, or the last lines if there is none."""
    said = said[-MAX_TEXT:]
    start = said.rfind(_TRACEBACK)
    if start < 0:
        return "\n".join(said.rstrip().splitlines()[-LAST_LINES:])
    joined = _PASSED_ON.search(said, start) is not None
    while (before := said.rfind(_TRACEBACK, 0, start)) >= 0:
        if not joined and _CHAINED not in said[max(before, start - _CHAINED_WITHIN) : start]:
            break
        start, joined = before, False
    return said[start:]


def _size(text: str) -> int:
    """Return the bytes that were asked for last."""
    if tensors := _TENSOR.findall(text):
        shape, kind = tensors[-1]
        count = _TYPE_BYTES.get(kind, 0)
        for side in shape.split(","):
            count *= int(side or 1)
        return min(_MOST, count)
    wishes = list(_ASKED.finditer(text))
    if not wishes:
        return 0
    last = wishes[-1]
    if last["exact"]:
        return min(_MOST, int(last["exact"]))
    unit = _UNITS[last["unit"].upper()] if last["unit"] else 1
    return min(_MOST, int(float(last["count"].replace(",", "")) * unit))
