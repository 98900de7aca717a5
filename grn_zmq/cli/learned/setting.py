"""`grn profiles set`: the user says what a job type needs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from ...cellbounds import MOST_BYTES
from ...errors import GrnError
from ...facts import CellRow, DeviceRow, ProfileRow
from ...limits import MAX_NAME
from ...records import Scalar, require_scalar
from ...units import format_bytes, parse_bytes
from ..common import json_option, one_line_errors, print_json, printable, say
from ..listing import all_devices, all_profiles
from ..matching import near
from ..scalars import value_of
from .cellfile import check_text
from .cells import key_of, put_cells
from .knowntypes import named
from .promising import by_text, why


class NoDevice(GrnError, LookupError):
    """There is no device that could tell which models of device are meant."""


def _size(_: click.Context, __: click.Parameter, text: str) -> int:
    try:
        size = parse_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if size > MOST_BYTES:
        most = format_bytes(MOST_BYTES)
        raise click.BadParameter(f"{text!r} is larger than any device: {most} at most")
    return size


def _name(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    if text == "":
        raise click.BadParameter("it is empty")
    try:
        check_text("it", text or "")
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return text


def _by(_: click.Context, __: click.Parameter, pairs: Sequence[str]) -> dict[str, Scalar]:
    found: dict[str, Scalar] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (equals and name and name.isprintable() and len(name) <= MAX_NAME):
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE, such as batch_size=32")
        if name in found:
            raise click.BadParameter(f"{name} has two values")
        try:
            found[name] = value_of(value)
            require_scalar(found[name])
        except ValueError as error:
            raise click.BadParameter(f"{name}: {error}") from None
    return found


@click.command("set", short_help="Say what a job type needs.")
@click.argument("job_type", metavar="TYPE", callback=_name)
@click.argument("size", metavar="SIZE", callback=_size)
@click.option(
    "--by", multiple=True, metavar="NAME=VALUE", callback=_by, help="Only for jobs with this."
)
@click.option(
    "--device-class", callback=_name, help="Only on such devices, as lists name them."
)
@json_option
@one_line_errors
def set_profile(
    job_type: str, size: int, by: dict[str, Scalar], device_class: str | None, as_json: bool
) -> None:
    """Say what a job type needs, so that its next job need not be measured first.

    \b
    grn profiles set train.py::fit 6GiB                     on all devices here
    grn profiles set train.py::fit 9GiB --by batch_size=64  only for jobs with this value
    grn profiles set "python train.py #" 800M               a command; a bare number is MiB

    It is promised with 8 % on top until the first run has shown what it takes; what was
    measured of such jobs is forgotten. A type whose need depends on arguments (by=...) is
    set for each of their values.
    """
    rows, devices = all_profiles(), all_devices()
    job_type = named(job_type, (row.job_type for row in rows))
    notes = list(_doubts(job_type, by, rows))
    mine = [row for row in rows if row.job_type == job_type and row.by == by]
    classes = [device_class] if device_class else _classes(mine, devices)
    put = [_stand_in(job_type, by, one, size) for one in classes]
    put_cells(put)
    keys = {key_of(row) for row in put}
    promised = [row for row in all_profiles() if key_of(row) in keys]
    notes += _misfits(promised, size, devices)
    if as_json:
        print_json(_facts(job_type, by, size, promised, notes))
        return
    for line in (*(_told(row, size) for row in promised), *(f"Note: {one}" for one in notes)):
        say(printable(line))


def _classes(mine: Iterable[ProfileRow], devices: Iterable[DeviceRow]) -> list[str]:
    """Those of the devices here, and those whose measurements would else be preferred."""
    here = [row.facts.device_class for row in devices]
    found = list(dict.fromkeys((*here, *(row.device_class for row in mine))))
    if not found:
        raise NoDevice("no device has joined yet: wait for one, or name one by --device-class")
    return found


def _stand_in(job_type: str, by: dict[str, Scalar], device_class: str, size: int) -> CellRow:
    """A cell that knows nothing but a figure of less trust than a run."""
    return CellRow(
        job_type=job_type,
        by=by,
        device_class=device_class,
        devices=1,
        version="",
        runs=0,
        trust=0,
        mean_bytes=0.0,
        squares=0.0,
        max_bytes=0,
        need_bytes=0,
        bound_bytes=0,
        stand_in_bytes=size,
        ooms=0,
        failures=0,
        last_s=0.0,
        before_s=0.0,
        solo_s=0.0,
        utilisation=0.0,
        mean_utilisation=0.0,
    )


def _told(row: ProfileRow, size: int) -> str:
    values = f" with {by_text(row.by)}" if row.by else ""
    what = f"{row.job_type}{values} on {row.device_class}"
    promised = format_bytes(row.predicted_bytes)
    if row.kind == "stand-in":
        set_to = f"{format_bytes(size)} and 8 % on top"
        return f"{what}: {promised} will be promised ({set_to}) until a run is measured"
    return f"{what}: {promised} will be promised all the same: {why(row)}"


def _doubts(job_type: str, by: dict[str, Scalar], rows: Sequence[ProfileRow]) -> Iterator[str]:
    """What may not be the type, or the values, that the user meant."""
    mine = [row for row in rows if row.job_type == job_type]
    if not mine and (likely := near(job_type, (row.job_type for row in rows))):
        yield f"no job of this type has run here; did you mean {' or '.join(likely)}?"
    names = {tuple(sorted(row.by)) for row in mine}
    if names and tuple(sorted(by)) not in names:
        said = " or ".join(", ".join(one) or "no values" for one in sorted(names))
        yield f"jobs of this type are known by {said}: --by must name the same"


def _misfits(
    promised: Iterable[ProfileRow], size: int, devices: Iterable[DeviceRow]
) -> Iterator[str]:
    """Where such a job cannot go, or gets less than was said."""
    here: dict[str, int] = {}
    for device in devices:
        facts = device.facts
        here[facts.device_class] = max(facts.total_bytes, here.get(facts.device_class, 0))
    for one in dict.fromkeys(row.device_class for row in promised):
        if one not in here:
            yield f"no device of class {one} is here now"
        elif here[one] < size:
            most = format_bytes(here[one])
            yield f"devices of class {one} have {most} at most: such a job gets a whole one"


def _facts(
    job_type: str,
    by: dict[str, Scalar],
    size: int,
    promised: Iterable[ProfileRow],
    notes: list[str],
) -> dict[str, Any]:
    kept = ("device_class", "predicted_bytes", "kind")
    return {
        "job_type": job_type,
        "by": by,
        "set_bytes": size,
        "promised": [
            {**{name: getattr(row, name) for name in kept}, "why": why(row)} for row in promised
        ],
        "notes": notes,
    }
