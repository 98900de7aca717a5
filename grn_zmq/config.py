"""What a user has set: by flag, by variable or in a file, and which of them it was.

The file is `$XDG_CONFIG_HOME/grn/grn.toml`, or the one that GRN_CONFIG names. A flag counts
before a variable, a variable before the file, and the file before the default.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .config_keys import DEFAULT_OOM_RETRIES, DEFAULT_OVERFLOW, KEYS, Key, Value
from .errors import GrnError
from .limits import DEFAULT_GRACE_S
from .units import spell_seconds

FILE_VARIABLE: Final = "GRN_CONFIG"
DEFAULT: Final = "default"
# A table of the file: what jobs are like if nobody says.
_TABLE: Final = "job"
# Its tables are read by those who offer them: the setting is the file that has them.
_ENVIRONMENTS: Final = "environments"


class BadSetting(GrnError, ValueError):
    """A setting that cannot be, or that there is not; the text says where it stands."""


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """What commands are given that are submitted without saying it."""

    priority: int = 0
    grace: float = DEFAULT_GRACE_S
    oom_retries: int = DEFAULT_OOM_RETRIES
    time_limit: float | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, and in `sources` by name where those come from that were set."""

    devices: str = "auto"
    max_jobs: int | None = None
    overflow: float = DEFAULT_OVERFLOW
    capacity: str = ""
    environments: str = ""
    warm: bool = True
    on_end: str = ""
    report: bool | None = None
    job: JobDefaults = field(default_factory=JobDefaults)
    sources: Mapping[str, str] = field(default_factory=dict)

    def value(self, name: str) -> Value:
        """Give a setting by its name in the file: `overflow`, `job.grace`."""
        table, _, inside = name.rpartition(".")
        found: Value = getattr(self.job if table else self, inside)
        return found

    def source(self, name: str) -> str:
        """Say where it comes from: a flag, a variable, a file, or `default`."""
        return self.sources.get(name, DEFAULT)

    def shown(self, key: Key) -> str:
        """Give a setting as a person reads it."""
        value = self.value(key.name)
        if value is None or value == "":
            return key.unset
        if isinstance(value, float):
            return spell_seconds(value) if key.unit else f"{value:g}"
        return f"{value}{key.unit}"


def config_file(environ: Mapping[str, str]) -> Path:
    """Say where settings are read from; there may be none."""
    if named := environ.get(FILE_VARIABLE):
        return Path(named)
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(home) / "grn" / "grn.toml"


def read_config(
    environ: Mapping[str, str] | None, flags: Mapping[str, Any] | None = None
) -> Config:
    """Read all settings, once.

    Args:
        environ: None if flags alone count, because whoever gave them has read all else.
        flags: What the command line says, by the names of settings; None where it is silent.

    Raises:
        BadSetting: One cannot be, or the file names one that there is not.
    """
    path = config_file(environ or {})
    written = {} if environ is None else _read_file(path, bool(environ.get(FILE_VARIABLE)))
    values: dict[str, Any] = {}
    inside: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for key in KEYS:
        value, source = _find(key, flags or {}, environ or {}, written, path)
        if value is not None:
            table, _, name = key.name.rpartition(".")
            (inside if table else values)[name] = value
            sources[key.name] = source
    return Config(**values, job=JobDefaults(**inside), sources=sources)


def _find(
    key: Key,
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    written: Mapping[str, Any],
    path: Path,
) -> tuple[Value, str]:
    """Give a value and where it was found; None where nobody has set it."""
    if (flag := flags.get(key.name)) is not None:
        return _read(key, flag, f"{key.flag} {flag}"), key.flag
    if text := environ.get(key.variable):
        return _read(key, text, f"{key.variable}={text}"), key.variable
    if key.name not in written:
        return None, DEFAULT
    value = written[key.name]
    shown = f"{path}: {key.name} = {_toml(value)}"
    # By type and not by `isinstance`: true is no number here.
    if type(value) not in key.kinds:
        raise BadSetting(f"{shown} cannot be: write {key.allowed}")
    return _read(key, value, shown), str(path)


def report_setting(environ: Mapping[str, str]) -> str:
    """Give `report` as GRN_REPORT has it: "1", "0" or "".

    For programs, which must not fail because of a file that is meant for commands.
    """
    try:
        wanted = read_config(environ).report
    except BadSetting:
        return environ.get("GRN_REPORT", "")
    return "" if wanted is None else str(int(wanted))


def _read(key: Key, value: Any, shown: str) -> Value:
    try:
        return key.read(value)
    except (ValueError, OverflowError):
        raise BadSetting(f"{shown} cannot be: write {key.allowed}") from None


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _read_file(path: Path, named: bool) -> dict[str, object]:
    """Give what the file says, by the names of settings.

    Args:
        named: Somebody has named the file, so there must be one.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if named:
            raise BadSetting(f"{FILE_VARIABLE}={path}: there is no such file") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadSetting(f"{path} cannot be read: {why}") from None
    import tomllib  # only where there is a file to read

    try:
        return _flat(tomllib.loads(text), path)
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(f"{path} is no TOML: {error}") from None


def _environments_file(value: object, path: Path) -> object:
    """Give the file that has the environments: this one, or the one that it names."""
    if isinstance(value, dict):
        return str(path)
    if isinstance(value, str):
        return str(path.parent / Path(value).expanduser())
    return value


def _flat(content: Mapping[str, object], path: Path) -> dict[str, object]:
    table = content.get(_TABLE, {})
    if not isinstance(table, dict):
        raise BadSetting(
            f"{path}: {_TABLE} = {_toml(table)} cannot be: write a table, [{_TABLE}]"
        )
    flat = {name: value for name, value in content.items() if name != _TABLE}
    flat |= {f"{_TABLE}.{name}": value for name, value in table.items()}
    if _ENVIRONMENTS in flat:
        flat[_ENVIRONMENTS] = _environments_file(flat[_ENVIRONMENTS], path)
    known = [key.name for key in KEYS]
    for name in flat:
        if name not in known:
            raise BadSetting(
                f"{path}: there is no setting {name}; there are {', '.join(known)}"
            )
    return flat
