"""Run many GPU jobs on one machine without thinking about it.

    import grn_zmq as grn

    @grn.job()
    def train(lr): ...

    train(0.1)

Importing this package loads nothing heavy: sockets and pickling come with the first call.
"""

from typing import TYPE_CHECKING, Any

from .decorator import JobFunction, job

if TYPE_CHECKING:
    from .claims import claim_gpus, release_gpus
    from .errors import (
        BrokerRunning,
        BrokerUnavailable,
        DeviceError,
        DiskFull,
        Draining,
        GrnError,
        IdConflict,
        JobError,
        JobExited,
        JobFailed,
        JobKilled,
        JobLost,
        JobNotStarted,
        JobOutOfMemory,
        JobTooLarge,
        NotPicklable,
        Quarantined,
        QueueFull,
        RequestRefused,
        ResultExpired,
        StateError,
        StateTooNew,
        TimeLimitExceeded,
        TooLarge,
        TooManyClients,
        UnknownJob,
        UnsafeDirectory,
        VersionMismatch,
        WaitTimeout,
    )
    from .executor import Executor
    from .futures import Future
    from .leases import Lease, acquire
    from .starting import Server, start

__version__ = "0.1.0"

# The name this decorator had in GLB, the oldest ancestor of this package.
gpu_load_balance = job

_HOMES = {
    "Executor": "executor",
    "Future": "futures",
    "Lease": "leases",
    "Server": "starting",
    "acquire": "leases",
    "claim_gpus": "claims",
    "release_gpus": "claims",
    "start": "starting",
}


def attach(job_id: str) -> "Future[Any]":
    """Give the future of a job that was submitted earlier, by any process of this user.

    Raises:
        BrokerUnavailable: There is no broker.
    """
    from .client import this_client

    return this_client().attach(job_id)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None and name in __all__:
        home = "errors"
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


__all__ = [
    "BrokerRunning",
    "BrokerUnavailable",
    "DeviceError",
    "DiskFull",
    "Draining",
    "Executor",
    "Future",
    "GrnError",
    "IdConflict",
    "JobError",
    "JobExited",
    "JobFailed",
    "JobFunction",
    "JobKilled",
    "JobLost",
    "JobNotStarted",
    "JobOutOfMemory",
    "JobTooLarge",
    "Lease",
    "NotPicklable",
    "Quarantined",
    "QueueFull",
    "RequestRefused",
    "ResultExpired",
    "Server",
    "StateError",
    "StateTooNew",
    "TimeLimitExceeded",
    "TooLarge",
    "TooManyClients",
    "UnknownJob",
    "UnsafeDirectory",
    "VersionMismatch",
    "WaitTimeout",
    "acquire",
    "attach",
    "claim_gpus",
    "gpu_load_balance",
    "job",
    "release_gpus",
    "start",
]
