"""What a job process answers: how the function ended, and how that is told."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from . import oom, shelf, tracebacks
from .frameworks import quietly
from .limits import parcel_from
from .parcels import Parcels
from .payload import Packed
from .rereading import Readings
from .units import format_bytes

Result = tuple[dict[str, object], Packed]

# Files of arguments that this process has mapped.
readings: Final = Readings()


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
        "error_bases": _bases(error),
    }
    return header, Packed.of(tracebacks.dump_exception(error))


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
    return header | {"asked_bytes": asked_bytes}, Packed.of(b"")


def as_sent(result: Result, run: Mapping[str, object]) -> tuple[dict[str, object], bytes]:
    """Give the result in one piece, or where it is large, with its body in a parcel."""
    try:
        return _or_in_parcel(result, run)
    except BaseException as error:
        header, body = failure(error, run)
        return header, body.joined()


def _or_in_parcel(result: Result, run: Mapping[str, object]) -> tuple[dict[str, object], bytes]:
    header, body = result
    detached = bool(run["detached"])
    if body.size_bytes < parcel_from(detached=detached) or not run["parcels"]:
        return header, body.joined()
    where = "disk" if detached else "shm"
    parcels, session = parcels_of(run), str(run["session"])
    if header["outcome"] == "succeeded":
        token = parcels.pack(*body, session, where)
    else:
        token = parcels.write(body.pieces, session, where)
    return header | {"token": token}, b""


def tidy() -> int:
    """Let go of what the run had of files, and give what is kept of them for the next run."""
    readings.tidy()
    shelf.tidy_shelves()
    return readings.resident_bytes + shelf.mapped_bytes()


def parcels_of(run: Mapping[str, object]) -> Parcels:
    """The parcels of the user whose worker sent this run."""
    places = run["parcels"]
    assert isinstance(places, list)
    return Parcels(*map(Path, places))


def _bases(error: BaseException) -> list[str]:
    """The names of its class and all above it: as they are written, and with their module."""
    names: dict[str, None] = {}
    for kind in type(error).__mro__[:-1]:
        if kind.__module__ != "builtins":
            names[f"{kind.__module__}.{kind.__qualname__}"] = None
        names[kind.__qualname__] = None
        names[kind.__name__] = None
    return list(names)


def _exit_status(request: SystemExit) -> int:
    """Return the status `sys.exit` asked for, as the interpreter would."""
    if request.code is None:
        return 0
    if isinstance(request.code, int):
        return request.code & 0xFF
    print(request.code, file=sys.stderr)
    return 1
