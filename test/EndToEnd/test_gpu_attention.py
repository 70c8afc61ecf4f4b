# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The attention kernels of GPUs on emulated ones, against NumPy in float64.

Shapes are random and ragged: tiles that are not full, heads of few and of many features, pages that begin and end
anywhere. Caches begin as NaN or as random bytes: what was not written must not be read.
"""

from __future__ import annotations

from dataclasses import dataclass

import intarsia
import ml_dtypes
import numpy as np
import pytest
from programs import SCHEDULES, build, in_turn, one_of_each_vendor, random_cases
from test_quantized_caches import dequantized

# One architecture for each size of a warp and each vendor, and that of matrix instructions of four warps.
EMULATED = ("sm_80", "sm_90a", "gfx942", "gfx1100")
DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8E4M3FN": ml_dtypes.float8_e4m3fn}

#: The largest relative error of rounding to a type once.
UNITS = {"f32": 0.0, "f16": 2.0**-11, "bf16": 2.0**-8}

pytestmark = pytest.mark.cpu_only


def rounded(array: np.ndarray, element: str) -> np.ndarray:
    """Round to what matrix instructions multiply, which is what a precision permits; f32 leaves an array as it is."""
    return array.astype(np.float64) if element == "f32" else array.astype(DTYPES[element]).astype(np.float64)


def attend(query, keys, values, scale, bias=0.0, soft_cap=0.0, sink=-np.inf) -> np.ndarray:
    """Attention of rows [..., n, head_dim] over keys [..., m, head_dim]; zeros where a row sees no key."""
    scores = scale * query.astype(np.float64) @ np.swapaxes(keys.astype(np.float64), -1, -2)
    if soft_cap:
        scores = soft_cap * np.tanh(scores / soft_cap)
    scores = scores + bias
    largest = np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), sink)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True) + np.exp(sink - largest)
    return weights @ values.astype(np.float64) / np.where(total == 0, 1, total)


@dataclass
class Dense:
    """A kernel around nn.attention."""

    head_dim: int
    value_dim: int
    heads: int
    key_heads: int
    element: str = "f32"
    mask: str = ""
    causal: bool = False
    mask_shape: str = "batch,1,1,keys"
    precision: str = ""

    @property
    def multiplied(self) -> str:
        """The type that kernels round operands in f32 and powers to."""
        has_matrices = max(self.head_dim, self.value_dim) <= 128 and self.precision in ("f16", "bf16")
        return self.precision if has_matrices and self.element == "f32" else self.element

    def program(self) -> str:
        extent = {"batch": "?", "heads": str(self.heads), "queries": "?", "keys": "?", "1": "1"}
        names = self.mask_shape.split(",")
        mask = f"tensor<{'x'.join(extent[name] for name in names)}x{self.mask or 'f32'}>"
        sizes = ", ".join(f'"{name}"' if extent[name] == "?" else '""' for name in names)
        q = f"tensor<?x?x{self.heads}x{self.head_dim}x{self.element}>"
        k = f"tensor<?x?x{self.key_heads}x{self.head_dim}x{self.element}>"
        v = f"tensor<?x?x{self.key_heads}x{self.value_dim}x{self.element}>"
        o = f"tensor<?x?x{self.heads}x{self.value_dim}x{self.element}>"
        attributes = "scale = 0.2 : f32" + (", causal" if self.causal else "")
        attributes += f", precision = {self.precision}" if self.precision else ""
        return f"""
func.func @main(%q: {q} {{nn.name = "q", nn.sizes = ["batch", "queries", "", ""]}},
    %k: {k} {{nn.name = "k", nn.sizes = ["batch", "keys", "", ""]}},
    %v: {v} {{nn.name = "v", nn.sizes = ["batch", "keys", "", ""]}},
    %m: {mask} {{nn.name = "m", nn.sizes = [{sizes}]}}) -> {o} {{
  %o = nn.attention %q, %k, %v {"mask %m" if self.mask else ""} {{{attributes}}} :
      ({q}, {k}, {v}{", " + mask if self.mask else ""}) -> {o}
  return %o : {o}
}}
"""

    def bias(self, mask: np.ndarray, batch: int, head: int, queries: int, keys: int) -> np.ndarray:
        shape = (mask.shape[0], mask.shape[1], mask.shape[2], keys)
        mask = mask.reshape(shape)[batch % shape[0], head % shape[1]]
        bias = np.zeros((queries, keys))
        if self.mask == "i1":
            bias = bias + np.where(mask, 0.0, -np.inf)
        elif self.mask:
            bias = bias + mask.astype(np.float64)
        if self.causal:
            visible = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
            bias = np.where(visible, bias, -np.inf)
        return bias


DENSE = {
    "encoder": Dense(64, 64, 4, 4, mask="i1"),
    "causal": Dense(128, 128, 4, 2, causal=True),
    "ragged": Dense(24, 40, 3, 1, mask="f32", mask_shape="batch,heads,queries,keys", causal=True),
    "odd": Dense(13, 7, 2, 2, mask="f32", mask_shape="1,1,queries,keys"),
    "wide": Dense(192, 128, 2, 1, causal=True),
    "f16": Dense(64, 64, 2, 2, element="f16", mask="i1", mask_shape="1,heads,1,keys"),
    "bf16": Dense(80, 56, 2, 1, element="bf16", causal=True),
    "odd-f16": Dense(20, 44, 3, 1, element="f16", causal=True),
}
#: Operands in f32 that may be rounded, and those that stay as they are: of too many features, or of 16 bits already.
ROUNDED = {
    "rounded-encoder": Dense(64, 64, 4, 4, mask="i1", precision="f16"),
    "rounded-causal": Dense(128, 128, 4, 2, causal=True, precision="bf16"),
    "rounded-ragged": Dense(24, 40, 3, 1, mask="f32", mask_shape="batch,heads,queries,keys", precision="f16"),
    "rounded-odd": Dense(13, 7, 2, 2, mask="f32", mask_shape="1,1,queries,keys", precision="bf16"),
    "exact-wide": Dense(192, 128, 2, 1, causal=True, precision="f16"),
    "exact-tf32": Dense(64, 64, 2, 1, precision="tf32"),
    "narrow": Dense(64, 64, 2, 2, element="f16", precision="bf16"),
}


#: Shapes of which blocks of keys are many: all numbers of columns that values may have, and what registers hold.
LONG = {
    "full": Dense(128, 128, 2, 1, element="f16", causal=True),
    "masked": Dense(64, 96, 2, 2, element="bf16", mask="f32", mask_shape="1,heads,queries,keys"),
    "odd": Dense(20, 108, 1, 1, element="f16", mask="i1", mask_shape="batch,1,queries,keys", causal=True),
}


@pytest.mark.parametrize(
    ("name", "architecture"),
    in_turn(DENSE | ROUNDED, EMULATED)
    # Matrices of other layouts.
    + [(name, architecture) for name in ("f16", "bf16") for architecture in ("gfx950", "gfx1201")],
)
def test_dense(tools, scratch, name: str, architecture: str) -> None:
    case, random = (DENSE | ROUNDED)[name], np.random.default_rng(len(name))
    module = build(tools, scratch / f"{name}-{architecture}", case.program(), target=f"emulated:{architecture}")
    for _ in range(4):
        check_dense(
            case, module, random, int(random.integers(1, 3)), int(random.integers(1, 80)), int(random.integers(1, 80))
        )


def check_dense(case: Dense, module, random: np.random.Generator, batch: int, queries: int, keys: int) -> None:
    """Compare a call with random operands of these sizes."""
    dtype = DTYPES[case.element]
    q = random.standard_normal((batch, queries, case.heads, case.head_dim)).astype(dtype)
    k = random.standard_normal((batch, keys, case.key_heads, case.head_dim)).astype(dtype)
    v = random.standard_normal((batch, keys, case.key_heads, case.value_dim)).astype(dtype)
    extent = {"batch": batch, "heads": case.heads, "queries": queries, "keys": keys, "1": 1}
    shape = tuple(extent[part] for part in case.mask_shape.split(","))
    mask = random.random(shape) < 0.6 if case.mask == "i1" else random.standard_normal(shape).astype(np.float32)
    actual = module.main(q=q, k=k, v=v, m=mask).astype(np.float64)
    q, k, v = (rounded(array, case.multiplied) for array in (q, k, v))
    for b in range(batch):
        for h in range(case.heads):
            g = h // (case.heads // case.key_heads)
            bias = case.bias(mask, b, h, queries, keys)
            wanted = attend(q[b, :, h], k[b, :, g], v[b, :, g], 0.2, bias)
            # Scores up to 15 have roundings of 1e-6, relative to e^x, and values are up to 4. Weights and results of
            # 16 bits are rounded to them.
            magnitude = attend(q[b, :, h], k[b, :, g], np.abs(v[b, :, g]), 0.2, bias)
            rounding = UNITS[case.element] * np.abs(wanted) + UNITS[case.multiplied] * magnitude
            error = np.abs(actual[b, :, h] - wanted) - rounding
            assert error.max() <= 1e-5, (b, h, queries, keys)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", LONG)
def test_long_dense(tools, scratch, monkeypatch, name: str, schedule: str) -> None:
    """Tiles of both groups of four warps, and blocks of keys that take turns in the buffers of shared memory."""
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    case, random = LONG[name], np.random.default_rng(3)
    module = build(tools, scratch / f"{name}-long", case.program(), target="emulated:sm_90a")
    for queries, keys in ((150, 300), (70, 257), (129, 64), (3, 200)):
        check_dense(case, module, random, 1, queries, keys)


@pytest.mark.parametrize("architecture", EMULATED)
def test_random_dense_shapes(tools, tmp_path, monkeypatch, architecture: str) -> None:
    random = np.random.default_rng(11)
    for number in random_cases(monkeypatch, usual=2):
        head_dim, value_dim, key_heads, group, batch, queries, keys = (
            int(size) for size in random.integers(1, [140, 140, 4, 4, 3, 150, 200])
        )
        case = Dense(
            head_dim,
            value_dim,
            key_heads * group,
            key_heads,
            element=("f16", "f32", "bf16")[(number + number // 3) % 3],
            mask=("", "i1", "f32")[number % 3],
            causal=number % 2 == 1,
            mask_shape=("batch,1,1,keys", "1,heads,queries,keys")[number // 2 % 2],
        )
        module = build(tools, tmp_path, case.program(), target=f"emulated:{architecture}")
        check_dense(case, module, random, batch, queries, keys)


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize("architecture", one_of_each_vendor(*EMULATED))
def test_schedules(tools, scratch, monkeypatch, architecture: str, schedule: str) -> None:
    """A missing barrier shows when warps run one after the other."""
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    test_dense(tools, scratch, "f16", architecture)
    test_cached(tools, scratch, "f16", architecture)


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize("architecture", one_of_each_vendor(*EMULATED))
def test_schedules_of_rounding(tools, scratch, monkeypatch, architecture: str, schedule: str) -> None:
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    test_dense(tools, scratch, "rounded-causal", architecture)
    test_cached(tools, scratch, "rounded-int8", architecture)


@dataclass
class Cached:
    """Kernels around caches in the layout of GPUs."""

    keys: str
    values: str
    head_dim: int
    value_dim: int
    heads: int
    key_heads: int
    window: int = 0
    soft_cap: float = 0.0
    sinks: bool = False
    query: str = "f32"
    integer: str = "i64"
    precision: str = ""
    far: float = 1.0  # what queries are multiplied by, and the scale divided

    def multiplied(self, tokens: int) -> str:
        """The type that operands and powers are rounded to in a call of so many tokens."""
        has_tiles = tokens > 4 * SEQUENCES and max(self.head_dim, self.value_dim) <= 128
        exact = {self.keys, self.values} <= {"f16", "f8E4M3FN"}
        if not has_tiles or not self.precision or (self.precision == "tf32" and not exact):
            return "f32"
        return "f16" if exact else self.precision

    @staticmethod
    def tensors(kind: str, element: str, heads: int, features: int) -> list[tuple[str, str, str]]:
        """Name, size of the first dimension and type of each tensor of a cache."""
        if not element.startswith("ui"):
            stored = "i8" if element.startswith("f8") else element
            return [(kind, "pages", f"tensor<?x{heads}x32x{features}x{stored}>")]
        bits = int(element[2:])
        groups = features if kind == "keys" else 32
        result = [
            (kind, "pages", f"tensor<?x{heads}x32x{features * bits // 8}xi8>"),
            (f"{kind}_parameters", "pages", f"tensor<?x{heads}x2x{groups}xi8>"),
        ]
        return result + ([("tail", "sequences", f"tensor<?x{heads}x32x{features}xf16>")] if kind == "keys" else [])

    def program(self) -> str:
        keys = self.tensors("keys", self.keys, self.key_heads, self.head_dim)
        values = self.tensors("values", self.values, self.key_heads, self.value_dim)
        index, table = f"tensor<?x{self.integer}>", f"tensor<?x?x{self.integer}>"
        q, o = (f"tensor<?x{self.heads}x{features}x{self.query}>" for features in (self.head_dim, self.value_dim))
        k, v = (f"tensor<?x{self.key_heads}x{features}xf32>" for features in (self.head_dim, self.value_dim))
        sink = f"tensor<{self.heads}xf32>"
        arguments = [
            f'%q: {q} {{nn.name = "q", nn.sizes = ["tokens", "", ""]}}',
            f'%k: {k} {{nn.name = "k", nn.sizes = ["tokens", "", ""]}}',
            f'%v: {v} {{nn.name = "v", nn.sizes = ["tokens", "", ""]}}',
            f'%p: {index} {{nn.name = "p", nn.sizes = ["tokens"]}}',
            f'%s: {index} {{nn.name = "s", nn.sizes = ["tokens"]}}',
            f'%t: {table} {{nn.name = "t", nn.sizes = ["sequences", "entries"]}}',
            f'%z: {sink} {{nn.name = "z"}}',
        ]
        first = len(arguments)
        for name, size, type_ in keys + values:
            arguments.append(f'%{name}: {type_} {{nn.name = "{name}", nn.sizes = ["{size}", "", "", ""], nn.state}}')
        body, updated = [], {}
        for kind, format_, row, row_type, tensors in (
            ("keys", self.keys, "%k", k, keys),
            ("values", self.values, "%v", v, values),
        ):
            paged = [name for name, size, _ in tensors if size == "pages"]
            types = ", ".join(type_ for _, _, type_ in tensors)
            results = ", ".join(type_ for _, size, type_ in tensors if size == "pages")
            body.append(
                f"{', '.join(f'%{name}1' for name in paged)} = nn.cache_append("
                f"{', '.join(f'%{name}' for name, _, _ in tensors)}) <{kind}, {format_}, page = 32>, {row}, %p, %s, %t : "
                f"({types}, {row_type}, {index}, {index}, {table}) -> ({results})"
            )
            updated |= {name: f"%{name}1" for name in paged}
        read = {
            kind: ", ".join(updated.get(name, f"%{name}") for name, _, _ in tensors)
            for kind, tensors in (("keys", keys), ("values", values))
        }
        has_tail = any(name == "tail" for name, _, _ in keys)
        attributes = f"scale = {0.15 / self.far:.9e} : f32"
        attributes += f", precision = {self.precision}" if self.precision else ""
        attributes += f", window = {self.window} : i64" if self.window else ""
        attributes += f", soft_cap = {self.soft_cap} : f32" if self.soft_cap else ""
        body.append(
            f"%o = nn.cached_attention %q, ({read['keys']}) <keys, {self.keys}, page = 32>, ({read['values']}) "
            f"<values, {self.values}, page = 32>, %p, %s, %t {'rows %k' if has_tail else ''} "
            f"{'sinks %z' if self.sinks else ''} {{{attributes}}} : ({q}, "
            f"{', '.join(type_ for _, _, type_ in keys + values)}, {index}, {index}, {table}"
            f"{', ' + k if has_tail else ''}{', ' + sink if self.sinks else ''}) -> {o}"
        )
        if has_tail:
            tail = keys[-1][2]
            body.append(
                f"%tail1 = nn.cache_append(%tail) <keys, {self.keys}, page = 32>, %k, %p, %s {{tail}} : "
                f"({tail}, {k}, {index}, {index}) -> {tail}"
            )
        states = [name for name, _, _ in keys + values]
        types = {name: type_ for name, _, type_ in keys + values}
        results = [o] + [f"{types[name]} {{nn.state = {first + i} : i64}}" for i, name in enumerate(states)]
        returned = ["%o"] + [f"%{name}1" for name in states]
        newline = "\n  "
        return (
            f"func.func @main({', '.join(arguments)}) -> ({', '.join(results)}) {{\n  {newline.join(body)}\n"
            f"  return {', '.join(returned)} : {', '.join([o] + [types[name] for name in states])}\n}}\n"
        )


CACHED = {
    "f32": Cached("f32", "f32", 64, 64, 4, 2),
    "f16": Cached("f16", "f16", 128, 128, 8, 1, window=40, sinks=True, integer="i32"),
    "bf16": Cached("bf16", "f16", 48, 64, 6, 2, soft_cap=1.5),
    "fp8": Cached("f8E4M3FN", "f8E4M3FN", 64, 32, 3, 3, window=3, soft_cap=1.5, sinks=True),
    "int8": Cached("ui8", "ui8", 64, 64, 4, 2, window=40),
    "int4": Cached("ui4", "ui4", 64, 32, 4, 1, soft_cap=20.0, sinks=True),
    "mixed": Cached("ui4", "f16", 96, 96, 2, 2, query="f16"),
    "f16-query": Cached("f16", "f16", 64, 72, 4, 2, query="f16"),
    "bf16-query": Cached("bf16", "bf16", 80, 64, 4, 1, window=20, query="bf16"),
    "odd": Cached("f16", "ui8", 13, 22, 20, 2),
    "wide": Cached("f16", "f16", 320, 264, 2, 1),
}
#: Caches and queries that may be rounded, and those that stay as they are.
ROUNDED_CACHED = {
    "rounded-f32": Cached("f32", "f32", 64, 64, 4, 2, precision="f16"),
    "rounded-f16": Cached("f16", "f16", 128, 128, 8, 1, window=40, sinks=True, precision="bf16", far=2.0**20),
    "rounded-bf16": Cached("bf16", "f16", 48, 64, 6, 2, soft_cap=1.5, precision="bf16"),
    "rounded-fp8": Cached("f8E4M3FN", "f8E4M3FN", 64, 32, 3, 3, window=3, sinks=True, precision="tf32"),
    "rounded-int8": Cached("ui8", "ui8", 128, 128, 4, 2, window=40, precision="f16"),
    "rounded-int4": Cached("ui4", "ui4", 64, 32, 4, 1, soft_cap=20.0, sinks=True, precision="f16"),
    "rounded-int8-bf16": Cached("ui8", "ui4", 64, 96, 4, 2, precision="bf16"),
    "rounded-odd": Cached("ui8", "ui8", 13, 22, 20, 2, precision="f16"),
    "rounded-mixed": Cached("ui4", "f16", 96, 96, 2, 2, query="f16", precision="f16"),
    "exact-int8": Cached("ui8", "ui8", 64, 64, 4, 2, precision="tf32"),
    "exact-wide": Cached("ui8", "f16", 320, 264, 2, 1, precision="f16"),
}

#: (sequence, tokens) of each call: single tokens, which are split by keys, and many, which are computed in tiles.
MIXTURES = [
    [(0, 7)],
    [(1, 50), (0, 1)],
    [(2, 70), (1, 3), (0, 1)],
    [(0, 1), (1, 1), (2, 1)],
    [(2, 33), (0, 30)],
    [(1, 2)],
]
PAGES, ENTRIES, SEQUENCES = 16, 5, 3


@pytest.mark.parametrize(
    ("name", "architecture"),
    in_turn(CACHED | ROUNDED_CACHED, EMULATED),
)
def test_cached(tools, scratch, name: str, architecture: str) -> None:
    case = (CACHED | ROUNDED_CACHED)[name]
    module = build(tools, scratch / f"{name}-{architecture}", case.program(), target=f"emulated:{architecture}")
    check_cached(case, module, np.random.default_rng(7), MIXTURES)


@pytest.mark.parametrize("architecture", EMULATED)
def test_random_cached_shapes(tools, tmp_path, monkeypatch, architecture: str) -> None:
    random = np.random.default_rng(13)
    elements = ("f16", "ui8", "f32", "f8E4M3FN", "ui4", "bf16")
    for number in random_cases(monkeypatch, usual=2):
        keys, values = elements[number % 6], elements[(number // 6 + number) % 6]
        key_heads, group = (int(count) for count in random.integers(1, [4, 6]))
        # Heads in 4 bits are whole blocks of 32 features.
        head_dim, value_dim = (
            32 * -(-int(size) // 16) if element == "ui4" else 2 * int(size)
            for element, size in zip((keys, values), random.integers(1, 70, 2), strict=True)
        )
        case = Cached(
            keys,
            values,
            head_dim,
            value_dim,
            key_heads * group,
            key_heads,
            window=int(random.integers(0, 50)) * (number % 2),
            soft_cap=2.0 * (number % 3 == 1),
            sinks=number % 4 == 2,
            query=("f32", "f16", "bf16")[number // 2 % 3],
        )
        module = build(tools, tmp_path, case.program(), target=f"emulated:{architecture}")
        # A prompt, tokens one by one, and both in one call.
        prompt, other = (int(count) for count in random.integers(2, 70, 2))
        check_cached(case, module, random, [[(0, prompt)], [(0, 1), (1, other)], [(0, 1), (1, 1)], [(1, 5), (2, 40)]])


def check_cached(case: Cached, module, random: np.random.Generator, mixtures: list[list[tuple[int, int]]]) -> None:
    """Compare calls with random rows, each with some tokens of some sequences."""
    table = random.permutation(PAGES)[: SEQUENCES * ENTRIES].reshape(SEQUENCES, ENTRIES)
    table = table.astype(case.integer.replace("i", "int"))
    state = intarsia.make_state(module.main, pages=PAGES, sequences=SEQUENCES)
    for array in state.values():
        array.view(np.uint8)[...] = random.integers(0, 256, array.view(np.uint8).shape)
        if array.dtype != np.int8:
            array[...] = np.nan
    sink = random.standard_normal(case.heads).astype(np.float32)
    kept: list[tuple[list[np.ndarray], list[np.ndarray]]] = [([], []) for _ in range(SEQUENCES)]
    for mixture in mixtures:
        sequences = np.repeat([s for s, _ in mixture], [n for _, n in mixture])
        positions = np.concatenate([np.arange(len(kept[s][0]), len(kept[s][0]) + n) for s, n in mixture])
        tokens = len(positions)
        query = (case.far * random.standard_normal((tokens, case.heads, case.head_dim))).astype(DTYPES[case.query])
        multiplied = case.multiplied(tokens)
        key = random.standard_normal((tokens, case.key_heads, case.head_dim)).astype(np.float32)
        value = random.standard_normal((tokens, case.key_heads, case.value_dim)).astype(np.float32)
        actual = module.main(
            q=query, k=key, v=value, p=positions.astype(table.dtype), s=sequences.astype(table.dtype), t=table, z=sink,
            **state,
        )  # fmt: skip
        for row, s in enumerate(sequences):
            kept[s][0].append(key[row])
            kept[s][1].append(value[row])
        for row, (s, position) in enumerate(zip(sequences, positions, strict=True)):
            keys, values = (
                rounded(stored(case, kind, np.stack(kept[s][i]), position), multiplied)
                for i, kind in enumerate(("keys", "values"))
            )
            seen = case.far * rounded(query[row] / case.far, multiplied)
            first = max(0, position - case.window + 1) if case.window else 0
            # Each head's own, [heads, n, features].
            keys, values = (
                rows[first:].swapaxes(0, 1).repeat(case.heads // case.key_heads, axis=0) for rows in (keys, values)
            )
            sinks = sink[:, None, None] if case.sinks else -np.inf
            wanted = attend(seen[:, None], keys, values, 0.15 / case.far, 0.0, case.soft_cap, sinks)[:, 0]
            # Scores up to 20 have roundings of 1e-6, relative to e^x; values are up to 4. Results of 16 bits are
            # rounded to them; so are weights where queries are of 16 bits, or may be rounded.
            unit = max(UNITS[case.query], UNITS[multiplied])
            rounding = UNITS[case.query] * np.abs(wanted) + unit * np.abs(values).max((1, 2))[:, None]
            assert (np.abs(actual[row].astype(np.float64) - wanted) - rounding).max() <= 1e-5, (mixture, row)


@pytest.mark.parametrize("architecture", EMULATED)
def test_what_is_no_number_stays_so(tools, scratch, architecture: str) -> None:
    """E4M3 becomes f16 by arithmetic on bits."""
    case, tokens = ROUNDED_CACHED["rounded-fp8"], 20
    module = build(tools, scratch / f"nan-{architecture}", case.program(), target=f"emulated:{architecture}")
    query, key = np.ones((2, tokens, case.heads, case.head_dim), np.float32)
    value = np.ones((tokens, case.heads, case.value_dim), np.float32)
    value[7, 1, 5] = -np.nan
    actual = module.main(
        q=query, k=key, v=value, p=np.arange(tokens), s=np.zeros(tokens, np.int64), t=np.zeros((1, 1), np.int64),
        z=np.zeros(case.heads, np.float32), **intarsia.make_state(module.main, pages=1, sequences=1),
    )  # fmt: skip
    # Rows of the same tile that do not see it multiply it by zero, which is no number either.
    assert np.isnan(actual[7 : 7 + case.window, 1, 5]).all()
    others = np.ones(actual.shape, bool)
    others[:, 1, 5] = False
    assert np.isfinite(actual[others]).all()


def stored(case: Cached, kind: str, rows: np.ndarray, position: int) -> np.ndarray:
    """Give the rows [0, position] as the token at `position` sees them."""
    rows, element = rows[: position + 1], case.keys if kind == "keys" else case.values
    if not element.startswith("ui"):
        return rows.astype(DTYPES[element]).astype(np.float64)
    bits = int(element[2:])
    if kind == "values":
        return dequantized(rows, bits)
    seen = rows.astype(np.float16).astype(np.float64)
    for begin in range(0, position // 32 * 32, 32):
        page = rows[begin : begin + 32].astype(np.float16).astype(np.float32)
        seen[begin : begin + 32] = np.moveaxis(dequantized(np.moveaxis(page, 0, -1), bits), -1, 0)
    return seen
