"""Grids: one job for each combination of values, and its values put in place of `{name}`."""

import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Final

from ...limits import MAX_NAME
from ...naming import type_of_command
from ...placeholders import NAMES as LEASE_NAMES
from ..common import counted

# One submission makes so many jobs at most; the broker keeps twice as many waiting.
MOST_JOBS: Final = 100_000
# `{array}` and `{index}` are the index of a job in its --array; it sees it by this name, too.
INDEX_NAMES: Final = ("array", "index")
INDEX_VARIABLE: Final = "GRN_ARRAY_TASK_ID"

_NAME: Final = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_PLACE: Final = re.compile(r"(\{+)([A-Za-z_][\w.-]*)(\}+)", re.ASCII)
_SPAN: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", re.ASCII)
# Values end at commas, but not at `\,`.
_COMMA: Final = re.compile(r"(?<!\\),")
# Stands for any value while a type is made: a number, and none that anybody writes.
_ANY: Final = "7" * 40


def parse_name(text: str) -> str:
    """Check a name that can stand in braces.

    Raises:
        ValueError: It cannot.
    """
    if len(text) > MAX_NAME:
        raise ValueError(f"a name has at most {MAX_NAME:,} characters, this one {len(text):,}")
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is no name: use letters, digits, and _ . - inside")
    return text


def parse_param(text: str) -> tuple[str, tuple[str, ...]]:
    """Read `lr=0.1,0.01`, or `lr=["a,b", ""]` for values with commas or without anything.

    Raises:
        ValueError: It is no list of values.
    """
    name, equals, values = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} has no values: write NAME=VALUE,VALUE")
    if name in INDEX_NAMES:
        raise ValueError(f"{{{name}}} is the index of --array: take another name")
    if name in LEASE_NAMES:
        raise ValueError(
            f"{{{name}}} is filled in by the lease when a job starts: take another name"
        )
    if values.lstrip().startswith("["):
        return parse_name(name), _listed(name, values)
    split = tuple(one.strip().replace("\\,", ",") for one in _COMMA.split(values))
    if "" in split:
        raise ValueError(
            f"{name} has an empty value: leave out a comma, or write {name}='[\"\"]' to mean it"
        )
    return parse_name(name), split


def _listed(name: str, text: str) -> tuple[str, ...]:
    """The values of a JSON list; numbers stay as they were written."""
    try:
        values = json.loads(text, parse_int=str, parse_float=str)
    except ValueError:
        values = None
    if not isinstance(values, list) or not values:
        raise ValueError(
            f'{name}={text} is no JSON list such as [1, "a,b"]; a comma inside a value of a '
            "plain list is written \\,"
        )
    if not all(isinstance(value, str | bool) for value in values):
        raise ValueError(f"{name}={text} must be a list of texts and numbers only")
    return tuple(one if isinstance(one, str) else str(one).lower() for one in values)


def parse_array(text: str) -> tuple[int, ...]:
    """Read `1-10`, `0-100:20` or `1,3,7` as the indices of jobs, each once.

    Raises:
        ValueError: It is none of these, or too many.
    """
    spans = [_span(part.strip(), text) for part in text.split(",")]
    check_count(sum(map(len, spans)))
    return tuple(dict.fromkeys(index for span in spans for index in span))


def _span(part: str, text: str) -> range:
    match = _SPAN.fullmatch(part)
    if match is None:
        raise ValueError(f"{text!r} is no list of indices: write 1-10, 0-100:20 or 1,3,7")
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first or not step:
        raise ValueError(f"{part} of {text!r} has no index in it: write the smaller one first")
    return range(first, last + 1, step)


def check_count(count: int) -> None:
    """Refuse more jobs than anybody submits at once on purpose.

    Raises:
        ValueError: There are more.
    """
    if count > MOST_JOBS:
        raise ValueError(
            f"that is {counted(count, 'job')}: at most {MOST_JOBS:,} at once. Split it, and "
            "submit one part after the other"
        )


def grid(
    params: Mapping[str, Sequence[str]], array: Sequence[int] | None
) -> list[dict[str, str]]:
    """Give the values of each job, the last name varying fastest, the array faster still.

    Raises:
        ValueError: There are too many.
    """
    axes: dict[str, Sequence[str]] = dict(params)
    if array is not None:
        axes[INDEX_NAMES[0]] = list(map(str, array))
    check_count(math.prod(map(len, axes.values())))
    points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    if array is not None:
        for point in points:
            point |= dict.fromkeys(INDEX_NAMES, point[INDEX_NAMES[0]])
    return points


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in place of their names in braces; other braces are left alone.

    Doubled braces are literal ones, as in Python: `{{lr}}` gives `{lr}`, `{{{lr}}}` gives
    `{0.1}`.
    """

    def value(match: re.Match[str]) -> str:
        left, name, right = match.groups()
        if name not in values:
            return match[0]
        braces = min(len(left), len(right))
        kept = braces // 2
        inner = values[name] if braces % 2 else name
        outside = left[braces:], right[braces:]
        return f"{outside[0]}{'{' * kept}{inner}{'}' * kept}{outside[1]}"

    return _PLACE.sub(value, text) if "{" in text else text


def names_in(texts: Iterable[str]) -> set[str]:
    """The names whose values some of these texts take."""
    return {
        match[2]
        for text in texts
        for match in _PLACE.finditer(text)
        if min(len(match[1]), len(match[3])) % 2
    }


def type_of_grid(words: Sequence[str], names: Iterable[str]) -> str:
    """The job type of all commands of a grid: what differs between them is written `#`.

    So a grid over numbers has the type that each of its commands would have by itself.
    """
    any_values = dict.fromkeys(names, _ANY)
    text = shlex.join(fill(word, any_values) for word in words)
    return type_of_command(text).replace(_ANY, "#")
