"""What a job declares beyond memory: how many devices, which part, which named resources."""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from grn_zmq.amounts import format_amount, parse_amount
from grn_zmq.records import DeviceFacts, JobSpec

# The resource of a queue whose instances are managed devices, by index.
GPU: Final = "gpu"
# What a job without device takes of the broker's own capacity, unless it says otherwise.
CPU: Final = "cpu"

Needs = Mapping[str, Fraction]
# By resource: the instances that a job has, and how much of each.
Granted = dict[str, dict[str, Fraction]]

_NOTHING: Final[Needs] = {}


def needs_of(spec: JobSpec) -> Needs:
    """The named resources that a job cannot start without."""
    if not (spec.resources or spec.queue or spec.gpus == 0):
        return _NOTHING
    return _needs(tuple(spec.resources.items()), spec.queue, spec.gpus, spec.share)


@lru_cache(maxsize=1024)
def _needs(resources: tuple[tuple[str, str], ...], queue: str, gpus: int, share: str) -> Needs:
    needs = {name: parse_amount(amount) for name, amount in resources}
    if queue and gpus > 0:
        needs[GPU] = parse_amount(share) if share else Fraction(gpus)
    elif not queue and gpus == 0 and CPU not in needs:
        needs[CPU] = Fraction(1)
    return needs


def share_of(spec: JobSpec) -> Fraction | None:
    """The part of its device that a job declares; None if it is to be learned."""
    return parse_amount(spec.share) if spec.share else None


def wants_whole(spec: JobSpec) -> bool:
    """Whether nobody else may be on its devices."""
    return spec.exclusive or spec.gpus not in (0, 1) or share_of(spec) == 1


def is_among(facts: DeviceFacts, among: tuple[str, ...]) -> bool:
    """Whether a device is one of these, named by index or by the beginning of its uuid."""
    return any(one == str(facts.index) or facts.uuid.startswith(one) for one in among)


def class_on(device_class: str, gpus: int) -> str:
    """What profiles know a model of device by, if a job has so many of them at once."""
    if gpus in (0, 1):
        return device_class
    return f"{'all' if gpus < 0 else gpus} × {device_class}"


def as_texts(granted: Granted) -> dict[str, dict[str, str]]:
    """What was granted as it is kept and sent: amounts are exact as texts."""
    return {
        name: {instance: format_amount(amount) for instance, amount in instances.items()}
        for name, instances in granted.items()
    }


def as_amounts(granted: Mapping[str, Mapping[str, str]]) -> Granted:
    """Read what `as_texts` wrote."""
    return {
        name: {instance: parse_amount(amount) for instance, amount in instances.items()}
        for name, instances in granted.items()
    }
