"""What an attempt is told of itself and of its place, by variables and placeholders. Pure."""

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction

from grn_zmq.amounts import format_amount, parse_amount
from grn_zmq.placeholders import fill_variables, values_of
from grn_zmq.records import Begun, Leased, Run

from .devices.gpus import VISIBLE


def label_of(devices: Sequence[Leased]) -> str:
    """Give the devices of a lease one name: `nvml:0,2`; an empty one if there are none."""
    if not devices:
        return ""
    kind, _, _ = devices[0].label.partition(":")
    return f"{kind}:{','.join(str(one.index) for one in devices)}"


def type_called(run: Run) -> str:
    """Name the type whose function its job process calls; none if another process does."""
    return run.job_type if run.kind == "call" and not run.environment else ""


def begun_of(run: Run, ran_s: float) -> Begun:
    """Say that an attempt began so many seconds ago, and where."""
    return Begun(
        run.job_id,
        run.attempt,
        label_of(run.devices),
        run.stand_in,
        {**device_variables(run.devices), **resource_variables(run.granted)},
        ran_s,
        tuple(one.index for one in run.devices),
    )


def device_variables(devices: Sequence[Leased]) -> dict[str, str]:
    """Show a job the devices of its lease alone, as 0, 1, … in the order of the lease.

    Without a device it sees no GPU. On host memory what the user says about GPUs stays.
    """
    named = {"GRN_DEVICE": ",".join(one.label for one in devices)}
    if any(one.label.startswith("host") for one in devices):
        return named
    uuids = ",".join(one.uuid for one in devices)
    return {VISIBLE: uuids, "NV_GPU": uuids, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", **named}


def resource_variables(granted: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Tell a job what it was granted: all of it as JSON, and each resource by itself."""
    if not granted:
        return {}
    found = {"GRN_RESOURCES": json.dumps(granted)}
    for resource, instances in granted.items():
        word = "".join(one if one.isalnum() else "_" for one in resource).upper()
        total = sum(map(parse_amount, instances.values()), Fraction())
        found[f"GRN_RESOURCE_{word}"] = ",".join(instances)
        found[f"GRN_AMOUNT_{word}"] = format_amount(total)
    return found


def placeholders_of(run: Run) -> dict[str, str]:
    """Give what `{gpu}` and the like stand for in this attempt."""
    return values_of(
        job_id=run.job_id,
        number=run.number,
        name=run.name,
        attempt=run.attempt,
        lease_bytes=run.lease_bytes,
        devices=run.devices,
        granted=run.granted,
    )


def environment_of(
    run: Run, values: Mapping[str, str], fixed: Mapping[str, str]
) -> dict[str, str]:
    """Give the variables of this attempt: those asked for, and ours, which win.

    Args:
        values: What placeholders stand for.
        fixed: Those of the worker, on which promises to others rest.
    """
    return {
        **fill_variables(run.variables, values),
        **device_variables(run.devices),
        **resource_variables(run.granted),
        **fixed,
        "GRN_JOB_ID": run.job_id,
        "GRN_ATTEMPT": values["attempt"],
        "GRN_JOB_NUMBER": values["job"],
        "GRN_GPU_MEMORY_MB": values["memory"],
        **({"GRN_JOB_NAME": run.name} if run.name else {}),
    }
