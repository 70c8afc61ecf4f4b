# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops whose results have a size that the call computes, and sorts of dynamic and of wide elements, against NumPy."""

from __future__ import annotations

import intarsia
import numpy as np
import pytest
from compositions import built
from programs import build
from random_numbers import RNG, normal
from selection_formulas import nms, random_boxes

DEVICES = ["cpu", "reference", "emulated:sm_90a", "emulated:gfx942"]

#: Boxes are cut to their count, as an importer does it.
BOXES = """
func.func @boxes(%b: tensor<2x?x4xf32> {nn.name = "b", nn.sizes = ["", "n", ""]},
                 %s: tensor<2x3x?xf32> {nn.name = "s", nn.sizes = ["", "", "n"]}, %limit: tensor<i64> {nn.name = "limit"},
                 %iou: tensor<f32> {nn.name = "iou"}, %least: tensor<f32> {nn.name = "least"})
    -> (tensor<?x3xi64> {nn.name = "rows"}, tensor<?x4xf32> {nn.name = "first"}) {
  %all, %count = nn.nms %b, %s, %limit, %iou, %least : (tensor<2x?x4xf32>, tensor<2x3x?xf32>, tensor<i64>, tensor<f32>,
                                                         tensor<f32>) -> (tensor<?x3xi64>, tensor<i64>)
  %number = tensor.extract %count[] : tensor<i64>
  %size = arith.index_cast %number : i64 to index
  %rows = tensor.extract_slice %all[0, 0] [%size, 3] [1, 1] : tensor<?x3xi64> to tensor<?x3xi64>
  %boxes = tensor.extract_slice %rows[0, 2] [%size, 1] [1, 1] : tensor<?x3xi64> to tensor<?xi64>
  %of = tensor.extract_slice %b[0, 0, 0] [1, %n, 4] [1, 1, 1] : tensor<2x?x4xf32> to tensor<?x4xf32>
  %first = nn.embedding %of, %boxes : (tensor<?x4xf32>, tensor<?xi64>) -> tensor<?x4xf32>
  return %rows, %first : tensor<?x3xi64>, tensor<?x4xf32>
}
""".replace(
    "  %all, %count",
    "  %c1 = arith.constant 1 : index\n  %n = tensor.dim %b, %c1 : tensor<2x?x4xf32>\n  %all, %count",
    1,
)


@pytest.mark.parametrize("device", DEVICES)
def test_boxes(tools, tmp_path, device: str) -> None:
    module = build(tools, tmp_path, BOXES, target=device)
    boxes, scores = random_boxes(2, 23, False), normal(2, 3, 23).round(1)
    scores[1, 2, 3], boxes[0, 5, 1] = np.nan, np.nan
    for limit, iou, least in ((5, 0.3, 0.0), (23, 0.0, -9.0), (0, 0.5, 0.0)):
        operands = (np.array(limit), np.array(iou, np.float32), np.array(least, np.float32))
        rows, first = module.boxes(boxes, scores, *operands)
        expected = nms(boxes, scores, limit, iou, least, False)
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(first, boxes[0][expected[:, 2]])


NO_BOXES = """
func.func @none(%b: tensor<2x0x4xf32> {nn.name = "b"}, %s: tensor<2x3x0xf32> {nn.name = "s"}, %limit: tensor<i64> {nn.name = "limit"},
                %iou: tensor<f32> {nn.name = "iou"}) -> (tensor<0x3xi64>, tensor<i64>) {
  %all, %count = nn.nms %b, %s, %limit, %iou : (tensor<2x0x4xf32>, tensor<2x3x0xf32>, tensor<i64>, tensor<f32>) -> (tensor<0x3xi64>, tensor<i64>)
  return %all, %count : tensor<0x3xi64>, tensor<i64>
}
func.func @any_score(%b: tensor<1x9x4xf32> {nn.name = "b"}, %s: tensor<1x2x9xf32> {nn.name = "s"}, %limit: tensor<i64> {nn.name = "limit"},
                     %iou: tensor<f32> {nn.name = "iou"}) -> (tensor<18x3xi64>, tensor<i64>) {
  %all, %count = nn.nms %b, %s, %limit, %iou {centered} : (tensor<1x9x4xf32>, tensor<1x2x9xf32>, tensor<i64>, tensor<f32>) -> (tensor<18x3xi64>, tensor<i64>)
  return %all, %count : tensor<18x3xi64>, tensor<i64>
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_no_boxes_and_no_threshold(tools, tmp_path, device: str) -> None:
    module = build(tools, tmp_path, NO_BOXES, target=device)
    limit, iou = np.array(4), np.array(0.2, np.float32)
    rows, count = module.none(np.zeros((2, 0, 4), np.float32), np.zeros((2, 3, 0), np.float32), limit, iou)
    assert rows.shape == (0, 3)
    assert count == 0
    boxes, scores = random_boxes(1, 9, True), normal(1, 2, 9)
    scores[0, 1] = -np.inf
    rows, count = module.any_score(boxes, scores, limit, iou)
    expected = nms(boxes, scores, 4, 0.2, None, True)
    np.testing.assert_array_equal(rows[:count], expected)
    assert (rows[count:] == -1).all()


#: What importers build: coordinates, slices and elements by a mask, and elements and rows that differ.
SELECTED = """
func.func @nonzero(%x: tensor<?x?xf32> {nn.name = "x", nn.sizes = ["n", "m"]}) -> tensor<?x2xi64> {
  %r = "build.nonzero"(%x) : (tensor<?x?xf32>) -> tensor<?x2xi64>
  return %r : tensor<?x2xi64>
}
func.func @slices(%x: tensor<?x7x2xf32> {nn.name = "x", nn.sizes = ["n", "", ""]}, %c: tensor<6xi1> {nn.name = "c"})
    -> tensor<?x?x2xf32> {
  %r = "build.compress"(%x, %c) {axis = 1} : (tensor<?x7x2xf32>, tensor<6xi1>) -> tensor<?x?x2xf32>
  return %r : tensor<?x?x2xf32>
}
func.func @elements(%x: tensor<?x7xf32> {nn.name = "x", nn.sizes = ["n", ""]},
                    %c: tensor<?xi1> {nn.name = "c", nn.sizes = ["m"]}) -> tensor<?xf32> {
  %r = "build.compress"(%x, %c) : (tensor<?x7xf32>, tensor<?xi1>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @unique(%x: tensor<?x7xf32> {nn.name = "x", nn.sizes = ["n", ""]})
    -> (tensor<?xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) {
  %r:4 = "build.unique"(%x) {sorted} : (tensor<?x7xf32>) -> (tensor<?xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?xi64>)
  return %r#0, %r#1, %r#2, %r#3 : tensor<?xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?xi64>
}
func.func @rows(%x: tensor<2x?x3xi32> {nn.name = "x", nn.sizes = ["", "n", ""]})
    -> (tensor<2x?x3xi32>, tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) {
  %r:4 = "build.unique"(%x) {axis = 1} : (tensor<2x?x3xi32>) -> (tensor<2x?x3xi32>, tensor<?xi64>, tensor<?xi64>, tensor<?xi64>)
  return %r#0, %r#1, %r#2, %r#3 : tensor<2x?x3xi32>, tensor<?xi64>, tensor<?xi64>, tensor<?xi64>
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_selected(tools, tmp_path, device: str) -> None:
    module = built(tools, tmp_path, SELECTED, device)
    x = RNG.integers(-1, 2, (61, 40)).astype(np.float32)
    for values in (x, np.zeros_like(x)):
        np.testing.assert_array_equal(module.nonzero(values), np.argwhere(values))
    x, mask = normal(3, 7, 2), np.array([0, 1, 1, 0, 0, 1], bool)
    np.testing.assert_array_equal(module.slices(x, mask), np.compress(mask, x, 1))
    x, mask = normal(5, 7), RNG.uniform(size=31) < 0.4
    np.testing.assert_array_equal(module.elements(x, mask), np.compress(mask, x))
    x = RNG.integers(-4, 5, (50, 7)).astype(np.float32)
    x[3, 4] = x[20, 1] = np.nan
    expected = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    for found, each in zip(module.unique(x), expected, strict=True):
        np.testing.assert_array_equal(found, each.ravel())
    # In the order in which slices are first there.
    x = RNG.integers(0, 2, (2, 30, 3)).astype(np.int32)
    values, first, inverse, counts = module.rows(x)
    of_sorted = np.unique(x, return_index=True, return_counts=True, axis=1)
    order = np.argsort(of_sorted[1])
    np.testing.assert_array_equal(values, of_sorted[0][:, order])
    np.testing.assert_array_equal(first, of_sorted[1][order])
    np.testing.assert_array_equal(counts, of_sorted[2][order])
    np.testing.assert_array_equal(values[:, inverse], x)


SORTS = """
func.func @dynamic(%x: tensor<3x?x2xf32> {nn.name = "x", nn.sizes = ["", "n", ""]}) -> (tensor<3x?x2xf32>, tensor<3x?x2xi64>) {
  %r:2 = nn.sort %x {axis = 1, descending} : (tensor<3x?x2xf32>) -> (tensor<3x?x2xf32>, tensor<3x?x2xi64>)
  return %r#0, %r#1 : tensor<3x?x2xf32>, tensor<3x?x2xi64>
}
func.func @wide(%x: tensor<2x700xi64> {nn.name = "x"}) -> (tensor<2x700xi64>, tensor<2x700xi64>) {
  %r:2 = nn.sort %x {axis = 1} : (tensor<2x700xi64>) -> (tensor<2x700xi64>, tensor<2x700xi64>)
  return %r#0, %r#1 : tensor<2x700xi64>, tensor<2x700xi64>
}
func.func @none(%x: tensor<3x0xf32> {nn.name = "x"}, %y: tensor<0x?xf32> {nn.name = "y", nn.sizes = ["", "n"]})
    -> (tensor<3x0xf32>, tensor<3x0xi64>, tensor<3x0xf32>, tensor<3x0xi64>, tensor<0x?xf32>, tensor<0x?xi64>) {
  %r:2 = nn.sort %x {axis = 1} : (tensor<3x0xf32>) -> (tensor<3x0xf32>, tensor<3x0xi64>)
  %s:2 = nn.top_k %x {axis = 1, k = 0} : (tensor<3x0xf32>) -> (tensor<3x0xf32>, tensor<3x0xi64>)
  %t:2 = nn.sort %y {axis = 1} : (tensor<0x?xf32>) -> (tensor<0x?xf32>, tensor<0x?xi64>)
  return %r#0, %r#1, %s#0, %s#1, %t#0, %t#1 : tensor<3x0xf32>, tensor<3x0xi64>, tensor<3x0xf32>, tensor<3x0xi64>, tensor<0x?xf32>, tensor<0x?xi64>
}
func.func @top(%x: tensor<?xf64> {nn.name = "x", nn.sizes = ["n"]}) -> (tensor<9xf64>, tensor<9xi64>) {
  %r:2 = nn.top_k %x {axis = 0, k = 9, smallest} : (tensor<?xf64>) -> (tensor<9xf64>, tensor<9xi64>)
  return %r#0, %r#1 : tensor<9xf64>, tensor<9xi64>
}
"""


def test_sorts_of_too_many(tools, tmp_path) -> None:
    """Places hold an index of 31 bits. The input is memory that nothing has written."""
    text = """func.func @main(%x: tensor<?xi8> {nn.name = "x", nn.sizes = ["n"]}) -> (tensor<?xi8>, tensor<?xi64>) {
      %r:2 = nn.sort %x {axis = 0} : (tensor<?xi8>) -> (tensor<?xi8>, tensor<?xi64>)
      return %r#0, %r#1 : tensor<?xi8>, tensor<?xi64> }"""
    with pytest.raises(intarsia.Error, match="n is 2147483648, the model's maximum is 2147483647"):
        build(tools, tmp_path, text).main(np.zeros(2**31, np.int8))


@pytest.mark.parametrize("device", DEVICES)
def test_sorts(tools, tmp_path, device: str) -> None:
    module = build(tools, tmp_path, SORTS, target=device)
    for size in (1, 37, 600):
        x = (normal(3, size, 2) * 20).round().astype(np.float32)
        x[1, size // 2] = np.nan
        ranks = np.unique(x, return_inverse=True, equal_nan=True)[1].reshape(x.shape)
        values, places = module.dynamic(x)
        np.testing.assert_array_equal(places, np.argsort(-ranks, 1, kind="stable"))
        np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1))
    x = RNG.integers(-9, 9, (2, 700)) << 58
    x[0, 3], x[1, 600] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    values, places = module.wide(x)
    np.testing.assert_array_equal(places, np.argsort(x, 1, kind="stable"))
    np.testing.assert_array_equal(values, np.sort(x, 1))
    x = normal(50).astype(np.float64) * (1 + 1e-12)
    values, places = module.top(x)
    np.testing.assert_array_equal(places, np.argsort(x)[:9])
    np.testing.assert_array_equal(values, np.sort(x)[:9])
    np.testing.assert_array_equal(module.top(x[:9])[0], np.sort(x[:9]))
    shapes = [each.shape for each in module.none(np.zeros((3, 0), np.float32), np.zeros((0, 5), np.float32))]
    assert shapes == [(3, 0)] * 4 + [(0, 5)] * 2


def test_too_many_to_sort(tools, tmp_path) -> None:
    """Places of elements are numbers of 32 bits. The call ends before memory that there may not be is read."""
    text = """
func.func @sort(%x: tensor<?xi8> {nn.name = "x", nn.sizes = ["n"]}) -> tensor<?xi8> {
  %r:2 = nn.sort %x {axis = 0} : (tensor<?xi8>) -> (tensor<?xi8>, tensor<?xi64>)
  return %r#0 : tensor<?xi8>
}
"""
    with pytest.raises(intarsia.Error, match="maximum is 2147483647"):
        build(tools, tmp_path, text).sort(np.empty(1 << 31, np.int8))
