# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears of E2M1 by E2M1 with scales of blocks, on emulated GPUs, against NumPy in float64 with what ml_dtypes
quantizes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from block_formats import quantize_to_e2m1, quantize_weight
from programs import (
    LARGE_FEATURES,
    LARGE_ROWS,
    SCHEDULES,
    assert_large,
    between_norm_and,
    build,
    close,
    in_turn,
    matmul_error,
    random_cases,
)
from random_numbers import RNG, normal
from safetensors.numpy import save_file
from test_quantized_linears import program, weight_of

pytestmark = pytest.mark.cpu_only

FORMATS = ("mxfp4", "nvfp4")
# sm_120a has instructions for both formats, gfx950 for mxfp4; the others, and nvfp4 there, multiply 16 bits.
ARCHITECTURES = ("sm_80", "sm_90a", "sm_120a", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
DIFFERENT = ("sm_80", "sm_120a", "gfx942", "gfx950", "gfx1100")
WITH_INSTRUCTIONS = [("sm_120a", "mxfp4"), ("sm_120a", "nvfp4"), ("gfx950", "mxfp4")]
# Functions for one row, for a few, for the least and for small tiles; rows that fill no tile.
ROWS = (1, 3, 5, 70)
ELEMENTS = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def flags(name: str) -> tuple[str, str]:
    return f"--quantize={name}", f"--quantize-activations={name}"


def compiled(tools, folder, target, name, weight, bias):
    return build(tools, folder, program(*weight.shape), {"w": weight, "b": bias}, target, *flags(name))


def uneven(rows: int, depth: int) -> np.ndarray:
    """Give rows whose magnitudes differ much, as those of their blocks do: another's scale would be far off."""
    x = normal(rows, depth) * np.exp2(RNG.integers(-30, 30, (rows, 1))).astype(np.float32)
    return x * np.repeat(np.exp2(RNG.integers(-5, 5, (rows, -(-depth // 16)))), 16, axis=1)[:, :depth].astype(
        np.float32
    )


def check(tools, folder, architecture, name, features, depth, rows) -> None:
    weight, bias = uneven(features, depth) * np.float32(2.0**-10), normal(features)
    if name == "nvfp4":
        # A matrix has one scale beside those of blocks, so that rows of small numbers would be zeros.
        weight = weight_of(features, depth) * np.exp2(RNG.integers(-3, 3, (features, 1))).astype(np.float32)
    module = compiled(tools, folder, f"emulated:{architecture}", name, weight, bias)
    dequantized = quantize_weight(name, weight).astype(np.float64)
    for count in rows:
        x = uneven(count, depth)
        inputs = quantize_to_e2m1(name, x).astype(np.float64)
        y = module["main"](x)
        wanted = inputs @ dequantized.T + bias
        # Products are exact but for the scales of rows; sums are rounded.
        bound = 2.0**-23 * (depth + 8) * (np.abs(inputs) @ np.abs(dequantized).T + np.abs(bias))
        assert (np.abs(y - wanted) <= bound).all()
        assert (np.abs(wanted) > bound).any(), "zeros would pass"


@pytest.mark.parametrize(("name", "architecture"), in_turn(FORMATS, ARCHITECTURES))
def test_shapes(tools, scratch, architecture, name):
    check(tools, scratch / f"{architecture}-{name}", architecture, name, 70, 288, ROWS)


@pytest.mark.parametrize(("name", "architecture"), in_turn(FORMATS, DIFFERENT))
def test_random_shapes(tools, scratch, monkeypatch, architecture, name):
    """Depths that are no whole block, step or tile, features that are no multiple of a vector, under all schedules."""
    for _ in random_cases(monkeypatch, usual=3):
        depth, features = (int(size) for size in RNG.integers([4, 2], 400))
        rows = [int(count) for count in RNG.integers(1, 150, 2)]
        check(tools, scratch / f"random-{architecture}-{name}", architecture, name, features, depth, rows)


@pytest.mark.parametrize(("architecture", "name"), WITH_INSTRUCTIONS)
def test_large_tiles(tools, scratch, architecture, name):
    """More rows than small tiles are used for."""
    folder = scratch / f"large-{architecture}-{name}"
    check(tools, folder, architecture, name, LARGE_FEATURES[architecture], 64, (LARGE_ROWS,))
    assert_large(tools, folder, architecture, *flags(name))


@pytest.mark.parametrize(("architecture", "name"), [*WITH_INSTRUCTIONS, ("gfx942", "nvfp4")])
def test_split_depth(tools, scratch, architecture, name):
    """Blocks share the depth: parts of sums get the scales of rows when they are added up."""
    check(tools, scratch / f"split-{architecture}-{name}", architecture, name, 72, 2080, (6, 64, 65))


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize(("architecture", "name"), WITH_INSTRUCTIONS)
def test_schedules(tools, scratch, monkeypatch, architecture, name, schedule):
    """A missing barrier shows when warps run one after the other."""
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    check(tools, scratch / f"{architecture}-{name}-{schedule}", architecture, name, 72, 640, (2, 20, 67))


def blocks_of_elements(name: str, count: int) -> np.ndarray:
    """Give blocks of all elements [count, block], each with another scale: powers of two of mxfp4; of nvfp4 numbers of
    E4M3 from the least to the largest."""
    if name == "mxfp4":
        scales = np.exp2(np.arange(count) % 41 - 20)
        return (np.tile(ELEMENTS, 2) * scales[:, None]).astype(np.float32)
    patterns = np.linspace(1, 0x7E, count).astype(np.uint8)
    return ELEMENTS * patterns.view(ml_dtypes.float8_e4m3fn).astype(np.float32)[:, None]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("target", ["cpu", "reference", *(f"emulated:{one}" for one in ARCHITECTURES)])
def test_every_element_is_exact(tools, scratch, target, name):
    """All elements, with scales over the range of their type: not one bit may be lost, in the input as in the weight."""
    block, largest = {"mxfp4": 32, "nvfp4": 16}[name], np.float32(2688)
    count = 96 // block if target == "reference" else 288 // block
    blocks = blocks_of_elements(name, 3 * count)
    # The largest number of the matrix, and of each row, is the largest element by the largest scale: 448 * 6.
    weight = np.stack([np.concatenate(blocks[first::3]) for first in range(3)])
    one = largest if name == "nvfp4" else np.float32(6)
    if name == "nvfp4":
        weight[:, 7] = largest
        weight[:, :block] = np.where(np.arange(block) == 7, largest, 448 * ELEMENTS)
    depth = weight.shape[1]
    folder = scratch / f"exact-{name}-{target.replace(':', '-')}"
    module = compiled(tools, folder / "weights", target, name, weight, np.zeros(3, np.float32))
    identity = np.eye(depth, dtype=np.float32) * one
    np.testing.assert_array_equal(module["main"](identity), weight.T * one)
    np.testing.assert_array_equal(module["main"](identity[5:8]), weight.T[5:8] * one)

    module = compiled(tools, folder / "inputs", target, name, identity, np.zeros(depth, np.float32))
    x = np.concatenate([weight * np.float32(2.0**shift) for shift in (0, 3, -4, 10, -15, 1, 2)])
    for rows in (1, 4, 20):
        np.testing.assert_array_equal(module["main"](x[:rows]), x[:rows] * one)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64", "reference", *(f"emulated:{one}" for one in DIFFERENT)])
def test_inputs_are_quantized_alike(tools, scratch, target, name):
    """Each element and each scale is that of NumPy: one beside it would be off by a sixteenth at least."""
    depth = 96
    one = np.float32(2688 if name == "nvfp4" else 6)
    module = compiled(tools, scratch / f"alike-{name}-{target.replace(':', '-')}", target, name,
                      np.eye(depth, dtype=np.float32) * one, np.zeros(depth, np.float32))  # fmt: skip
    x = uneven(48, depth)
    # Halves between elements, of rows with scales that are exact, and numbers that are no multiple of anything.
    x[:8] = RNG.choice(np.arange(25) / np.float32(4), (8, depth)) * RNG.choice([-1, 1], (8, depth))
    x[:8, ::16], x[:8, 0] = 6, 2688
    x[8:12] = 2.0**-100 * normal(4, depth)
    for rows in (3, 48):
        y = module["main"](x[:rows]) / one
        np.testing.assert_allclose(y, quantize_to_e2m1(name, x[:rows]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("target", ["cpu", "emulated:sm_120a", "emulated:gfx950", "emulated:sm_80", "emulated:gfx942"])
def test_rows_that_are_not_finite(tools, scratch, target, name):
    """NaN and infinity make their row NaN, and no other; rows of zeros and of the smallest numbers are what they are."""
    weight = weight_of(40, 96)
    folder = scratch / f"special-{name}-{target.replace(':', '-')}"
    module = compiled(tools, folder, target, name, weight, np.zeros(40, np.float32))
    for count in (4, 24):
        x = normal(count, 96)
        x[0, 5], x[1, 7], x[2], x[3] = np.nan, -np.inf, 0, 1e-45
        y = module["main"](x)
        assert np.isnan(y[:2]).all()
        np.testing.assert_array_equal(y[2:4], 0)
        if count > 4:
            inputs = quantize_to_e2m1(name, x[4:])
            wanted = inputs.astype(np.float64) @ quantize_weight(name, weight).T
            close(y[4:], wanted, matmul_error(inputs, weight.T, 64))


@pytest.mark.parametrize("name", FORMATS)
def test_remarks_name_what_is_multiplied_instead(tools, tmp_path, name):
    """Where kernels have no instruction for it, a remark says which type they multiply, and why."""
    save_file({"w": weight_of(64, 96), "b": np.zeros(64, np.float32)}, tmp_path / "w.safetensors")
    (tmp_path / "m.mlir").write_text('nn.archive @weights {file = "w.safetensors"}\n' + program(64, 96))
    printed = "".join(
        tools.compile(tmp_path / "m.mlir", "-o", tmp_path / "m.itx", f"--target={targets}", *flags(name)).stderr
        for targets in ("emulated:sm_90a,emulated:sm_100a,emulated:sm_120a", "emulated:gfx950")
    )
    what = {"mxfp4": "multiplies MXFP4 as bf16 on", "nvfp4": "multiplies NVFP4 as f16 on"}[name]
    assert f"{what} sm_90a: kernels have no matrix instruction there of 4-bit floats with such scales" in printed
    assert f"{what} sm_100a: only tcgen05 multiplies 4-bit floats with scales there" in printed
    assert (f"{what} gfx950" in printed) == (name == "nvfp4")
    assert "sm_120a:" not in printed.replace("emulated:sm_120a:", "")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("architecture", ["sm_120a", "gfx942"])
def test_norm_before_and_ops_after(tools, scratch, architecture, name):
    features, depth = 64, 288
    text = between_norm_and(program(features, depth), "nn.relu", features, depth)
    weight, bias, gain = weight_of(features, depth), normal(features), normal(depth)
    tensors = {"w": weight, "b": bias, "g": gain}
    folder = scratch / f"norm-{architecture}-{name}"
    module = build(tools, folder, text, tensors, f"emulated:{architecture}", *flags(name))
    dequantized = quantize_weight(name, weight).T.astype(np.float64)
    for count in (1, 33):
        x = normal(count, depth)
        normed = (x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5) * gain).astype(np.float32)
        wanted = np.maximum(quantize_to_e2m1(name, normed).astype(np.float64) @ dequantized + bias, 0)
        # A norm that differs in its last bit may round to the element beside: a half of it.
        largest = float((np.abs(normed)[:, :, None] * np.abs(dequantized)).max())
        close(module["main"](x), wanted, largest / 2)
