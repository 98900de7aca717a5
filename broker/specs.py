"""Descriptions of jobs as the broker keeps them: small, because there are very many."""

import hashlib
from collections.abc import Hashable, Iterable
from dataclasses import fields, replace
from functools import lru_cache
from operator import attrgetter
from typing import Final

from grn_zmq.records import JobSpec, Scalar

from .cells import Key, key_of

DIGEST_BYTES: Final = 16
# So many different descriptions are shared between the jobs that have them.
MOST_SHARED: Final = 8192
# What a shared description has in the place of the id of one job.
_NO_ID: Final = "0" * 32

_plain = attrgetter(
    *(
        one.name
        for one in fields(JobSpec)
        if one.name not in ("job_id", "payload", "by", "variables", "resources")
    )
)
_shared: dict[Hashable, JobSpec] = {}


def digest_of(spec: JobSpec) -> bytes:
    """What tells the payload of a job from any other, wherever it lies."""
    return payload_digest(spec.payload, spec.token)


def payload_digest(payload: bytes, token: str = "") -> bytes:
    """The same, of a payload that is here, or of the token of one that lies elsewhere."""
    content = hashlib.blake2b(payload, digest_size=DIGEST_BYTES)
    content.update(token.encode())
    return content.digest()


def shared_key(spec: JobSpec) -> Key:
    """What profiles know a job by; equal ones are one object."""
    return _key(spec.job_type, *_arguments(spec))


# The types are told apart because 1, 1.0 and True are equal, and mean different things.
@lru_cache(maxsize=MOST_SHARED)
def _key(job_type: str, by: Iterable[tuple[str, Scalar]], types: tuple[type, ...]) -> Key:
    return key_of(job_type, dict(by))


def _arguments(spec: JobSpec) -> tuple[tuple[tuple[str, Scalar], ...], tuple[type, ...]]:
    return tuple(spec.by.items()), tuple(map(type, spec.by.values()))


def shared(spec: JobSpec) -> JobSpec:
    """The description without id and payload; equal ones are one object.

    A call of `map` has a hundred thousand jobs that differ in nothing else.
    """
    maps = (tuple(spec.variables.items()), tuple(spec.resources.items()))
    key = (*_plain(spec), *_arguments(spec), *maps)
    found = _shared.get(key)
    if found is None:
        if len(_shared) >= MOST_SHARED:
            _shared.clear()
        found = _shared[key] = bare(spec)
    return found


def bare(spec: JobSpec) -> JobSpec:
    """The description without what tells equal jobs apart: id and payload."""
    return replace(spec, job_id=_NO_ID, payload=b"")
