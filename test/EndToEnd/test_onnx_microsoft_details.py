# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of com.microsoft against their published formulas, where ONNX Runtime has no kernel for processors or rounds
otherwise; and what calls of them are refused."""

from __future__ import annotations

from typing import Any

import intarsia
import numpy as np
import pytest
from onnx_wire import INT32, MICROSOFT, UINT8, field, graph, model, node, tensor, value


def compiled(tmp_path, nodes: list[bytes], inputs: list[bytes], stored: Any, outputs: str) -> Any:
    """Return the function of nodes of com.microsoft."""
    made = [each + field(7, MICROSOFT) for each in nodes]
    (tmp_path / "m.onnx").write_bytes(model(graph(made, inputs, outputs, stored)))
    return intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return numbers around 0."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def silu(x: np.ndarray) -> np.ndarray:
    """Return x * sigmoid(x)."""
    return x / (1 + np.exp(-x))


def test_sums(tmp_path):
    """BiasAdd, GatedAdd, QuickGelu and ScaledSiLU."""
    x, z, gate, bias = normal(2, 3, 8), normal(2, 3, 8, seed=1), normal(8, seed=2), normal(8, seed=3)
    nodes = [
        node("BiasAdd", "x b z", "a"),
        node("GatedAdd", "x z g", "c"),
        node("QuickGelu", "x", "d", alpha=1.5),
        node("ScaledSiLU", "x s", "e"),
        node("ScaledSiLU", "x", "f", alpha=0.5),
    ]
    stored = {"b": tensor(bias, "b", "f4"), "g": tensor(gate, "g", "f4"), "s": tensor([2.0], "s", "f4")}
    main = compiled(tmp_path, nodes, [value("x", ["n", 3, 8]), value("z", ["n", 3, 8])], stored, "a c d e f")
    expected = [x + bias + z, x + z * gate, x / (1 + np.exp(-1.5 * x)), silu(2 * x), silu(0.5 * x)]
    for result, wanted in zip(main(x, z), expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_older_forms(tmp_path):
    """GatherND, Pad, Range and ExpandDims are those of the standard; a Range without a step has 1."""
    x = normal(2, 3, 4)
    nodes = [
        node("GatherND", "x i", "a"),
        node("Pad", "x p v", "b", mode="constant"),
        node("Range", "l h", "c"),
        node("Range", "l h t", "d"),
        node("ExpandDims", "x w", "e"),
    ]
    stored = {
        "i": tensor([[1, 2], [0, 1]], "i"), "p": tensor([0, 1, 0, 0, 0, 2], "p"), "v": tensor(7.0, "v", "f4"),
        "l": tensor(2, "l"), "h": tensor(9, "h"), "t": tensor(3, "t"), "w": tensor(1, "w", "i4"),
    }  # fmt: skip
    results = compiled(tmp_path, nodes, [value("x", [2, 3, 4])], stored, "a b c d e")(x)
    padded = np.pad(x, [(0, 0), (1, 0), (0, 2)], constant_values=7)
    expected = [x[[1, 0], [2, 1]], padded, np.arange(2, 9), np.arange(2, 9, 3), x[:, None]]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_products(tmp_path):
    """TransposeMatMul and FusedMatMulActivation; a convolution of the past."""
    x, weight, taps = normal(2, 3, 4), normal(3, 5, seed=1), normal(3, 1, 3, seed=2)
    nodes = [
        node("TransposeMatMul", "x w", "a", transA=1, alpha=0.5),
        node("FusedMatMulActivation", "x w", "c", transA=1, activation="LeakyRelu", activation_alpha=0.25),
        node("CausalConvWithState", "x t", "e", activation="silu"),
    ]
    stored = {"w": tensor(weight, "w", "f4"), "t": tensor(taps, "t", "f4")}
    results = compiled(tmp_path, nodes, [value("x", [2, 3, 4])], stored, "a c e")(x)
    product = x.transpose(0, 2, 1) @ weight
    past = np.pad(x, [(0, 0), (0, 0), (2, 0)])
    summed = sum(past[..., tap : tap + 4] * taps[:, 0, tap, None] for tap in range(3))
    expected = [product / 2, np.where(product < 0, product / 4, product), silu(summed)]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def test_channels_last(tmp_path):
    """NhwcConv and NhwcFusedConv convolve images whose channels are the last dimension."""
    x, z, weight, bias = normal(1, 5, 4, 6), normal(1, 5, 4, 8), normal(8, 3, 1, 1), normal(8, seed=1)
    nodes = [
        node("NhwcConv", "x w b", "a", group=2),
        node("NhwcFusedConv", "x w b z", "c", group=2, activation="Relu"),
    ]
    stored = {"w": tensor(weight, "w", "f4"), "b": tensor(bias, "b", "f4")}
    main = compiled(tmp_path, nodes, [value("x", ["n", 5, "v", 6]), value("z", ["n", 5, "v", 8])], stored, "a c")
    plain = np.concatenate([x[..., :3] @ weight[:4, :, 0, 0].T, x[..., 3:] @ weight[4:, :, 0, 0].T], -1) + bias
    results = main(x, z)
    np.testing.assert_allclose(results[0], plain, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(results[1], np.maximum(plain + z, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bits", [2, 4])
def test_experts_with_zero_points(tmp_path, bits):
    """QMoE of blocks whose zero points lie packed as values do."""
    random = np.random.default_rng(bits)
    count, hidden, inner, block = 2, 32, 32, 16

    def layer(outputs: int, inputs: int) -> tuple[np.ndarray, list[np.ndarray]]:
        values = random.integers(0, 1 << bits, (count, outputs, inputs))
        zeros = random.integers(0, 1 << bits, (count, outputs, inputs // block))
        scales = (random.random((count, outputs, inputs // block)) * 0.1 + 0.05).astype(np.float32)
        real = (values - zeros.repeat(block, -1)) * scales.repeat(block, -1)

        def pack(numbers: np.ndarray) -> np.ndarray:
            each = 8 // bits
            padded = np.pad(numbers, [(0, 0), (0, 0), (0, -numbers.shape[-1] % each)])
            parts = padded.reshape(*padded.shape[:-1], -1, each) << (np.arange(each) * bits)
            return parts.sum(-1).astype(np.uint8)

        return real, [pack(values), scales, pack(zeros)]

    first, of_first = layer(inner, hidden)
    second, of_second = layer(hidden, inner)
    stored = {
        name: tensor(array, name, "f4" if array.dtype == np.float32 else "u1")
        for name, array in zip("abcdef", of_first + of_second, strict=True)
    }
    made = node("QMoE", "x r a b - d e - - - - c f", "y", k=1, activation_type="relu", expert_weight_bits=bits,
                block_size=block)  # fmt: skip
    x, logits = normal(5, hidden), normal(5, count)
    y = compiled(tmp_path, [made], [value("x", ["t", hidden]), value("r", ["t", count])], stored, "y")(x, logits)
    share = np.exp(logits - logits.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    chosen = logits.argmax(-1)
    for row, expert in enumerate(chosen):
        wanted = second[expert] @ np.maximum(first[expert] @ x[row], 0) * share[row, expert]
        np.testing.assert_allclose(y[row], wanted, rtol=0, atol=2e-4 * np.abs(wanted).max())


def test_codebooks_whose_blocks_cross_rows(tmp_path):
    """MatMulBnb4 of a weight whose rows are no whole blocks, and of one that the call gives."""
    random = np.random.default_rng(0)
    codebook = np.array(
        [0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4, 0, -1 / 192, -2 / 3, -1, -1 / 3, -1 / 2, -1 / 6, -1 / 4]
    )
    for inputs in (24, 32):
        values, scales = random.integers(0, 16, 4 * inputs), random.random(4 * inputs // 16).astype(np.float32)
        weight = (codebook[values] * scales.repeat(16)).reshape(4, inputs)
        bytes_ = (values[::2] << 4 | values[1::2]).astype(np.uint8)
        x = normal(3, inputs)
        made = node("MatMulBnb4", "x w s", N=4, K=inputs, block_size=16, quant_type=0)
        stored = {"w": tensor(bytes_, "w", "u1"), "s": tensor(scales, "s", "f4")}
        main = compiled(tmp_path, [made], [value("x", ["n", inputs])], stored, "y")
        np.testing.assert_allclose(main(x), x @ weight.T, rtol=0, atol=1e-5)
        inputs_of_call = [value("x", ["n", inputs]), value("w", [len(bytes_)], UINT8)]
        main = compiled(tmp_path, [made], inputs_of_call, {"s": stored["s"]}, "y")
        np.testing.assert_allclose(main(x, bytes_), x @ weight.T, rtol=0, atol=1e-5)


def test_codebooks_at_load(tools, tmp_path):
    """The weight of a MatMulBnb4 is computed when a model is loaded, not in each call."""
    size = 512
    made = node("MatMulBnb4", "x w s", N=size, K=size, block_size=64, quant_type=1) + field(7, MICROSOFT)
    stored = {
        "w": tensor(np.arange(size * size // 2) % 256, "w", "u1"),
        "s": tensor(np.ones(size * size // 64), "s", "f4"),
    }
    (tmp_path / "m.onnx").write_bytes(model(graph([made], [value("x", [1, size])], "y", stored)))
    tools.run("intarsia-compile", tmp_path / "m.onnx", "--stop-after=fuse", "-o", tmp_path / "m.mlir")
    assert "@constants_at_load()" in (tmp_path / "m.mlir").read_text()


def test_full_caches(tmp_path):
    """A call that has more tokens than rows of a cache of fixed length ends with an error: none is dropped."""
    heads, rows, size = 2, 4, 8
    made = node("GroupQueryAttention", "q k v a b l t", "y c d", num_heads=heads, kv_num_heads=heads)
    inputs = [
        *(value(name, [1, 1, heads * size]) for name in "qkv"),
        *(value(name, [1, heads, rows, size]) for name in "ab"),
        value("l", [1], INT32), value("t", [1], INT32),
    ]  # fmt: skip
    main = compiled(tmp_path, [made], inputs, None, "y c d")
    token, cache = normal(1, 1, heads * size), normal(1, heads, rows, size)
    last = np.array([rows - 1], np.int32)
    _, keys, _ = main(token, token, token, cache, cache, last, last + 1)
    np.testing.assert_array_equal(keys[0, :, -1].reshape(-1), token[0, 0])
    with pytest.raises(intarsia.Error, match="'seqlens_k' has more tokens than the cache has rows"):
        main(token, token, token, cache, cache, last + 1, last + 2)
