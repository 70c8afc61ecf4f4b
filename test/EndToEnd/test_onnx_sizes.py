# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files that ask for sizes of the call: branches that depend on them, slices, and tensors that are resized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import intarsia
import numpy as np
import pytest
from onnx_wire import INT64, Graph, graph, model, node, tensor, value


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
