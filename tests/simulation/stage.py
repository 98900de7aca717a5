"""What the simulated world is made of: devices, shared code, kinds of job."""

from dataclasses import dataclass, field
from typing import Final

from grn_zmq.records import Blob, Offer
from tests.simulation.spool import SimSpool

BLOBS: Final = {f"blob {number}": Blob(f"blob {number}", b"code") for number in range(3)}
# What jobs of each type use, in MiB.
NEEDS: Final = {"tiny": 20, "small": 150, "middle": 300, "large": 550, "huge": 900}
OUTCOMES: Final = (
    "failed",
    "failed",
    "killed",
    "oom",
    "oom",
    "timed-out",
    "lost",
    "expired",
)


@dataclass
class Slot:
    """A device, whoever its worker is at the moment, and the spool that they share."""

    index: int
    total: int
    max_jobs: int | None
    offers: tuple[Offer, ...] = ()
    foreign: int = 0
    spool: SimSpool = field(default_factory=SimSpool)
