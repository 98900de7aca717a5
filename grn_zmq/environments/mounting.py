"""Which directories are found inside, and where. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .environment import BadEnvironment
from .requests import Mount, not_covered


class Mounted(NamedTuple):
    """A directory or file of this machine, and its place inside."""

    source: str
    target: str
    writable: bool


def parse_mount(text: str) -> Mounted:
    """Read `/data`, `/data:/inside` or `/data:/inside:ro`.

    Raises:
        ValueError: It is none of these.
    """
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    target = target or source
    absolute = source.startswith("/") and target.startswith("/")
    if not absolute or mode not in ("", "ro", "rw"):
        raise ValueError(f"{text!r}: write /data, /data:/inside or /data:/inside:ro")
    return Mounted(source, target, mode != "ro")


def problem_of(texts: Sequence[str]) -> tuple[str, str] | None:
    """Say what to write in the place of `mounts` that cannot be; None if they can."""
    try:
        for text in texts:
            parse_mount(text)
    except ValueError:
        return "mounts", 'a list such as ["/data", "/data:/inside:ro"]'
    return None


def mounted(given: Sequence[str], needed: Iterable[Mount]) -> list[Mounted]:
    """Put together what the table has and what an attempt needs; the table wins."""
    ours = [parse_mount(text) for text in given]
    taken = {one.target for one in ours}
    more = [Mounted(one.path, one.path, one.writable) for one in not_covered(needed)]
    return [*ours, *(one for one in more if one.target not in taken)]


def check_mountable(mounts: Iterable[Mounted], forbidden: str) -> None:
    """Refuse names that the command line of a container program would take apart.

    Raises:
        BadEnvironment: One has such a character.
    """
    for one in mounts:
        for character in forbidden:
            if character in one.source + one.target:
                raise BadEnvironment(
                    f"the directory {one.source!r} cannot be mounted in a container because "
                    f"its name has a {character!r}: rename it, or run from another directory"
                )
