"""What a command can say of the place it gets: `{gpu}` is the index of its device. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from .units import MIB

if TYPE_CHECKING:
    from .records import Leased

# All there are besides the resources of a queue: `--param` must not take one of these names
# for itself.
NAMES: Final = frozenset(
    {"gpu", "device", "uuid", "memory", "job", "id", "name", "attempt"},
)

# The doubled braces first: `{{gpu}}` is a literal `{gpu}`.
_BRACED: Final = re.compile(r"\{\{([^{}]+)\}\}|\{([^{}]+)\}")


def values_of(
    *,
    job_id: str,
    number: int,
    name: str,
    attempt: int,
    lease_bytes: int,
    devices: "Sequence[Leased]",
    granted: Mapping[str, Mapping[str, str]],
) -> dict[str, str]:
    """Give what each placeholder stands for in one attempt.

    Of several devices or instances there is a list with commas. A resource of the same name
    as anything else here is not meant by it, except `gpu`, whose instances are devices.

    Args:
        devices: Those of its lease; none is an empty text.
        granted: The instances of each resource that it has, with the amount of each.
    """
    instances = {resource: ",".join(names) for resource, names in granted.items()}
    indices = ",".join(str(one.index) for one in devices)
    return {
        **instances,
        "gpu": instances.get("gpu", indices),
        "device": ",".join(one.label for one in devices),
        "uuid": ",".join(one.uuid for one in devices),
        "memory": str(lease_bytes // MIB),
        "job": str(number),
        "id": job_id,
        "name": name,
        "attempt": str(attempt),
    }


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of their names in braces.

    Braces around anything else stay as they are, so JSON and awk need no quoting. A name in
    double braces loses one pair of them, and nothing else happens to it. What is put in is
    not looked at again.
    """

    def value_of(match: re.Match[str]) -> str:
        quoted, name = match.groups()
        if quoted is not None:
            return f"{{{quoted}}}" if quoted in values else match[0]
        return values.get(name, match[0])

    return _BRACED.sub(value_of, text) if "{" in text else text


def fill_words(words: Iterable[str], values: Mapping[str, str]) -> list[str]:
    """Fill each word of a command; a value never becomes several words."""
    return [fill(word, values) for word in words]


def fill_variables(variables: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Fill names and values of environment variables; of equal names the last one stays."""
    return {fill(name, values): fill(text, values) for name, text in variables.items()}
