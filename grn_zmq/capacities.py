"""Capacities of queues, and what jobs need of them, as people write both: in JSON5. Pure.

`{gpu:4}` are four instances of 1, `{hdd:[32,64,128]}` three of these amounts, and
`{gpu:{'2':1,'4':1}}` two that have names. Every number is taken exactly as it is written.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from .amounts import format_amount, parse_amount
from .declared import Declared, check_name, parse_resource, whole_gpus
from .requiring import require_word

# The resource whose instances are managed devices, by index.
GPU: Final = "gpu"

CAPACITY_FORMS: Final = "write {gpu:4,cpu:16}, {hdd:[32,64,128]} or {gpu:{'2':1,'4':1}}"
NEED_FORM: Final = "write {gpu:0.5,cpu:4}"
# Longer ones take the reader of JSON5 seconds, and nobody writes them.
MOST_CHARACTERS: Final = 20_000
# More instances of 1 are surely meant as one pool.
MOST_INSTANCES: Final = 1024
# So much is shown of a text that is refused.
_SHOWN: Final = 60
# How the reader of JSON5 says where it is.
_PLACE: Final = re.compile(r"<string>:(\d+) ")


class _Number(str):
    """A number as it was written; of a mere text it is told apart by its class."""


def parse_capacity(text: str) -> dict[str, dict[str, str]]:
    """Read what a queue has: by resource and instance, the exact amount.

    Raises:
        ValueError: It is no capacity; the text says what is wrong, and shows the right form.
    """
    found = _read(text, CAPACITY_FORMS)
    try:
        return {name: _capacity(name, value) for name, value in found.items()}
    except ValueError as error:
        raise ValueError(f"{error}; {CAPACITY_FORMS}") from None


def write_capacity(capacity: Mapping[str, Mapping[str, str]]) -> str:
    """Write what a queue has as `parse_capacity` reads it, as short as can be."""
    return f"{{{','.join(f'{name}:{_written(one)}' for name, one in capacity.items())}}}"


def _written(instances: Mapping[str, str]) -> str:
    amounts = [_quoted(amount) for amount in instances.values()]
    if list(instances) != [str(at) for at in range(len(instances))]:
        named = (f"'{name}':{one}" for name, one in zip(instances, amounts, strict=True))
        return f"{{{','.join(named)}}}"
    return str(len(amounts)) if set(amounts) == {"1"} else f"[{','.join(amounts)}]"


def write_need(needed: Declared) -> str:
    """Write what a job needs of its queue as `parse_need` reads it."""
    gpus = needed.share or str(needed.gpus)
    needs = {**({GPU: gpus} if gpus != "0" else {}), **needed.resources}
    return f"{{{','.join(f'{name}:{_quoted(one)}' for name, one in needs.items())}}}"


def _quoted(amount: str) -> str:
    """JSON5 has no fractions but in quotes."""
    return f"'{amount}'" if "/" in amount else amount


def parse_need(text: str, queue: str) -> Declared:
    """Read what a job needs of a queue; without `gpu` it needs no device.

    Of a GPU, 1 is the whole and less a part; two and more are so many whole ones.

    Raises:
        ValueError: No job can need this; the text says why, and shows the right form.
    """
    needs = _read(text, NEED_FORM) if text else {}
    try:
        gpus, share = _gpus(needs.pop(GPU, _Number("0")))
        resources = {
            name: parse_resource(name, amount)
            for name, value in needs.items()
            if (amount := _amount(name, value))
        }
    except ValueError as error:
        raise ValueError(f"{error}; {NEED_FORM}") from None
    return Declared(gpus, share, resources, queue)


def _read(text: str, forms: str) -> dict[str, Any]:
    """Read an object; its numbers stay as they were written."""
    import json5

    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"{shown!r} has {len(text):,} characters: at most {MOST_CHARACTERS:,}")
    if not text.strip():
        raise ValueError(f"nothing is written here; {forms}")
    if not text.lstrip().startswith(("{", "[", "/")):
        raise ValueError(
            f"{shown!r} has no braces: put it in quotes, because shells take braces for "
            f"themselves; {forms}"
        )
    try:
        found = json5.loads(
            text,
            parse_int=_number,
            parse_float=_number,
            parse_constant=_number,
            allow_duplicate_keys=False,
        )
    except RecursionError:
        raise ValueError(f"{shown!r} has too many braces in each other; {forms}") from None
    except ValueError as error:
        why = _PLACE.sub(r"line \1: ", str(error))
        raise ValueError(f"{shown!r} is no JSON5 ({why}); {forms}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{shown!r} names no resource; {forms}")
    return found


def _number(written: str, base: int = 10) -> _Number:
    return _Number(written if base == 10 else int(written, base))


def _capacity(name: str, value: Any) -> dict[str, str]:
    check_name(name)
    match value:
        case list():
            named: Mapping[str, Any] = {str(at): one for at, one in enumerate(value)}
        case dict():
            named = value
        case _:
            named = dict.fromkeys(map(str, range(_count(name, value))), _Number("1"))
    if not named:
        raise ValueError(f"{name} has no instance: leave it out where there is none")
    if len(named) > MOST_INSTANCES:
        raise ValueError(f"{name} has {len(named):,} instances: at most {MOST_INSTANCES:,}")
    for instance in named:
        _check_instance(name, instance)
    return {one: format_amount(_amount(name, amount)) for one, amount in named.items()}


def _count(name: str, value: Any) -> int:
    """Give how many instances of 1 are meant."""
    count = _amount(name, value)
    if count.denominator != 1:
        raise ValueError(
            f"{name}: {value} is no number of instances; one instance of so much is "
            f"{name}:[{value}]"
        )
    if count > MOST_INSTANCES:
        raise ValueError(
            f"{name}: {value} instances of 1 are too many (at most {MOST_INSTANCES:,}); one "
            f"pool of so much is {name}:[{value}]"
        )
    return int(count)


def _check_instance(name: str, instance: str) -> None:
    """Its name stands in variables and command lines, several with commas between."""
    try:
        require_word(instance)
        if not instance or "," in instance:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{name}: {instance[:40]!r} is no name of an instance: write letters and digits"
        ) from None


def _amount(name: str, value: Any) -> Fraction:
    if not isinstance(value, str):
        kinds = {dict: "an object", list: "a list", bool: "true or false"}
        raise ValueError(
            f"{name}: {kinds.get(type(value), 'null')} where an amount is expected"
        )
    try:
        return parse_amount(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _gpus(value: Any) -> tuple[int, str]:
    if value == "-1":
        return -1, ""
    amount = _amount(GPU, value)
    if 0 < amount <= 1:
        return 1, format_amount(amount)
    try:
        return whole_gpus(amount), ""
    except ValueError as error:
        raise ValueError(f"{GPU}: {error}") from None
