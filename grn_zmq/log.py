"""How our own processes log: one line on stderr with time, level and where it comes from."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from loguru import Record

_HEAD = "{time:YYYY-MM-DD HH:mm:ss.SSS} {level: <7} {extra[process]} {name}:{line}"


def configure(process: str, debug: bool = False) -> None:
    """Send this process's log to stderr. For entry points only."""
    logger.remove()
    logger.configure(extra={"process": process, "facts": {}})
    logger.add(
        _write,
        level="DEBUG" if debug else "INFO",
        format=_line,
        colorize=False,
        catch=False,
    )


def _write(line: str) -> None:
    """Write a line; where nobody can read it any more, its writer works on."""
    try:
        sys.stderr.write(line)
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # the terminal is closed, the pipe broken, the disk full


def _line(record: "Record") -> str:
    facts: Mapping[str, object] = record["extra"].get("facts", {})
    tail = "".join(f" {key}={plain(value)}" for key, value in facts.items())
    record["extra"]["text"] = plain(record["message"]) + tail
    return _HEAD + " {extra[text]}\n{exception}"


def plain(value: object) -> str:
    """Show a value on one line, without control characters that could forge or hide lines."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value))
