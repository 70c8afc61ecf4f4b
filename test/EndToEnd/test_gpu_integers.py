# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears whose inputs are quantized to 8 bits on emulated GPUs, against NumPy in float64 with the same quantized
values."""

from __future__ import annotations

import numpy as np
import pytest
from block_formats import activation_block, quantize_activations, quantize_weight
from programs import (
    LARGE_FEATURES,
    LARGE_ROWS,
    SCHEDULES,
    assert_large,
    between_norm_and,
    build,
    close,
    in_turn,
    random_cases,
)
from random_numbers import RNG, normal
from test_quantized_linears import activations, blocks_of, build_blocks, check, program, weight_of

pytestmark = pytest.mark.cpu_only

# Instructions of integers differ between all of these.
ARCHITECTURES = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100", "gfx1201")
# A step of 32 has one scale, two, or a part of one; the input has one for a step or for eight.
FORMATS = ("int8", "int4", "nvfp4", "int4-g128")
# Functions for one row, for a few, for small tiles; rows that fill no tile.
ROWS = (1, 3, 5, 70)
FLAG = "--quantize-activations=8"


def check_format(tools, folder, architecture, name, features, depth, rows) -> None:
    weight, bias = weight_of(features, depth), normal(features)
    module = build(tools, folder, program(features, depth), {"w": weight, "b": bias}, f"emulated:{architecture}",
                   f"--quantize={name}", FLAG)  # fmt: skip
    dequantized, block = quantize_weight(name, weight), activation_block(name)
    for count in rows:
        y = check(module["main"], activations(count, depth, block), dequantized, bias, block)
        assert np.abs(y).max() > 1


@pytest.mark.parametrize(("name", "architecture"), in_turn(FORMATS, ARCHITECTURES))
def test_formats(tools, scratch, architecture, name):
    check_format(tools, scratch / f"{architecture}-{name}", architecture, name, 70, 288, ROWS)


@pytest.mark.parametrize(
    "name", ["int6", "mxfp4", "int4-channel", "int8-g64", "ternary", "int4-asymmetric", "int4-asymmetric-g128"]
)
@pytest.mark.parametrize("architecture", ["sm_80", "gfx942"])
def test_other_formats(tools, scratch, architecture, name):
    """Depths that are no whole step, tile or block."""
    check_format(tools, scratch / f"other-{architecture}-{name}", architecture, name, 33, 200, (2, 9))


@pytest.mark.parametrize("architecture", ["sm_80", "gfx90a", "gfx1100"])
def test_random_shapes(tools, scratch, monkeypatch, architecture):
    for number in random_cases(monkeypatch, usual=4):
        depth, features = (int(size) for size in RNG.integers(33, 400, 2))
        rows = [int(count) for count in RNG.integers(1, 150, 2)]
        name = FORMATS[number % len(FORMATS)]
        check_format(tools, scratch / f"random-{architecture}", architecture, name, features, depth, rows)


@pytest.mark.parametrize("architecture", ["sm_80", "gfx942", "gfx1201"])
def test_large_tiles(tools, scratch, architecture):
    """More rows than small tiles are used for."""
    folder = scratch / f"large-{architecture}"
    check_format(tools, folder, architecture, "int4", LARGE_FEATURES[architecture], 64, (LARGE_ROWS,))
    assert_large(tools, folder, architecture, "--quantize=int4", FLAG)


@pytest.mark.parametrize("architecture", ["sm_80", "gfx942", "gfx1100"])
def test_split_depth(tools, scratch, architecture):
    """Blocks share the depth (test/Target/GPU/split-linear.mlir), fewer of them where rows fill two tiles."""
    check_format(tools, scratch / f"split-{architecture}", architecture, "int4", 72, 2080, (6, 64, 65))


@pytest.mark.parametrize(("name", "architecture"), in_turn(["q4_1", "q5_k", "q6_k"], ["sm_80", "gfx942", "gfx1100"]))
def test_blocks(tools, scratch, architecture, name):
    """Types of GGUF: minima, scales of scales."""
    features, depth = 40, 512
    blocks, weight, block = blocks_of(name, features, depth)
    folder = scratch / f"gpu-{architecture}-{name}"
    main = build_blocks(tools, folder, name, features, depth, blocks, f"emulated:{architecture}", FLAG)["main"]
    for count in (1, 4, 37):
        ids = np.arange(count) % features
        check(lambda x, ids=ids: main(x, ids)[0], activations(count, depth, block), weight, 0, block)


@pytest.mark.parametrize(
    ("name", "lowest", "highest", "architecture"),
    in_turn([("int4", -8, 7), ("int8", -127, 127)], ["sm_80", "gfx942", "gfx1100"]),
)
def test_sums_are_exact(tools, scratch, architecture, name, lowest, highest):
    """Quantized values at the ends of their range, scales that are powers of two: not one bit may be lost."""
    features, depth = 32, 320
    weight = RNG.choice([lowest, highest - 1, highest, 0], (features, depth)).astype(np.float32)
    weight[:, ::32] = lowest
    weight[1::2] *= -1
    x = RNG.choice([-127, 127, 126, 0, -1], (40, depth)).astype(np.float32)
    x[:, ::32] = 127
    module = build(tools, scratch / f"exact-{architecture}-{name}", program(features, depth),
                   {"w": weight, "b": np.zeros(features, np.float32)}, f"emulated:{architecture}", f"--quantize={name}",
                   FLAG)  # fmt: skip
    for count in (1, 3, 40):
        np.testing.assert_array_equal(module["main"](x[:count]), x[:count] @ weight.T)


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize("architecture", ["sm_80", "gfx942"])
def test_schedules(tools, scratch, monkeypatch, architecture, schedule):
    """A missing barrier shows when warps run one after the other."""
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    check_format(tools, scratch / f"{architecture}-{schedule}", architecture, "nvfp4", 72, 640, (2, 67))


@pytest.mark.parametrize("architecture", ["sm_80", "gfx942"])
def test_norm_before_and_ops_after(tools, scratch, architecture):
    features, depth = 64, 288
    text = between_norm_and(program(features, depth), "nn.silu", features, depth)
    weight, bias, gain = weight_of(features, depth), normal(features), normal(depth)
    module = build(tools, scratch / f"norm-{architecture}", text, {"w": weight, "b": bias, "g": gain},
                   f"emulated:{architecture}", "--quantize=int8", FLAG)  # fmt: skip
    dequantized = quantize_weight("int8", weight).T.astype(np.float64)
    for count in (1, 33):
        x = normal(count, depth)
        normed = (x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5) * gain).astype(np.float32)
        z = quantize_activations(normed, activation_block("int8")).astype(np.float64) @ dequantized + bias
        # Norms that differ in their last bit may round to neighbouring integers, one or two in a row.
        step = float(np.abs(normed).max()) / 127 * float(np.abs(dequantized).max())
        close(module["main"](x), z * (0.5 + 0.5 * np.tanh(z / 2)), 2 * step)
