# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantized caches through the whole compiler: values equal to NumPy's, attention against NumPy in float64.

The rule of #nn.cache_format is written down once more here, in float32. State begins as random bytes: what was
not written must not be read.
"""

from __future__ import annotations

import intarsia
import ml_dtypes
import numpy as np
import pytest
from programs import build

HEADS, KEY_HEADS, PAGE, PAGES, ENTRIES = 6, 2, 32, 20, 6

PROGRAM = """
func.func @main(%q: tensor<?xHxDxf32> {nn.name = "q", nn.sizes = ["tokens", "", ""]},
    %k: tensor<?xGxDxf32> {nn.name = "k", nn.sizes = ["tokens", "", ""]},
    %v: tensor<?xGxDxf32> {nn.name = "v", nn.sizes = ["tokens", "", ""]},
    %p: tensor<?xi64> {nn.name = "p", nn.sizes = ["tokens"]}, %s: tensor<?xi64> {nn.name = "s", nn.sizes = ["tokens"]},
    %t: tensor<?x?xi64> {nn.name = "t", nn.sizes = ["sequences", "entries"]}, %z: tensor<HTf32> {nn.name = "z"},
    %kc: tensor<?xGxDxKSi8> {nn.name = "keys", nn.sizes = ["pages", "", "", ""], nn.state},
    %kp: tensor<?xGx2xDTi8> {nn.name = "key_parameters", nn.sizes = ["pages", "", "", ""], nn.state},
    %vc: tensor<?xGx32xVSi8> {nn.name = "values", nn.sizes = ["pages", "", "", ""], nn.state},
    %vp: tensor<?xGx2x32xi8> {nn.name = "value_parameters", nn.sizes = ["pages", "", "", ""], nn.state},
    %kt: tensor<?xGxDx32xf16> {nn.name = "tail", nn.sizes = ["sequences", "", "", ""], nn.state})
    -> (tensor<?xHxDxf32>, tensor<?xGxDxKSi8> {nn.state = 7 : i64}, tensor<?xGx2xDTi8> {nn.state = 8 : i64},
        tensor<?xGx32xVSi8> {nn.state = 9 : i64}, tensor<?xGx2x32xi8> {nn.state = 10 : i64}, tensor<?xGxDx32xf16> {nn.state = 11 : i64}) {
  %k1, %kp1 = nn.cache_append(%kc, %kp, %kt) <keys, uiBITS, page = 32, transposed>, %k, %p, %s, %t : (tensor<?xGxDxKSi8>, tensor<?xGx2xDTi8>, tensor<?xGxDx32xf16>, tensor<?xGxDxf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?xGxDxKSi8>, tensor<?xGx2xDTi8>)
  %v1, %vp1 = nn.cache_append(%vc, %vp) <values, uiBITS, page = 32>, %v, %p, %s, %t : (tensor<?xGx32xVSi8>, tensor<?xGx2x32xi8>, tensor<?xGxDxf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> (tensor<?xGx32xVSi8>, tensor<?xGx2x32xi8>)
  %o = nn.cached_attention %q, (%k1, %kp1, %kt) <keys, uiBITS, page = 32, transposed>, (%v1, %vp1) <values, uiBITS, page = 32>, %p, %s, %t rows %k SINKS {scale = 0.15 : f32 ATTRIBUTES} : (tensor<?xHxDxf32>, tensor<?xGxDxKSi8>, tensor<?xGx2xDTi8>, tensor<?xGxDx32xf16>, tensor<?xGx32xVSi8>, tensor<?xGx2x32xi8>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>, tensor<?xGxDxf32> SINKTYPE) -> tensor<?xHxDxf32>
  %t1 = nn.cache_append(%kt) <keys, uiBITS, page = 32, transposed>, %k, %p, %s {tail} : (tensor<?xGxDx32xf16>, tensor<?xGxDxf32>, tensor<?xi64>, tensor<?xi64>) -> tensor<?xGxDx32xf16>
  return %o, %k1, %kp1, %v1, %vp1, %t1 : tensor<?xHxDxf32>, tensor<?xGxDxKSi8>, tensor<?xGx2xDTi8>, tensor<?xGx32xVSi8>, tensor<?xGx2x32xi8>, tensor<?xGxDx32xf16>
}
"""


def program(bits: int, head_dim: int, attributes: str = "", sinks: bool = False) -> str:
    text = PROGRAM.replace("ATTRIBUTES", attributes).replace("BITS", str(bits))
    text = text.replace("SINKTYPE", f", tensor<{HEADS}xf32>" if sinks else "")
    text = text.replace("SINKS", "sinks %z" if sinks else "")
    sizes = {"KS": PAGE * bits // 8, "VS": head_dim * bits // 8, "HT": HEADS, "DT": head_dim}
    for letters, size in sizes.items():
        text = text.replace(letters, f"{size}x")
    for letter, size in (("H", HEADS), ("G", KEY_HEADS), ("D", head_dim)):
        text = text.replace(f"x{letter}x", f"x{size}x").replace(f"x{letter}x", f"x{size}x")
    return text


def quantize(groups: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give quantized values [..., n], scale bytes and zeros [...] of f32 groups [..., n]."""
    low, high, largest = groups.min(-1), groups.max(-1), np.float32(2**bits - 1)
    if bits == 4:
        least = np.maximum((high - low) / largest, np.maximum(abs(low), abs(high)) / np.float32(127))
        zeros = (-128, 127)
    else:
        low, high = np.minimum(low, np.float32(0)), np.maximum(high, np.float32(0))
        least = (high - low) / largest
        zeros = (0, 255)
    scale_bytes = np.clip((least.astype(np.float16).view(np.uint16).astype(np.int64) + 127) >> 7, 1, 0xF7)
    scale = (scale_bytes << 7).astype(np.uint16).view(np.float16).astype(np.float32)
    zero = np.clip(np.rint(-low / scale), *zeros)
    quantized = np.clip(np.rint(groups / scale[..., None]) + zero[..., None], 0, largest)
    return quantized.astype(np.uint8), scale_bytes.astype(np.uint8), zero.astype(np.int64)


def dequantized(groups: np.ndarray, bits: int) -> np.ndarray:
    quantized, scale_bytes, zero = quantize(groups, bits)
    scale = (scale_bytes.astype(np.uint16) << 7).view(np.float16).astype(np.float64)
    return scale[..., None] * (quantized - zero[..., None].astype(np.float64))


def packed(quantized: np.ndarray, bits: int) -> np.ndarray:
    if bits == 8:
        return quantized
    blocks = quantized.reshape(*quantized.shape[:-1], -1, 2, 16)
    return (blocks[..., 0, :] | blocks[..., 1, :] << 4).reshape(*quantized.shape[:-1], -1)


class Reference:
    """The inputs of sequences so far, [position, head, feature] f32."""

    def __init__(self, bits: int, window: int, soft_cap: float, sinks: np.ndarray | None) -> None:
        self.bits, self.window, self.soft_cap, self.sinks = bits, window, soft_cap, sinks
        self.keys: dict[int, list[np.ndarray]] = {}
        self.values: dict[int, list[np.ndarray]] = {}

    def add(self, sequence: int, key: np.ndarray, value: np.ndarray) -> None:
        self.keys.setdefault(sequence, []).append(key.astype(np.float16).astype(np.float32))
        self.values.setdefault(sequence, []).append(value)

    def page_of_keys(self, sequence: int, entry: int) -> np.ndarray:
        """[head, feature, slot]"""
        rows = np.stack(self.keys[sequence][entry * PAGE : (entry + 1) * PAGE])
        return np.moveaxis(rows, 0, -1)

    def attend(self, sequence: int, position: int, query: np.ndarray, multiplied: type = np.float64) -> np.ndarray:
        """Attend over keys and values that are rounded to a type, as the query is."""
        keys = np.stack(self.keys[sequence][: position + 1]).astype(np.float64)
        for entry in range(position // PAGE):
            page = np.moveaxis(dequantized(self.page_of_keys(sequence, entry), self.bits), -1, 0)
            keys[entry * PAGE : (entry + 1) * PAGE] = page
        values = dequantized(np.stack(self.values[sequence][: position + 1]), self.bits)
        query, keys, values = (array.astype(multiplied).astype(np.float64) for array in (query, keys, values))
        first = max(0, position - self.window + 1) if self.window else 0
        result = np.zeros(query.shape)
        for head in range(HEADS):
            group = head // (HEADS // KEY_HEADS)
            scores = 0.15 * keys[first:, group] @ query[head]
            if self.soft_cap:
                scores = self.soft_cap * np.tanh(scores / self.soft_cap)
            sink = -np.inf if self.sinks is None else self.sinks[head]
            largest = max(scores.max(), sink)
            weights = np.exp(scores - largest)
            result[head] = weights @ values[first:, group] / (weights.sum() + np.exp(sink - largest))
        return result


def make_state(module, sequences: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    state = intarsia.make_state(module.main, pages=PAGES, sequences=sequences)
    for array in state.values():
        array.view(np.uint8)[...] = random.integers(0, 256, array.view(np.uint8).shape)
    return state


#: (sequence, tokens) of each call; a sequence whose number comes negated begins anew in the pages that it has.
MIXTURES = [
    [(0, 7)],
    [(1, 50), (0, 1)],
    [(2, 100), (1, 3), (0, 1)],
    [(0, 1), (1, 1), (2, 1)],
    [(0, 22)],
    [(0, 1), (1, 10)],
    [(0, 150)],
    [(2, 33), (0, 1)],
    [(-2, 40), (1, 1)],
    [(2, 24)],
]


@pytest.mark.parametrize(
    ("bits", "head_dim", "window", "soft_cap", "sinks", "target"),
    [
        (4, 64, 0, 0.0, False, "cpu"),
        (8, 48, 0, 0.0, False, "cpu"),
        (4, 96, 40, 0.0, False, "cpu"),
        (8, 64, 3, 1.5, True, "cpu"),
        (4, 32, 0, 1.5, True, "cpu"),
        (4, 64, 40, 1.5, True, "cpu:x86-64-v3"),
        (8, 48, 0, 0.0, False, "cpu:x86-64"),
        (8, 24, 0, 0.0, False, "cpu"),
        (8, 40, 40, 1.5, True, "cpu:x86-64-v3"),
        (8, 90, 0, 0.0, False, "cpu"),
        (4, 64, 0, 0.0, False, "cpu:x86-64"),
    ],
)
def test_ragged_mixtures(tools, scratch, bits, head_dim, window, soft_cap, sinks, target):
    attributes = (f", window = {window} : i64" if window else "") + (
        f", soft_cap = {soft_cap} : f32" if soft_cap else ""
    )
    name = f"{bits}-{head_dim}-{window}-{soft_cap}-{sinks}-{target.replace(':', '-')}"
    module = build(tools, scratch / name, program(bits, head_dim, attributes, sinks), target=target)
    random = np.random.default_rng(5)
    table = random.permutation(PAGES)[: 3 * ENTRIES].reshape(3, ENTRIES)
    state = make_state(module, 3, random)
    sink = random.standard_normal(HEADS).astype(np.float32)
    reference = Reference(bits, window, soft_cap, sink if sinks else None)
    # Channels that are far from zero are what scales and zeros of channels are for.
    offset = 4 * random.standard_normal((KEY_HEADS, head_dim)).astype(np.float32)
    for mixture in MIXTURES:
        for s, _ in mixture:
            if s < 0:
                reference.keys.pop(-s), reference.values.pop(-s)
        mixture = [(abs(s), n) for s, n in mixture]
        begin = {s: len(reference.keys.get(s, [])) for s, _ in mixture}
        sequences = np.repeat([s for s, _ in mixture], [n for _, n in mixture])
        positions = np.concatenate([np.arange(begin[s], begin[s] + n) for s, n in mixture])
        query = random.standard_normal((len(positions), HEADS, head_dim)).astype(np.float32)
        key, value = random.standard_normal((2, len(positions), KEY_HEADS, head_dim)).astype(np.float32)
        key += offset
        actual = module.main(q=query, k=key, v=value, p=positions, s=sequences, t=table, z=sink, **state)
        for row, s in enumerate(sequences):
            reference.add(s, key[row], value[row])
        for row, (s, position) in enumerate(zip(sequences, positions, strict=True)):
            wanted = reference.attend(s, position, query[row])
            # Keys up to 20, scores up to 30 as dot products with quantized values: roundings, relative to e^x.
            assert np.abs(actual[row] - wanted).max() <= 3e-5, (mixture, row)
    for s in range(3):
        length = len(reference.keys[s])
        for entry in range(length // PAGE):
            quantized, scales, zeros = quantize(reference.page_of_keys(s, entry), bits)
            page = table[s, entry]
            assert np.array_equal(state["keys"][page].view(np.uint8), packed(quantized, bits))
            assert np.array_equal(state["key_parameters"][page, :, 0].view(np.uint8), scales)
            assert np.array_equal(state["key_parameters"][page, :, 1], zeros.astype(np.uint8).view(np.int8))
        quantized, scales, zeros = quantize(np.stack(reference.values[s]), bits)
        for position in range(length):
            page, slot = table[s, position // PAGE], position % PAGE
            assert np.array_equal(state["values"][page, :, slot].view(np.uint8), packed(quantized[position], bits))
            assert np.array_equal(state["value_parameters"][page, :, 0, slot].view(np.uint8), scales[position])
            assert np.array_equal(
                state["value_parameters"][page, :, 1, slot], zeros[position].astype(np.uint8).view(np.int8)
            )
        for position in range(length // PAGE * PAGE, length):
            assert np.array_equal(state["tail"][s, ..., position % PAGE], reference.keys[s][position])


@pytest.mark.cpu_is_enough  # GPUs are what it compiles for, whatever else is tested
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "gfx942", "gfx1100"])
@pytest.mark.parametrize(("bits", "head_dim", "precision"), [(8, 48, "f16"), (4, 64, "f16"), (8, 90, "bf16")])
def test_prompts_on_gpus(tools, scratch, bits, head_dim, precision, architecture):
    """Keys that lie transposed: queries, keys, values and powers are rounded to the precision, and nothing else."""
    multiplied, unit = {"f16": (np.float16, 2.0**-11), "bf16": (ml_dtypes.bfloat16, 2.0**-8)}[precision]
    module = build(
        tools, scratch / f"{architecture}-{bits}-{head_dim}", program(bits, head_dim, ", window = 70 : i64"), None,
        f"emulated:{architecture}", f"--matmul-precision={precision}",
    )  # fmt: skip
    random = np.random.default_rng(9)
    table, reference = random.permutation(PAGES)[:ENTRIES].reshape(1, ENTRIES), Reference(bits, 70, 0.0, None)
    state = make_state(module, 1, random)
    for begin, end in ((0, 45), (45, 130)):
        query = random.standard_normal((end - begin, HEADS, head_dim)).astype(np.float32)
        key, value = random.standard_normal((2, end - begin, KEY_HEADS, head_dim)).astype(np.float32)
        positions = np.arange(begin, end)
        actual = module.main(
            q=query, k=key, v=value, p=positions, s=0 * positions, t=table, z=np.zeros(HEADS, np.float32), **state
        )
        for row in range(end - begin):
            reference.add(0, key[row], value[row])
        for row, position in enumerate(positions):
            wanted = reference.attend(0, position, query[row], multiplied)
            # Values are up to 5; powers are rounded once more.
            assert np.abs(actual[row] - wanted).max() <= 5 * unit + 1e-5, position


@pytest.mark.parametrize("chunk", [1, 9, 32, 50])
def test_chunks_leave_what_the_whole_does(tools, scratch, chunk):
    module = build(tools, scratch / f"chunks-{chunk}", program(4, 64))
    random = np.random.default_rng(6)
    length = 150
    table = random.permutation(PAGES)[:ENTRIES].reshape(1, ENTRIES)
    query = random.standard_normal((length, HEADS, 64)).astype(np.float32)
    key, value = random.standard_normal((2, length, KEY_HEADS, 64)).astype(np.float32)
    results, states = [], []
    for step in (length, chunk):
        state = make_state(module, 1, np.random.default_rng(7))
        parts = []
        for begin in range(0, length, step):
            rows = slice(begin, min(begin + step, length))
            positions = np.arange(rows.start, rows.stop)
            parts.append(
                module.main(
                    q=query[rows], k=key[rows], v=value[rows], p=positions, s=0 * positions, t=table,
                    z=np.zeros(HEADS, np.float32), **state,
                )
            )  # fmt: skip
        results.append(np.concatenate(parts))
        states.append(state)
    # The same values, up to 4, summed up in another order: rows of a tile decide how many sums are in flight.
    assert np.abs(results[0] - results[1]).max() <= 4e-6
    for name, array in states[0].items():
        if name == "tail":
            array, other = array[..., : length % PAGE], states[1][name][..., : length % PAGE]
        else:
            other = states[1][name]
        assert np.array_equal(array.view(np.uint8), other.view(np.uint8)), name


@pytest.mark.parametrize("bits", [4, 8])
def test_extreme_groups(tools, scratch, bits):
    """Equal, zero, huge and tiny elements, and those far from zero."""
    module = build(tools, scratch / f"extreme-{bits}", program(bits, 64))
    rows = np.zeros((PAGE, KEY_HEADS, 64), np.float32)
    rows[:, :, 1] = 3.0
    rows[:, :, 2] = -1e-7
    rows[:, :, 3] = np.linspace(100, 101, PAGE)[:, None]
    rows[:, :, 4] = np.linspace(-65504, 65504, PAGE)[:, None]
    rows[:, :, 5] = np.linspace(-3e-8, 3e-8, PAGE)[:, None]
    rows[0, :, 6] = 7.0
    rows = rows.astype(np.float16).astype(np.float32)
    state = make_state(module, 1, np.random.default_rng(8))
    query = np.zeros((PAGE, HEADS, 64), np.float32)
    positions = np.arange(PAGE)
    module.main(
        q=query, k=rows, v=rows, p=positions, s=0 * positions, t=np.array([[3]]), z=np.zeros(HEADS, np.float32), **state
    )
    for values_name, parameters_name, groups in (
        ("keys", "key_parameters", np.moveaxis(rows, 0, -1)),
        ("values", "value_parameters", np.moveaxis(rows, 0, 1)),
    ):
        quantized, scales, zeros = quantize(groups, bits)
        assert np.array_equal(state[values_name][3].view(np.uint8), packed(quantized, bits))
        assert np.array_equal(state[parameters_name][3, :, 0].view(np.uint8), scales)
        assert np.array_equal(state[parameters_name][3, :, 1], zeros.astype(np.uint8).view(np.int8))


class UnrotatedReference(Reference):
    """Pages hold keys as before their rotary embedding: turned back by the angles of their positions."""

    def __init__(self, bits: int, frequencies: np.ndarray, interleaved: bool) -> None:
        super().__init__(bits, 0, 0.0, None)
        self.frequencies, self.interleaved = frequencies.astype(np.float64), interleaved

    def turned(self, keys: np.ndarray, first: int, sign: int) -> np.ndarray:
        """Turn keys [slot, head, feature], the first of which has a position."""
        angles = sign * (first + np.arange(len(keys)))[:, None, None] * self.frequencies
        pairs = self.frequencies.size
        even, odd = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)) if self.interleaved else (
            slice(0, pairs), slice(pairs, 2 * pairs))  # fmt: skip
        result = keys.astype(np.float64)
        x, y = result[..., even].copy(), result[..., odd].copy()
        result[..., even], result[..., odd] = (
            x * np.cos(angles) - y * np.sin(angles),
            y * np.cos(angles) + x * np.sin(angles),
        )
        return result

    def page_of_keys(self, sequence: int, entry: int) -> np.ndarray:
        rows = np.stack(self.keys[sequence][entry * PAGE : (entry + 1) * PAGE])
        return np.moveaxis(self.turned(rows, entry * PAGE, -1).astype(np.float32), 0, -1)

    def attend_stored(self, state: dict[str, np.ndarray], table: np.ndarray, position: int, query: np.ndarray):
        """Attend over the values that the pages hold, for a sequence 0."""
        keys = np.stack(self.keys[0][: position + 1]).astype(np.float64)
        for entry in range(position // PAGE):
            stored = unpacked(state["keys"][table[0, entry]].view(np.uint8), self.bits)
            scale, zero = parameters_of(state["key_parameters"][table[0, entry]], self.bits)
            page = scale[..., None] * (stored - zero[..., None])
            keys[entry * PAGE : (entry + 1) * PAGE] = self.turned(np.moveaxis(page, -1, 0), entry * PAGE, 1)
        values = dequantized(np.stack(self.values[0][: position + 1]), self.bits)
        result = np.zeros(query.shape)
        for head in range(HEADS):
            group = head // (HEADS // KEY_HEADS)
            scores = 0.15 * keys[:, group] @ query[head]
            weights = np.exp(scores - scores.max())
            result[head] = weights @ values[:, group] / weights.sum()
        return result


def unpacked(stored: np.ndarray, bits: int) -> np.ndarray:
    if bits == 8:
        return stored.astype(np.float64)
    blocks = stored.reshape(*stored.shape[:-1], -1, 16)
    both = np.stack([blocks & 15, blocks >> 4], -2)
    return both.reshape(*stored.shape[:-1], -1).astype(np.float64)


def parameters_of(stored: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    scale = (stored[:, 0].view(np.uint8).astype(np.uint16) << 7).view(np.float16).astype(np.float64)
    return scale, (stored[:, 1] if bits == 4 else stored[:, 1].view(np.uint8)).astype(np.float64)


def unrotated_program(bits: int, head_dim: int, frequencies: np.ndarray, interleaved: bool) -> str:
    text = program(bits, head_dim).replace(f"<keys, ui{bits}, page", f"<keys, ui{bits}, unrotated, page")
    data = f'"0x{frequencies.astype("<f4").tobytes().hex().upper()}"'
    type = f"tensor<{frequencies.size}xf32>"
    lines, flag = [], "{interleaved}" if interleaved else ""
    for line in text.splitlines():
        if "%k1, %kp1 = " in line:
            lines.append(f"  %f = arith.constant dense<{data}> : {type}")
            line = line.replace("%p, %s, %t : (", f"%p, %s, %t frequencies %f {flag} : (").replace(
                ") -> (", f", {type}) -> ("
            )
        if "nn.cached_attention" in line:
            line = line.replace("rows %k  {", "rows %k frequencies %f {").replace(") -> ", f", {type}) -> ")
            line = line.replace("f32 } :", "f32, interleaved } :") if interleaved else line
        lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("bits", "head_dim", "pairs", "interleaved", "target"),
    [
        (4, 64, 32, False, "cpu"),
        (8, 48, 24, False, "cpu"),
        (4, 96, 20, False, "cpu"),
        (4, 64, 32, True, "cpu"),
        (8, 40, 7, True, "cpu:x86-64-v3"),
        (4, 32, 16, False, "cpu:x86-64"),
        (8, 24, 12, False, "reference"),
        (4, 32, 9, True, "reference"),
        (4, 32, 16, False, "emulated:sm_80"),
    ],
)
def test_unrotated_keys(tools, scratch, bits, head_dim, pairs, interleaved, target):
    """Some rotary features or all, against NumPy in float64: what pages hold, and attention over that."""
    frequencies = (10000.0 ** -(np.arange(pairs) / pairs)).astype(np.float32)
    name = f"unrotated-{bits}-{head_dim}-{pairs}-{interleaved}-{target.replace(':', '-')}"
    module = build(tools, scratch / name, unrotated_program(bits, head_dim, frequencies, interleaved), target=target)
    random = np.random.default_rng(5)
    table = random.permutation(PAGES)[:ENTRIES].reshape(1, ENTRIES)
    state, reference = make_state(module, 1, random), UnrotatedReference(bits, frequencies, interleaved)
    offset = 4 * random.standard_normal((KEY_HEADS, head_dim))
    for begin, end in ((0, 45), (45, 46), (46, 110), (110, 111)):
        query = random.standard_normal((end - begin, HEADS, head_dim)).astype(np.float32)
        key, value = random.standard_normal((2, end - begin, KEY_HEADS, head_dim)).astype(np.float32)
        key = reference.turned(key + offset, begin, 1).astype(np.float32)  # as a rotary embedding gives them
        positions = np.arange(begin, end)
        actual = module.main(
            q=query, k=key, v=value, p=positions, s=0 * positions, t=table, z=np.zeros(HEADS, np.float32), **state
        )
        for row in range(end - begin):
            reference.add(0, key[row], value[row])
        for row, position in enumerate(positions):
            wanted = reference.attend_stored(state, table, position, query[row])
            assert np.abs(actual[row] - wanted).max() <= 6e-5, (begin, row)
    for entry in range(3):
        quantized, scales, zeros = quantize(reference.page_of_keys(0, entry), bits)
        page = table[0, entry]
        stored = unpacked(state["keys"][page].view(np.uint8), bits)
        # An angle in f32 may end on the other side of a rounding.
        assert np.abs(stored - quantized).max() <= 1
        assert (stored != quantized).mean() < 0.01
        scale, zero = parameters_of(state["key_parameters"][page], bits)
        expected_scale, expected_zero = (scales.astype(np.uint16) << 7).view(np.float16), zeros
        np.testing.assert_allclose(scale, expected_scale, rtol=2**-3 + 1e-6)
        assert (scale != expected_scale).mean() < 0.02
        assert (zero != expected_zero).mean() < 0.02
    # Channels that differ little before their rotation have smaller scales than after it.
    rotated = quantize(np.moveaxis(np.stack(reference.keys[0][32:64]), 0, -1), bits)[1]
    assert scales.astype(float).mean() < rotated.astype(float).mean()
