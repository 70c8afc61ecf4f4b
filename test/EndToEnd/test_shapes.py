# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Figures of kernels' shapes that are edited in the IR (`rt.shapes`): the code follows them, and computes the same."""

import re
from pathlib import Path

import intarsia
import numpy as np
import pytest
from random_numbers import RNG

PROGRAM = """
func.func @main(%a: tensor<?x40xf32> {nn.name = "a", nn.sizes = ["rows", ""]},
                %b: tensor<40x70xf32> {nn.name = "b", nn.sizes = ["", ""]},
                %q: tensor<1x?x2x24xf32> {nn.name = "q", nn.sizes = ["", "rows", "", ""]})
    -> (tensor<?x70xf32> {nn.name = "product", nn.sizes = ["rows", ""]},
        tensor<1x?x2x24xf32> {nn.name = "attended", nn.sizes = ["", "rows", "", ""]}) {
  %0 = nn.matmul %a, %b : (tensor<?x40xf32>, tensor<40x70xf32>) -> tensor<?x70xf32>
  %1 = nn.attention %q, %q, %q {scale = 0.2 : f32}
      : (tensor<1x?x2x24xf32>, tensor<1x?x2x24xf32>, tensor<1x?x2x24xf32>) -> tensor<1x?x2x24xf32>
  return %0, %1 : tensor<?x70xf32>, tensor<1x?x2x24xf32>
}
"""
ROWS = 75

# The targets are named: other devices have other figures.
pytestmark = pytest.mark.cpu_only


@pytest.fixture(scope="module")
def operands() -> dict[str, np.ndarray]:
    shapes = {"a": (ROWS, 40), "b": (40, 70), "q": (1, ROWS, 2, 24)}
    return {name: RNG.standard_normal(shape, dtype="f4") for name, shape in shapes.items()}


def expected(operands: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the product and the attention in double precision."""
    a, b, q = (operands[name].astype("f8") for name in "abq")
    scores = np.einsum("bqhd,bkhd->bhqk", q, q) * np.float32(0.2)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return a @ b, np.einsum("bhqk,bkhd->bqhd", powers / powers.sum(-1, keepdims=True), q)


def edited(tools, folder: Path, target: str, figures: dict[str, int]) -> Path:
    """Return kernels as IR that states these figures in place of those that were chosen."""
    program, lowered, shapes = folder / "program.mlir", folder / "lowered.mlir", folder / "shapes.mlir"
    program.write_text(PROGRAM)
    tools.compile(program, "-o", lowered, f"--target={target}", "--stop-after=lower")
    text = tools.run("intarsia-opt", lowered, "--target-emit-kernels=step=shape").stdout
    for name, figure in figures.items():
        text, count = re.subn(rf"\b{name} = \d+ : i64", f"{name} = {figure} : i64", text)
        assert count, f"no kernel has {name}"
    shapes.write_text(text)
    return shapes


@pytest.mark.parametrize(
    ("target", "figures"),
    [
        ("cpu:x86-64-v3", {"tile_rows": 1, "tile_vectors": 1, "block_keys": 8}),
        ("cpu:x86-64-v3", {"tile_rows": 7, "tile_vectors": 4, "block_keys": 64}),
        ("emulated:sm_80", {"stages": 2, "loads_ahead": 3}),
        ("emulated:gfx942", {"stages": 3, "loads_ahead": 2}),
    ],
)
def test_code_follows_the_shape(tools, tmp_path: Path, operands, target: str, figures: dict[str, int]) -> None:
    artifact = tmp_path / "edited.itx"
    tools.compile(edited(tools, tmp_path, target, figures), "-o", artifact, "--start-from=target")
    results = intarsia.load(artifact).main(**operands)
    for result, exact in zip(results, expected(operands), strict=True):
        # Sums of 40 products, or of 75, of numbers of about 1, rounded to f32 each time.
        np.testing.assert_allclose(result, exact, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"tile_rows": 17}, "states tile_rows = 17, must be an integer from 1 to 16"),
        ({"lanes": 16}, "states lanes = 16, which follows from the kernel and the processor: it is 8"),
        ({"block_keys": 12}, "states block_keys = 12, must be an integer from 8 to 4096, a multiple of 8"),
    ],
)
def test_wrong_figures_are_refused(tools, tmp_path: Path, figures: dict[str, int], message: str) -> None:
    shapes = edited(tools, tmp_path, "cpu:x86-64-v3", figures)
    refused = tools.run("intarsia-opt", shapes, "--target-emit-kernels", check=False)
    assert refused.returncode == 1
    assert f"rt.shapes of x86-64-v3 {message}" in refused.stderr
