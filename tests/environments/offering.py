"""A real worker that offers environments, and a broker whose every word is the test's."""

import os
import subprocess
import sys
from pathlib import Path

from tests.workers.stage import DEVICE, Bench, RealWorker, ScriptedBroker, leased


class OfferingWorker(RealWorker):
    """A worker process that is started with a file of environments."""

    def __init__(self, orders: Path, device: str, environments: Path) -> None:
        self.environments = environments
        super().__init__(orders, device)

    def _start(self) -> "subprocess.Popen[bytes]":
        words = ["--device", self.device, "--parent", str(os.getpid()), "--debug"]
        words += ["--environments", str(self.environments)]
        return subprocess.Popen([sys.executable, "-m", "grn_zmq.workers.worker", *words])


class OfferingBench(Bench):
    """A welcomed worker with environments that is given one job after the other."""

    def __init__(self, orders: Path, environments: Path, device: str = DEVICE) -> None:
        self.broker = ScriptedBroker(epoch=1)
        self.worker = OfferingWorker(orders, device, environments)
        self.greet = self.broker.welcome()
        self.incarnation = self.greet.incarnation
        self.devices = (leased(device),)
        self._number = 0
