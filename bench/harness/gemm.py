# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GEMMs against oneDNN: shapes, and the artifacts of our side."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gemm_torch import test_values


@dataclass(frozen=True)
class Shape:
    """C[m, n] = A[m, k] * W[n, k]^T; with `copies` > 1 calls rotate through that many weights."""

    m: int
    n: int
    k: int
    copies: int = 1
    threads: int = 2

    @property
    def key(self) -> str:
        rotating = "-rotating" if self.copies > 1 else ""
        return f"{self.m}x{self.n}x{self.k}{rotating}" + ("" if self.threads == 2 else f"-{self.threads}t")

    @property
    def title(self) -> str:
        where = f", {self.copies} weights in turn" if self.copies > 1 else ""
        return f"{self.m}×{self.n}×{self.k}{where}" + ("" if self.threads == 2 else f", {self.threads} thread")

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k


# Eight weights of 64 MiB are twice the largest last-level cache seen so far (260 MiB, a server's whole socket).
SHAPES = (
    Shape(512, 512, 512),
    Shape(1024, 1024, 1024),
    Shape(128, 768, 768),
    Shape(128, 3072, 768),
    Shape(128, 768, 3072),
    Shape(37, 1000, 513),
    Shape(1, 4096, 4096),
    Shape(1, 4096, 4096, copies=8),
)
PEAK_SHAPE = Shape(1024, 1024, 1024, threads=1)

MODULE = """\
nn.archive @weights {{file = "w.safetensors"}}
func.func @main(%x: tensor<{m}x{k}xf32> {{nn.name = "x", nn.sizes = ["", ""]}})
    -> (tensor<{m}x{n}xf32> {{nn.name = "y", nn.sizes = ["", ""]}}) attributes {{nn.metadata = {{}}}} {{
  %w = nn.weight @weights["w"] : tensor<{n}x{k}xf32>
  %y = nn.linear %x, %w : (tensor<{m}x{k}xf32>, tensor<{n}x{k}xf32>) -> tensor<{m}x{n}xf32>
  return %y : tensor<{m}x{n}xf32>
}}
"""


def write_source(shape: Shape, folder: Path) -> Path:
    """Writes a module with one nn.linear, and its weights beside it."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    weight = test_values(shape.n * shape.k, 2).reshape(shape.n, shape.k)
    save_file({"w": weight}, folder / "w.safetensors")
    source = folder / "linear.mlir"
    source.write_text(MODULE.format(m=shape.m, n=shape.n, k=shape.k))
    return source


def copy_artifact(artifact: Path, copies: int) -> list[Path]:
    """Copies the artifact and its weights to other folders: other pages, the same code."""
    result = [artifact]
    for index in range(1, copies):
        folder = artifact.parent / f"copy{index}"
        folder.mkdir(exist_ok=True)
        for file in artifact.parent.glob(f"{artifact.stem}.*"):
            if file.suffix in (".itx", ".safetensors"):
                shutil.copyfile(file, folder / file.name)
        result.append(folder / artifact.name)
    return result


def expected(shape: Shape) -> np.ndarray:
    """Returns the result in f64, [m, n]."""
    a = test_values(shape.m * shape.k, 1).reshape(shape.m, shape.k).astype(np.float64)
    w = test_values(shape.n * shape.k, 2).reshape(shape.n, shape.k).astype(np.float64)
    return a @ w.T
