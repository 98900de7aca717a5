"""Named environments: where a job runs that needs other surroundings than its caller's.

An environment is always a few words before the command, and variables: another interpreter,
a command that sets things up, or a container with the leased devices. Worker pools offer
those of the `[environments.NAME]` tables of a file. A new kind is a small class with a name:

    @dataclass(frozen=True, kw_only=True)
    class Nix(Environment):
        kind: ClassVar[str] = "nix"
        flake: str

        def words(self, request: Request) -> list[str]:
            return ["nix", "develop", self.flake, "--command"]

In the file `kind = "lab_kinds:Nix"` finds it, where `lab_kinds` is a module that the workers
can import.
"""

from .containers import Apptainer, Container, Docker, Podman
from .environment import BadEnvironment, Environment
from .local import Bubblewrap, Interpreter, Prefix
from .requests import Mount, Request

__all__ = [
    "Apptainer",
    "BadEnvironment",
    "Bubblewrap",
    "Container",
    "Docker",
    "Environment",
    "Interpreter",
    "Mount",
    "Podman",
    "Prefix",
    "Request",
]
