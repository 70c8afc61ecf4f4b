# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears by matrix instructions of emulated GPUs, against NumPy in float64."""

from __future__ import annotations

import re

import intarsia
import ml_dtypes
import numpy as np
import pytest
from programs import (
    LARGE_FEATURES,
    LARGE_ROWS,
    SCHEDULES,
    assert_large,
    build,
    close,
    in_turn,
    launches,
    one_of_each_vendor,
    random_cases,
)
from random_numbers import RNG, normal

pytestmark = pytest.mark.cpu_only

# One architecture for each family of matrix instructions, and the one with longer ones.
ARCHITECTURES = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}


def rounded(x: np.ndarray, precision: str) -> np.ndarray:
    if precision == "tf32":
        bits = x.view(np.uint32)
        return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    return x.astype(TYPES[precision]).astype(np.float64)


def program(depth: int, features: int, stored: str, precision: str, before: str = "", after: str = "") -> str:
    """A linear of rows of any number, between ops on %x and on %y."""
    attribute = f" {{precision = {precision}}}" if precision else ""
    return f"""
    func.func @main(%x0: tensor<?x{depth}xf32> {{nn.name = "x", nn.sizes = ["n", ""]}})
        -> (tensor<?x{features}xf32> {{nn.name = "y", nn.sizes = ["n", ""]}}) {{
      %w = nn.weight @weights["w"] : tensor<{features}x{depth}x{stored}>
      %b = nn.weight @weights["b"] : tensor<{features}xf32>
      {before or f"%x = tensor.cast %x0 : tensor<?x{depth}xf32> to tensor<?x{depth}xf32>"}
      %y = nn.linear %x, %w, %b{attribute}
        : (tensor<?x{depth}xf32>, tensor<{features}x{depth}x{stored}>, tensor<{features}xf32>) -> tensor<?x{features}xf32>
      {after or f"%z = tensor.cast %y : tensor<?x{features}xf32> to tensor<?x{features}xf32>"}
      return %z : tensor<?x{features}xf32>
    }}"""


def check(tools, folder, architecture, rows, depth, features, stored, precision, activation="") -> None:
    weight, bias = normal(features, depth).astype(TYPES[stored]), normal(features)
    after = f"%z = {activation} %y : tensor<?x{features}xf32>" if activation else ""
    text = program(depth, features, stored, precision, after=after)
    module = build(tools, folder, text, {"w": weight, "b": bias}, f"emulated:{architecture}")
    for count in rows:
        x = normal(count, depth)
        # A few rows are multiplied as they are, so that these are rounded before.
        x = rounded(x, precision).astype(np.float32) if precision and count <= 4 else x
        wide = weight.astype(np.float32)
        a, w = (rounded(x, precision), rounded(wide, precision)) if precision else (x.astype(np.float64), wide)
        expected = a @ w.T.astype(np.float64) + bias
        if activation == "nn.relu":
            expected = np.maximum(expected, 0)
        bound = 2.0**-23 * (depth + 8) * float((np.abs(a) @ np.abs(w).T).max())
        close(module.main(x), expected, bound)


#: Instructions of bf16 that no other linear has.
BF16_ALONE = [("bf16", architecture) for architecture in ("gfx90a", "gfx950", "gfx1201")]


@pytest.mark.parametrize(("precision", "architecture"), in_turn(("f16", "bf16"), ARCHITECTURES, BF16_ALONE))
def test_matrix_instructions(tools, tmp_path, architecture: str, precision: str) -> None:
    """All tiles: few rows, some, and more than a large tile has; rows and features that fill none."""
    check(tools, tmp_path, architecture, (1, 3, 9, 65, 200), 96, 136, precision, precision, "nn.relu")


@pytest.mark.parametrize("architecture", ["sm_80", "gfx942", "gfx1100"])
def test_random_shapes(tools, tmp_path, monkeypatch, architecture: str) -> None:
    """Depths that are no multiple of a chunk, features that are no multiple of a vector."""
    for number in random_cases(monkeypatch, usual=8):
        depth, features = (int(size) for size in RNG.integers(1, 150, 2))
        rows = [int(count) for count in RNG.integers(5, 150, 2)]
        stored = ("f16", "f32", "bf16")[number % 3]
        precision = "bf16" if stored == "bf16" else "f16"
        check(tools, tmp_path, architecture, rows, depth, features, stored, precision)


WITH_LARGE_TILES = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100", "gfx1201")


@pytest.mark.parametrize(
    ("precision", "stored", "depth", "architecture"),
    # Of tiles of 32 elements, or 16 of f32: four, three of which the last one is ragged, and rows that are no multiple
    # of 16 bytes.
    in_turn([("f16", "f16", 128), ("bf16", "bf16", 72), ("f16", "f32", 50), ("", "f32", 44)], WITH_LARGE_TILES),
)
def test_large_tiles(tools, tmp_path, architecture: str, precision: str, stored: str, depth: int) -> None:
    check(tools, tmp_path, architecture, (LARGE_ROWS,), depth, LARGE_FEATURES[architecture], stored, precision)
    assert_large(tools, tmp_path, architecture)


@pytest.mark.parametrize("architecture", [one for one in WITH_LARGE_TILES if one != "sm_90a"])
def test_large_tiles_of_stored_inputs(tools, tmp_path, architecture: str) -> None:
    """Inputs that are read as they lie in memory; on sm_90a tensor copies read these."""
    check_stored(tools, tmp_path, [(2, LARGE_ROWS // 2)], 88, LARGE_FEATURES[architecture], "f16", "f16", architecture)


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize("architecture", one_of_each_vendor(*WITH_LARGE_TILES))
def test_schedules_of_large_tiles(tools, tmp_path, monkeypatch, architecture: str, schedule: str) -> None:
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    for number, (precision, stored) in enumerate((("f16", "f16"), ("", "f32"))):
        features = LARGE_FEATURES[architecture]
        check(tools, tmp_path / str(number), architecture, (LARGE_ROWS,), 96, features, stored, precision)


# The depth of products of these sizes is split into parts of blocks of their own, of which the last one is shorter, and
# into half as many where rows fill two tiles (test/Target/GPU/split-linear.mlir).
SPLIT_FEATURES, SPLIT_DEPTH = 70, 2072


@pytest.mark.parametrize("architecture", WITH_LARGE_TILES)
def test_split_depth(tools, tmp_path, architecture: str) -> None:
    check(tools, tmp_path, architecture, (6, 64, 65, 130), SPLIT_DEPTH, SPLIT_FEATURES, "f16", "f16", "nn.relu")


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize("architecture", one_of_each_vendor(*WITH_LARGE_TILES))
def test_schedules_of_split_depth(tools, tmp_path, monkeypatch, architecture: str, schedule: str) -> None:
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    check(tools, tmp_path, architecture, (33,), SPLIT_DEPTH, SPLIT_FEATURES, "f32", "bf16")


def check_stored(tools, folder, shapes, depth, features, stored, result="f32", architecture="sm_90a") -> None:
    """A linear of an input that is stored in 16 bits, with a bias, an addend and a ReLU behind it."""
    n, out = ("?",) * len(shapes[0]), f"x{features}x{result}"
    x, y, z = ("tensor<" + "x".join(n) + tail for tail in (f"x{depth}x{stored}>", f"x{features}xf32>", f"{out}>"))
    wide, sizes = x.replace(stored, "f32"), ", ".join(f'"n{i}"' for i in range(len(n)))
    text = f"""
    func.func @main(%x0: {x} {{nn.name = "x", nn.sizes = [{sizes}, ""]}}, %r: {y} {{nn.name = "r", nn.sizes = [{sizes}, ""]}})
        -> ({z} {{nn.name = "y", nn.sizes = [{sizes}, ""]}}) {{
      %w = nn.weight @weights["w"] : tensor<{features}x{depth}x{stored}>
      %b = nn.weight @weights["b"] : tensor<{features}xf32>
      %x = arith.extf %x0 : {x} to {wide}
      %y = nn.linear %x, %w, %b {{precision = {stored}}}
        : ({wide}, tensor<{features}x{depth}x{stored}>, tensor<{features}xf32>) -> {y}
      %s = arith.addf %y, %r : {y}
      %t = nn.relu %s : {y}
      {f"%z = arith.truncf %t : {y} to {z}" if result != "f32" else f"%z = tensor.cast %t : {y} to {z}"}
      return %z : {z}
    }}"""
    weight, bias = normal(features, depth).astype(TYPES[stored]), normal(features)
    module = build(tools, folder, text, {"w": weight, "b": bias}, f"emulated:{architecture}")
    for shape in shapes:
        x, r = normal(*shape, depth).astype(TYPES[stored]), normal(*shape, features)
        a, w = x.astype(np.float64), weight.astype(np.float64)
        expected = np.maximum(a @ w.T + bias + r, 0)
        bound = 2.0**-23 * (depth + 8) * float((np.abs(a) @ np.abs(w).T).max())
        if result != "f32":  # of the result's last bit, half
            bound += 2.0**-11 * float(expected.max())
        close(module.main(x, r).astype(np.float64), expected, bound)


@pytest.mark.parametrize("stored", ["f16", "bf16"])
def test_tensor_copies(tools, tmp_path, stored: str) -> None:
    """More tiles along the depth than stages, the last one ragged; rows and features that fill no tile; one row less and
    more than a tile has; two dimensions of rows."""
    check_stored(tools, tmp_path / "flat", [(17,), (127,), (129,), (300,)], 456, 136, stored)
    check_stored(tools, tmp_path / "deep", [(3, 11), (2, 64)], 72, 264, stored)


def test_tensor_copies_of_more_tiles_than_blocks(tools, tmp_path) -> None:
    """Tiles of 256 columns: 165 of them are more than 132 blocks, so that some compute two, and one group of 8 rows of tiles
    is not full."""
    check_stored(tools, tmp_path, [(600,)], 136, 8200, "f16", result="f16")


def test_tensor_copies_of_split_depth(tools, tmp_path) -> None:
    check_stored(tools, tmp_path, [(20,), (64,), (200,)], SPLIT_DEPTH, SPLIT_FEATURES, "f16")


# Six tiles of 128 x 128, of which the last ones are ragged, with 25 steps along the depth: 38 of 132 blocks have four
# steps each, some of two tiles.
STREAM_ROWS, STREAM_DEPTH, STREAM_FEATURES = 300, 1560, 250


def assert_streamed(tools, folder, rows: int, elements: int) -> None:
    """The blocks of one function share tiles, and the next function adds up the sums of so many elements of these."""
    functions = launches(tools, folder / "m.mlir", "emulated:sm_90a", rows)
    (number,) = [number for number, one in enumerate(functions) if one.threads == 384 and one.blocks]
    streamed, added = functions[number : number + 2]
    assert streamed.blocks == 132
    assert re.fullmatch(r"(\d+ rows of tiles: \d+\.\d us, \d+\.\d otherwise(; )?)+", streamed.why)
    assert added.threads * added.blocks == elements


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_streams(tools, tmp_path, monkeypatch, schedule: str) -> None:
    """Blocks share the depths of tiles that fill no wave."""
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    for stored, result in (("f16", "f16"), ("bf16", "f32")):
        folder = tmp_path / stored
        check_stored(tools, folder, [(STREAM_ROWS,)], STREAM_DEPTH, STREAM_FEATURES, stored, result)
        assert_streamed(tools, folder, STREAM_ROWS, elements=6 * 128 * 128)


def test_random_streams(tools, tmp_path, monkeypatch) -> None:
    """Depths of whole steps and others, features that are no multiple of a vector."""
    for number in random_cases(monkeypatch, usual=3):
        folder, stored = tmp_path / str(number), ("f16", "bf16")[number % 2]
        depth, features = 8 * int(RNG.integers(180, 256)), int(RNG.integers(1, 257))
        rows = [int(count) for count in RNG.integers(130, 600, 2)]
        check_stored(tools, folder, [(count,) for count in rows], depth, features, stored)
        assert any(one.why and one.blocks for one in launches(tools, folder / "m.mlir", "emulated:sm_90a", max(rows)))


def test_streams_behind_a_whole_wave(tools, tmp_path) -> None:
    """133 tiles of 128 x 256: 132 blocks have a tile each, and three of them a third of the last one."""
    check_stored(tools, tmp_path, [(780,)], 760, 4850, "f16")
    assert_streamed(tools, tmp_path, 780, elements=128 * 256)


def test_streams_are_the_same_at_each_run(tools, tmp_path, monkeypatch) -> None:
    """Sums are added up in the order of the depth, whichever block has ended first."""
    check_stored(tools, tmp_path, [(STREAM_ROWS,)], STREAM_DEPTH, STREAM_FEATURES, "f16")
    x, r = normal(STREAM_ROWS, STREAM_DEPTH).astype(np.float16), normal(STREAM_ROWS, STREAM_FEATURES)
    results = []
    for schedule in SCHEDULES:
        for threads in ("1", "2"):
            monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
            monkeypatch.setenv("ITX_THREADS", threads)
            results.append(intarsia.load(tmp_path / "m.itx").main(x, r))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("schedule", ["lockstep", "greedy", "greedy-reversed"])
def test_schedules_of_tensor_copies(tools, tmp_path, monkeypatch, schedule: str) -> None:
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    check_stored(tools, tmp_path, [(150,)], 456, 72, "bf16")


def test_rows_that_tensor_copies_cannot_read(tools, tmp_path) -> None:
    """Rows of 16-bit elements that are no multiple of 16 bytes: the kernel of before, and a remark says why."""
    check_stored(tools, tmp_path, [(70,)], 100, 72, "f16")
    printed = tools.compile(
        tmp_path / "m.mlir", "-o", tmp_path / "again.itx", "--target=emulated:sm_90a,emulated:sm_80"
    )
    (remark,) = [line for line in printed.stderr.splitlines() if "tensor copies" in line]
    assert re.search(
        r"remark: .*kernel '\w+' copies by threads on sm_90a: its rows have 200 bytes, and tensor copies need a multiple of 16",
        remark,
    )


def test_tf32(tools, tmp_path) -> None:
    check(tools, tmp_path, "sm_80", (5, 70), 72, 48, "f32", "tf32")


@pytest.mark.parametrize("architecture", ["sm_80", "gfx942", "gfx1201"])
def test_f32(tools, tmp_path, architecture: str) -> None:
    """Without a precision nothing is rounded: CDNA has matrix instructions in f32, others multiply and add."""
    check(tools, tmp_path, architecture, (5, 70), 72, 48, "f32", "")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("architecture", ["sm_80", "gfx942"])
def test_schedules(tools, tmp_path, monkeypatch, architecture: str, schedule: str) -> None:
    """A missing barrier shows when warps run one after the other."""
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    check(tools, tmp_path, architecture, (150,), 160, 72, "f16", "f16")


@pytest.mark.parametrize(
    ("weights", "architecture"),
    in_turn(
        [
            "int4",
            "int5",
            "int6",
            "int8",
            "fp8",
            "nvfp4",
            "mxfp4",
            "int4-g128",
            "int4-channel",
            "ternary",
            "int4-asymmetric-g64",
        ],
        ["sm_80", "gfx942", "gfx1100"],
    ),
)
def test_quantized_weights(tools, tmp_path, architecture: str, weights: str) -> None:
    """Weights stay quantized, inputs are rounded to f16: the CPU with inputs as they are is the oracle."""
    check_quantized(tools, tmp_path, architecture, weights, 256, 72, (1, 4, 5, 70))


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "gfx942", "gfx1100"])
def test_random_quantized_shapes(tools, tmp_path, monkeypatch, architecture: str) -> None:
    """Depths of whole blocks, features that fill no panel."""
    for number in random_cases(monkeypatch, usual=2):
        depth, features = 32 * int(RNG.integers(1, 12)), int(RNG.integers(1, 150))
        rows = [int(count) for count in RNG.integers(1, 150, 2)]
        weights = ("int4", "nvfp4", "int8", "mxfp4", "int6", "int5")[number % 6]
        check_quantized(tools, tmp_path, architecture, weights, depth, features, rows)


@pytest.mark.parametrize("architecture", ["sm_80", "gfx942"])
def test_split_quantized_weights(tools, tmp_path, architecture: str) -> None:
    check_quantized(tools, tmp_path, architecture, "int4", SPLIT_DEPTH, SPLIT_FEATURES, (6, 65))


@pytest.mark.parametrize(
    ("weights", "architecture"), in_turn(["int4", "nvfp4", "int8-channel"], ["sm_80", "gfx942", "gfx1100"])
)
def test_quantized_weights_in_f32(tools, tmp_path, architecture: str, weights: str) -> None:
    """Lanes, and CDNA's instructions for f32, multiply what weights decode to."""
    check_quantized(tools, tmp_path, architecture, weights, 96, 72, (1, 5, 70), "f32")


def check_quantized(
    tools, tmp_path, architecture: str, weights: str, depth: int, features: int, counts, precision: str = "stored"
) -> None:
    weight, bias = normal(features, depth), normal(features)
    flags = (f"--quantize={weights}", "--quantize-activations=16", f"--matmul-precision={precision}")
    text = program(depth, features, "f32", "")
    modules = [
        build(tools, tmp_path / target, text, {"w": weight, "b": bias}, target, *flags)
        for target in ("cpu", f"emulated:{architecture}")
    ]
    for rows in counts:
        x = normal(rows, depth).astype(np.float16).astype(np.float32)
        magnitude = float((np.abs(x) @ np.abs(weight).T).max())
        # Tiles round weights to f16, by half a unit in the last place of 11 bits each; a few rows have them in f32.
        tolerance = 2.0**-24 * (depth + 8) if rows <= 4 or precision == "f32" else 2.0**-11
        close(modules[1].main(x), modules[0].main(x), tolerance * magnitude)


def test_slow_kernels_are_named(tools, tmp_path) -> None:
    """One remark on a kernel without an emitter: the model's op, the architectures, and why."""
    for features, count in ((512, 0), (520, 1)):
        heads = f"tensor<?x?x1x{features}xf32>"
        inputs = ", ".join(
            f'%{name}: {heads} {{nn.name = "{name}", nn.sizes = ["batch", "n", "", ""]}}' for name in "qkv"
        )
        (tmp_path / "m.mlir").write_text(f"""func.func @main({inputs}) -> ({heads} {{nn.name = "y"}}) {{
          %y = nn.attention %q, %k, %v {{scale = 0.05 : f32}} : ({heads}, {heads}, {heads}) -> {heads} loc("wide")
          return %y : {heads}
        }}""")
        flags = ("--target=emulated:sm_80,emulated:gfx942",)
        printed = tools.compile(tmp_path / "m.mlir", "-o", tmp_path / "m.itx", *flags).stderr
        slow = [line for line in printed.splitlines() if "is slow on" in line]
        assert len(slow) == count
        assert all(re.match(r"remark: wide: kernel '\w+' is slow on sm_80, gfx942: .* loops", line) for line in slow)
