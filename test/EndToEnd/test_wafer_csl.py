# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CSL that intarsia-wafer writes: parsed strictly, run on a rectangle of interpreted cores, compared with NumPy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import csl
import numpy as np
import pytest

Emit = Callable[[str], Path]


def tensor(shape: tuple[int, int], element: str) -> str:
    """Return the type of a matrix."""
    return f"tensor<{shape[0]}x{shape[1]}x{element}>"


def gemm(m: int, k: int, n: int, grid: int, algorithm: str, element: str = "f16") -> str:
    """Return a function that multiplies matrices `[m, k]` and `[k, n]`, or `[n, k]` transposed."""
    a, c = tensor((m, k), element), tensor((m, n), "f32")
    b = tensor((n, k) if "transposed" in algorithm else (k, n), element)
    return (
        f"func.func @main(%a: {a}, %b: {b}) -> {c} {{\n"
        f"  %c = wafer.dist_gemm {algorithm} %a, %b on {grid} : {a}, {b} -> {c}\n"
        f"  return %c : {c}\n}}\n"
    )


def gemv(k: int, n: int, grid: int, reduction: str) -> str:
    """Return a function that multiplies a vector with a matrix `[k, n]`."""
    x, w, y = tensor((1, k), "f32"), tensor((k, n), "f32"), tensor((1, n), "f32")
    return (
        f"func.func @main(%x: {x}, %w: {w}) -> {y} {{\n"
        f"  %y = wafer.dist_gemv {reduction} %x, %w on {grid} : {x}, {w} -> {y}\n"
        f"  return %y : {y}\n}}\n"
    )


@pytest.fixture
def emit(tools, tmp_path: Path) -> Emit:
    """Give a function that writes the sources of a program, and returns their folder."""

    def run(text: str) -> Path:
        (tmp_path / "program.mlir").write_text(text)
        shutil.rmtree(tmp_path / "sources", ignore_errors=True)
        tools.run("intarsia-wafer", tmp_path / "program.mlir", f"--csl={tmp_path / 'sources'}")
        (folder,) = (tmp_path / "sources").iterdir()
        return folder

    return run


def run(folder: Path, *inputs: np.ndarray, tokens: int | None = None) -> list[np.ndarray]:
    """Run sources in two random orders, which must not matter, and return the outputs."""
    placement = json.loads((folder / "placement.json").read_text())
    first, second = (csl.run_csl(folder, placement, list(inputs), seed, tokens) for seed in (1, 2))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    return first


@pytest.mark.parametrize("grid", [2, 3, 4, 5])
@pytest.mark.parametrize("algorithm", ["mesh", "cannon", "mesh transposed", "cannon transposed"])
def test_products_of_matrices(emit: Emit, grid: int, algorithm: str) -> None:
    """Sizes that the grid does not divide; f16 factors, f32 sums."""
    m, k, n = 2 * grid + 1, 2 * grid - 1, grid + 1
    rng = np.random.default_rng(grid)
    transposed = "transposed" in algorithm
    a, b = rng.normal(size=(m, k)).astype(np.float16), rng.normal(size=(k, n)).astype(np.float16)
    (c,) = run(emit(gemm(m, k, n, grid, algorithm)), a, np.ascontiguousarray(b.T) if transposed else b)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("grid", [2, 4, 7, 9])
@pytest.mark.parametrize("reduction", ["tree", "pipeline", "ring"])
def test_products_of_vectors(emit: Emit, grid: int, reduction: str) -> None:
    """Sums along an axis by each way; the cores of a class add in one place or another."""
    k, n = 2 * grid + 1, grid + 2
    rng = np.random.default_rng(grid)
    x, w = rng.normal(size=(1, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
    (y,) = run(emit(gemv(k, n, grid, reduction)), x, w)
    np.testing.assert_allclose(y, x.astype(np.float64) @ w, rtol=1e-5, atol=1e-5)


FUNCTIONS = {
    "exp": np.exp,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu_tanh": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    "gelu": lambda x: x * (1 + np.vectorize(__import__("math").erf)(x / np.sqrt(2))) / 2,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(emit: Emit, name: str) -> None:
    """Of the rows of a matrix."""
    x = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32) * 2
    of = tensor((5, 7), "f32")
    text = f"func.func @main(%x: {of}) -> {of} {{\n %y = wafer.dist_map {name} %x on 3 : {of}\n return %y : {of}\n}}"
    np.testing.assert_allclose(run(emit(text), x)[0], FUNCTIONS[name](x.astype(np.float64)), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_norms(emit: Emit, kind: str) -> None:
    """Sums over a tree, on a size that the grid does not divide."""
    x, scale, bias = np.random.default_rng(2).normal(size=(3, 1, 11)).astype(np.float32)
    of = tensor((1, 11), "f32")
    inputs = "%x, %s, %b" if kind == "layer" else "%x, %s"
    text = f"""
    func.func @main(%x: {of}, %s: {of}, %b: {of}) -> {of} {{
      %n = wafer.dist_norm {kind} {inputs} on 5 {{epsilon = 1.0e-5 : f32}} : {of}
      return %n : {of}
    }}"""
    exact = x.astype(np.float64) - (x.mean() if kind == "layer" else 0)
    expected = exact / np.sqrt((exact**2).mean() + 1e-5) * scale + (bias if kind == "layer" else 0)
    np.testing.assert_allclose(run(emit(text), x, scale, bias)[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tokens", range(9))
def test_appends(emit: Emit, tokens: int) -> None:
    """A cache of 3 rows of cores with 3 slots each: the iteration, and so the cores of an op, is that of the tokens."""
    grid, slots, width = 3, 3, 6
    cache, row = tensor((grid * slots, width), "f32"), tensor((1, width), "f32")
    text = f"""
    func.func @main(%c: {cache}, %r: {row}) -> {cache} {{
      %n = wafer.dist_append %c, %r on {grid} : {cache}, {row} -> {cache}
      return %n : {cache}
    }}"""
    values = np.random.default_rng(3).normal(size=(tokens + 1, width)).astype(np.float32)

    def spread(count: int) -> np.ndarray:  # as wafer.dist_append says; what no token has stays as it was
        matrix, first = np.zeros((grid * slots, width), np.float32), 0
        for at in range(grid):
            here = count // grid + (at >= grid - count % grid)
            for token in range(first, first + here):
                matrix[at * slots + token % slots] = values[token]
            first += here
        return matrix

    def known(count: int) -> np.ndarray:
        return spread(count).any(axis=1)

    (after,) = run(emit(text), spread(tokens), values[tokens:], tokens=tokens)
    np.testing.assert_array_equal(after[known(tokens + 1)], spread(tokens + 1)[known(tokens + 1)])


def refusal(tools, folder: Path, text: str) -> str:
    """Return what intarsia-wafer says of a program that CSL cannot say."""
    (folder / "refused.mlir").write_text(text)
    result = tools.run("intarsia-wafer", folder / "refused.mlir", f"--csl={folder / 'none'}", check=False)
    assert result.returncode == 1
    return result.stderr


def test_what_cannot_be_said_is_refused_by_name(tools, tmp_path: Path) -> None:
    """Routes that move, more queues than a core has, and folders that are there."""
    assert "route @broadcast_x moves with a loop" in refusal(tools, tmp_path, gemm(8, 8, 8, 4, "summa"))
    x, w = tensor((1, 18), "f32"), tensor((18, 18), "f32")
    chain = f"""
    func.func @main(%x: {x}, %v: {w}, %w: {w}) -> {x} {{
      %y = wafer.dist_gemv tree %x, %v on 9 : {x}, {w} -> {x}
      %z = wafer.dist_gemv tree %y, %w on 9 : {x}, {w} -> {x}
      return %z : {x}
    }}"""
    assert "CSL has 6 queues, 4 of them to send" in refusal(tools, tmp_path, chain)
    text = gemm(8, 8, 8, 4, "mesh")
    (tmp_path / "none" / "main").mkdir(parents=True)
    assert "sources are written into a new folder" in refusal(tools, tmp_path, text)
    many = "".join(
        f"  wafer.route @r{i} along x [#wafer.path<start = <start = 0, end = 1>, by = 1, color = {i}>]\n"
        for i in range(22)
    )
    target = (
        '#wafer.target<name = "wide", columns = 4, rows = 4, sram_bytes = 49152, reserved_bytes = 0, colors = 30, '
        + ", ".join(f"{name} = 1.0 : f64" for name in ("clock_ghz", "hop_cycles", "ramp_cycles", "link_bytes", "macs"))
        + ", "
        + ", ".join(f"{name}_cycles = 1.0 : f64" for name in ("loop", "product", "stage", "add", "element"))
        + ">"
    )
    colors = f"wafer.program @colors on {target} grid 2 by 1 {{\n{many}}}\n"
    assert "@colors has color 21, programs in CSL have colors 0 to 20" in refusal(tools, tmp_path, colors)


@pytest.mark.parametrize(
    ("file", "before", "after", "message"),
    [
        ("role_0.csl", "pending -= 1;", "pending -= 1", "; is expected"),
        ("role_0.csl", "waits = false;", "wait_for = false;", "wait_for is not declared"),
        ("role_0.csl", "@activate(advance_id);", "@start(advance_id);", "@start is no builtin"),
        ("role_0.csl", "var iteration: i16", "var iteration: i17", "i17 is no type"),
        ("role_0.csl", "fn go(next: i16)", "fn wait(next: i16)", "wait is declared twice"),
        ("role_0.csl", ".activate = done_1_id", ".activate = done_0_id", "two transfers activate one task"),
        ("role_0.csl", "@get_output_queue(3)", "@get_output_queue(2)", "has color"),
        ("role_0.csl", "if (iteration < 3)", "if (iteration < 2)", "words left"),
        ("role_0.csl", "  wait(2);", "  go(2);", "transfer"),
        ("layout.csl", ".rx = .{ EAST }, .tx = .{ WEST }", ".rx = .{ WEST }, .tx = .{ EAST }", "takes color"),
        ("layout.csl", "class_of_column[x] == 1", "class_of_column[x] == 7", "cores have no source"),
    ],
)
def test_the_parser_and_the_cores_find_mistakes(emit: Emit, file: str, before: str, after: str, message: str) -> None:
    """Each of the mistakes, put into sources that are right, is found."""
    folder = emit(gemm(9, 8, 10, 4, "mesh"))
    a, b = np.ones((9, 8), np.float16), np.eye(8, 10).astype(np.float16) + 1
    run(folder, a, b)
    source = (folder / file).read_text()
    assert before in source
    (folder / file).write_text(source.replace(before, after))
    with pytest.raises((csl.CslError, AssertionError), match=message):
        np.testing.assert_allclose(run(folder, a, b)[0], a.astype(np.float64) @ b, rtol=1e-5)
