# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small networks of diffusers with random weights, against what diffusers computed for them.

diffusion/NAME is a directory of a network with golden.npz in it (written by make_more_images.py): inputs and outputs of
each function.
"""

from __future__ import annotations

from pathlib import Path

import intarsia
import numpy as np
import pytest

HERE = Path(__file__).resolve().parent

# Outputs are up to 4; errors of PyTorch and of a correct import are below 5e-6.
TOLERANCE = 2e-5


@pytest.mark.parametrize("name", sorted(path.name for path in (HERE / "diffusion").iterdir()))
def test_network(tools, scratch, name):
    folder = HERE / "diffusion" / name
    tools.compile(folder, "-o", scratch / f"{name}.itx")
    module = intarsia.load(scratch / f"{name}.itx")
    with np.load(folder / "golden.npz") as arrays:
        golden = dict(arrays)
    functions = {key.partition(".")[0] for key in golden}
    assert functions == set(module.functions)
    for function in functions:
        inputs = [value.name for value in module.signature(function).inputs]
        result = getattr(module, function)(**{key: golden.pop(f"{function}.{key}") for key in inputs})
        results = [result] if isinstance(result, np.ndarray) else list(result)
        expected = [value for key, value in golden.items() if key.startswith(f"{function}.")]
        assert len(results) == len(expected)
        for actual, answer in zip(results, expected, strict=True):
            assert actual.shape == answer.shape
            error = np.abs(actual - answer).max()
            assert error <= TOLERANCE, f"{function} is off by {error:.2e}"
