# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A BERT encoder in NumPy at double precision, written from the paper's formulas (arXiv 1810.04805).

The oracle for shapes that the goldens do not hold; test_minilm.py checks it against them first.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

# NumPy has no erf. Interpolation between points 4.6e-5 apart is off by less than 3e-10.
_ERF_X = np.linspace(-6, 6, 1 << 18)
_ERF_Y = np.array([math.erf(x) for x in _ERF_X])


def _erf(x: np.ndarray) -> np.ndarray:
    return np.interp(x, _ERF_X, _ERF_Y)


class BertReference:
    """An encoder of a Hugging Face directory with model_type bert."""

    def __init__(self, directory: Path) -> None:
        self.config = json.loads((directory / "config.json").read_text())
        self.weights = {
            name: value.astype(np.float64) if value.dtype.kind == "f" else value
            for name, value in load_file(directory / "model.safetensors").items()
        }

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def _layer_norm(self, x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + self.config["layer_norm_eps"])
        return centred / scale * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def _attention(self, x: np.ndarray, mask: np.ndarray, layer: str) -> np.ndarray:
        batch, sequence, hidden = x.shape
        heads = self.config["num_attention_heads"]

        def split(name: str) -> np.ndarray:
            y = self._linear(x, f"{layer}.attention.self.{name}")
            return y.reshape(batch, sequence, heads, hidden // heads).transpose(0, 2, 1, 3)

        query, key, value = split("query"), split("key"), split("value")
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(hidden // heads)
        scores = np.where(mask[:, None, None, :] != 0, scores, -np.inf)
        # A row without any token to attend to has no defined result; its positions are masked anyway.
        highest = np.maximum(scores.max(-1, keepdims=True), np.finfo(np.float64).min)
        weights = np.exp(scores - highest)
        weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-300)
        return (weights @ value).transpose(0, 2, 1, 3).reshape(batch, sequence, hidden)

    def last_hidden_state(
        self, ids: np.ndarray, mask: np.ndarray | None = None, types: np.ndarray | None = None
    ) -> np.ndarray:
        """Return [batch, sequence, hidden] for ids [batch, sequence]."""
        mask = np.ones_like(ids) if mask is None else mask
        types = np.zeros_like(ids) if types is None else types
        table = self.weights
        x = (
            table["embeddings.word_embeddings.weight"][ids]
            + table["embeddings.position_embeddings.weight"][: ids.shape[1]]
            + table["embeddings.token_type_embeddings.weight"][types]
        )
        x = self._layer_norm(x, "embeddings.LayerNorm")
        for index in range(self.config["num_hidden_layers"]):
            layer = f"encoder.layer.{index}"
            attended = self._linear(self._attention(x, mask, layer), f"{layer}.attention.output.dense")
            x = self._layer_norm(attended + x, f"{layer}.attention.output.LayerNorm")
            inner = self._linear(x, f"{layer}.intermediate.dense")
            inner = 0.5 * inner * (1 + _erf(inner / math.sqrt(2)))
            x = self._layer_norm(self._linear(inner, f"{layer}.output.dense") + x, f"{layer}.output.LayerNorm")
        return x

    def embedding(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Return [batch, hidden]: the mean over unmasked tokens, of length 1."""
        mask = np.ones_like(ids) if mask is None else mask
        hidden = self.last_hidden_state(ids, mask) * mask[..., None]
        mean = hidden.sum(1) / np.maximum(mask.sum(1, keepdims=True), 1e-9)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)
