"""Descriptions of jobs as the broker keeps them: small, because there are very many."""

import hashlib
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Final

from grn_zmq.limits import DEFAULT_GRACE_S
from grn_zmq.records import JobSpec, Scalar

from .cells import Key, key_of

DIGEST_BYTES: Final = 16
# So many combinations of arguments are shared between the jobs that have them.
MOST_SHARED: Final = 8192
_NO_ARGUMENTS: Final[dict[str, Scalar]] = {}


def digest_of(spec: JobSpec) -> bytes:
    """What tells the payload of a job from any other, wherever it lies."""
    content = hashlib.blake2b(spec.payload, digest_size=DIGEST_BYTES)
    content.update(spec.token.encode())
    return content.digest()


def shared_by(by: dict[str, Scalar]) -> dict[str, Scalar]:
    """The same arguments; equal ones are one object. Not to be changed."""
    return _arguments(tuple(by.items()), tuple(map(type, by.values()))) if by else _NO_ARGUMENTS


def shared_key(spec: JobSpec) -> Key:
    """What profiles know a job by; equal ones are one object."""
    by = spec.by
    return _key(spec.job_type, tuple(by.items()), tuple(map(type, by.values())))


# The types are told apart because 1, 1.0 and True are equal, and mean different things.
@lru_cache(maxsize=MOST_SHARED)
def _arguments(
    by: tuple[tuple[str, Scalar], ...], types: tuple[type, ...]
) -> dict[str, Scalar]:
    return dict(by)


@lru_cache(maxsize=MOST_SHARED)
def _key(job_type: str, by: Iterable[tuple[str, Scalar]], types: tuple[type, ...]) -> Key:
    return key_of(job_type, dict(by))


def compact(spec: JobSpec) -> JobSpec:
    """The same description; what equal jobs have in common is there only once."""
    return replace(
        spec,
        job_type=sys.intern(spec.job_type),
        name=sys.intern(spec.name),
        kind=sys.intern(spec.kind),
        by=shared_by(spec.by),
        policy=sys.intern(spec.policy),
        function=sys.intern(spec.function),
        context=sys.intern(spec.context),
        parent=sys.intern(spec.parent),
        version=sys.intern(spec.version),
        grace_s=DEFAULT_GRACE_S if spec.grace_s == DEFAULT_GRACE_S else spec.grace_s,
    )


def bare(spec: JobSpec) -> JobSpec:
    """The description without the payload."""
    return replace(spec, payload=b"") if spec.payload else spec
