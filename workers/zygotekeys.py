"""Which job processes may come from one zygote: those of equal interpreters. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from grn_zmq.context import Context

# Libraries read variables when they are imported, so all count but these: they differ from
# one terminal, directory or job to the next, and are set anew in each job process.
HARMLESS: Final = frozenset(
    {
        "_",
        "COLUMNS",
        "GPG_TTY",
        "GRN_ATTEMPT",
        "GRN_GPU_MEMORY_MB",
        "GRN_RESOURCES",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "JPY_PARENT_PID",
        "JPY_SESSION_NAME",
        "LINES",
        "OLDPWD",
        "PS1",
        "PWD",
        "PYTEST_CURRENT_TEST",
        "SHLVL",
        "STY",
        "TERM",
        "TERM_PROGRAM",
        "TERM_PROGRAM_VERSION",
        "TERM_SESSION_ID",
        "TMUX",
        "TMUX_PANE",
        "WINDOW",
        "WINDOWID",
        "XDG_SESSION_ID",
    }
)
HARMLESS_BEGINNINGS: Final = (
    "GRN_AMOUNT_",
    "GRN_JOB_",
    "GRN_RESOURCE_",
    "ITERM_",
    "KITTY_",
    "SSH_",
    "VSCODE_",
    "WEZTERM_",
)


@dataclass(frozen=True, slots=True)
class Key:
    """What a zygote has to have in common with a job process.

    `stamps` say when the interpreter and what is installed for it last changed. One that is
    `bare` imports nothing for anybody: commands replace it.
    """

    interpreter: str
    flags: tuple[str, ...]
    package_dir: str
    sys_path: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = field(repr=False)
    stamps: tuple[int, ...]
    bare: bool


def key_of(
    context: Context, environment: Mapping[str, str], stamps: tuple[int, ...], *, bare: bool
) -> Key:
    """Give the key of a job process.

    Args:
        environment: Variables on top of the client's.
    """
    lasting = lasting_variables({**context.environment, **environment})
    return Key(
        interpreter=context.interpreter,
        flags=context.flags,
        package_dir=context.package_dir,
        sys_path=() if bare else context.sys_path,
        environment=tuple(sorted(lasting.items())),
        stamps=stamps,
        bare=bare,
    )


def lasting_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Leave out the variables that no library cares for when it is imported."""
    return {
        name: text
        for name, text in environment.items()
        if name not in HARMLESS and not name.startswith(HARMLESS_BEGINNINGS)
    }
