# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs with their layouts as fuse-layouts chooses them and the other way, at several sizes."""

from __future__ import annotations

import json

import intarsia
import numpy as np
import pytest
from layout_programs import LAYOUT_PROGRAMS, windows
from random_numbers import normal
from safetensors.numpy import save_file

#: Sizes of the first argument where the call decides one, by the program.
SIZES = {"image": [(1, 16, 20, 24), (5, 16, 20, 24)], "norms": [(3, 24, 1), (3, 24, 3), (3, 24, 70)]}
SIZES |= {name: [(2, 1, 64), (2, 8, 64), (2, 33, 64)] for name in ("heads", "matmul_heads")}
SIZES |= {"ones": [(1, 1, 7), (16, 1, 7)]}


def check(module: object, name: str, first: np.ndarray) -> None:
    program = LAYOUT_PROGRAMS[name]
    inputs = [first, *program.inputs[1:]]
    got, expected = getattr(module, name)(*inputs), program.expected(*inputs)
    if not isinstance(got, tuple):
        got, expected = (got,), (expected,)
    for one, wanted in zip(got, expected, strict=True):
        assert one.shape == wanted.shape, (name, first.shape)
        np.testing.assert_allclose(one, wanted, rtol=0, atol=program.tolerance, err_msg=f"{name} {first.shape}")


@pytest.mark.parametrize("device", ["cpu", "cpu:x86-64-v2", "reference", "emulated:sm_90a", "emulated:gfx942"])
def test_either_layout(tools, tmp_path, device):
    text = "".join(program.text(name) for name, program in LAYOUT_PROGRAMS.items())
    (tmp_path / "m.mlir").write_text(text)
    explained = tmp_path / "m.json"
    given = (tmp_path / "m.mlir", f"--target={device}", "--matmul-precision=f32")
    tools.compile(*given, "-o", tmp_path / "m.itx", f"--explain={explained}")
    ids = [one["id"] for one in json.loads(explained.read_text())["decisions"]]
    ids = [one for one in ids if one.startswith("fuse-layouts:")]
    assert len(ids) > 5
    tools.compile(*given, "-o", tmp_path / "flipped.itx", "--flip=fuse-layouts:*")
    for artifact in ("m.itx", "flipped.itx"):
        module = intarsia.load(tmp_path / artifact)
        for name, program in LAYOUT_PROGRAMS.items():
            check(module, name, program.inputs[0])
            for shape in SIZES.get(name, []):
                check(module, name, normal(*shape))


WEIGHTS = """nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<1x64x20x20xf32>) -> tensor<1x64x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %w = nn.weight @weights["dense"] : tensor<64x64x3x3xf32>
  %d = nn.weight @weights["apart"] : tensor<64x3x3xf32>
  %e = tensor.empty() : tensor<1x64x18x18xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64x18x18xf32>) -> tensor<1x64x18x18xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x64x20x20xf32>, tensor<64x64x3x3xf32>)
      outs(%f : tensor<1x64x18x18xf32>) -> tensor<1x64x18x18xf32>
  %g = tensor.empty() : tensor<1x64x16x16xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<1x64x16x16xf32>) -> tensor<1x64x16x16xf32>
  %y = linalg.depthwise_conv_2d_nchw_chw ins(%c, %d : tensor<1x64x18x18xf32>, tensor<64x3x3xf32>)
      outs(%h : tensor<1x64x16x16xf32>) -> tensor<1x64x16x16xf32>
  return %y : tensor<1x64x16x16xf32>
}
"""


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_weights_are_transposed_as_they_are_packed(tools, tmp_path, device):
    dense, apart = normal(64, 64, 3, 3) / 8, normal(64, 3, 3)
    save_file({"dense": dense, "apart": apart}, tmp_path / "model.safetensors")
    (tmp_path / "m.mlir").write_text(WEIGHTS)
    fused = tmp_path / "fused.mlir"
    tools.compile(tmp_path / "m.mlir", "-o", fused, "--target=cpu", "--stop-after=fuse")
    assert "linalg.transpose" in fused.read_text()
    flags = ["--start-from=lower"] if device == "cpu" else [f"--target={device}"]
    tools.compile(fused if device == "cpu" else tmp_path / "m.mlir", "-o", tmp_path / "m.itx", *flags)
    x = normal(1, 64, 20, 20)
    y = np.einsum("ncyxij,fcij->nfyx", windows(x.astype(np.float64), 3), dense)
    y = np.einsum("ncyxij,cij->ncyx", windows(y, 3), apart)
    np.testing.assert_allclose(intarsia.load(tmp_path / "m.itx").main(x), y, rtol=0, atol=1e-4)
