"""`grn environments`: the named environments that workers offer."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

from .. import wire
from ..facts import EnvironmentRow
from .asking import ask
from .common import json_option, one_line_errors, print_json, say
from .tables import print_fitted

HEADERS: Final = ("NAME", "KIND", "DEVICES", "WHAT")


@click.command()
@json_option
@one_line_errors
def environments(as_json: bool) -> None:
    """List the named environments that jobs can ask for, and where they are offered.

    \b
    grn environments                                     a line each
    grn environments --json                              the same for machines
    grn submit --environment tensorflow -- python a.py   run a command in one

    They are tables, [environments.NAME], in the file of settings (`grn config path`) or in
    the one that `grn start --environments FILE` names.
    """
    rows = ask(wire.AskEnvironments(), wire.EnvironmentsAre).rows
    if as_json:
        print_json([facts_of(row) for row in rows])
    elif rows:
        print_fitted(HEADERS, [cells_of(row) for row in rows])
    else:
        say(
            "No environments are offered: add tables, [environments.NAME], to `grn config path`"
        )


def facts_of(row: EnvironmentRow) -> dict[str, Any]:
    """An environment for machines."""
    devices = list(row.devices)
    return {"name": row.name, "kind": row.kind, "text": row.text, "devices": devices}


def cells_of(row: EnvironmentRow) -> tuple[str, ...]:
    return row.name, row.kind, " ".join(shortened(row.devices)) or "-", row.text or "-"


def shortened(devices: Sequence[str]) -> Iterable[str]:
    """`nvml:0,1,3` for three of them: what is the same is said once."""
    by_kind: dict[str, list[str]] = {}
    for device in devices:
        kind, _, index = device.partition(":")
        by_kind.setdefault(kind, []).append(index)
    return (f"{kind}:{','.join(indices)}" for kind, indices in by_kind.items())


if __name__ == "__main__":
    environments()
