# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Converts a Hugging Face Llama to an OpenVINO model with four-bit weights.

The graph has the patterns that OpenVINO's CPU plugin fuses: RMS, RoPE, attention with the state of keys and values (one
node; queries that share keys are a broadcast before it), compressed weights. Weights are as `nncf.compress_weights`
makes them with INT4_SYM and group size 32: linears of the layers in signed values of four bits with an f16 scale for
32, embedding and head in its backup mode INT8_ASYM, eight bits with scale and zero point for a row. Logits are those
after the last token.

Alternatives on a Zen 5 with two threads were slower: unsigned values with zero points of 8 by a fifth, `causal`
attention without a mask by a twentieth.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as op
from safetensors import safe_open

from harness.llama import read_config

GROUP = 32
MASKED = -65504.0  # the least f16
Node = Any  # openvino.Node


def constant(values: Any, dtype: type) -> Node:
    return op.constant(np.asarray(values, dtype))


def int4_weight(weight: np.ndarray) -> Node:
    """Returns integers -8 … 7 [n, k / 32, 32] and scales; the largest magnitude in a group becomes -8."""
    rows, columns = weight.shape
    groups = weight.astype(np.float32).reshape(rows, columns // GROUP, GROUP)
    largest = np.take_along_axis(groups, np.abs(groups).argmax(-1, keepdims=True), -1)
    scales = (largest / -8).astype(np.float16)
    divisors = np.where(scales == 0, 1, scales.astype(np.float32))
    quantized = np.clip(np.rint(groups / divisors), -8, 7).astype(np.int8).reshape(-1, 2)
    packed = (quantized[:, 0] & 15 | (quantized[:, 1] & 15) << 4).astype(np.uint8)
    # Without a copy the constant would read memory that Python has freed.
    stored = op.constant(ov.Tensor(packed, ov.Shape(groups.shape), ov.Type.i4), shared_memory=False)
    dequantized = op.multiply(op.convert(stored, "f16"), op.constant(scales))
    return op.convert(op.reshape(dequantized, constant([rows, columns], np.int64), False), "f32")


def int8_weight(weight: np.ndarray) -> Node:
    """Returns integers 0 … 255 [n, k], and a scale and a zero point for each row."""
    values = weight.astype(np.float32)
    low = np.minimum(values.min(-1, keepdims=True), 0)
    high = np.maximum(values.max(-1, keepdims=True), 0)
    scales = ((high - low) / 255).astype(np.float16)
    divisors = np.where(scales == 0, 1, scales.astype(np.float32))
    zeros = np.clip(np.rint(-low / divisors), 0, 255)
    quantized = np.clip(np.rint(values / divisors) + zeros, 0, 255).astype(np.uint8)
    offset = op.subtract(
        op.convert(op.constant(quantized), "f16"), op.convert(op.constant(zeros.astype(np.uint8)), "f16")
    )
    return op.convert(op.multiply(offset, op.constant(scales)), "f32")


class Builder:
    """Builds the graph of one model."""

    def __init__(self, config: dict[str, Any], tensor: Callable[[str], np.ndarray]) -> None:
        self.config, self.tensor = config, tensor
        self.heads, self.key_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.head_dim = config["hidden_size"] // self.heads
        self.ids = self._input("input_ids", [-1, -1], np.int64)
        self.positions = self._input("position_ids", [-1, -1], np.int64)
        self.beams = self._input("beam_idx", [-1], np.int32)
        self.sizes = op.shape_of(self.ids, "i64")
        self.batch = self._size(self.sizes, 0)
        self.cosines, self.sines = self._rotations()
        self.mask: Node = None
        self.sinks: list[Node] = []

    def build(self) -> ov.Model:
        table = int8_weight(self.tensor("model.embed_tokens.weight"))
        hidden = op.gather(table, op.convert(self.ids, "i32"), constant(0, np.int32))
        for layer in range(self.config["num_hidden_layers"]):
            hidden = self._layer(hidden, layer)
        hidden = self._norm(self._slice(hidden, 1, -1, 2**62), "model.norm.weight")
        tied = self.config.get("tie_word_embeddings", False)
        head = table if tied else int8_weight(self.tensor("lm_head.weight"))
        logits = op.matmul(hidden, head, False, True)
        logits.output(0).set_names({"logits"})
        return ov.Model([op.result(logits)], self.sinks, [self.ids, self.positions, self.beams], "llama")

    def _layer(self, hidden: Node, layer: int) -> Node:
        at = f"model.layers.{layer}."
        read = self._norm(hidden, f"{at}input_layernorm.weight")
        queries, keys, values = (self._linear(read, f"{at}self_attn.{name}_proj.weight") for name in "qkv")
        queries = self._rotate(self._split(queries, self.heads))
        keys = self._with_past(self._rotate(self._split(keys, self.key_heads)), layer, "key")
        values = self._with_past(self._split(values, self.key_heads), layer, "value")
        mixed = op.scaled_dot_product_attention(queries, keys, values, self.mask, causal=False)
        concatenated = op.reshape(
            op.transpose(mixed, constant([0, 2, 1, 3], np.int32)),
            constant([0, 0, self.heads * self.head_dim], np.int64),
            True,
        )
        hidden = op.add(hidden, self._linear(concatenated, f"{at}self_attn.o_proj.weight"))
        read = self._norm(hidden, f"{at}post_attention_layernorm.weight")
        gate, up = (self._linear(read, f"{at}mlp.{name}_proj.weight") for name in ("gate", "up"))
        return op.add(hidden, self._linear(op.multiply(op.swish(gate), up), f"{at}mlp.down_proj.weight"))

    def _input(self, name: str, shape: list[int], dtype: type) -> Node:
        parameter = op.parameter(shape, dtype, name=name)
        parameter.output(0).set_names({name})
        return parameter

    def _size(self, sizes: Node, axis: int) -> Node:
        return op.gather(sizes, constant([axis], np.int64), constant(0, np.int64))

    def _slice(self, value: Node, axis: int, begin: int, end: int) -> Node:
        arguments = (constant([number], np.int64) for number in (begin, end, 1, axis))
        return op.slice(value, *arguments)

    def _linear(self, value: Node, name: str) -> Node:
        return op.matmul(value, int4_weight(self.tensor(name)), False, True)

    def _norm(self, value: Node, name: str) -> Node:
        mean = op.reduce_mean(op.power(value, constant(2, np.float32)), constant([-1], np.int32), True)
        root = op.sqrt(op.add(mean, constant(self.config["rms_norm_eps"], np.float32)))
        scaled = op.multiply(value, op.divide(constant(1, np.float32), root))
        return op.multiply(scaled, constant(self.tensor(name).reshape(1, 1, -1), np.float32))

    def _split(self, value: Node, heads: int) -> Node:
        """Splits heads: [batch, tokens, heads * d] → [batch, heads, tokens, d]."""
        apart = op.reshape(value, constant([0, 0, heads, self.head_dim], np.int64), True)
        return op.transpose(apart, constant([0, 2, 1, 3], np.int32))

    def _rotations(self) -> tuple[Node, Node]:
        """Returns cosines and sines [batch, 1, tokens, d]."""
        exponents = np.arange(0, self.head_dim, 2) / self.head_dim
        frequencies = constant((self.config["rope_theta"] ** -exponents).reshape(1, -1, 1), np.float32)
        shape = op.concat([self.batch, constant([1], np.int64), constant([1], np.int64)], 0)
        everywhere = op.broadcast(frequencies, shape, broadcast_spec="BIDIRECTIONAL")
        positions = op.convert(op.unsqueeze(self.positions, constant(1, np.int64)), "f32")
        angles = op.transpose(op.matmul(everywhere, positions, False, False), constant([0, 2, 1], np.int32))
        both = op.concat([angles, angles], -1)
        axis = constant(1, np.int64)
        return op.unsqueeze(op.cos(both), axis), op.unsqueeze(op.sin(both), axis)

    def _rotate(self, value: Node) -> Node:
        half = self.head_dim // 2
        second = op.multiply(self._slice(value, 3, half, 2**62), constant(-1, np.float32))
        turned = op.concat([second, self._slice(value, 3, 0, half)], -1)
        return op.add(op.multiply(value, self.cosines), op.multiply(turned, self.sines))

    def _with_past(self, value: Node, layer: int, kind: str) -> Node:
        """Appends to the state, [batch, key heads, tokens, d]; returns all of it for each query head."""
        shape = op.concat([self.batch, *(constant([size], np.int64) for size in (self.key_heads, 0, self.head_dim))], 0)
        information = ov.op.util.VariableInfo()
        information.data_shape = ov.PartialShape([-1, self.key_heads, -1, self.head_dim])
        information.data_type = ov.Type.f32
        information.variable_id = f"past_key_values.{layer}.{kind}present.{layer}.{kind}"
        variable = ov.op.util.Variable(information)
        past = op.read_value(op.broadcast(constant(0, np.float32), shape), variable)
        past = op.gather(past, self.beams, constant(0, np.int64))
        if self.mask is None:
            self.mask = self._causal_mask(past)
        whole = op.concat([past, value], 2)
        self.sinks.append(op.assign(whole, variable))
        sizes = op.shape_of(whole, "i64")
        groups = [
            self._size(sizes, 0),
            constant([self.key_heads], np.int64),
            constant([self.heads // self.key_heads], np.int64),
            self._size(sizes, 2),
            constant([self.head_dim], np.int64),
        ]
        repeated = op.broadcast(
            op.unsqueeze(whole, constant(2, np.int64)), op.concat(groups, 0), broadcast_spec="BIDIRECTIONAL"
        )
        return op.reshape(repeated, constant([0, self.heads, -1, self.head_dim], np.int64), True)

    def _causal_mask(self, past: Node) -> Node:
        """Returns the mask [batch, 1, tokens, tokens with the past] of positions that a token may not see."""
        length = op.add(self._size(op.shape_of(past, "i64"), 2), self._size(self.sizes, 1))
        zero, one = constant(0, np.int64), constant(1, np.int64)
        keys = op.unsqueeze(op.range(zero, op.squeeze(length, zero), one, "i64"), constant([0, 1, 2], np.int64))
        later = op.greater(keys, op.unsqueeze(self.positions, constant([1, 3], np.int64)))
        return op.select(later, constant(MASKED, np.float32), constant(0, np.float32))


def make_openvino(folder: Path, target: Path) -> None:
    """Writes the model of a Hugging Face directory as `target` (.xml) and its weights beside it (.bin)."""
    with safe_open(folder / "model.safetensors", "pt") as file:  # NumPy has no bf16
        model = Builder(read_config(folder), lambda name: file.get_tensor(name).float().numpy()).build()
    partial = target.with_name(f"partial-{target.name}")
    ov.save_model(model, partial, compress_to_fp16=False)
    partial.with_suffix(".bin").rename(target.with_suffix(".bin"))
    partial.rename(target)
