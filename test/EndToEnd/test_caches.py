# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nn.cache_append and nn.cached_attention through the whole compiler, against NumPy in float64.

Caches begin as NaN: a slot that was not written must not be read. Sequences come in ragged mixtures.
"""

from __future__ import annotations

import intarsia
import ml_dtypes
import numpy as np
import pytest
from programs import build

HEADS, KEY_HEADS, HEAD_DIM, PAGES, ENTRIES = 6, 2, 48, 20, 6
DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": ml_dtypes.float8_e4m3fn}

PROGRAM = """
func.func @main(%q: tensor<?xHxDxf32> {nn.name = "q", nn.sizes = ["tokens", "", ""]},
    %k: tensor<?xGxDxf32> {nn.name = "k", nn.sizes = ["tokens", "", ""]},
    %v: tensor<?xGxDxf32> {nn.name = "v", nn.sizes = ["tokens", "", ""]},
    %p: tensor<?xINTEGER> {nn.name = "p", nn.sizes = ["tokens"]}, %s: tensor<?xINTEGER> {nn.name = "s", nn.sizes = ["tokens"]},
    %t: tensor<?x?xINTEGER> {nn.name = "t", nn.sizes = ["sequences", "entries"]}, %z: tensor<Hxf32> {nn.name = "z"},
    %kc: tensor<?xGxDx32xCACHE> {nn.name = "kc", nn.sizes = ["pages", "", "", ""], nn.state},
    %vc: tensor<?xGx32xDxCACHE> {nn.name = "vc", nn.sizes = ["pages", "", "", ""], nn.state})
    -> (tensor<?xHxDxf32>, tensor<?xGxDx32xCACHE> {nn.state = 7 : i64}, tensor<?xGx32xDxCACHE> {nn.state = 8 : i64}) {
  %kn = nn.cache_append(%kc) <keys, ELEMENT, page = 32, transposed>, %k, %p, %s, %t : (tensor<?xGxDx32xCACHE>, tensor<?xGxDxf32>, tensor<?xINTEGER>, tensor<?xINTEGER>, tensor<?x?xINTEGER>) -> tensor<?xGxDx32xCACHE>
  %vn = nn.cache_append(%vc) <values, ELEMENT, page = 32>, %v, %p, %s, %t : (tensor<?xGx32xDxCACHE>, tensor<?xGxDxf32>, tensor<?xINTEGER>, tensor<?xINTEGER>, tensor<?x?xINTEGER>) -> tensor<?xGx32xDxCACHE>
  %o = nn.cached_attention %q, (%kn) <keys, ELEMENT, page = 32, transposed>, (%vn) <values, ELEMENT, page = 32>, %p, %s, %t SINKS {scale = 0.15 : f32 ATTRIBUTES} : (tensor<?xHxDxf32>, tensor<?xGxDx32xCACHE>, tensor<?xGx32xDxCACHE>, tensor<?xINTEGER>, tensor<?xINTEGER>, tensor<?x?xINTEGER> SINKTYPE) -> tensor<?xHxDxf32>
  return %o, %kn, %vn : tensor<?xHxDxf32>, tensor<?xGxDx32xCACHE>, tensor<?xGx32xDxCACHE>
}
"""


def program(
    cache: str, integer: str = "i64", attributes: str = "", sinks: bool = False, head_dim: int = HEAD_DIM
) -> str:
    text = (
        PROGRAM.replace("ELEMENT", "f8E4M3FN" if cache == "i8" else cache)
        .replace("CACHE", cache)
        .replace("INTEGER", integer)
        .replace("ATTRIBUTES", attributes)
    )
    text = text.replace("SINKTYPE", f", tensor<{HEADS}xf32>" if sinks else "").replace(
        "SINKS", "sinks %z" if sinks else ""
    )
    for letter, size in (("xH", HEADS), ("xG", KEY_HEADS), ("xD", head_dim)):
        text = text.replace(letter + "x", f"x{size}x").replace(letter + "x", f"x{size}x")
    return text.replace("tensor<Hx", f"tensor<{HEADS}x")


def expected(query, keys, values, position, window, soft_cap, sinks):
    """Attention of one token [heads, head_dim] over what its sequence has so far."""
    first = max(0, position - window + 1) if window else 0
    result = np.zeros(query.shape)
    for head in range(HEADS):
        group = head // (HEADS // KEY_HEADS)
        scores = 0.15 * keys[first : position + 1, group] @ query[head].astype(np.float64)
        if soft_cap:
            scores = soft_cap * np.tanh(scores / soft_cap)
        largest = max(scores.max(), sinks[head]) if sinks is not None else scores.max()
        weights = np.exp(scores - largest)
        total = weights.sum() + (np.exp(sinks[head] - largest) if sinks is not None else 0)
        result[head] = weights @ values[first : position + 1, group] / total
    return result


@pytest.mark.parametrize(
    ("cache", "integer", "window", "soft_cap", "sinks", "target"),
    [
        ("f32", "i64", 0, 0.0, False, "cpu"),
        ("f16", "i32", 0, 0.0, False, "cpu"),
        ("bf16", "i64", 0, 0.0, False, "cpu"),
        ("f32", "i64", 40, 0.0, False, "cpu"),
        ("f32", "i64", 3, 1.5, True, "cpu"),
        ("f32", "i64", 0, 1.5, False, "cpu"),
        ("f32", "i64", 0, 0.0, True, "cpu"),
        ("f16", "i64", 40, 1.5, True, "cpu:x86-64-v3"),
        ("f16", "i64", 0, 0.0, False, "cpu:x86-64"),
        ("i8", "i64", 0, 0.0, False, "cpu"),
        ("i8", "i64", 40, 1.5, True, "cpu:x86-64-v3"),
        ("i8", "i64", 0, 0.0, False, "cpu:x86-64"),
    ],
)
def test_ragged_mixtures(tools, scratch, cache, integer, window, soft_cap, sinks, target):
    check_mixtures(tools, scratch, cache, integer, window, soft_cap, sinks, target, HEAD_DIM)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3", "cpu:x86-64"])
@pytest.mark.parametrize(("cache", "head_dim"), [("f16", 8), ("f32", 24), ("i8", 24), ("bf16", 40), ("f16", 90)])
def test_sizes_of_heads(tools, scratch, cache, head_dim, target):
    """Heads whose features are no multiple of a vector."""
    check_mixtures(tools, scratch, cache, "i64", 40, 0.0, False, target, head_dim)


def check_mixtures(tools, scratch, cache, integer, window, soft_cap, sinks, target, head_dim):
    attributes = (f", window = {window} : i64" if window else "") + (
        f", soft_cap = {soft_cap} : f32" if soft_cap else ""
    )
    name = f"{cache}-{integer}-{window}-{soft_cap}-{sinks}-{head_dim}-{target.replace(':', '-')}"
    module = build(tools, scratch / name, program(cache, integer, attributes, sinks, head_dim), target=target)
    random, dtype = np.random.default_rng(5), np.dtype(DTYPES[cache])
    table = random.permutation(PAGES)[: 3 * ENTRIES].reshape(3, ENTRIES).astype(integer.replace("i", "int"))
    state = intarsia.make_state(module.main, pages=PAGES)
    for array in state.values():
        array.view(dtype)[...] = np.nan
    sink = random.standard_normal(HEADS).astype(np.float32)
    kept = [
        (np.zeros((ENTRIES * 32, KEY_HEADS, head_dim)), np.zeros((ENTRIES * 32, KEY_HEADS, head_dim))) for _ in range(3)
    ]
    lengths = [0, 0, 0]
    mixtures = [
        [(0, 7)],
        [(1, 50), (0, 1)],
        [(2, 100), (1, 3), (0, 1)],
        [(0, 1), (1, 1), (2, 1)],
        [(0, 150)],
        [(2, 33), (0, 1)],
    ]
    for mixture in mixtures:
        sequences = np.repeat([s for s, _ in mixture], [n for _, n in mixture])
        positions = np.concatenate([np.arange(lengths[s], lengths[s] + n) for s, n in mixture])
        query = random.standard_normal((len(positions), HEADS, head_dim)).astype(np.float32)
        key, value = random.standard_normal((2, len(positions), KEY_HEADS, head_dim)).astype(np.float32)
        actual = module.main(
            q=query,
            k=key,
            v=value,
            p=positions.astype(table.dtype),
            s=sequences.astype(table.dtype),
            t=table,
            z=sink,
            **state,
        )
        for s, n in mixture:
            lengths[s] += n
        for row, (s, position) in enumerate(zip(sequences, positions, strict=True)):
            kept[s][0][position] = key[row].astype(dtype).astype(np.float64)
            kept[s][1][position] = value[row].astype(dtype).astype(np.float64)
        for row, (s, position) in enumerate(zip(sequences, positions, strict=True)):
            wanted = expected(query[row], *kept[s], position, window, soft_cap, sink if sinks else None)
            # A sum of up to 160 products with weights that sum to one: some units of the last place.
            assert np.abs(actual[row] - wanted).max() <= 4e-6, (mixture, row)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3", "cpu:x86-64"])
def test_e4m3(tools, scratch, target):
    """Every bit pattern is written and read as it is; other values are rounded as ml_dtypes does, and saturate."""
    module = build(tools, scratch / f"e4m3-{target.replace(':', '-')}", program("i8"), target=target)
    patterns = np.array([bits for bits in range(256) if bits & 0x7F != 0x7F], np.uint8)
    exact = patterns.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    middles = (exact[:-1] + exact[1:])[exact[:-1] * exact[1:] > 0] / 2
    values = np.concatenate(
        [exact, middles, np.nextafter(middles, np.float32(0)), [1e9, -1e9, np.inf, -np.inf, 1e-9, -1e-9, 460, 479]]
    ).astype(np.float32)
    tokens = -(-values.size // (KEY_HEADS * HEAD_DIM))
    rows = np.zeros(tokens * KEY_HEADS * HEAD_DIM, np.float32)
    rows[: values.size] = values
    wanted = np.clip(rows, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    rows, wanted = (array.reshape(tokens, KEY_HEADS, HEAD_DIM) for array in (rows, wanted))
    state = intarsia.make_state(module.main, pages=tokens)
    everyone = np.arange(tokens)
    # Each token is the only one of its sequence: what attention gives is its value.
    actual = module.main(
        q=np.zeros((tokens, HEADS, HEAD_DIM), np.float32),
        k=rows,
        v=rows,
        p=0 * everyone,
        s=everyone,
        t=everyone.reshape(tokens, 1),
        z=np.zeros(HEADS, np.float32),
        **state,
    )
    assert np.array_equal(state["kc"][..., 0].view(np.uint8), wanted.view(np.uint8))
    assert np.array_equal(state["vc"][:, :, 0].view(np.uint8), wanted.view(np.uint8))
    assert np.array_equal(actual, wanted.astype(np.float32).repeat(HEADS // KEY_HEADS, axis=1))


@pytest.mark.parametrize("integer", ["i32", "i64"])
def test_computed_positions(tools, tmp_path, integer):
    """Positions that a kernel computes are checked before the kernels that use them as indices."""
    text = program("f32", integer).replace("%p, %s, %t", "%pp, %s, %t")
    module = build(
        tools, tmp_path, text.replace("  %kn =", f"  %pp = arith.addi %p, %p : tensor<?x{integer}>\n  %kn =")
    )
    random, dtype = np.random.default_rng(5), integer.replace("i", "int")
    key, value = random.standard_normal((2, 2, KEY_HEADS, HEAD_DIM)).astype(np.float32)
    state = intarsia.make_state(module.main, pages=PAGES)
    for array in state.values():
        array[...] = np.nan

    def attend(*halves: int) -> np.ndarray:
        return module.main(
            q=np.ones((2, HEADS, HEAD_DIM), np.float32),
            k=key,
            v=value,
            p=np.array(halves, dtype),
            s=np.arange(2).astype(dtype),
            t=np.arange(2 * ENTRIES).reshape(2, ENTRIES).astype(dtype),
            z=np.zeros(HEADS, np.float32),
            **state,
        )

    for half in (16 * ENTRIES, -1, 2**30):  # twice the last one is negative with 32 bits
        wrong = np.array([2 * half]).astype(dtype)[0]
        message = rf"element 1 of the computed positions is {wrong}, must be in \[0, {32 * ENTRIES}\)"
        with pytest.raises(intarsia.InvalidArgumentError, match=message):
            attend(0, half)
        assert all(np.isnan(array).all() for array in state.values())
    # Each token is the only one of its sequence: what attention gives is its value.
    assert np.array_equal(attend(0, 0), value.repeat(HEADS // KEY_HEADS, axis=1))
