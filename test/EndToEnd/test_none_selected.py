# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops behind a selection, whose number of rows a call computes: some rows, and none."""

from __future__ import annotations

import intarsia
import numpy as np
import pytest
from compositions import expanded
from image_formulas import roi_align
from programs import build
from random_numbers import normal
from windows import Conv, Pool

pytestmark = pytest.mark.cpu_only

CONV = Conv((5, 4), (3, 3), channels=(6, 8), low=(1, 1), high=(1, 1))
POOL = Pool("max", (5, 4), (2, 2))


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True, initial=-1e9))
    return powers / powers.sum(-1, keepdims=True)


#: For the shape of a row: ops on the selected rows %s, the type of the result, and what NumPy computes of the rows.
OPS = {
    "conv": (
        (5, 4, 6),
        f"%w = arith.constant dense<0.5> : tensor<8x54xf32>\n%r = nn.conv %s, %w {CONV.attributes()} : (TYPE, tensor<8x54xf32>) -> RESULT",
        "?x5x4x8xf32", lambda x: CONV.compute(x, np.full((8, 54), 0.5)),
    ),
    "pool": ((5, 4, 6), f"%r = nn.pool <max>, %s {POOL.attributes()} : (TYPE) -> RESULT", "?x4x3x6xf32", lambda x: POOL.compute(x)[0]),
    "pad": (
        (4, 3), "%r = nn.pad <edge>, %s {low = array<i64: 0, 1, 0>, high = array<i64: 0, 2, 0>} : (TYPE) -> RESULT",
        "?x7x3xf32", lambda x: np.pad(x, ((0, 0), (1, 2), (0, 0)), "edge"),
    ),
    "resize": (
        (4, 3), "%r = nn.resize <nearest>, %s {axes = array<i64: 1>, sizes = array<i64: 8>} : (TYPE) -> RESULT",
        "?x8x3xf32", lambda x: np.repeat(x, 2, 1),
    ),
    "cumulate": ((7,), "%t = nn.cumulate <add>, %s : TYPE\n%r = tensor.cast %t : TYPE to RESULT", "?x7xf32", lambda x: x.cumsum(1)),
    "softmax": ((7,), "%t = nn.softmax %s : TYPE\n%r = tensor.cast %t : TYPE to RESULT", "?x7xf32", softmax),
    "sort": ((7,), "%r, %i = nn.sort %s {axis = 0} : (TYPE) -> (RESULT, tensor<?x7xi64>)", "?x7xf32", lambda x: np.sort(x, 0)),
    "sort_rows": ((7,), "%r, %i = nn.sort %s {axis = 1} : (TYPE) -> (RESULT, tensor<?x7xi64>)", "?x7xf32", lambda x: np.sort(x, 1)),
    "nonzero": ((7,), '%r = "build.nonzero"(%s) : (TYPE) -> RESULT', "?x2xi64", np.argwhere),
    "unique": (
        (1,), '%r, %a, %b, %d = "build.unique"(%s) {sorted} : (TYPE) -> (RESULT, tensor<?xi64>, tensor<?xi64>, tensor<?xi64>)',
        "?xf32", np.unique,
    ),
    "sum": ((7,), '%r = "build.einsum"(%s) {equation = "ab->b"} : (TYPE) -> RESULT', "7xf32", lambda x: x.sum(0)),
    "depth": ((7,), '%r = "build.einsum"(%s, %s) {equation = "ab,ac->bc"} : (TYPE, TYPE) -> RESULT', "7x7xf32", lambda x: x.T @ x),
    "linear": (
        (6,), "%w = arith.constant dense<0.25> : tensor<7x6xf32>\n%r = nn.linear %s, %w : (TYPE, tensor<7x6xf32>) -> RESULT",
        "?x7xf32", lambda x: np.repeat(x.sum(1, keepdims=True) / 4, 7, 1),
    ),
    "image_norm": (
        (6, 5), '%w = arith.constant dense<1.0> : tensor<5xf32>\n%r = "build.image_norm"(%s, %w, %w) {groups = 1, epsilon = 0.1} : (TYPE, tensor<5xf32>, tensor<5xf32>) -> RESULT',
        "?x6x5xf32", lambda x: (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 0.1) + 1,
    ),
    "fft": ((12, 1), "%r = nn.fft %s {axis = 1} : (TYPE) -> RESULT", "?x12x2xf32", lambda x: np.stack([(y := np.fft.fft(x[..., 0])).real, y.imag], -1)),
    "regions": (
        (4,), "%p = arith.constant dense<0.5> : tensor<1x4x4x2xf32>\n%z = arith.constant 0 : i64\n%c0 = arith.constant 0 : index\n"
        "%n = tensor.dim %s, %c0 : TYPE\n%e = tensor.empty(%n) : tensor<?xi64>\n%i = linalg.fill ins(%z : i64) outs(%e : tensor<?xi64>) -> tensor<?xi64>\n"
        "%r = nn.roi_align %p, %s, %i {sizes = array<i64: 2, 2>, samples = 1} : (tensor<1x4x4x2xf32>, TYPE, tensor<?xi64>) -> RESULT",
        "?x2x2x2xf32", lambda x: roi_align(np.full((1, 4, 4, 2), 0.5), x, np.zeros(len(x), int), (2, 2), 1, 1, False, False),
    ),
    "recurrent": (
        (3, 4), "%w = arith.constant dense<0.0> : tensor<4x4xf32>\n%r, %h = nn.recurrent <rnn>, <forward>, %s, %w : (TYPE, tensor<4x4xf32>) -> (RESULT, tensor<1x?x4xf32>)",
        "?x3x4xf32", np.tanh,
    ),
    "sequence": (
        (3, 4), "%w = arith.constant dense<0.0> : tensor<4x4xf32>\n%r, %h = nn.recurrent <rnn>, <forward>, %s, %w {sequence_first} : (TYPE, tensor<4x4xf32>) -> (RESULT, tensor<1x3x4xf32>)",
        "?x3x4xf32", np.tanh,
    ),
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "reference", "emulated:sm_90a", "emulated:gfx942"])
@pytest.mark.parametrize("op", OPS)
def test_none_selected(tools, tmp_path, op: str, device: str) -> None:
    row, body, result, expected = OPS[op]
    whole = f"tensor<5x{'x'.join(map(str, row))}xf32>"
    kind = f"tensor<?x{'x'.join(map(str, row))}xf32>"
    body = body.replace("TYPE", kind).replace("RESULT", f"tensor<{result}>")
    text = f"""func.func @main(%x: {whole} {{nn.name = "x"}}, %c: tensor<5xi1> {{nn.name = "c"}}) -> tensor<{result}> {{
      %s = "build.compress"(%x, %c) {{axis = 0}} : ({whole}, tensor<5xi1>) -> {kind}
      {body}
      return %r : tensor<{result}> }}"""
    module = build(tools, tmp_path, expanded(tools, tmp_path, text), target=device)
    x = normal(5, *row)
    some, none = np.array([0, 1, 0, 1, 1], bool), np.zeros(5, bool)
    # The loops of a GPU read an element of a sequence.
    is_refused = op == "sequence" and device.startswith("emulated")
    if is_refused:
        with pytest.raises(intarsia.InvalidArgumentError, match=r"must be at least 1: 'tensor\.extract' needs it"):
            module.main(x, none)
    for mask in (some,) if is_refused else (some, none):
        found, wanted = module.main(x, mask), expected(x[mask].astype(float))
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("device", ["cpu", "reference", "emulated:sm_90a"])
def test_parts_that_read_in_several_memories(tools, tmp_path, device: str) -> None:
    """What the first part computes is read by a kernel of the second, and returned by the third."""
    text = """func.func @main(%x: tensor<5x7xf32> {nn.name = "x"}, %c: tensor<5xi1> {nn.name = "c"}) -> (tensor<?x2xi64>, tensor<5x7xf32>) {
      %a = nn.relu %x : tensor<5x7xf32>
      %s = "build.compress"(%a, %c) {axis = 0} : (tensor<5x7xf32>, tensor<5xi1>) -> tensor<?x7xf32>
      %r = "build.nonzero"(%s) : (tensor<?x7xf32>) -> tensor<?x2xi64>
      return %r, %a : tensor<?x2xi64>, tensor<5x7xf32> }"""
    module = build(tools, tmp_path, expanded(tools, tmp_path, text), target=device)
    x, mask = normal(5, 7), np.array([1, 0, 1, 1, 0], bool)
    places, positive = module.main(x, mask)
    np.testing.assert_array_equal(positive, np.maximum(x, 0))
    np.testing.assert_array_equal(places, np.argwhere(np.maximum(x, 0)[mask]))
