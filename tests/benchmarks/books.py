"""Builders of what was measured."""

from grn_zmq.bench.figures import OURS, Book, Look, Measured

LOOKS = (Look(10_000.0, 200e-6), Look(8_000.0, 100e-6))


def a_measurement(
    row: str = "noop", contender: str = OURS, trouble: str = "", **samples: list[float]
) -> Measured:
    return Measured(row, contender, samples, LOOKS, 1.5, trouble)


def a_book(*measured: Measured) -> Book:
    return Book(list(measured))
