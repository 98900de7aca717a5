"""Which jobs a reference means: 12, 3-7, 1,4, the beginning of an id, a name, @, @~1."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from grn_zmq.facts import Found

from .jobs import Job

# Fewer hexadecimal digits are too likely a number or a word.
LEAST_PREFIX: Final = 4
# In an answer; more are asked for in parts.
MOST_FOUND: Final = 4000
SHOWN: Final = 5

_RANGE: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,15})\Z")
_BACK: Final = re.compile(r"@(?:~([0-9]{1,9}))?\Z")
_HEX: Final = re.compile(rf"[0-9a-f]{{{LEAST_PREFIX},32}}\Z")


@dataclass(slots=True)
class _Wanted:
    """One reference, and what was found for each way of reading it."""

    ref: str
    parts: tuple[str, ...]
    named: list[Job] = field(default_factory=list)
    numbered: list[Job] = field(default_factory=list)
    prefixed: list[Job] = field(default_factory=list)


def find(refs: Sequence[str], jobs: Collection[Job]) -> list[Found]:
    """Say what each reference means; the jobs are gone through once for all of them.

    A name wins over a number, which wins over the beginning of an id.
    """
    wanted = [_Wanted(ref, tuple(filter(None, ref.split(",")))) for ref in refs]
    newest = _newest(refs, jobs)
    for job in jobs:
        for one in wanted:
            _look(one, job)
    return [_found(one, newest) for one in wanted]


def _newest(refs: Iterable[str], jobs: Collection[Job]) -> list[Job]:
    """The jobs that were accepted last, the last one first, as far as anybody asks."""
    backs = [_BACK.match(part) for ref in refs for part in ref.split(",")]
    depth = max((int(one[1] or 0) + 1 for one in backs if one), default=0)
    return sorted(jobs, key=lambda job: -job.number)[:depth] if depth else []


def _look(one: _Wanted, job: Job) -> None:
    if job.spec.name == one.ref:
        one.named.append(job)
    for part in one.parts:
        if _is_number(part, job.number):
            one.numbered.append(job)
        elif _HEX.match(part) and job.job_id.startswith(part):
            one.prefixed.append(job)


def _is_number(part: str, number: int) -> bool:
    if part.isdecimal():
        return int(part) == number
    span = _RANGE.match(part)
    return span is not None and int(span[1]) <= number <= int(span[2])


def _found(one: _Wanted, newest: list[Job]) -> Found:
    if not one.ref or not one.parts:
        return Found(one.ref, (), "an empty reference: write a number, a name or @")
    if one.named:
        return _of(one.ref, one.named)
    jobs = list(one.numbered)
    for part in one.parts:
        these, error = _of_part(part, one, newest)
        if error:
            return Found(one.ref, (), error)
        jobs += these
    return _of(one.ref, jobs)


def _of_part(part: str, one: _Wanted, newest: list[Job]) -> tuple[list[Job], str]:
    """The jobs of one part of a list that were not found by number, or what is wrong."""
    if back := _BACK.match(part):
        steps = int(back[1] or 0)
        if steps >= len(newest):
            return [], f"no job {part}: there are {len(newest)} in the list"
        return [newest[steps]], ""
    if any(_is_number(part, job.number) for job in one.numbered):
        return [], ""
    these = [job for job in one.prefixed if job.job_id.startswith(part)]
    if len(these) > 1:
        shown = ", ".join(f"{job.job_id[:12]} ({job.number})" for job in these[:SHOWN])
        return [], f"{part} is the beginning of {len(these)} ids: {shown}. Write more of it"
    if not these:
        return [], f"no job {part}: `grn ps --all` lists those there are"
    return these, ""


def _of(ref: str, jobs: Iterable[Job]) -> Found:
    unique = sorted({job.job_id: job for job in jobs}.values(), key=lambda job: job.number)
    if len(unique) > MOST_FOUND:
        return Found(ref, (), f"{ref} means {len(unique)} jobs: at most {MOST_FOUND} at once")
    return Found(ref, tuple(job.job_id for job in unique), "")
