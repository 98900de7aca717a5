"""What a job declares beside its memory: GPUs, or a part of one, and named resources. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral, Rational
from typing import Final

from .amounts import format_amount, parse_amount
from .limits import MAX_DEVICES
from .requiring import require_name

Amount = int | float | str | Fraction

# What people write, and programs mean by -1.
ALL_GPUS: Final = "all"


@dataclass(frozen=True, slots=True)
class Declared:
    """As a `JobSpec` has it: see there. Without `queue` it is of the broker itself."""

    gpus: int = 1
    share: str = ""
    resources: Mapping[str, str] = field(default_factory=dict)
    queue: str = ""


_NOTHING: Final = Declared()


def declare(gpus: Amount, resources: Mapping[str, Amount]) -> Declared:
    """Read the options `gpus=` and `resources=` of a job.

    Raises:
        TypeError: A value is no number.
        ValueError: No job can have that; option and value are named.
    """
    if type(gpus) is int and gpus == 1 and resources == {}:
        return _NOTHING  # as nearly always
    if not _is_amount(gpus):
        raise TypeError(f"gpus={gpus!r} must be a number: 0, 1, 0.5, 2, or -1 for all")
    if not (
        isinstance(resources, Mapping)
        and all(isinstance(name, str) for name in resources)
        and all(map(_is_amount, resources.values()))
    ):
        raise TypeError(f"resources={resources!r} must map names to numbers: {{'cpu': 4}}")
    try:
        found = parse_gpus(_plain(gpus))
    except ValueError as error:
        raise ValueError(f"gpus={gpus!r}: {error}") from None
    try:
        amounts = {name: parse_resource(name, _plain(one)) for name, one in resources.items()}
    except ValueError as error:
        raise ValueError(f"resources={resources!r}: {error}") from None
    return Declared(*found, amounts)


def _is_amount(value: object) -> bool:
    return isinstance(value, Rational | float | str) and not isinstance(value, bool)


def _plain(value: Amount) -> Amount:
    """The same as one of Python's own numbers: those of numpy are written otherwise."""
    if isinstance(value, float):
        return float(value)
    return int(value) if isinstance(value, Integral) else value


def parse_gpus(value: Amount) -> tuple[int, str]:
    """Give the number of GPUs that is meant, and the exact part where it is one of one.

    Raises:
        ValueError: It is neither; the text says what can be.
    """
    if value in (-1, "-1", ALL_GPUS):
        return -1, ""
    try:
        amount = parse_amount(value)
    except ValueError:
        raise ValueError(
            f"{value!r} is no number of GPUs: write 0, 1, 2, … for so many, 0.5 for a part of "
            "one, or -1 for all"
        ) from None
    if 0 < amount < 1:
        return 1, format_amount(amount)
    return whole_gpus(amount), ""


def whole_gpus(amount: Fraction) -> int:
    """Give a number of GPUs that are not shared.

    Raises:
        ValueError: It is not a whole number, or more than any machine has.
    """
    if amount.denominator != 1:
        raise ValueError(
            f"{format_amount(amount)} GPUs cannot be had: it is a whole number of them, or a "
            "part of one, such as 0.5"
        )
    if amount > MAX_DEVICES:
        raise ValueError(f"{amount} GPUs are more than any machine has ({MAX_DEVICES:,})")
    return int(amount)


def parse_resource(name: str, value: Amount) -> str:
    """Give the exact text of an amount of a resource.

    Raises:
        ValueError: No resource can have this name, or it is no amount above 0.
    """
    check_name(name)
    try:
        amount = parse_amount(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not amount:
        raise ValueError(f"{name}: a job that needs none of it leaves it out")
    return format_amount(amount)


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a resource.

    Raises:
        ValueError: It cannot.
    """
    try:
        require_name(name)
    except ValueError:
        raise ValueError(
            f"{name[:40]!r} is no name of a resource: write letters, digits and _ - . with a "
            "letter first"
        ) from None
