"""The variables of leases: set while they last, joined, inherited, and put back."""

import os

import pytest

from grn_zmq import holding

FIRST = {
    "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b",
    "GRN_DEVICE": "nvml:0,nvml:1",
    "GRN_JOB_ID": "1",
}
SECOND = {"CUDA_VISIBLE_DEVICES": "GPU-c", "GRN_DEVICE": "nvml:2", "GRN_JOB_ID": "2"}
NAMES = tuple(FIRST)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def now() -> list[str | None]:
    return [os.environ.get(name) for name in NAMES]


def test_variables_are_set_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")

    token = holding.show(FIRST)
    assert now() == ["GPU-a,GPU-b", "nvml:0,nvml:1", "1"]
    assert holding.outside()["CUDA_VISIBLE_DEVICES"] == "0,1,2"
    assert "GRN_JOB_ID" not in holding.outside()
    holding.hide(token)

    assert now() == ["0,1,2", None, None]


def test_a_process_with_two_leases_has_the_devices_of_both_in_their_order() -> None:
    first, second = holding.show(FIRST), holding.show(SECOND)

    assert now() == ["GPU-a,GPU-b,GPU-c", "nvml:0,nvml:1,nvml:2", "2"]
    assert (holding.devices_before(first), holding.devices_before(second)) == (0, 2)

    holding.hide(first)
    assert now() == ["GPU-c", "nvml:2", "2"]
    holding.hide(second)
    holding.hide(second)
    assert now() == [None, None, None]


@pytest.mark.e2e
def test_a_forked_child_may_have_at_most_what_its_parent_has() -> None:
    token = holding.show(FIRST)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        holding.hide(token)
        os.write(writing, holding.outside()["CUDA_VISIBLE_DEVICES"].encode())
        os._exit(0)
    os.waitpid(child, 0)
    holding.hide(token)

    assert os.read(reading, 100) == b"GPU-a,GPU-b"
    os.close(reading)
    os.close(writing)
