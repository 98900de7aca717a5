"""Containers: command lines of docker, podman and apptainer with the leased devices. Pure."""

from dataclasses import dataclass
from typing import ClassVar, Final

from .environment import Environment
from .mounting import Mounted, check_mountable, mounted, problem_of
from .requests import Mount, Request

# What the NVIDIA runtime takes for "no GPU at all", whatever the image says.
_NO_GPU: Final = "void"
_ACCOUNTS: Final = (Mount("/etc/passwd"), Mount("/etc/group"))


@dataclass(frozen=True, kw_only=True)
class Container(Environment):
    """An image, and what of this machine is found inside."""

    image: str
    mounts: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def apart(self) -> bool:
        return True

    def problem(self) -> tuple[str, str] | None:
        if not self.image or self.image.startswith("-"):
            return "image", "the name of an image"
        return problem_of(self.mounts)

    def described(self) -> str:
        return self.text or self.image


@dataclass(frozen=True, kw_only=True)
class Docker(Container):
    """`docker run`, as the caller's user. An empty text leaves a switch out.

    Values of variables are taken from its own environment (`-e NAME`): what stands on a
    command line can be read by everybody.
    """

    kind: ClassVar[str] = "docker"

    program: str = "docker"
    net: str = "host"
    shm_size: str = "1g"
    memlock: bool = True
    user: bool = True
    passwd: bool = True
    init: bool = True

    def words(self, request: Request) -> list[str]:
        return [
            *(self.program, "run", "--rm", "--name", request.name),
            # A program without a handler ignores TERM where it is the first process.
            *(["--init"] if self.init else []),
            *(["-i"] if request.stdin else []),
            *([f"--net={self.net}"] if self.net else []),
            *(["--ulimit", "memlock=-1"] if self.memlock else []),
            *(["--shm-size", self.shm_size] if self.shm_size else []),
            *(self.user_words(request) if self.user else []),
            *self.volumes(request),
            *("-w", request.cwd),
            *self.gpu_words(request),
            *(word for name in sorted(self.names(request)) for word in ("-e", name)),
            *self.options,
            self.image,
        ]

    def farewell(self, request: Request) -> list[str]:
        """Remove the container: its client was killed, and it lives below another process."""
        return [self.program, "rm", "-f", request.name]

    def user_words(self, request: Request) -> list[str]:
        return ["-u", f"{request.uid}:{request.gid}"]

    def gpu_words(self, request: Request) -> list[str]:
        """Several devices in quotes: without them the comma would end the first."""
        if not request.gpus:
            return ["-e", f"NVIDIA_VISIBLE_DEVICES={_NO_GPU}"]
        uuids = ",".join(request.gpus)
        return ["--gpus", f'"device={uuids}"', "-e", f"NVIDIA_VISIBLE_DEVICES={uuids}"]

    def names(self, request: Request) -> set[str]:
        """The variables that reach the command; GPUs are given by other means."""
        return {*self.variables, *request.variables} - {"NVIDIA_VISIBLE_DEVICES"}

    def volumes(self, request: Request) -> list[str]:
        needed = [*request.mounts, *(_ACCOUNTS if self.passwd and self.user else ())]
        binds = mounted(self.mounts, needed)
        check_mountable(binds, ":")
        return [word for one in binds for word in ("-v", _bound(one))]


@dataclass(frozen=True, kw_only=True)
class Podman(Docker):
    """`podman run`, without root as the same user inside; GPUs by their CDI names."""

    kind: ClassVar[str] = "podman"

    program: str = "podman"
    # Without root nobody may raise this limit.
    memlock: bool = False

    def farewell(self, request: Request) -> list[str]:
        return [self.program, "rm", "-f", "-t", "0", request.name]

    def user_words(self, request: Request) -> list[str]:
        # Files of the user have labels that SELinux lets no container read.
        label = ["--security-opt", "label=disable"]
        if request.uid == 0:
            return [*super().user_words(request), *label]
        return ["--userns=keep-id", *super().user_words(request), *label]

    def gpu_words(self, request: Request) -> list[str]:
        devices = [
            word for uuid in request.gpus for word in ("--device", f"nvidia.com/gpu={uuid}")
        ]
        # The older hook, where it is installed, would add devices by this variable.
        return [*devices, "-e", f"NVIDIA_VISIBLE_DEVICES={_NO_GPU}"]


@dataclass(frozen=True, kw_only=True)
class Apptainer(Container):
    """`apptainer exec` (or singularity), which runs as the caller below the job's process.

    It passes the caller's variables on by itself. Those of the job go by `APPTAINERENV_NAME`,
    so that they win over the image's: its `--env` would take a value apart at its commas.
    """

    kind: ClassVar[str] = "apptainer"

    program: str = "apptainer"
    clean: bool = False

    def words(self, request: Request) -> list[str]:
        binds = mounted(self.mounts, request.mounts)
        check_mountable(binds, ":,")
        return [
            *(self.program, "exec"),
            *(["--nv"] if request.gpus else []),
            *(["--cleanenv"] if self.clean else []),
            *(word for one in binds for word in ("--bind", _bound(one))),
            *("--pwd", request.cwd),
            *self.options,
            self.image,
        ]

    def settings(self, request: Request) -> dict[str, str]:
        old = self.program.rpartition("/")[2] == "singularity"
        prefix = "SINGULARITYENV_" if old else "APPTAINERENV_"
        inside = {**self.variables, **request.variables}
        return {f"{prefix}{name}": value for name, value in inside.items()}


def _bound(one: Mounted) -> str:
    return f"{one.source}:{one.target}{'' if one.writable else ':ro'}"
