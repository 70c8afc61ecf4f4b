# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs with transpositions and with images in channels-first order: what `fuse-layouts` moves, in each kind of op."""

from __future__ import annotations

import numpy as np
from mlir_programs import Program, normal


def transposed(name: str, of: str, source: str, result: str, permutation: list[int], sizes: str = "") -> str:
    return (
        f"  {name}.e = tensor.empty({sizes}) : {result}\n"
        f"  {name} = linalg.transpose ins({of} : {source}) outs({name}.e : {result}) permutation = {permutation}\n"
    ).replace(f"{name}.e", f"{name}_e")


def loops(name: str, operands: str, types: str, result: str, init: str, maps: str, reduced: str, body: str) -> str:
    """A linalg.generic: the maps' loops are a, b, c, …; those of `reduced` are summed."""
    names = "abcdefgh"[: 1 + max("abcdefgh".index(loop) for loop in maps if loop in "abcdefgh")]
    all_maps = ", ".join(f"affine_map<({', '.join(names)}) -> ({one})>" for one in maps.split(";"))
    kinds = ", ".join('"reduction"' if loop in reduced else '"parallel"' for loop in names)
    arguments = ", ".join(f"%i{i}: f32" for i in range(operands.count("%")))
    return (
        f"  {name} = linalg.generic {{indexing_maps = [{all_maps}], iterator_types = [{kinds}]}}\n"
        f"      ins({operands} : {types}) outs({init} : {result}) {{\n  ^bb0({arguments}, %o: f32):\n{body}\n"
        f"  }} -> {result}\n"
    )


MULTIPLY_ADD = "    %t0 = arith.mulf %i0, %i1 : f32\n    %t1 = arith.addf %t0, %o : f32\n    linalg.yield %t1 : f32"
RELU = "    %t0 = arith.maximumf %i0, %zero : f32\n    linalg.yield %t0 : f32"


def windows(x: np.ndarray, size: int, stride: int = 1) -> np.ndarray:
    """Windows of the last two dimensions."""
    views = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))
    return views[:, :, ::stride, ::stride]


KERNEL, BIAS = normal(16, 16, 3, 3), normal(16)


def image_chain(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = np.einsum("ncyxij,fcij->nfyx", windows(padded, 3), weight.astype(np.float64)) + bias[None, :, None, None]
    y = np.maximum(y, 0)
    y = windows(y, 2, 2).max((-1, -2))
    return np.einsum("ncyxij,cij->ncyx", windows(y, 3), weight[:, 0].astype(np.float64)).astype(np.float32)


def image_program(batch: str, images: int) -> Program:
    """Padding, a dense window, bias, a rectifier, the largest of a window, a window for each channel: channels first."""

    def image(channels: int, rows: int, columns: int) -> str:
        return f"tensor<{batch}x{channels}x{rows}x{columns}xf32>"

    argument = image(16, 20, 24)
    said = ' {nn.sizes = ["n", "", "", ""]}' if batch == "?" else ""
    size = "%n" if batch == "?" else ""
    body = f"  %n = tensor.dim %x, %c0 : {argument}\n" if size else ""
    body += f"""  %padded = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {{
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  }} : {argument} to {image(16, 22, 26)}
  %e1 = tensor.empty({size}) : {image(16, 20, 24)}
  %b = linalg.broadcast ins(%bias : tensor<16xf32>) outs(%e1 : {image(16, 20, 24)}) dimensions = [0, 2, 3]
  %y = linalg.conv_2d_nchw_fchw ins(%padded, %w : {image(16, 22, 26)}, tensor<16x16x3x3xf32>)
      outs(%b : {image(16, 20, 24)}) -> {image(16, 20, 24)}
"""
    body += loops("%r", "%y", image(16, 20, 24), image(16, 20, 24), "%e1", "a, b, c, d;a, b, c, d", "", RELU)
    body += f"""  %e2 = tensor.empty({size}) : {image(16, 10, 12)}
  %f2 = linalg.fill ins(%least : f32) outs(%e2 : {image(16, 10, 12)}) -> {image(16, 10, 12)}
  %k = tensor.empty() : tensor<2x2xf32>
  %p = linalg.pooling_nchw_max {{strides = dense<2> : vector<2xi64>}} ins(%r, %k : {image(16, 20, 24)}, tensor<2x2xf32>)
      outs(%f2 : {image(16, 10, 12)}) -> {image(16, 10, 12)}
  %s = tensor.extract_slice %w[0, 0, 0, 0] [16, 1, 3, 3] [1, 1, 1, 1] : tensor<16x16x3x3xf32> to tensor<16x3x3xf32>
  %e3 = tensor.empty({size}) : {image(16, 8, 10)}
  %f3 = linalg.fill ins(%zero : f32) outs(%e3 : {image(16, 8, 10)}) -> {image(16, 8, 10)}
  %d = linalg.depthwise_conv_2d_nchw_chw ins(%p, %s : {image(16, 10, 12)}, tensor<16x3x3xf32>)
      outs(%f3 : {image(16, 8, 10)}) -> {image(16, 8, 10)}
  return %d : {image(16, 8, 10)}"""
    return Program(
        f"%x: {argument}{said}, %w: tensor<16x16x3x3xf32>, %bias: tensor<16xf32>", image(16, 8, 10), body,
        [normal(images, 16, 20, 24), KERNEL, BIAS], image_chain, tolerance=2e-3,
    )  # fmt: skip


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention(x: np.ndarray) -> np.ndarray:
    """Heads of 16 of rows of 64, with themselves as queries, keys and values."""
    heads = x.astype(np.float64).reshape(*x.shape[:2], 4, 16).transpose(0, 2, 1, 3)
    result = softmax(heads @ heads.transpose(0, 1, 3, 2) / 4) @ heads
    return result.transpose(0, 2, 1, 3).reshape(x.shape).astype(np.float32)


ROWS, HEADS, TURNED = "tensor<2x?x64xf32>", "tensor<2x?x4x16xf32>", "tensor<2x4x?x16xf32>"
KEYS, SCORES = "tensor<2x4x16x?xf32>", "tensor<2x4x?x?xf32>"


def attention_program(rows: int, uses_nn: bool) -> Program:
    """As PyTorch writes it: heads are turned to the front, keys once more, and the result back."""
    body = f"""  %n = tensor.dim %x, %c1 : {ROWS}
  %h = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [2, %n, 4, 16] : {ROWS} into {HEADS}
"""
    body += transposed("%q", "%h", HEADS, TURNED, [0, 2, 1, 3], "%n")
    body += transposed("%v", "%h", HEADS, TURNED, [0, 2, 1, 3], "%n")
    body += transposed("%k", "%v", TURNED, KEYS, [0, 1, 3, 2], "%n")
    body += f"""  %quarter = arith.constant 0.25 : f32
  %m = tensor.dim %k, %c3 : {KEYS}
  %t = tensor.splat %quarter[%n, %m] : {SCORES}
"""
    if uses_nn:
        body += f"  %s = nn.matmul %q, %k : ({TURNED}, {KEYS}) -> {SCORES}\n"
        body += f"  %u = arith.mulf %s, %t : {SCORES}\n  %p = nn.softmax %u : {SCORES}\n"
        body += f"  %a = nn.matmul %p, %v : ({SCORES}, {TURNED}) -> {TURNED}\n"
    else:
        body += f"""  %e1 = tensor.empty(%n, %m) : {SCORES}
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : {SCORES}) -> {SCORES}
"""
        body += loops("%s", "%q, %k", f"{TURNED}, {KEYS}", SCORES, "%f1", "a, b, c, e;a, b, e, d;a, b, c, d", "e",
                      MULTIPLY_ADD)  # fmt: skip
        body += f"""  %u = arith.mulf %s, %t : {SCORES}
  %p = linalg.softmax dimension(3) ins(%u : {SCORES}) outs(%e1 : {SCORES}) -> {SCORES}
  %e2 = tensor.empty(%n) : {TURNED}
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : {TURNED}) -> {TURNED}
"""
        body += loops("%a", "%p, %v", f"{SCORES}, {TURNED}", TURNED, "%f2", "a, b, c, e;a, b, e, d;a, b, c, d", "e",
                      MULTIPLY_ADD)  # fmt: skip
    body += transposed("%b", "%a", TURNED, HEADS, [0, 2, 1, 3], "%n")
    body += f"""  %y = tensor.collapse_shape %b [[0], [1], [2, 3]] : {HEADS} into {ROWS}
  return %y : {ROWS}"""
    said = ' {nn.sizes = ["", "n", ""]}'
    return Program(
        f"%x: {ROWS}{said}", ROWS, "  %c3 = arith.constant 3 : index\n" + body, [normal(2, rows, 64)], attention, 1e-5
    )


def norms(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """A norm over channels in front, which others write with channels last, and a softmax."""
    rows = x.astype(np.float64).transpose(0, 2, 1)
    mean, variance = rows.mean(-1, keepdims=True), rows.var(-1, keepdims=True)
    rows = (rows - mean) / np.sqrt(variance + 1e-5) * scale + shift
    return np.concatenate([softmax(rows + 1), rows], -2).transpose(0, 2, 1)[:, 3:, ::2].astype(np.float32)


CHANNELS, POSITIONS = "tensor<3x24x?xf32>", "tensor<3x?x24xf32>"
LAYOUT_PROGRAMS = {
    "image": image_program("?", 2),
    "image_of_one_size": image_program("1", 1),
    "heads": attention_program(19, uses_nn=False),
    "heads_of_one": attention_program(1, uses_nn=False),
    "matmul_heads": attention_program(19, uses_nn=True),
    "norms": Program(
        f'%x: {CHANNELS} {{nn.sizes = ["", "", "n"]}}, %g: tensor<24xf32>, %b: tensor<24xf32>', "tensor<3x21x?xf32>",
        f"  %n = tensor.dim %x, %c2 : {CHANNELS}\n"
        + transposed("%t", "%x", CHANNELS, POSITIONS, [0, 2, 1], "%n")
        + f"""  %l = nn.layer_norm %t, %g, %b {{epsilon = 1.0e-5 : f32}} : ({POSITIONS}, tensor<24xf32>, tensor<24xf32>) -> {POSITIONS}
  %one = arith.constant 1.0 : f32
  %ones = tensor.splat %one[%n] : {POSITIONS}
  %u = arith.addf %l, %ones : {POSITIONS}
  %s = nn.softmax %u : {POSITIONS}
  %c = tensor.concat dim(1) %s, %l : ({POSITIONS}, {POSITIONS}) -> {POSITIONS}
  %m = tensor.dim %c, %c1 : {POSITIONS}
"""
        + transposed("%r", "%c", POSITIONS, CHANNELS, [0, 2, 1], "%m")
        + f"""  %h = arith.addi %n, %c0 : index
  %y = tensor.extract_slice %r[0, 3, 0] [3, 21, %h] [1, 1, 2] : {CHANNELS} to tensor<3x21x?xf32>
  return %y : tensor<3x21x?xf32>""",
        [normal(3, 24, 10), normal(24), normal(24)], norms, 1e-5,
    ),
    # Reshapes around transpositions, of whole groups of dimensions and across them; sizes of transposed tensors.
    "reshapes": Program(
        "%x: tensor<6x4x10xf32>", "(tensor<10x24xf32>, tensor<5x24x2xf32>)",
        transposed("%t", "%x", "tensor<6x4x10xf32>", "tensor<10x6x4xf32>", [2, 0, 1])
        + """  %e = math.exp %t : tensor<10x6x4xf32>
  %c = tensor.collapse_shape %e [[0], [1, 2]] : tensor<10x6x4xf32> into tensor<10x24xf32>
  %d = tensor.expand_shape %c [[0, 1], [2]] output_shape [5, 2, 24] : tensor<10x24xf32> into tensor<5x2x24xf32>
"""
        + transposed("%r", "%d", "tensor<5x2x24xf32>", "tensor<5x24x2xf32>", [0, 2, 1])
        + "  return %c, %r : tensor<10x24xf32>, tensor<5x24x2xf32>",
        [normal(6, 4, 10)],
        lambda x: (
            np.exp(x.transpose(2, 0, 1)).reshape(10, 24),
            np.exp(x.transpose(2, 0, 1)).reshape(5, 2, 24).transpose(0, 2, 1),
        ),
        1e-5,
    ),
    # Only dimensions of 1 move: no copy. A dimension is asked of the tensor behind.
    "ones": Program(
        '%x: tensor<?x1x7xf32> {nn.sizes = ["n", "", ""]}', "(tensor<1x?x7xf32>, tensor<7x1x?xf32>)",
        "  %n = tensor.dim %x, %c0 : tensor<?x1x7xf32>\n"
        + transposed("%t", "%x", "tensor<?x1x7xf32>", "tensor<1x?x7xf32>", [1, 0, 2], "%n")
        + "  %e = math.exp %t : tensor<1x?x7xf32>\n  %m = tensor.dim %e, %c1 : tensor<1x?x7xf32>\n"
        + transposed("%r", "%e", "tensor<1x?x7xf32>", "tensor<7x1x?xf32>", [2, 0, 1], "%m")
        + "  %k = arith.negf %r : tensor<7x1x?xf32>\n  return %e, %k : tensor<1x?x7xf32>, tensor<7x1x?xf32>",
        [normal(5, 1, 7)],
        lambda x: (np.exp(x).transpose(1, 0, 2), -np.exp(x).transpose(2, 1, 0)), 1e-5,
    ),
    # Positions in a body, several results, and what is read at computed places.
    "positions": Program(
        "%x: tensor<6x40x9xf32>", "(tensor<9x6xf32>, tensor<9x6xi64>, tensor<9x6xf32>)",
        transposed("%t", "%x", "tensor<6x40x9xf32>", "tensor<9x40x6xf32>", [2, 1, 0])
        + """  %e = math.absf %t : tensor<9x40x6xf32>
  %e1 = tensor.empty() : tensor<9x6xf32>
  %f1 = linalg.fill ins(%least : f32) outs(%e1 : tensor<9x6xf32>) -> tensor<9x6xf32>
  %e2 = tensor.empty() : tensor<9x6xi64>
  %f2 = linalg.fill ins(%none : i64) outs(%e2 : tensor<9x6xi64>) -> tensor<9x6xi64>
  %m:2 = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, c, b)>, affine_map<(a, b, c) -> (a, b)>, affine_map<(a, b, c) -> (a, b)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<9x40x6xf32>) outs(%f1, %f2 : tensor<9x6xf32>, tensor<9x6xi64>) {
  ^bb0(%v: f32, %o: f32, %p: i64):
    %k = linalg.index 2 : index
    %i = arith.index_cast %k : index to i64
    %g = arith.cmpf ogt, %v, %o : f32
    %y = arith.select %g, %v, %o : f32
    %z = arith.select %g, %i, %p : i64
    linalg.yield %y, %z : f32, i64 } -> (tensor<9x6xf32>, tensor<9x6xi64>)
  %at = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]} ins(%m#1 : tensor<9x6xi64>) outs(%e1 : tensor<9x6xf32>) {
  ^bb0(%p: i64, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.index_cast %p : i64 to index
    %v = tensor.extract %t[%i, %k, %j] : tensor<9x40x6xf32>
    linalg.yield %v : f32 } -> tensor<9x6xf32>
  return %m#0, %m#1, %at : tensor<9x6xf32>, tensor<9x6xi64>, tensor<9x6xf32>""",
        [normal(6, 40, 9)],
        lambda x: (
            np.abs(x).max(1).T, np.abs(x).argmax(1).T,
            np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1)[:, 0].T,
        ),
        1e-6,
    ),
    "nothing": Program(
        "%x: tensor<6x0x16xf32>", "(tensor<6x0x16xf32>, tensor<16x6xf32>)",
        transposed("%t", "%x", "tensor<6x0x16xf32>", "tensor<16x6x0xf32>", [2, 0, 1])
        + """  %e = math.exp %t : tensor<16x6x0xf32>
  %i = tensor.empty() : tensor<16x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%i : tensor<16x6xf32>) -> tensor<16x6xf32>
  %s = linalg.reduce { arith.addf } ins(%e : tensor<16x6x0xf32>) outs(%f : tensor<16x6xf32>) dimensions = [2]
"""
        + transposed("%r", "%e", "tensor<16x6x0xf32>", "tensor<6x0x16xf32>", [1, 2, 0])
        + "  return %r, %s : tensor<6x0x16xf32>, tensor<16x6xf32>",
        [np.zeros((6, 0, 16), np.float32)], lambda x: (x, np.zeros((16, 6))),
    ),
    # Constants lie as they are read.
    "constants": Program(
        "%x: tensor<5x3xf32>", "(tensor<3x5xf32>, tensor<2x3xf32>)",
        "  %k = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>\n"
        + transposed("%t", "%x", "tensor<5x3xf32>", "tensor<3x5xf32>", [1, 0])
        + transposed("%c", "%k", "tensor<2x3xf32>", "tensor<3x2xf32>", [1, 0])
        + """  %d = tensor.concat dim(1) %c, %t : (tensor<3x2xf32>, tensor<3x5xf32>) -> tensor<3x7xf32>
  %e = math.exp %d : tensor<3x7xf32>
  %s = tensor.extract_slice %e[0, 2] [3, 5] [1, 1] : tensor<3x7xf32> to tensor<3x5xf32>
  %u = tensor.extract_slice %e[0, 0] [3, 2] [1, 1] : tensor<3x7xf32> to tensor<3x2xf32>
"""
        + transposed("%r", "%u", "tensor<3x2xf32>", "tensor<2x3xf32>", [1, 0])
        + "  return %s, %r : tensor<3x5xf32>, tensor<2x3xf32>",
        [normal(5, 3)], lambda x: (np.exp(x).T, np.exp(np.arange(1, 7, dtype=np.float32).reshape(2, 3))), 2e-4,
    ),
}  # fmt: skip
