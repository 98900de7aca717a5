"""Environments among our own processes: an interpreter, a prefix, bubblewrap. Pure."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar, Final

from ..placeholders import fill_words
from .environment import Environment
from .mounting import mounted, problem_of
from .requests import Request

# Where programs are looked for if the caller has no PATH.
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, kw_only=True)
class Interpreter(Environment):
    """The Python of another virtual environment; for commands its programs come first."""

    kind: ClassVar[str] = "interpreter"

    def problem(self) -> tuple[str, str] | None:
        if self.python.startswith("/"):
            return None
        return "python", "the path of an interpreter, such as /opt/tf/bin/python"

    @property
    def own_python(self) -> str:
        return self.python

    def described(self) -> str:
        return self.text or self.python

    def words(self, request: Request) -> list[str]:
        return []

    def settings(self, request: Request) -> dict[str, str]:
        before = request.surroundings.get("PATH") or _PATH
        programs = str(PurePosixPath(self.python).parent)
        return {"PATH": f"{programs}:{before}", **self.variables}


@dataclass(frozen=True, kw_only=True)
class Prefix(Environment):
    """A command that runs the command behind it: `conda run -n tf`, `numactl --cpubind=0`."""

    kind: ClassVar[str] = "prefix"

    command: tuple[str, ...]

    def problem(self) -> tuple[str, str] | None:
        return None if self.command else ("command", "the words to put before commands")

    def described(self) -> str:
        return self.text or " ".join(self.command)

    def words(self, request: Request) -> list[str]:
        return fill_words(self.command, request.placeholders)


@dataclass(frozen=True, kw_only=True)
class Bubblewrap(Environment):
    """A root file system that is read only, but for the working directory and /tmp.

    The directories that are mounted must exist below another root than our own.
    """

    kind: ClassVar[str] = "bubblewrap"

    program: str = "bwrap"
    root: str = "/"
    mounts: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def apart(self) -> bool:
        return True  # its /tmp is another, and what is installed may be below ours

    def problem(self) -> tuple[str, str] | None:
        if not self.root.startswith("/"):
            return "root", "the path of a directory"
        return problem_of(self.mounts)

    def described(self) -> str:
        return self.text or f"sandbox of {self.root}"

    def words(self, request: Request) -> list[str]:
        system = ["--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc"]
        system += ["--ro-bind", "/sys", "/sys", "--tmpfs", "/tmp"]
        binds = [
            word
            for source, target, writable in mounted(self.mounts, request.mounts)
            for word in ("--bind" if writable else "--ro-bind", source, target)
        ]
        head = [self.program, "--die-with-parent", "--ro-bind", self.root, "/"]
        return [*head, *system, *binds, "--chdir", request.cwd, *self.options, "--"]
