"""What tests of queues share: jobs in them, what is left, and refusals in one line."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.cli.scripts import TRACEBACK
from tests.cli.verbs import facts, grn, said

MakeQueue = Callable[..., AbstractContextManager[str]]


def enqueue(queue: str, need: str, *words: str) -> int:
    """Queue a command that needs this, and give its number."""
    return int(said("enqueue", queue, "--quiet", "--json", need, *words))


def left_of(queue: str) -> dict[str, dict[str, str]]:
    (found,) = facts("show", queue)
    left: dict[str, dict[str, str]] = found["left"]
    return left


def refused(*words: str) -> str:
    done = grn(*words)
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    assert TRACEBACK not in done.stderr
    assert done.stderr.startswith("grn: ")
    assert done.stderr.count("\n") == 1
    return done.stderr
