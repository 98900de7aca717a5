"""What a job process answers: how the function ended, and how that is told."""

import sys
from collections.abc import Mapping

from . import oom, tracebacks
from .codec import MAX_BODY_BYTES
from .errors import TooLarge
from .frameworks import quietly
from .units import format_bytes

Result = tuple[dict[str, object], bytes]


def failure(error: BaseException, run: Mapping[str, object]) -> Result:
    """Answer for an exception: out of memory, or any other."""
    asked_bytes = oom.asked_by(error, on_host=bool(run["on_host"]))
    if asked_bytes is not None:
        quietly(lambda: _tell_cap(error, run))
    header: dict[str, object] = {
        "outcome": "failed" if asked_bytes is None else "oom",
        "asked_bytes": asked_bytes,
        "error_type": tracebacks.error_type(error),
        "error_text": tracebacks.error_text(error),
    }
    return header, tracebacks.dump_exception(error)


def _tell_cap(error: BaseException, run: Mapping[str, object]) -> None:
    """Say to whom runs out at a cap that it was one, and whose."""
    cap_bytes, total_bytes = run.get("cap_bytes"), run.get("total_bytes")
    if not isinstance(cap_bytes, int) or not isinstance(total_bytes, int) or not cap_bytes:
        return
    why = "what its type was predicted to need"
    if cap_bytes >= total_bytes:
        why = "all that its device has"
    error.add_note(f"grn: capped at {format_bytes(cap_bytes)}, {why} (enforce=True)")


def departure(request: SystemExit, run: Mapping[str, object]) -> Result:
    """Answer for `sys.exit`, which may be how the function left an out-of-memory."""
    status = _exit_status(request)
    asked_bytes = oom.asked_by(request, on_host=bool(run["on_host"])) if status else None
    header: dict[str, object] = {"outcome": "exited", "exit_status": status}
    return header | {"asked_bytes": asked_bytes}, b""


def or_too_large(result: Result) -> Result:
    """Give the result, or where it is too large for a message, an error that says so."""
    size = len(result[1])
    if size <= MAX_BODY_BYTES:
        return result
    return failure(TooLarge("the result", size, MAX_BODY_BYTES), {"on_host": False})


def _exit_status(request: SystemExit) -> int:
    """Return the status `sys.exit` asked for, as the interpreter would."""
    if request.code is None:
        return 0
    if isinstance(request.code, int):
        return request.code & 0xFF
    print(request.code, file=sys.stderr)
    return 1
