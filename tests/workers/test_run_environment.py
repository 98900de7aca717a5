"""What an attempt finds in its environment, and what of it is not its own choice."""

from dataclasses import replace

from grn_zmq.records import Leased
from grn_zmq.units import GIB
from tests.builders import a_run, an_id
from workers.surroundings import environment_of, placeholders_of

GPU = Leased("GPU-1b2c", 3, "nvml:3")
A_RUN = a_run(1, name="fit", attempt=2, lease_bytes=6 * GIB, devices=(GPU,))
FIXED = {"GRN_WORKER": "mark"}


def test_placeholders_name_the_lease_and_the_job() -> None:
    run = replace(A_RUN, number=12)

    assert placeholders_of(run) == {
        "gpu": "3",
        "device": "nvml:3",
        "uuid": "GPU-1b2c",
        "memory": "6144",
        "job": "12",
        "id": an_id(1),
        "name": "fit",
        "attempt": "2",
    }


def test_the_environment_says_who_and_where_a_job_is() -> None:
    run = replace(A_RUN, number=12)

    assert environment_of(run, placeholders_of(run), FIXED) == {
        **FIXED,
        "CUDA_VISIBLE_DEVICES": "GPU-1b2c",
        "NV_GPU": "GPU-1b2c",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "GRN_DEVICE": "nvml:3",
        "GRN_JOB_ID": an_id(1),
        "GRN_ATTEMPT": "2",
        "GRN_JOB_NUMBER": "12",
        "GRN_JOB_NAME": "fit",
        "GRN_GPU_MEMORY_MB": "6144",
    }


def test_a_job_without_a_name_has_no_variable_for_it() -> None:
    assert "GRN_JOB_NAME" not in environment_of(a_run(1), placeholders_of(a_run(1)), {})


def test_g17_variables_are_added_and_never_in_the_place_of_ours() -> None:
    asked = {"A": "x=y", "GPU_{gpu}": "{device}", "GRN_JOB_ID": "mine", "GRN_WORKER": "no"}
    run = replace(A_RUN, variables=asked)

    found = environment_of(run, placeholders_of(run), FIXED)

    assert (found["A"], found["GPU_3"]) == ("x=y", "nvml:3")
    assert (found["GRN_JOB_ID"], found["GRN_WORKER"]) == (an_id(1), "mark")
