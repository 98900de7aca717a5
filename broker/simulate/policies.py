"""What is compared: our policy, one that knows everything, and what else users could pick."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ..profiles import Profiles
from ..settings import Settings
from . import beliefs
from .describing import (
    Describe,
    all_alike,
    by_arguments,
    by_fraction,
    by_true_size,
    by_type,
)
from .jobs import Stream

# No heartbeats are simulated: nobody falls silent.
LEARNING: Final = Settings(silence_s=math.inf)
# Who promises fixed sizes keeps no room for doubt.
NO_HEADROOM: Final = Settings(silence_s=math.inf, overflow=0.5)
# Jobs that fail are handed in again so often before their user gives up.
PATIENCE: Final = 8


@dataclass(frozen=True, slots=True)
class Policy:
    """How the core is set up, how jobs are described to it, and who repairs a failure."""

    name: str
    title: str
    believe: Callable[[Stream], Profiles]
    settings: Settings = LEARNING
    max_jobs: int | None = None
    describing: Callable[[Stream], Describe] = by_arguments
    oom_retries: int = 0
    resubmits: int = 0
    resubmits_alone: bool = False
    warm: bool = False
    # Another belief to try as well; what came out better counts.
    or_else: Callable[[Stream], Profiles] | None = None
    # Failures that its own machinery repairs; otherwise each is one a user has to deal with.
    repairs: bool = True
    # Dropping a job is then a mistake of this program, and not what the policy is like.
    must_end: bool = False


def learning(_: Stream) -> Profiles:
    return Profiles()


COLD: Final = Policy("cold", "ours, cold", learning, oom_retries=2, must_end=True)
ORACLE: Final = Policy(
    "oracle",
    "oracle",
    beliefs.Oracle,
    or_else=beliefs.LengthlessOracle,
    settings=NO_HEADROOM,
    describing=by_true_size,
    oom_retries=2,
    must_end=True,
)
EXCLUSIVE: Final = Policy(
    "exclusive",
    "one job per device",
    beliefs.WholeDevice,
    settings=NO_HEADROOM,
    max_jobs=1,
    describing=all_alike,
)

POLICIES: Final = (
    ORACLE,
    COLD,
    Policy("warm", "ours, warm", learning, oom_retries=2, warm=True, must_end=True),
    EXCLUSIVE,
    Policy(
        "fractions",
        "declared fractions",
        beliefs.DeclaredFractions,
        settings=NO_HEADROOM,
        describing=by_fraction,
        oom_retries=2,
    ),
    Policy(
        "sticky",
        "first peak, sticky",
        beliefs.FirstPeak,
        settings=NO_HEADROOM,
        describing=by_type,
        resubmits=PATIENCE - 1,
        repairs=False,
    ),
    Policy(
        "max-seen",
        "max seen, whole retry",
        beliefs.MaxSeen,
        settings=NO_HEADROOM,
        describing=by_type,
        resubmits=1,
        resubmits_alone=True,
    ),
)
BY_NAME: Final[Mapping[str, Policy]] = {policy.name: policy for policy in POLICIES}
