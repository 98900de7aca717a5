"""Many processes that race for leases, each of which would notice a second holder.

    python -m tests.leases.racing DIRECTORY COUNT

They are forked from one process, so that they cost little and start together. While one has a
device it keeps a file of that name, which nobody else can make. Every fifth dies by kill -9
while it holds its lease.
"""

import os
import signal
import sys
import time
from pathlib import Path

import grn_zmq as grn
from grn_zmq import leasing

# Between the grant and the first use, where others would look and see a free device.
PAUSE_S = 0.05
HOLD_S = 0.02
DIES = 5


def race(directory: Path, number: int) -> None:
    """Take a device, use it alone, and let go of it."""
    lease = grn.acquire(debug_delay=PAUSE_S)
    (index,) = lease.devices
    mark = directory / f"holder-{index}"
    os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    time.sleep(HOLD_S)
    served = os.open(directory / "served", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(served, f"{number} {index}\n".encode())
    mark.unlink()
    if number % DIES == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    lease.release()


def main(directory: Path, count: int) -> None:
    assert leasing  # imported before the forks, once for all
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                race(directory, number)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print(*ends)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
