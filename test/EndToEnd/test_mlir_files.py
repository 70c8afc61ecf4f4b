# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs as other compilers write them, on every kind of device, against NumPy."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import intarsia
import numpy as np
import pytest
from flow_programs import FLOW_PROGRAMS
from mlir_programs import PROGRAMS, RESOURCES
from named_programs import NAMED_PROGRAMS
from ordered_programs import ORDERED_PROGRAMS
from programs import build
from random_numbers import normal
from random_programs import RandomProgram
from row_programs import ROW_PROGRAMS

DEVICES = ["cpu", "cpu:x86-64-v2", "reference", "emulated:sm_90a", "emulated:gfx942"]


@pytest.mark.parametrize("device", DEVICES)
def test_programs(tools, tmp_path, device):
    programs = PROGRAMS | FLOW_PROGRAMS | NAMED_PROGRAMS | ORDERED_PROGRAMS | ROW_PROGRAMS
    text = "".join(program.text(name) for name, program in programs.items()) + RESOURCES
    module = build(tools, tmp_path, text, None, device)
    for name, program in programs.items():
        got, expected = getattr(module, name)(*program.inputs), program.expected(*program.inputs)
        if not isinstance(got, tuple):
            got, expected = (got,), (expected,)
        for one, wanted in zip(got, expected, strict=True):
            assert one.shape == wanted.shape, name
            np.testing.assert_allclose(one, wanted, rtol=0, atol=program.tolerance, err_msg=name)


def power(x: int, n: int) -> int:
    if n >= 0:
        return x**n
    return {1: 1, -1: -1 if n % 2 else 1}.get(x, 0)


#: Functions of math with the interval that their arguments are from. The units in the last place that float32 is off by
#: are tested for each argument by VectorMathTest; here they only have to be the functions of these names.
UNARY: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float]] = {
    "acos": (np.arccos, -1, 1), "acosh": (np.arccosh, 1, 50), "asin": (np.arcsin, -1, 1), "asinh": (np.arcsinh, -50, 50),
    "atan": (np.arctan, -9, 9), "atanh": (np.arctanh, -0.9, 0.9), "cbrt": (np.cbrt, -9, 9), "cosh": (np.cosh, -4, 4),
    "erfc": (np.vectorize(math.erfc), -3, 3), "exp2": (np.exp2, -4, 4), "expm1": (np.expm1, -3, 3),
    "log10": (np.log10, 0.01, 90), "log1p": (np.log1p, -0.9, 9), "log2": (np.log2, 0.01, 90), "sinh": (np.sinh, -4, 4),
    "tan": (np.tan, -1.4, 1.4), "round": (lambda x: np.trunc(x + np.copysign(0.5, x)), -9, 9),
    "isnan": (np.isnan, -1, 1), "isinf": (np.isinf, -1, 1), "isfinite": (np.isfinite, -1, 1),
}  # fmt: skip
BINARY: dict[str, tuple[Callable[..., np.ndarray], str]] = {
    "powf": (lambda x, y: np.abs(x) ** y, "%a = math.absf %x : T\n  %r = math.powf %a, %y : T"),
    "atan2": (np.arctan2, "%r = math.atan2 %x, %y : T"),
    "clampf": (
        lambda x, y: np.clip(x, -0.5, np.abs(y)),
        "%l = arith.constant dense<-0.5> : T\n  %h = math.absf %y : T\n  %r = math.clampf %x to [%l, %h] : T",
    ),
    "fpowi": (
        lambda x, y: x**-3.0,
        "%n = arith.constant dense<-3> : tensor<4x37xi32>\n  %r = math.fpowi %x, %n : T, tensor<4x37xi32>",
    ),
}
INTEGERS: dict[str, Callable[..., np.ndarray]] = {
    "ctlz": lambda x, y: np.array([32 - len(f"{int(v) & 0xFFFFFFFF:b}") if v else 32 for v in x], np.int32),
    "cttz": lambda x, y: np.array([(int(v) & -int(v)).bit_length() - 1 if v else 32 for v in x], np.int32),
    "ctpop": lambda x, y: np.array([f"{int(v) & 0xFFFFFFFF:b}".count("1") for v in x], np.int32),
    "ipowi": lambda x, y: np.array([power(int(v), int(n)) for v, n in zip(x, y, strict=True)], np.int32),
}


@pytest.mark.parametrize("device", DEVICES)
def test_functions(tools, tmp_path, device):
    kind, text = "tensor<4x37xf32>", ""
    for name in UNARY:
        result = "tensor<4x37xi1>" if name.startswith("is") else kind
        text += f"func.func @{name}(%x: {kind}) -> {result} {{ %r = math.{name} %x : {kind}\n return %r : {result} }}\n"
    for name, (_, body) in BINARY.items():
        body = body.replace("T\n", kind + "\n").replace(": T", f": {kind}")
        text += f"func.func @{name}(%x: {kind}, %y: {kind}) -> {kind} {{ {body}\n return %r : {kind} }}\n"
    for name in INTEGERS:
        more = ", %y" if name == "ipowi" else ""
        text += (
            f"func.func @{name}(%x: tensor<5xi32>, %y: tensor<5xi32>) -> tensor<5xi32> {{ "
            f"%r = math.{name} %x{more} : tensor<5xi32>\n return %r : tensor<5xi32> }}\n"
        )
    module = build(tools, tmp_path, text, None, device)
    for name, (function, low, high) in UNARY.items():
        x = np.random.default_rng(3).uniform(low, high, (4, 37)).astype(np.float32)
        if name.startswith("is"):
            x[0, :4] = np.nan, np.inf, -np.inf, 0
            np.testing.assert_array_equal(getattr(module, name)(x), function(x), err_msg=name)
        else:
            np.testing.assert_allclose(getattr(module, name)(x), function(x.astype(np.float64)), 2e-6, 1e-7, name)
    x, y = normal(4, 37) + np.float32(0.01), normal(4, 37)
    for name, (function, _) in BINARY.items():
        expected = function(x.astype(np.float64), y.astype(np.float64))
        np.testing.assert_allclose(getattr(module, name)(x, y), expected, 2e-6, 1e-7, name)
    x, y = np.array([0, 1, -1, -3, 2**20 + 4], np.int32), np.array([0, -5, -5, 3, 1], np.int32)
    for name, function in INTEGERS.items():
        np.testing.assert_array_equal(getattr(module, name)(x, y), function(x, y), err_msg=name)


@pytest.mark.parametrize("device", DEVICES)
def test_random_programs(tools, tmp_path, device):
    """INTARSIA_RANDOM_PROGRAMS says how many; `make test-slow` asks for 500."""
    count = int(os.environ.get("INTARSIA_RANDOM_PROGRAMS", 30))
    programs = [RandomProgram(np.random.default_rng(number), f"p{number}") for number in range(count)]
    for first in range(0, count, 50):
        part = programs[first : first + 50]
        module = build(tools, tmp_path / str(first), "".join(program.text for program in part), None, device)
        for program in part:
            got = getattr(module, program.name)(program.argument)
            largest = max(1.0, *(np.abs(value.array).max(initial=0) for value in program.seen))
            for one, wanted in zip(got if isinstance(got, tuple) else (got,), program.results, strict=True):
                assert one.shape == wanted.shape, program.text
                np.testing.assert_allclose(one, wanted, 0, 2e-5 * largest, err_msg=program.text)


SCALARS = """func.func @divided(%a: i32, %b: i32) -> i32 {
  %d = arith.divsi %a, %b : i32
  return %d : i32
}
func.func @captured(%x: tensor<8xf32>, %b: tensor<1xi64>) -> tensor<3xf32> {
  %c0 = arith.constant 0 : index
  %v = tensor.extract %b[%c0] : tensor<1xi64>
  %i = arith.index_cast %v : i64 to index
  %e = tensor.empty() : tensor<3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e : tensor<3xf32>) {
  ^bb0(%o: f32):
    %r = tensor.extract %x[%i] : tensor<8xf32>
    linalg.yield %r : f32 } -> tensor<3xf32>
  return %y : tensor<3xf32>
}
func.func @narrow(%x: tensor<200xf32>, %b: tensor<2xi8>) -> tensor<2xf32> {
  %e = tensor.empty() : tensor<2xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%b : tensor<2xi8>) outs(%e : tensor<2xf32>) {
  ^bb0(%v: i8, %o: f32):
    %i = arith.index_cast %v : i8 to index
    %r = tensor.extract %x[%i] : tensor<200xf32>
    linalg.yield %r : f32 } -> tensor<2xf32>
  return %y : tensor<2xf32>
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_scalars_of_a_call(tools, tmp_path, device):
    module = build(tools, tmp_path, SCALARS, None, device)
    assert [int(module.divided(np.int32(a), np.int32(b))) for a, b in ((9, 2), (-9, 2), (9, 0), (-(2**31), -1))] == [
        4, -4, 0, -(2**31)
    ]  # fmt: skip
    x = np.arange(200, dtype=np.float32)
    np.testing.assert_array_equal(module.captured(x[:8], np.array([7])), [7, 7, 7])
    for index in (8, -1):
        with pytest.raises(intarsia.InvalidArgumentError, match=rf"'tensor\.extract' in dimension 0 is {index}"):
            module.captured(x[:8], np.array([index]))
    np.testing.assert_array_equal(module.narrow(x, np.array([127, 0], np.int8)), [127, 0])
    with pytest.raises(intarsia.InvalidArgumentError, match=r"'tensor\.extract' in dimension 0 is -3"):
        module.narrow(x, np.array([0, -3], np.int8))
