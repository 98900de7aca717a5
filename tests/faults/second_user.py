"""Another user of this machine, for what the kernel does not do to root."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import pytest

# Nobody's, and for each test run another: what counts as this user's is ours.
FIRST_UID: Final = 61_000
LOOKS: Final = """
import subprocess, sys
sys.exit(subprocess.run([sys.executable, "-m", "grn_zmq.cli.main", "--help"]).returncode)
"""


@dataclass(frozen=True)
class SecondUser:
    """A user with a home; `python` is an interpreter that it may use."""

    uid: int
    home: Path
    python: str = sys.executable

    @property
    def become(self) -> list[str]:
        """A command that executes another one as this user."""
        setpriv = shutil.which("setpriv") or ""
        return [setpriv, f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]

    @property
    def environment(self) -> dict[str, str]:
        places = {f"XDG_{one}": str(self.home / one.lower()) for one in PLACES}
        return {"HOME": str(self.home), "PYTHONPATH": str(self.home / "path"), **places}

    def processes(self) -> list[int]:
        """All that this user has running."""
        found = [one for one in Path("/proc").iterdir() if one.name.isdigit()]
        return [int(one.name) for one in found if _owner(one) == self.uid]


PLACES: Final = ("RUNTIME_DIR", "STATE_HOME", "CONFIG_HOME")


@contextmanager
def second_user() -> Iterator[SecondUser]:
    """Somebody who can run all of this, for as long as it lasts; else the test is skipped."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user, with setpriv")
    home = Path(mkdtemp(prefix="grn-"))
    uid = FIRST_UID + os.getpid() % 4000
    try:
        _furnish(home, uid)
        for python in (sys.executable, *_pythons_of_all()):
            user = SecondUser(uid, home, python)
            if _can_run_us(user):
                yield user
                return
        pytest.skip("another user cannot read this interpreter, and there is none like it")
    finally:
        shutil.rmtree(home)


def _furnish(home: Path, uid: int) -> None:
    for name in PLACES:
        (home / name.lower()).mkdir(mode=0o700)
    # Whatever interpreter it is, it finds what is installed here.
    (home / "path").mkdir()
    site = sysconfig.get_path("purelib")
    custom = f"import site\nsite.addsitedir({site!r})\n"
    (home / "path" / "sitecustomize.py").write_text(custom)
    for place in (home, *home.rglob("*")):
        os.chown(place, uid, uid)


def _pythons_of_all() -> list[str]:
    """Interpreters of our version that belong to the system."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = (shutil.which(name, path=one) for one in ("/usr/bin", "/usr/local/bin"))
    return [one for one in found if one]


def _can_run_us(user: SecondUser) -> bool:
    looked = subprocess.run(
        [*user.become, user.python, "-c", LOOKS],
        cwd="/",
        env={**os.environ, **user.environment},
        capture_output=True,
    )
    return looked.returncode == 0


def _owner(place: Path) -> int:
    try:
        return place.stat().st_uid
    except OSError:
        return -1
