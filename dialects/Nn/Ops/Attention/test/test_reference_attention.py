# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.attention against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import RNG, normal
from reference import nearest


def attention(q, k, v, scale, mask=None, causal=False) -> np.ndarray:
    """Equation 1 of arXiv 1706.03762 with masks; rows that see nothing are zero."""
    q, k, v = (np.moveaxis(x.astype(float), 2, 1) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = scale * q @ k.swapaxes(-1, -2)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        queries, keys = scores.shape[-2:]
        scores = np.where(np.tri(queries, keys, keys - queries, dtype=bool), scores, -np.inf)
    peak = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(peak), 0, peak))
    total = powers.sum(axis=-1, keepdims=True)
    return np.moveaxis(powers / np.where(total == 0, 1, total) @ v, 1, 2)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", ["plain", "causal", "longer", "boolean", "additive", "grouped"])
def test_attention(evaluate, kind: str, dynamic: bool) -> None:
    queries, keys = (3, 5) if kind in ("causal", "longer") else (4, 4)
    if kind == "longer":
        queries, keys = 5, 3
    heads = 2 if kind == "grouped" else 4
    q, k, v = normal(2, queries, 4, 8), normal(2, keys, heads, 8), normal(2, keys, heads, 6)
    inputs, mask = [q, k, v], None
    if kind == "boolean":
        mask = RNG.random((2, 1, 1, keys)) < 0.5
        mask[0] = False
    if kind == "additive":
        mask = normal(1, 4, queries, keys)
    causal = kind in ("causal", "longer")
    text = "nn.attention {0}, {1}, {2}" + (" mask {3}" if mask is not None else "")
    text += f" {{{{{'causal, ' if causal else ''}scale = 0.25 : f32}}}} : {{types}}"
    if mask is not None:
        inputs.append(mask)
    expected = attention(q, k, v, 0.25, mask, causal)
    # The mask keeps its sizes of 1, which a dynamic size could not say.
    actual = evaluate(text, inputs, (2, queries, 4, 6), dynamic and mask is None)
    nearest(actual, expected)
    if kind == "boolean":
        assert not actual[0].any()
    if kind == "longer":
        assert not actual[:, :2].any()
