# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears of 8-bit weights with a scale for each output feature and inputs with a scale for each 256 features or for
each row (token), against NumPy in float64 with the same quantized values."""

from __future__ import annotations

import numpy as np
import pytest
from block_formats import quantize_activations, quantize_weight
from programs import build, by_turns, close, matmul_error
from random_numbers import normal
from safetensors.numpy import save_file
from test_quantized_linears import activations, program, weight_of

# Row counts that take the different register tiles (1, 2, 4, 8 rows and more), whole and partial, and several tiles.
ROWS = [1, 2, 3, 5, 8, 9, 17, 33, 300]
TARGETS = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v3+avxvnni", "x86-64-v4", "x86-64-v4+avx512vnni"]
NORM = """
func.func @main(%x: tensor<?x200xf32> {nn.name = "x", nn.sizes = ["rows", ""]}) -> (tensor<?x70xf32> {nn.name = "y"}) {
  %w = nn.weight @weights["w"] : tensor<70x200xf32>
  %b = nn.weight @weights["b"] : tensor<70xf32>
  %s = nn.weight @weights["s"] : tensor<200xf32>
  %n = nn.rms_norm %x, %s {epsilon = 1.000000e-05 : f32} : (tensor<?x200xf32>, tensor<200xf32>) -> tensor<?x200xf32>
  %h = nn.linear %n, %w, %b : (tensor<?x200xf32>, tensor<70x200xf32>, tensor<70xf32>) -> tensor<?x70xf32>
  %y = nn.silu %h : tensor<?x70xf32>
  return %y : tensor<?x70xf32>
}
"""


WIDE = 256


def check(module, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, block: int = WIDE) -> np.ndarray:
    """Compare with a matmul in float64 of the dequantized values."""
    dequantized, matrix = quantize_activations(x, block), quantize_weight("int8-channel", weight)
    expected = dequantized.astype(np.float64) @ matrix.T.astype(np.float64) + bias
    y = module["main"](x)
    close(y, expected, matmul_error(dequantized, matrix.T, 64))
    return y


@pytest.mark.parametrize(("features", "depth"), [(64, 256), (70, 200), (33, 2400), (16, 3)])
def test_shapes(tools, scratch, features, depth):
    """What `--quantize=int8` means for a model without caches, on this processor."""
    weight, bias = normal(features, depth) * np.exp2(normal(features, 1)).astype(np.float32), normal(features)
    module = build(tools, scratch / f"{features}-{depth}", program(features, depth), {"w": weight, "b": bias},
                   "cpu", "--quantize=int8")  # fmt: skip
    rows = [activations(count, depth, WIDE) for count in ROWS]
    results = [check(module, x, weight, bias) for x in rows]
    assert np.abs(results[-1]).max() > 1
    # A row has the same results whatever else is computed with it.
    for x, y in zip(rows, results, strict=True):
        np.testing.assert_array_equal(module["main"](x[-1:])[0], y[-1])


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", TARGETS)
def test_targets(tools, scratch, target):
    features, depth = 70, 600
    weight, bias = weight_of(features, depth), normal(features)
    for kind, block in (("8-token", depth), ("8-wide", WIDE)):
        module = build(tools, scratch / f"{target}-{kind}", program(features, depth), {"w": weight, "b": bias},
                       f"cpu:{target}", "--quantize=int8", f"--quantize-activations={kind}")  # fmt: skip
        for count in (1, 2, 4, 7, 40):
            check(module, activations(count, depth, block), weight, bias, block)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64", "cpu:x86-64-v3", "cpu:x86-64-v4"])
def test_sums_are_exact(tools, scratch, target):
    """Quantized values at the ends of their range, scales that are powers of two: not one bit may be lost, and no sum
    may overflow."""
    features, depth = 32, 1000
    rng = np.random.default_rng(3)
    weight = rng.choice([-127, 127, 126, 0], (features, depth)).astype(np.float32)
    weight[:, 0] = 127
    weight[0], weight[1] = 127, -127
    x = rng.choice([-127, 127, 126, 0, -1], (40, depth)).astype(np.float32)
    x[:, ::WIDE] = 127
    x[0], x[1] = 127, -127
    module = build(tools, scratch / f"exact-{target.replace(':', '-')}", program(features, depth),
                   {"w": weight, "b": np.zeros(features, np.float32)}, target, "--quantize=int8")  # fmt: skip
    expected = x.astype(np.float64) @ weight.T.astype(np.float64)
    for count in (1, 2, 40):
        np.testing.assert_array_equal(module["main"](x[:count]), expected[:count].astype(np.float32))


def test_one_outlier_is_felt_by_its_row_alone(tools, scratch):
    features, depth = 64, 256
    weight, bias = weight_of(features, depth), normal(features)
    module = build(tools, scratch / "outlier", program(features, depth), {"w": weight, "b": bias}, "cpu",
                   "--quantize=int8")  # fmt: skip
    x = activations(20, depth, depth)
    before = module["main"](x)
    x[3, 7] = 1e4
    after = check(module, x, weight, bias)
    others = np.arange(20) != 3
    np.testing.assert_array_equal(after[others], before[others])
    assert np.abs(after[3] - before[3]).max() > 1


def test_rows_of_zeros_and_of_no_numbers(tools, scratch):
    features, depth = 40, 96
    weight, bias = weight_of(features, depth), normal(features)
    module = build(tools, scratch / "special", program(features, depth), {"w": weight, "b": bias}, "cpu",
                   "--quantize=int8")  # fmt: skip
    x = activations(6, depth, depth)
    x[0], x[1], x[2, 5], x[3, 90] = 0, 1e-38, np.nan, np.inf
    y = module["main"](x)
    np.testing.assert_array_equal(y[:2], np.broadcast_to(bias, (2, features)))
    assert np.isnan(y[2]).all()
    assert not np.isfinite(y[3]).any()
    assert np.isfinite(y[4:]).all()


def test_with_what_comes_before_and_after(tools, scratch):
    """A norm before the linear and an activation behind it are computed in its kernel."""
    weight, bias, scale = weight_of(70, 200), normal(70), normal(200)
    module = build(tools, scratch / "norm", NORM, {"w": weight, "b": bias, "s": scale}, "cpu", "--quantize=int8")
    x = normal(21, 200).astype(np.float64)
    rows = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-5) * scale
    inputs, matrix = quantize_activations(rows.astype(np.float32), 200), quantize_weight("int8-channel", weight)
    hidden = inputs.astype(np.float64) @ matrix.T.astype(np.float64) + bias
    # One rounding of an input to its other neighbour moves a sum by a step of the row times a weight.
    step = np.abs(rows).max(-1, keepdims=True) / 127 * np.abs(matrix).max(-1)
    difference = np.abs(module["main"](x.astype(np.float32)) - hidden / (1 + np.exp(-hidden)))
    assert (difference < 2 * step + 1e-4).all()
    assert np.median(difference / step) < 1e-3


def test_blocks_stay_where_they_are_asked_for(tools, scratch):
    """`--quantize-activations=8` keeps scales of 32 inputs, `8-token` beside groups of weights too."""
    features, depth = 64, 256
    weight, bias = weight_of(features, depth), normal(features)
    for number, flags in enumerate((["--quantize=int8", "--quantize-activations=8"], ["--quantize=int8-g64"])):
        module = build(tools, scratch / f"blocks-{number}", program(features, depth), {"w": weight, "b": bias}, "cpu",
                       *flags)  # fmt: skip
        x = activations(9, depth)
        inputs, matrix = quantize_activations(x, 32), quantize_weight(flags[0].removeprefix("--quantize="), weight)
        close(module["main"](x), inputs.astype(np.float64) @ matrix.T + bias, matmul_error(inputs, matrix.T, 64))


def test_devices_that_multiply_no_such_rows(tools, scratch):
    folder = scratch / "refused"
    folder.mkdir()
    (folder / "m.mlir").write_text('nn.archive @weights {file = "w.safetensors"}\n' + NORM)
    save_file({"w": normal(70, 200), "b": normal(70), "s": normal(200)}, folder / "w.safetensors")
    result = tools.run("intarsia-compile", folder / "m.mlir", "-o", folder / "m.itx", "--target=cuda:sm_90a",
                       "--quantize=int8", "--quantize-activations=8-token", check=False)  # fmt: skip
    assert result.returncode != 0
    assert "--quantize-activations=8-token" in result.stderr
    assert "cuda:sm_90a" in result.stderr


PAIR = """
func.func @main(%x: tensor<?x3x{depth}xf32> {{nn.name = "x", nn.sizes = ["rows", "", ""]}})
    -> (tensor<?x3x40xf32> {{nn.name = "y"}}{also_type}) {{
  %u = nn.weight @weights["u"] : tensor<{hidden}x{depth}xf32>
  %b = nn.weight @weights["b"] : tensor<{hidden}xf32>
  %d = nn.weight @weights["d"] : tensor<40x{hidden}xf32>
  %l = nn.linear %x, %u, %b
      : (tensor<?x3x{depth}xf32>, tensor<{hidden}x{depth}xf32>, tensor<{hidden}xf32>) -> tensor<?x3x{hidden}xf32>
  %h = nn.silu %l : tensor<?x3x{hidden}xf32>
  %y = nn.linear %h, %d : (tensor<?x3x{hidden}xf32>, tensor<40x{hidden}xf32>) -> tensor<?x3x40xf32>
  return %y{also} : tensor<?x3x40xf32>{also_type_only}
}}
"""


def pair(hidden: int, depth: int, returns_both: bool) -> str:
    """Two linears; what lies between stays in floats where it is a result too."""
    type = f"tensor<?x3x{hidden}xf32>"
    return PAIR.format(depth=depth, hidden=hidden, also=", %h" if returns_both else "",
                       also_type=f', {type} {{nn.name = "h"}}' if returns_both else "",
                       also_type_only=f", {type}" if returns_both else "")  # fmt: skip


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("hidden", "depth", "target"),
    by_turns([(768, 72), (512, 256)], ["native", *TARGETS], always="native"),
)
def test_a_result_is_quantized_where_it_is_computed(tools, scratch, target, hidden, depth):
    """The same bits as of a result that is written as floats and quantized where it is read; and what NumPy computes."""
    target = "cpu" if target == "native" else f"cpu:{target}"
    weights = {"u": weight_of(hidden, depth), "b": normal(hidden), "d": weight_of(40, hidden)}
    folder = scratch / f"pair-{target.replace(':', '-')}-{hidden}"
    apart = build(tools, folder / "apart", pair(hidden, depth, True), weights, target, "--quantize=int8")
    module = build(tools, folder / "inside", pair(hidden, depth, False), weights, target, "--quantize=int8")
    for count in (1, 2, 21, 70):
        x = activations(3 * count, depth, depth).reshape(count, 3, depth)
        y, h = apart["main"](x)
        np.testing.assert_array_equal(module["main"](x), y)
        h, matrix = h.reshape(-1, hidden), quantize_weight("int8-channel", weights["d"])
        expected = quantize_activations(h, WIDE).astype(np.float64) @ matrix.T.astype(np.float64)
        # As above, for a rounding or two of an input to its other neighbour.
        step = np.abs(h).max(-1, keepdims=True) / 127 * np.abs(matrix).max(-1)
        difference = np.abs(y.reshape(-1, 40) - expected)
        assert (difference < 2 * step + 1e-4).all()
        assert np.median(difference / step) < 1e-3


def test_a_quantized_result_of_zeros_and_of_no_numbers(tools, scratch):
    weights = {"u": weight_of(256, 64), "b": np.zeros(256, np.float32), "d": weight_of(40, 256)}
    x = activations(12, 64, 64).reshape(4, 3, 64)
    x[0, 0], x[0, 1, 5], x[1, 2, 9] = 0, np.nan, np.inf
    y, _ = build(tools, scratch / "pair-apart", pair(256, 64, True), weights, "cpu", "--quantize=int8")["main"](x)
    module = build(tools, scratch / "pair-inside", pair(256, 64, False), weights, "cpu", "--quantize=int8")
    np.testing.assert_array_equal(module["main"](x), y)
    np.testing.assert_array_equal(y[0, 0], 0)
    assert np.isnan(y[0, 1]).all()
    assert np.isfinite(np.delete(y.reshape(-1, 40), [1, 5], 0)).all()
