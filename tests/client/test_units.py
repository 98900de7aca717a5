import math

import pytest

from grn_zmq.units import (
    GIB,
    KIB,
    MIB,
    TIB,
    format_bytes,
    format_seconds,
    parse_bytes,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("512M", 512 * MIB),
        ("512m", 512 * MIB),
        ("8G", 8 * GIB),
        ("8GiB", 8 * GIB),
        (" 8 gib ", 8 * GIB),
        ("8GB", 8_000_000_000),
        ("250", 250 * MIB),
        ("1.5GiB", 3 * GIB // 2),
        (".5k", 512),
        ("2T", 2 * TIB),
        ("4096b", 4096),
        ("9007199254740993b", 9007199254740993),
    ],
)
def test_a_size_is_read_as_people_write_it(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    "text",
    [
        "",
        "G",
        "-1G",
        "0",
        "0.1b",
        "8 parsecs",
        "8Gi",
        "nan",
        "inf",
        "1e9",
        "1,5G",
        "8G 4M",
        "٣G",
    ],
)
def test_what_is_no_size_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match="no size") as caught:
        parse_bytes(text)

    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (KIB, "1.0 KiB"),
        (300 * MIB, "300.0 MiB"),
        (1000 * MIB, "1000.0 MiB"),
        (GIB - 1, "1.0 GiB"),
        (4 * GIB, "4.0 GiB"),
        (24 * GIB + GIB // 4, "24.2 GiB"),
        (3 * TIB, "3.0 TiB"),
        (-300 * MIB, "-300.0 MiB"),
    ],
)
def test_a_number_of_bytes_is_written_with_one_decimal(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (90, 90.0),
        (0.5, 0.5),
        ("0", 0.0),
        ("90", 90.0),
        ("90s", 90.0),
        ("15m", 900.0),
        ("15 min", 900.0),
        ("2H", 7200.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("2d", 172_800.0),
        ("1:30:00", 5400.0),
        ("1:30", 90.0),
    ],
)
def test_a_time_is_read_as_people_write_it(written: float | str, seconds: float) -> None:
    assert parse_seconds(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "x", "m", "1h1h", "-1", "1..2", "1:2:3:4", "inf", math.nan, math.inf, -1]
)
def test_what_is_no_time_is_named(written: float | str) -> None:
    with pytest.raises(ValueError, match=r"is no time: write 90s, 15m") as no:
        parse_seconds(written)

    assert repr(written) in str(no.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.97, "10 s"),
        (59.4, "59 s"),
        (59.7, "1:00"),
        (187.0, "3:07"),
        (3599.6, "1:00:00"),
        (7205.0, "2:00:05"),
    ],
)
def test_a_time_is_written_short_enough_for_a_column(value: float, text: str) -> None:
    assert format_seconds(value) == text
