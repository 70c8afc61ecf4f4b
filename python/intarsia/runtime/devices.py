# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Devices, tensors in their memory, and arrays that come and go by DLPack."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _runtime
from ..support.checks import whole_number

#: kDLCPU of DLPack, and the number of the only one.
_DLPACK_CPU = (1, 0)


def devices() -> list[dict[str, Any]]:
    """Return a description of each device: name, features, threads, memory."""
    return [json.loads(text) for text in _runtime.devices()]


class Device:
    """A device that a program makes for itself, with `cpu`. It lives as long as a module uses it."""

    def __init__(self, runtime: _runtime.Device) -> None:
        self._runtime = runtime

    @property
    def name(self) -> str:
        """Its name, which no other device of the process has."""
        return self._runtime.name

    @property
    def info(self) -> dict[str, Any]:
        """A description: name, features, threads, memory, and the processors if they were given."""
        return json.loads(self._runtime.info)

    def __repr__(self) -> str:
        """Show the name and the threads."""
        return f"<intarsia device '{self.name}' of {self.info['threads']} threads>"


def cpu(threads: int = 0, processors: Sequence[int] = ()) -> Device:
    """Return a part of the host's CPU with threads of its own, so that modules can divide a machine.

    Parameters
    ----------
    threads : int
        Threads of a call, its caller included; 0: one for each of `processors`, or the default of `set_threads`.
    processors : sequence of int
        Numbers of the processors that the device's threads run on; without any, all that the process may use. The
        thread that makes a call computes too; it runs where the program lets it.

    Examples
    --------
    >>> encoder = intarsia.load("encoder.itx", devices=intarsia.cpu(threads=2))
    >>> decoder = intarsia.load("decoder.itx", devices=intarsia.cpu(threads=6))
    """
    numbers = [whole_number("processors", number, 0, 2**31 - 1) for number in processors]
    return Device(_runtime.Device("cpu", whole_number("threads", threads, 0, 1024), numbers))


def runtime_device(device: str | Device) -> _runtime.Device:
    """Return the device of a name or of an object that `cpu` made."""
    return device._runtime if isinstance(device, Device) else _runtime.Device.find(device)


class Tensor:
    """An array in the memory of a device, made by `to_device` or by a function with `Function.on`.

    Functions that read it in that memory use it as it is.
    """

    def __init__(self, runtime: _runtime.Tensor) -> None:
        self._runtime = runtime

    @property
    def device(self) -> str:
        """Name of the device."""
        return self._runtime.device or "cpu"

    @property
    def dtype(self) -> str:
        """Element type, such as ``"f32"``."""
        return self._runtime.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes."""
        return tuple(self._runtime.shape)

    def numpy(self) -> np.ndarray:
        """Return a copy in memory of the host."""
        return from_array(self._runtime.numpy(), self.dtype)

    def to(self, device: str | Device) -> Tensor:
        """Return a copy in the memory of a device."""
        return Tensor(self._runtime.copy(runtime_device(device)))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule that shares the memory; see `__dlpack_device__` for where it is."""
        here = self.__dlpack_device__()
        runtime = self._runtime
        if copy or dl_device not in (None, here):
            if dl_device not in (None, here, _DLPACK_CPU) or copy is False:
                raise BufferError(f"a tensor of the device '{self.device}' cannot be given as one of {dl_device}")
            runtime = runtime.copy(runtime_device(self.device) if dl_device in (None, here) else None)
        return runtime.capsule(max_version is not None and max_version[0] >= 1)[0]

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack type and number of the device; 12 is a device that only this package knows."""
        return self._runtime.capsule(True)[1]

    def __repr__(self) -> str:
        """Show type, shape and device."""
        return f"<intarsia tensor {self.dtype}{list(self.shape)} on '{self.device}'>"


def to_device(array: Any, device: str | Device) -> Tensor:
    """Return a copy of an array, of anything with DLPack, in the memory of a device."""
    return Tensor(_runtime.to_device(*exported(array), runtime_device(device)))


def exported(value: Any) -> tuple[Any, bool]:
    """Return something with DLPack as a capsule, and True if it is bfloat16 given as 16-bit integers.

    A torch tensor with the negative bit becomes a copy.
    """
    if getattr(value, "requires_grad", False) is True:
        raise TypeError("it records gradients, which nothing here does: give its detach()")
    # torch keeps a sign beside the elements of some views, and exports the elements alone.
    if callable(negative := getattr(value, "is_neg", None)) and negative():
        value = value.resolve_neg()
    bits = isinstance(value, np.ndarray) and value.dtype.name == "bfloat16"
    if bits:
        value = value.view(np.int16)
    try:
        return value.__dlpack__(max_version=(1, 0)), bits
    except TypeError:  # a producer of DLPack 0.x does not know the argument
        return value.__dlpack__(), bits


def from_array(array: np.ndarray, dtype: str) -> np.ndarray:
    """Give a bfloat16 array its type, if ml_dtypes is installed."""
    if dtype == "bf16" and bfloat16() is not None:
        return array.view(bfloat16())
    return array


def bfloat16() -> Any:
    """Return ml_dtypes' bfloat16, or None when that package is not installed."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return ml_dtypes.bfloat16
