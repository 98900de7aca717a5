"""Values of `by` as people write them, and as lists show them."""

import math
import re
from typing import Final

from ..records import Scalar

_WORDS: Final = {"True": True, "False": False}
_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,40}", re.ASCII)
_NUMBER: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)


def value_of(text: str) -> Scalar:
    """Give the value that is meant: a number, True or False, or the text itself.

    Between numbers the memory need can be guessed; and what a call was given under this name
    must be the same value, or it is another cell.
    """
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return _WORDS.get(text, text)
