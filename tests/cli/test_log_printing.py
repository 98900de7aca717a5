"""What `grn logs` writes: all that is kept, and how much is not, where it would have come."""

from pathlib import Path

import pytest

from grn_zmq.cli.logs import LogPrinter
from grn_zmq.logfiles import LogReader
from tests.builders import an_id
from workers import joblogs
from workers.joblogs import LogWriter

JOB = an_id(1)
LINE = b"0123456789abcde\n"


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogWriter:
    """Of each log 64 bytes are kept, and as many of the one before."""
    monkeypatch.setattr(joblogs, "LOG_BYTES", 64)
    return LogWriter(tmp_path, JOB)


def test_a_reader_that_is_overtaken_is_told_how_much_it_has_missed_each_time(
    tmp_path: Path, writer: LogWriter, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with LogReader(tmp_path, JOB) as reader:
        log = LogPrinter(reader, None)
        told = []
        for lines in (2, 40, 3, 40):
            for _ in range(lines):
                writer.write("stdout", LINE)
            log.show(reader.read())
            told.append(capfdbinary.readouterr())
        missed = reader.missed_bytes
    writer.close()

    shown = sum(len(one.out) for one in told)
    assert shown + missed == 85 * len(LINE)
    assert [one.err.count(b"\n") for one in told] == [0, 1, 0, 1]
    for one in (told[1], told[3]):
        assert one.err.endswith(
            b" B before this are kept no more: "
            b"they were printed faster than they are read here\n"
        )
    sizes = [int(one.err.split()[1]) for one in (told[1], told[3])]
    assert sum(sizes) == missed


def test_what_was_lost_before_the_first_line_is_no_fault_of_the_reader(
    tmp_path: Path, writer: LogWriter, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for _ in range(40):
        writer.write("stdout", LINE)
    writer.close()

    with LogReader(tmp_path, JOB) as reader:
        LogPrinter(reader, None).show(reader.read())

    assert capfdbinary.readouterr().err.endswith(b" B before this are kept no more\n")
