#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the ONNX files in onnx/, and what ONNX's reference evaluator computes of them. It needs the `onnx` package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FOLDER = Path(__file__).resolve().parent / "onnx"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[str],
    weights: dict[str, np.ndarray],
    opset: int = 21,
    functions: list[onnx.FunctionProto] | None = None,
) -> onnx.ModelProto:
    """Return a model; its outputs have no stated shapes."""
    graph = helper.make_graph(
        nodes,
        "graph",
        inputs,
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    domains = {"": opset} | {function.domain: 1 for function in functions or []}
    imports = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def value(name: str, shape: list[int | str], kind: int = FLOAT) -> onnx.ValueInfoProto:
    """Return the description of an input."""
    return helper.make_tensor_value_info(name, kind, shape)


def normal(*shape: int) -> np.ndarray:
    """Return numbers around 0, the same in each run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def mlp() -> onnx.ModelProto:
    """Return two layers over a dynamic batch."""
    weights = {"w1": normal(8, 16) / 3, "b1": normal(16), "w2": normal(4, 16) / 4}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], "first"),
        helper.make_node("Add", ["h", "b1"], ["s"], "bias"),
        helper.make_node("Relu", ["s"], ["r"], "relu"),
        helper.make_node("Gemm", ["r", "w2"], ["y"], "second", transB=1),
    ]
    return model(nodes, [value("x", ["batch", 8])], ["y"], weights)


def convolutions() -> onnx.ModelProto:
    """Return a convolution with its norm, a depthwise one, pools and a classifier."""
    weights = {
        "w": normal(8, 3, 3, 3) / 5, "scale": np.abs(normal(8)), "bias": normal(8), "mean": normal(8) / 4,
        "variance": np.abs(normal(8)) + 1, "d": normal(8, 1, 3, 3) / 3, "c": normal(5, 8),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv", strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "scale", "bias", "mean", "variance"], ["b"], "norm"),
        helper.make_node("Relu", ["b"], ["e"]),
        helper.make_node("Conv", ["e", "d"], ["f"], "depthwise", group=8, auto_pad="SAME_UPPER"),
        helper.make_node("MaxPool", ["f"], ["g"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["g"], ["h"]),
        helper.make_node("Flatten", ["h"], ["i"]),
        helper.make_node("Gemm", ["i", "c"], ["y"], transB=1),
    ]
    return model(nodes, [value("x", ["N", 3, 16, 16])], ["y"], weights)


def shapes() -> onnx.ModelProto:
    """Return heads that are split off and joined by shapes which the model computes of its input's."""
    weights = {
        "zero": np.array(0), "one": np.array(1), "heads": np.array([4]), "minus": np.array([-1]), "axis": np.array([0]),
        "first": np.array([0]), "two": np.array([2]),
    }  # fmt: skip
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Gather", ["shape", "one"], ["length"]),
        helper.make_node("Unsqueeze", ["batch", "axis"], ["b"]),
        helper.make_node("Unsqueeze", ["length", "axis"], ["l"]),
        helper.make_node("Concat", ["b", "l", "heads", "minus"], ["split"], axis=0),
        helper.make_node("Reshape", ["x", "split"], ["s"]),
        helper.make_node("Transpose", ["s"], ["t"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["t"], ["k"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["t", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["p"]),
        helper.make_node("MatMul", ["p", "t"], ["m"]),
        helper.make_node("Transpose", ["m"], ["u"], perm=[0, 2, 1, 3]),
        helper.make_node("Concat", ["b", "l", "minus"], ["joined"], axis=0),
        helper.make_node("Reshape", ["u", "joined"], ["v"]),
        helper.make_node("Slice", ["v", "first", "l", "one_axis"], ["w"]),
        helper.make_node("Add", ["w", "x"], ["y"]),
    ]
    return model(nodes, [value("x", ["batch", "length", 16])], ["y"], weights | {"one_axis": np.array([1])})


def functions() -> onnx.ModelProto:
    """Return a function of the model's own with an attribute, called twice, and a branch that is decided now."""
    body = [
        helper.make_node("Constant", [], ["factor"]),
        helper.make_node("Mul", ["a", "factor"], ["b"]),
        helper.make_node("Sigmoid", ["b"], ["c"]),
    ]
    body[0].attribute.append(
        onnx.AttributeProto(name="value_float", ref_attr_name="by", type=onnx.AttributeProto.FLOAT)
    )
    function = helper.make_function("own", "Scaled", ["a"], ["c"], body, [helper.make_opsetid("", 21)], ["by"])
    branches = {
        name: helper.make_graph([helper.make_node(op, ["s"], ["r"])], name, [], [value("r", ["n"])])
        for name, op in {"then_branch": "Neg", "else_branch": "Abs"}.items()
    }
    nodes = [
        helper.make_node("Scaled", ["x"], ["s"], "once", domain="own", by=2.0),
        helper.make_node("If", ["flag"], ["t"], "chosen", **branches),
        helper.make_node("Scaled", ["t"], ["y"], "again", domain="own", by=-1.0),
    ]
    return model(nodes, [value("x", ["n"])], ["y"], {"flag": np.array(True)}, functions=[function])


def unsupported() -> onnx.ModelProto:
    """Return a model with ops that there are not, and one whose axes the call gives."""
    nodes = [
        helper.make_node("StringNormalizer", ["x"], ["a"], "text"),
        helper.make_node("Mystery", ["x"], ["b"], "first", domain="com.example"),
        helper.make_node("Mystery", ["x"], ["c"], "second", domain="com.example"),
        helper.make_node("ReduceSum", ["x", "axes"], ["d"], "sum"),
        helper.make_node("Add", ["a", "d"], ["y"]),
    ]
    made = model(nodes, [value("x", ["n", 4]), value("axes", [1], INT64)], ["y"], {})
    made.opset_import.append(helper.make_opsetid("com.example", 3))
    return made


INPUTS: dict[str, dict[str, tuple[int, ...]]] = {
    "mlp": {"x": (3, 8)}, "convolutions": {"x": (2, 3, 16, 16)}, "shapes": {"x": (2, 5, 16)}, "functions": {"x": (7,)},
}  # fmt: skip


def main() -> None:
    """Write all files."""
    FOLDER.mkdir(exist_ok=True)
    for make in (mlp, convolutions, shapes, functions, unsupported):
        name, made = make.__name__, make()
        (FOLDER / f"{name}.onnx").write_bytes(made.SerializeToString())
        if name not in INPUTS:
            continue
        inputs = {
            key: np.random.default_rng(1).standard_normal(shape).astype(np.float32)
            for key, shape in INPUTS[name].items()
        }
        (result,) = ReferenceEvaluator(made).run(None, inputs)
        np.savez(FOLDER / f"{name}.npz", result=result, **inputs)


if __name__ == "__main__":
    main()
