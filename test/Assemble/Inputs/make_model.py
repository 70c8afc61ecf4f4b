# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a small model (IR and two archives) into a folder; "nan" as second argument: values are not finite."""

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

MODEL = """
nn.archive @weights {file = "model.safetensors"}
nn.archive @more {file = "more.safetensors"}
func.func @main(%x: tensor<?x16xf32> {nn.name = "x", nn.sizes = ["rows", ""]})
    -> (tensor<?x40xf32> {nn.name = "y"}, tensor<?x8xf32> {nn.name = "z"})
    attributes {nn.size_limits = {rows = 100 : i64}, nn.metadata = {labels = ["no", "yes"], version = 3 : i64}} {
  %a = nn.weight @weights["a"] : tensor<8x16xf32>
  %b = nn.weight @more["b"] : tensor<32x4x4xf32>
  %flat = tensor.collapse_shape %b [[0], [1, 2]] : tensor<32x4x4xf32> into tensor<32x16xf32>
  %ab = tensor.concat dim(0) %a, %flat : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<40x16xf32>
  %bias = nn.weight @weights["bias"] : tensor<40xf32>
  %c = nn.weight @weights["c"] : tensor<16x8xf32>
  %empty = tensor.empty() : tensor<8x16xf32>
  %ct = linalg.transpose ins(%c : tensor<16x8xf32>) outs(%empty : tensor<8x16xf32>) permutation = [1, 0]
  %scale = nn.weight @weights["scale"] : tensor<16xf32>
  %n = nn.group rows(%x0 = %x, %s0 = %scale) : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32> {
    %0 = nn.rms_norm %x0, %s0 {epsilon = 1.0e-6 : f32} : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32> loc("model.norm")
    nn.yield %0 : tensor<?x16xf32>
  }
  %y = nn.group linear(%x0 = %n, %w0 = %ab, %b0 = %bias) : (tensor<?x16xf32>, tensor<40x16xf32>, tensor<40xf32>) -> tensor<?x40xf32> {
    %0 = nn.linear %x0, %w0, %b0 : (tensor<?x16xf32>, tensor<40x16xf32>, tensor<40xf32>) -> tensor<?x40xf32> loc("model.wide")
    nn.yield %0 : tensor<?x40xf32>
  }
  %z = nn.group linear(%x0 = %n, %w0 = %ct) : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32> {
    %0 = nn.linear %x0, %w0 : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32> loc("model.narrow")
    nn.yield %0 : tensor<?x8xf32>
  }
  return %y, %z : tensor<?x40xf32>, tensor<?x8xf32>
}
"""


def tensors() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    random = np.random.default_rng(7)

    def make(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    return {"a": make(8, 16), "bias": make(40), "c": make(16, 8), "scale": make(16)}, {"b": make(32, 4, 4)}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    weights, more = tensors()
    if "nan" in sys.argv:
        weights["a"][3, 5] = weights["a"][7, 1] = weights["c"][15, 2] = np.nan
        weights["bias"][39], more["b"][31, 3, 2] = np.inf, -np.inf
    save_file(weights, folder / "model.safetensors")
    save_file(more, folder / "more.safetensors")
    (folder / "model.mlir").write_text(MODEL)
