"""The settings there are: their names, what each may be, and what it is if nobody says."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from . import hooktexts
from .limits import DEFAULT_GRACE_S, MAX_NAME, MAX_PRIORITY, MAX_RETRIES, MAX_SECONDS
from .units import parse_seconds

Value = str | int | float | bool | None

# As in `broker/settings.py`, which this package may not import.
DEFAULT_OVERFLOW: Final = 0.05
# As `@grn.job` has it.
DEFAULT_OOM_RETRIES: Final = 2

_DEVICES: Final = re.compile(r"auto|(nvml|host)(:.+)?", re.IGNORECASE)
_NO_DEVICES: Final = re.compile(r"host:0+(x.*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Key:
    """One setting.

    `read` takes a text or a value of the file and raises ValueError for what cannot be;
    `kinds` are the types it may have in the file; `unset` says what None or "" means, and
    `unit` what a number counts.
    """

    name: str
    default: Value
    read: Callable[[str | int | float | bool], Value]
    kinds: tuple[type, ...]
    allowed: str
    unset: str = ""
    unit: str = ""

    @property
    def variable(self) -> str:
        """`GRN_MAX_JOBS`; inside a table `GRN_JOB__GRACE`."""
        return "GRN_" + self.name.upper().replace(".", "__")

    @property
    def flag(self) -> str:
        return "--" + self.name.rpartition(".")[2].replace("_", "-")


def _devices(value: str | int | float | bool) -> str:
    text = str(value).strip()
    if not _DEVICES.fullmatch(text) or _NO_DEVICES.fullmatch(text):
        raise ValueError
    return text


def _whole(least: int, most: int | None = None) -> Callable[[str | int | float | bool], int]:
    def read(value: str | int | float | bool) -> int:
        number = int(value)
        if number < least or (most is not None and number > most):
            raise ValueError
        return number

    return read


def _probability(value: str | int | float | bool) -> float:
    number = float(value)
    if not 0.0001 <= number <= 0.5:  # not a number is none either
        raise ValueError
    return number


def _hook(value: str | int | float | bool) -> str:
    text = str(value).strip()
    if len(text) > MAX_NAME or not (text.isprintable() and hooktexts.can_be(text)):
        raise ValueError
    return text


def _capacity(value: str | int | float | bool) -> str:
    """Take what jobs outside of queues may declare to need; devices are there anyway."""
    from .capacities import GPU, parse_capacity  # reads JSON5, which takes a while to load

    text = str(value).strip()
    if text and GPU in parse_capacity(text):
        raise ValueError
    return text


def _file(value: str | int | float | bool) -> str:
    text = str(value).strip()
    if not text or not text.isprintable():
        raise ValueError
    return text


def _report(value: str | int | float | bool) -> bool | None:
    """Take true or false; of texts, as ever, only 1 and 0 count."""
    return value if isinstance(value, bool) else {"1": True, "0": False}.get(str(value))


def _yes(value: str | int | float | bool) -> bool:
    words = {"1": True, "true": True, "0": False, "false": False}
    try:
        return words[str(value).strip().lower()]
    except KeyError:
        raise ValueError from None


def _seconds(value: str | int | float | bool) -> float:
    seconds = parse_seconds(value)
    if seconds > MAX_SECONDS:
        raise ValueError
    return seconds


def _limit(value: str | int | float | bool) -> float:
    if not (seconds := _seconds(value)):
        raise ValueError
    return seconds


_NUMBERS: Final = (int, float)
_TIMES: Final = (int, float, str)
_TIME_FORMS: Final = "seconds, or a time such as 90s, 15m, 1h30m or 1:30:00"

KEYS: Final = (
    Key(
        "devices", "auto", _devices, (str,), "auto, nvml, nvml:0,2, host, host:4 or host:4x2GiB"
    ),
    Key("max_jobs", None, _whole(1), (int,), "a whole number from 1", "as the devices allow"),
    Key(
        "overflow", DEFAULT_OVERFLOW, _probability, _NUMBERS, "a probability from 0.0001 to 0.5"
    ),
    Key(
        "capacity",
        "",
        _capacity,
        (str,),
        "resources other than gpu in JSON5, such as {cpu:[16],licence:1}",
        "one cpu for each core",
    ),
    Key(
        "environments",
        "",
        _file,
        (str,),
        "tables, [environments.NAME], or the path of a file that has them",
        "none",
    ),
    Key("warm", True, _yes, (bool,), "true or false"),
    Key("on_end", "", _hook, (str,), "a command, or a URL that begins with http", "nothing"),
    Key("report", None, _report, (bool,), "true or false", "on a terminal"),
    Key(
        "job.priority",
        0,
        _whole(-MAX_PRIORITY, MAX_PRIORITY),
        (int,),
        f"a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}",
    ),
    Key("job.grace", DEFAULT_GRACE_S, _seconds, _TIMES, _TIME_FORMS, unit=" s"),
    Key(
        "job.oom_retries",
        DEFAULT_OOM_RETRIES,
        _whole(0, MAX_RETRIES),
        (int,),
        f"a whole number from 0 to {MAX_RETRIES}",
    ),
    Key("job.time_limit", None, _limit, _TIMES, f"more than 0 {_TIME_FORMS}", "none", " s"),
)

ON_END: Final = next(key for key in KEYS if key.name == "on_end")
