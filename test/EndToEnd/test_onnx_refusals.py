# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files whose nodes do not go with what they read: each is refused in words, and none ends the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_runs import check_refused, imported, peak
from onnx_wire import (
    BOOL,
    INT8,
    INT32,
    INT64,
    MICROSOFT,
    NAMED,
    SMALLEST,
    STRING,
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
    packed,
    tensor,
    value,
)  # fmt: skip

IMAGE = value("x", [1, 4, 4, 4])
OF_CALL = value("x", [*"nchv"])


def microsoft(
    op: str, inputs: str, described: list[bytes], stored: dict[str, Any] | None = None, outputs: str = "y",
    **attributes: Any,
) -> bytes:  # fmt: skip
    """Return a model of one node of com.microsoft."""
    made = {name: named(name, each) if isinstance(each, Tensor) else each for name, each in (stored or {}).items()}
    whole = graph([node(op, inputs, outputs, **attributes) + field(7, MICROSOFT)], described, outputs, made)
    return model(whole)


def branch(*outputs: str) -> Any:
    """Return a graph that gives one number for each of its outputs."""
    return graph([node("Constant", "", name, value=floats(1)) for name in outputs], [], " ".join(outputs))


def calls(depth: int) -> bytes:
    """Return functions that call one another, each inside of a branch."""

    def function(number: int) -> bytes:
        inner = node(f"F{number + 1}", "x", "z") if number < depth else node("Neg", "x", "z")
        inner = inner + field(7, "f") if number < depth else inner
        nodes = [node("Constant", "", "c", value=tensor(True, "", "b1")),
                 node("If", "c", "y", then_branch=graph([inner], [], "z"), else_branch=graph([inner], [], "z"))]  # fmt: skip
        sets = field(9, field(2, 21)) + field(9, field(1, "f") + field(2, 1))
        return (
            field(1, f"F{number}")
            + field(4, "x")
            + field(5, "y")
            + b"".join(field(7, n) for n in nodes)
            + sets
            + field(10, "f")
        )

    whole = graph([node("F0", "x") + field(7, "f")], [X])
    return model(whole, functions=[function(number) for number in range(depth + 1)])


def loop(inputs: str, described: list[bytes], results: str, *nodes: bytes, outputs: str = "y") -> bytes:
    """Return a model of a loop that carries v and always goes on by itself."""
    body = graph(
        [node("Identity", "c2", "d"), *nodes], [value("i", [], INT64), value("c2", [], BOOL), value("v", [4])], results,
    )  # fmt: skip
    return model(graph([node("Loop", inputs, outputs, body=body)], described, outputs))


def without_elements(*dims: int) -> Tensor:
    """Return a tensor of int64 without a name and without elements."""
    return Tensor(fields(1, dims) + field(2, INT64))


def left_out(*nodes: bytes) -> bytes:
    """Return a model that calls a function of x and an input that the call leaves out; c is a condition of the call."""
    function = (
        field(1, "F") + fields(4, ["x", "left", "c"]) + field(5, "y") + fields(7, nodes) + field(9, field(2, 21))
        + field(10, "f")
    )  # fmt: skip
    call = node("F", "x - c") + field(7, "f")
    return model(graph([call], [X, value("c", [], BOOL)]), functions=[function])


def with_large_default() -> bytes:
    """Return a function with a constant that is a default, of so many bytes that it is a weight."""
    default = field(1, "v") + field(20, 4) + field(5, floats(400))
    constant = node("Constant", "", "w") + field(5, field(1, "value") + field(20, 4) + field(21, "v"))
    function = (
        field(1, "Add") + field(4, "x") + field(5, "y") + fields(7, [constant, node("Add", "x w")])
        + field(9, field(2, 21)) + field(10, "f") + field(11, default)
    )  # fmt: skip
    return model(graph([node("Add", "x") + field(7, "f")], [value("x", [400])]), functions=[function])


def with_size(
    op: str, inputs: str, stored: dict[str, Any], outputs: str = "y", opset: int = 21, before: list[bytes] | None = None,
    **attributes: Any,
) -> bytes:  # fmt: skip
    """Return a model of one node that reads x, what is stored, and the number n of the rows of x."""
    rows = [node("Shape", "x", "s"), node("Gather", "s first", "n")]
    made = {name: named(name, each) if isinstance(each, Tensor) else each for name, each in stored.items()}
    nodes = [*rows, *(before or []), node(op, inputs, outputs, **attributes)]
    whole = graph(nodes, [NAMED], outputs, {"first": [0], **made})
    return model(whole, opset)


def with_default(reference: bool) -> bytes:
    """Return a function whose shape is filled with a default."""
    default = field(1, "v") + field(20, 4) + (field(21, "w") if reference else field(5, floats(1)))
    filled = node("ConstantOfShape", "s", "y") + field(5, field(1, "value") + field(20, 4) + field(21, "v"))
    function = (
        field(1, "Fill") + field(4, "s") + field(5, "y") + field(7, filled) + field(9, field(2, 21)) + field(10, "f")
        + field(11, default)
    )  # fmt: skip
    whole = graph([node("Fill", "s", "f") + field(7, "f"), node("Add", "x f")], [X], stored={"s": [4]})
    return model(whole, functions=[function])


CASES = {
    # Outputs that ops do not have.
    "outputs": (one("Relu", "x", [X], outputs="y z"), "output 1 is not imported"),
    "statistics": (
        one("BatchNormalization", "x s s s t", [IMAGE], {"s": floats(4), "t": floats(3)}, training_mode=1),
        "an input has no number for each channel",
    ),
    "branch results": (
        one("If", "c", [], {"c": tensor(True, "", "b1")}, then_branch=branch("a"), else_branch=branch("b"), outputs="y z"),
        "output 1 is not imported",
    ),
    # Positions in axes without elements, of which none is the largest.
    "argument of nothing": (one("ArgMax", "x", [value("x", [3, 0])], axis=1), "dimension 1 of input 'data' is 0, must be at least 1"),
    # Numbers in fields of other types.
    "complex128": (one("Identity", "w", [], {"w": Tensor(field(1, 1) + field(2, 15) + field(7, 1))}), "in field 7"),
    "float as integers": (one("Identity", "w", [], {"w": Tensor(field(1, 1) + field(2, 1) + field(5, 1))}), "in field 5"),
    "integers as float": (one("Identity", "w", [], {"w": Tensor(field(1, 2) + field(2, 7) + field(4, 1.0))}), "in field 4"),
    # Scales.
    "axis of scales": (one("QuantizeLinear", "x s", [X], {"s": floats(4)}), "'axis' is 1"),
    "scales of a scalar": (one("QuantizeLinear", "x s", [value("x", [])], {"s": floats(2)}, axis=0), "'axis' is 0"),
    "blocks of a scalar": (one("QuantizeLinear", "x s", [value("x", [])], {"s": floats(2)}, block_size=2), "'axis' is 1"),
    "blocks": (
        one("DequantizeLinear", "x s", [value("x", [4, 4], INT8)], {"s": floats(4, 4)}, block_size=1 << 62), "blocks of",
    ),
    "blocks too small": (
        one("DequantizeLinear", "x s", [value("x", [4, 4], INT8)], {"s": floats(4, 2)}, block_size=1), "2 blocks of 1",
    ),
    # Elements that are followed.
    "permutation": (one("Transpose", "w", [], {"w": [[1, 2], [3, 4]]}, perm=[0, 0]), "no permutation"),
    "squeezed scalar": (one("Squeeze", "w a", [], {"w": 1, "a": [0]}), "'axes' is 0"),
    "unsqueezed twice": (one("Unsqueeze", "w a", [], {"w": 1, "a": [0, 0]}), "'axes' has the axis 0 twice"),
    "fill": (one("ConstantOfShape", "s", [], {"s": [2]}, value=7), "'value' is no tensor"),
    "turned nothing": (
        one("Transpose", "w", [], {"w": without_elements(1 << 62, 1 << 62, 0)}, perm=[0, 1, 2]),
        "more elements than memory can hold",
    ),
    "reshaped nothing": (
        model(graph([node("Reshape", "w s", "r", allowzero=1), node("Transpose", "r", perm=[1, 2, 0])], [],
                    stored={"w": np.zeros(0), "s": [0, 1 << 62, 1 << 62]})),
        "more elements than memory can hold",
    ),
    "stored condition": (one("Not", "w", [], {"w": floats(2)}), "elements are of type float, must be bool"),
    "stored conditions": (one("And", "w w", [], {"w": floats(2)}), "elements are of type float, must be bool"),
    "stored numbers": (
        one("Add", "w z", [], {"w": floats(1), "z": tensor([1], "", "i4")}), "inputs have elements of float and int32",
    ),
    "stored choices": (
        one("Where", "c w z", [], {"c": tensor([True], "", "b1"), "w": floats(1), "z": [1]}),
        "inputs have elements of float and int64",
    ),
    # Parameters that are sizes of the call, or no integers.
    "axes of a size": (
        with_size("Slice", "x b b n", {"b": [1]}), "input 'axes' depends on sizes of the call",
    ),
    "begin": (one("Slice", "x b e", [X], {"b": floats(1), "e": [2]}), "input 'starts' has elements that are no integers"),
    "end": (one("Slice", "x b e", [X], {"b": [0], "e": floats(1)}), "input 'ends' has elements that are no integers"),
    "padded with a size": (with_size("Pad", "x p n", {"p": [1] * 4}), "inputs have elements of float and int64"),
    "padded with two": (one("Pad", "x p v", [X], {"p": [1, 1], "v": floats(2)}), "input 'constant_value' is not one number"),
    "mode": (one("Dropout", "x r t", [X], {"r": floats(), "t": floats()}), "unless input 'training_mode' is false"),
    "size of a mode": (with_size("Dropout", "x r n", {"r": floats()}), "unless input 'training_mode' is false"),
    # Inputs that the call of a function leaves out.
    "shape of nothing": (left_out(node("Shape", "left")), "has no input"),
    "branches of nothing": (
        left_out(node("If", "c", **{f"{name}_branch": graph([node("Identity", "left", "r")], [], "r")
                                    for name in ("then", "else")})),
        "has no input",
    ),
    "result of nothing": (
        one("If", "c", [value("c", [], BOOL)], then_branch=graph([node("Dropout", "-", "r")], [], "r"),
            else_branch=graph([node("Dropout", "-", "r")], [], "r")),
        "output 'y' is not imported",
    ),
    # States.
    "dimensions of a past": (
        one("CausalConvWithState", "x w - p", [value("x", [1, 2, 4]), value("p", [3])], {"w": floats(2, 1, 3)}, 27),
        "inputs have 1 and 3 dimensions",
    ),
    "channels of a past": (
        one("CausalConvWithState", "x w - p", [value("x", [1, 2, 4]), value("p", [1, 3, 2])], {"w": floats(2, 1, 3)}, 27),
        "inputs have sizes 3 and 2 in dimension 1",
    ),
    "length of a past": (
        one("CausalConvWithState", "x w - p", [value("x", [1, 2, 4]), value("p", [1, 2, 3])], {"w": floats(2, 1, 3)}, 27),
        "the past has 3 positions, must have 2",
    ),
    "type of a past": (
        one("CausalConvWithState", "x w - p", [value("x", [1, 2, 4]), value("p", [1, 2, 2], INT32)],
            {"w": floats(2, 1, 3)}, 27),
        "inputs have elements of float and int32",
    ),
    "empty window": (
        one("CausalConvWithState", "x w", [value("x", [1, 2, 4])], {"w": floats(2, 1, 0)}, 27), "one window for each channel",
    ),
    "bias of windows": (
        one("CausalConvWithState", "x w b", [value("x", [1, 2, 4])], {"w": floats(2, 1, 3), "b": floats(3)}, 27),
        "the bias has no element for each channel",
    ),
    "past keys": (
        one("Attention", "x x x - p p", [value("x", [1, 2, 3, 4]), value("p", [1, 3, 3, 4])], opset=23, outputs="y k v"),
        "dimension 1 of input 'past_key' is 3, must be 2",
    ),
    "index": (one("Gather", "x i", [X], {"i": np.asarray(-5)}), "index -5 is not in dimension 0 of input 'data', which has 4"),
    "one of the indices": (one("Gather", "x i", [X], {"i": [0, 4]}), "index 4 is not in dimension 0"),
    "scanned lengths": (
        one("Scan", "x z", [value("x", [3, 2]), value("z", [4, 2])], body=graph([node("Add", "a b", "c")], [value("a", [2]), value("b", [2])], "c"),
            num_scan_inputs=2),
        "dimension 0 of input 'z' is 4, must be 3, dimension 0 of input 'x'",
    ),
    "type of past keys": (
        one("Attention", "x x x - p p", [value("x", [1, 2, 3, 4]), value("p", [1, 2, 3, 4], INT32)], opset=23,
            outputs="y k v"),
        "inputs have elements of float and int32",
    ),
    # Quantized tensors.
    "type of scales": (
        one("DequantizeLinear", "x s", [value("x", [4], INT8)], {"s": floats()}, 23, output_dtype=17), "'output_dtype'",
    ),
    "zero points": (
        one("QLinearMatMul", "x s z x s z s t", [value("x", [4, 4], INT8)],
            {"s": floats(), "z": tensor(0, "", "i1"), "t": tensor([0, 0], "", "i1")}),
        "which is not broadcast to [4, 4]",
    ),
    "images of floats": (one("ConvInteger", "x w", [IMAGE], {"w": floats(2, 4, 1, 1)}), "must be int8 or uint8"),
    "flat weight": (
        one("ConvInteger", "x w", [value("x", [1, 4, 4, 4], INT8)], {"w": tensor(np.ones((4, 4)), "", "i1")}), "need as many, 3 to 5",
    ),
    "scales of channels": (
        one("QLinearConv", "x s z w t z s z", [value("x", [1, 4, 4, 4], INT8)],
            {"s": floats(), "t": floats(3), "z": tensor(0, "", "i1"), "w": tensor(np.ones((2, 4, 1, 1)), "", "i1")}),
        "input 'w_scale' is not one number, nor one for each row or channel",
    ),
    "long sums": (
        one("MatMulInteger", "x z", [value("x", [4, 1 << 20], INT8), value("z", [1 << 20, 4], INT8)]), "larger than 32 bits",
    ),
    # Ops of com.microsoft.
    "context": (microsoft("EPContext", "x", [X]), "is not imported"),
    "bits": (
        microsoft("MatMulNBits", "x b s", [X], {"b": tensor([0] * 4, "", "u1"), "s": floats(1)}, N=1, K=4, bits=3, block_size=16),
        "attribute 'bits' is 3",
    ),
    "size of blocks": (
        microsoft("MatMulNBits", "x b s", [X], {"b": tensor([0] * 4, "", "u1"), "s": floats(1)}, N=1, K=4, block_size=24),
        "attribute 'block_size' is 24",
    ),
    "no rows": (
        microsoft("MatMulNBits", "x b s", [X], {"b": tensor([0] * 8, "", "u1"), "s": floats(1)}, N=-1, K=4, block_size=16),
        "a weight is of -1 times 4",
    ),
    "many rows": (
        microsoft("MatMulNBits", "x b s", [X], {"b": tensor([0] * 8, "", "u1"), "s": floats(1)}, N=(1 << 31) - 1,
                  K=(1 << 31) - 1, block_size=16),
        "a weight is of 2147483647 times 2147483647",
    ),
    "bytes of a weight": (
        microsoft("MatMulNBits", "x b s", [X], {"b": tensor([0] * 7, "", "u1"), "s": floats(1)}, N=1, K=4, block_size=16),
        "input 'B' does not have 8 elements",
    ),
    "no scales": (microsoft("MatMulNBits", "x b", [X], {"b": tensor([0] * 8, "", "u1")}, N=1, K=4, block_size=16), "has no input 2"),
    "axis of rows": (
        microsoft("GatherBlockQuantized", "b x s", [value("x", [2], INT64)],
                  {"b": tensor(np.zeros((16, 8)), "", "u1"), "s": floats(1, 16)}, gather_axis=1, quantize_axis=0, block_size=16),
        "attribute 'gather_axis' must be 0",
    ),
    "scales of rows": (
        microsoft("GatherBlockQuantized", "b x s", [value("x", [2], INT64)],
                  {"b": tensor(np.zeros((40, 16)), "", "u1"), "s": floats(29, 1)}, block_size=32),
        "input 2 does not go with blocks of 32 in a table of 32 features",
    ),
    "features of a norm": (
        microsoft("SkipLayerNormalization", "x x g", [value("x", [2, 3, 4])], {"g": floats(5)}), "one number for each feature",
    ),
    "no groups": (
        microsoft("GroupNorm", "x g g", [IMAGE], {"g": floats(4)}, groups=0, activation=0), "attribute 'groups' is 0",
    ),
    "activation": (microsoft("FusedConv", "x w", [IMAGE], {"w": floats(2, 4, 1, 1)}, activation="Mystery"), "'Mystery'"),
    "heads": (microsoft("MultiHeadAttention", "x x x", [value("x", [1, 2, 9])], num_heads=2), "not one of 2 heads"),
    "no keys": (microsoft("MultiHeadAttention", "x", [value("x", [1, 2, 8])], num_heads=2), "queries, keys and values"),
    "sizes of projections": (
        microsoft("Attention", "x w", [value("x", [1, 2, 4])], {"w": floats(4, 9)}, num_heads=1, qkv_hidden_sizes=[4, 4, 4]),
        "'qkv_hidden_sizes' does not divide 9",
    ),
    "shared heads": (
        microsoft("GroupQueryAttention", "x - - - - l t", [value("x", [1, 2, 8]), value("l", [1], INT32), value("t", [1], INT32)],
                  num_heads=3, kv_num_heads=2),
        "there are 3 heads, and 2 of keys",
    ),
    "kept caches": (
        microsoft("GroupQueryAttention", "x - - - - l t", [value("x", [1, 2, 8]), value("l", [1], INT32), value("t", [1], INT32)],
                  num_heads=2, kv_num_heads=1, k_quant_type="PER_TENSOR"),
        "'k_quant_type' must be NONE",
    ),
    "no zero point": (microsoft("QLinearConcat", "s - x s z", [value("x", [4], INT8)], {"s": floats(), "z": tensor(0, "", "i1")},
                                axis=0), "no zero point"),
    "type of a scale": (
        one("SimplifiedLayerNormalization", "x s", [X], {"s": tensor([1] * 4, "", "i4")}), "must be floats of 16 or 32 bits",
    ),
    "parts and scales": (microsoft("QLinearConcat", "s z x s", [value("x", [4], INT8)], {"s": floats(), "z": tensor(0, "", "i1")},
                                   axis=0), "has 4 inputs"),
    "flat experts": (
        microsoft("MoE", "x r w - w", [value("x", [2, 4]), value("r", [2, 4])], {"w": floats(4, 4)}), "[experts, outputs, inputs]",
    ),
    "response": (one("LRN", "x", [IMAGE], size=1 << 40), "attribute 'size' is 1099511627776"),
    "default": (with_default(True), "refers to another attribute"),
    # Divisions by nothing.
    "block of images": (one("DepthToSpace", "x", [IMAGE], blocksize=1 << 32), "'blocksize'"),
    "odd block": (one("SpaceToDepth", "x", [IMAGE], blocksize=3), "'blocksize'"),
    "no parts": (
        model(graph([node("Split", "x", ""), node("Relu", "x")], [X])), "has no outputs",
    ),
    # Sizes below 0.
    "expand": (one("Expand", "x s", [X], {"s": [-1]}), "dimension of -1"),
    "smallest": (one("Expand", "x s", [X], {"s": [SMALLEST]}), "the element -9223372036854775808"),
    "depth": (one("OneHot", "x d v", [value("x", [4], INT64)], {"d": -1, "v": floats(2)}), "'depth'"),
    "rotated": (
        one("RotaryEmbedding", "x t t", [value("x", [1, 1, 2, 4])], {"t": floats(1, 2, 2)}, 23, rotary_embedding_dim=-2),
        "'rotary_embedding_dim' is -2",
    ),
    "texts": (
        one("EyeLike", "w", [], {"w": Tensor(field(1, -5) + field(1, 3) + field(2, STRING))}, dtype=1), "dimension of -5",
    ),
    # Elements of other types than an op has.
    "not": (one("Not", "x", [X]), "elements are of type float, must be bool"),
    "bitwise not": (one("BitwiseNot", "x", [X]), "elements are of type float, must be integers"),
    "infinity": (one("IsInf", "x", [value("x", [4], INT32)]), "elements are of type int32, must be floats"),
    "root": (one("Sqrt", "x", [value("x", [4], INT64)]), "must be floats"),
    "mask": (
        model(graph([node("Dropout", "w", "y m")], [], "m", {"w": tensor([1], "w", "c8")}), 7),
        "elements of type complex64 are not computed",
    ),
    "sum": (one("Add", "x z", [X, value("z", [4], INT32)]), "inputs have elements of float and int32"),
    "largest": (one("Max", "x z", [X, value("z", [4], INT32)]), "inputs have elements of float and int32"),
    "equal": (one("Equal", "x z", [X, value("z", [4], UINT8)]), "inputs have elements of float and uint8"),
    "condition": (one("Where", "x x x", [X]), "must be bool"),
    "indices": (one("Gather", "x x", [X]), "must be int32 or int64"),
    # Conditions.
    "sizes of a condition": (
        one("If", "x", [value("x", [2], BOOL)], then_branch=branch("a"), else_branch=branch("b")), "is not one element",
    ),
    "type of a condition": (
        one("If", "x", [value("x", [])], then_branch=branch("a"), else_branch=branch("b")), "must be bool",
    ),
    # Numbers that 64 bits do not count.
    "elements": (one("Relu", "x", [value("x", [1 << 40, 1 << 40])]), "more elements than memory can hold"),
    "filled": (one("ConstantOfShape", "s", [], {"s": [1 << 40, 1 << 40]}), "more elements than memory can hold"),
    "tiled": (one("Tile", "x r", [X], {"r": [1 << 60]}), "more elements than memory can hold"),
    "reshaped": (one("Reshape", "x s", [X], {"s": [1 << 40, 1 << 40, -1]}), "more elements than 64 bits count"),
    "parts": (one("Split", "x s", [X], {"s": [1 << 62] * 4 + [4]}, outputs="y a b c d"), "no division"),
    "pads": (one("Pad", "x p", [X], {"p": [(1 << 63) - 1, 1]}), "more than 32 bits"),
    "window": (
        one("MaxPool", "x", [IMAGE], kernel_shape=[2, 2], dilations=[(1 << 63) - 1, 1]), "more than 32 bits",
    ),
    "stride": (
        one("ConvTranspose", "x w", [IMAGE], {"w": floats(4, 4, 3, 3)}, strides=[1 << 62, 1]), "more than 32 bits",
    ),
    "scanned inputs": (one("Scan", "x", [X], body=branch("a"), num_scan_inputs=SMALLEST), "'num_scan_inputs'"),
    "scale": (
        one("Resize", "x - s", [IMAGE], {"s": tensor([1, 1, 1e30, 1], "", "f4")}), "more elements than memory can hold",
    ),
    # What is not computed.
    "backwards": (
        one("Slice", "x b e a s", [NAMED], {"b": [3], "e": [1], "a": [0], "s": [-1]}), "a slice backwards",
    ),
    "arithmetic of 8 bits": (
        model(graph([node("Cast", "x", "q", to=17), node("Add", "q q")], [X])), "input 0 has elements of type float8e4m3fn",
    ),
    "result of 4 bits": (one("EyeLike", "x", [NAMED], dtype=22), "results of type int4 are not computed"),
    "shape of 4 bits": (
        one("Reshape", "x s", [X], {"s": packed("s", 22, [4], "4")}), "elements are of type int4, must be integers",
    ),
    "bits of two widths": (one("BitCast", "x", [X], opset=26, to=INT64), "no type int64 of as many bits"),
    "bits of no type": (one("BitCast", "x", [X], opset=26, to=99), "no type type 99 of as many bits"),
    "bits of 6": (one("BitCast", "x", [value("x", [4], 27)], opset=28, to=28), "no type float6e3m2 of as many bits"),
    "mode of powers": (one("Cast", "x", [X], opset=24, to=24, round_mode="away"), "'round_mode' is 'away'"),
    "powers as quantized": (
        one("QuantizeLinear", "x s", [X], {"s": tensor(1.0, "", "f4")}, output_dtype=24), "results are of type float8e8m0",
    ),
    "two types of results": (
        one("QuantizeLinear", "x s z", [X], {"s": tensor(1.0, "", "f4"), "z": packed("z", 22, 0, "4")}, output_dtype=21),
        "results are of type int4, must be",
    ),
    "powers as results": (
        one("DequantizeLinear", "x s", [value("x", [4], 22)], {"s": packed("s", 24, 127, "8")}, opset=28),
        "results are of type float8e8m0, must be floats",
    ),
    # Depths.
    "depth of calls": (calls(60), "more than 64 deep"),
    # Loops, sequences, and ops that are loops inside.
    "grows": (loop("m - x", [X, value("m", [], INT64)], "d w", node("Concat", "v v", "w", axis=0)), "goes on with one of f32[8]"),
    "changes type": (loop("m - x", [X, value("m", [], INT64)], "d w", node("Cast", "v", "w", to=INT64)), "one of int64"),
    "results of a number in the call": (
        loop("m - x", [X, value("m", [], INT64)], "d w p", node("Neg", "v", "w"), node("Abs", "v", "p"), outputs="y z"),
        "the number of iterations must be known to the compiler, or a size of the call",
    ),
    "never ends": (loop("- c x", [X, value("c", [], BOOL)], "d w", node("Neg", "v", "w")), "the loop never ends"),
    "two conditions": (
        loop("- c x", [X, value("c", [2], BOOL)], "d w", node("Neg", "v", "w")), "whether it goes on is not one element",
    ),
    "iterations": (
        loop("m - x", [X, value("m", [2], INT64)], "d w", node("Neg", "v", "w")), "the number of iterations is not one element",
    ),
    "branches": (
        model(graph([node("If", "c", then_branch=graph([node("Neg", "x", "a")], [], "a"),
                          else_branch=graph([node("Concat", "x x", "b", axis=0)], [], "b"))], [X, value("c", [], BOOL)])),
        "branches have results of f32[4] and f32[8], so that the condition must be known",
    ),
    "branch of a sequence": (
        model(graph([node("If", "c", "s", then_branch=graph([node("SequenceConstruct", "x", "a")], [], "a"),
                          else_branch=graph([node("SequenceEmpty", "", "b")], [], "b")),
                     node("SequenceLength", "s")], [X, value("c", [], BOOL)])),
        "a branch gives a sequence or nothing",
    ),
    "sequence as a result": (one("SequenceConstruct", "x", [X]), "output 'y' is no tensor"),
    "sequence as a tensor": (
        model(graph([node("SequenceConstruct", "x", "s"), node("Neg", "s")], [X])), "input 0 is a sequence, must be a tensor",
    ),
    "sequence in a sequence": (
        model(graph([node("SequenceConstruct", "x", "s"), node("SequenceConstruct", "s")], [X])), "input 0 is a sequence",
    ),
    "nothing as a tensor": (model(graph([node("Optional", "", "s"), node("Neg", "s")], [X])), "that an optional one does not have"),
    "nothing": (model(graph([node("Optional", "", "s"), node("OptionalGetElement", "s")], [X])), "has no element"),
    "place": (
        model(graph([node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s p")], [X], stored={"p": np.asarray(2)})),
        "'position' is 2, of a sequence of 2 tensors",
    ),
    "place in the call": (
        model(graph([node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s p")], [X, value("p", [], INT64)])),
        "input 'position' is computed by the call",
    ),
    "erased": (model(graph([node("SequenceEmpty", "", "s"), node("SequenceErase", "s", "t"), node("SequenceLength", "t")], [X])), "the sequence has no tensors"),
    "types of a sequence": (
        model(graph([node("SequenceEmpty", "", "s", dtype=INT64), node("SequenceInsert", "s x", "t"), node("SequenceLength", "t")], [X])),
        "a tensor of float is put into a sequence of int64",
    ),
    "parts of a sequence": (
        model(graph([node("SplitToSequence", "x p", "s"), node("SequenceLength", "s")], [X], stored={"p": np.asarray(-1)})), "'split' is -1",
    ),
    "many parts": (
        model(graph([node("SplitToSequence", "x", "s"), node("SequenceLength", "s")], [value("x", [1 << 40])])), "'split' is 1, of",
    ),
    "joined": (model(graph([node("SequenceEmpty", "", "s"), node("ConcatFromSequence", "s", axis=0)], [X])), "has no tensors"),
    "mapped": (
        model(graph([node("SequenceConstruct", "x", "s"), node("SequenceMap", "s", "t", body=branch("a")),
                     node("SequenceLength", "t")], [X])),
        "attribute 'body' has 0 inputs, the node 1",
    ),
    "random": (one("RandomNormal", "", [X], shape=[2]), "draws random numbers"),
    "heads of queries": (
        one("LinearAttention", "x x x", [value("x", [1, 2, 4])], opset=27, outputs="y z", update_rule="linear", q_num_heads=3, kv_num_heads=2),
        "'q_num_heads' and 'kv_num_heads' are 3 and 2",
    ),
    "features of heads": (
        one("LinearAttention", "x x x", [value("x", [1, 2, 5])], opset=27, outputs="y z", update_rule="linear", q_num_heads=2, kv_num_heads=2),
        "has 5 features, of 2 heads",
    ),
    "decay": (
        one("LinearAttention", "x x x", [value("x", [1, 2, 4])], opset=27, outputs="y z", update_rule="gated", q_num_heads=2, kv_num_heads=2),
        "needs the input 'decay'",
    ),
    "state of others": (
        one("LinearAttention", "x x x s", [value("x", [1, 2, 4]), value("s", [1, 2, 2, 3])], opset=27, outputs="y z",
            update_rule="linear", q_num_heads=2, kv_num_heads=2),
        "dimension 3 of input 'past_state' is 3, must be 2",
    ),
    "cache along batches": (one("TensorScatter", "x x", [IMAGE], opset=24, axis=0), "'axis' is 0"),
    "long update": (
        one("TensorScatter", "x u", [value("x", [1, 2, 3]), value("u", [1, 3, 3])], opset=24), "dimension 1 of input 'update' is 3, must be at most 2",
    ),
    "deformed group": (
        one("DeformConv", "x w o", [IMAGE, value("w", [4, 4, 1, 1]), value("o", [1, 2, 4, 4])], group=1 << 40), "do not go with",
    ),
    "deformed offsets": (
        one("DeformConv", "x w o", [IMAGE, value("w", [4, 4, 1, 1]), value("o", [1, 3, 4, 4])]), "dimension 1 of input 'offset' is 3, must be 2",
    ),
    "deformed dimensions": (
        one("DeformConv", "x w o", [value(name, [1] * 40) for name in "xwo"]), "38 spatial dimensions",
    ),
    "score of a sequence": (
        model(graph([node("FlexAttention", "x x x", score_mod=graph([node("SequenceConstruct", "s", "t")], [value("s", [])], "t")) + field(7, "ai.onnx.preview")], [IMAGE]))
        + field(8, field(1, "ai.onnx.preview") + field(2, 1)),
        "gives a tensor of other elements",
    ),
    # Windows and shapes that the call decides.
    "window of the call": (one("Conv", "x w", [OF_CALL, value("w", [*"mdkl"])], kernel_shape=[-5, 2]), "has the size -5"),
    "window of two numbers": (
        one("ConvTranspose", "x w", [OF_CALL, value("w", [*"mdkl"])], kernel_shape=[2, 1 << 40]), "has the size 1099511627776",
    ),
    "pads of windows of the call": (
        one("Conv", "x w", [OF_CALL, value("w", [*"mdkl"])], auto_pad="SAME_UPPER"), "pads depend on the sizes of the windows",
    ),
    "short windows": (
        one("MaxPool", "x", [OF_CALL], kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1), "'ceil_mode' needs to know the size",
    ),
    "reflected": (with_size("Pad", "x pads", {"zero": [0]}, before=[node("Concat", "n n zero zero", "pads", axis=0)], mode="reflect"),
                  "input 'pads' depends on sizes of the call"),
    "determinant": (one("Det", "x", [value("x", [3, 4])]), "matrices must be square"),
    "large determinant": (one("Det", "x", [value("x", [1 << 20, 1 << 20])]), "at most 16"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bad_models(tools, tmp_path, name):
    check_refused(tools, tmp_path, *CASES[name])


GOOD = {
    "default": with_default(False),
    "blocks": one("DequantizeLinear", "x s", [value("x", [4, 3], INT8)], {"s": floats(4, 2)}, block_size=2),
    "one scale": one("QuantizeLinear", "x s", [X], {"s": floats(1)}),
    "calls": calls(20),
    "nothing backwards": one(
        "Slice",
        "x b e a s",
        [value("x", [0, 4])],
        {"b": [3], "e": [1], "a": [0], "s": [-1]},
    ),
    "limits": left_out(node("Clip", "x left")),
    "large default": with_large_default(),
    "unread result": model(graph([node("MaxPool", "x", "y -", kernel_shape=[2, 2])], [IMAGE])),
}


@pytest.mark.parametrize("name", GOOD)
def test_models_near_them(tools, tmp_path, name):
    """What is nearly one of the bad models is imported: the refusals are no wider than they need to be."""
    done = imported(tools, tmp_path, GOOD[name])
    assert done.returncode == 0, done.stderr


def test_memory(tools, tmp_path):
    """Elements of a large tensor stay in the file: they are followed one by one in small tensors only."""
    stored = {"w": tensor(np.ones(1 << 24), "w", "u1")}
    (tmp_path / "large.onnx").write_bytes(
        model(graph([node("Pow", "x w")], [value("x", [1 << 24], UINT8)], stored=stored))
    )
    status, mebibytes = peak(tools, tmp_path / "large.onnx", "--stop-after=import", "-o", tmp_path / "m.mlir")
    assert status == 0
    assert mebibytes < 512  # 60 bytes for each element are 960
