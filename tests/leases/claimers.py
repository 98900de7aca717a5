"""Processes that claim devices when a test tells them to."""

from typing import Any

from tests.nvml.asking import JobProcess, Raised
from tests.nvml.driver import FakeDriver

__all__ = ["Claimer", "Raised"]


class Claimer(JobProcess):
    """A program with `grn`, and `cuda` to use what it gets; it ends with the `with` block."""

    def __init__(self, driver: FakeDriver, **variables: str) -> None:
        super().__init__(driver, **variables)
        self.tell("import cuda, grn_zmq as grn; 0")
        self.answer()

    def claim(self, arguments: str = "") -> list[int]:
        """Acquire, and give the indices; the lease is `owner` there."""
        devices: list[int] = self.do(f"owner = grn.acquire({arguments}); owner.devices")
        return devices

    def claim_later(self, arguments: str = "") -> None:
        """Start to acquire without waiting for it: `answer` does."""
        self.tell(f"owner = grn.acquire({arguments}); owner.devices")

    def release(self) -> None:
        self.do("owner.release()")

    def warned(self, code: str) -> list[str]:
        """Run something, and give the warnings that came of it."""
        sink = "warned = []; from loguru import logger; "
        sink += "sink = logger.add(lambda m: warned.append(m.record['message']), level=30); "
        found: Any = self.do(f"{sink}{code}; logger.remove(sink); warned")
        assert isinstance(found, list)
        return found
