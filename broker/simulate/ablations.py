"""Our policy with one of its parts taken away, to see what the part is worth."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from grn_zmq.records import DeviceFacts

from ..cells import Key
from ..estimates import Estimate
from ..profiles import Profiles
from .describing import by_type
from .jobs import Stream
from .policies import LEARNING, Policy


class _NoDurations(Profiles):
    """Does not tell how long jobs take: no shorter first, no planned reservation."""

    def duration_s(self, key: Key, device_class: str) -> float | None:
        return None


class _NoLaw(Profiles):
    """Does not tell how fast jobs are alone: sharing is never found to lose."""

    def solo_s(self, key: Key, device_class: str) -> float | None:
        return None


class _NoPooling(Profiles):
    """Gives each job the headroom for its own errors, instead of the device for all."""

    def estimate(self, key: Key, device: DeviceFacts, memory_bytes: int = 0) -> Estimate | None:
        found = super().estimate(key, device, memory_bytes)
        if found is None:
            return None
        margin = LEARNING.sigmas * math.hypot(found.noise_bytes, found.bias_bytes)
        lease = min(found.lease_bytes + int(margin), device.total_bytes)
        return replace(found, lease_bytes=lease, noise_bytes=0.0, bias_bytes=0.0)


_BELIEFS: Final[Mapping[str, type[Profiles]]] = {
    "durations": _NoDurations,
    "sharing-test": _NoLaw,
    "pooling": _NoPooling,
}
_SETTINGS: Final[Mapping[str, Callable[[Policy], Policy]]] = {
    "features": lambda policy: replace(policy, describing=by_type),
    "headroom": lambda policy: replace(policy, settings=replace(policy.settings, overflow=0.5)),
    "settling": lambda policy: replace(
        policy, settings=replace(policy.settings, settle_s=math.inf)
    ),
    "retries": lambda policy: replace(policy, oom_retries=0),
}
ABLATIONS: Final = (*_SETTINGS, *_BELIEFS)


def without(policy: Policy, parts: Sequence[str]) -> Policy:
    """Take parts of our own policy away; what it is compared with stays as it is."""
    if policy.name not in ("cold", "warm"):
        return policy
    for part in parts:
        if part in _SETTINGS:
            policy = _SETTINGS[part](policy)
    lacking = tuple(_BELIEFS[part] for part in parts if part in _BELIEFS)
    return replace(policy, believe=_believer(lacking)) if lacking else policy


def _believer(lacking: tuple[type[Profiles], ...]) -> Callable[[Stream], Profiles]:
    lessened: type[Profiles] = type("Lessened", lacking, {})
    return lambda _: lessened()
