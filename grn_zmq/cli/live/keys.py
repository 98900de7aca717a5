"""Keys of a terminal: the bytes it sends become names, or the characters themselves."""

import re
from typing import Final

_NAMED: Final = {
    "A": "up",
    "B": "down",
    "H": "home",
    "F": "end",
    "1~": "home",
    "7~": "home",
    "4~": "end",
    "8~": "end",
    "5~": "pgup",
    "6~": "pgdn",
}
_SINGLE: Final = {"\r": "enter", "\n": "enter", "\x1b": "esc", "\x7f": "backspace"}
# What keys without a character send: an escape, a bracket or an O, numbers, and a last letter.
_SEQUENCE: Final = re.compile(r"\x1b[\[O]([0-9;]*[A-Za-z~])")
_BEGINNING: Final = re.compile(r"\x1b(?:[\[O][0-9;]*)?\Z")


class Keys:
    """Cuts what a terminal sends into keys; a key may come in pieces."""

    def __init__(self) -> None:
        self._rest = ""

    @property
    def undecided(self) -> bool:
        """Whether what came last is Esc, or only the beginning of another key."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        """Give the keys that are complete; those that nobody knows are left out."""
        text, self._rest = self._rest + data.decode(errors="ignore"), ""
        found: list[str] = []
        while text:
            if match := _SEQUENCE.match(text):
                found += [_NAMED[match[1]]] if match[1] in _NAMED else []
                text = text[match.end() :]
            elif _BEGINNING.match(text):
                self._rest, text = text, ""
            else:
                found.append(_SINGLE.get(text[0], text[0]))
                text = text[1:]
        return found

    def settle(self) -> list[str]:
        """Nothing followed: then it was Esc."""
        undecided, self._rest = self._rest, ""
        return ["esc"] if undecided else []
