# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files with loops, branches and sequences, and ops that are loops inside, against NumPy by their definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import intarsia
import numpy as np
import pytest
from onnx_wire import BOOL, INT64, field, graph, model, node, tensor, value

#: Sums of a few products of numbers around 1, in f32.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def build(folder: Path, file: bytes) -> Any:
    """Compile a file and return its function."""
    (folder / "m.onnx").write_bytes(file)
    return intarsia.compile(folder / "m.onnx", output=folder / "m.itx").main


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("axis", "reverse"), [(0, 0), (1, 1)])
def test_scans(tmp_path, axis, reverse):
    """A Scan over a size of the call: some iterations, and more than there are in a block of results."""
    body = graph(
        [node("Mul", "s half", "h"), node("Add", "h x", "t"), node("Mul", "t t", "y")],
        [value("s", [3]), value("x", [3])], "t y", {"half": tensor(np.full(1, 0.5), "half", "f4")},
    )  # fmt: skip
    lists = {name: [number] for name, number in [("scan_input_axes", axis), ("scan_output_axes", axis),
                                                 ("scan_input_directions", reverse), ("scan_output_directions", reverse)]}  # fmt: skip
    scan = node("Scan", "begin xs", "end ys", body=body, num_scan_inputs=1, **lists)
    sizes = ["n", 3] if axis == 0 else [3, "n"]
    main = build(tmp_path, model(graph([scan], [value("begin", [3]), value("xs", sizes)], "end ys")))
    for length in (1, 64, 200):
        rows, state, wanted = normal(length, 3), normal(3), []
        for row in rows[:: -1 if reverse else 1]:
            state = state * np.float32(0.5) + row
            wanted.append(state * state)
        wanted = np.stack(wanted[:: -1 if reverse else 1])
        end, ys = main(normal(3), rows if axis == 0 else np.ascontiguousarray(rows.T))
        np.testing.assert_allclose(end, state, **CLOSE)
        np.testing.assert_allclose(ys, wanted if axis == 0 else wanted.T, **CLOSE)


def counting() -> Any:
    """Return the body of a loop that adds the number of the iteration, and gives that times a value from outside."""
    nodes = [node("Identity", "c", "d"), node("Cast", "i", "f", to=1), node("Add", "v f", "w"), node("Mul", "w k", "p")]
    return graph(nodes, [value("i", [], INT64), value("c", [], BOOL), value("v", ["n"])], "d w p")


def test_loops(tmp_path):
    """As many iterations as a size of the call, as a large number, and as an input says."""
    inputs = [value("v0", ["n"]), value("k", ["n"])]
    count = [node("Shape", "v0", "s"), node("Squeeze", "s", "m")]
    by_size = build(tmp_path, model(graph([*count, node("Loop", "m - v0", "v1 ps", body=counting())], inputs, "v1 ps")))
    loop = node("Loop", "m - v0", "v1 ps", body=counting())
    (tmp_path / "long").mkdir()
    long = build(tmp_path / "long", model(graph([loop], inputs, "v1 ps", {"m": np.asarray(300)})))
    for main, size, times in ((by_size, 1, 1), (by_size, 130, 130), (long, 2, 300)):
        v, k = normal(size), normal(size) + 2
        end, parts = main(v, k)
        sums = np.cumsum(np.arange(times, dtype=np.float32))[:, None] + v
        np.testing.assert_allclose(end, sums[-1], **CLOSE)
        np.testing.assert_allclose(parts, sums * k, **CLOSE)
    (tmp_path / "given").mkdir()
    loop = node("Loop", "m go v0", "v1 -", body=counting())
    inputs = [value("m", [], INT64), value("go", [], BOOL), *inputs]
    given = build(tmp_path / "given", model(graph([loop], inputs, "v1")))
    for times, go in ((0, True), (5, True), (-1, True), (5, False)):
        wanted = normal(3) + sum(range(times if go else 0))
        np.testing.assert_allclose(given(np.asarray(times), np.asarray(go), normal(3), normal(3)), wanted, **CLOSE)


def test_a_condition_that_is_known_later(tmp_path):
    """After one iteration the condition is known for all others, of which there are two: the count is not begun again."""
    nodes = [
        node("ReduceSum", "v", "s"), node("Add", "u s", "w"), node("Shape", "v", "n"), node("Squeeze", "n", "n0"),
        node("Less", "n0 five", "d"),
    ]  # fmt: skip
    inputs = [value("i", [], INT64), value("c", [], BOOL), value("v", ["k"])]
    body = graph(nodes, inputs, "d w", {"five": np.asarray(5)})
    loop = node("Loop", "m - v0", "y", body=body)
    file = model(graph([loop], [value("v0", ["n"]), value("u", [4])], "y", {"m": np.asarray(3)}))
    main = build(tmp_path, file)
    for size, times in ((2, 3), (6, 1)):
        v, u = np.full(size, 0.5, np.float32), np.arange(4, dtype=np.float32)
        wanted = v
        for _ in range(times):
            wanted = u + wanted.sum()
        np.testing.assert_array_equal(main(v, u), wanted)


def test_a_loop_of_any_length(tmp_path):
    """A stored number of iterations that no loop ends at: a condition ends this one."""
    body = graph(
        [node("Add", "v one", "w"), node("Less", "w most", "d")],
        [value("i", [], INT64), value("c", [], BOOL), value("v", [])], "d w",
        {name: tensor(number, name, "f4") for name, number in (("one", 1), ("most", 5))},
    )  # fmt: skip
    loop = node("Loop", "m - v0", "y", body=body)
    for most, wanted in ((1 << 62, 5), ((1 << 63) - 1, 5), (-(1 << 63), 0)):
        folder = tmp_path / str(most)
        folder.mkdir()
        main = build(folder, model(graph([loop], [value("v0", [])], "y", {"m": np.asarray(most)})))
        assert main(np.float32(0)) == wanted


def test_a_scan_in_a_loop(tmp_path):
    """Both are over a size of the call; the largest sum of each scan is a result."""
    inner = graph(
        [node("Add", "s x", "t"), node("Identity", "t", "y")], [value("s", [3]), value("x", [3])], "t y",
    )  # fmt: skip
    nodes = [
        node("Identity", "c", "d"), node("Scan", "v xs", "u ys", body=inner, num_scan_inputs=1),
        node("Mul", "u half", "w"), node("ReduceMax", "ys", "m", keepdims=0),
    ]  # fmt: skip
    body = graph(
        nodes, [value("i", [], INT64), value("c", [], BOOL), value("v", [3])], "d w m",
        {"half": tensor(np.full(1, 0.5), "half", "f4")},
    )  # fmt: skip
    outer = [
        node("Shape", "xs", "s", start=0, end=1),
        node("Squeeze", "s", "n"),
        node("Loop", "n - v0", "v1 ms", body=body),
    ]
    main = build(tmp_path, model(graph(outer, [value("v0", [3]), value("xs", ["n", 3])], "v1 ms")))
    for rows in (1, 70):
        xs, v, largest = normal(rows, 3) / 8, normal(3), []
        for _ in range(rows):
            sums = v + np.cumsum(xs, 0)
            largest.append(sums.max())
            v = sums[-1] / 2
        end, maxima = main(normal(3), xs)
        np.testing.assert_allclose(end, v, **CLOSE)
        np.testing.assert_allclose(maxima, largest, **CLOSE)


@pytest.mark.parametrize("most", [None, 3])
def test_loops_that_a_condition_ends(tmp_path, most):
    """The first iteration is written out, as it is known that there is one."""
    body = graph(
        [node("Mul", "v half", "w"), node("ReduceSum", "w", "s", keepdims=0), node("Greater", "s least", "d")],
        [value("i", [], INT64), value("c", [], BOOL), value("v", ["n"])], "d w",
        {"half": tensor(np.full(1, 0.5), "half", "f4")},
    )  # fmt: skip
    loop = node("Loop", ("m" if most else "-") + " - v0", "y", body=body)
    stored = {"m": np.asarray(most)} if most else None
    main = build(tmp_path, model(graph([loop], [value("v0", ["n"]), value("least", [])], "y", stored)))
    for size, least in ((1, 300.0), (5, 0.01), (4, 1e9)):
        x, times = np.full(size, 1000, np.float32), 0
        while times != most and (times == 0 or x.sum() > least):
            x, times = x / 2, times + 1
        np.testing.assert_array_equal(main(np.full(size, 1000, np.float32), np.float32(least)), x)


def test_branches(tmp_path):
    """Branches that the call chooses read values from outside of them, through graphs within graphs."""
    inner = node("If", "b", "r", then_branch=graph([node("Add", "x h", "p")], [], "p"),
                 else_branch=graph([node("Sub", "x h", "q")], [], "q"))  # fmt: skip
    outer = node("If", "a", "y", then_branch=graph([node("Mul", "h h", "t")], [], "t"),
                 else_branch=graph([node("Neg", "h", "h2"), inner, node("Add", "r h2", "u")], [], "u"))  # fmt: skip
    inputs = [value("x", ["n", 2]), value("a", ["one"], BOOL), value("b", [], BOOL)]
    main = build(tmp_path, model(graph([node("Exp", "x", "h"), outer], inputs)))
    x = normal(3, 2)
    h = np.exp(x)
    for a, b, wanted in ((1, 0, h * h), (0, 1, x + h - h), (0, 0, x - h - h)):
        np.testing.assert_allclose(main(x, np.array([a], bool), np.asarray(b, bool)), wanted, **CLOSE)


def test_sequences(tmp_path):
    """Sequences of tensors of several shapes: made, mapped, carried by a loop, read, and joined."""
    squared = graph([node("Mul", "e e", "f"), node("Mul", "f w", "g")], [value("e", ["k", 3]), value("w", [3])], "g")
    insert = [node("Identity", "c", "d"), node("SequenceAt", "squares i", "e"), node("OptionalHasElement", "none", "no"),
              node("If", "no", "z", then_branch=graph([node("Identity", "s", "a")], [], "a"),
                   else_branch=graph([node("SequenceInsert", "s e zero", "b")], [], "b"))]  # fmt: skip
    body = graph(insert, [value("i", [], INT64), value("c", [], BOOL), value("s", [])], "d z")
    nodes = [
        node("Optional", "", "none"),
        node("SplitToSequence", "x parts", "s0", axis=0),
        node("SequenceMap", "s0 w", "squares", body=squared),
        node("SequenceEmpty", "", "e0"),
        node("SequenceLength", "squares", "m"),
        node("Loop", "m - e0", "turned", body=body),
        node("SequenceErase", "turned last", "two"),
        node("ConcatFromSequence", "two", "y", axis=0),
        node("SequenceConstruct", "y y", "both"),
        node("ConcatFromSequence", "both", "z", axis=-1, new_axis=1),
    ]
    stored = {"parts": [2, 1, 3], "zero": np.asarray(0), "last": np.asarray(-1)}
    main = build(tmp_path, model(graph(nodes, [value("x", [6, 3]), value("w", [3])], "y z m", stored), 18))
    x, w = normal(6, 3), normal(3)
    y, z, length = main(x, w)
    wanted = np.concatenate([x[3:], x[2:3]]) ** 2 * w
    np.testing.assert_allclose(y, wanted, **CLOSE)
    np.testing.assert_allclose(z, np.stack([wanted, wanted], -1), **CLOSE)
    assert length == 3


@pytest.mark.parametrize(
    ("rule", "per_head"), [("linear", False), ("gated", True), ("delta", False), ("gated_delta", False)]
)
def test_linear_attention(tmp_path, rule, per_head):
    """Each rule over any number of tokens, with two heads of queries for each of keys."""
    heads, group, keys, values = 2, 2, 8, 4
    sizes = {"q": heads * group * keys, "k": heads * keys, "v": heads * values}
    inputs = [value(name, ["batch", "tokens", size]) for name, size in sizes.items()]
    inputs.append(value("past", ["batch", heads, keys, values]))
    is_gated, is_delta = "gated" in rule, "delta" in rule
    if is_gated:
        inputs.append(value("g", ["batch", "tokens", heads if per_head else heads * keys]))
    if is_delta:
        inputs.append(value("b", ["batch", "tokens", heads]))
    names = "q k v past" + (" g" if is_gated else " -") + (" b" if is_delta else "")
    attention = node("LinearAttention", names, "y s", update_rule=rule, q_num_heads=heads * group, kv_num_heads=heads)
    main = build(tmp_path, model(graph([attention], inputs, "y s"), 27))
    for batch, tokens in ((2, 1), (1, 70)):
        q, k = normal(batch, tokens, heads, group, keys), normal(batch, tokens, heads, keys)
        k /= np.linalg.norm(k, axis=-1, keepdims=True)
        v, past = normal(batch, tokens, heads, values), normal(batch, heads, keys, values)
        g = -np.abs(normal(batch, tokens, heads, 1 if per_head else keys)) / 4
        b = 1 / (1 + np.exp(-normal(batch, tokens, heads)))
        state, rows = past, []
        for t in range(tokens):
            state = state * np.exp(g[:, t])[..., None] if is_gated else state
            written = v[:, t]
            if is_delta:
                written = b[:, t, :, None] * (written - np.einsum("bhkv,bhk->bhv", state, k[:, t]))
            state = state + k[:, t, :, :, None] * written[:, :, None]
            rows.append(np.einsum("bhgk,bhkv->bhgv", q[:, t], state) / np.sqrt(keys))
        flat = [array.reshape(batch, tokens, -1) for array in (q, k, v)]
        more = ([g.reshape(batch, tokens, -1)] if is_gated else []) + ([b] if is_delta else [])
        y, last = main(*flat, past, *more)
        np.testing.assert_allclose(y, np.stack(rows, 1).reshape(batch, tokens, -1), **CLOSE)
        np.testing.assert_allclose(last, state, **CLOSE)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(tmp_path, mode):
    scatter = node("TensorScatter", "cache new at", mode=mode)
    inputs = [value("cache", ["b", 2, "room", 3]), value("new", ["b", 2, "n", 3]), value("at", ["b"], INT64)]
    main = build(tmp_path, model(graph([scatter], inputs), 24))
    for length in (1, 3):
        cache, new, at = normal(2, 2, 5, 3), normal(2, 2, length, 3), np.array([1, 2 if mode == "linear" else 4])
        wanted = cache.copy()
        for batch in range(2):
            for i in range(length):
                wanted[batch, :, (at[batch] + i) % 5] = new[batch, :, i]
        np.testing.assert_array_equal(main(cache, new, at), wanted)


def test_deformed_convolution(tmp_path):
    """Two groups of channels, two of offsets, a mask, pads, strides and dilations; offsets reach out of the image."""
    conv = node("DeformConv", "x w o b m", pads=[1, 0, 2, 1], strides=[2, 1], dilations=[1, 2], group=2, offset_group=2)
    sizes = {"x": ["n", 4, "h", "v"], "w": [6, 2, 3, 2], "o": ["n", 24, "r", "c"], "b": [6], "m": ["n", 12, "r", "c"]}
    main = build(tmp_path, model(graph([conv], [value(*each) for each in sizes.items()]), 22))
    x, w, bias = normal(2, 4, 7, 6), normal(6, 2, 3, 2), normal(6)
    rows, columns = (7 + 3 - 3) // 2 + 1, 6 + 1 - 3 + 1
    offsets, mask = normal(2, 24, rows, columns) * 3, normal(2, 12, rows, columns)
    o, m = offsets.reshape(2, 2, 3, 2, 2, rows, columns), mask.reshape(2, 2, 3, 2, rows, columns)
    wanted = np.zeros((2, 6, rows, columns), np.float32) + bias[:, None, None]
    padded = np.pad(x, ((0, 0), (0, 0), (40, 40), (40, 40)))
    for n, c, i, j, r, s in np.ndindex(2, 4, 3, 2, rows, columns):
        y = 2 * r - 1 + i + o[n, c // 2, i, j, 0, r, s] + 40
        z = s + 2 * j + o[n, c // 2, i, j, 1, r, s] + 40
        a, b = int(np.floor(y)), int(np.floor(z))
        corners = padded[n, c, a : a + 2, b : b + 2]
        sampled = np.array([1 - (y - a), y - a]) @ corners @ np.array([1 - (z - b), z - b]) * m[n, c // 2, i, j, r, s]
        group = c // 2
        wanted[n, group * 3 : group * 3 + 3, r, s] += sampled * w[group * 3 : group * 3 + 3, c % 2, i, j]
    np.testing.assert_allclose(main(x, w, offsets, bias, mask), wanted, rtol=1e-3, atol=1e-4)


def test_flex_attention(tmp_path):
    """Scores with a bias that depends on the position, and probabilities that are halved; two queries share a key."""
    score = graph([node("Add", "s bias", "t")], [value("s", [])], "t")
    weight = graph([node("Mul", "p half", "r")], [value("p", [])], "r", {"half": tensor(0.5, "half", "f4")})
    attention = node("FlexAttention", "q k v", score_mod=score, prob_mod=weight, scale=0.25) + field(
        7, "ai.onnx.preview"
    )
    inputs = [
        value("q", ["b", 4, "n", 8]),
        value("k", ["b", 2, "m", 8]),
        value("v", ["b", 2, "m", 6]),
        value("bias", ["n", "m"]),
    ]
    file = model(graph([attention], inputs), 26) + field(8, field(1, "ai.onnx.preview") + field(2, 1))
    main = build(tmp_path, file)
    q, k, v, bias = normal(2, 4, 3, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 6), normal(3, 5)
    scores = q @ np.repeat(k, 2, 1).transpose(0, 1, 3, 2) / 4 + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True) * 2
    np.testing.assert_allclose(main(q, k, v, bias), weights @ np.repeat(v, 2, 1), **CLOSE)
