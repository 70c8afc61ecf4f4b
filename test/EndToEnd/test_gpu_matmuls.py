# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nn.matmul on emulated GPUs, against NumPy in float64.

With a precision, both factors are rounded to it before they are multiplied, and nothing else.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from programs import SCHEDULES, build, close, in_turn, one_of_each_vendor, random_cases
from random_numbers import RNG, normal

pytestmark = pytest.mark.cpu_only

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}


def rounded(array: np.ndarray, precision: str) -> np.ndarray:
    """Round to nearest. TF32 has a mantissa of 10 bits, and ties go away from zero (PTX ISA, "cvt")."""
    if precision != "tf32":
        return array.astype(TYPES[precision]).astype(np.float64)
    mantissa, exponent = np.frexp(array.astype(np.float64))
    return np.ldexp(np.copysign(np.floor(np.abs(mantissa) * 2.0**11 + 0.5), mantissa), exponent - 11)


def program(element: str, left: bool, right: bool, after: str, depth: int | None, precision: str = "") -> str:
    """A batch of products of any sizes, or of one depth."""
    shapes = [["b", "k", "m"] if left else ["b", "m", "k"], ["b", "n", "k"] if right else ["b", "k", "n"]]
    flags = ", ".join(
        ["transpose_lhs"] * left + ["transpose_rhs"] * right + [f"precision = {precision}"] * bool(precision)
    )
    named = [["" if size == "k" and depth else size for size in shape] for shape in shapes]
    names = ['["' + '", "'.join(shape) + '"]' for shape in named]
    tensor = f"tensor<?x?x?x{element}>"
    operands = ["x".join("?" if size != "k" or depth is None else str(depth) for size in shape) for shape in shapes]
    operands = [f"tensor<{operand}x{element}>" for operand in operands]
    return f"""
    func.func @main(%x: {operands[0]} {{nn.name = "x", nn.sizes = {names[0]}}}, %y: {operands[1]} {{nn.name = "y", nn.sizes = {names[1]}}})
        -> ({tensor} {{nn.name = "z"}}) {{
      %p = nn.matmul %x, %y {{{flags}}} : ({", ".join(operands)}) -> {tensor}
      %z = {after} %p : {tensor}
      return %z : {tensor}
    }}"""


def check(tools, folder, architecture, element, left, right, sizes, depth=None, precision="", multiplied="f32") -> None:
    text = program(element, left, right, "nn.relu", depth, precision)
    module = build(tools, folder, text, target=f"emulated:{architecture}")
    for b, m, k, n in sizes:
        x, y = normal(b, m, k).astype(TYPES[element]), normal(b, k, n).astype(TYPES[element])
        wide_x, wide_y = (rounded(a, multiplied) if element == "f32" else a.astype(np.float64) for a in (x, y))
        expected = np.maximum(wide_x @ wide_y, 0)
        given = [a.transpose(0, 2, 1) if flag else a for a, flag in ((x, left), (y, right))]
        # Sums in f32; results of f16 are rounded once more.
        magnitude = float((np.abs(wide_x) @ np.abs(wide_y)).max(initial=0))
        tolerance = (2.0**-23 * (k + 8) + (2.0**-11 if element == "f16" else 0)) * magnitude
        close(module.main(*(np.ascontiguousarray(a) for a in given)), expected, tolerance)


@pytest.mark.parametrize(
    ("element", "architecture"), in_turn(["f32", "f16"], ["sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100"])
)
def test_random_shapes(tools, tmp_path, monkeypatch, architecture: str, element: str) -> None:
    for number in random_cases(monkeypatch, usual=3):
        left, right = [(False, True), (False, False), (True, True)][(number + number // 3) % 3]
        sizes = [tuple(int(size) for size in RNG.integers(1, [4, 90, 90, 90])) for _ in range(2)]
        check(tools, tmp_path, architecture, element, left, right, [*sizes, (2, 64, 64, 64)])


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize("architecture", ["sm_80", "gfx942"])
def test_schedules(tools, tmp_path, monkeypatch, architecture: str, schedule: str) -> None:
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    check(tools, tmp_path, architecture, "f16", False, True, [(2, 70, 72, 40)], depth=72)


@pytest.mark.parametrize(
    ("precision", "architecture"),
    in_turn(["f16", "bf16", "tf32"], ["sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100"]),
)
def test_precision(tools, tmp_path, architecture: str, precision: str) -> None:
    """AMD's GPUs have no instruction for tf32, and multiply f32."""
    multiplied = "f32" if precision == "tf32" and architecture.startswith("gfx") else precision
    for number, (left, right, depth) in enumerate([(False, True, 72), (False, False, None), (True, True, None)]):
        sizes = [(2, 70, depth or 51, 40), (1, 3, depth or 90, 65)]
        folder = tmp_path / str(number)
        check(tools, folder, architecture, "f32", left, right, sizes, depth, precision, multiplied)


@pytest.mark.parametrize("schedule", ["greedy", "greedy-reversed"])
@pytest.mark.parametrize("architecture", one_of_each_vendor("sm_80", "sm_90a", "gfx942", "gfx1100"))
def test_schedules_of_rounding(tools, tmp_path, monkeypatch, architecture: str, schedule: str) -> None:
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    check(tools, tmp_path, architecture, "f32", False, True, [(2, 70, 72, 40)], 72, "bf16", "bf16")


def test_f16_stays(tools, tmp_path) -> None:
    """Elements of 16 bits are multiplied as they are, whatever the permission."""
    check(tools, tmp_path, "sm_80", "f16", False, True, [(2, 70, 72, 40)], precision="bf16")
