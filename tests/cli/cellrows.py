"""Cells as exports have them, whole and damaged."""

import json
from dataclasses import replace
from typing import Any

from grn_zmq.cli.learned.cellfile import document_of
from grn_zmq.facts import CellRow
from tests.builders import MIB


def a_row(job_type: str = "train.py::fit", **changes: Any) -> CellRow:
    """A cell of which three runs are known."""
    row = CellRow(
        job_type=job_type,
        by={},
        device_class="host",
        devices=1,
        version="v1",
        runs=3,
        trust=2,
        mean_bytes=90.5 * MIB,
        squares=1e12,
        max_bytes=100 * MIB,
        need_bytes=80 * MIB,
        bound_bytes=10 * MIB,
        stand_in_bytes=0,
        ooms=1,
        failures=2,
        last_s=1.5,
        before_s=2.5,
        solo_s=0.5,
        utilisation=0.75,
        mean_utilisation=0.25,
    )
    return replace(row, **changes)


def written(*rows: CellRow) -> bytes:
    """An export of these cells."""
    return json.dumps(document_of(rows)).encode()


def changed(**fields: Any) -> bytes:
    """An export of two cells, the second with other fields; None takes one away."""
    document = json.loads(written(a_row("fine"), a_row("odd")))
    cell = {**document["cells"][1], **fields}
    document["cells"][1] = {name: value for name, value in cell.items() if value is not None}
    return json.dumps(document).encode()
