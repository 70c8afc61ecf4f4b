# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that sort, go along an axis in order, write at positions from data, and compare with NaN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mlir_programs import ROWS, TIES, WITH_NAN, Program, normal


def add_rows(x: np.ndarray, rows: np.ndarray, updates: np.ndarray) -> np.ndarray:
    result = x.copy()
    np.add.at(result, rows, updates)
    return result


# The programs below keep the numbers that they have when there are more of these.
NUMBERS = np.random.default_rng(11)


def numbers(*shape: int) -> np.ndarray:
    return NUMBERS.standard_normal(shape).astype(np.float32)


def exclusive(x: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Sums of the rows before each one, which begin with `start`."""
    return np.concatenate([start[None], start + x[:-1].cumsum(0)])


def halves(*shape: int) -> np.ndarray:
    """Small numbers whose sums have no rounding in float16."""
    return np.round(numbers(*shape)).astype(np.float16)


#: name: kind, input, attributes, what NumPy computes, tolerance
CUMULATES: dict[str, tuple[str, np.ndarray, str, Callable[[np.ndarray], np.ndarray], float]] = {
    "sums_before": ("add", numbers(5, 33), "", lambda x: x.cumsum(1), 1e-5),
    "sums_before_long": ("add", numbers(2, 1000), "", lambda x: x.cumsum(1), 1e-4),
    "sums_before_whole": ("add", numbers(2, 512), "{exclusive}", lambda x: x.cumsum(1) - x, 1e-4),
    "sums_behind": ("add", numbers(5, 37), "{reverse}", lambda x: x[:, ::-1].cumsum(1)[:, ::-1], 1e-5),
    "sums_behind_whole": ("add", numbers(3, 256), "{exclusive, reverse}", lambda x: x.sum(1, keepdims=True) - x.cumsum(1), 1e-4),
    "sums_of_one": ("add", numbers(4, 1), "{exclusive}", lambda x: x * 0, 0),
    "sums_of_none": ("add", numbers(4, 0), "", lambda x: x, 0),
    "sums_of_halves": ("add", halves(3, 70), "", lambda x: x.cumsum(1), 0),
    "sums_of_doubles": ("add", numbers(3, 70).astype(np.float64), "", lambda x: x.cumsum(1), 1e-12),
    "sums_of_integers": ("add", (numbers(3, 70) * 3e8).astype(np.int32), "", lambda x: x.cumsum(1, np.int32), 0),
    "sums_of_long_integers": ("add", (numbers(70) * 1e18).astype(np.int64), "{reverse}", lambda x: x[::-1].cumsum()[::-1], 0),
    "products": ("mul", 1 + numbers(4, 45) / 32, "", lambda x: x.cumprod(1), 1e-5),
    "products_after": ("mul", 1 + numbers(4, 45) / 32, "{exclusive}", lambda x: np.roll(x.cumprod(1), 1, 1) * (np.arange(45) > 0) + (np.arange(45) == 0), 1e-5),
    "largest_so_far": ("maximumf", WITH_NAN, "", lambda x: np.maximum.accumulate(x, 1), 0),
    "largest_number_so_far": ("maxnumf", WITH_NAN, "", lambda x: np.fmax.accumulate(x, 1), 0),
    "smallest_to_come": ("minsi", (numbers(4, 45) * 99).astype(np.int8), "{reverse}", lambda x: np.minimum.accumulate(x[:, ::-1], 1)[:, ::-1], 0),
    "largest_unsigned": ("maxui", (numbers(4, 45) * 99).astype(np.int16), "", lambda x: np.maximum.accumulate(x.view(np.uint16), 1).view(np.int16), 0),
    "any_so_far": ("or", numbers(4, 45) > 1, "", lambda x: np.logical_or.accumulate(x, 1), 0),
    "parities": ("xor", (numbers(4, 45) * 99).astype(np.int32), "{exclusive}", lambda x: np.bitwise_xor.accumulate(x, 1) ^ x, 0),
}  # fmt: skip
ELEMENTS = {
    "float16": "f16", "float32": "f32", "float64": "f64", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "bool": "i1",
}  # fmt: skip


def cumulate(kind: str, x: np.ndarray, attributes: str, function: Callable, tolerance: float) -> Program:
    tensor = "tensor<" + "".join(f"{size}x" for size in x.shape) + ELEMENTS[x.dtype.name] + ">"
    body = f"  %y = nn.cumulate <{kind}>, %x {attributes} : {tensor}\n  return %y : {tensor}"
    return Program(f"%x: {tensor}", tensor, body, [x], function, tolerance)


ORDERED_PROGRAMS = {
    **{name: cumulate(*each) for name, each in CUMULATES.items()},
    # What is computed for each element is part of the kernel.
    "shares_so_far": Program(
        "%x: tensor<?x?xf32>", "tensor<?x?xf32>",
        """  %e = math.absf %x : tensor<?x?xf32>
  %y = nn.cumulate <add>, %e : tensor<?x?xf32>
  %z = arith.divf %e, %y : tensor<?x?xf32>
  return %z : tensor<?x?xf32>""",
        [numbers(7, 41)], lambda x: np.abs(x) / np.abs(x).cumsum(1), 1e-6,
    ),
    # Along columns, from given numbers on.
    "sums_of_columns": Program(
        "%x: tensor<?x7xf32>, %s: tensor<7xf32>", "tensor<?x7xf32>",
        """  %n = tensor.dim %x, %c0 : tensor<?x7xf32>
  %e = tensor.empty(%n) : tensor<?x7xf32>
  %y:2 = tm_tensor.scan dimension(0) inclusive(false) ins(%x : tensor<?x7xf32>) outs(%e, %s : tensor<?x7xf32>, tensor<7xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    tm_tensor.yield %r : f32
  } -> tensor<?x7xf32>, tensor<7xf32>
  return %y#0 : tensor<?x7xf32>""",
        [numbers(50, 7), numbers(7)], exclusive, 1e-5,
    ),
    "sorted": Program(
        "%x: tensor<6x33xf32>", "(tensor<6x33xf32>, tensor<6x33xi64>)",
        """  %e = tensor.empty() : tensor<6x33xi64>
  %i = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<6x33xi64>) {
  ^bb0(%o: i64):
    %k = linalg.index 1 : index
    %n = arith.index_cast %k : index to i64
    linalg.yield %n : i64 } -> tensor<6x33xi64>
  %y:2 = tm_tensor.sort dimension(1) outs(%x, %i : tensor<6x33xf32>, tensor<6x33xi64>) {
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %r = arith.cmpf ole, %a, %b : f32
    tm_tensor.yield %r : i1
  } -> tensor<6x33xf32>, tensor<6x33xi64>
  return %y#0, %y#1 : tensor<6x33xf32>, tensor<6x33xi64>""",
        [WITH_NAN], lambda x: (np.sort(x, 1), np.argsort(x, 1, kind="stable")),
    ),
    "sorted_down": Program(
        "%x: tensor<33xi32>", "tensor<33xi32>",
        """  %y = tm_tensor.sort dimension(0) outs(%x : tensor<33xi32>) {
  ^bb0(%a: i32, %b: i32):
    %r = arith.cmpi ult, %b, %a : i32
    tm_tensor.yield %r : i1
  } -> tensor<33xi32>
  return %y : tensor<33xi32>""",
        [TIES[0].astype(np.int32)], lambda x: np.sort(x.view(np.uint32))[::-1].view(np.int32),
    ),
    "running_largest": Program(
        "%x: tensor<6x33xf32>", "(tensor<6x33xf32>, tensor<6xf32>)",
        """  %e = tensor.empty() : tensor<6x33xf32>
  %l = tensor.empty() : tensor<6xf32>
  %y:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<6x33xf32>) outs(%e, %l : tensor<6x33xf32>, tensor<6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.maximumf %a, %b : f32
    tm_tensor.yield %r : f32
  } -> tensor<6x33xf32>, tensor<6xf32>
  return %y#0, %y#1 : tensor<6x33xf32>, tensor<6xf32>""",
        [WITH_NAN], lambda x: (np.maximum.accumulate(x, 1), x.max(1)),
    ),
    # Rows that are added to twice, and none.
    "added_rows": Program(
        "%x: tensor<4x6xf32>, %u: tensor<3x6xf32>, %i: tensor<3x1xi64>", "tensor<4x6xf32>",
        """  %y = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false)
      ins(%u, %i : tensor<3x6xf32>, tensor<3x1xi64>) outs(%x : tensor<4x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %b, %a : f32
    tm_tensor.yield %r : f32
  } -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>""",
        [ROWS, normal(3, 6), np.array([[2], [0], [2]])], lambda x, u, i: add_rows(x, i[:, 0], u), 1e-6,
    ),
    # Maps that no kernel reads along.
    **{
        name: Program(
            f"%x: tensor<{size}xf32>", "tensor<8xf32>",
            f"""  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {{indexing_maps = [affine_map<(a) -> ({index})>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}}
      ins(%x : tensor<{size}xf32>) outs(%e : tensor<8xf32>) {{
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32 }} -> tensor<8xf32>
  return %y : tensor<8xf32>""",
            [normal(size)], function,
        )
        for name, size, index, function in (
            ("reversed", 8, "-a + 7", lambda x: x[::-1]),
            ("doubled", 4, "a floordiv 2", lambda x: x.repeat(2)),
            ("repeated", 3, "a mod 3", lambda x: np.resize(x, 8)),
        )
    },
    # maximumf and minimumf keep NaN, as NumPy does.
    **{
        name: Program(
            "%x: tensor<6x33xf32>", "tensor<6xf32>",
            f"""  %s = arith.constant {start} : f32
  %e = tensor.empty() : tensor<6xf32>
  %f = linalg.fill ins(%s : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %y = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>],
      iterator_types = ["parallel", "reduction"]}} ins(%x : tensor<6x33xf32>) outs(%f : tensor<6xf32>) {{
  ^bb0(%v: f32, %o: f32):
    %r = arith.{op} %v, %o : f32
    linalg.yield %r : f32 }} -> tensor<6xf32>
  return %y : tensor<6xf32>""",
            [WITH_NAN], function,
        )
        for name, op, start, function in (
            ("largest_with_nan", "maximumf", "0xFF800000", lambda x: x.max(1)),
            ("smallest_with_nan", "minimumf", "0x7F800000", lambda x: x.min(1)),
        )
    },
    # The first NaN is the largest one, as NumPy's argmax has it.
    "where_with_nan": Program(
        "%x: tensor<6x33xf32>", "tensor<6xi64>",
        """  %e = tensor.empty() : tensor<6xf32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %d = tensor.empty() : tensor<6xi64>
  %g = linalg.fill ins(%none : i64) outs(%d : tensor<6xi64>) -> tensor<6xi64>
  %y:2 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x33xf32>) outs(%f, %g : tensor<6xf32>, tensor<6xi64>) {
  ^bb0(%v: f32, %o: f32, %i: i64):
    %k = linalg.index 1 : index
    %here = arith.index_cast %k : index to i64
    %above = arith.cmpf ogt, %v, %o : f32
    %nan = arith.cmpf uno, %v, %v : f32
    %number = arith.cmpf ord, %o, %o : f32
    %first = arith.andi %nan, %number : i1
    %is = arith.ori %above, %first : i1
    %m = arith.select %is, %v, %o : f32
    %j = arith.select %is, %here, %i : i64
    linalg.yield %m, %j : f32, i64 } -> (tensor<6xf32>, tensor<6xi64>)
  return %y#1 : tensor<6xi64>""",
        [WITH_NAN], lambda x: x.argmax(1),
    ),
    # Blocks, and a loop of them.
}  # fmt: skip
