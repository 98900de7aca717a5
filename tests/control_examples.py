"""One of each message that commands send and get, for the tests of the wire."""

from typing import Any, Final

from grn_zmq import wire
from grn_zmq.facts import (
    CellRow,
    DeviceReason,
    EnvironmentRow,
    Found,
    JobDetail,
    QueueRow,
    Reason,
    Scene,
    Tried,
    Undone,
)
from grn_zmq.records import Blob, DeviceProcess, Leased
from tests.builders import MIB, a_device_row, a_job_row, a_spec, an_id


def a_reason(**changes: Any) -> Reason:
    facts: dict[str, Any] = {
        "job_id": an_id(1),
        "number": 7,
        "state": "queued",
        "code": "no-room",
        "text": "waiting for memory",
        "until": "until job 3 has ended",
        "blockers": (3,),
        "devices": (
            DeviceReason(
                device="nvml:0",
                name="A100",
                total_bytes=1000 * MIB,
                foreign_bytes=1,
                idle_bytes=2,
                leased_bytes=300 * MIB,
                measured_bytes=250 * MIB,
                charged_bytes=300 * MIB,
                free_bytes=-4,
                needed_bytes=800 * MIB,
                headroom_bytes=5,
                jobs=1,
                max_jobs=4,
                text="too little",
            ),
        ),
    }
    return Reason(**facts | changes)


def a_detail(**changes: Any) -> JobDetail:
    facts: dict[str, Any] = {
        "by": {"n": 3},
        "policy": "spread",
        "memory_bytes": 0,
        "exclusive": True,
        "parent": "",
        "timeout_s": None,
        "time_limit_s": 60.0,
        "grace_s": 5.0,
        "retries": 2,
        "retried": 1,
        "retry_on": ("lost",),
        "oom_retries": 2,
        "ooms": 1,
        "enforce": False,
        "version": "",
        "on_end": "notify",
        "variables": {"A": "b"},
        "held": False,
        "after": (an_id(2),),
        "begin_in_s": 2.5,
        "error_type": "",
        "error_text": "",
        "last_lines": "",
        "fit": 3,
        "can_retry": True,
        "tried": (Tried(1, "host:0", "out of memory: runs again", 1, 2, 0.5),),
    }
    return JobDetail(**facts | changes)


def a_cell_row(**changes: Any) -> CellRow:
    facts: dict[str, Any] = {
        "job_type": "train.py::fit",
        "by": {"n": 3},
        "device_class": "host",
        "devices": 1,
        "version": "v",
        "runs": 3,
        "trust": 2,
        "mean_bytes": 1.5,
        "squares": 0.5,
        "max_bytes": 5,
        "need_bytes": 4,
        "bound_bytes": 3,
        "stand_in_bytes": 2,
        "ooms": 1,
        "failures": 1,
        "last_s": 2.0,
        "before_s": 1.0,
        "solo_s": 0.5,
        "utilisation": 0.25,
        "mean_utilisation": 0.125,
    }
    return CellRow(**facts | changes)


A_WAITING_COMMAND: Final[dict[str, Any]] = {
    "title": "python train.py --lr 0.1",
    "variables": {"CUDA_VISIBLE_DEVICES": "{gpu}"},
    "after": (an_id(5),),
    "after_any": (an_id(6), an_id(7)),
    "begin_s": 2.5,
    "held": True,
    "exclusive": True,
    "on_end": "notify-send done",
    "again_of": an_id(9),
}

A_DECLARED_NEED: Final[dict[str, Any]] = {
    "gpus": -1,
    "among": ("0", "GPU-2"),
    "queue": "night",
    "resources": {"cpu": "4", "licence": "0.5"},
    "environment": "tensorflow-1.4.0",
}

A_GRANT: Final[dict[str, Any]] = {
    "devices": (Leased("GPU-0", 0, "nvml:0"), Leased("GPU-2", 2, "nvml:2")),
    "granted": {"cpu": {"0": "4"}, "gpu": {"0": "1", "2": "1"}},
    "environment": "tensorflow-1.4.0",
    "prefix": ("nice", "-n", "5"),
}

STRANGERS: Final = (DeviceProcess(4711, 5, ""), DeviceProcess(12, 3, an_id(1)))

CONTROL: Final[tuple[wire.Message, ...]] = (
    wire.FindJobs(("12", "3-7", "@~1")),
    wire.JobsFound((Found("12", (an_id(1),), ""), Found("x", (), "no job x"))),
    wire.AskJob(an_id(1)),
    wire.JobIs(a_job_row(), a_detail()),
    wire.AskWhy(an_id(1)),
    wire.WhyIs(a_reason()),
    wire.AskScene(first=0, most=50),
    wire.SceneIs(Scene(True, False, 3, 2, 9, 0, (a_job_row(),), (a_device_row(),))),
    wire.Hold((an_id(1), an_id(2)), held=True),
    wire.Prioritise((an_id(1),), priority=-3),
    wire.Pause(paused=True),
    wire.Clean((an_id(1),)),
    wire.Acted((an_id(1),), (Undone(an_id(2), "is running"),)),
    wire.AskInputs(an_id(1)),
    wire.InputsAre(a_spec(), (Blob("c" * 64, b"context"),)),
    wire.AskCells(after=3),
    wire.CellsAre((a_cell_row(),), more=True),
    wire.PutCells((a_cell_row(),)),
    wire.CreateQueue(an_id(1), "night", {"cpu": {"0": "16"}}, ("python",), max_jobs=3),
    wire.DeleteQueue("night", end_running=True),
    wire.AskQueues("night"),
    wire.QueuesAre(
        (
            QueueRow(
                name="night",
                capacity={"cpu": {"0": "16"}},
                left={"cpu": {"0": "0.5"}},
                prefix=("python",),
                max_jobs=3,
                closing=False,
                queued=1,
                running=2,
                ended=3,
            ),
        )
    ),
    wire.AskEnvironments(),
    wire.EnvironmentsAre((EnvironmentRow("tensorflow", "docker", "tf:1.4", ("nvml:0",)),)),
)
