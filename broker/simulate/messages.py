"""What a simulated client and simulated workers say to the core, and how they look into it."""

from collections.abc import Mapping
from typing import Final

from grn_zmq import wire
from grn_zmq.records import Begun, DeviceFacts, JobSpec, Result, Use

from ..core import BrokerCore
from ..effects import Peer
from ..ledger import Lease
from .describing import Described
from .gpu import Gpu, Process
from .jobs import SimJob

EPOCH: Final = 1
DEVICE_CLASS: Final = "simulated"
_SESSION: Final = "c" * 32


def hello() -> wire.Hello:
    return wire.Hello(wire.PROTOCOL, _SESSION, 1)


def peer_of(index: int) -> Peer:
    return str(index).encode()


def index_of(peer: Peer) -> int:
    return int(peer)


def device_facts(index: int, total_bytes: int) -> DeviceFacts:
    return DeviceFacts(
        index=index,
        name="simulated GPU",
        uuid=f"SIM-{index}",
        kind="sim",
        device_class=DEVICE_CLASS,
        total_bytes=total_bytes,
    )


def greet(device: DeviceFacts, max_jobs: int | None) -> wire.Greet:
    return wire.Greet(
        protocol=wire.PROTOCOL,
        worker=f"sim:{device.index}",
        incarnation=f"{device.index:032x}",
        boot_id="simulated",
        pid=device.index + 2,
        device=device,
        max_jobs=max_jobs,
        inventory=(),
    )


def spec(job_id: str, job: SimJob, described: Described, oom_retries: int) -> JobSpec:
    """The job as the users of a policy describe it."""
    job_type, by = described
    return JobSpec(
        job_id=job_id,
        job_type=job_type,
        name="",
        kind="call",
        by=dict(by),
        policy="spread",
        function="",
        context="",
        parent="",
        pin="",
        stdin="",
        detached=False,
        has_stand_in=False,
        reuse=True,
        version=job.version,
        memory_bytes=0,
        priority=0,
        oom_retries=oom_retries,
        enforce=False,
        payload=b"",
    )


def started(index: int, process: Process) -> wire.Started:
    begun = Begun(process.job_id, process.attempt, f"sim:{index}", False, {})
    return wire.Started((begun,))


def finished(process: Process, outcome: str, missing: int, now: float) -> wire.Finished:
    run_s = max(now - process.began_at, 1e-3)
    result = Result(
        job_id=process.job_id,
        attempt=process.attempt,
        outcome=outcome,
        exit_status=0 if outcome == "succeeded" else 1,
        signal=None,
        peak_bytes=process.used_bytes,
        need_bytes=process.used_bytes,
        asked_bytes=missing,
        utilisation=process.job.utilisation,
        mean_utilisation=process.job.utilisation * process.done_s / run_s,
        seen=True,
        run_s=run_s,
        error_type="OutOfMemoryError" if outcome == "oom" else "",
        error_text="",
        payload=b"",
    )
    return wire.Finished(EPOCH, (result,))


def report(gpu: Gpu, noise: Mapping[str, float]) -> wire.Report:
    """What a worker sees of its device; `noise` is by how much it misreads each process."""
    uses = tuple(
        Use(one.job_id, one.attempt, int(one.used_bytes * noise[one.job_id]))
        for one in gpu.processes.values()
    )
    return wire.Report(
        used_bytes=sum(use.used_bytes for use in uses) + gpu.foreign_bytes,
        foreign_bytes=gpu.foreign_bytes,
        idle_bytes=0,
        utilisation=min(1.0, gpu.utilisation),
        uses=uses,
    )


def lease_of(core: BrokerCore, job_id: str) -> Lease:
    worker = core.book.workers[core.book.jobs[job_id].worker]
    return worker.ledger.leases[job_id]


def measures(core: BrokerCore) -> bool:
    """Whether a type is being measured somewhere."""
    return any(worker.ledger.measuring for worker in core.book.workers.values())
