"""A call inside the environment of its job, as the job process sees it.

The job process stays outside, with its caller's interpreter. It leaves the pickled function
and arguments in a directory of the run, has the environment's interpreter run
`box_entry.py` there, and takes the answer from a file. What is printed goes straight to
where the job prints.

    box/run          what is to be done, and the function      box/lib/      what runs it
    box/arguments    pickled                                   box/python    its version
    box/answer       as the job process itself would say it    box/wanted    ours
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from . import channel
from .environments.requests import own_entries
from .payload import Packed

if TYPE_CHECKING:
    from .answers import Result

# Our own modules, and what they unpickle and pack with.
_PACKAGES: Final = ("cloudpickle", "msgpack")
_ENTRY: Final = "box_entry.py"
# Of the run; the rest is for whoever stays outside.
_PASSED_ON: Final = ("stand_in", "on_host", "total_bytes", "cap_bytes")


@dataclass(frozen=True, slots=True)
class Box:
    """Where a call is put: the words before its interpreter, and a directory for the run.

    Inside an environment that is `apart` only that directory of ours is found for sure.
    """

    name: str
    words: tuple[str, ...]
    directory: str
    apart: bool

    @classmethod
    def of(cls, value: object) -> "Box":
        """Take what the worker said."""
        assert isinstance(value, dict)
        words = tuple(map(str, value["words"]))
        return cls(str(value["name"]), words, str(value["directory"]), bool(value["apart"]))

    def as_map(self) -> dict[str, object]:
        """What the worker says."""
        return {
            "name": self.name,
            "words": list(self.words),
            "directory": self.directory,
            "apart": self.apart,
        }


def call_in_box(
    box: Box, run: Mapping[str, object], function: bytes | memoryview, content: memoryview
) -> "Result":
    """Have the function called inside, and give the answer.

    Where the environment was killed, this process ends in the same way.
    """
    here = Path(box.directory)
    here.mkdir(mode=0o700, exist_ok=True)
    try:
        _furnish(here, box.apart)
        header = {name: run[name] for name in _PASSED_ON}
        header |= {"sys_path": own_entries(sys.path), "argv": sys.argv, "umask": _umask()}
        channel.write_file(str(here / "run"), header, bytes(function))
        (here / "arguments").write_bytes(content)
        return _result(box, here, _status([*box.words, str(here / "lib" / _ENTRY)]))
    except _NotEntered as error:
        return _not_started(f"the environment {box.name} could not be entered: {error}")
    finally:
        shutil.rmtree(here, ignore_errors=True)


class _NotEntered(Exception):
    """Nothing of ours ran inside; the text says why."""


def _furnish(here: Path, apart: bool) -> None:
    """Put there what an interpreter needs to call a function: linked, or copied if apart."""
    lib = here / "lib"
    lib.mkdir()
    ours = Path(__file__).parent
    shutil.copyfile(ours / _ENTRY, lib / _ENTRY)
    (here / "wanted").write_text(_version())
    others = [Path(str(import_module(name).__file__)).parent for name in _PACKAGES]
    for directory in (ours, *others):
        if apart:
            _copy(directory, lib / directory.name)
        else:
            (lib / directory.name).symlink_to(directory)


def _copy(source: Path, target: Path) -> None:
    """Copy the modules of a package, compiled ones too; what is below it is not needed."""
    compiled = f"*.{sys.implementation.cache_tag}.pyc"
    (target / "__pycache__").mkdir(parents=True)
    files = [
        *source.glob("*.py"),
        *source.glob("*.so"),
        *source.glob(f"__pycache__/{compiled}"),
    ]
    for file in files:
        shutil.copy2(file, target / file.relative_to(source))


def _status(words: Sequence[str]) -> int:
    """Run the environment to its end, signals left to what runs inside.

    Raises:
        _NotEntered: Its first word cannot be run.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        # Handlers and not SIG_IGN, which the environment would inherit.
        for number in before:
            signal.signal(number, lambda *_: None)
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        return process.wait()
    except OSError as error:
        raise _NotEntered(f"{words[0]}: {error.strerror}") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _result(box: Box, here: Path, status: int) -> "Result":
    """Give what was answered, or what can be said of an end without an answer."""
    answer = channel.read_file(str(here / "answer"))
    if answer is not None:
        return answer.header, Packed.of(answer.body)
    if status < 0:
        _end_by(-status)
    version = _told(here / "python")
    if not version:
        raise _NotEntered(
            f"{box.words[0]} left with status {status}, before {box.words[-1]} had run. What "
            f"it said is in the output of the job"
        )
    if version != _version():
        return _not_started(
            f"the environment {box.name} has Python {version}, but the function was made by "
            f"Python {_version()}, whose functions only that version can run. Call it from "
            f"Python {version}, give the environment a Python {_version()}, or submit a command"
        )
    return {"outcome": "exited", "exit_status": status, "asked_bytes": None}, Packed.of(b"")


def _end_by(number: int) -> None:
    """End as the environment did, so that whoever looks at this process sees it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _not_started(text: str) -> "Result":
    header = {"outcome": "failed", "error_type": "JobNotStarted", "error_text": text}
    return dict[str, object](header), Packed.of(b"")


def _told(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
