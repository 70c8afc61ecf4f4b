# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference lowering of nn ops against NumPy in double precision, by the formulas of the papers that define them.

The lowering computes in f64 and rounds once, so every result is the number of its type that is nearest to NumPy's. Sums
of at most 64 values around 1 may differ by 1e-13, as their order does.
"""

from __future__ import annotations

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from random_numbers import RNG, normal
from reference import Reference

TYPES = {
    np.dtype(np.float32): "f32",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(bool): "i1",
    np.dtype(np.int64): "i64",
}


@pytest.fixture
def evaluate(tools, tmp_path: Path):
    """Run one op on arrays. With `dynamic` it sees every size as dynamic, so that no static shape helps it."""

    def run(
        op: str, inputs: list[np.ndarray], shape: tuple[int, ...], dynamic: bool = False, dtype=np.float32
    ) -> np.ndarray:
        def tensor(sizes: tuple[int, ...], element: str, wild: tuple[int, ...] = ()) -> str:
            return "tensor<" + "".join(f"{'?' if d in wild else n}x" for d, n in enumerate(sizes)) + element + ">"

        static = [tensor(value.shape, TYPES[value.dtype]) for value in inputs]
        inner, casts = static, ""
        result = tensor(shape, TYPES[np.dtype(dtype)])
        loose = result
        if dynamic:
            # Batch and sequence only: head counts and features are static in the op's contract.
            inner = [
                tensor(v.shape, TYPES[v.dtype], (0, 1) if v.ndim > 2 else (0,) if v.ndim == 2 else ()) for v in inputs
            ]
            loose = tensor(shape, TYPES[np.dtype(dtype)], (0, 1) if len(shape) > 2 else (0,))
            casts = "".join(
                f"%v{i} = tensor.cast %a{i} : {s} to {d}\n"
                for i, (s, d) in enumerate(zip(static, inner, strict=True))
                if s != d
            )
        names = [f"%v{i}" if dynamic and static[i] != inner[i] else f"%a{i}" for i in range(len(inputs))]
        body = op.format(*names, types=f"({', '.join(inner)}) -> {loose}", type=loose)
        back = "" if loose == result else f"%s = tensor.cast %r : {loose} to {result}"
        arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(static))
        mlir = f"""
            func.func @f({arguments}) -> {result} {{
              {casts}
              %r = {body}
              {back}
              return {"%s" if back else "%r"} : {result}
            }}"""
        return Reference(tools.path("intarsia-opt"), mlir, tmp_path)("f", inputs, [np.full(shape, np.nan, dtype)])[0]

    return run


def nearest(actual: np.ndarray, expected: np.ndarray) -> None:
    """Demand that no number of the type is nearer, but for what f64 rounds."""
    slack = 1e-13 * np.maximum(1, np.abs(expected))
    bounds = [np.nextafter(actual, np.full_like(actual, side)).astype(np.float64) for side in (-np.inf, np.inf)]
    low, high = ((bound + actual.astype(np.float64)) / 2 for bound in bounds)
    wrong = ~((low - slack <= expected) & (expected <= high + slack))
    assert not wrong.any(), f"{actual[wrong][:4]} is not nearest to {expected[wrong][:4]}"


@pytest.mark.parametrize("dynamic", [False, True])
def test_linear(evaluate, dynamic: bool) -> None:
    x, w, b = normal(2, 3, 64), normal(5, 64), normal(5)
    expected = x.astype(float) @ w.astype(float).T + b
    nearest(evaluate("nn.linear {0}, {1}, {2} : {types}", [x, w, b], (2, 3, 5), dynamic), expected)


def test_linear_bf16(evaluate) -> None:
    x, w = normal(3, 64).astype(ml_dtypes.bfloat16), normal(5, 64).astype(ml_dtypes.bfloat16)
    actual = evaluate("nn.linear {0}, {1} : {types}", [x, w], (3, 5), dtype=ml_dtypes.bfloat16)
    nearest(actual, x.astype(float) @ w.astype(float).T)


@pytest.mark.parametrize("flags", ["", "transpose_lhs", "transpose_rhs", "transpose_lhs, transpose_rhs"])
def test_matmul(evaluate, flags: str) -> None:
    a, b = normal(2, 3, 16), normal(2, 16, 4)
    lhs = np.ascontiguousarray(a.swapaxes(1, 2)) if "lhs" in flags else a
    rhs = np.ascontiguousarray(b.swapaxes(1, 2)) if "rhs" in flags else b
    text = "nn.matmul {0}, {1} " + (f"{{{{{flags}}}}} " if flags else "") + ": {types}"
    nearest(evaluate(text, [lhs, rhs], (2, 3, 4), dynamic=not flags), a.astype(float) @ b.astype(float))


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


@pytest.mark.parametrize("dynamic", [False, True])
def test_layer_norm(evaluate, dynamic: bool) -> None:
    x, g, b = normal(2, 3, 64) + 3, normal(64), normal(64)
    y = x.astype(float)
    epsilon = float(np.float32(1e-5))
    expected = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + epsilon) * g + b
    text = "nn.layer_norm {0}, {1}, {2} {{epsilon = 1.0e-5 : f32}} : {types}"
    nearest(evaluate(text, [x, g, b], (2, 3, 64), dynamic), expected)


def test_rms_norm(evaluate) -> None:
    x, g = normal(2, 3, 64), normal(64)
    y = x.astype(float)
    expected = y / np.sqrt((y * y).mean(-1, keepdims=True) + float(np.float32(1e-6))) * g
    nearest(evaluate("nn.rms_norm {0}, {1} {{epsilon = 1.0e-6 : f32}} : {types}", [x, g], (2, 3, 64), True), expected)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("groups", [2, 8, 64])
def test_group_norm(evaluate, groups: int, dynamic: bool) -> None:
    """Section 3.1 of arXiv 1803.08494, for rows that are one position each."""
    x, g, b = normal(2, 3, 64) + 3, normal(64), normal(64)
    y = x.astype(float).reshape(2, 3, groups, -1)
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + float(np.float32(1e-5)))
    expected = y.reshape(2, 3, 64) * g + b
    text = f"nn.group_norm {{0}}, {{1}}, {{2}} {{{{epsilon = 1.0e-5 : f32, groups = {groups}}}}} : {{types}}"
    nearest(evaluate(text, [x, g, b], (2, 3, 64), dynamic), expected)


def test_softmax(evaluate) -> None:
    x = normal(4, 16) * 10
    x[1], x[2, 3:] = -np.inf, -np.inf
    y = np.where(np.isinf(x.max(-1, keepdims=True)), -1e9, x.astype(float))
    expected = np.exp(y - y.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    expected[1] = 0
    nearest(evaluate("nn.softmax {0} : {type}", [x], (4, 16), True), expected)


ACTIVATIONS = {
    "gelu {0} {{form = #nn.gelu_form<erf>}}": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "gelu {0} {{form = #nn.gelu_form<tanh>}}": lambda x: (
        x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "silu {0}": lambda x: x / (1 + math.exp(-x)),
    "relu {0}": lambda x: max(x, 0.0),
    "tanh {0}": math.tanh,
    "sigmoid {0}": lambda x: 1 / (1 + math.exp(-x)),
}


@pytest.mark.parametrize("op", ACTIVATIONS)
def test_activation(evaluate, op: str) -> None:
    x = np.linspace(-9, 9, 256, dtype=np.float32)
    nearest(evaluate(f"nn.{op} : {{type}}", [x], (256,)), np.vectorize(ACTIVATIONS[op])(x.astype(float)))


@pytest.mark.parametrize("form", ["erf", "tanh"])
def test_gelu_far_below_zero(evaluate, form: str) -> None:
    """Values so near zero that 1 + erf and 1 + tanh have no digit of them."""
    x = np.linspace(-12, -5, 64, dtype=np.float32)
    y = x.astype(float)
    expected = [v / 2 * math.erfc(-v / math.sqrt(2)) for v in y]
    if form == "tanh":
        expected = y / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    actual = evaluate(f"nn.gelu {{0}} {{{{form = #nn.gelu_form<{form}>}}}} : {{type}}", [x], (64,))
    np.testing.assert_allclose(actual, expected, rtol=6e-8, atol=1e-45)


def test_relu_keeps_nan(evaluate) -> None:
    assert np.isnan(evaluate("nn.relu {0} : {type}", [np.array([np.nan], np.float32)], (1,))[0])


def test_embedding(evaluate) -> None:
    table, ids = normal(50, 7), RNG.integers(0, 50, (3, 4))
    np.testing.assert_array_equal(evaluate("nn.embedding {0}, {1} : {types}", [table, ids], (3, 4, 7)), table[ids])


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope(evaluate, interleaved: bool) -> None:
    """Features 8 and 9 are beyond the rotated ones."""
    x, positions = normal(2, 5, 3, 10), RNG.integers(0, 100, (2, 5))
    frequencies = (10000.0 ** (-np.arange(4) / 4)).astype(np.float32)
    angles = (positions[..., None].astype(np.float32) * frequencies)[:, :, None, :].astype(float)
    pairs = x[..., :8].astype(float)
    first, second = (pairs[..., 0::2], pairs[..., 1::2]) if interleaved else (pairs[..., :4], pairs[..., 4:])
    turned = 1.5 * (first + 1j * second) * np.exp(1j * angles)
    expected = x.astype(float)
    if interleaved:
        expected[..., 0:8:2], expected[..., 1:8:2] = turned.real, turned.imag
    else:
        expected[..., :4], expected[..., 4:8] = turned.real, turned.imag
    flags = ("interleaved, " if interleaved else "") + "attention_factor = 1.5 : f32"
    text = f"nn.rope {{0}}, {{1}}, {{2}} {{{{{flags}}}}} : {{types}}"
    nearest(evaluate(text, [x, positions, frequencies], x.shape, True), expected)
