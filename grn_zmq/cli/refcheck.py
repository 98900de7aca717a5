"""What can be a reference to a job at all, known without asking the broker."""

from typing import Final

from ..limits import MAX_NAME

# How much is shown of what nobody can have meant.
_MOST_SHOWN: Final = 40


def check_ref(text: str) -> str:
    """Give a reference back if it can be one: no name has other characters, or more of them.

    Raises:
        ValueError: It cannot.
    """
    if not text.isprintable():
        raise ValueError(f"{text[:_MOST_SHOWN]!r} is no job: write a number, a name or @")
    if len(text) > MAX_NAME:
        raise ValueError(
            f"{text[:_MOST_SHOWN]}… is no job: it has {len(text):,} characters, and at most "
            f"{MAX_NAME:,} can be. Write a long list as several words, or as ranges (3-7)"
        )
    return text
