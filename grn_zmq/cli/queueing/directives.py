"""Options in a script: lines such as `# GRN --time 2h` in its leading comments."""

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

# What is read of a script at most: comments at its head are shorter.
HEAD_BYTES: Final = 1 << 16

# A dash has to follow: a comment may speak of GRN, too.
_DIRECTIVE: Final = re.compile(r"#+\s*GRN\s+(-.*)")
# Interpreters, and those of their options whose value is a word of its own.
_INTERPRETERS: Final = {
    re.compile(r"(python|pypy)[0-9.]*t?"): ("-X", "-W"),
    re.compile(r"(ba|da|k|z|fi)?sh"): ("-o", "-O", "+o", "+O"),
    re.compile(r"perl|ruby|Rscript|julia|node|lua|php"): (),
}


@dataclass(frozen=True, slots=True)
class Directive:
    """The words of one line, and where it stands."""

    line: int
    words: tuple[str, ...]


def script_in(words: Sequence[str], cwd: str) -> str | None:
    """Give the path of the script that a command runs, if it runs one that can be read.

    It is the first word, or the first one after an interpreter and its options.
    """
    program = words[0]
    for interpreter, with_value in _INTERPRETERS.items():
        if interpreter.fullmatch(os.path.basename(program)):
            name = _after_options(words[1:], with_value)
            break
    else:
        name = program if "/" in program else shutil.which(program)
    path = os.path.join(cwd, name.removeprefix("./")) if name else ""
    return path if os.path.isfile(path) else None


def _after_options(words: Sequence[str], with_value: Sequence[str]) -> str | None:
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in with_value:
            skip = True
        elif not word.startswith(("-", "+")):
            return word
        elif word == "-m" or (word[1:2] != "-" and word.endswith("c")):
            return None  # a module, or code in place of a script
    return None


def read_directives(path: str) -> list[Directive]:
    """Give the directives of a script; none if it cannot be read.

    Raises:
        UsageError: The quotes of one do not match; file and line are named.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return []
    return directives_in(head.decode(errors="replace"), path)


def directives_in(text: str, path: str) -> list[Directive]:
    """Give the directives before the first line that is neither empty nor a comment."""
    found: list[Directive] = []
    for number, line in enumerate(map(str.strip, text.split("\n")), 1):
        if line and not line.startswith("#"):
            break
        if match := _DIRECTIVE.fullmatch(line):
            found.append(Directive(number, _words(match[1], path, number)))
    return found


def _words(text: str, path: str, number: int) -> tuple[str, ...]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"{path}, line {number}: quotes do not match: {error}") from None
    return tuple(words[: words.index("#")] if "#" in words else words)
