"""What an attempt is told of itself and of its place, by variables and placeholders. Pure."""

from collections.abc import Mapping

from grn_zmq.placeholders import fill_variables, values_of
from grn_zmq.records import Run

from .devices.device import DeviceInfo


def placeholders_of(run: Run, info: DeviceInfo) -> dict[str, str]:
    """Give what `{gpu}` and the like stand for in this attempt."""
    return values_of(
        job_id=run.job_id,
        number=run.number,
        name=run.name,
        attempt=run.attempt,
        lease_bytes=run.lease_bytes,
        index=info.index,
        device=f"{info.kind}:{info.index}",
        uuid=info.uuid,
    )


def environment_of(
    run: Run, values: Mapping[str, str], fixed: Mapping[str, str]
) -> dict[str, str]:
    """Give the variables of this attempt: those asked for, and ours, which win.

    Args:
        values: What placeholders stand for.
        fixed: Those of the device and of the worker, on which promises to others rest.
    """
    return {
        **fill_variables(run.variables, values),
        **fixed,
        "GRN_JOB_ID": run.job_id,
        "GRN_ATTEMPT": values["attempt"],
        "GRN_JOB_NUMBER": values["job"],
        "GRN_GPU_MEMORY_MB": values["memory"],
        **({"GRN_JOB_NAME": run.name} if run.name else {}),
    }
