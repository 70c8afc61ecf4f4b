# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs as other compilers write them, and what NumPy makes of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Program:
    """A function's arguments and results as MLIR has them, its body, its inputs, and what NumPy makes of these."""

    arguments: str
    results: str
    body: str
    inputs: list[Any]
    expected: Callable[..., Any]
    tolerance: float = 0.0

    def text(self, name: str) -> str:
        return f"func.func @{name}({self.arguments}) -> {self.results} {{\n{CONSTANTS}{self.body}\n}}\n"


# Of these programs alone: the numbers do not depend on which tests were read before.
RANDOM = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    """Return values of the standard normal distribution."""
    return RANDOM.standard_normal(shape).astype(np.float32)


CONSTANTS = """  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %none = arith.constant 0 : i64
"""
X = normal(3, 5, 7)
IMAGE, KERNELS = normal(2, 9, 8, 3), normal(3, 2, 3, 5)
ROWS = normal(4, 6)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def reduction(maps: str, loops: str, kind: str, start: str, body: str) -> str:
    return f"""  %e = tensor.empty() : {kind}
  %f = linalg.fill ins({start} : f32) outs(%e : {kind}) -> {kind}
  %y = linalg.generic {{indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> {maps}>],
      iterator_types = [{loops}]}} ins(%x : tensor<3x5x7xf32>) outs(%f : {kind}) {{
  ^bb0(%v: f32, %o: f32):
    {body}
    linalg.yield %r : f32 }} -> {kind}
  return %y : {kind}"""


def window(image: np.ndarray, dilation: int, stride: int, size: tuple[int, int]) -> np.ndarray:
    """Return the windows of an image (n, h, w, c) as (n, rows, columns, size, size, c)."""
    reach = tuple(dilation * (one - 1) + 1 for one in size)
    views = np.lib.stride_tricks.sliding_window_view(image, reach, (1, 2))[:, ::stride, ::stride]
    return np.moveaxis(views[..., ::dilation, ::dilation], 3, -1)


def classes(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Whether twice a number is infinite or finite, and the number normal."""
    with np.errstate(over="ignore"):
        twice = x + x
    return np.isinf(twice), np.isfinite(twice), np.isfinite(x) & (np.abs(x) >= np.finfo(x.dtype).tiny)


def argmax(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.max(1, keepdims=True), x.argmax(1, keepdims=True)


TIES = np.round(normal(6, 33))
WITH_NAN = TIES.copy()
WITH_NAN[2, 5] = np.nan
PARALLEL, REDUCED = '"parallel"', '"reduction"'

PROGRAMS = {
    "largest_kept": Program(
        "%x: tensor<3x5x7xf32>", "tensor<3x5x1xf32>",
        reduction("(a, b, 0)", f"{PARALLEL}, {PARALLEL}, {REDUCED}", "tensor<3x5x1xf32>", "%least",
                  "%r = arith.maximumf %v, %o : f32"),
        [X], lambda x: x.max(2, keepdims=True),
    ),
    # maxnumf leaves NaN out.
    "largest_number": Program(
        "%x: tensor<6x33xf32>", "tensor<6xf32>",
        """  %e = tensor.empty() : tensor<6xf32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x33xf32>) outs(%f : tensor<6xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.maxnumf %v, %o : f32
    linalg.yield %r : f32 } -> tensor<6xf32>
  return %y : tensor<6xf32>""",
        [WITH_NAN], lambda x: np.nanmax(x, 1),
    ),
    "middle_kept": Program(
        "%x: tensor<3x5x7xf32>", "tensor<3x1x7xf32>",
        reduction("(a, 0, c)", f"{PARALLEL}, {REDUCED}, {PARALLEL}", "tensor<3x1x7xf32>", "%zero",
                  "%r = arith.addf %v, %o : f32"),
        [X], lambda x: x.sum(1, keepdims=True), 1e-6,
    ),
    "all_kept": Program(
        "%x: tensor<3x5x7xf32>", "tensor<1x1x1xf32>",
        reduction("(0, 0, 0)", f"{REDUCED}, {REDUCED}, {REDUCED}", "tensor<1x1x1xf32>", "%zero",
                  "%r = arith.addf %v, %o : f32"),
        [X], lambda x: x.sum(keepdims=True), 1e-5,
    ),
    "accumulated_kept": Program(
        "%x: tensor<3x5x7xf32>, %f: tensor<3x1x7xf32>", "tensor<3x1x7xf32>",
        reduction("(a, 0, c)", f"{PARALLEL}, {REDUCED}, {PARALLEL}", "tensor<3x1x7xf32>", "%zero",
                  "%r = arith.addf %v, %o : f32").split("-> tensor<3x1x7xf32>\n", 1)[1].replace("%e =", "%unused ="),
        [X, normal(3, 1, 7)], lambda x, f: f + x.sum(1, keepdims=True), 1e-6,
    ),
    "largest_and_where": Program(
        '%x: tensor<?x33xf32> {nn.sizes = ["n", ""]}', "(tensor<?x1xf32>, tensor<?x1xi64>)",
        """  %n = tensor.dim %x, %c0 : tensor<?x33xf32>
  %e = tensor.empty(%n) : tensor<?x1xf32>
  %i = tensor.empty(%n) : tensor<?x1xi64>
  %fe = linalg.fill ins(%least : f32) outs(%e : tensor<?x1xf32>) -> tensor<?x1xf32>
  %fi = linalg.fill ins(%none : i64) outs(%i : tensor<?x1xi64>) -> tensor<?x1xi64>
  %y:2 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, 0)>,
      affine_map<(a, b) -> (a, 0)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x33xf32>) outs(%fe, %fi : tensor<?x1xf32>, tensor<?x1xi64>) {
  ^bb0(%v: f32, %o: f32, %at: i64):
    %k = linalg.index 1 : index
    %k64 = arith.index_cast %k : index to i64
    %m = arith.maximumf %v, %o : f32
    %g = arith.cmpf ogt, %v, %o : f32
    %s = arith.select %g, %k64, %at : i64
    linalg.yield %m, %s : f32, i64 } -> (tensor<?x1xf32>, tensor<?x1xi64>)
  return %y#0, %y#1 : tensor<?x1xf32>, tensor<?x1xi64>""",
        [TIES], argmax,
    ),
    "softmax_of_the_middle": Program(
        "%x: tensor<3x5x7xf32>", "tensor<3x5x7xf32>",
        """  %e = tensor.empty() : tensor<3x5x7xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<3x5x7xf32>) outs(%e : tensor<3x5x7xf32>) -> tensor<3x5x7xf32>
  return %y : tensor<3x5x7xf32>""",
        [X], lambda x: softmax(x, 1), 1e-6,
    ),
    "convolution": Program(
        "%x: tensor<2x9x8x3xf32>, %w: tensor<3x2x3x5xf32>", "tensor<2x3x4x5xf32>",
        """  %e = tensor.empty() : tensor<2x3x4x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %y = linalg.conv_2d_nhwc_hwcf {dilations = dense<[2, 1]> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%x, %w : tensor<2x9x8x3xf32>, tensor<3x2x3x5xf32>) outs(%f : tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  return %y : tensor<2x3x4x5xf32>""",
        [IMAGE, KERNELS],
        lambda x, w: np.einsum("nijabc,abcf->nijf", np.moveaxis(np.lib.stride_tricks.sliding_window_view(
            x, (5, 2), (1, 2))[:, ::2, ::2, :, ::2, :], 3, -1), w), 1e-5,
    ),
    "largest_of_windows": Program(
        "%x: tensor<2x9x8x3xf32>", "tensor<2x4x4x3xf32>",
        """  %e = tensor.empty() : tensor<2x4x4x3xf32>
  %k = tensor.empty() : tensor<3x2xf32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<2x4x4x3xf32>) -> tensor<2x4x4x3xf32>
  %y = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%x, %k : tensor<2x9x8x3xf32>, tensor<3x2xf32>) outs(%f : tensor<2x4x4x3xf32>) -> tensor<2x4x4x3xf32>
  return %y : tensor<2x4x4x3xf32>""",
        [IMAGE], lambda x: window(x, 1, 2, (3, 2)).max((3, 4)),
    ),
    "padded": Program(
        '%x: tensor<?x6xf32> {nn.sizes = ["n", ""]}', "tensor<?x9xf32>",
        """  %v = arith.constant -2.5 : f32
  %y = tensor.pad %x low[2, 1] high[0, 2] { ^bb0(%i: index, %j: index): tensor.yield %v : f32 }
      : tensor<?x6xf32> to tensor<?x9xf32>
  return %y : tensor<?x9xf32>""",
        [ROWS], lambda x: np.pad(x, ((2, 0), (1, 2)), constant_values=-2.5),
    ),
    "inserted": Program(
        "%x: tensor<4x6xf32>, %s: tensor<2xf32>", "tensor<4x6xf32>",
        """  %y = tensor.insert_slice %s into %x[1, 3] [1, 2] [1, 1] : tensor<2xf32> into tensor<4x6xf32>
  return %y : tensor<4x6xf32>""",
        [ROWS, normal(2)], lambda x, s: np.concatenate([x[:1], np.r_[x[1, :3], s, x[1, 5:]][None], x[2:]]),
    ),
    "inserted_in_all_rows": Program(
        '%x: tensor<?x6xf32> {nn.sizes = ["n", ""]}', "tensor<?x6xf32>",
        """  %n = tensor.dim %x, %c0 : tensor<?x6xf32>
  %e = tensor.empty(%n) : tensor<?x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x6xf32>) -> tensor<?x6xf32>
  %s = tensor.extract_slice %x[0, 3] [%n, 2] [1, 1] : tensor<?x6xf32> to tensor<?x2xf32>
  %y = tensor.insert_slice %s into %f[0, 1] [%n, 2] [1, 1] : tensor<?x2xf32> into tensor<?x6xf32>
  return %y : tensor<?x6xf32>""",
        [ROWS], lambda x: np.concatenate([np.zeros((4, 1)), x[:, 3:5], np.zeros((4, 3))], 1),
    ),
    "cast": Program(
        '%x: tensor<?x6xf32> {nn.sizes = ["n", ""]}, %z: tensor<4x6xf32>', "tensor<4x6xf32>",
        """  %s = tensor.cast %x : tensor<?x6xf32> to tensor<4x6xf32>
  %y = arith.subf %s, %z : tensor<4x6xf32>
  return %y : tensor<4x6xf32>""",
        [ROWS, ROWS[::-1].copy()], lambda x, z: x - z,
    ),
    "inserted_scalar": Program(
        "%x: tensor<4x6xf32>, %s: f32", "tensor<4x6xf32>",
        """  %y = tensor.insert %s into %x[%c2, %c1] : tensor<4x6xf32>
  return %y : tensor<4x6xf32>""",
        [ROWS, np.float32(3.5)],
        lambda x, s: np.where(np.arange(24).reshape(4, 6) == 13, s, x),
    ),
    "gathered": Program(
        "%x: tensor<4x6xf32>, %i: tensor<3x1xi64>", "tensor<3x6xf32>",
        """  %y = tensor.gather %x[%i] gather_dims([0]) : (tensor<4x6xf32>, tensor<3x1xi64>) -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>""",
        [ROWS, np.array([[3], [0], [3]])], lambda x, i: x[i[:, 0]],
    ),
    "gathered_by_indices": Program(
        "%x: tensor<4x6xf32>, %i: tensor<2x1xindex>", "tensor<2x1x6xf32>",
        """  %y = tensor.gather %x[%i] gather_dims([0]) : (tensor<4x6xf32>, tensor<2x1xindex>) -> tensor<2x1x6xf32>
  return %y : tensor<2x1x6xf32>""",
        [ROWS, np.array([[2], [0]])], lambda x, i: x[i],
    ),
    "generated": Program(
        "%x: tensor<4x6xf32>", "tensor<6x4xf32>",
        """  %y = tensor.generate { ^bb0(%i: index, %j: index):
    %v = tensor.extract %x[%j, %i] : tensor<4x6xf32>
    tensor.yield %v : f32 } : tensor<6x4xf32>
  return %y : tensor<6x4xf32>""",
        [ROWS], lambda x: x.T,
    ),
    "made_of_elements": Program(
        "%x: tensor<4x6xf32>", "tensor<2xf32>",
        """  %a = tensor.extract %x[%c2, %c1] : tensor<4x6xf32>
  %b = tensor.extract %x[%c0, %c2] : tensor<4x6xf32>
  %y = tensor.from_elements %a, %b : tensor<2xf32>
  return %y : tensor<2xf32>""",
        [ROWS], lambda x: np.array([x[2, 1], x[0, 2]]),
    ),
    "sizes_as_values": Program(
        '%x: tensor<?x6xf32> {nn.sizes = ["n", ""]}', "tensor<2xi64>",
        """  %n = tensor.dim %x, %c0 : tensor<?x6xf32>
  %a = arith.index_cast %n : index to i64
  %m = arith.muli %n, %c2 : index
  %b = arith.index_cast %m : index to i64
  %y = tensor.from_elements %a, %b : tensor<2xi64>
  return %y : tensor<2xi64>""",
        [ROWS], lambda x: np.array([len(x), 2 * len(x)]),
    ),
    "scaled_by_a_scalar": Program(
        "%x: tensor<4x6xf32>, %s: f32", "tensor<4x6xf32>",
        """  %t = tensor.splat %s : tensor<4x6xf32>
  %y = arith.mulf %x, %t : tensor<4x6xf32>
  return %y : tensor<4x6xf32>""",
        [ROWS, np.float32(0.75)], lambda x, s: x * s,
    ),
    "filled_and_captured": Program(
        "%x: tensor<4x6xf32>, %s: f32", "tensor<4x6xf32>",
        """  %e = tensor.empty() : tensor<4x6xf32>
  %f = linalg.fill ins(%s : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x6xf32>) outs(%f : tensor<4x6xf32>) {
  ^bb0(%v: f32, %o: f32):
    %p = arith.mulf %v, %s : f32
    %r = arith.addf %p, %o : f32
    linalg.yield %r : f32 } -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>""",
        [ROWS, np.float32(0.75)], lambda x, s: x * s + s, 1e-6,
    ),
    "scalars_computed_before": Program(
        "%x: tensor<4x6xf32>, %s: f32", "(tensor<4x6xf32>, f32)",
        """  %one = arith.constant 1.0 : f32
  %a = math.exp %s : f32
  %b = arith.addf %a, %one : f32
  %n = tensor.dim %x, %c0 : tensor<4x6xf32>
  %i = arith.index_cast %n : index to i32
  %f = arith.sitofp %i : i32 to f32
  %d = arith.divf %b, %f : f32
  %t = tensor.splat %d : tensor<4x6xf32>
  %y = arith.mulf %x, %t : tensor<4x6xf32>
  return %y, %d : tensor<4x6xf32>, f32""",
        [ROWS, np.float32(0.75)],
        lambda x, s: (x * ((np.exp(s) + 1) / 4), np.asarray((np.exp(s) + 1) / 4)), 1e-6,
    ),
    "rows_by_a_counter": Program(
        "%x: tensor<4x6xf32>", "tensor<4x6xf32>",
        """  %c4 = arith.constant 4 : index
  %e = tensor.empty() : tensor<4x6xf32>
  %y = scf.for %i = %c0 to %c4 step %c1 iter_args(%o = %e) -> (tensor<4x6xf32>) {
    %j = arith.subi %c4, %i : index
    %k = arith.subi %j, %c1 : index
    %s = tensor.extract_slice %x[%i, 0] [1, 6] [1, 1] : tensor<4x6xf32> to tensor<1x6xf32>
    %r = tensor.insert_slice %s into %o[%k, 0] [1, 6] [1, 1] : tensor<1x6xf32> into tensor<4x6xf32>
    scf.yield %r : tensor<4x6xf32>
  }
  return %y : tensor<4x6xf32>""",
        [ROWS], lambda x: x[::-1],
    ),
    "rows_in_parallel": Program(
        "%x: tensor<4x6xf32>", "tensor<4x6xf32>",
        """  %e = tensor.empty() : tensor<4x6xf32>
  %y = scf.forall (%i, %j) in (4, 2) shared_outs(%o = %e) -> (tensor<4x6xf32>) {
    %three = arith.constant 3 : index
    %k = arith.muli %j, %three : index
    %s = tensor.extract_slice %x[%i, %k] [1, 3] [1, 1] : tensor<4x6xf32> to tensor<1x3xf32>
    %n = arith.negf %s : tensor<1x3xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %n into %o[%i, %k] [1, 3] [1, 1] : tensor<1x3xf32> into tensor<4x6xf32>
    }
  }
  return %y : tensor<4x6xf32>""",
        [ROWS], lambda x: -x,
    ),
    "sum_in_parallel": Program(
        "%x: tensor<4x6xf32>", "f32",
        """  %c4 = arith.constant 4 : index
  %y = scf.parallel (%i) = (%c0) to (%c4) step (%c1) init (%zero) -> f32 {
    %a = tensor.extract %x[%i, %c2] : tensor<4x6xf32>
    scf.reduce(%a : f32) {
    ^bb0(%l: f32, %q: f32):
      %s = arith.addf %l, %q : f32
      scf.reduce.return %s : f32
    }
  }
  return %y : f32""",
        [ROWS], lambda x: np.asarray(x[:, 2].sum()), 1e-6,
    ),
    # The sum of so many ones is no number of f16 that more can be added to.
    "softmax_of_halves": Program(
        "%x: tensor<2x5000xf16>", "tensor<2x5000xf16>",
        """  %e = tensor.empty() : tensor<2x5000xf16>
  %y = linalg.softmax dimension(1) ins(%x : tensor<2x5000xf16>) outs(%e : tensor<2x5000xf16>) -> tensor<2x5000xf16>
  return %y : tensor<2x5000xf16>""",
        [np.ones((2, 5000), np.float16)], lambda x: np.full((2, 5000), np.float16(1 / 5000)), 1e-7,
    ),
    "padded_by_a_constant_inside": Program(
        "%x: tensor<4x6xf32>", "tensor<4x7xf32>",
        """  %y = tensor.pad %x low[0, 0] high[0, 1] {
  ^bb0(%i: index, %j: index):
    %v = arith.constant 1.0 : f32
    tensor.yield %v : f32
  } : tensor<4x6xf32> to tensor<4x7xf32>
  return %y : tensor<4x7xf32>""",
        [ROWS], lambda x: np.pad(x, ((0, 0), (0, 1)), constant_values=1),
    ),
    "inserted_where_the_call_says": Program(
        "%x: tensor<4x6xf32>, %s: tensor<1x2xf32>, %i: i64", "tensor<4x6xf32>",
        """  %o = arith.index_cast %i : i64 to index
  %y = tensor.insert_slice %s into %x[%o, 2] [1, 2] [1, 1] : tensor<1x2xf32> into tensor<4x6xf32>
  return %y : tensor<4x6xf32>""",
        [ROWS, normal(1, 2), 2], lambda x, s, i: np.concatenate([x[:2], np.c_[x[2:3, :2], s, x[2:3, 4:]], x[3:]]),
    ),
    "an_element_where_the_call_says": Program(
        "%x: tensor<4x6xf32>, %s: f32, %i: i64", "tensor<4x6xf32>",
        """  %o = arith.index_cast %i : i64 to index
  %y = tensor.insert %s into %x[%c1, %o] : tensor<4x6xf32>
  return %y : tensor<4x6xf32>""",
        [ROWS, np.float32(9), 4], lambda x, s, i: np.where(np.arange(24).reshape(4, 6) == 10, s, x),
    ),
    "scalar_operand": Program(
        "%x: tensor<4x6xf32>, %s: f32", "tensor<4x6xf32>",
        """  %e = tensor.empty() : tensor<4x6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> ()>,
      affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<4x6xf32>, f32) outs(%e : tensor<4x6xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.mulf %v, %w : f32
    linalg.yield %r : f32 } -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>""",
        [ROWS, np.float32(0.75)], lambda x, s: x * s,
    ),
    "captured_by_a_named_op": Program(
        "%x: tensor<4x6xf32>, %s: f32", "tensor<4x6xf32>",
        """  %e = tensor.empty() : tensor<4x6xf32>
  %y = linalg.map ins(%x : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) (%v: f32, %o: f32) {
    %r = arith.addf %v, %s : f32
    linalg.yield %r : f32 }
  return %y : tensor<4x6xf32>""",
        [ROWS, np.float32(0.75)], lambda x, s: x + s,
    ),
    "branches_within_branches": Program(
        "%x: tensor<4x6xf32>", "tensor<4x6xf32>",
        """  %one = arith.constant 1.0 : f32
  %y = tensor.generate {
  ^bb0(%i: index, %j: index):
    %v = tensor.extract %x[%i, %j] : tensor<4x6xf32>
    %g = arith.cmpf ogt, %v, %zero : f32
    %r = scf.if %g -> f32 {
      %h = arith.cmpf ogt, %v, %one : f32
      %q = scf.if %h -> f32 {
        scf.yield %one : f32
      } else {
        scf.yield %v : f32
      }
      scf.yield %q : f32
    } else {
      scf.yield %zero : f32
    }
    tensor.yield %r : f32
  } : tensor<4x6xf32>
  return %y : tensor<4x6xf32>""",
        [ROWS], lambda x: np.clip(x, 0, 1),
    ),
    "triangle": Program(
        "%x: tensor<4x6xf32>", "tensor<4x6xf32>",
        """  %c4 = arith.constant 4 : index
  %e = linalg.fill ins(%zero : f32) outs(%x : tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %e) -> (tensor<4x6xf32>) {
    %b = scf.for %j = %c0 to %i step %c1 iter_args(%o = %a) -> (tensor<4x6xf32>) {
      %s = tensor.extract_slice %x[%i, %j] [1, 1] [1, 1] : tensor<4x6xf32> to tensor<1x1xf32>
      %r = tensor.insert_slice %s into %o[%i, %j] [1, 1] [1, 1] : tensor<1x1xf32> into tensor<4x6xf32>
      scf.yield %r : tensor<4x6xf32>
    }
    scf.yield %b : tensor<4x6xf32>
  }
  return %y : tensor<4x6xf32>""",
        [ROWS], lambda x: np.tril(x, -1),
    ),
    "carried_counter": Program(
        "%x: tensor<4x6xf32>", "tensor<1x6xf32>",
        """  %c3 = arith.constant 3 : index
  %f = tensor.empty() : tensor<1x6xf32>
  %e = linalg.fill ins(%zero : f32) outs(%f : tensor<1x6xf32>) -> tensor<1x6xf32>
  %y:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %e, %before = %c0) -> (tensor<1x6xf32>, index) {
    %s = tensor.extract_slice %x[%before, 0] [1, 6] [1, 1] : tensor<4x6xf32> to tensor<1x6xf32>
    %r = arith.addf %a, %s : tensor<1x6xf32>
    scf.yield %r, %i : tensor<1x6xf32>, index
  }
  return %y#0 : tensor<1x6xf32>""",
        [ROWS], lambda x: 2 * x[:1] + x[1:2], 1e-6,
    ),
    "counter_without_a_sign": Program(
        "%x: tensor<4xf32>", "tensor<4xf32>",
        """  %a = arith.constant 126 : i8
  %b = arith.constant -126 : i8
  %s = arith.constant 1 : i8
  %y = scf.for unsigned %i = %a to %b step %s iter_args(%z = %x) -> (tensor<4xf32>) : i8 {
    %n = arith.addf %z, %z : tensor<4xf32>
    scf.yield %n : tensor<4xf32> }
  return %y : tensor<4xf32>""",
        [normal(4)], lambda x: x * 16,
    ),
    "carry": Program(
        '%x: tensor<?xi32> {nn.sizes = ["n"]}, %z: tensor<?xi32> {nn.sizes = ["n"]}',
        "(tensor<?xi32>, tensor<?xi1>, tensor<?xi32>)",
        """  %s, %c = arith.addui_extended %x, %z : tensor<?xi32>, tensor<?xi1>
  %l, %h = arith.mului_extended %x, %z : tensor<?xi32>
  return %s, %c, %h : tensor<?xi32>, tensor<?xi1>, tensor<?xi32>""",
        [np.array([2**31 - 1, -1, 5], np.int32), np.array([2**31 - 1, 2, -3], np.int32)],
        lambda x, z: (
            x + z,
            (x.view(np.uint32).astype(np.uint64) + z.view(np.uint32)) >> np.uint64(32) != 0,
            (x.view(np.uint32).astype(np.uint64) * z.view(np.uint32) >> np.uint64(32)).astype(np.uint32).view(np.int32),
        ),
    ),
    "bits_of_halves": Program(
        "%x: tensor<4xf16>, %i: tensor<4xi16>", "(tensor<4xi16>, tensor<4xf16>)",
        """  %y = arith.bitcast %x : tensor<4xf16> to tensor<4xi16>
  %z = arith.bitcast %i : tensor<4xi16> to tensor<4xf16>
  return %y, %z : tensor<4xi16>, tensor<4xf16>""",
        [np.array([1, -2.5, 65504, 6e-8], np.float16), np.array([0x3C00, 0x0001, -1 << 14, 0], np.int16)],
        lambda x, i: (x.view(np.int16), i.view(np.float16)),
    ),
    "infinite_halves": Program(
        "%x: tensor<5xf16>", "(tensor<5xi1>, tensor<5xi1>, tensor<5xi1>)",
        """  %t = arith.addf %x, %x : tensor<5xf16>
  %y = math.isinf %t : tensor<5xf16>
  %z = math.isfinite %t : tensor<5xf16>
  %n = math.isnormal %x : tensor<5xf16>
  return %y, %z, %n : tensor<5xi1>, tensor<5xi1>, tensor<5xi1>""",
        [np.array([65504, 1, np.nan, -np.inf, 6e-8], np.float16)],
        classes,
    ),
    "branch_in_a_body": Program(
        "%x: tensor<4x6xf32>", "tensor<4x6xf32>",
        """  %e = tensor.empty() : tensor<4x6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%v: f32, %o: f32):
    %g = arith.cmpf ogt, %v, %zero : f32
    %r = scf.if %g -> f32 {
      scf.yield %v : f32
    } else {
      %q = arith.mulf %v, %v : f32
      scf.yield %q : f32
    }
    linalg.yield %r : f32 } -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>""",
        [ROWS], lambda x: np.where(x > 0, x, x * x),
    ),
    # torch-mlir's ops. Ties keep their order, and NaN is the largest.
    "blocks": Program(
        "%x: tensor<4x6xf32>, %c: tensor<i64>", "tensor<4x6xf32>",
        """  %one = arith.constant 1 : i64
  %times = tensor.extract %c[] : tensor<i64>
  cf.br ^again(%none, %x : i64, tensor<4x6xf32>)
^again(%i: i64, %at: tensor<4x6xf32>):
  %more = arith.cmpi slt, %i, %times : i64
  cf.cond_br %more, ^twice, ^end
^twice:
  %next = arith.addi %i, %one : i64
  %sum = arith.addf %at, %x : tensor<4x6xf32>
  cf.br ^again(%next, %sum : i64, tensor<4x6xf32>)
^end:
  return %at : tensor<4x6xf32>""",
        [ROWS, np.array(3)], lambda x, c: x * 4, 1e-6,
    ),
    # A number of one of two branches.
    "branch_number": Program(
        "%x: tensor<3x5x7xf32>, %c: tensor<i1>, %s: tensor<f32>", "tensor<3x5x7xf32>",
        """  %is = tensor.extract %c[] : tensor<i1>
  %n = scf.if %is -> f32 {
    %a = tensor.extract %s[] : tensor<f32>
    %b = arith.addf %a, %a : f32
    scf.yield %b : f32
  } else {
    scf.yield %zero : f32
  }
  %e = tensor.empty() : tensor<3x5x7xf32>
  %f = linalg.fill ins(%n : f32) outs(%e : tensor<3x5x7xf32>) -> tensor<3x5x7xf32>
  %y = arith.addf %x, %f : tensor<3x5x7xf32>
  return %y : tensor<3x5x7xf32>""",
        [X, np.array(True), np.array(1.5, np.float32)], lambda x, c, s: x + 2 * s,
    ),
    "packed": Program(
        "%x: tensor<4x6xf32>", "tensor<2x2x2x3xf32>",
        """  %e = tensor.empty() : tensor<2x2x2x3xf32>
  %y = linalg.pack %x inner_dims_pos = [0, 1] inner_tiles = [2, 3] into %e : tensor<4x6xf32> -> tensor<2x2x2x3xf32>
  return %y : tensor<2x2x2x3xf32>""",
        [ROWS], lambda x: x.reshape(2, 2, 2, 3).transpose(0, 2, 1, 3),
    ),
    "switched": Program(
        "%x: tensor<4x6xf32>, %i: tensor<i64>", "tensor<4x6xf32>",
        """  %v = tensor.extract %i[] : tensor<i64>
  %k = arith.index_cast %v : i64 to index
  %y = scf.index_switch %k -> tensor<4x6xf32>
  case 1 {
    %a = arith.addf %x, %x : tensor<4x6xf32>
    scf.yield %a : tensor<4x6xf32>
  }
  case 3 {
    %a = arith.mulf %x, %x : tensor<4x6xf32>
    scf.yield %a : tensor<4x6xf32>
  }
  default {
    scf.yield %x : tensor<4x6xf32>
  }
  return %y : tensor<4x6xf32>""",
        [ROWS, np.array(3)], lambda x, i: x * x,
    ),
    "high_halves": Program(
        "%x: tensor<4xi32>, %z: tensor<4xi32>", "(tensor<4xi32>, tensor<4xi32>)",
        """  %l, %h = arith.mulsi_extended %x, %z : tensor<4xi32>
  return %l, %h : tensor<4xi32>, tensor<4xi32>""",
        [np.array([2**30, -(2**31), 7, -3], np.int32), np.array([12, -(2**31), -9, 5], np.int32)],
        lambda x, z: ((x.astype(np.int64) * z).astype(np.int32), (x.astype(np.int64) * z >> 32).astype(np.int32)),
    ),
    "resource": Program(
        "%x: tensor<2x3xf32>", "tensor<2x3xf32>",
        """  %w = arith.constant dense_resource<w> : tensor<2x3xf32>
  %y = arith.addf %x, %w : tensor<2x3xf32>
  return %y : tensor<2x3xf32>""",
        [normal(2, 3)], lambda x: x + np.arange(6, dtype=np.float32).reshape(2, 3),
    ),
}  # fmt: skip
RESOURCE = np.arange(6, dtype="<f4").tobytes().hex().upper()
RESOURCES = f'{{-# dialect_resources: {{ builtin: {{ w: "0x04000000{RESOURCE}" }} }} #-}}\n'
