# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of images, sound and selections at random shapes, types and attributes, static and dynamic, against NumPy.

`make test-slow` asks for 200 uses of each op on each device.
"""

from __future__ import annotations

import image_cases
import index_cases
import pytest
import signal_cases
from compositions import built
from programs import random_cases

pytestmark = pytest.mark.cpu_only

DEVICES = [
    "cpu", pytest.param("cpu:x86-64-v2", marks=pytest.mark.slow), "reference", "emulated:sm_90a", "emulated:gfx942",
]  # fmt: skip
OPS = {
    "pool": image_cases.pool,
    "resize": image_cases.resize,
    "pad": image_cases.pad,
    "grid_sample": image_cases.sample,
    "roi_align": image_cases.align,
    "norm": image_cases.norm,
    "gather": index_cases.gather,
    "scatter": index_cases.scatter,
    "scatter_nd": index_cases.scatter_slices,
    "sort": index_cases.sort,
    "top_k": index_cases.top,
    "nonzero": index_cases.nonzero,
    "compress": index_cases.compress,
    "unique": index_cases.unique,
    "nms": index_cases.boxes,
    "cumulate": signal_cases.cumulate,
    "fft": signal_cases.fft,
    "stft": signal_cases.stft,
    "istft": signal_cases.istft,
    "einsum": signal_cases.einsum,
}
#: Functions of one module: it is compiled faster than as many modules.
MODULE = 20


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("op", OPS)
def test_random_ops(tools, tmp_path, monkeypatch, op: str, device: str) -> None:
    numbers = list(random_cases(monkeypatch, usual=3))
    for begin in range(0, len(numbers), MODULE):
        cases = {f"f{number}": OPS[op]() for number in numbers[begin : begin + MODULE]}
        text = "".join(case.function(name) for name, case in cases.items())
        module = built(tools, tmp_path / str(begin), text, device)
        for name, case in cases.items():
            try:
                case.check(module, name)
            except Exception as error:
                raise AssertionError(f"of {case.function(name)}") from error
