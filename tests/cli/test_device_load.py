"""How busy a device is: shown of GPUs, and of nothing whose load nobody measures."""

from dataclasses import replace

from grn_zmq.cli.devices import cells_of, facts_of
from tests.builders import a_device_row

HOST = a_device_row()
GPU = replace(HOST, facts=replace(HOST.facts, kind="nvml"))


def test_the_load_of_a_gpu_is_shown() -> None:
    assert "25%" in cells_of(GPU, "")
    assert facts_of(GPU)["utilisation"] == 0.25


def test_host_memory_has_no_load() -> None:
    assert "25%" not in cells_of(HOST, "")
    assert facts_of(HOST)["utilisation"] is None
