# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over caches on the cores of wafers: values against NumPy, and where the shift of WaferLLM leaves tokens."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

GRIDS = [2, 3, 4, 5, 7, 8, 16, 31, 64]


@pytest.fixture(scope="module")
def simulate(tools, folder: Path) -> Callable[..., np.ndarray]:
    """Give a function that runs a program with inputs and tokens in its caches, and returns its output."""

    def run(text: str, tokens: int, *inputs: np.ndarray) -> np.ndarray:
        (folder / "attention.mlir").write_text(text)
        arguments = []
        for index, value in enumerate(inputs):
            np.save(folder / f"{index}.npy", value)
            arguments.append(f"--input=@{folder / f'{index}.npy'}")
        out = folder / "out.npy"
        arguments += [f"--output=@{out}", f"--tokens={tokens}", f"--json={folder / 'figures.json'}", "--memory"]
        tools.run("intarsia-wafer", folder / "attention.mlir", *arguments)
        (figures,) = json.loads((folder / "figures.json").read_text())
        assert figures["reserved_bytes"] < figures["bytes_in_use"] <= figures["bytes_per_core"]
        return np.load(out)

    return run


def rows_of_tokens(count: int, grid: int) -> list[list[int]]:
    """Append tokens one after another to the last row; before, each row that is longer than the first gives its oldest."""
    rows: list[list[int]] = [[] for _ in range(grid)]
    for token in range(count):
        given = [row.pop(0) if len(row) > len(rows[0]) else None for row in rows]
        for row, oldest in zip(rows, given[1:], strict=False):
            if oldest is not None:
                row.append(oldest)
        rows[-1].append(token)
        assert max(map(len, rows)) - min(map(len, rows)) <= 1
        assert [one for row in rows for one in row] == list(range(token + 1))
    return rows


def spread(tokens: np.ndarray, grid: int, slots: int) -> np.ndarray:
    """Put tokens `[tokens, width]` into the slots of their rows of cores; what has no token is NaN."""
    cache = np.full((grid * slots, tokens.shape[1]), np.nan, np.float32)
    for row, held in enumerate(rows_of_tokens(len(tokens), grid)):
        for token in held:
            cache[row * slots + token % slots] = tokens[token]
    return cache


@pytest.mark.parametrize("grid", GRIDS)
def test_appends_leave_tokens_spread_evenly(simulate, grid: int) -> None:
    """From empty caches to the last slot of full ones; each row of cores gives one token at most."""
    slots, width = 3, 2 * grid
    cache, row = f"tensor<{grid * slots}x{width}xf32>", f"tensor<1x{width}xf32>"
    text = f"""
    func.func @main(%c: {cache}, %r: {row}) -> {cache} {{
      %n = wafer.dist_append %c, %r on {grid} : {cache}, {row} -> {cache}
      return %n : {cache}
    }}"""
    tokens = np.random.default_rng(grid).standard_normal((grid * slots, width)).astype(np.float32)
    for count in {0, 1, grid - 1, grid, grid + 1, 2 * grid + grid // 2, slots * grid - 1}:
        before = np.nan_to_num(spread(tokens[:count], grid, slots), nan=7)
        got = simulate(text, count, before, tokens[count : count + 1])
        expected = spread(tokens[: count + 1], grid, slots)
        held = ~np.isnan(expected)
        assert held.sum() == (count + 1) * width
        np.testing.assert_array_equal(got[held], expected[held])


def pack(heads: np.ndarray, grid: int, columns: int) -> np.ndarray:
    """Place features `[rows, heads, features]` on the columns of cores, pairs (i, i + half) together."""
    rows, count, features = heads.shape
    pairs = -(-features // 2 // columns)
    packed = np.zeros((rows, grid, 2, pairs), heads.dtype)
    for head in range(count):
        for half in range(2):
            for pair in range(features // 2):
                core = head * columns + pair // pairs
                packed[:, core, half, pair % pairs] = heads[:, head, half * (features // 2) + pair]
    return packed.reshape(rows, -1)


def rotated(x: np.ndarray, positions: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Turn pairs of features `[rows, heads, features]`."""
    angle = positions[:, None, None] * frequencies
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], axis=-1)


CASES = [  # grid, heads, columns of each, features, slots, rows, tokens, window, cap
    (4, 2, 2, 8, 3, 2, 9, None, None),
    (5, 2, 2, 6, 4, 3, 20, None, 5.0),
    (7, 1, 7, 14, 2, 1, 1, None, None),
    (8, 8, 1, 4, 5, 2, 33, 6, None),
    (13, 2, 6, 20, 3, 4, 30, None, None),
    (16, 3, 5, 16, 2, 2, 31, 40, None),
    (32, 2, 16, 64, 2, 3, 50, None, None),
]


@pytest.mark.parametrize(("grid", "heads", "columns", "features", "slots", "rows", "count", "window", "cap"), CASES)
def test_attention_has_the_values_of_numpy(
    simulate, grid: int, heads: int, columns: int, features: int, slots: int, rows: int, count: int, window, cap
) -> None:
    """Heads on some columns each, sums over them, the largest score over rows of cores; scores that would overflow."""
    rng = np.random.default_rng(grid)
    query = rng.standard_normal((rows, heads, features)) * 8
    keys, values = rng.standard_normal((2, count, heads, features)) * 4
    frequencies = 10000.0 ** -(np.arange(features // 2) / (features // 2))
    positions = np.array([count - 1] + [int(p) for p in rng.integers(0, count, rows - 1)])
    if window:
        positions[:] = count - 1
    width = grid * 2 * -(-features // 2 // columns)
    q, k, p = f"tensor<{rows}x{width}xf32>", f"tensor<{grid * slots}x{width}xf32>", f"tensor<{rows}x1xf32>"
    f = f"tensor<1x{width // 2}xf32>"
    more = (f", window = {window}" if window else "") + (f", soft_cap = {cap} : f32" if cap else "")
    text = f"""
    func.func @main(%q: {q}, %k: {k}, %v: {k}, %p: {p}, %f: {f}) -> {q} {{
      %o = wafer.dist_attention %q, %k, %v, %p rotated by %f : {f} on {grid} heads {heads} columns {columns}
        {{scale = 0.5 : f32{more}}} : {q}, {k}, {k}, {p} -> {q}
      return %o : {q}
    }}"""
    placed = pack(np.broadcast_to(np.tile(frequencies, 2), (1, heads, features)).copy(), grid, columns)
    placed = placed.reshape(1, grid, 2, -1)[:, :, 0].reshape(1, -1)
    got = simulate(
        text,
        count,
        pack(query, grid, columns).astype(np.float32),
        np.nan_to_num(spread(pack(keys, grid, columns), grid, slots), nan=3.0),
        np.nan_to_num(spread(pack(values, grid, columns), grid, slots), nan=5.0),
        positions[:, None].astype(np.float32),
        placed.astype(np.float32),
    )
    scores = np.einsum("rhf,thf->hrt", rotated(query, positions, frequencies), keys) * 0.5
    if cap:
        scores = cap * np.tanh(scores / cap)
    token = np.arange(count)
    seen = token <= positions[:, None]
    if window:
        seen &= token > positions[:, None] - window
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("hrt,thf->rhf", weights / weights.sum(-1, keepdims=True), values)
    # Scores are sums in f32, whose errors powers multiply by their size.
    tolerance = 2e-7 * np.abs(scores[np.isfinite(scores)]).max() * np.abs(values).max()
    np.testing.assert_allclose(got, pack(expected, grid, columns), rtol=0, atol=tolerance)
