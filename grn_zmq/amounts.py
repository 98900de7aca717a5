"""Exact amounts of what is shared: 0.1 is a tenth, and ten of them are one. Pure."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Final

MAX_AMOUNT: Final = 10**15
# Enough digits for any amount that people write; more would be a way to keep others busy, since
# sums of odd fractions get longer and longer.
MAX_TEXT: Final = 40
MAX_DECIMALS: Final = 12
MAX_DENOMINATOR: Final = 1000


def parse_amount(value: "str | int | float | Fraction") -> Fraction:
    """Read an amount: `4`, `0.5`, `1/3`. A float means the number as it is written.

    Raises:
        ValueError: It is no number of zero or more, or far too large.
    """
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{value!r} is not an amount: write a number such as 4 or 0.5")
    text = repr(value) if isinstance(value, float) else str(value)
    try:
        if len(text) > MAX_TEXT or "_" in text:
            raise ValueError
        if "/" in text:
            amount = Fraction(text)
            if amount.denominator > MAX_DENOMINATOR:
                raise ValueError
        else:
            number = Decimal(text)
            if not number.is_finite() or abs(number.adjusted()) > MAX_TEXT:
                raise ValueError
            amount = Fraction(number)
            if 10**MAX_DECIMALS % amount.denominator:
                raise ValueError
    except (ValueError, ArithmeticError):
        shown = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
        raise ValueError(
            f"{shown!r} is not an amount: write a number such as 4 or 0.5"
        ) from None
    if not 0 <= amount <= MAX_AMOUNT:
        raise ValueError(f"{text} is not an amount: it must be from 0 to {MAX_AMOUNT:,}")
    return amount


def format_amount(amount: Fraction) -> str:
    """Write an amount so that reading it gives the same: `4`, `0.5`, or `1/3`."""
    if amount.denominator == 1:
        return str(amount.numerator)
    digits = 0
    while digits <= MAX_DECIMALS and (10**digits) % amount.denominator:
        digits += 1
    if digits > MAX_DECIMALS:
        odd = amount.denominator > MAX_DENOMINATOR  # of a sum, and only to be looked at
        return f"{float(amount):.6g}" if odd else f"{amount.numerator}/{amount.denominator}"
    whole, rest = divmod(amount.numerator * 10**digits // amount.denominator, 10**digits)
    return f"{whole}.{rest:0{digits}d}"
