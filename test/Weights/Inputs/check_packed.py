# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the packed weights of make_model.py's model, read by the safetensors package."""

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).parents[2] / "Assemble" / "Inputs"))
from make_model import tensors

path = Path(sys.argv[1])
data = path.read_bytes()
length = int.from_bytes(data[:8], "little")
header = json.loads(data[8 : 8 + length])
for name, entry in header.items():
    if name != "__metadata__" and not name.startswith("padding."):
        assert (8 + length + entry["data_offsets"][0]) % 64 == 0, f"{name} is not aligned"

weights, more = tensors()
packed = {name: value for name, value in load_file(path).items() if not name.startswith("padding.")}


def panels(matrix: np.ndarray) -> np.ndarray:
    rows, columns = matrix.shape
    padded = np.zeros(((rows + 31) // 32 * 32, columns), matrix.dtype)
    padded[:rows] = matrix
    return padded.reshape(-1, 32, columns).transpose(0, 2, 1)


expected = {
    "a+b.panels32": panels(np.concatenate([weights["a"], more["b"].reshape(32, 16)])),
    "c.transposed.panels32": panels(weights["c"].T),
    "bias": weights["bias"],
    "scale": weights["scale"],
}
assert sorted(packed) == sorted(expected), sorted(packed)
for name, value in expected.items():
    np.testing.assert_array_equal(packed[name], value, err_msg=name)
