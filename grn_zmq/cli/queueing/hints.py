"""What was probably meant otherwise, though it can be done as it was written. Pure."""

import re
import shlex
from collections.abc import Iterable, Sequence, Set
from difflib import get_close_matches
from typing import Final

from ...placeholders import NAMES as LEASE_NAMES
from .sweeps import names_in

# A longer command is not worth repeating in a hint.
MOST_CHARACTERS: Final = 200

# Words that a shell would act on: pipes, lists and redirections. `>=3` is no redirection.
_FOR_A_SHELL: Final = re.compile(r"\|\|?|&&?|;|(?:[0-9]|&)?(?:>>?|<)(?!=).*")


def hints_about(
    commands: Iterable[str],
    words: Iterable[Sequence[str]],
    params: Sequence[str],
    resources: Iterable[str] = (),
) -> list[str]:
    """Give a line for each thing that may surprise.

    Args:
        commands: Command lines as they were written, each in one argument.
        words: The words of each command.
        params: The names that have values.
        resources: The names that a lease gives values to when a job starts.
    """
    shells = (shell_hint(command) for command in commands)
    known = LEASE_NAMES.union(resources)
    braces = (hint for one in words for hint in brace_hints(one, params, known))
    return list(dict.fromkeys([*filter(None, shells), *braces]))


def shell_hint(command: str) -> str:
    """Say that nobody will act on what is meant for a shell; nothing if there is none."""
    try:
        # Quotes stay around what they are around: '|' is meant as a word.
        operator = next(filter(_FOR_A_SHELL.fullmatch, shlex.split(command, posix=False)), "")
    except ValueError:
        return ""
    if not operator:
        return ""
    whole = shlex.quote(command) if len(command) <= MOST_CHARACTERS else "'…'"
    return (
        f"no shell is used, so {operator} is passed to the command as a word; to have one, "
        f"write: -- sh -c {whole}"
    )


def brace_hints(
    words: Sequence[str], params: Sequence[str], known: Set[str] = LEASE_NAMES
) -> list[str]:
    """Name what stands in braces, has no value, and is written much like what has one."""
    unknown = sorted(names_in(words) - set(params) - known)
    close = {name: get_close_matches(name, params, n=1) for name in unknown}
    return [
        f"{{{name}}} stays as it is: no --param has this name. Did you mean {{{like[0]}}}?"
        for name, like in close.items()
        if like
    ]
