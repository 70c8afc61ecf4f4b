# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The references of nn.cache_append and nn.cached_attention against NumPy, with the programs and formulas of the end-to-end tests.

Caches begin as NaN, quantized values as random bytes: what was never written must not influence results. Calls mix
sequences with different numbers of tokens. Tolerances are those of the end-to-end tests, of kernels that sum in f32.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from reference import Reference

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "test" / "EndToEnd"))
import test_caches as plain
import test_quantized_caches as quantized

HEADS, KEY_HEADS, PAGE, PAGES, ENTRIES = 6, 2, 32, 20, 6
assert (HEADS, KEY_HEADS, PAGES, ENTRIES) == (plain.HEADS, plain.KEY_HEADS, plain.PAGES, plain.ENTRIES)
assert (HEADS, KEY_HEADS, PAGE, PAGES) == (quantized.HEADS, quantized.KEY_HEADS, quantized.PAGE, quantized.PAGES)

#: (sequence, tokens) of each call.
MIXTURES = [[(0, 7)], [(1, 50), (0, 1)], [(2, 66), (1, 3), (0, 1)], [(0, 1), (1, 1), (2, 1)], [(0, 55)]]


def compiled(tools, folder: Path, program: str) -> Reference:
    """Compile `main` of a program without what it says about names, which only whole artifacts use."""
    return Reference(tools.path("intarsia-opt"), re.sub(r" \{nn\.[^}]*\}", "", program), folder)


def limits(window: int, soft_cap: float) -> str:
    return (f", window = {window} : i64" if window else "") + (f", soft_cap = {soft_cap} : f32" if soft_cap else "")


def garbage(array: np.ndarray) -> np.ndarray:
    """Fill an array with random bytes, which no result of the call may keep."""
    array.view(np.uint8)[...] = np.random.default_rng(9).integers(0, 256, array.view(np.uint8).shape)
    return array


def token_positions(mixture: list[tuple[int, int]], lengths: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Give sequences and positions of the tokens of a call, and make the sequences longer by them."""
    sequences = np.repeat([s for s, _ in mixture], [n for _, n in mixture])
    positions = np.concatenate([np.arange(lengths.get(s, 0), lengths.get(s, 0) + n) for s, n in mixture])
    for s, n in mixture:
        lengths[s] = lengths.get(s, 0) + n
    return sequences, positions


@pytest.mark.parametrize(
    ("cache", "integer", "window", "soft_cap", "sinks", "head_dim"),
    [
        ("f32", "i64", 0, 0.0, False, 48),
        ("f16", "i32", 40, 1.5, True, 24),
        ("bf16", "i64", 3, 0.0, True, 8),
        ("i8", "i64", 0, 1.5, False, 24),
        ("i8", "i32", 40, 0.0, True, 8),
    ],
)
def test_ragged_mixtures(tools, tmp_path, cache, integer, window, soft_cap, sinks, head_dim) -> None:
    reference = compiled(tools, tmp_path, plain.program(cache, integer, limits(window, soft_cap), sinks, head_dim))
    random, dtype = np.random.default_rng(5), np.dtype(plain.DTYPES[cache])
    # Entries that no sequence reaches are not pages.
    table = random.permutation(PAGES)[: 3 * ENTRIES].reshape(3, ENTRIES).astype(integer.replace("i", "int"))
    table[:, 3:] = -1
    keys = np.full((PAGES, KEY_HEADS, head_dim, PAGE), np.nan, dtype)
    values = np.full((PAGES, KEY_HEADS, PAGE, head_dim), np.nan, dtype)
    sink = random.standard_normal(HEADS).astype(np.float32)
    kept = np.full((3, 2, ENTRIES * PAGE, KEY_HEADS, head_dim), np.nan)
    lengths: dict[int, int] = {}
    for mixture in MIXTURES:
        sequences, positions = (array.astype(table.dtype) for array in token_positions(mixture, lengths))
        tokens = len(positions)
        query = random.standard_normal((tokens, HEADS, head_dim)).astype(np.float32)
        key, value = random.standard_normal((2, tokens, KEY_HEADS, head_dim)).astype(np.float32)
        actual, keys, values = reference(
            "main",
            [query, key, value, positions, sequences, table, sink, keys, values],
            [garbage(np.empty_like(query)), garbage(np.empty_like(keys)), garbage(np.empty_like(values))],
        )
        kept[sequences, 0, positions] = key.astype(dtype).astype(np.float64)
        kept[sequences, 1, positions] = value.astype(dtype).astype(np.float64)
        for row, (s, position) in enumerate(zip(sequences, positions, strict=True)):
            wanted = plain.expected(query[row], *kept[s], position, window, soft_cap, sink if sinks else None)
            assert np.abs(actual[row] - wanted).max() <= 4e-6, (mixture, row)
    # The caches hold the rows, and nothing else was written.
    wanted_keys, wanted_values = np.full_like(keys, np.nan), np.full_like(values, np.nan)
    for s, length in lengths.items():
        for position in range(length):
            page, slot = table[s, position // PAGE], position % PAGE
            wanted_keys[page, ..., slot], wanted_values[page, :, slot] = kept[s, :, position].astype(dtype)
    np.testing.assert_array_equal(keys.view(np.uint8), wanted_keys.view(np.uint8))
    np.testing.assert_array_equal(values.view(np.uint8), wanted_values.view(np.uint8))


def test_e4m3(tools, tmp_path) -> None:
    """Every bit pattern is stored as it is; other values are rounded as ml_dtypes does, and saturate."""
    patterns = np.array([bits for bits in range(256) if bits & 0x7F != 0x7F], np.uint8)
    exact = patterns.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    middles = (exact[:-1] + exact[1:])[exact[:-1] * exact[1:] > 0] / 2
    outside = [1e9, -1e9, np.inf, -np.inf, 1e-9, -1e-9, 460, 479]
    values = np.concatenate([exact, middles, np.nextafter(middles, np.float32(0)), outside]).astype(np.float32)
    rows = np.resize(values, (8, 4, 32))
    assert rows.size >= values.size
    wanted = np.clip(rows, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    mlir = """
      func.func @f(%c: tensor<?x4x2x32xi8>, %r: tensor<?x4x32xf32>, %p: tensor<?xi64>, %s: tensor<?xi64>,
                   %t: tensor<?x?xi64>) -> tensor<?x4x2x32xi8> {
        %0 = nn.cache_append(%c) <values, f8E4M3FN, page = 2>, %r, %p, %s, %t : (tensor<?x4x2x32xi8>, tensor<?x4x32xf32>, tensor<?xi64>,
            tensor<?xi64>, tensor<?x?xi64>) -> tensor<?x4x2x32xi8>
        return %0 : tensor<?x4x2x32xi8>
      }"""
    cache = np.full((4, 4, 2, 32), 77, np.int8)
    inputs = [cache.copy(), rows, np.arange(8), np.zeros(8, np.int64), np.array([[2, 0, 3, 1]])]
    actual = compiled(tools, tmp_path, mlir)("f", inputs, [garbage(np.empty_like(cache))])[0]
    cache[[2, 0, 3, 1]] = wanted.view(np.int8).reshape(4, 2, 4, 32).swapaxes(1, 2)
    np.testing.assert_array_equal(actual, cache)


def check_quantized(
    state: dict[str, np.ndarray], page: int, slot: slice | int, kind: str, groups: np.ndarray, bits: int
):
    stored, scales, zeros = quantized.quantize(groups, bits)
    np.testing.assert_array_equal(state[kind][page][:, slot].view(np.uint8), quantized.packed(stored, bits))
    parameters = state["key_parameters" if kind == "keys" else "value_parameters"][page]
    np.testing.assert_array_equal(parameters[:, 0, slot].view(np.uint8), scales)
    np.testing.assert_array_equal(parameters[:, 1, slot], zeros.astype(np.uint8).view(np.int8))


def quantized_state(bits: int, head_dim: int, sequences: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    shapes = {
        "keys": (PAGES, KEY_HEADS, head_dim, PAGE * bits // 8),
        "key_parameters": (PAGES, KEY_HEADS, 2, head_dim),
        "values": (PAGES, KEY_HEADS, PAGE, head_dim * bits // 8),
        "value_parameters": (PAGES, KEY_HEADS, 2, PAGE),
        "tail": (sequences, KEY_HEADS, head_dim, PAGE),
    }
    state = {name: random.integers(-128, 128, shape, np.int8) for name, shape in shapes.items()}
    state["tail"] = np.full(shapes["tail"], np.nan, np.float16)
    return state


@pytest.mark.parametrize(
    ("bits", "head_dim", "window", "soft_cap", "sinks"),
    [(4, 32, 0, 0.0, False), (8, 24, 0, 0.0, True), (4, 64, 40, 1.5, True), (8, 10, 3, 1.5, False)],
)
def test_ragged_mixtures_of_quantized_values(tools, tmp_path, bits, head_dim, window, soft_cap, sinks) -> None:
    program = quantized.program(bits, head_dim, limits(window, soft_cap), sinks)
    compiled_program = compiled(tools, tmp_path, program)
    random = np.random.default_rng(5)
    table = random.permutation(PAGES)[: 3 * ENTRIES].reshape(3, ENTRIES)
    table[:, 4:] = -1
    state = quantized_state(bits, head_dim, 3, random)
    first = {name: array.copy() for name, array in state.items()}
    sink = random.standard_normal(HEADS).astype(np.float32)
    wanted = quantized.Reference(bits, window, soft_cap, sink if sinks else None)
    # Scales and zeros of channels exist for channels that are far from zero.
    offset = 4 * random.standard_normal((KEY_HEADS, head_dim)).astype(np.float32)
    lengths: dict[int, int] = {}
    # The last two calls begin sequence 2 anew in the pages that it has.
    for mixture in [*MIXTURES, [(2, 40), (1, 11)], [(2, 24)]]:
        if mixture[0] == (2, 40):
            lengths[2] = 0
            wanted.keys.pop(2), wanted.values.pop(2)
        sequences, positions = token_positions(mixture, lengths)
        tokens = len(positions)
        query = random.standard_normal((tokens, HEADS, head_dim)).astype(np.float32)
        key, value = random.standard_normal((2, tokens, KEY_HEADS, head_dim)).astype(np.float32)
        key += offset
        tail = state["tail"].copy()  # the call may update its inputs
        outputs = [garbage(np.empty_like(array)) for array in (query, *state.values())]
        actual, *updated = compiled_program(
            "main", [query, key, value, positions, sequences, table, sink, *state.values()], outputs
        )
        state = dict(zip(state, updated, strict=True))
        for row, s in enumerate(sequences):
            wanted.add(s, key[row], value[row])
        for row, (s, position) in enumerate(zip(sequences, positions, strict=True)):
            error = np.abs(actual[row] - wanted.attend(s, position, query[row])).max()
            assert error <= 3e-5, (mixture, row, error)
        # Rows of a page that ends in this call are not kept.
        for row, (s, position) in enumerate(zip(sequences, positions, strict=True)):
            if position // PAGE == (lengths[s] - 1) // PAGE:
                tail[s, ..., position % PAGE] = key[row]
        np.testing.assert_array_equal(state["tail"].view(np.uint16), tail.view(np.uint16))
    for s, length in lengths.items():
        for entry in range(length // PAGE):
            check_quantized(state, table[s, entry], slice(None), "keys", wanted.page_of_keys(s, entry), bits)
        for position in range(length):
            check_quantized(
                state, table[s, position // PAGE], position % PAGE, "values", wanted.values[s][position], bits
            )
    unused = np.setdiff1d(np.arange(PAGES), table)
    for name in ("keys", "key_parameters", "values", "value_parameters"):
        np.testing.assert_array_equal(state[name][unused], first[name][unused])


@pytest.mark.parametrize("bits", [4, 8])
def test_extreme_groups(tools, tmp_path, bits) -> None:
    """Equal, zero, huge and tiny elements, and those far from zero."""
    rows = np.zeros((PAGE, KEY_HEADS, 32), np.float32)
    rows[:, :, 1] = 3.0
    rows[:, :, 2] = -1e-7
    rows[:, :, 3] = np.linspace(100, 101, PAGE)[:, None]
    rows[:, :, 4] = np.linspace(-65504, 65504, PAGE)[:, None]
    rows[:, :, 5] = np.linspace(-3e-8, 3e-8, PAGE)[:, None]
    rows[0, :, 6] = 7.0
    rows = rows.astype(np.float16).astype(np.float32)
    values = rows.copy()
    values[1, :, 7] = 1e7  # beyond the largest scale
    state = quantized_state(bits, 32, 1, np.random.default_rng(8))
    query, positions = np.zeros((PAGE, HEADS, 32), np.float32), np.arange(PAGE)
    _, *updated = compiled(tools, tmp_path, quantized.program(bits, 32))(
        "main",
        [query, rows, values, positions, 0 * positions, np.array([[3]]), np.zeros(HEADS, np.float32), *state.values()],
        [garbage(np.empty_like(array)) for array in (query, *state.values())],
    )
    state = dict(zip(state, updated, strict=True))
    check_quantized(state, 3, slice(None), "keys", np.moveaxis(rows, 0, -1), bits)
    with np.errstate(over="ignore"):
        check_quantized(state, 3, slice(None), "values", np.moveaxis(values, 0, 1), bits)
