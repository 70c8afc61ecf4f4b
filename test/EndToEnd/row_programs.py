# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs whose rows are longer than vectors, in all ways that loops walk over them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mlir_programs import Program, normal

ALL, ROW = "affine_map<(a, b) -> (a, b)>", "affine_map<(a, b) -> (a)>"


def less_combined(element: str, op: str, start: str, minus: str, x: np.ndarray, combine: Callable) -> Program:
    """Rows less what their elements are combined to: one kernel, whose threads share a row."""
    wide, narrow = f"tensor<5x72x{element}>", f"tensor<5x{element}>"
    return Program(
        f"%x: {wide}", wide,
        f"""  %s = arith.constant {start} : {element}
  %e = tensor.empty() : {narrow}
  %f = linalg.fill ins(%s : {element}) outs(%e : {narrow}) -> {narrow}
  %r = linalg.generic {{indexing_maps = [{ALL}, {ROW}], iterator_types = ["parallel", "reduction"]}}
      ins(%x : {wide}) outs(%f : {narrow}) {{
  ^bb0(%v: {element}, %o: {element}):
    %c = arith.{op} %v, %o : {element}
    linalg.yield %c : {element} }} -> {narrow}
  %g = tensor.empty() : {wide}
  %y = linalg.generic {{indexing_maps = [{ALL}, {ROW}, {ALL}], iterator_types = ["parallel", "parallel"]}}
      ins(%x, %r : {wide}, {narrow}) outs(%g : {wide}) {{
  ^bb0(%v: {element}, %w: {element}, %o: {element}):
    %c = arith.{minus} %v, %w : {element}
    linalg.yield %c : {element} }} -> {wide}
  return %y : {wide}""",
        [x], lambda x: (x - combine(x, axis=1, keepdims=True)).astype(x.dtype), tolerance=1e-5 if element[0] == "f" else 0,
    )  # fmt: skip


def combined(element: str, op: str, start: str, x: np.ndarray, axes: tuple[int, ...], combine: Callable) -> Program:
    """Elements of a tensor of three dimensions combined along some of them: whole numbers, exact in any order."""
    names = "abc"
    shape = "x".join(str(size) for d, size in enumerate(x.shape) if d not in axes)
    left = ", ".join(name for d, name in enumerate(names) if d not in axes)
    kinds = ", ".join('"reduction"' if d in axes else '"parallel"' for d in range(3))
    wide = f"tensor<{'x'.join(map(str, x.shape))}x{element}>"
    narrow = f"tensor<{shape + 'x' if shape else ''}{element}>"
    return Program(
        f"%x: {wide}", narrow,
        f"""  %s = arith.constant {start} : {element}
  %e = tensor.empty() : {narrow}
  %f = linalg.fill ins(%s : {element}) outs(%e : {narrow}) -> {narrow}
  %r = linalg.generic {{indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> ({left})>],
      iterator_types = [{kinds}]}} ins(%x : {wide}) outs(%f : {narrow}) {{
  ^bb0(%v: {element}, %o: {element}):
    %c = arith.{op} %v, %o : {element}
    linalg.yield %c : {element} }} -> {narrow}
  return %r : {narrow}""",
        [x], lambda x: combine(x.astype(np.float64 if element[0] == "f" else x.dtype), axis=axes).astype(x.dtype),
    )  # fmt: skip


def positions(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Go through each row in order: what is not larger than the element so far does not replace it."""
    values, places = np.full(len(x), -np.inf, np.float32), np.zeros(len(x), np.int64)
    for row in range(len(x)):
        for place, element in enumerate(x[row]):
            if element > values[row]:
                places[row] = place
            values[row] = np.maximum(values[row], element)
    return values, places


def read_elsewhere(at: str, expected: Callable) -> Program:
    """Exponentials at another place, by the sums of their rows: what is in scratch is of one row."""
    wide, narrow = "tensor<40x40xf32>", "tensor<40xf32>"
    return Program(
        f"%x: {wide}", wide,
        f"""  %g = tensor.empty() : {wide}
  %p = linalg.generic {{indexing_maps = [{ALL}, {ALL}], iterator_types = ["parallel", "parallel"]}}
      ins(%x : {wide}) outs(%g : {wide}) {{
  ^bb0(%v: f32, %o: f32):
    %c = math.exp %v : f32
    linalg.yield %c : f32 }} -> {wide}
  %e = tensor.empty() : {narrow}
  %f = linalg.fill ins(%zero : f32) outs(%e : {narrow}) -> {narrow}
  %r = linalg.generic {{indexing_maps = [{ALL}, {ROW}], iterator_types = ["parallel", "reduction"]}}
      ins(%p : {wide}) outs(%f : {narrow}) {{
  ^bb0(%v: f32, %o: f32):
    %c = arith.addf %v, %o : f32
    linalg.yield %c : f32 }} -> {narrow}
  %y = linalg.generic {{indexing_maps = [affine_map<(a, b) -> {at}>, {ROW}, {ALL}], iterator_types = ["parallel", "parallel"]}}
      ins(%p, %r : {wide}, {narrow}) outs(%g : {wide}) {{
  ^bb0(%v: f32, %w: f32, %o: f32):
    %c = arith.divf %v, %w : f32
    linalg.yield %c : f32 }} -> {wide}
  return %y : {wide}""",
        [normal(40, 40)], lambda x: expected(np.exp(x), np.exp(x).sum(1, keepdims=True)), tolerance=1e-5,
    )  # fmt: skip


def search(position: str, start: float, first: int, compare: str, x: np.ndarray, expected: Callable) -> Program:
    """The largest element of each row and where it is, from a start on."""
    rows, columns = x.shape
    wide, values, places = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>", f"tensor<{rows}x{position}>"
    return Program(
        f"%x: {wide}", f"({values}, {places})",
        f"""  %s = arith.constant {start!r} : f32
  %p = arith.constant {first} : {position}
  %e = tensor.empty() : {values}
  %i = tensor.empty() : {places}
  %fe = linalg.fill ins(%s : f32) outs(%e : {values}) -> {values}
  %fi = linalg.fill ins(%p : {position}) outs(%i : {places}) -> {places}
  %y:2 = linalg.generic {{indexing_maps = [{ALL}, {ROW}, {ROW}], iterator_types = ["parallel", "reduction"]}}
      ins(%x : {wide}) outs(%fe, %fi : {values}, {places}) {{
  ^bb0(%v: f32, %o: f32, %at: {position}):
    %k = linalg.index 1 : index
    %n = arith.index_cast %k : index to {position}
    %m = arith.maximumf %v, %o : f32
    %g = arith.cmpf {compare}, %v, %o : f32
    %t = arith.select %g, %n, %at : {position}
    linalg.yield %m, %t : f32, {position} }} -> ({values}, {places})
  return %y#0, %y#1 : {values}, {places}""",
        [x], expected,
    )  # fmt: skip


def products(element: str, rows: int, columns: int, are_sizes_known: bool = True) -> Program:
    """Products of two tensors along their first dimension for each index of the second: whole numbers, exact."""
    m, n = (rows, columns) if are_sizes_known else "??"
    first, second, result = f"tensor<5x2x{m}x{element}>", f"tensor<5x2x{n}x{element}>", f"tensor<2x{m}x{n}x{element}>"
    sizes = ["" if are_sizes_known else f' {{nn.sizes = ["", "", "{name}"]}}' for name in "mn"]
    operands = "" if are_sizes_known else "%m, %n"
    zero = "0.0" if element[0] == "f" else "0"
    return Program(
        f"%x: {first}{sizes[0]}, %y: {second}{sizes[1]}", result,
        f"""  %two = arith.constant 2 : index
  %m = tensor.dim %x, %two : {first}
  %n = tensor.dim %y, %two : {second}
  %s = arith.constant {zero} : {element}
  %e = tensor.empty({operands}) : {result}
  %f = linalg.fill ins(%s : {element}) outs(%e : {result}) -> {result}
  %r = linalg.generic {{indexing_maps = [affine_map<(a, b, c, k) -> (k, a, b)>, affine_map<(a, b, c, k) -> (k, a, c)>,
      affine_map<(a, b, c, k) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
      ins(%x, %y : {first}, {second}) outs(%f : {result}) {{
  ^bb0(%v: {element}, %w: {element}, %o: {element}):
    %p = arith.mul{element[0]} %v, %w : {element}
    %c = arith.add{element[0]} %p, %o : {element}
    linalg.yield %c : {element} }} -> {result}
  return %r : {result}""",
        [RANDOM.integers(-9, 9, (5, 2, size)).astype(NUMPY[element]) for size in (rows, columns)],
        lambda x, y: np.einsum("kab,kac->abc", x, y),
    )  # fmt: skip


def picked(element: str, position: str) -> Program:
    """Elements of rows at positions from data, as PyTorch writes `gather`."""
    table, places, result = f"tensor<6x50x{element}>", f"tensor<6x43x{position}>", f"tensor<6x43x{element}>"
    return Program(
        f"%x: {table}, %i: {places}", result,
        f"""  %e = tensor.empty() : {result}
  %y = linalg.generic {{indexing_maps = [{ALL}, {ALL}], iterator_types = ["parallel", "parallel"]}}
      ins(%i : {places}) outs(%e : {result}) {{
  ^bb0(%at: {position}, %o: {element}):
    %r = linalg.index 0 : index
    %k = arith.index_cast %at : {position} to index
    %v = tensor.extract %x[%r, %k] : {table}
    linalg.yield %v : {element} }} -> {result}
  return %y : {result}""",
        [
            RANDOM.integers(-99, 99, (6, 50)).astype(NUMPY[element]),
            RANDOM.integers(0, 50, (6, 43)).astype(NUMPY[position]),
        ],
        lambda x, i: np.take_along_axis(x, i.astype(np.int64), 1),
    )  # fmt: skip


NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}
WIDE = normal(5, 72)
WITH_NANS = normal(6, 50)
WITH_NANS[1, 3] = WITH_NANS[2, 40] = WITH_NANS[4, 49] = np.nan
RANDOM = np.random.default_rng(3)
CUBE = RANDOM.integers(-99, 99, (7, 9, 40)).astype(np.float32)
MANY = RANDOM.integers(-99, 99, (128, 16, 40)).astype(np.float32)
HALVES = RANDOM.integers(-8, 8, (3, 4, 72)).astype(np.float16)
EQUAL = np.zeros((2, 100), np.float32)
EQUAL[0, 33] = EQUAL[1, 7] = EQUAL[1, 60] = 5
FAR = np.zeros((2, 300), np.float32)
FAR[0, 3] = FAR[0, 130] = FAR[1, 200] = 1
WHOLE = {name: RANDOM.integers(-9, 9, (5, 72), dtype=name) for name in ("int8", "int16", "int32", "int64")}

ROW_PROGRAMS = {
    "less_largest": less_combined("f32", "maximumf", "0xFF800000", "subf", WIDE, np.max),
    "less_smallest_f64": less_combined("f64", "minimumf", "0x7FF0000000000000", "subf", WIDE.astype(np.float64), np.min),
    **{
        f"less_sum_i{x.itemsize * 8}": less_combined(f"i{x.itemsize * 8}", "addi", "0", "subi", x, np.sum)
        for x in WHOLE.values()
    },
    "less_all_bits": less_combined("i16", "ori", "0", "subi", WHOLE["int16"], np.bitwise_or.reduce),
    **{
        f"sum_over_{''.join(map(str, axes))}": combined("f32", "addf", "0.0", CUBE, axes, np.sum)
        for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
    },
    "product": combined("i64", "muli", "1", RANDOM.integers(1, 3, (3, 2, 20)), (1, 2), np.prod),
    "least": combined("f32", "minimumf", "0x7F800000", CUBE, (2,), np.min),
    "sum_of_many": combined("f32", "addf", "0.0", MANY, (0, 1, 2), np.sum),
    "position_with_nan": Program(
        "%x: tensor<6x50xf32>", "(tensor<6xf32>, tensor<6xi64>)",
        f"""  %e = tensor.empty() : tensor<6xf32>
  %i = tensor.empty() : tensor<6xi64>
  %fe = linalg.fill ins(%least : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %fi = linalg.fill ins(%none : i64) outs(%i : tensor<6xi64>) -> tensor<6xi64>
  %y:2 = linalg.generic {{indexing_maps = [{ALL}, {ROW}, {ROW}], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<6x50xf32>) outs(%fe, %fi : tensor<6xf32>, tensor<6xi64>) {{
  ^bb0(%v: f32, %o: f32, %at: i64):
    %k = linalg.index 1 : index
    %n = arith.index_cast %k : index to i64
    %m = arith.maximumf %v, %o : f32
    %g = arith.cmpf ogt, %v, %o : f32
    %s = arith.select %g, %n, %at : i64
    linalg.yield %m, %s : f32, i64 }} -> (tensor<6xf32>, tensor<6xi64>)
  return %y#0, %y#1 : tensor<6xf32>, tensor<6xi64>""",
        [WITH_NANS], positions,
    ),
    "transposed_by_sums": read_elsewhere("(b, a)", lambda p, total: p.T / total),
    "first_row_by_sums": read_elsewhere("(0, b)", lambda p, total: p[:1] / total),
    "last_of_equal_elements": search(
        "i64", 5.0, 1000, "oge", EQUAL, lambda x: (np.full(2, 5, np.float32), np.array([33, 60]))
    ),
    "first_of_equal_elements": search(
        "i32", 5.0, 1000, "ogt", EQUAL, lambda x: (np.full(2, 5, np.float32), np.array([1000, 1000], np.int32))
    ),
    "narrow_positions": search(
        "i8", -1.0, 0, "ogt", FAR, lambda x: (x.max(1), np.array([3, 200 - 256], np.int8))
    ),
    "sum_of_halves": combined("f16", "addf", "0.0", HALVES, (2,), np.sum),
    "sum_of_outer_halves": combined("f16", "addf", "0.0", HALVES, (0, 1), np.sum),
    "largest_of_halves": combined("f16", "maximumf", "0xFC00", HALVES, (1, 2), np.max),
    "largest_number_of_none": combined(
        "f32", "maxnumf", "0x7FC00000", np.full((2, 3, 40), np.nan, np.float32), (2,), lambda x, axis: x.max(axis)
    ),
    "products": products("f32", 37, 330),
    "wide_products": products("i64", 32, 166),
    "products_of_any_size": products("f32", 21, 75, are_sizes_known=False),
    "picked": picked("f32", "i64"),
    "picked_numbers": picked("i64", "i32"),
    "picked_halves": picked("f16", "i64"),
    "permuted": Program(
        "%x: tensor<3x37x50xf32>", "tensor<50x3x37xf32>",
        """  %a = math.absf %x : tensor<3x37x50xf32>
  %e = tensor.empty() : tensor<50x3x37xf32>
  %y = linalg.transpose ins(%a : tensor<3x37x50xf32>) outs(%e : tensor<50x3x37xf32>) permutation = [2, 0, 1]
  return %y : tensor<50x3x37xf32>""",
        [normal(3, 37, 50)], lambda x: np.abs(x).transpose(2, 0, 1),
    ),
    "added_to_its_transpose": Program(
        "%x: tensor<40x40xf32>", "tensor<40x40xf32>",
        """  %e = tensor.empty() : tensor<40x40xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %x : tensor<40x40xf32>, tensor<40x40xf32>) outs(%e : tensor<40x40xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %s = arith.addf %v, %w : f32
    linalg.yield %s : f32 } -> tensor<40x40xf32>
  return %y : tensor<40x40xf32>""",
        [normal(40, 40)], lambda x: x + x.T,
    ),
}  # fmt: skip
