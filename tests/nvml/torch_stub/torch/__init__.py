"""A stand-in for torch: tensors without numbers, on the memory of the stand-in driver.

A tensor is a shape filled with one value, so that a job can return a sum.
"""

from __future__ import annotations

import math

from . import cuda
from .cuda import OutOfMemoryError

__all__ = ["OutOfMemoryError", "Tensor", "cuda", "empty", "ones", "rand", "zeros"]

Device = str | int

_BYTES_PER_ELEMENT = 4


class Tensor:
    """So many elements, all of one value, on one device, until it is deleted."""

    _held: cuda.Held | None = None

    def __init__(self, shape: tuple[int, ...], fill: float, device: Device | None) -> None:
        self.shape = shape
        self.device = _name(device)
        self._fill = fill
        if self.device != "cpu":
            index = int(self.device.partition(":")[2])
            self._held = cuda.allocate(self.numel() * _BYTES_PER_ELEMENT, index)

    def __del__(self) -> None:
        if self._held is not None:
            cuda.release(self._held)

    def numel(self) -> int:
        return math.prod(self.shape)

    def to(self, device: Device) -> Tensor:
        same = _name(device) == self.device
        return self if same else Tensor(self.shape, self._fill, device)

    def cuda(self, device: int = 0) -> Tensor:
        return self.to(device)

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def sum(self) -> Tensor:
        return Tensor((), self._fill * self.numel(), self.device)

    def item(self) -> float:
        if self.numel() != 1:
            raise RuntimeError("a Tensor with many elements cannot be converted to Scalar")
        return self._fill


def rand(*size: int, device: Device | None = None) -> Tensor:
    return Tensor(size, 0.5, device)


def ones(*size: int, device: Device | None = None) -> Tensor:
    return Tensor(size, 1.0, device)


def zeros(*size: int, device: Device | None = None) -> Tensor:
    return Tensor(size, 0.0, device)


def empty(*size: int, device: Device | None = None) -> Tensor:
    return Tensor(size, 0.0, device)


def _name(device: Device | None) -> str:
    if device is None or device == "cpu":
        return "cpu"
    if isinstance(device, int):
        return f"cuda:{device}"
    return "cuda:0" if device == "cuda" else device
