"""What a waiting job costs: there may be a hundred thousand of them."""

import os
import subprocess
import sys
from typing import Final

import pytest

# Each costs the same: the full number takes a while on a busy machine.
JOBS: Final = int(os.environ.get("GRN_MEMORY_JOBS", "20000"))
# Of resident memory; the journal adds what finds a job in the file.
MOST_BYTES: Final = 1024
# A second for a hundred thousand, on a machine that does other things too.
MOST_RESTORE_S: Final = 3e-5 * JOBS

_SCRIPT: Final = """
import gc, os, sys, time
from dataclasses import replace
from broker.changes import Kept, KeptJob
from broker.core import BrokerCore
from grn_zmq import wire
from tests.builders import a_hello, a_spec

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def a_submit(first):
    numbers = range(first, first + 50)
    specs = [
        a_spec(n, job_id=os.urandom(16).hex(), job_type=f"fit{n % 50}", by={"n": n % 7},
               payload=os.urandom(200), detached=n % 2 == 0)
        for n in numbers
    ]
    return wire.decode(wire.encode(wire.Submit(tuple(specs))))

jobs = int(sys.argv[1])
core = BrokerCore(1, 1)
core.handle(b"client", a_hello(), 0.0)
kept = []
before = resident()
for first in range(0, jobs, 50):
    core.handle(b"client", a_submit(first), float(first))
    batch = core.take_batch()
    if sys.argv[2] == "restored":
        kept += [
            KeptJob(replace(new, spec=replace(new.spec, payload=b"")), life, payload_bytes=200)
            for new, life in zip(batch.jobs, batch.lives, strict=True)
        ]
if sys.argv[2] == "accepted":
    print((resident() - before) / jobs)
else:
    del core
    core = BrokerCore(2, 1)
    began = time.process_time()
    core.restore(Kept(2, jobs, kept), 0.0)
    print(time.process_time() - began)
    assert len(core.book.waiting) == jobs / 2  # nobody is left who waits for the others
"""


def measure(what: str) -> float:
    command = [sys.executable, "-c", _SCRIPT, str(JOBS), what]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.e2e
def test_load_2_a_hundred_thousand_queued_jobs_cost_less_than_a_kibibyte_each() -> None:
    assert measure("accepted") <= MOST_BYTES


@pytest.mark.e2e
def test_load_6_a_hundred_thousand_jobs_are_taken_back_in_a_moment() -> None:
    assert measure("restored") <= MOST_RESTORE_S
