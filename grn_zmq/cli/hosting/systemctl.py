"""The user's systemd, asked through `systemctl --user`."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...errors import GrnError
from .unitfile import START_S

_LINGERING: Final = Path("/var/lib/systemd/linger")
_FACTS: Final = ("LoadState", "UnitFileState", "ActiveState", "MainPID")
# What it says on stderr before the error, if there is one.
_NO_ERROR: Final = "Created symlink"
# `enable --now` waits for the service to be ready.
PATIENCE_S: Final = START_S + 20


class ServiceError(GrnError):
    """The service is not as it was asked for; the text says what to do."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What systemd says of our unit; empty texts where it says nothing."""

    enabled: str = ""
    active: str = ""
    pid: int = 0


class Systemctl:
    """Runs `systemctl --user`; `missing` where there is none."""

    def __init__(self, unit: str) -> None:
        """Prepare to ask.

        Args:
            unit: The service in question, with its suffix.
        """
        self._unit = unit
        self._path = shutil.which("systemctl")

    @property
    def missing(self) -> bool:
        return self._path is None

    def do(self, *words: str) -> None:
        """Carry out one order.

        Raises:
            ServiceError: It failed; the text is systemd's own.
        """
        status, _, said = self._run(words)
        if status:
            lines = [line for line in said.splitlines() if not line.startswith(_NO_ERROR)]
            why = lines[0].strip().rstrip(".") if lines else f"status {status}"
            raise ServiceError(f"`systemctl --user {' '.join(words)}` failed: {why}")

    def state(self) -> ServiceState:
        """Ask how the service is; nothing is known where systemd does not answer."""
        if self.missing:
            return ServiceState()
        wanted = [word for fact in _FACTS for word in ("-p", fact)]
        status, said, _ = self._run(("show", self._unit, *wanted))
        facts = (
            dict(line.partition("=")[::2] for line in said.splitlines()) if not status else {}
        )
        pid = facts.get("MainPID", "")
        return ServiceState(
            enabled=facts.get("UnitFileState", ""),
            active=facts.get("ActiveState", ""),
            pid=int(pid) if pid.isdecimal() else 0,
        )

    def _run(self, words: tuple[str, ...]) -> tuple[int, str, str]:
        command = [self._path or "systemctl", "--user", *words]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=PATIENCE_S
            )
        except subprocess.TimeoutExpired:
            return 1, "", f"no answer within {PATIENCE_S} s"
        except OSError as error:
            return 1, "", str(error.strerror)
        return done.returncode, done.stdout, done.stderr


def is_lingering(uid: int) -> bool:
    """Whether the user's systemd, and with it our service, runs without a login."""
    try:
        return (_LINGERING / pwd.getpwuid(uid).pw_name).exists()
    except (KeyError, OSError):
        return False


def goes_at_logout(environ: Mapping[str, str], uid: int) -> bool:
    """Whether the runtime directory is the one that the last logout removes."""
    return os.path.realpath(environ.get("XDG_RUNTIME_DIR", "")) == f"/run/user/{uid}"
