"""Many objects that differ from one in a few fields, made as fast as Python makes objects."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")


def cloner(cls: type[T], *varied: str) -> Callable[..., list[T]]:
    """Make what gives objects like one of a slotted dataclass, which differ in these fields.

    It takes the object to be like and a column for each field. Nothing is checked or called:
    what they share was checked before, and of what differs the caller knows that it is right.
    """
    names = [one.name for one in fields(cls)]  # type: ignore[arg-type]
    known: dict[str, Any] = {f"put_{name}": getattr(cls, name).__set__ for name in names}
    known |= {"new": object.__new__, "cls": cls}
    shared = [name for name in names if name not in varied]
    reads = "".join(f"    {name} = like.{name}\n" for name in shared)
    puts = "".join(f"        put_{name}(made, {name})\n" for name in names)
    columns = ", ".join(f"{name}_column" for name in varied)
    exec(
        f"def clones(like, {columns}):\n{reads}    found = []\n"
        f"    for {', '.join(varied)}, in zip({columns}, strict=True):\n"
        f"        made = new(cls)\n{puts}        found.append(made)\n    return found\n",
        known,
    )
    clones: Callable[..., list[T]] = known["clones"]
    return clones
