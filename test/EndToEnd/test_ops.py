# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every nn op through the whole compiler and the CPU kernels, against NumPy in float64.

Sizes are odd on purpose: remainders of register tiles, of panels and of vectors, one row, several threads.
Tolerances are relative to the magnitude of the sums; each is some units in the last place of float32 (or bfloat16).
"""

from __future__ import annotations

import math

import intarsia
import ml_dtypes
import numpy as np
import pytest
from programs import build, close, matmul_error
from random_numbers import RNG, normal


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def group_norm(x: np.ndarray, groups: int, epsilon: float) -> np.ndarray:
    """Section 3.1 of arXiv 1803.08494, for an input [rows, features] without positions."""
    parts = x.reshape(len(x), groups, -1)
    parts = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + epsilon)
    return parts.reshape(x.shape)


UNARY = {
    "nn.gelu %r {form = #nn.gelu_form<erf>}": gelu,
    "nn.gelu %r {form = #nn.gelu_form<tanh>}": lambda x: (
        0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "nn.silu %r": lambda x: x / (1 + np.exp(-x)),
    "nn.relu %r": lambda x: np.maximum(x, 0),
    "nn.tanh %r": np.tanh,
    "nn.sigmoid %r": lambda x: 1 / (1 + np.exp(-x)),
    "math.exp %r": np.exp,
    "math.erf %r": np.vectorize(math.erf),
}

VARIANTS = ["cpu", "cpu:x86-64-v3", "cpu:x86-64-v2"]


def test_extremes_of_halves(tools, tmp_path):
    """LLVM narrows the largest of two f16 that are widened, and calls a function of the C library for it."""
    text = "".join(
        f"""func.func @{op}(%a: tensor<?xf16> {{nn.sizes = ["n"]}}, %b: tensor<?xf16> {{nn.sizes = ["n"]}})
          -> (tensor<?xf16> {{nn.sizes = ["n"]}}) {{
          %y = arith.{op} %a, %b : tensor<?xf16>
          return %y : tensor<?xf16> }}\n"""
        for op in ("maxnumf", "minnumf")
    )
    module = build(tools, tmp_path, text)
    special = np.array([np.nan, np.inf, -np.inf, 0, 65504, 6e-8, -1.5], np.float16)
    a, b = (each.ravel() for each in np.meshgrid(special, special))
    np.testing.assert_array_equal(module.maxnumf(a, b), np.fmax(a, b))
    np.testing.assert_array_equal(module.minnumf(a, b), np.fmin(a, b))


@pytest.mark.parametrize("op", UNARY)
def test_unary(tools, tmp_path, op):
    module = build(
        tools,
        tmp_path,
        f"""func.func @main(%r: tensor<?x?xf32> {{nn.name = "x", nn.sizes = ["a", "b"]}})
          -> (tensor<?x?xf32> {{nn.name = "y", nn.sizes = ["a", "b"]}}) {{
          %y = {op} : tensor<?x?xf32>
          return %y : tensor<?x?xf32> }}""",
    )
    for shape in ((1, 1), (3, 37), (5, 64)):
        x = normal(*shape) * 3
        expected = UNARY[op](x.astype(np.float64))
        close(module.main(x), expected, 4e-7 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("target", VARIANTS)
@pytest.mark.parametrize(("outputs", "inputs"), [(96, 64), (100, 33), (1, 7), (33, 513), (31, 5)])
def test_linear(tools, tmp_path, outputs, inputs, target):
    weight, bias = normal(outputs, inputs), normal(outputs)
    types = (
        f"(tensor<?x{inputs}xf32>, tensor<{outputs}x{inputs}xf32>, tensor<{outputs}xf32>) -> tensor<?x{outputs}xf32>"
    )
    module = build(
        tools,
        tmp_path,
        f"""func.func @main(%x: tensor<?x{inputs}xf32> {{nn.name = "x", nn.sizes = ["rows", ""]}})
          -> (tensor<?x{outputs}xf32> {{nn.name = "y", nn.sizes = ["rows", ""]}}) {{
          %w = nn.weight @weights["w"] : tensor<{outputs}x{inputs}xf32>
          %b = nn.weight @weights["b"] : tensor<{outputs}xf32>
          %y = nn.linear %x, %w, %b : {types}
          %z = nn.silu %y : tensor<?x{outputs}xf32>
          return %z : tensor<?x{outputs}xf32> }}""",
        {"w": weight, "b": bias},
        target,
    )
    for rows in (1, 2, 3, 5, 7, 8, 9, 17, 37, 130):
        x = normal(rows, inputs)
        y = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
        actual = module.main(x)
        close(actual, y / (1 + np.exp(-y)), matmul_error(x, weight.T))
        # A row's sums have one order, whatever the number of rows.
        np.testing.assert_array_equal(module.main(x[-1:]), actual[-1:])


def test_linear_without_rows_before_it(tools, tmp_path):
    """A layer whose input is one vector, and a weight that is computed rather than stored."""
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<3x48xf32> {nn.name = "x"}, %w: tensor<40x48xf32> {nn.name = "w"})
          -> (tensor<3x40xf32> {nn.name = "y"}) {
          %y = nn.linear %x, %w : (tensor<3x48xf32>, tensor<40x48xf32>) -> tensor<3x40xf32>
          return %y : tensor<3x40xf32> }""",
    )
    x, w = normal(3, 48), normal(40, 48)
    close(module.main(x, w), x.astype(np.float64) @ w.T.astype(np.float64), matmul_error(x, w.T))


@pytest.mark.parametrize("target", VARIANTS)
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm", "group_norm"])
@pytest.mark.parametrize("features", [64, 100])
def test_linear_residual_norm(tools, tmp_path, norm, features, target):
    weight, scale, bias = normal(features, 48), normal(features), normal(features)
    row = f"tensor<?x{features}xf32>"
    vector = f"tensor<{features}xf32>"
    call = {
        "layer_norm": f"nn.layer_norm %s, %g, %b {{epsilon = 1.0e-5 : f32}} : ({row}, {vector}, {vector}) -> {row}",
        "rms_norm": f"nn.rms_norm %s, %g {{epsilon = 1.0e-5 : f32}} : ({row}, {vector}) -> {row}",
        "group_norm": f"nn.group_norm %s, %g, %b {{epsilon = 1.0e-5 : f32, groups = 4}}"
        f" : ({row}, {vector}, {vector}) -> {row}",
    }[norm]
    module = build(
        tools,
        tmp_path,
        f"""func.func @main(%x: tensor<?x48xf32> {{nn.name = "x", nn.sizes = ["rows", ""]}},
                           %r: {row} {{nn.name = "r", nn.sizes = ["rows", ""]}})
          -> ({row} {{nn.name = "y", nn.sizes = ["rows", ""]}}, {row} {{nn.name = "sum", nn.sizes = ["rows", ""]}}) {{
          %w = nn.weight @weights["w"] : tensor<{features}x48xf32>
          %g = nn.weight @weights["g"] : {vector}
          %b = nn.weight @weights["b"] : {vector}
          %y = nn.linear %x, %w : (tensor<?x48xf32>, tensor<{features}x48xf32>) -> {row}
          %s = arith.addf %y, %r : {row}
          %n = {call}
          return %n, %s : {row}, {row} }}""",
        {"w": weight, "g": scale, "b": bias},
        target,
    )
    for rows in (1, 6, 33, 100):
        x, r = normal(rows, 48), normal(rows, features)
        s = x.astype(np.float64) @ weight.T.astype(np.float64) + r
        if norm == "rms_norm":
            n = s / np.sqrt((s**2).mean(1, keepdims=True) + 1e-5) * scale
        else:
            n = group_norm(s, 1 if norm == "layer_norm" else 4, 1e-5) * scale + bias
        actual, total = module.main(x, r)
        close(total, s, matmul_error(x, weight.T))
        close(actual, n, 2e-6 * max(1.0, np.abs(n).max()))


# Groups of whole vectors, with and without a remainder, with several sums in flight; smaller ones; of one feature.
@pytest.mark.parametrize(("features", "groups"), [(96, 6), (320, 4), (66, 3), (100, 25), (24, 2), (5, 5), (700, 2)])
@pytest.mark.parametrize(("element", "target"), [*(("f32", target) for target in VARIANTS), ("f16", "cpu")])
def test_group_norm(tools, tmp_path, features, groups, element, target):
    """The gated result of retention (arXiv 2307.08621, equation 8), and a norm of what its kernel computes."""
    dtype, unit = {"f32": (np.float32, 2.0**-24), "f16": (np.float16, 2.0**-11)}[element]
    scale, bias = normal(features).astype(dtype), normal(features).astype(dtype)
    row, vector = f"tensor<?x{features}x{element}>", f"tensor<{features}x{element}>"
    call = f"{{epsilon = 1.0e-5 : f32, groups = {groups}}} : ({row}, {vector}, {vector}) -> {row}"
    module = build(
        tools,
        tmp_path,
        f"""func.func @main(%x: {row} {{nn.name = "x", nn.sizes = ["rows", ""]}},
                           %gate: {row} {{nn.name = "gate", nn.sizes = ["rows", ""]}})
          -> ({row} {{nn.name = "gated", nn.sizes = ["rows", ""]}}, {row} {{nn.name = "n", nn.sizes = ["rows", ""]}}) {{
          %g = nn.weight @weights["g"] : {vector}
          %b = nn.weight @weights["b"] : {vector}
          %n = nn.group_norm %x, %g, %b {call}
          %gated = arith.mulf %n, %gate : {row}
          %sum = arith.addf %x, %gate : {row}
          %m = nn.group_norm %sum, %g, %b {call}
          return %gated, %m : {row}, {row} }}""",
        {"g": scale, "b": bias},
        target,
    )

    def check(actual: np.ndarray, x: np.ndarray, factor: np.ndarray) -> None:
        x, factor = x.astype(np.float64), factor.astype(np.float64)
        deviation = np.sqrt(x.reshape(len(x), groups, -1).var(-1) + 1e-5)
        # Roundings of the input and of the mean are as large, relative to the deviation, as it is small.
        error = 8 * unit * np.abs(x).max() / deviation.min() * np.abs(scale.astype(np.float64)).max()
        expected = (group_norm(x, groups, 1e-5) * scale + bias) * factor
        close(actual, expected, (error + 4 * unit * np.abs(expected).max()) * max(1.0, np.abs(factor).max()))

    for rows in (1, 3, 50):
        x, gate = (normal(rows, features) + 1).astype(dtype), normal(rows, features).astype(dtype)
        gated, m = module.main(x, gate)
        check(gated, x, gate)
        check(m, (x.astype(np.float32) + gate).astype(np.float64), np.ones(1))


def test_softmax(tools, tmp_path):
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<?x?xf32> {nn.name = "x", nn.sizes = ["a", "b"]})
          -> (tensor<?x?xf32> {nn.name = "y", nn.sizes = ["a", "b"]}) {
          %y = nn.softmax %x : tensor<?x?xf32>
          return %y : tensor<?x?xf32> }""",
    )
    for shape in ((1, 1), (4, 15), (3, 64), (2, 1000)):
        x = normal(*shape) * 10
        close(module.main(x), softmax(x.astype(np.float64)), 3e-7)
    x = np.full((2, 20), -np.inf, np.float32)
    x[1, 3] = 2.0
    expected = np.zeros((2, 20))
    expected[1, 3] = 1.0
    close(module.main(x), expected, 0.0)


def attention(q, k, v, scale, mask=None, causal=False):
    """Queries [b, i, h, d], keys and values [b, j, g, d]; float64."""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    repeat = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, repeat, 2), np.repeat(v, repeat, 2)
    scores = np.einsum("bihd,bjhd->bhij", q, k) * scale
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        i, j = np.indices(scores.shape[2:])
        scores = np.where(j <= i + scores.shape[3] - scores.shape[2], scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return np.einsum("bhij,bjhd->bihd", e / np.where(total == 0, 1, total), v)


# All sizes on this machine; on others those that are no multiples of vectors, and those of several of them.
@pytest.mark.parametrize(
    ("heads", "groups", "dim", "target"),
    [
        pytest.param(*size, target, marks=pytest.mark.slow if target != "cpu" and size[0] in (4, 1) else ())
        for size in [(4, 4, 32), (6, 2, 64), (2, 1, 20), (1, 1, 8)]
        for target in VARIANTS
    ],
)
@pytest.mark.parametrize("kind", ["none", "boolean", "additive", "full", "causal"])
def test_attention(tools, tmp_path, heads, groups, dim, kind, target):
    q_type, k_type = f"tensor<?x?x{heads}x{dim}xf32>", f"tensor<?x?x{groups}x{dim}xf32>"
    of_heads = heads if groups < heads else 1  # a mask for each head, or one for all
    mask_type = {
        "boolean": "tensor<?x1x1x?xi1>",
        "additive": "tensor<?x1x1x?xf32>",
        "full": f"tensor<?x{of_heads}x?x?xf32>",
    }
    argument, operand, mask_operand = "", "", ""
    if kind in mask_type:
        sizes = '["batch", "", "queries", "keys"]' if kind == "full" else '["batch", "", "", "keys"]'
        argument = f', %m: {mask_type[kind]} {{nn.name = "m", nn.sizes = {sizes}}}'
        operand, mask_operand = " mask %m", f", {mask_type[kind]}"
    attributes = f"scale = {dim**-0.5} : f32" + (", causal" if kind == "causal" else "")
    module = build(
        tools,
        tmp_path,
        f"""func.func @main(%q: {q_type} {{nn.name = "q", nn.sizes = ["batch", "queries", "", ""]}},
                           %k: {k_type} {{nn.name = "k", nn.sizes = ["batch", "keys", "", ""]}},
                           %v: {k_type} {{nn.name = "v", nn.sizes = ["batch", "keys", "", ""]}}{argument})
          -> ({q_type} {{nn.name = "y", nn.sizes = ["batch", "queries", "", ""]}}) {{
          %y = nn.attention %q, %k, %v{operand} {{{attributes}}} : ({q_type}, {k_type}, {k_type}{mask_operand}) -> {q_type}
          return %y : {q_type} }}""",
        target=target,
    )
    for batch, queries, keys in ((1, 1, 1), (2, 5, 9), (1, 33, 40), (2, 64, 300), (1, 40, 33)):
        q, k, v = normal(batch, queries, heads, dim), normal(batch, keys, groups, dim), normal(batch, keys, groups, dim)
        mask = None
        if kind == "boolean":
            mask = RNG.random((batch, 1, 1, keys)) < 0.7
        elif kind == "additive":
            mask = normal(batch, 1, 1, keys)
            mask[..., keys // 2 :] = -np.inf if keys > 1 else 0
        elif kind == "full":
            mask = normal(batch, of_heads, queries, keys)
            mask[:, :, 0] = -np.inf  # a query that may see nothing
        inputs = [q, k, v] + ([mask] if mask is not None else [])
        close(module.main(*inputs), attention(q, k, v, dim**-0.5, mask, kind == "causal"), 3e-6)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_integers_without_a_sign(tools, tmp_path, target):
    """Callers pass and get them as their type says; others with these bits are refused."""
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<4xi8> {nn.name = "x", nn.unsigned}) -> (tensor<4xi8> {nn.name = "y", nn.unsigned}, tensor<4xf32> {nn.name = "f"}) {
          %e = tensor.empty() : tensor<4xf32>
          %f = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
              ins(%x : tensor<4xi8>) outs(%e : tensor<4xf32>) {
          ^bb0(%v: i8, %o: f32):
            %c = arith.uitofp %v : i8 to f32
            linalg.yield %c : f32 } -> tensor<4xf32>
          %y = arith.addi %x, %x : tensor<4xi8>
          return %y, %f : tensor<4xi8>, tensor<4xf32> }""",
        target=target,
    )
    x = np.array([0, 1, 127, 255], np.uint8)
    y, f = module.main(x)
    assert y.dtype == np.uint8
    np.testing.assert_array_equal(y, x + x)
    np.testing.assert_array_equal(f, x)
    with pytest.raises(intarsia.Error, match="x"):
        module.main(x.astype(np.int8))


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v2", "reference", "emulated:sm_90a", "emulated:gfx942"])
def test_narrow_masks(tools, tmp_path, target):
    """Masks of 16 bits beside queries of 32 bits, and of the type that queries have."""
    text, cases = "", {}
    for element, mask in (("f32", "f16"), ("f32", "bf16"), ("f16", "f16"), ("bf16", "bf16")):
        q, m = f"tensor<2x9x3x24x{element}>", f"tensor<2x1x9x9x{mask}>"
        name = f"{element}_{mask}"
        cases[name] = (element, mask)
        text += f"""func.func @{name}(%q: {q} {{nn.name = "q"}}, %k: {q} {{nn.name = "k"}}, %v: {q} {{nn.name = "v"}},
            %m: {m} {{nn.name = "m"}}) -> {q} {{
          %y = nn.attention %q, %k, %v mask %m {{scale = 0.2 : f32}} : ({q}, {q}, {q}, {m}) -> {q}
          return %y : {q} }}
        """
    module = build(tools, tmp_path, text, target=target)
    types = {"f32": (np.float32, 3e-6), "f16": (np.float16, 2.0**-9), "bf16": (ml_dtypes.bfloat16, 2.0**-6)}
    for name, (element, kind) in cases.items():
        dtype, tolerance = types[element]
        q, k, v = (normal(2, 9, 3, 24).astype(dtype) for _ in range(3))
        mask = normal(2, 1, 9, 9)
        mask[:, :, 3:6, 2] = -np.inf
        mask[1, 0, 0] = -np.inf  # a query that may see nothing
        mask = mask.astype(types[kind][0])
        expected = attention(q, k, v, np.float32(0.2), mask.astype(np.float64))
        close(getattr(module, name)(q, k, v, mask), expected, tolerance)


@pytest.mark.parametrize("target", VARIANTS)
@pytest.mark.parametrize("lhs", [False, True])
@pytest.mark.parametrize("rhs", [False, True])
def test_matmul(tools, tmp_path, lhs, rhs, target):
    flags = ", ".join(name for name, on in (("transpose_lhs", lhs), ("transpose_rhs", rhs)) if on)
    left = '["b", "", "k", "m"]' if lhs else '["b", "", "m", "k"]'
    right = '["b", "", "n", "k"]' if rhs else '["b", "", "k", "n"]'
    four = "tensor<?x3x?x?xf32>"
    module = build(
        tools,
        tmp_path,
        f"""func.func @main(%a: {four} {{nn.name = "a", nn.sizes = {left}}},
                           %b: {four} {{nn.name = "b", nn.sizes = {right}}})
          -> ({four} {{nn.name = "c", nn.sizes = ["b", "", "m", "n"]}}) {{
          %c = nn.matmul %a, %b {{{flags}}} : ({four}, {four}) -> {four}
          %d = nn.relu %c : {four}
          return %d : {four} }}""",
        target=target,
    )
    for batch, m, n, k in ((1, 1, 1, 1), (2, 7, 33, 20), (1, 40, 64, 37), (2, 9, 5, 64)):
        a, b = normal(batch, 3, m, k), normal(batch, 3, k, n)
        expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
        actual = module.main(
            np.ascontiguousarray(a.swapaxes(2, 3)) if lhs else a, np.ascontiguousarray(b.swapaxes(2, 3)) if rhs else b
        )
        close(actual, expected, matmul_error(a, b))


def test_embedding_and_norm(tools, tmp_path):
    table, scale, bias = normal(50, 40), normal(40), normal(40)
    module = build(
        tools,
        tmp_path,
        """func.func @main(%i: tensor<?x?xi64> {nn.name = "ids", nn.sizes = ["b", "s"], nn.range = array<i64: 0, 50>})
          -> (tensor<?x?x40xf32> {nn.name = "y", nn.sizes = ["b", "s", ""]}) {
          %t = nn.weight @weights["t"] : tensor<50x40xf32>
          %g = nn.weight @weights["g"] : tensor<40xf32>
          %b = nn.weight @weights["b"] : tensor<40xf32>
          %e = nn.embedding %t, %i : (tensor<50x40xf32>, tensor<?x?xi64>) -> tensor<?x?x40xf32>
          %y = nn.layer_norm %e, %g, %b {epsilon = 1.0e-6 : f32} : (tensor<?x?x40xf32>, tensor<40xf32>, tensor<40xf32>) -> tensor<?x?x40xf32>
          return %y : tensor<?x?x40xf32> }""",
        {"t": table, "g": scale, "b": bias},
    )
    ids = RNG.integers(0, 50, (3, 11))
    e = table[ids].astype(np.float64)
    close(
        module.main(ids),
        (e - e.mean(-1, keepdims=True)) / np.sqrt(e.var(-1, keepdims=True) + 1e-6) * scale + bias,
        5e-6,
    )
    with pytest.raises(intarsia.Error, match="50"):
        module.main(np.full((1, 2), 50))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("dim", "rotary"), [(64, 64), (48, 32), (20, 12)])
def test_rope(tools, tmp_path, dim, rotary, interleaved):
    frequencies = (1e4 ** (-np.arange(rotary // 2) * 2 / rotary)).astype(np.float32)
    kind = f"tensor<?x?x3x{dim}xf32>"
    flag = ", interleaved" if interleaved else ""
    module = build(
        tools,
        tmp_path,
        f"""func.func @main(%x: {kind} {{nn.name = "x", nn.sizes = ["b", "s", "", ""]}},
                           %p: tensor<?x?xi64> {{nn.name = "p", nn.sizes = ["b", "s"]}})
          -> ({kind} {{nn.name = "y", nn.sizes = ["b", "s", "", ""]}}) {{
          %f = nn.weight @weights["f"] : tensor<{rotary // 2}xf32>
          %y = nn.rope %x, %p, %f {{attention_factor = 1.5 : f32{flag}}} : ({kind}, tensor<?x?xi64>, tensor<{rotary // 2}xf32>) -> {kind}
          return %y : {kind} }}""",
        {"f": frequencies},
    )
    x, positions = normal(2, 7, 3, dim), RNG.integers(0, 5000, (2, 7))
    # The angle is a float32 product, as in the models that use it: at position 5000 its rounding is 2e-4 of a turn.
    angle = (positions[:, :, None].astype(np.float32) * frequencies)[:, :, None].astype(np.float64)
    cosine, sine = np.cos(angle) * 1.5, np.sin(angle) * 1.5
    expected = x.astype(np.float64)
    first, second = (
        (slice(0, rotary, 2), slice(1, rotary, 2))
        if interleaved
        else (slice(0, rotary // 2), slice(rotary // 2, rotary))
    )
    a, c = expected[..., first].copy(), expected[..., second].copy()
    expected[..., first], expected[..., second] = a * cosine - c * sine, c * cosine + a * sine
    close(module.main(x, positions), expected, 2e-6)


@pytest.mark.parametrize("depth", [48, 33])
@pytest.mark.parametrize(
    ("kind", "target"),
    [("bf16", "cpu"), ("f16", "cpu"), ("bf16", "cpu:x86-64-v3"), ("f16", "cpu:x86-64-v2"), ("bf16", "cpu:znver5")],
)
def test_narrow_data(tools, tmp_path, kind, target, depth):
    """Weights and activations of two bytes: products and sums in float32, one rounding where a kernel stores.

    Code for Zen 5 multiplies bfloat16 pairs with vdpbf16ps.
    """
    features = intarsia.devices()[0]["features"]
    if target == "cpu:znver5" and not {"avx512bf16", "avxvnni"} <= set(features):
        pytest.skip("this processor lacks features of Zen 5")
    import ml_dtypes

    dtype = ml_dtypes.bfloat16 if kind == "bf16" else np.float16
    weight = normal(70, depth).astype(dtype)
    row = f"tensor<?x70x{kind}>"
    module = build(
        tools,
        tmp_path,
        f"""func.func @main(%x: tensor<?x{depth}xf32> {{nn.name = "x", nn.sizes = ["rows", ""]}})
          -> (tensor<?x70xf32> {{nn.name = "y", nn.sizes = ["rows", ""]}}) {{
          %w = nn.weight @weights["w"] : tensor<70x{depth}x{kind}>
          %n = arith.truncf %x : tensor<?x{depth}xf32> to tensor<?x{depth}x{kind}>
          %y = nn.linear %n, %w : (tensor<?x{depth}x{kind}>, tensor<70x{depth}x{kind}>) -> {row}
          %z = arith.extf %y : {row} to tensor<?x70xf32>
          return %z : tensor<?x70xf32> }}""",
        {"w": weight},
        target,
    )
    for rows in (1, 9, 40):
        x = normal(rows, depth)
        expected = x.astype(dtype).astype(np.float64) @ weight.astype(np.float64).T
        unit = 2.0**-8 if kind == "bf16" else 2.0**-11
        close(module.main(x), expected, unit * np.abs(expected).max())


@pytest.mark.parametrize("target", VARIANTS)
@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_rounding(tools, tmp_path, kind, target):
    """Ties to even, subnormals, overflow and specials, as ml_dtypes and NumPy round."""
    import ml_dtypes

    dtype = ml_dtypes.bfloat16 if kind == "bf16" else np.float16
    module = build(
        tools,
        tmp_path,
        f"""func.func @main(%x: tensor<?xf32> {{nn.name = "x", nn.sizes = ["n"]}})
          -> (tensor<?xf32> {{nn.name = "y", nn.sizes = ["n"]}}) {{
          %n = arith.truncf %x : tensor<?xf32> to tensor<?x{kind}>
          %y = arith.extf %n : tensor<?x{kind}> to tensor<?xf32>
          return %y : tensor<?xf32> }}""",
        target=target,
    )
    patterns = np.arange(2**16, dtype=np.uint16).view(dtype).astype(np.float32)
    finite = np.sort(patterns[np.isfinite(patterns)])
    ties = ((finite[:-1].astype(np.float64) + finite[1:]) / 2).astype(np.float32)
    random = RNG.integers(0, 2**32, 2**18, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        x = np.concatenate([patterns, ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), random]).astype(
            np.float32
        )
        if kind == "bf16":  # the processors' own conversion takes subnormal f32 for zero
            x = x[~((np.abs(x) < 2.0**-126) & (x != 0))]
        expected = x.astype(dtype).astype(np.float32)
    actual = module.main(x)
    assert np.array_equal(np.isnan(actual), np.isnan(expected))
    same = ~np.isnan(expected)
    assert np.array_equal(actual[same].view(np.uint32), expected[same].view(np.uint32))


def test_an_output_size_may_be_a_product(tools, tmp_path):
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<?x?x8xf32> {nn.name = "x", nn.sizes = ["b", "s", ""]})
          -> (tensor<?x8xf32> {nn.name = "y", nn.sizes = ["rows", ""]}) {
          %r = nn.relu %x : tensor<?x?x8xf32>
          %y = tensor.collapse_shape %r [[0, 1], [2]] : tensor<?x?x8xf32> into tensor<?x8xf32>
          return %y : tensor<?x8xf32> }""",
    )
    x = normal(3, 5, 8)
    close(module.main(x), np.maximum(x, 0).reshape(15, 8), 0.0)


def test_reductions_and_shapes_stay_upstream(tools, tmp_path):
    """Mean over the middle dimension, then a transpose: linalg ops that no nn op stands for."""
    module = build(
        tools,
        tmp_path,
        """#in = affine_map<(b, h, s) -> (b, s, h)>
        #out = affine_map<(b, h, s) -> (b, h)>
        func.func @main(%x: tensor<?x?x24xf32> {nn.name = "x", nn.sizes = ["b", "s", ""]})
          -> (tensor<24x?xf32> {nn.name = "y", nn.sizes = ["", "b"]}) {
          %c0 = arith.constant 0 : index
          %zero = arith.constant 0.0 : f32
          %b = tensor.dim %x, %c0 : tensor<?x?x24xf32>
          %e = tensor.empty(%b) : tensor<?x24xf32>
          %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x24xf32>) -> tensor<?x24xf32>
          %s = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel", "reduction"]}
            ins(%x : tensor<?x?x24xf32>) outs(%f : tensor<?x24xf32>) {
            ^bb0(%i: f32, %o: f32):
              %a = arith.addf %o, %i : f32
              linalg.yield %a : f32 } -> tensor<?x24xf32>
          %te = tensor.empty(%b) : tensor<24x?xf32>
          %t = linalg.transpose ins(%s : tensor<?x24xf32>) outs(%te : tensor<24x?xf32>) permutation = [1, 0]
          return %t : tensor<24x?xf32> }""",
    )
    for shape in ((1, 1, 24), (3, 17, 24)):
        x = normal(*shape)
        close(module.main(x), x.astype(np.float64).sum(1).T, 1e-5)
