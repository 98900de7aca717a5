"""The other devices of leases that this worker leads: it reads them too, for their jobs.

Each has a worker of its own, to which these jobs are strangers. One that cannot be read
keeps nobody from the others, nor from the jobs.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from loguru import logger

from grn_zmq.errors import GrnError
from grn_zmq.records import Leased

from .devices.callers import Callers
from .devices.device import Device, DeviceUnreadable, Sample, Tree
from .events import Elsewhere

# Opening asks the driver a dozen questions: not at every look, where it fails.
OPEN_AGAIN_S: Final = 1.0

OpenDevice = Callable[[str], Device]


@dataclass(slots=True)
class _Guest:
    name: str
    device: Device | None = None
    callers: Callers = field(default_factory=Callers)
    readable: bool = True
    open_at: float = 0.0

    def open(self, open_device: OpenDevice, now: float) -> None:
        """Open it, unless it is; what fails is tried again by and by."""
        if self.device is not None or now < self.open_at:
            return
        self.open_at = now + OPEN_AGAIN_S
        try:
            self.device = open_device(self.name)
        except GrnError as error:
            self._complain(error)

    def look(self, trees: Mapping[str, Tree]) -> Sample | None:
        """What it shows of these trees; None if it does not answer."""
        if self.device is None:
            return None
        try:
            sample = self.callers.divide(self.device.sample(trees), trees)
        except DeviceUnreadable as error:
            self._complain(error)
            return None
        self.readable = True
        return sample

    def close(self) -> None:
        if self.device is not None:
            self.device.close()

    def _complain(self, error: GrnError) -> None:
        if self.readable:
            facts = {"device": self.name, "why": str(error)}
            logger.bind(facts=facts).warning("could not read another device of a lease")
        self.readable = False


class Guests:
    """Those devices by uuid, open while a job has them."""

    def __init__(self, open_device: OpenDevice) -> None:
        """Have none.

        Args:
            open_device: Opens a device by the name that it has among workers.
        """
        self._open_device = open_device
        self._guests: dict[str, _Guest] = {}

    def keep(self, wanted: Collection[Leased], now: float) -> None:
        """Have these open, before their job touches them, and no others."""
        names = {one.uuid: f"{one.label}/{one.uuid}" for one in wanted}
        for uuid in self._guests.keys() - names.keys():
            self._guests.pop(uuid).close()
        for uuid, name in names.items():
            self._guests.setdefault(uuid, _Guest(name)).open(self._open_device, now)

    def __len__(self) -> int:
        return len(self._guests)

    def look(self, trees: Mapping[str, Mapping[str, Tree]]) -> list[Elsewhere]:
        """Look at each for the trees of the jobs that have it.

        Args:
            trees: By uuid of the device, and then by job.
        """
        found: list[Elsewhere] = []
        for uuid, guest in self._guests.items():
            sample = guest.look(trees.get(uuid, {}))
            if sample is not None:
                found.append(Elsewhere(uuid, sample.by_tree, sample.seen))
        return found

    def opened(self, leased: Sequence[Leased]) -> list[Device]:
        """Give these devices.

        Raises:
            DeviceUnreadable: One could not be opened.
        """
        devices: list[Device] = []
        for one in leased:
            guest = self._guests.get(one.uuid)
            if guest is None or guest.device is None:
                raise DeviceUnreadable(one.label, "it could not be opened")
            devices.append(guest.device)
        return devices

    def close(self) -> None:
        """Let go of all."""
        for guest in self._guests.values():
            guest.close()
        self._guests.clear()
