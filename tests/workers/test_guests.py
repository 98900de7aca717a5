"""The other devices of a lease: open while a job has them, and none disturbs another."""

from collections.abc import Mapping

import pytest

from grn_zmq.errors import DeviceError
from grn_zmq.records import Leased
from workers.devices.device import DeviceInfo, DeviceUnreadable, Sample, Tree
from workers.events import Elsewhere
from workers.guests import OPEN_AGAIN_S, Guests

MIB = 1 << 20
SECOND = Leased("GPU-bb", 1, "nvml:1")
THIRD = Leased("GPU-cc", 2, "nvml:2")
CALLER = Tree(7, 7, counts_root=True)
JOB = Tree(3, 4)


class PlayedDevice:
    """A device on which each tree holds what the test says; None is no answer."""

    def __init__(self, name: str) -> None:
        label, _, uuid = name.partition("/")
        self.info = DeviceInfo(int(label[-1]), "GPU", uuid, 1000 * MIB, "nvml", "GPU")
        self.mib: int | None = 0
        self.closed = False

    def sample(self, trees: Mapping[str, Tree]) -> Sample:
        if self.mib is None:
            raise DeviceUnreadable(self.info.uuid, "it is lost", lost=True)
        held = dict.fromkeys(trees, self.mib * MIB)
        return Sample(sum(held.values()), 0, held, 0.0, frozenset(trees))

    def held_bytes(self, tree: Tree) -> int:
        return 0

    def accounted_bytes(self, tree: Tree) -> int:
        return 0

    def close(self) -> None:
        self.closed = True


class Driver:
    """Opens played devices, unless they are missing."""

    def __init__(self) -> None:
        self.devices: dict[str, PlayedDevice] = {}
        self.missing: set[str] = set()
        self.asked: list[str] = []

    def open(self, name: str) -> PlayedDevice:
        self.asked.append(name)
        if name in self.missing:
            raise DeviceError(f"{name} cannot be opened")
        self.devices[name] = PlayedDevice(name)
        return self.devices[name]


@pytest.fixture
def driver() -> Driver:
    return Driver()


def looks(found: list[Elsewhere]) -> dict[str, dict[str, int]]:
    return {
        one.device: {job: count // MIB for job, count in one.by_job.items()} for one in found
    }


def test_devices_are_opened_by_uuid_once_and_closed_when_no_job_has_them(
    driver: Driver,
) -> None:
    several = Guests(driver.open)

    several.keep([SECOND, THIRD], now=0.0)
    several.keep([SECOND, SECOND], now=0.0)

    assert driver.asked == ["nvml:1/GPU-bb", "nvml:2/GPU-cc"]
    assert [one.closed for one in driver.devices.values()] == [False, True]
    several.close()
    assert driver.devices["nvml:1/GPU-bb"].closed


def test_each_device_is_looked_at_for_the_jobs_that_have_it(driver: Driver) -> None:
    several = Guests(driver.open)
    several.keep([SECOND, THIRD], now=0.0)
    driver.devices["nvml:1/GPU-bb"].mib = 100
    driver.devices["nvml:2/GPU-cc"].mib = 200

    found = several.look({"GPU-bb": {"a": JOB}, "GPU-cc": {"a": JOB, "b": Tree(5, 6)}})

    assert looks(found) == {"GPU-bb": {"a": 100}, "GPU-cc": {"a": 200, "b": 200}}
    assert found[0].seen == {"a"}


def test_a_device_that_cannot_be_read_does_not_disturb_the_others(driver: Driver) -> None:
    several = Guests(driver.open)
    several.keep([SECOND, THIRD], now=0.0)
    driver.devices["nvml:1/GPU-bb"].mib = None
    trees = {"GPU-bb": {"a": JOB}, "GPU-cc": {"a": JOB}}

    assert looks(several.look(trees)) == {"GPU-cc": {"a": 0}}
    driver.devices["nvml:1/GPU-bb"].mib = 50
    assert looks(several.look(trees)) == {"GPU-bb": {"a": 50}, "GPU-cc": {"a": 0}}


def test_a_device_that_cannot_be_opened_is_tried_again_by_and_by(
    driver: Driver,
) -> None:
    driver.missing = {"nvml:1/GPU-bb"}
    several = Guests(driver.open)
    several.keep([SECOND, THIRD], now=0.0)
    several.keep([SECOND, THIRD], now=0.1)

    assert driver.asked == ["nvml:1/GPU-bb", "nvml:2/GPU-cc"]
    with pytest.raises(DeviceUnreadable, match="nvml:1"):
        several.opened([SECOND])
    assert [one.info.uuid for one in several.opened([THIRD])] == ["GPU-cc"]

    driver.missing.clear()
    several.keep([SECOND, THIRD], now=OPEN_AGAIN_S)

    assert [one.info.uuid for one in several.opened([SECOND])] == ["GPU-bb"]


def test_what_a_caller_held_there_before_its_lease_is_not_of_the_lease(driver: Driver) -> None:
    several = Guests(driver.open)
    several.keep([SECOND], now=0.0)
    device = driver.devices["nvml:1/GPU-bb"]
    trees = {"GPU-bb": {"lease": CALLER}}

    device.mib = 100
    before = several.look(trees)
    device.mib = 180
    after = several.look(trees)

    assert (looks(before), looks(after)) == (
        {"GPU-bb": {"lease": 0}},
        {"GPU-bb": {"lease": 80}},
    )
