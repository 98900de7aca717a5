"""What a job has printed, read back: by stream, from the end, while it goes on printing."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grn_zmq import logfiles
from grn_zmq.logfiles import LogFiles, LogReader, remove, sweep
from tests.builders import an_id
from workers import joblogs
from workers.joblogs import LogWriter

JOB = an_id(1)


@pytest.fixture
def small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log is put aside once it has passed 64 bytes."""
    monkeypatch.setattr(joblogs, "LOG_BYTES", 64)


@pytest.fixture
def files(tmp_path: Path) -> LogFiles:
    return LogFiles(tmp_path, JOB)


def printed(directory: Path, *pieces: tuple[str, bytes]) -> None:
    """Let a worker write this to the log of the job."""
    writer = LogWriter(directory, JOB)
    for stream, data in pieces:
        writer.write(stream, data)
    writer.close()


def joined(pieces: Iterable[tuple[str, bytes]]) -> bytes:
    return b"".join(data for _, data in pieces)


def merged(pieces: Iterable[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Pieces of one stream in a row as one."""
    found: list[tuple[str, bytes]] = []
    for stream, data in pieces:
        if found and found[-1][0] == stream:
            data = found.pop()[1] + data
        found.append((stream, data))
    return found


def read(directory: Path, stream: str | None = None) -> list[tuple[str, bytes]]:
    with LogReader(directory, JOB) as reader:
        return merged(reader.read(stream))


def tail(directory: Path, lines: int, stream: str | None = None) -> bytes:
    with LogReader(directory, JOB) as reader:
        return joined(reader.tail(lines, stream))


def test_both_streams_are_read_in_the_order_they_were_printed(tmp_path: Path) -> None:
    pieces = [("stdout", b"one\n"), ("stderr", b"\xfftwo"), ("stdout", b"three\n")]
    printed(tmp_path, *pieces)

    assert read(tmp_path) == pieces
    assert read(tmp_path, "stdout") == [("stdout", b"one\nthree\n")]
    assert read(tmp_path, "stderr") == [("stderr", b"\xfftwo")]


def test_a_log_is_plain_bytes_and_private(tmp_path: Path, files: LogFiles) -> None:
    printed(tmp_path, ("stdout", b"one\n"), ("stderr", b"two\n"))

    assert files.log.read_bytes() == b"one\ntwo\n"
    assert files.streams.read_bytes() == b"stderr 4\n"
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_job_that_prints_to_standard_output_alone_has_one_file(tmp_path: Path) -> None:
    printed(tmp_path, ("stdout", b"one\n"), ("stdout", b"two\n"))

    assert os.listdir(tmp_path) == [f"{JOB}.log"]
    assert read(tmp_path) == [("stdout", b"one\ntwo\n")]


def test_a_later_attempt_goes_on_in_the_same_log(tmp_path: Path) -> None:
    printed(tmp_path, ("stderr", b"first\n"))
    printed(tmp_path, ("stdout", b"second\n"))
    printed(tmp_path, ("stdout", b"third\n"), ("stderr", b"fourth\n"))

    assert read(tmp_path) == [
        ("stderr", b"first\n"),
        ("stdout", b"second\nthird\n"),
        ("stderr", b"fourth\n"),
    ]


def test_without_a_log_there_is_nothing_to_read(tmp_path: Path) -> None:
    with LogReader(tmp_path / "nowhere", JOB) as reader:
        assert list(reader.read()) == []
        assert reader.tail(10) == []
        assert reader.missed_bytes == 0


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(0, b""), (1, b"c\n"), (2, b"b\nc\n"), (3, b"a\nb\nc\n"), (9, b"a\nb\nc\n")],
)
def test_the_last_lines_can_be_had_alone(tmp_path: Path, lines: int, expected: bytes) -> None:
    printed(
        tmp_path, ("stdout", b"a\nb"), ("stderr", b"\n"), ("stdout", b"c"), ("stdout", b"\n")
    )

    assert tail(tmp_path, lines) == expected


def test_a_last_line_without_its_end_counts_as_one(tmp_path: Path) -> None:
    printed(tmp_path, ("stdout", b"a\nb\n50 %"))

    assert tail(tmp_path, 1) == b"50 %"
    assert tail(tmp_path, 2) == b"b\n50 %"


def test_last_lines_are_of_the_stream_that_was_asked_for(tmp_path: Path) -> None:
    printed(tmp_path, ("stderr", b"wrong 1\nwrong 2\n"), ("stdout", b"fine\n" * 100))

    assert tail(tmp_path, 1, "stderr") == b"wrong 2\n"


def test_what_is_printed_after_the_last_lines_follows_them(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, JOB)
    writer.write("stdout", b"a\nb\n")
    with LogReader(tmp_path, JOB) as reader:
        assert joined(reader.tail(1)) == b"b\n"
        assert reader.more() == []

        writer.write("stderr", b"c\n")
        writer.write("stdout", b"d\n")

        assert reader.more() == [("stderr", b"c\n"), ("stdout", b"d\n")]
        assert reader.more() == []
    writer.close()


def test_a_log_that_comes_into_being_is_followed_from_its_first_byte(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    with LogReader(directory, JOB) as reader:
        assert reader.more() == []
        directory.mkdir()
        assert reader.more() == []

        printed(directory, ("stderr", b"a\n"))

        assert reader.more() == [("stderr", b"a\n")]


def test_of_a_stream_that_says_nothing_nothing_is_given(tmp_path: Path) -> None:
    printed(tmp_path, ("stdout", b"x" * (3 * logfiles.READ_BYTES)))

    assert read(tmp_path, "stderr") == []


@pytest.mark.usefixtures("small_logs")
def test_a_log_that_grows_too_large_is_put_aside_once(tmp_path: Path, files: LogFiles) -> None:
    lines = [b"%09d\n" % number for number in range(100)]
    printed(tmp_path, *[("stdout", line) for line in lines])

    kept = joined(read(tmp_path))

    assert b"".join(lines).endswith(kept)
    assert kept == files.old_log.read_bytes() + files.log.read_bytes()
    assert 54 < files.old_log.stat().st_size <= 74
    assert len(os.listdir(tmp_path)) == 4


@pytest.mark.usefixtures("small_logs")
def test_what_is_kept_no_more_is_counted(tmp_path: Path) -> None:
    printed(tmp_path, *[("stdout", b"%09d\n" % number) for number in range(50)])
    printed(tmp_path, *[("stdout", b"%09d\n" % number) for number in range(50, 100)])

    with LogReader(tmp_path, JOB) as reader:
        given_bytes = len(joined(reader.read()))

    with LogReader(tmp_path, JOB) as again:
        again.tail(1)
        assert again.missed_bytes == 1000 - given_bytes > 0


@pytest.mark.usefixtures("small_logs")
def test_changes_of_stream_count_for_the_size_of_a_log(tmp_path: Path) -> None:
    printed(tmp_path, *[("stdout", b"."), ("stderr", b"!")] * 100)

    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 4 * 64
    assert {len(data) for _, data in read(tmp_path)} == {1}


@pytest.mark.usefixtures("small_logs")
def test_a_reader_that_was_left_behind_goes_on_with_what_is_kept(tmp_path: Path) -> None:
    lines = [b"%09d\n" % number for number in range(100)]
    writer = LogWriter(tmp_path, JOB)
    writer.write("stdout", lines[0])
    with LogReader(tmp_path, JOB) as reader:
        assert joined(reader.read()) == lines[0]

        for line in lines[1:]:
            writer.write("stdout", line)

        given = joined(reader.read())
        # The rest of its own log, though that is gone; then the last two.
        own, others = given[:60], given[60:]
        assert own == b"".join(lines[1:7])
        assert len(others) > 60
        assert b"".join(lines).endswith(others)
        assert reader.missed_bytes == 1000 - len(lines[0]) - len(given)
    writer.close()


def test_a_log_that_is_removed_while_it_is_read_ends_there(tmp_path: Path) -> None:
    printed(tmp_path, ("stdout", b"a\n"))
    with LogReader(tmp_path, JOB) as reader:
        assert joined(reader.read()) == b"a\n"

        remove(tmp_path, JOB)

        assert reader.more() == []
        assert reader.more() == []


def half_put_aside(files: LogFiles) -> None:
    """A worker is killed, or slow, between the two renames."""
    os.replace(files.log, files.old_log)


@pytest.mark.usefixtures("small_logs")
def test_a_log_halfway_put_aside_is_read_with_its_own_streams(
    tmp_path: Path, files: LogFiles
) -> None:
    first, second = ("stderr", b"x" * 70), ("stdout", b"y" * 70)
    printed(tmp_path, first, second, ("stderr", b"z"))
    half_put_aside(files)

    assert read(tmp_path) == [("stderr", b"z")]

    printed(tmp_path, ("stdout", b"next"))
    assert read(tmp_path) == [("stderr", b"z"), ("stdout", b"next")]
    with LogReader(tmp_path, JOB) as reader:
        list(reader.read())
        assert reader.missed_bytes == 140


@pytest.mark.usefixtures("small_logs")
def test_a_reader_finds_the_streams_of_its_log_after_that_was_put_aside(
    tmp_path: Path, files: LogFiles
) -> None:
    writer = LogWriter(tmp_path, JOB)
    writer.write("stdout", b"out")
    with LogReader(tmp_path, JOB) as reader:
        assert reader.more() == [("stdout", b"out")]
        writer.write("stderr", b"err" * 30)
        half_put_aside(files)

        assert reader.more() == [("stderr", b"err" * 30)]

        writer.write("stdout", b"next")
        assert reader.more() == [("stdout", b"next")]
    writer.close()


def test_damage_to_what_says_whose_the_bytes_are_costs_no_bytes(
    tmp_path: Path, files: LogFiles
) -> None:
    printed(tmp_path, ("stderr", b"one\n"))
    files.streams.write_bytes(b"stderr 0\nstdo\xff\n\n" + b"stdout " + b"9" * 5000 + b"\nstder")

    printed(tmp_path, ("stdout", b"two\n"))

    assert read(tmp_path) == [("stderr", b"one\n"), ("stdout", b"two\n")]


PIECES = st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(min_size=1, max_size=40))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(PIECES, st.booleans(), st.booleans()), max_size=30))
@pytest.mark.usefixtures("small_logs")
def test_a_reader_who_keeps_up_gets_every_byte_once(
    tmp_path: Path, steps: list[tuple[tuple[str, bytes], bool, bool]]
) -> None:
    remove(tmp_path, JOB)
    writer = LogWriter(tmp_path, JOB)
    given_pieces: list[tuple[str, bytes]] = []
    unread_bytes = 0
    with LogReader(tmp_path, JOB) as reader:
        for (stream, data), reads, reopens in steps:
            writer.write(stream, data)
            unread_bytes += len(data)
            if reopens:  # a new attempt, or a worker after its disk has failed
                writer.close()
                writer = LogWriter(tmp_path, JOB)
            if reads or unread_bytes > 40:
                given_pieces += reader.read()
                unread_bytes = 0
        given_pieces += reader.read()
        assert reader.missed_bytes == 0
    writer.close()

    assert merged(given_pieces) == merged(piece for piece, _, _ in steps)


def test_removing_takes_all_files_of_one_job(tmp_path: Path, small_logs: None) -> None:
    printed(tmp_path, *[("stderr", b"x" * 70)] * 3)
    (tmp_path / f"{an_id(2)}.log").write_bytes(b"stays")

    remove(tmp_path, JOB)
    remove(tmp_path, an_id(3))

    assert os.listdir(tmp_path) == [f"{an_id(2)}.log"]


def test_sweeping_takes_the_logs_of_unknown_jobs_and_nothing_else(tmp_path: Path) -> None:
    stays = {f"{an_id(2)}.log", f"{an_id(2)}.streams.1", "notes.txt", f"{an_id(1)}.log.2"}
    for name in (*stays, f"{an_id(1)}.log", f"{an_id(1)}.streams.1", f"{an_id(3)}.log.1"):
        (tmp_path / name).touch()

    assert sweep(tmp_path, {an_id(2)}) == 2
    assert set(os.listdir(tmp_path)) == stays
    assert sweep(tmp_path / "nowhere", set()) == 0
