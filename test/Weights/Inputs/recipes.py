# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""recipes.py write FOLDER: a lowered module with recipes of many kinds. recipes.py check FOLDER: what they are packed as."""

import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors import safe_open

DTYPES = {"float32": "F32", "uint8": "U8", "int8": "I8"}

MODULE = """
rt.device @cpu {target = #rt.target<"cpu", ["native"]>}
nn.archive @w {file = "model.safetensors"}
// Parts that are transposed, plain and constant, one after another.
rt.constant @mixed layout(#rt.row_major) : tensor<7x3xf32> {
  %t = nn.weight @w["t"] : tensor<3x4xf32>
  %e = tensor.empty() : tensor<4x3xf32>
  %r = linalg.transpose ins(%t : tensor<3x4xf32>) outs(%e : tensor<4x3xf32>) permutation = [1, 0]
  %p = nn.weight @w["p"] : tensor<2x3xf32>
  %c = arith.constant dense<[[1.0, 2.0, 3.0]]> : tensor<1x3xf32>
  %j = tensor.concat dim(0) %r, %p, %c : (tensor<4x3xf32>, tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<7x3xf32>
  rt.yield %j : tensor<7x3xf32>
}
rt.constant @panels layout(#rt.panels<32>) : tensor<6x3xf32> {
  %t = nn.weight @w["t"] : tensor<3x4xf32>
  %e = tensor.empty() : tensor<4x3xf32>
  %r = linalg.transpose ins(%t : tensor<3x4xf32>) outs(%e : tensor<4x3xf32>) permutation = [1, 0]
  %p = nn.weight @w["p"] : tensor<2x3xf32>
  %j = tensor.concat dim(0) %r, %p : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<6x3xf32>
  rt.yield %j : tensor<6x3xf32>
}
// Rows of concatenated tensors by turns, and columns of one that are rows of two.
rt.constant @turns layout(#rt.row_major) : tensor<3x2x4xf32> {
  %t = nn.weight @w["t"] : tensor<3x4xf32>
  %u = nn.weight @w["u"] : tensor<3x4xf32>
  %j = tensor.concat dim(0) %t, %u : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
  %v = tensor.expand_shape %j [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
  %e = tensor.empty() : tensor<3x2x4xf32>
  %r = linalg.transpose ins(%v : tensor<2x3x4xf32>) outs(%e : tensor<3x2x4xf32>) permutation = [1, 0, 2]
  rt.yield %r : tensor<3x2x4xf32>
}
rt.constant @columns layout(#rt.row_major) : tensor<2x2x3xf32> {
  %t = nn.weight @w["t"] : tensor<3x4xf32>
  %v = tensor.expand_shape %t [[0], [1, 2]] output_shape [3, 2, 2] : tensor<3x4xf32> into tensor<3x2x2xf32>
  %e = tensor.empty() : tensor<2x2x3xf32>
  %r = linalg.transpose ins(%v : tensor<3x2x2xf32>) outs(%e : tensor<2x2x3xf32>) permutation = [2, 1, 0]
  rt.yield %r : tensor<2x2x3xf32>
}
// MXFP4, and after it values of another format.
rt.constant @mxfp4 layout(#rt.row_major) : tensor<5x64xf32> {
  %v = nn.weight @w["values"] : tensor<4x64xi4>
  %s = nn.weight @w["scales"] : tensor<4x2xi8>
  %m = nn.dequantize %v, %s {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<4x64xi4>, tensor<4x2xi8>) -> tensor<4x64xf32>
  %b = nn.weight @w["q8_0"] : tensor<1x68xi8>
  %q = nn.dequantize %b {format = #nn.ggml_type<q8_0>} : (tensor<1x68xi8>) -> tensor<1x64xf32>
  %j = tensor.concat dim(0) %m, %q : (tensor<4x64xf32>, tensor<1x64xf32>) -> tensor<5x64xf32>
  rt.yield %j : tensor<5x64xf32>
}
func.func @main() attributes {rt.results = [{nn.sizes = ["", ""], type = tensor<7x3xf32>}], rt.symbols = []} {
  %queue = rt.get_queue 0 : !rt.queue<@cpu>
  %result = rt.output 0 () : memref<7x3xf32>
  %c = rt.constant_data @mixed : memref<7x3xf32>
  %event = rt.copy %c to %result on %queue : !rt.queue<@cpu> : memref<7x3xf32> to memref<7x3xf32>
  rt.wait %event
  return
}
"""


def tensors() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)

    def make(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    blocks = random.integers(0, 256, (1, 2, 34), np.uint8)
    blocks[..., :2] = np.frombuffer(np.float16(0.5).tobytes(), np.uint8)
    return {
        "odd": np.zeros(3, np.int8),  # after it, everything has an odd address
        "t": make(3, 4), "u": make(3, 4), "p": make(2, 3),
        "values": random.integers(0, 256, (4, 2, 16), np.uint8), "scales": random.integers(120, 130, (4, 2), np.uint8),
        "q8_0": blocks.reshape(1, 68).view(np.int8),
    }  # fmt: skip


def write(folder: Path) -> None:
    header, data = {}, b""
    for name, value in tensors().items():
        begin, data = len(data), data + value.tobytes()
        header[name] = {"dtype": DTYPES[str(value.dtype)], "shape": value.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    (folder / "model.mlir").write_text(MODULE)


def expected() -> dict[str, np.ndarray]:
    w = tensors()
    quantized = np.stack([w["values"] & 15, w["values"] >> 4], -1).reshape(4, 64).astype(np.uint8)
    mxfp4 = quantized.view(ml_dtypes.float4_e2m1fn).astype(np.float32) * np.repeat(
        np.exp2(w["scales"].astype(np.float32) - 127), 32, -1
    )
    q8_0 = w["q8_0"].reshape(2, 34)[:, 2:].astype(np.float32).reshape(1, 64) * np.float32(0.5)
    concatenated = np.concatenate([w["t"].T, w["p"]])
    panels = np.zeros((1, 3, 32), np.float32)
    panels[0, :, :6] = concatenated.T
    return {
        "t+p.transposed": np.concatenate([concatenated, [[1, 2, 3]]]).astype(np.float32),
        "t+p.transposed.panels32": panels,
        "t+u.reordered": np.stack([w["t"], w["u"]], 1),
        "t.reordered": w["t"].reshape(3, 2, 2).transpose(2, 1, 0),
        "values+scales+q8_0.decoded": np.concatenate([mxfp4, q8_0]),
    }


def check(folder: Path) -> None:
    with safe_open(folder / "m.safetensors", "np") as file:
        names = [name for name in file.keys() if not name.startswith("padding.")]  # noqa: SIM118
        assert sorted(names) == sorted(expected()), names
        for name, value in expected().items():
            np.testing.assert_array_equal(file.get_tensor(name), value, err_msg=name)


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](Path(sys.argv[2]))
