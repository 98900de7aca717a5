"""A stand-in driver in the very process of a test, as LD_LIBRARY_PATH has it in a new one."""

import ctypes
from pathlib import Path

import pynvml
import pytest

from tests.nvml.driver import LIBRARY, FakeDriver


def plug_in(monkeypatch: pytest.MonkeyPatch, directory: Path, *sizes_mib: int) -> FakeDriver:
    """Give this process GPUs of these sizes for as long as the patch lasts."""
    driver = FakeDriver(directory, sizes_mib)
    monkeypatch.setenv("FAKE_NVML_DIR", driver.environment()["FAKE_NVML_DIR"])
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(directory / "lib" / LIBRARY)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return driver
