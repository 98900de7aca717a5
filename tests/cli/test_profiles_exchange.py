"""`grn profiles export`, `import` and `set`: what was learned elsewhere, or is known anyhow."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import grn_zmq as grn
from grn_zmq.cli.learned.cellfile import read_document
from grn_zmq.facts import CellRow
from tests.builders import MIB
from tests.cli.cellrows import a_row, changed, written
from tests.cli.scripts import TRACEBACK, run, script
from tests.waiting import PATIENCE

pytestmark = pytest.mark.e2e


@pytest.fixture
def nothing_known(host_server: grn.Server) -> Iterator[None]:
    yield
    known = sorted({row["job_type"] for row in facts()})
    if known:
        assert run("grn", "profiles", "forget", *known).returncode == 0


def facts(*words: str) -> Any:
    done = run("grn", "profiles", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def exported(*words: str) -> list[CellRow]:
    return read_document(run("grn", "profiles", "export", *words).stdout, "stdout")


def taken(*rows: CellRow) -> None:
    done = run("grn", "profiles", "import", "-", stdin=written(*rows))
    assert done.returncode == 0, done.stderr


def one_line(done: "subprocess.CompletedProcess[bytes]", status: int) -> str:
    """What a verb that failed said, if that was one clear line."""
    (line,) = done.stderr.decode().splitlines()
    assert (done.returncode, line[:5]) == (status, "grn: "), line
    return line


@pytest.mark.usefixtures("nothing_known")
def test_what_was_exported_forgotten_and_imported_is_known_as_before(tmp_path: Path) -> None:
    grn.job(type="mine.py::run", by="n")(lambda n: n)(3)
    before = facts()
    file = str(tmp_path / "learned.json")

    out = run("grn", "profiles", "export", "-o", file)
    assert run("grn", "profiles", "forget", "mine.py::run").returncode == 0
    back = run("grn", "profiles", "import", file)

    assert out.stdout.decode() == f"Exported 1 profile of 1 job type to {file}\n"
    assert back.stdout == b"Imported 1 profile of 1 job type\n"
    assert facts() == before


@pytest.mark.usefixtures("nothing_known")
def test_importing_replaces_what_is_known_and_keeps_the_rest() -> None:
    taken(a_row("a"), a_row("b"), a_row("b", by={"n": 1}))
    other = a_row("b", max_bytes=300 * MIB), a_row("c")

    done = run("grn", "profiles", "import", "-", "--json", stdin=written(*other))

    assert json.loads(done.stdout) == {
        "imported": 2,
        "replaced": 1,
        "job_types": ["b", "c"],
    }
    assert {row.job_type: row.max_bytes // MIB for row in exported() if not row.by} == {
        "a": 100,
        "b": 300,
        "c": 100,
    }
    assert len(exported()) == 4


def test_help_says_that_names_of_job_types_may_be_paths() -> None:
    shown = " ".join(run("grn", "profiles", "export", "--help").stdout.decode().split())

    assert "those of functions in a script begin with its path" in shown


@pytest.mark.usefixtures("nothing_known")
def test_only_the_types_that_are_named_are_exported() -> None:
    taken(a_row("x.py::fit"), a_row("y.py::fit"), a_row("z"))

    assert [row.job_type for row in exported("fit")] == ["x.py::fit", "y.py::fit"]
    assert "did you mean x.py::fit" in one_line(run("grn", "profiles", "export", "x::fit"), 1)


@pytest.mark.usefixtures("nothing_known")
def test_more_than_one_message_can_carry_is_imported_in_parts() -> None:
    rows = [a_row(f"{number:04}{'✓' * 1000}", version="✓" * 1000) for number in range(450)]

    done = run("grn", "profiles", "import", "-", stdin=written(*rows))

    assert done.stdout == b"Imported 450 profiles of 450 job types\n", done.stderr
    assert exported() == rows


@pytest.mark.usefixtures("nothing_known")
def test_what_the_broker_refuses_is_said_with_what_it_took_before() -> None:
    rows = [a_row("wide", by={"n": number}) for number in range(201)]

    done = run("grn", "profiles", "import", "-", stdin=written(*rows))

    line = one_line(done, 1)
    assert "wide would be known for 201 different values, 200 can be" in line
    assert "200 of 201 profiles were taken before that" in line


@pytest.mark.usefixtures("nothing_known")
def test_of_a_damaged_export_nothing_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "damaged.json"
    file.write_bytes(changed(max_bytes=-1))

    line = one_line(run("grn", "profiles", "import", str(file)), 1)

    assert line == (
        f"grn: {file}: cell 2 (odd): max_bytes is -1, not from 0 to 72057594037927936; "
        "nothing was imported"
    )
    assert facts() == []


@pytest.mark.usefixtures("nothing_known")
def test_files_that_cannot_be_had_are_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "no" / "file")

    assert one_line(run("grn", "profiles", "import", missing), 1) == (
        f"grn: cannot read {missing}: No such file or directory"
    )
    assert one_line(run("grn", "profiles", "export", "-o", missing), 1) == (
        f"grn: cannot write {missing}: No such file or directory"
    )
    assert one_line(run("grn", "profiles", "import", str(tmp_path)), 1) == (
        f"grn: cannot read {tmp_path}: Is a directory"
    )


@pytest.mark.usefixtures("nothing_known")
def test_what_is_set_is_promised_to_a_type_that_was_never_seen() -> None:
    said = run("grn", "profiles", "set", "new", "200M").stdout.decode()
    assert run("grn-run", "--type", "new", "true").returncode == 0
    rows = json.loads(run("grn", "ps", "--all", "--json").stdout)
    (job,) = [row for row in rows if row["job_type"] == "new"]

    assert said == (
        "new on host: 216.0 MiB will be promised (200.0 MiB and 8 % on top) "
        "until a run is measured\n"
    )
    assert (job["measuring"], job["predicted_bytes"]) == (False, 216 * MIB)
    (row,) = facts("new")
    assert (row["runs"], row["kind"]) == (1, "measured")
    assert row["predicted_bytes"] < 200 * MIB


@pytest.mark.usefixtures("nothing_known")
def test_what_is_set_replaces_what_was_measured_on_all_devices() -> None:
    taken(a_row("home/x.py::fit"), a_row("home/x.py::fit", device_class="A100"))

    shown = facts("set", "fit", "1.5G")

    assert shown["job_type"] == "home/x.py::fit"
    assert shown["set_bytes"] == 1536 * MIB
    assert {one["device_class"]: one["kind"] for one in shown["promised"]} == {
        "host": "stand-in",
        "A100": "stand-in",
    }
    assert shown["notes"] == [
        "no device of class A100 is here now",
        "devices of class host have 1000.0 MiB at most: such a job gets a whole one",
    ]
    assert [row["runs"] for row in facts("fit")] == [0, 0]
    block = run("grn", "profiles", "show", "fit").stdout.decode()
    assert "promised     1.6 GiB: set by hand" in block


@pytest.mark.usefixtures("nothing_known")
def test_what_is_set_for_one_value_leaves_the_others_and_says_what_counts_more() -> None:
    sizes = {8: 80, 16: 160, 32: 320}
    taken(
        *(
            a_row("t", by={"bs": bs}, mean_bytes=float(mib * MIB), max_bytes=mib * MIB)
            for bs, mib in sizes.items()
        )
    )

    known = run("grn", "profiles", "set", "t", "500M", "--by", "bs=24").stdout.decode()
    apart = facts("set", "t", "500M", "--by", "bs=8", "--by", "mode=fast")
    bare = run("grn", "profiles", "set", "t", "500M").stdout.decode()

    assert "t with bs=24 on host: " in known
    assert "will be promised all the same: what runs with smaller and larger" in known
    assert apart["by"] == {"bs": 8, "mode": "fast"}
    assert apart["promised"][0]["predicted_bytes"] == 540 * MIB
    assert "jobs of this type are known by bs: --by must name the same" in apart["notes"]
    assert "Note: jobs of this type are known by" in bare
    measured = [row for row in facts("t") if row["runs"]]
    assert {row["by"]["bs"]: row["peak_bytes"] // MIB for row in measured} == sizes


@pytest.mark.usefixtures("nothing_known")
def test_what_is_set_for_one_class_of_device_is_for_that_class() -> None:
    taken(a_row("fit", device_class="A100"))

    shown = facts("set", "fitt", "300", "--device-class", "H100")

    assert [one["device_class"] for one in shown["promised"]] == ["H100"]
    assert shown["notes"] == [
        "no job of this type has run here; did you mean fit?",
        "no device of class H100 is here now",
    ]
    assert [(row["job_type"], row["device_class"]) for row in facts()] == [
        ("fit", "A100"),
        ("fitt", "H100"),
    ]


@pytest.mark.usefixtures("nothing_known")
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("fit", "much"), "'much' is no size"),
        (("fit", "0"), "more than zero"),
        (("fit", "99999999T"), "larger than any device"),
        (("fit",), "SIZE"),
        (("", "1G"), "TYPE"),
        (("x" * 4097, "1G"), "4096"),
        ((os.fsdecode(b"\xff"), "1G"), "no Unicode"),
        (("fit", "1G", "--by", "n"), "NAME=VALUE"),
        (("fit", "1G", "--by", "=2"), "NAME=VALUE"),
        (("fit", "1G", "--by", "n=1", "--by", "n=2"), "two values"),
        (("fit", "1G", "--by", f"n={'9' * 30}"), "64 bits"),
        (("fit", "1G", "--by", "n=\x1b"), "not printable"),
        (("fit", "1G", "--device-class", ""), "--device-class"),
    ],
)
def test_what_cannot_be_set_is_a_usage_error(words: tuple[str, ...], named: str) -> None:
    done = run("grn", "profiles", "set", *words)

    assert (done.returncode, done.stdout) == (2, b"")
    assert named in done.stderr.decode()
    assert TRACEBACK not in done.stderr.decode()
    assert facts() == []


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("list", "fit"),
        ("show", "fit"),
        ("forget", "fit"),
        ("set", "fit", "1G"),
        ("export",),
        ("import", "-"),
    ],
)
def test_without_a_broker_every_verb_says_so(words: tuple[str, ...], tmp_path: Path) -> None:
    elsewhere = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}

    plain = run("grn", "profiles", *words, stdin=written(a_row()), environment=elsewhere)
    as_json = run(
        "grn", "profiles", *words, "--json", stdin=written(a_row()), environment=elsewhere
    )

    assert "no broker is running" in one_line(plain, 3)
    assert plain.stdout == b""
    assert as_json.returncode == 3
    assert "no broker is running" in json.loads(as_json.stdout)["error"]


@pytest.mark.usefixtures("nothing_known")
def test_who_stops_reading_an_export_hears_no_complaint() -> None:
    taken(*(a_row(f"{number} {'x' * 4000}") for number in range(100)))
    process = subprocess.Popen(
        script("grn", "profiles", "export"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None

    process.stdout.read(1)
    process.stdout.close()

    assert process.wait(20 * PATIENCE) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("verb", ["list", "show", "set", "forget", "export", "import"])
def test_help_of_each_verb_begins_with_a_line_and_three_examples(verb: str) -> None:
    lines = run("grn", "profiles", verb, "--help").stdout.decode().splitlines()

    assert lines[0].startswith(f"Usage: grn profiles {verb} ")
    assert lines[2].strip()
    examples = [line for line in lines if line.startswith("  ") and "grn profiles" in line[2:]]
    assert len(examples) >= 3
