# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for TT-Metalium: compiled against metalium_host.h, run as host threads, compared with NumPy."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from csl import cores_of_tiles

HERE = Path(__file__).resolve().parent
HEADERS = {
    "stdint.h",
    "cstdint",
    "dataflow_api.h",
    "intarsia_tiles.h",
    "compute_kernel_api.h",
    "compute_kernel_api/common.h",
    "compute_kernel_api/eltwise_binary.h",
    "compute_kernel_api/eltwise_unary/fill.h",
    "compute_kernel_api/eltwise_unary/gelu.h",
    "compute_kernel_api/eltwise_unary/relu.h",
    "compute_kernel_api/matmul.h",
    "compute_kernel_api/tile_move_copy.h",
}
DTYPES = {"f16": np.float16, "f32": np.float32}
Run = Callable[..., list[np.ndarray]]


def source(folder: Path, name: str) -> str:
    """Return a file with the one it includes of the same folder; what else it includes is known, and in that header."""
    lines = []
    for line in (folder / name).read_text().splitlines():
        if found := re.fullmatch(r'#include [<"](.*)[>"]', line):
            assert found[1] in HEADERS, line
            if found[1] == "intarsia_tiles.h":
                lines.append(source(folder, found[1]))
        elif line != "#pragma once":
            lines.append(line)
    return "\n".join(lines)


def host(folder: Path, plan: dict[str, Any]) -> str:
    """Return a program that runs the kernels: each in a namespace, as a device compiles each for itself."""
    text = '#include "metalium_host.h"\n#define NAMESPACE kernel\n#define MAIN compute_main()\n'
    names = sorted({core[kind] for core in plan["cores"] for kind in ("reader", "writer", "compute")})
    for name in names:
        text += f"namespace {name[:-4]} {{\n{source(folder, name)}\n}} // namespace\n"
    calls = {
        name: f"{name[:-4]}::" + ("kernel::compute_main" if "compute" in name else "kernel_main") for name in names
    }
    cores = ",\n".join(
        f"    {{{core['column']}, {core['row']}, "
        f"{{{', '.join(calls[core[kind]] for kind in ('reader', 'writer', 'compute'))}}}}}"
        for core in plan["cores"]
    )
    buffers = ", ".join(
        f"{{{one['pages']}, {one['page_bytes']}, {str(one['format'] == 'Float16').lower()}}}"
        for one in plan["circular_buffers"]
    )
    sizes = f"{plan['columns']}, {plan['rows']}, {plan['semaphores']}"
    return f"{text}int main(int, char **files) {{\n  return host_run({sizes}, {{{buffers}}}, {{\n{cores}\n  }}, {{{', '.join(f'files[{i + 1}]' for i in range(len(plan['operands'])))}}});\n}}\n"


def pages(operand: dict[str, Any], size: tuple[int, int], matrix: np.ndarray | None) -> np.ndarray:
    """Return the pages of an operand, `[rows, columns, tiles, 32, 32]` of the grid: tiles of 32 x 32, padded with zeros."""
    height, width = operand["tile"]
    down, across = -(-height // 32), -(-width // 32)
    result = np.zeros((size[1], size[0], down * across, 32, 32), DTYPES[operand["element"]])
    for (x, y), rows, columns in cores_of_tiles(operand, *size) if matrix is not None else ():
        cut = matrix[rows, columns]
        part = np.zeros((down * 32, across * 32), result.dtype)
        part[: cut.shape[0], : cut.shape[1]] = cut
        result[y, x] = part.reshape(down, 32, across, 32).swapaxes(1, 2).reshape(-1, 32, 32)
    return result


def matrix_of(operand: dict[str, Any], size: tuple[int, int], stored: np.ndarray) -> np.ndarray:
    """Return the matrix of an operand's pages."""
    matrix = np.zeros(operand["matrix"], DTYPES[operand["element"]])
    height, width = operand["tile"]
    down, across = -(-height // 32), -(-width // 32)
    for (x, y), rows, columns in cores_of_tiles(operand, *size):
        part = (
            stored[y, x].reshape(down, across, 32, 32).swapaxes(1, 2).reshape(down * 32, across * 32)[:height, :width]
        )
        cut = matrix[rows, columns]
        cut[:] = part[: cut.shape[0], : cut.shape[1]]
    return matrix


CLANG = ("clang++-22", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{HERE}")


@pytest.fixture(scope="module")
def run_kernels(folder: Path) -> Run:
    """Give a function that compiles the kernels of a folder and runs them, and returns the outputs."""
    header = folder / "metalium_host.pch"
    subprocess.run([*CLANG, "-x", "c++-header", HERE / "metalium_host.h", "-o", header], check=True)
    return lambda kernels, inputs: run_with(header, kernels, inputs)


def run_with(header: Path, folder: Path, inputs: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    plan = json.loads((folder / "plan.json").read_text())
    assert sorted((core["column"], core["row"]) for core in plan["cores"]) == sorted(
        itertools.product(range(plan["columns"]), range(plan["rows"]))
    )
    (folder / "host.cpp").write_text(host(folder, plan))
    command = [*CLANG, "-include-pch", header, folder / "host.cpp", "-o", folder / "host"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    size = plan["columns"], plan["rows"]
    files = []
    for number, operand in enumerate(plan["operands"]):
        files.append(folder / f"{number}.bin")
        pages(operand, size, inputs[operand["argument"]] if operand["input"] else None).tofile(files[-1])
    done = subprocess.run([folder / "host", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outputs = []
    for file, operand in zip(files, plan["operands"], strict=True):
        if not operand["input"]:
            shape = pages(operand, size, None).shape
            outputs.append(matrix_of(operand, size, np.fromfile(file, DTYPES[operand["element"]]).reshape(shape)))
    return outputs


@pytest.fixture
def emit(tools, tmp_path: Path) -> Callable[[str], Path]:
    """Give a function that writes the kernels of a program, and returns their folder."""

    def run(text: str) -> Path:
        (tmp_path / "program.mlir").write_text(text)
        shutil.rmtree(tmp_path / "kernels", ignore_errors=True)
        tools.run("intarsia-wafer", tmp_path / "program.mlir", "--target=tensix", f"--metalium={tmp_path / 'kernels'}")
        (folder,) = (tmp_path / "kernels").iterdir()
        return folder

    return run


def tensor(shape: tuple[int, int], element: str) -> str:
    """Return the type of a matrix."""
    return f"tensor<{shape[0]}x{shape[1]}x{element}>"


def gemm(m: int, k: int, n: int, grid: int, algorithm: str, result: str = "f32") -> str:
    """Return a function that multiplies matrices of f16 `[m, k]` and `[k, n]`, or `[n, k]` transposed."""
    a, c = tensor((m, k), "f16"), tensor((m, n), result)
    b = tensor((n, k) if "transposed" in algorithm else (k, n), "f16")
    return (
        f"func.func @main(%a: {a}, %b: {b}) -> {c} {{\n"
        f"  %c = wafer.dist_gemm {algorithm} %a, %b on {grid} : {a}, {b} -> {c}\n"
        f"  return %c : {c}\n}}\n"
    )


@pytest.mark.parametrize(
    ("algorithm", "grid", "sizes"),
    [
        ("mesh", 2, (128, 64, 192)),
        pytest.param("mesh", 4, (70, 130, 90), marks=pytest.mark.slow),
        ("cannon", 3, (96, 100, 64)),
        ("mesh transposed", 3, (97, 70, 64)),
    ],
)
def test_products_of_matrices(emit, run_kernels: Run, algorithm: str, grid: int, sizes: tuple[int, int, int]) -> None:
    """Several tiles of a core, and tiles that are padded."""
    m, k, n = sizes
    rng = np.random.default_rng(grid)
    a, b = rng.normal(size=(m, k)).astype(np.float16), rng.normal(size=(k, n)).astype(np.float16)
    folder = emit(gemm(m, k, n, grid, algorithm))
    (c,) = run_kernels(folder, (a, np.ascontiguousarray(b.T) if "transposed" in algorithm else b))
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reduction", ["tree", "pipeline", "ring"])
def test_a_layer_of_vectors(emit, run_kernels, reduction: str) -> None:
    """A product, a function of elements, and sums along an axis: messages that are added, and one for several cores."""
    x, w, y = tensor((1, 96), "f32"), tensor((96, 80), "f32"), tensor((1, 80), "f32")
    text = f"""
    func.func @main(%x: {x}, %w: {w}) -> {y} {{
      %p = wafer.dist_gemv {reduction} %x, %w on 4 : {x}, {w} -> {y}
      %z = wafer.dist_map silu %p on 4 : {y}
      return %z : {y}
    }}"""
    rng = np.random.default_rng(5)
    left, right = rng.normal(size=(1, 96)).astype(np.float32), rng.normal(size=(96, 80)).astype(np.float32)
    (z,) = run_kernels(emit(text), (left, right))
    p = left.astype(np.float64) @ right
    np.testing.assert_allclose(z, p / (1 + np.exp(-p)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "before", "after", "message"),
    [
        ("writer", "noc_semaphore_inc(", "noc_semaphore_increase(", "undeclared identifier"),
        ("writer", "get_read_ptr(slot_5), at(", "get_read_ptr(slot_6), at(", "Mismatched|nan"),
        ("reader", "first_core * 1 + tile", "(first_core ^ 1) * 1 + tile", "Mismatched|nan"),
        ("compute", "multiply_tiles<false>(slot_4, slot_5", "multiply_tiles<false>(slot_4, slot_6", "Mismatched|nan"),
    ],
)
def test_mistakes_are_found(emit, run_kernels, kind: str, before: str, after: str, message: str) -> None:
    """Kernels that are changed do not compile, or give other values."""
    folder = emit(gemm(64, 64, 64, 2, "mesh"))
    a, b = np.random.default_rng(1).normal(size=(2, 64, 64)).astype(np.float16)
    for file in folder.glob(f"{kind}_*.cpp"):
        text = file.read_text()
        assert before in text
        file.write_text(text.replace(before, after))
    with pytest.raises(AssertionError, match=message):
        np.testing.assert_allclose(run_kernels(folder, (a, b))[0], a.astype(np.float64) @ b, rtol=1e-3)


def refusal(tools, folder: Path, text: str, target: str = "tensix") -> str:
    """Return what intarsia-wafer says of a program for which no kernels are written."""
    (folder / "refused.mlir").write_text(text)
    flags = [f"--target={target}", f"--metalium={folder / 'none'}"]
    result = tools.run("intarsia-wafer", folder / "refused.mlir", *flags, check=False)
    assert result.returncode == 1
    return result.stderr


def test_what_kernels_do_not_do_is_refused_by_name(tools, tmp_path: Path) -> None:
    """Routes that move, arithmetic that tiles cannot have, semaphores and memory of a core."""
    of = tensor((4, 64), "f32")
    exp = f"func.func @main(%x: {of}) -> {of} {{\n %y = wafer.dist_map exp %x on 2 : {of}\n return %y : {of}\n}}"
    assert "its arithmetic is none of those" in refusal(tools, tmp_path, exp)
    assert "route @broadcast_x moves with a loop" in refusal(tools, tmp_path, gemm(64, 64, 64, 2, "summa"))
    x, w = tensor((1, 64), "f32"), tensor((64, 64), "f32")
    chain = f"""
    func.func @main(%x: {x}, %v: {w}, %w: {w}) -> {x} {{
      %y = wafer.dist_gemv tree %x, %v on 8 : {x}, {w} -> {x}
      %z = wafer.dist_gemv tree %y, %w on 8 : {x}, {w} -> {x}
      return %z : {x}
    }}"""
    assert "a core has 16 semaphores, two of them for its kernels" in refusal(tools, tmp_path, chain)
    assert "bytes of each core in tiles of 32 by 32, wse-2 has 49152" in refusal(
        tools, tmp_path, gemm(264, 264, 264, 8, "mesh"), "wse-2"
    )
