"""An installation, as a user makes it: into an empty environment, used from elsewhere."""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.cli.scripts import SCRIPTS
from tests.waiting import PATIENCE

pytestmark = pytest.mark.e2e

ROOT: Final = Path(__file__).parents[1]
PARTS: Final = ("grn_zmq", "broker", "workers", "pyproject.toml", "README.md", "LICENSE")
# An installation with its downloads.
INSTALL_S: Final = 100.0


@dataclass(frozen=True)
class Installation:
    """An environment with nothing but this project and what it needs."""

    directory: Path
    source: Path

    def run(self, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the environment from a directory that is not the project's."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        return subprocess.run(
            [str(self.directory / "bin" / words[0]), *words[1:]],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60 * PATIENCE,
            env={**clean, **environment},
        )

    def python(self, code: str) -> str:
        done = self.run("python", "-I", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module", params=["", "-e"], ids=["normal", "editable"])
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    """This project, installed from a copy so that no build leaves traces in the checkout."""
    directory = tmp_path_factory.mktemp("installed")
    source = directory / "source"
    source.mkdir()
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, source / part)
    venv.create(directory / "venv", symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(directory / "venv" / "bin" / "python")]
    how = [request.param] if request.param else []
    done = subprocess.run(
        [*pip, "install", "-q", "--no-compile", *how, str(source)],
        capture_output=True,
        text=True,
        timeout=INSTALL_S * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return Installation(directory / "venv", source)


@pytest.fixture
def read_only(installed: Installation) -> Iterator[Path]:
    """The installed package, without write permission and as it was."""
    package = Path(installed.python("import grn_zmq; print(grn_zmq.__path__[0])"))
    inside = [installed.python(WHERE % name) for name in ("broker", "workers")]
    parents = {package, *map(Path, inside)}
    for directory in parents:
        _permit(directory, 0o555, 0o444)
    yield package
    for directory in parents:
        _permit(directory, 0o755, 0o644)


WHERE: Final = "import grn_zmq.%s as m; print(m.__path__[0])"


def _permit(directory: Path, of_directories: int, of_files: int) -> None:
    for path in (directory, *directory.rglob("*")):
        path.chmod(of_directories if path.is_dir() else of_files)


def digest(directory: Path) -> str:
    """One name for all that is below a directory: paths, contents, times of change."""
    summary = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        summary.update(f"{path} {path.stat().st_mtime_ns} {path.stat().st_mode}".encode())
        if path.is_file():
            summary.update(path.read_bytes())
    return summary.hexdigest()


def test_r97_l13_only_one_name_is_installed(installed: Installation) -> None:
    code = (
        "from importlib.util import find_spec as f; "
        "print(f('broker'), f('workers'), f('tests'))"
    )

    assert installed.python(code) == "None None None"
    assert installed.python("import grn_zmq; print(grn_zmq.__version__)") == "0.1.0"


def test_r97_l13_every_script_answers_from_any_directory(installed: Installation) -> None:
    for name in SCRIPTS:
        done = installed.run(name, "--help")

        assert done.returncode == 0, done.stderr
        assert "Usage:" in done.stdout
        assert done.stderr == ""


def test_the_package_says_that_it_is_typed(installed: Installation) -> None:
    package = Path(installed.python("import grn_zmq; print(grn_zmq.__path__[0])"))

    assert (package / "py.typed").exists()


def test_s28_r96_no_framework_comes_with_it(installed: Installation) -> None:
    code = (
        "from importlib.util import find_spec as f; "
        "print([n for n in ('torch', 'tensorflow', 'jax', 'numpy') if f(n)])"
    )

    assert installed.python(code) == "[]"


def test_l08_r97_it_works_from_a_read_only_directory_and_writes_nothing_there(
    installed: Installation, read_only: Path, home: Path
) -> None:
    before = digest(read_only), digest(installed.source)

    # Root may write anywhere, and Python then writes its caches: that is not our doing.
    done = installed.run(
        "grn-run", "--devices", "host:1x500MiB", "echo installed", PYTHONDONTWRITEBYTECODE="1"
    )

    assert (done.returncode, done.stdout) == (0, "installed\n"), done.stderr
    assert (digest(read_only), digest(installed.source)) == before


def test_the_declared_version_is_the_packages_own() -> None:
    import tomllib

    import grn_zmq

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert declared["project"]["version"] == grn_zmq.__version__


def test_p37_every_module_is_written_in_the_oldest_python_that_is_declared() -> None:
    import ast
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    minors = [
        int(one.removeprefix(prefix))
        for one in project["classifiers"]
        if one.startswith(prefix)
    ]
    modules = [path for folder in PARTS[:3] for path in (ROOT / folder).rglob("*.py")]

    assert project["requires-python"] == f">=3.{min(minors)}"
    assert minors == list(range(min(minors), max(minors) + 1))
    assert sys.version_info[1] >= min(minors)
    assert len(modules) > 50
    for path in modules:
        ast.parse(path.read_text(), str(path), feature_version=(3, min(minors)))


def test_every_folder_with_modules_is_declared_as_a_package() -> None:
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    there = {
        "grn_zmq." * (path.parts[0] != "grn_zmq") + ".".join(path.parts)
        for folder in ("grn_zmq", "broker", "workers")
        for path in {p.parent.relative_to(ROOT) for p in (ROOT / folder).rglob("*.py")}
    }

    assert set(settings["packages"]) == there
