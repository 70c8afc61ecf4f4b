# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files that ask for sizes of the call: branches that depend on them, slices, and tensors that are resized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import intarsia
import numpy as np
import pytest
from onnx_wire import INT32, INT64, MICROSOFT, Graph, field, graph, model, node, tensor, value


def compiled(folder: Path, whole: Graph, opset: int = 16) -> intarsia.Module:
    """Return the module of a graph."""
    (folder / "m.onnx").write_bytes(model(whole, opset))
    return intarsia.compile(folder / "m.onnx", output=folder / "m.itx")


def rows(*shape: int) -> np.ndarray:
    """Return normal numbers."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def asks(result: str, dimension: str, number: str) -> list[bytes]:
    """Return nodes that ask whether a dimension of x is a number; both are names of what is stored."""
    shape, size = node("Shape", "x", f"{result}s"), node("Gather", f"{result}s {dimension}", f"{result}d")
    return [shape, size, node("Equal", f"{result}d {number}", result)]


@pytest.mark.parametrize("is_negated", [False, True])
def test_branches_of_different_ranks(tmp_path: Path, is_negated: bool) -> None:
    """Squeezing a dimension if it is 1 is squeezing it: what reads it goes with one rank. Calls are held to the 1."""
    squeezed = graph([node("Squeeze", "x axes", "b")], [], "b")
    kept = graph([node("Identity", "x", "b")], [], "b")
    ways: dict[str, Any] = {"then_branch": squeezed, "else_branch": kept}
    nodes = asks("e", "last", "one")
    if is_negated:
        ways = {"then_branch": kept, "else_branch": squeezed}
        nodes.append(node("Not", "e", "c"))
    nodes += [node("If", "c" if is_negated else "e", "r", **ways), node("Add", "r bias")]
    bias = np.arange(4, dtype=np.float32)
    stored = {"last": [-1], "one": [1], "axes": [-1], "bias": tensor(bias, "bias", "f4")}
    module = compiled(tmp_path, graph(nodes, [value("x", ["n", 4, "m"])], stored=stored))
    np.testing.assert_array_equal(module.main(rows(3, 4, 1)), rows(3, 4, 1)[:, :, 0] + bias)
    with pytest.raises(intarsia.Error, match="must be 1"):
        module.main(rows(3, 4, 2))


def test_branches_of_sizes(tmp_path: Path) -> None:
    """Branches of one rank are both there, and each call runs the one that its size chooses."""
    twice = graph([node("Add", "x x", "b")], [], "b")
    square = graph([node("Mul", "x x", "b")], [], "b")
    nodes = [*asks("c", "first", "two"), node("If", "c", then_branch=twice, else_branch=square)]
    module = compiled(tmp_path, graph(nodes, [value("x", ["n", 4])], stored={"first": [0], "two": [2]}))
    np.testing.assert_array_equal(module.main(rows(2, 4)), 2 * rows(2, 4))
    np.testing.assert_array_equal(module.main(rows(3, 4)), rows(3, 4) ** 2)


def test_conditions_of_one_branch(tmp_path: Path) -> None:
    """What a branch needs of sizes is checked in the calls that run it: 6 elements here, at least 2 there."""
    whole = graph([node("Reshape", "x six", "q"), node("Slice", "q zero two", "b")], [], "b")
    begin = graph([node("Slice", "x zero two", "b")], [], "b")
    nodes = [node("Equal", "rate fast", "c"), node("If", "c", then_branch=whole, else_branch=begin)]
    stored = {"fast": np.array(7), "six": [6], "zero": [0], "two": [2]}
    module = compiled(tmp_path, graph(nodes, [value("x", ["n"]), value("rate", [], INT64)], stored=stored))
    fast, slow = np.array(7), np.array(1)
    np.testing.assert_array_equal(module.main(rows(6), fast), rows(6)[:2])
    np.testing.assert_array_equal(module.main(rows(9), slow), rows(9)[:2])
    with pytest.raises(intarsia.Error, match="n is 9, must be 6"):
        module.main(rows(9), fast)


def test_equal_sizes_of_one_branch(tmp_path: Path) -> None:
    """Sizes that one branch needs to be equal may differ in calls that run the other."""
    product = graph([node("MatMul", "x z", "b")], [], "b")
    total = graph([node("ReduceSum", "x", "b", keepdims=0)], [], "b")
    nodes = [node("Equal", "rate fast", "c"), node("If", "c", then_branch=product, else_branch=total)]
    inputs = [value("x", ["n"]), value("z", ["m"]), value("rate", [], INT64)]
    module = compiled(tmp_path, graph(nodes, inputs, stored={"fast": np.array(7)}))
    fast, slow = np.array(7), np.array(1)
    np.testing.assert_allclose(module.main(rows(6), rows(6), fast), rows(6) @ rows(6), rtol=1e-5)
    np.testing.assert_allclose(module.main(rows(6), rows(4), slow), rows(6).sum(), rtol=1e-5)
    with pytest.raises(intarsia.Error, match="n is 6, must be m, which is 4"):
        module.main(rows(6), rows(4), fast)


def test_slices_without_an_end(tmp_path: Path) -> None:
    """What exporters write for the end of any dimension holds no call to so many elements."""
    stored = {"zero": [1], "end": [1_000_000_000]}
    module = compiled(tmp_path, graph([node("Slice", "x zero end")], [value("x", ["n", 4])], stored=stored))
    np.testing.assert_array_equal(module.main(rows(3, 4)), rows(3, 4)[1:])


def test_pads_of_pytorch(tmp_path: Path) -> None:
    """PyTorch writes pads as it has them, last dimension first, and turns them by ops on matrices."""
    nodes = [
        node("ConstantOfShape", "two", "none", value=tensor([0])),
        node("Concat", "given none", "all", axis=0),
        node("Reshape", "all pairs", "p"),
        node("Slice", "p last least zero last", "turned"),
        node("Transpose", "turned", "t", perm=[1, 0]),
        node("Reshape", "t last", "pads"),
        node("Pad", "x pads", mode="reflect"),
    ]
    stored = {"two": [2], "given": [0, 3], "pairs": [-1, 2], "last": [-1], "least": [-(1 << 63) + 1], "zero": [0]}
    module = compiled(tmp_path, graph(nodes, [value("x", ["n", "m"])], stored=stored))
    np.testing.assert_array_equal(module.main(rows(2, 5)), np.pad(rows(2, 5), [(0, 0), (0, 3)], mode="reflect"))


@pytest.mark.parametrize("by", ["scales", "sizes"])
def test_resizing_sizes_of_the_call(tmp_path: Path, by: str) -> None:
    """A scale is one of any size; sizes may be those of another tensor."""
    stored: dict[str, Any] = {"scales": tensor(np.array([1, 1, 2, 0.5]), "scales", "f4")}
    nodes = [node("Resize", "x - scales", mode="nearest", nearest_mode="floor",
                  coordinate_transformation_mode="asymmetric")]  # fmt: skip
    inputs = [value("x", ["n", 3, "h", "w"])]
    if by == "sizes":
        stored = {}
        inputs.append(value("z", ["n", 3, "a", "b"]))
        nodes = [node("Shape", "z", "s"), node("Resize", "x - - s", mode="linear")]
    module = compiled(tmp_path, graph(nodes, inputs, stored=stored))
    x = rows(2, 3, 4, 7)
    if by == "scales":
        np.testing.assert_array_equal(module.main(x), x.repeat(2, 2)[:, :, :, [0, 2, 4]])
        return
    # Twice the height: each position lies a quarter of a step from its neighbours.
    result = module.main(x, rows(2, 3, 8, 7))
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)], mode="edge")
    expected = np.stack([0.25 * padded[:, :, :-2] + 0.75 * x, 0.75 * x + 0.25 * padded[:, :, 2:]], 3)
    np.testing.assert_allclose(result, expected.reshape(2, 3, 8, 7), rtol=0, atol=1e-6)


@pytest.mark.parametrize("op", ["Attention", "GroupQueryAttention"])
def test_first_call_of_a_decoder(tmp_path: Path, op: str) -> None:
    """A decoder begins without a past: keys and values of no positions. Three calls give what one gives."""
    batch, heads, features = 2, 4, 8
    inputs = [value(name, ["batch", "tokens", heads * features]) for name in "qkv"]
    inputs += [value(name, ["batch", heads, "past", features]) for name in ("keys", "values")]
    if op == "Attention":
        nodes = [node(op, "q k v - keys values", "y new_keys new_values", is_causal=1, q_num_heads=heads,
                      kv_num_heads=heads)]  # fmt: skip
    else:
        inputs += [value("last", ["batch"], INT32), value("total", [1], INT32)]
        attention = node(
            op, "q k v keys values last total", "y new_keys new_values", num_heads=heads, kv_num_heads=heads
        )
        nodes = [attention + field(7, MICROSOFT)]
    module = compiled(tmp_path, graph(nodes, inputs, "y new_keys new_values"), 23)
    length = 7
    q, k, v = (rows(3, batch, length, heads * features)[number] for number in range(3))

    def split(x: np.ndarray) -> np.ndarray:
        return x.reshape(batch, -1, heads, features).transpose(0, 2, 1, 3)

    scores = split(q) @ split(k).swapaxes(2, 3) / features**0.5
    weights = np.exp(np.where(np.tri(length, dtype=bool), scores, -np.inf))
    y = (weights / weights.sum(-1, keepdims=True)) @ split(v)
    expected = y.transpose(0, 2, 1, 3).reshape(batch, length, -1)
    past = [np.zeros((batch, heads, 0, features), np.float32)] * 2
    got = []
    for begin, end in ((0, 4), (4, 5), (5, 7)):
        counts = [np.full(batch, end - 1, np.int32), np.array([end], np.int32)] if op != "Attention" else []
        part, *past = module.main(*(x[:, begin:end] for x in (q, k, v)), *past, *counts)
        got.append(part)
    np.testing.assert_allclose(np.concatenate(got, 1), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(past[0], split(k))
    np.testing.assert_array_equal(past[1], split(v))


def test_empty_parts_of_what_is_joined(tmp_path: Path) -> None:
    """A part may have no elements, sizes that other ops read may not."""
    join, double = node("Concat", "x z", "both", axis=0), node("Add", "both both")
    main = compiled(tmp_path, graph([join, double], [value("x", ["n", 3]), value("z", ["m", 3])])).main
    x, z = rows(2, 3), rows(4, 3)
    for first, second in ((x, z), (x[:0], z), (x, z[:0]), (x[:0], z[:0])):
        np.testing.assert_array_equal(main(first, second), 2 * np.concatenate([first, second]))
    # Nothing reads z.
    main = compiled(tmp_path, graph([node("Relu", "x")], [value("x", ["n", 3]), value("z", ["m"])])).main
    np.testing.assert_array_equal(main(x, z[:0, 0]), np.maximum(x, 0))
    main = compiled(tmp_path, graph([node("Softmax", "x")], [value("x", ["n", 3])])).main
    with pytest.raises(intarsia.InvalidArgumentError, match=r"n is 0 .* must be at least 1"):
        main(x[:0])
