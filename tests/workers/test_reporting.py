"""What a report says of the processes on a device, and when that is news."""

from grn_zmq import wire
from grn_zmq.records import DeviceProcess, Use
from tests.builders import MIB, a_run, an_id
from tests.workers.acting import a_worker, assign, replies
from workers.core import WorkerCore
from workers.events import Level
from workers.reporting import HEARTBEAT_S, MOST_LISTED


def a_look(processes: dict[int, int], owners: dict[int, str], **facts: int) -> Level:
    return Level(
        0,
        0,
        0,
        0.0,
        {},
        frozenset(),
        temperature_c=facts.get("temperature_c"),
        pids={an_id(1): facts["pid"]} if "pid" in facts else {},
        processes={pid: mib * MIB for pid, mib in processes.items()},
        owners=owners,
    )


def reported(level: Level, core: WorkerCore | None = None, now: float = 5.0) -> wire.Report:
    if core is None:
        core = a_worker()
        assign(core, a_run(1))
    (report,) = replies(core.sampled(level, now), wire.Report)
    return report


def test_processes_are_told_with_their_jobs_the_largest_first() -> None:
    report = reported(a_look({11: 100, 12: 300, 13: 200}, {11: an_id(1), 13: an_id(1)}))

    assert report.processes == (
        DeviceProcess(12, 300 * MIB, ""),
        DeviceProcess(13, 200 * MIB, an_id(1)),
        DeviceProcess(11, 100 * MIB, an_id(1)),
    )


def test_an_idle_process_of_ours_is_neither_a_job_nor_a_stranger() -> None:
    report = reported(a_look({11: 100, 12: 50}, {11: "idle:4"}))

    assert [one.pid for one in report.processes] == [12]


def test_no_more_processes_are_told_than_fit_a_report() -> None:
    report = reported(a_look({pid: pid for pid in range(1, 100)}, {}))

    assert len(report.processes) == MOST_LISTED
    assert (report.processes[0].pid, report.processes[-1].pid) == (99, 100 - MOST_LISTED)


def test_the_temperature_is_told_where_there_is_one() -> None:
    assert reported(a_look({}, {}, temperature_c=61)).temperature_c == 61
    assert reported(a_look({}, {})).temperature_c is None


def test_processes_that_come_and_go_wait_for_the_heartbeat() -> None:
    core = a_worker()
    reported(a_look({11: 1}, {}), core, now=5.0)
    other = a_look({12: 1, 13: 1}, {}, temperature_c=80)

    assert core.sampled(other, now=5.1) == []
    later = reported(other, core, now=5.0 + HEARTBEAT_S)
    assert [one.pid for one in later.processes] == [12, 13]


def test_that_the_last_stranger_is_gone_is_told_at_once() -> None:
    core = a_worker()
    assign(core, a_run(1))
    reported(a_look({11: 1, 12: 1, 13: 1}, {13: an_id(1)}), core, now=5.0)

    assert core.sampled(a_look({12: 1, 13: 1}, {13: an_id(1)}), now=5.1) == []
    last = reported(a_look({13: 1}, {13: an_id(1)}), core, now=5.2)
    assert [one.job_id for one in last.processes] == [an_id(1)]
    assert core.sampled(a_look({}, {}), now=5.3) == []


def test_each_use_has_the_pid_of_its_body() -> None:
    core = a_worker()
    assign(core, a_run(1), a_run(2), a_run(3, kind="inline", pid=77))

    report = reported(a_look({}, {}, pid=55), core)

    assert report.uses == (
        Use(an_id(1), 1, 0, 55),
        Use(an_id(2), 1, 0, 0),  # not ready yet
        Use(an_id(3), 1, 0, 77),
    )
