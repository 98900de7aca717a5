"""What calling a shipped function takes: in the job process, or inside its environment."""

import atexit
import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from . import caps, keeper

if TYPE_CHECKING:
    from . import answers

# How long atexit handlers and threads may take once the worker asked the process to leave.
LEAVE_S: Final = 5.0


def answer_of(
    function: Callable[..., Any], content: memoryview, cap: caps.Cap | None
) -> "answers.Result":
    """Call with these pickled arguments and give the answer for its value.

    Raises:
        BaseException: Whatever the function raised, or its value that cannot travel.
    """
    from . import payload

    with caps.capped(cap):
        args, kwargs = payload.load_arguments(content)
        value = function(*args, **kwargs)
        if isinstance(value, Coroutine):
            value = awaited(value)
        return {"outcome": "succeeded"}, payload.dump_value(value)


def awaited(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Let a coroutine run to its end, and give its value."""
    import asyncio

    async def whole() -> Any:
        return await coroutine

    return asyncio.run(whole())


def cap_of(header: Mapping[str, object]) -> caps.Cap | None:
    """What this run may have; None if it is not to be held to it."""
    cap_bytes, total_bytes = header["cap_bytes"], header["total_bytes"]
    assert isinstance(cap_bytes, int)
    assert isinstance(total_bytes, int)
    return caps.Cap(cap_bytes, total_bytes, bool(header["on_host"])) if cap_bytes else None


def freshen() -> None:
    """Give the interpreter the streams and the `__main__` a job expects."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    # No __file__: multiprocessing's spawn would run the user's script again. What lives in
    # __main__ travels by value.
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.modules["__main__"].__dict__["__builtins__"] = sys.modules["builtins"]


def teach_multiprocessing() -> None:
    """Let functions and classes of `__main__` travel to the job's own workers by value."""
    import pickle
    from multiprocessing.reduction import ForkingPickler

    import cloudpickle

    def reducer_override(self: object, thing: object) -> object:
        by_value = isinstance(thing, types.FunctionType | type)
        if by_value and getattr(thing, "__module__", None) == "__main__":
            return pickle.loads, (cloudpickle.dumps(thing),)
        return NotImplemented

    setattr(ForkingPickler, "reducer_override", reducer_override)  # noqa: B010


def flush() -> bool:
    """Write out all buffers, C's too; False if a stream is broken."""
    try:
        for stream in {sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__} - {None}:
            stream.flush()  # type: ignore[union-attr]
        keeper.flush_c_streams()
    except Exception:
        return False
    return True


def leave() -> NoReturn:
    """End as an interpreter does: threads, atexit handlers, buffers; but not for ever."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, LEAVE_S)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        flush()
    finally:
        os._exit(0)
