"""Exceptions that cross processes with their own frames.

A dumped exception is plain data around one pickle per exception of its chain. So a cause
that cannot be pickled does not spoil the rest, and type, text and traceback can always be
told, even where nothing can be unpickled.
"""

import ast
import sys
import traceback
import types
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgpack

from .errors import JobFailed

# filename, function, line, last line, column, last column
Position = tuple[str, str, int, int, int, int]

# A runaway recursion is told by its two ends.
MAX_FRAMES: Final = 1000
_OWN_FILES: Final = frozenset(
    str(Path(__file__).with_name(name)) for name in ("jobmain.py", "jobcall.py", "boxed.py")
)


def error_type(error: BaseException) -> str:
    """Return the full name of an exception's type."""
    kind = type(error)
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def error_text(error: BaseException) -> str:
    """Return the text of an exception, even of one whose `__str__` fails."""
    try:
        return str(error)
    except BaseException as failure:
        return f"<its text failed with {type(failure).__name__}>"


def dump_exception(error: BaseException) -> bytes:
    """Pack an exception with its chain, frames, notes and members; never fails."""
    _cut_own_frames(error)
    nodes: list[dict[str, object]] = []
    try:
        _add(error, nodes, {})
        text = "".join(traceback.format_exception(error))
    except Exception as failure:
        nodes, text = [], f"(its traceback could not be formatted: {failure!r})\n"
    content = {
        "error_type": error_type(error),
        "error_text": error_text(error),
        "traceback_text": text,
        "nodes": nodes,
    }
    packed: bytes = msgpack.packb(content, unicode_errors="surrogatepass")
    return packed


def load_exception(blob: bytes | memoryview, job_id: str) -> BaseException:
    """Rebuild an exception, its traceback showing the frames it had in the job.

    What cannot be unpickled here becomes a `JobFailed` that tells all about it.
    """
    content = msgpack.unpackb(blob, unicode_errors="surrogatepass")
    nodes: list[dict[str, Any]] = content["nodes"]
    if not nodes:
        return _job_failed(content, job_id)
    nodes[0]["traceback_text"] = content["traceback_text"]
    errors: dict[int, BaseException] = {}
    _bind_members(0, nodes, errors, job_id)
    for index in range(len(nodes)):
        if index not in errors:
            _bind_members(index, nodes, errors, job_id)
    for index, node in enumerate(nodes):
        _restore(errors[index], node, errors)
    return errors[0]


def _cut_own_frames(error: BaseException) -> None:
    """Drop the frames above the user's function."""
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename in _OWN_FILES:
            error.__traceback__ = step.tb_next
        step = step.tb_next


def _add(error: BaseException, nodes: list[dict[str, object]], seen: dict[int, int]) -> int:
    """Append a node for an exception and all it refers to; return its index."""
    if id(error) in seen:
        return seen[id(error)]
    index = seen[id(error)] = len(nodes)
    node: dict[str, object] = {}
    nodes.append(node)
    pickled, in_parts = _pickle(error)
    node["pickle"], node["in_parts"] = pickled, in_parts
    node["error_type"], node["error_text"] = error_type(error), error_text(error)
    node["traceback_text"] = "" if pickled else "".join(traceback.format_exception(error))
    node["frames"] = _positions(error.__traceback__)
    node["notes"] = [str(note) for note in getattr(error, "__notes__", ())]
    node["suppress_context"] = error.__suppress_context__
    for name, other in (("cause", error.__cause__), ("context", error.__context__)):
        node[name] = None if other is None else _add(other, nodes, seen)
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    node["members"] = [_add(member, nodes, seen) for member in members]
    return index


def _pickle(error: BaseException) -> tuple[bytes | None, bool]:
    """Pickle one exception: whole, or in parts if its `__init__` would be run again."""
    import cloudpickle

    try:
        parts = _in_parts(error)
        return cloudpickle.dumps(error if parts is None else parts, protocol=5), bool(parts)
    except Exception:
        return None, False


def _in_parts(error: BaseException) -> tuple[object, ...] | None:
    """Return (type, args, attributes) if a plain unpickling would spoil the exception.

    Pickle calls the type with `args`, which is wrong for every exception whose own
    `__init__` takes other arguments than it hands to its base.
    """
    kind = type(error)
    own = [isinstance(getattr(kind, name), types.FunctionType) for name in _SPECIAL]
    if own != [True, False, False, False]:
        return None
    reduced = error.__reduce_ex__(5)
    if not isinstance(reduced, tuple) or reduced[0] is not kind:
        return None
    return (kind, reduced[1], reduced[2] if len(reduced) > 2 else None)


_SPECIAL: Final = ("__init__", "__new__", "__reduce__", "__reduce_ex__")


def _from_parts(
    kind: type[BaseException], args: tuple[object, ...], attributes: dict[str, object] | None
) -> BaseException:
    error = kind.__new__(kind, *args)
    for base in kind.__mro__:
        initialise = base.__dict__.get("__init__")
        if initialise is not None and not isinstance(initialise, types.FunctionType):
            initialise(error, *args)
            break
    error.__dict__.update(attributes or {})
    return error


def _positions(step: types.TracebackType | None) -> list[Position]:
    found: list[Position] = []
    while step is not None:
        code = step.tb_frame.f_code
        place = next(islice(code.co_positions(), step.tb_lasti // 2, None))
        _, last, column, last_column = place
        line = step.tb_lineno
        found.append(
            (code.co_filename, code.co_name, line, last or line, column or 0, last_column or 0)
        )
        step = step.tb_next
    if len(found) > MAX_FRAMES:
        return found[: MAX_FRAMES // 2] + found[-MAX_FRAMES // 2 :]
    return found


def _bind_members(
    index: int, nodes: list[dict[str, Any]], errors: dict[int, BaseException], job_id: str
) -> None:
    """Unpickle one node; the members of a group come with it and keep their identity."""
    if index not in errors:
        errors[index] = _unpickle(nodes[index], job_id)
    error = errors[index]
    if not isinstance(error, BaseExceptionGroup):
        return
    for member_index, member in zip(nodes[index]["members"], error.exceptions, strict=False):
        if member_index not in errors:
            errors[member_index] = member
            _bind_members(member_index, nodes, errors, job_id)


def _unpickle(node: Mapping[str, Any], job_id: str) -> BaseException:
    import pickle

    if node["pickle"] is None:
        return _job_failed(node, job_id)
    try:
        error = pickle.loads(node["pickle"])
        if node["in_parts"]:
            error = _from_parts(*error)
    except Exception:
        return _job_failed(node, job_id)
    return error if isinstance(error, BaseException) else _job_failed(node, job_id)


def _job_failed(node: Mapping[str, Any], job_id: str) -> JobFailed:
    return JobFailed(
        job_id,
        error_type=node["error_type"],
        error_text=node["error_text"],
        traceback_text=node["traceback_text"],
    )


def _restore(
    error: BaseException, node: Mapping[str, Any], errors: Mapping[int, BaseException]
) -> None:
    """Give an exception back what pickle leaves out."""
    if node["notes"] and not getattr(error, "__notes__", None):
        error.__notes__ = list(node["notes"])
    if node["cause"] is not None:
        error.__cause__ = errors[node["cause"]]
    if node["context"] is not None:
        error.__context__ = errors[node["context"]]
    error.__suppress_context__ = node["suppress_context"]
    step: types.TracebackType | None = None
    for position in reversed(node["frames"]):
        step = _traceback(tuple(position), step)
    error.__traceback__ = step


def _traceback(
    position: Position, following: types.TracebackType | None
) -> types.TracebackType:
    """Make a traceback entry that points where the job's frame was."""
    caught: list[tuple[types.FrameType, int]] = []

    def catch() -> None:
        frame = sys._getframe(1)
        caught.append((frame, frame.f_lasti))

    # Without a loader among its globals the frame's source is looked up by file name.
    exec(_code(position), {"catch": catch, "__name__": "<job>"})
    frame, instruction = caught[0]
    return types.TracebackType(following, frame, instruction, position[2])


@lru_cache(maxsize=256)
def _code(position: Position) -> types.CodeType:
    """Compile a call of `catch` that claims to stand at this position."""
    filename, name, line, last_line, column, last_column = position
    last_line = max(line, last_line)
    if last_line == line:
        last_column = max(column, last_column)
    tree = ast.parse("catch()")
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt):
            node.lineno, node.col_offset = line, column
            node.end_lineno, node.end_col_offset = last_line, last_column
    code = compile(tree, filename, "exec")
    return code.replace(co_name=name, co_qualname=name)
