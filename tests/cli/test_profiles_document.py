"""Exports of profiles, read with suspicion; values, names and promises as people put them."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from broker import estimates
from broker.cells import Cell
from grn_zmq import cellbounds
from grn_zmq.cli.learned.cellfile import BadDocument, document_of, read_document
from grn_zmq.cli.learned.knowntypes import UnknownType, named
from grn_zmq.cli.learned.promising import why
from grn_zmq.cli.scalars import value_of
from grn_zmq.facts import CellRow
from tests.builders import MIB, a_profile_row
from tests.cli.cellrows import a_row, changed, written
from tests.cli.scripts import run


def test_what_is_read_is_what_was_written() -> None:
    rows = [
        a_row(),
        a_row(by={"n": 3, "mode": "fast", "deep": True, "lr": -0.5}),
        a_row("✓ \x1b[2J", device_class="A100", runs=0, trust=0, mean_bytes=0.0),
    ]

    assert read_document(written(*rows), "file") == rows


def test_a_document_says_what_it_is_and_nothing_of_the_machine() -> None:
    document = document_of([a_row()])

    assert set(document) == {"format", "version", "cells"}
    assert (document["format"], document["version"]) == ("grn-profiles", 1)
    assert set(document["cells"][0]) == set(CellRow.__dataclass_fields__)


def test_numbers_may_be_written_as_people_write_them() -> None:
    (_, row) = read_document(changed(mean_bytes=100, last_s=2, squares=0), "file")

    assert (row.mean_bytes, row.last_s, row.squares) == (100.0, 2.0, 0.0)
    assert isinstance(row.mean_bytes, float)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not JSON"),
        (b'{"format": "grn-profiles",\n "version": }', "line 2, column 13"),
        (b"\xff\xfe", "UTF-8"),
        (b"[]", "not an export of profiles"),
        (b'{"cells": []}', "not an export of profiles"),
        (b'{"format": "grn-profiles", "cells": []}', "version null"),
        (b'{"format": "grn-profiles", "version": 2, "cells": []}', "version 2"),
        (b'{"format": "grn-profiles", "version": true, "cells": []}', "version true"),
        (b'{"format": "grn-profiles", "version": 1}', '"cells" is no list'),
        (b'{"format": "grn-profiles", "version": 1, "cells": [7]}', "cell 1 is 7"),
        (b"[" * 100_000, "nested"),
        (b"[NaN]", "NaN is no number"),
        (b"[" + b"9" * 5000 + b"]", "too long for a number"),
        (written(a_row(), a_row("b"), a_row()), "cells 1 and 3"),
        (written(a_row(by={"n": 1}), a_row(by={"n": 1.0})), "cells 1 and 2"),
        (changed(runs=None), "cell 2 (odd): runs is missing"),
        (changed(colour="red"), "cell 2 (odd): colour is not known"),
        (changed(runs=-1), "cell 2 (odd): runs is -1, not from 0 to 1000000000"),
        (changed(runs=1.5), "runs is 1.5, no whole number"),
        (changed(runs=True), "runs is true, no whole number"),
        (changed(runs=1), "no more runs count than there were"),
        (changed(max_bytes=1 << 57), "max_bytes is 144115188075855872"),
        (changed(mean_bytes="much"), 'mean_bytes is "much", no number'),
        (changed(mean_bytes=float("1e300")), "mean_bytes is 1e+300"),
        (changed(utilisation=1.5), "utilisation is 1.5, not from 0 to 1"),
        (changed(utilisation=-0.1), "utilisation is -0.1"),
        (changed(devices=2), "devices is 2, not 1"),
        (changed(devices=0), "devices is 0, not 1"),
        (changed(job_type=""), "cell 2 (): a cell names what it is of"),
        (changed(job_type=7), "cell 2: job_type is 7, no text"),
        (changed(job_type="x" * 4097), "more than 4096 characters"),
        (changed(version="\ud800"), "version has characters that are no Unicode"),
        (changed(by=[]), "by is a list, no object"),
        (changed(by={"n": {}}), "n in by is an object, neither number nor text"),
        (changed(by={"n": "\x1b"}), "n in by: '\\x1b' is not printable"),
        (changed(by={"n": 1 << 64}), "n in by"),
        (changed(by={str(n): "x" * 4000 for n in range(300)}), "too many"),
    ],
)
def test_what_is_no_export_is_refused_by_name_and_place(data: bytes, said: str) -> None:
    with pytest.raises(BadDocument) as caught:
        read_document(data, "learned.json")

    assert said in str(caught.value)
    assert str(caught.value).startswith("learned.json: ")
    assert len(str(caught.value)) < 300


def test_what_can_be_learned_can_be_taken_along() -> None:
    assert estimates.MOST_BYTES <= cellbounds.MOST_BYTES
    assert cellbounds.MOST.keys() | {"version"} == {one.name for one in fields(Cell)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("32", 32),
        ("-1", -1),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("True", True),
        ("true", "true"),
        ("1_000", "1_000"),
        (".5", 0.5),
        ("False", False),
        ("fast", "fast"),
        ("None", "None"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("", ""),
    ],
)
def test_values_are_numbers_where_they_look_like_it(text: str, value: object) -> None:
    assert (value_of(text), type(value_of(text))) == (value, type(value))


def test_a_function_of_a_script_here_is_known_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    here = f"{tmp_path.resolve()}/train.py::fit"

    assert named("train.py::fit", []) == here
    assert named("train.py::fit", ["/elsewhere/train.py::fit"]) == "/elsewhere/train.py::fit"
    assert named("other.py::fit", [here]) == "other.py::fit"
    assert named("fit", [here]) == here
    with pytest.raises(UnknownType, match="write more of it"):
        named("fit", [here, "a::fit"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "the most that 3 runs took"),
        ({"runs": 1}, "what one run took"),
        ({"runs": 0}, "other models of device"),
        ({"bound_bytes": 200 * MIB, "predicted_bytes": 216 * MIB}, "to have wanted 200.0 MiB"),
        ({"kind": "modelled"}, "a line between"),
        ({"kind": "extrapolated"}, "a guess"),
        ({"kind": "lower bound"}, "no run has succeeded"),
        ({"kind": "stand-in"}, "set by hand"),
        ({"kind": "settled"}, "a run that goes on"),
        ({"kind": "", "predicted_bytes": 0}, "is measured, alone"),
    ],
)
def test_every_kind_of_promise_is_explained(changes: dict[str, Any], said: str) -> None:
    assert said in why(a_profile_row(**changes))


@pytest.mark.e2e
def test_the_verb_loads_nothing_heavy() -> None:
    heavy = ("grn_zmq.client", "asyncio", "rich", "cloudpickle", "pynvml")
    code = (
        "import sys, grn_zmq.cli.profiles; print([m for m in sys.argv[1:] if m in sys.modules])"
    )

    assert run("python", "-I", "-c", code, *heavy).stdout == b"[]\n"
