# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files whose graphs contradict themselves, and nodes whose attributes or inputs do: one line says which."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pytest
from onnx_runs import check_refused, imported
from onnx_wire import (
    BOOL,
    INT32,
    INT64,
    MICROSOFT,
    SMALLEST,
    UINT8,
    Tensor,
    X,
    field,
    fields,
    floats,
    graph,
    model,
    named,
    node,
    one,
    tensor,
    value,
)  # fmt: skip

IMAGE = value("x", [1, 4, 4, 4])
RELU = graph([node("Relu", "x")], [X])


def microsoft(
    op: str, inputs: str, described: list[bytes], stored: Any = None, outputs: str = "y", **attributes: Any
) -> bytes:
    """Return a model of one node of com.microsoft."""
    made = {name: named(name, each) if isinstance(each, Tensor) else each for name, each in (stored or {}).items()}
    return model(graph([node(op, inputs, outputs, **attributes) + field(7, MICROSOFT)], described, outputs, made))


def versions(*sets: tuple[str, int], ir: int = 10) -> bytes:
    """Return a model of these operator sets."""
    return field(1, ir) + fields(8, [field(1, name) + field(2, version) for name, version in sets]) + field(7, RELU)


def function(name: str, *nodes: bytes, attributes: tuple[str, ...] = ()) -> bytes:
    """Return a function of x."""
    return (
        field(1, name) + field(4, "x") + field(5, "y") + fields(6, attributes) + fields(7, nodes)
        + fields(9, [field(2, 21), field(1, "f") + field(2, 1)]) + field(10, "f")
    )  # fmt: skip


def called(*functions: bytes) -> bytes:
    """Return a model that calls the function F."""
    return model(graph([node("F", "x") + field(7, "f")], [X]), functions=list(functions))


def branch(*nodes: bytes) -> Any:
    """Return a graph with the result r."""
    return graph(list(nodes), [], "r")


def loop(most: int) -> bytes:
    """Return a loop that gives an element of each iteration."""
    body = graph([node("Identity", "c", "d"), node("Neg", "v", "w"), node("Abs", "v", "p")],
                 [value("i", [], INT64), value("c", [], BOOL), value("v", [])], "d w p")  # fmt: skip
    return one("Loop", "m - x", [value("x", [])], {"m": np.asarray(most)}, outputs="y z", body=body)


def grouped(query: Any = (1, 2, 8), key: Any = None, past: Any = (1, 2, 4, 4), values: Any = None) -> bytes:
    """Return a model of one GroupQueryAttention of two heads."""
    inputs = [value("x", query), value("k", key or query), value("p", past), value("v", values or past),
              value("l", [1], INT32), value("t", [1], INT32)]  # fmt: skip
    return microsoft("GroupQueryAttention", "x k k p v l t", inputs, num_heads=2, kv_num_heads=2)


WEIGHT = {"w": floats(4, 4, 3, 3)}
NORM = {"g": floats(4), "b": floats(4)}
BYTES = {"s": floats(), "z": tensor(0, "", "u1"), "w": tensor(np.ones((4, 4)), "", "u1")}
WIDE = value("z", [2, 4, 4, 4])
EXPERTS = [value("x", [2, 16]), value("r", [2, 2])]

CASES = {
    # Versions.
    "no operator set": (versions(), "does not say which version of the domain ''"),
    "version 0": (versions(("", 0)), "the version of the operator set is 0, must be 1 to 28"),
    "newer version": (versions(("", 29)), "the version of the operator set is 29, must be 1 to 28"),
    "newer format": (versions(("", 21), ir=99), "ir_version is 99"),
    "two versions": (versions(("", 21), ("ai.onnx", 18)), "the operator set '' has the versions 21 and 18"),
    "unknown domain": (
        field(1, 10) + field(8, field(2, 21)) + field(8, field(1, "com.example") + field(2, 3))
        + field(7, graph([node("Mystery", "x") + field(7, "com.example")], [X])),
        "(com.example.Mystery, version 3): is not imported",
    ),
    # Names of values.
    "cycle": (model(graph([node("Add", "x b", "a"), node("Neg", "a", "b")], [X], "b")), "reads 'b', which no node before it"),
    "not sorted": (model(graph([node("Neg", "a"), node("Neg", "x", "a")], [X])), "node 'y' (Neg) reads 'a', which no node before it"),
    "undefined input": (one("Add", "x q", [X]), "node 'y' (Add) reads 'q', which no node before it computes"),
    "value twice": (model(graph([node("Neg", "x"), node("Abs", "x")], [X])), "the value 'y' is defined twice"),
    "computed input": (model(graph([node("Neg", "x", "x")], [X], "x")), "the value 'x' is defined twice"),
    "initializer twice": (
        model(Tensor(graph([node("Add", "x w")], [X], stored={"w": named("w", floats(4))}) + field(5, named("w", floats(4))))),
        "the value 'w' is defined twice",
    ),
    "sparse initializer": (
        model(Tensor(RELU + field(15, field(1, named("w", floats(1))) + field(2, named("i", tensor([7]))) + field(3, 4)))),
        "sparse initializers are not imported",
    ),
    "input twice": (model(graph([node("Neg", "x")], [X, X])), "the value 'x' is defined twice"),
    "output twice": (model(graph([node("Neg", "x")], [X], "y y")), "output 'y' is listed twice"),
    "output of nothing": (model(graph([node("Neg", "x")], [X], "q")), "output 'q' is computed by no node"),
    "no outputs": (model(graph([node("Neg", "x")], [X], "")), "the graph has no outputs"),
    "input without a shape": (
        one("Neg", "x", [field(1, "x") + field(2, field(1, field(1, 1)))]), "input 'x' has no shape",
    ),
    # Functions.
    "function of itself": (called(function("F", node("F", "x") + field(7, "f"))), "the function calls itself"),
    "functions of each other": (
        called(function("F", node("G", "x") + field(7, "f")), function("G", node("F", "x") + field(7, "f"))),
        "the function calls itself",
    ),
    "attribute of a call": (
        called(function("F", node("Cast", "x") + field(5, field(1, "to") + field(20, 2) + field(21, "type")), attributes=("type",))),
        "(Cast, version 21)",
    ),
    # Branches and loops.
    "long loop": (loop(1 << 62), "more elements than memory can hold"),
    "scan of nothing": (
        one("Scan", "x", [value("x", [0, 4])], num_scan_inputs=1, body=graph([node("Neg", "v", "w")], [value("v", [4])], "w")),
        "a loop without iterations has a result of no known shape",
    ),
    "type of branches": (
        one("If", "c", [X, value("c", [], BOOL)], then_branch=branch(node("Neg", "x", "r")),
            else_branch=branch(node("Cast", "x", "r", to=INT64))),
        "branches have results of",
    ),
    # Attributes that contradict.
    "pads of a mode": (
        one("Conv", "x w", [IMAGE], WEIGHT, auto_pad="SAME_UPPER", pads=[2, 0, 0, 2]), "where 'auto_pad' SAME_UPPER means 1 and 1",
    ),
    "pads of a valid one": (
        one("MaxPool", "x", [IMAGE], kernel_shape=[2, 2], auto_pad="VALID", pads=[1, 1, 1, 1]), "'auto_pad' VALID means 0 and 0",
    ),
    "pads of a transposed one": (
        one("ConvTranspose", "x w", [IMAGE], WEIGHT, auto_pad="SAME_LOWER", pads=[0, 0, 2, 2]), "'auto_pad' SAME_LOWER means 1 and 1",
    ),
    "unknown mode": (one("ConvTranspose", "x w", [IMAGE], WEIGHT, auto_pad="SAME"), "attribute 'auto_pad' is 'SAME'"),
    "numbers of strides": (one("ConvTranspose", "x w", [IMAGE], WEIGHT, strides=[1]), "'strides' has 1 numbers, must have 2"),
    "wanted size": (
        one("ConvTranspose", "x w", [value("x", [1, 4, "h", 4])], WEIGHT, output_shape=[8, 8]),
        "attribute 'output_shape' implies pads that depend on the size of dimension 2",
    ),
    "stride of 0": (one("Conv", "x w", [IMAGE], WEIGHT, strides=[0, 1]), "is below 1"),
    "window of 0": (one("AveragePool", "x", [IMAGE], kernel_shape=[0, 1]), "is below 1"),
    "small image": (one("Conv", "x w", [value("x", [1, 4, 1, 4])], WEIGHT), "images of size 1 are smaller than a window"),
    "group": (one("Conv", "x w", [IMAGE], WEIGHT, group=3), "attribute 'group' is 3, of 4 channels"),
    "no weight": (one("Conv", "x w", [IMAGE], {"w": floats(0, 4, 3, 3)}), "the weight has no elements"),
    "weight of the call": (
        one("ConvInteger", "x w", [value("x", [1, 4, 4, 4], UINT8), value("w", ["m", 4, 3, 3], UINT8)]),
        "the weight has sizes that the call decides",
    ),
    "scales and sizes": (
        one("Resize", "x - s n", [IMAGE], {"s": tensor([1, 1, 2, 2], "", "f4"), "n": [1, 4, 8, 8]}), "has both 'scales' and 'sizes'",
    ),
    "scale of 0": (one("Resize", "x - s", [IMAGE], {"s": tensor([1, 1, 0, 2], "", "f4")}), "a scale is 0"),
    "scale of no number": (one("Resize", "x - s", [IMAGE], {"s": tensor([1, 1, np.nan, 2], "", "f4")}), "a scale is nan"),
    "resized twice": (
        one("Resize", "x - s", [IMAGE], {"s": tensor([2, 2], "", "f4")}, axes=[2, -2]), "'axes' has the axis 2 twice",
    ),
    "cut twice": (one("Slice", "x b e a", [IMAGE], {"b": [0, 0], "e": [2, 3], "a": [1, -3]}), "'axes' has the axis 1 twice"),
    "known cut twice": (
        one("Slice", "w b e a", [], {"w": [1, 2, 3], "b": [0, 0], "e": [2, 1], "a": [0, 0]}), "'axes' has the axis 0 twice",
    ),
    "step of 0": (one("Slice", "x b e a s", [X], {"b": [0], "e": [2], "a": [0], "s": [0]}), "'steps' has a step of 0"),
    "smallest step": (
        one("Slice", "x b e a s", [X], {"b": [3], "e": [0], "a": [0], "s": [SMALLEST]}), "'steps' has a step of -9223372036854775808",
    ),
    "reduced twice": (one("ReduceSum", "x a", [IMAGE], {"a": [1, 1]}), "'axes' has the axis 1 twice"),
    "squeezed twice": (one("Squeeze", "x a", [IMAGE], {"a": [0, 0]}), "'axes' has the axis 0 twice"),
    "padded twice": (one("Pad", "x p - a", [IMAGE], {"p": [1] * 4, "a": [2, 2]}), "'axes' has the axis 2 twice"),
    "cropped twice": (one("CenterCropPad", "x s", [IMAGE], {"s": [2, 2]}, axes=[2, 2]), "'axes' has the axis 2 twice"),
    "averaged twice": (one("MeanVarianceNormalization", "x", [IMAGE], axes=[0, -4]), "'axes' has the axis 0 twice"),
    "axis outside": (one("Softmax", "x", [X], axis=1), "'axis' is 1, of a tensor of 1 dimensions"),
    "zero and rest": (
        one("Reshape", "x s", [value("x", [0, 4])], {"s": [0, -1]}, allowzero=1), "'shape' has dimensions of 0 and of -1",
    ),
    "two rests": (one("Reshape", "x s", [X], {"s": [-1, -1]}), "'shape' has two dimensions of -1"),
    "type of a pad": (one("Pad", "x p v", [X], {"p": [1, 1], "v": tensor(1, "", "i4")}), "elements of float and int32"),
    "size of a response": (one("LRN", "x", [value("x", [1, "c", 4])], size=1 << 20), "must be 1 to 4096 for channels of which"),
    "numbers of a response": (one("LRN", "x", [X], size=3), "images have 1 dimensions, must have at least 3"),
    "groups of a norm": (
        one("GroupNormalization", "x g b", [IMAGE], {"g": floats(4), "b": floats(4)}, 18, num_groups=2),
        "input 'scale' does not have a number for each of 2 groups",
    ),
    "scale of instances": (one("InstanceNormalization", "x g g", [IMAGE], {"g": floats(3)}), "an input has no number for each channel"),
    "scale of a scalar": (one("InstanceNormalization", "x g g", [IMAGE], {"g": floats()}), "an input has no number for each channel"),
    "mean of a batch": (
        one("BatchNormalization", "x g g m g", [IMAGE], {"g": floats(4), "m": floats(5)}), "an input has no number for each channel",
    ),
    "scale of channels": (
        one("GroupNormalization", "x g g", [IMAGE], {"g": floats(2)}, num_groups=2), "an input has no number for each channel",
    ),
    "no channels": (
        one("GroupNormalization", "x g g", [value("x", [1, 0, 4])], {"g": floats(0)}, num_groups=2), "images have no channels",
    ),
    "norm of integers": (one("LpNormalization", "x", [value("x", [4], INT64)]), "must be floats"),
    "mean of conditions": (one("MeanVarianceNormalization", "x", [value("x", [1, 4, 4, 4], BOOL)]), "must be floats"),
    "updates": (one("ScatterElements", "x i u", [X], {"i": [0, 1], "u": floats(3)}), "dimension 0 of input 'updates'"),
    "wrapped nothing": (one("Pad", "x p", [value("x", [0])], {"p": [1, 1]}, mode="wrap"), "dimension 0 has no elements to pad with"),
    # Keys and values.
    "past values": (
        microsoft("MultiHeadAttention", "x x x - - - p q",
                  [value("x", [1, 2, 8]), value("p", [1, 2, 3, 4]), value("q", [1, 2, 5, 4])], num_heads=2),
        "the length of 'past_value'",
    ),
    "tokens of keys": (grouped(key=[1, 3, 8]), "the number of tokens of input 'key'"),
    "sequences of the past": (grouped(past=[2, 2, 4, 4]), "the batch of the past"),
    "length of past values": (grouped(values=[1, 2, 5, 4]), "the number of past values"),
    "no tokens": (grouped(query=[1, 0, 8]), "queries have no tokens"),
    # Inputs that would enlarge what they go with.
    "bias of a product": (one("Gemm", "x w c", [value("x", [1, 4])], {"w": floats(4, 4), "c": floats(3, 4)}), "input 'C' has the shape [3, 4]"),
    "scale of a norm": (
        one("LayerNormalization", "x g", [X], {"g": floats(2, 4)}), "input 'Scale' has the shape [2, 4], which is not broadcast to [4]",
    ),
    "bias of a norm": (one("LayerNormalization", "x g b", [X], {"g": floats(4), "b": floats(2, 4)}), "input 'B' has the shape [2, 4]"),
    "scale of squares": (one("RMSNormalization", "x g", [X], {"g": floats(2, 4)}, 23), "input 'scale' has the shape [2, 4]"),
    "limit": (one("Clip", "x l", [X], {"l": floats(2, 1)}), "input 'min' has the shape [2, 1]"),
    "other limit": (one("Clip", "x - l", [X], {"l": floats(2, 4)}), "input 'max' has the shape [2, 4]"),
    "slope": (one("PRelu", "x s", [X], {"s": floats(2, 4)}), "input 'slope' has the shape [2, 4]"),
    "slope of the call": (one("PRelu", "x s", [value("x", [1]), value("s", ["n"])]), "input 'slope' has the shape [?]"),
    "fused sum": (microsoft("FusedConv", "x w - z", [IMAGE, WIDE], {"w": floats(4, 4, 1, 1)}), "input 'Z' has the shape [2, 4, 4, 4]"),
    "quantized sum": (
        microsoft("QGemm", "x s z w s z c", [value("x", [1, 4], UINT8)], {**BYTES, "c": tensor(np.ones((2, 4)), "", "i4")}),
        "input 'C' has the shape [2, 4]",
    ),
    "dynamic bias": (
        microsoft("DynamicQuantizeMatMul", "x w s z b", [value("x", [2, 4])], {**BYTES, "b": floats(3)}), "input 'bias' has the shape [3]",
    ),
    "skipped": (
        microsoft("SkipLayerNormalization", "x z g", [value("x", [1, 3, 4]), value("z", [2, 3, 4])], NORM),
        "input 'skip' has the shape [2, 3, 4]",
    ),
    "skipped images": (
        microsoft("SkipGroupNorm", "x g b z", [IMAGE, WIDE], NORM, groups=2, activation=0), "input 'skip' has the shape [2, 4, 4, 4]",
    ),
    "positions": (
        microsoft("EmbedLayerNormalization", "x - t t - g b - p", [value("x", [1, 3], INT32), value("p", [2, 3], INT32)],
                  {"t": floats(9, 4), **NORM}, "y m"),
        "input 'position_ids' has the shape [2, 3, 4]",
    ),
    "activated bias": (microsoft("BiasGelu", "x b", [X], {"b": floats(2, 4)}), "input 'bias' has the shape [2, 4]"),
    "gelu of a product": (
        microsoft("GemmFastGelu", "x w b", [value("x", [1, 4])], {"w": floats(4, 4), "b": floats(2, 4)}), "input 'bias' has the shape [2, 4]",
    ),
    "gate": (microsoft("GatedAdd", "x x g", [X], {"g": floats(2, 4)}), "input 'gate' has the shape [2, 4]"),
    "scale of an activation": (microsoft("ScaledSiLU", "x s", [X], {"s": floats(4)}), "input 'scale' is not one number"),
    "bias of heads": (
        microsoft("MultiHeadAttention", "x x x b", [value("x", [1, 2, 4])], {"b": floats(1, 12)}, num_heads=2),
        "input 'bias' has 2 dimensions, must have one",
    ),
    "bias of projections": (
        microsoft("Attention", "x w b", [value("x", [1, 2, 4])], {"w": floats(4, 12), "b": floats(2, 2, 12)}, num_heads=2),
        "input 'bias' has the shape [2, 2, 12]",
    ),
    "zero points without blocks": (
        microsoft("QMoE", "x r w s - w s - - - - z", EXPERTS,
                  {"w": tensor(np.ones((2, 16, 8)), "", "u1"), "s": floats(2, 16), "z": tensor(np.ones((2, 16)), "", "u1")}),
        "zero points need the attribute 'block_size'",
    ),
    "codebook": (
        microsoft("MatMulBnb4", "x w s", [value("x", [2, 16])], {"w": tensor(np.ones(8), "", "u1"), "s": floats(1)}, N=1, K=16, block_size=16, quant_type=2),
        "attribute 'quant_type' is 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bad_graphs(tools, tmp_path, name):
    data, message = CASES[name]
    check_refused(tools, tmp_path, data, message)


GOOD = {
    "input as output": model(graph([], [X], "x")),
    "initializer as output": model(graph([], [], "w", {"w": named("w", floats(4))})),
    "initializer as input": field(1, 3) + field(8, field(2, 8)) + field(7, graph([node("Add", "x w")], [X, value("w", [4])], stored={"w": named("w", floats(4))})),
    "unused domain": versions(("", 21), ("com.example", 7)),
    "version twice": versions(("", 21), ("ai.onnx", 21)),
    "names without values": model(graph([node("Dropout", "x", "y -")], [X])),
    "pads of the mode": one("Conv", "x w", [IMAGE], WEIGHT, auto_pad="SAME_UPPER", pads=[1, 1, 1, 1]),
    "no sizes": one("Resize", "x - s n", [IMAGE], {"s": tensor([1, 1, 2, 2], "", "f4"), "n": []}),
    "one limit": one("Clip", "x l", [value("x", [])], {"l": floats(1)}),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_graphs_near_them(tools, tmp_path, name):
    done = imported(tools, tmp_path, GOOD[name])
    assert done.returncode == 0, done.stderr


def seconds() -> float:
    """Return the time that processors spent on processes which have ended."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def test_many_kinds_of_nodes(tools, tmp_path):
    """Nodes that are all refused, each for a reason of its own, take no time that grows with their square."""
    count = 50_000
    nodes = b"".join(field(1, node(f"Unknown{number}", "x", f"v{number}")) for number in range(count))
    begin = seconds()
    done = imported(tools, tmp_path, model(Tensor(nodes + graph([node("Relu", "x")], [X]))))
    assert seconds() - begin < 10  # 0.3; 40 where each was compared with all
    assert done.returncode == 1
    assert f"{count} kinds of nodes are not imported" in done.stderr
    assert done.stderr.endswith("and 49900 more, which --list-ops lists\n")


def test_many_branches(tools, tmp_path):
    """Branches that the call chooses take no time that grows with their square, and one that is refused is not the others."""
    count = 32_000
    nodes = [node("If", "c", f"v{number}", then_branch=branch(node("Neg", "x", "r")), else_branch=branch(node("Abs", "x", "r")))
             for number in range(count)]  # fmt: skip
    begin = seconds()
    done = imported(tools, tmp_path, model(graph([*nodes, node("Relu", "x")], [X, value("c", [], BOOL)])))
    assert done.returncode == 0, done.stderr
    assert seconds() - begin < 8  # 2; 18 where what is known was copied for each


def test_a_large_file_of_nothing(tools, tmp_path):
    """A file of zeros is refused at its first byte."""
    with (tmp_path / "zeros.onnx").open("wb") as file:
        file.truncate(3 << 30)
    done = imported(tools, tmp_path, b"")
    assert "bad.onnx: is empty" in done.stderr
