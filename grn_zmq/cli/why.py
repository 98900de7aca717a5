"""`grn why`: what a waiting job waits for."""

from dataclasses import asdict
from typing import Final

import click

from ..facts import DeviceReason, ResourceReason
from ..units import format_bytes
from ..wire import AskWhy, WhyIs
from .asking import ask
from .common import json_option, one_line_errors, print_json, printable, say
from .listing import bytes_or_dash
from .refs import find_one
from .tables import print_fitted

HEADERS: Final = (
    *("DEVICE", "TOTAL", "FOREIGN", "LEASED", "MEASURED", "FREE", "NEEDED", "JOBS"),
    "HERE",
)
RESOURCES: Final = ("RESOURCE", "NEEDED", "LEFT", "OF", "HELD BY JOBS")


@click.command()
@click.argument("ref", default="@", metavar="[JOB]")
@json_option
@one_line_errors
def why(ref: str, as_json: bool) -> None:
    """Say what a waiting job waits for, device by device, and what will end the wait.

    \b
    grn why                  the job submitted last
    grn why 12               by its number; a name or the beginning of its id will do
    grn why train-7 --json   the same for machines, sizes in bytes

    FREE is what is left of TOTAL beside strangers (FOREIGN), processes kept warm, and for
    each job what it was promised (LEASED) or uses (MEASURED), whichever is more. NEEDED has
    what must stay free between jobs that share behind a +.
    """
    reason = ask(AskWhy(find_one(ref)), WhyIs).reason
    if as_json:
        print_json(asdict(reason))
        return
    say(f"Job {reason.number}: {printable(reason.text)}")
    if reason.devices:
        print_fitted(HEADERS, [cells_of(one) for one in reason.devices])
    if reason.resources:
        print_fitted(RESOURCES, [_of_resource(one) for one in reason.resources])
    if reason.until:
        say(f"It waits {printable(reason.until)}")


def _of_resource(one: ResourceReason) -> tuple[str, ...]:
    holders = ", ".join(map(str, one.holders))
    return one.name, one.needed, one.left, one.capacity, holders or "-"


def cells_of(one: DeviceReason) -> tuple[str, ...]:
    most = f"/{one.max_jobs}" if one.max_jobs else ""
    return (
        one.device,
        format_bytes(one.total_bytes),
        bytes_or_dash(one.foreign_bytes),
        bytes_or_dash(one.leased_bytes),
        bytes_or_dash(one.measured_bytes),
        format_bytes(one.free_bytes),
        _needed(one),
        f"{one.jobs}{most}",
        one.text or "-",
    )


def _needed(one: DeviceReason) -> str:
    if not one.needed_bytes:
        return "?"  # to be measured
    beside = f"+{format_bytes(one.headroom_bytes)}" if one.headroom_bytes else ""
    return f"{format_bytes(one.needed_bytes)}{beside}"
