"""Which jobs a reference means: 12, 3-7, 1,4, the beginning of an id, a name, @, @~1."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from grn_zmq.facts import Found

from .jobs import Job

# Fewer hexadecimal digits are too likely a number or a word.
LEAST_PREFIX: Final = 4
# In an answer; more are asked for in parts.
MOST_FOUND: Final = 4000
SHOWN: Final = 5

_NUMBER: Final = re.compile(r"[0-9]{1,15}\Z")
_RANGE: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,15})\Z")
_BACK: Final = re.compile(r"@(?:~([0-9]{1,9}))?\Z")
_HEX: Final = re.compile(rf"[0-9a-f]{{{LEAST_PREFIX},32}}\Z")


def find(refs: Sequence[str], jobs: Collection[Job]) -> list[Found]:
    """Say what each reference means; the jobs are gone through once for all of them.

    A name wins over a number, which wins over the beginning of an id.
    """
    index = _Index(refs, jobs)
    return [_found(ref, index) for ref in refs]


class _Index:
    """The jobs by all that these references may know them by."""

    def __init__(self, refs: Sequence[str], jobs: Collection[Job]) -> None:
        parts = {part for ref in refs for part in _parts(ref)}
        prefixes = tuple(part for part in parts if _HEX.match(part))
        names = {*refs, *parts}
        self.numbers: dict[int, Job] = {}
        self.names: dict[str, list[Job]] = {}
        self._prefixed: list[Job] = []
        for job in jobs:
            self.numbers[job.number] = job
            if job.spec.name in names:
                self.names.setdefault(job.spec.name, []).append(job)
            if prefixes and job.job_id.startswith(prefixes):
                self._prefixed.append(job)
        backs = any(_BACK.match(part) for part in parts)
        self.newest = sorted(self.numbers, reverse=True) if backs else []

    def within(self, first: int, last: int) -> list[Job]:
        if last - first < len(self.numbers):
            spanned = (self.numbers.get(one) for one in range(first, last + 1))
            return [job for job in spanned if job is not None]
        return [job for number, job in self.numbers.items() if first <= number <= last]

    def beginning_with(self, prefix: str) -> list[Job]:
        return [job for job in self._prefixed if job.job_id.startswith(prefix)]


def _parts(ref: str) -> list[str]:
    return [part for part in ref.split(",") if part]


def _found(ref: str, index: _Index) -> Found:
    parts = _parts(ref)
    if not parts:
        return Found(ref, (), "an empty reference: write a number, a name or @")
    if named := index.names.get(ref):
        return _of(ref, named)
    jobs: list[Job] = []
    for part in parts:
        these = _of_part(part, index)
        if isinstance(these, str):
            return Found(ref, (), these)
        jobs += these
    return _of(ref, jobs)


def _of_part(part: str, index: _Index) -> list[Job] | str:
    """The jobs that one part of a list means, or what is wrong with it."""
    if named := index.names.get(part):
        return named
    if back := _BACK.match(part):
        steps = int(back[1] or 0)
        if steps >= len(index.newest):
            return f"no job {part}: there are {len(index.newest)} in the list"
        return [index.numbers[index.newest[steps]]]
    if _NUMBER.match(part) and int(part) in index.numbers:
        return [index.numbers[int(part)]]
    if (span := _RANGE.match(part)) and (spanned := index.within(int(span[1]), int(span[2]))):
        return spanned
    begun = index.beginning_with(part) if _HEX.match(part) else []
    if len(begun) > 1:
        shown = ", ".join(f"{job.job_id[:12]} ({job.number})" for job in begun[:SHOWN])
        return f"{part} is the beginning of {len(begun)} ids: {shown}. Write more of it"
    return begun or f"no job {part}: `grn ps --all` lists those there are"


def _of(ref: str, jobs: Iterable[Job]) -> Found:
    unique = sorted({job.job_id: job for job in jobs}.values(), key=lambda job: job.number)
    if len(unique) > MOST_FOUND:
        text = f"{ref} means {len(unique)} jobs: at most {MOST_FOUND} at once, so split it"
        return Found(ref, (), text)
    return Found(ref, tuple(job.job_id for job in unique), "")
