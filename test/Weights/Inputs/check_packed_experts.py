# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks how weights of experts lie in a packed archive. check_packed_experts.py MODEL-DIRECTORY PACKED"""

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

stored, packed = load_file(Path(sys.argv[1]) / "model.safetensors"), load_file(sys.argv[2])
prefix = "model.layers.1."


def panels(matrices: np.ndarray) -> np.ndarray:
    """[…, N, K] → […, ceil(N / 32), K, 32], zero beyond N."""
    *leading, rows, columns = matrices.shape
    padded = np.zeros((*leading, (rows + 31) // 32 * 32, columns), matrices.dtype)
    padded[..., :rows, :] = matrices
    return np.moveaxis(padded.reshape(*leading, -1, 32, columns), -1, -2)


if prefix + "mlp.experts.gate_up_proj" in stored:
    name = prefix + "mlp.experts."
    pairs = stored[name + "gate_up_proj"]  # [experts, hidden, 2 * intermediate], gate and up by turns
    bias = stored[name + "gate_up_proj_bias"]
    expected = {
        name + "gate_up_proj.reordered.panels32": panels(np.stack([pairs[:, :, 0::2], pairs[:, :, 1::2]], 1).mT),
        name + "down_proj.reordered.panels32": panels(stored[name + "down_proj"].mT),
        name + "gate_up_proj_bias.reordered": np.stack([bias[:, 0::2], bias[:, 1::2]], 1),
    }
else:
    name = prefix + "block_sparse_moe.experts."
    keys = [[f"{name}{e}.{part}.weight" for part in ("w1", "w3")] for e in range(5)]
    down = [f"{name}{e}.w2.weight" for e in range(5)]
    expected = {
        "+".join(key for pair in keys for key in pair) + ".panels32": panels(
            np.stack([[stored[k] for k in pair] for pair in keys])
        ),
        "+".join(down) + ".panels32": panels(np.stack([stored[k] for k in down])),
    }
for key, value in expected.items():
    np.testing.assert_array_equal(packed[key], value, err_msg=key)
