"""The surroundings of a client, so that a job behaves as if called in place."""

import importlib
import os
import re
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

import msgpack

Limit = tuple[str, int, int]

# sys.flags that a new interpreter takes on its command line, as `subprocess` copies them.
_FLAG_LETTERS: Final = {
    "optimize": "O",
    "debug": "d",
    "dont_write_bytecode": "B",
    "no_site": "S",
    "verbose": "v",
    "bytes_warning": "b",
    "quiet": "q",
}
_X_OPTIONS: Final = (
    "faulthandler",
    "tracemalloc",
    "importtime",
    "frozen_modules",
    "showrefcount",
    "utf8",
)
_UMASK: Final = re.compile(rb"^Umask:\s*([0-7]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Context:
    """Interpreter, directory, path, limits and environment of one client process."""

    interpreter: str
    flags: tuple[str, ...]
    package_dir: str
    cwd: str
    sys_path: tuple[str, ...]
    argv: tuple[str, ...]
    umask: int
    limits: tuple[Limit, ...]
    environment: Mapping[str, str] = field(repr=False, hash=False)

    @classmethod
    def capture(
        cls, extra_environment: Mapping[str, str] | None = None, cwd: str = ""
    ) -> "Context":
        """Take the context of this very process.

        Args:
            extra_environment: Variables the job sees in addition, or instead.
            cwd: Another directory to run in, as if the process had gone there.
        """
        moved = {"PWD": cwd} if cwd else {}
        return cls(
            interpreter=sys.executable,
            flags=_interpreter_flags(),
            package_dir=str(Path(__file__).resolve().parent.parent),
            cwd=cwd or os.getcwd(),
            sys_path=tuple(entry for entry in sys.path if isinstance(entry, str)),
            argv=tuple(sys.argv),
            umask=umask(),
            limits=limits(),
            environment={**os.environ, **moved, **(extra_environment or {})},
        )

    def adopt(self, extra_environment: Mapping[str, str]) -> None:
        """Make this very process look like the captured one.

        Raises:
            OSError: The working directory is gone.
        """
        _set_environment({**self.environment, **extra_environment})
        time.tzset()
        os.umask(self.umask)
        os.chdir(self.cwd)
        sys.path[:] = self.sys_path
        importlib.invalidate_caches()
        sys.argv = list(self.argv)
        for name, soft, hard in self.limits:
            _set_limit(name, soft, hard)

    def to_bytes(self) -> bytes:
        """Encode; equal contexts give equal bytes, so that a digest can name them."""
        content = {each.name: getattr(self, each.name) for each in fields(self)}
        content["environment"] = dict(sorted(self.environment.items()))
        packed: bytes = msgpack.packb(content, unicode_errors="surrogatepass")
        return packed

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> "Context":
        """Decode what `to_bytes` made.

        Raises:
            ValueError: Not a context; the text names the field.
        """
        content = msgpack.unpackb(data, unicode_errors="surrogatepass")
        if not isinstance(content, dict) or set(content) != {f.name for f in fields(cls)}:
            raise ValueError("not a context: other fields than expected")
        return cls(
            interpreter=_text(content, "interpreter"),
            flags=_texts(content, "flags"),
            package_dir=_text(content, "package_dir"),
            cwd=_text(content, "cwd"),
            sys_path=_texts(content, "sys_path"),
            argv=_texts(content, "argv"),
            umask=_number(content["umask"], "umask"),
            limits=_limit_list(content["limits"]),
            environment=_environment(content["environment"]),
        )


def _interpreter_flags() -> tuple[str, ...]:
    flags = [
        "-" + letter * count
        for name, letter in _FLAG_LETTERS.items()
        if (count := int(getattr(sys.flags, name))) > 0
    ]
    if sys.flags.isolated:
        flags.append("-I")
    else:
        switches = {"ignore_environment": "-E", "no_user_site": "-s", "safe_path": "-P"}
        flags += [flag for name, flag in switches.items() if getattr(sys.flags, name)]
    implied = {"default"} if sys.flags.dev_mode else set()
    if sys.flags.bytes_warning:
        implied |= {"default::BytesWarning", "error::BytesWarning"}
    flags += [f"-W{option}" for option in sys.warnoptions if option not in implied]
    if sys.flags.dev_mode:
        flags += ["-X", "dev"]
    for name in _X_OPTIONS:
        value = sys._xoptions.get(name)
        if value is not None:
            flags += ["-X", name if value is True else f"{name}={value}"]
    return tuple(flags)


def umask() -> int:
    """Read the umask without changing it: setting it would race with other threads."""
    try:
        status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = _UMASK.search(os.read(status, 256))  # it stands in the second line
        finally:
            os.close(status)
        if found is not None:
            return int(found[1], 8)
    except OSError:
        pass
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def _limit_names() -> dict[int, str]:
    """By number, for some have two names: the first counts."""
    names: dict[int, str] = {}
    for name in sorted(dir(resource)):
        if name.startswith("RLIMIT_"):
            names.setdefault(getattr(resource, name), name)
    return names


_LIMITS: Final = _limit_names()


def limits() -> tuple[Limit, ...]:
    """Read the limits of this process, each by one of its names."""
    return tuple([(name, *resource.getrlimit(number)) for number, name in _LIMITS.items()])


def _set_environment(wanted: Mapping[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    changed = {name: text for name, text in wanted.items() if os.environ.get(name) != text}
    os.environ.update(changed)


def _set_limit(name: str, soft: int, hard: int) -> None:
    """Set one limit, or come as near to it as this process may."""
    number = getattr(resource, name, None)
    if number is None or resource.getrlimit(number) == (soft, hard):
        return
    try:
        resource.setrlimit(number, (soft, hard))
    except (ValueError, OSError):
        possible = resource.getrlimit(number)[1]
        if possible != resource.RLIM_INFINITY:
            soft = possible if soft == resource.RLIM_INFINITY else min(soft, possible)
        resource.setrlimit(number, (soft, possible))


def _text(content: dict[str, object], name: str) -> str:
    value = content[name]
    if not isinstance(value, str):
        raise ValueError(f"not a context: {name} is not text")
    return value


def _texts(content: dict[str, object], name: str) -> tuple[str, ...]:
    value = content[name]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"not a context: {name} is not a list of texts")
    return tuple(value)


def _number(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"not a context: {name} is not a number")
    return value


def _limit_list(value: object) -> tuple[Limit, ...]:
    if not isinstance(value, list):
        raise ValueError("not a context: limits is not a list")
    limits: list[Limit] = []
    for item in value:
        if not isinstance(item, list) or len(item) != 3 or not isinstance(item[0], str):
            raise ValueError("not a context: a limit is not (name, soft, hard)")
        limits.append((item[0], _number(item[1], item[0]), _number(item[2], item[0])))
    return tuple(limits)


def _environment(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("not a context: environment is not a map")
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ValueError("not a context: a name or value in environment is not text")
    return value
