"""Builders: each hides everything that the sentence of a test does not mention."""

from dataclasses import replace
from typing import Any

from broker.jobs import Job
from broker.scheduler import DeviceView
from grn_zmq import wire
from grn_zmq.facts import DeviceRow, JobRow, ProfileRow
from grn_zmq.records import (
    AttemptId,
    DeviceFacts,
    Held,
    JobSpec,
    Leased,
    Outcome,
    Piece,
    Released,
    Result,
    Run,
    Use,
)
from grn_zmq.units import MIB

__all__ = ["MIB"]

HOST_0 = Leased("host-0", 0, "host:0")


def an_id(number: int) -> str:
    """An id as clients make them, but one that a reader can tell from others."""
    return f"{number:032x}"


def a_spec(number: int = 1, **changes: Any) -> JobSpec:
    spec = JobSpec(
        job_id=an_id(number),
        job_type="train.py::fit",
        name="fit",
        kind="call",
        by={},
        policy="spread",
        function="",
        context="",
        parent="",
        pin="",
        stdin="",
        detached=False,
        has_stand_in=False,
        reuse=True,
        version="",
        memory_bytes=0,
        priority=0,
        oom_retries=2,
        enforce=False,
        payload=b"arguments",
    )
    return replace(spec, **changes)


def a_job(number: int = 1, **changes: Any) -> Job:
    spec = a_spec(number, **changes)
    return Job(spec, number, session=an_id(900), queued_at=0.0)


def a_device(index: int = 0, total: int = 1000, **changes: Any) -> DeviceFacts:
    """A device of `total` MiB."""
    facts = DeviceFacts(
        index=index,
        name="share of host memory",
        uuid=f"HOST-{index}",
        kind="host",
        device_class="host",
        total_bytes=total * MIB,
    )
    return replace(facts, **changes)


def a_view(index: int = 0, total: int = 1000, free: int = 1000, **changes: Any) -> DeviceView:
    """A device of `total` MiB as a job of an unmeasured type sees it, idle and open."""
    view = DeviceView(
        worker=f"worker {index}",
        index=index,
        total_bytes=total * MIB,
        free_bytes=free * MIB,
        idle=True,
    )
    return replace(view, **changes)


def a_greet(index: int = 0, total: int = 1000, **changes: Any) -> wire.Greet:
    """The greeting of the worker of a device of `total` MiB."""
    greet = wire.Greet(
        protocol=wire.PROTOCOL,
        worker=f"host-{index}",
        incarnation=an_id(800 + index),
        boot_id="boot",
        pid=800 + index,
        device=a_device(index, total),
        max_jobs=None,
        inventory=(),
    )
    return replace(greet, **changes)


def a_hello(number: int = 900, **changes: Any) -> wire.Hello:
    return replace(wire.Hello(wire.PROTOCOL, an_id(number), pid=number), **changes)


def a_run(number: int = 1, **changes: Any) -> Run:
    run = Run(
        job_id=an_id(number),
        attempt=1,
        job_type="train.py::fit",
        session=an_id(900),
        kind="call",
        lease_bytes=100 * MIB,
        stand_in=False,
        function="f" * 64,
        context="c" * 64,
        stdin="",
        reuse=True,
        pid=900,
        enforce=False,
        young=False,
        payload=b"arguments",
        devices=(HOST_0,),
    )
    return replace(run, **changes)


def a_result(number: int = 1, attempt: int = 1, **changes: Any) -> Result:
    result = Result(
        job_id=an_id(number),
        attempt=attempt,
        outcome="succeeded",
        exit_status=None,
        signal=None,
        peak_bytes=100 * MIB,
        need_bytes=0,
        asked_bytes=0,
        utilisation=0.0,
        mean_utilisation=0.0,
        seen=True,
        run_s=1.0,
        error_type="",
        error_text="",
        payload=b"value",
    )
    return replace(result, **changes)


def an_outcome(number: int = 1, **changes: Any) -> Outcome:
    outcome = Outcome(
        job_id=an_id(number),
        outcome="succeeded",
        exit_status=None,
        signal=None,
        device="host:0",
        peak_bytes=100 * MIB,
        seen=True,
        wait_s=0.5,
        run_s=1.0,
        attempts=1,
        predicted_bytes=0,
        fit=0,
        error_type="",
        error_text="",
        need_bytes=0,
        largest_bytes=0,
        payload=b"value",
    )
    return replace(outcome, **changes)


def a_piece(number: int = 1, attempt: int = 1, **changes: Any) -> Piece:
    return replace(Piece(an_id(number), attempt, "stdout", b"text"), **changes)


def a_release(number: int = 1, attempt: int = 1, *, failed: bool = False) -> Released:
    return Released(an_id(number), attempt, failed)


def a_report(**changes: Any) -> wire.Report:
    return replace(wire.Report(0, 0, 0, 0.0, ()), **changes)


def a_job_row(number: int = 1, **changes: Any) -> JobRow:
    row = JobRow(
        number=number,
        job_id=an_id(number),
        name="fit",
        job_type="train.py::fit",
        kind="call",
        state="running",
        why="",
        device="host:0",
        attempt=1,
        priority=0,
        measuring=True,
        predicted_bytes=0,
        lease_bytes=1000 * MIB,
        used_bytes=90 * MIB,
        peak_bytes=100 * MIB,
        wait_s=0.5,
        run_s=1.0,
        client_pid=900,
    )
    return replace(row, **changes)


def a_device_row(index: int = 0, **changes: Any) -> DeviceRow:
    row = DeviceRow(
        facts=a_device(index),
        worker_pid=800 + index,
        max_jobs=4,
        used_bytes=300 * MIB,
        foreign_bytes=100 * MIB,
        idle_bytes=0,
        leased_bytes=200 * MIB,
        jobs=1,
        measuring="train.py::fit",
        utilisation=0.25,
    )
    return replace(row, **changes)


def a_use(number: int = 1, used: int = 100, attempt: int = 1, pid: int = 0) -> Use:
    """A running attempt that uses so many MiB."""
    return Use(an_id(number), attempt, used * MIB, pid)


def an_attempt(number: int = 1, attempt: int = 1) -> AttemptId:
    return AttemptId(an_id(number), attempt)


def held(number: int = 1, attempt: int = 1, state: str = "running") -> Held:
    """An attempt that a greeting worker answers for."""
    return Held(an_id(number), attempt, state)


def a_token(number: int = 1, where: str = "shm", session: int = 900) -> str:
    """The name of a parcel of a session."""
    return f"{where}-{an_id(session)}-{an_id(number)}"


def a_profile_row(**changes: Any) -> ProfileRow:
    row = ProfileRow(
        job_type="train.py::fit",
        by={"batch_size": 32},
        device_class="host",
        devices=1,
        runs=3,
        predicted_bytes=110 * MIB,
        kind="measured",
        peak_bytes=100 * MIB,
        mean_bytes=95 * MIB,
        need_bytes=90 * MIB,
        bound_bytes=0,
        ooms=0,
        failures=0,
        duration_s=1.5,
        utilisation=0.5,
    )
    return replace(row, **changes)
