# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mixture of experts in NumPy and float64, token by token, as dialects/Nn/Ops/Experts/Experts.td has it."""

from __future__ import annotations

import numpy as np


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def route(logits: np.ndarray, top_k: int, normalize: bool) -> tuple[np.ndarray, np.ndarray]:
    """Indices and weights [tokens, top_k] for logits [tokens, experts]; a stable sort keeps the order of equal ones."""
    logits = logits.astype(np.float64)
    order = np.where(np.isnan(logits), np.inf, np.where(np.isposinf(logits), 1e300, logits))
    indices = np.argsort(-order, axis=1, kind="stable")[:, :top_k]
    largest = np.where(np.isneginf(logits).all(axis=1, keepdims=True), 0, logits.max(axis=1, keepdims=True))
    with np.errstate(invalid="ignore"):
        powers = np.exp(logits - largest)
        chosen = np.take_along_axis(powers, indices, axis=1)
        total = (chosen if normalize else powers).sum(axis=1, keepdims=True)
    return indices, chosen / np.where(total == 0, 1, total)


def activated(kind: str, gate: np.ndarray, up: np.ndarray, alpha: float = 1.702, limit: float = 7.0) -> np.ndarray:
    if kind == "silu":
        return gate * sigmoid(gate) * up
    gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return (up + 1) * gate * sigmoid(alpha * gate)


def experts(
    x, indices, weights, gate_up, down, gate_up_bias=None, down_bias=None, kind="silu", rounding=None, **limits
) -> np.ndarray:
    """[tokens, hidden] for gate_up [experts, 2, intermediate, hidden] and down [experts, hidden, intermediate].

    `rounding` gives the dequantized values of the intermediate features.
    """
    x, gate_up, down = (array.astype(np.float64) for array in (x, gate_up, down))
    result = np.zeros(x.shape)
    for token in range(len(x)):
        for expert, weight in zip(indices[token], weights[token], strict=True):
            if expert == -1:
                continue
            if not 0 <= expert < len(down):
                result[token] = np.nan
                continue
            parts = gate_up[expert] @ x[token]
            if gate_up_bias is not None:
                parts = parts + gate_up_bias[expert]
            hidden = activated(kind, parts[0], parts[1], **limits)
            row = down[expert] @ (hidden if rounding is None else rounding(hidden.astype(np.float32)))
            if down_bias is not None:
                row = row + down_bias[expert]
            result[token] += weight * row
    return result
