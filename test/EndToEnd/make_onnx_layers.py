#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes ONNX files of recurrent layers, selections, regions and signals, and what ONNX Runtime computes of them.

It needs the packages `onnx` and `onnxruntime`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from make_onnx import FOLDER, normal
from onnx import helper, numpy_helper

node = helper.make_node


def model(
    nodes: list[onnx.NodeProto], inputs: dict[str, np.ndarray], shapes: dict[str, list[int | str]], outputs: str,
    weights: dict[str, Any], opset: int,
) -> onnx.ModelProto:  # fmt: skip
    """Return a model whose inputs are of these arrays' types; its outputs have no stated shapes."""
    described = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shapes.get(name, array.shape))
        for name, array in inputs.items()
    ]
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    named = [onnx.ValueInfoProto(name=name) for name in outputs.split()]
    graph = helper.make_graph(nodes, "graph", described, named, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def recurrent() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return three layers: all that an LSTM can have in both directions, a GRU backwards, and an RNN."""
    inputs = {
        "x": normal(6, 3, 5), "lengths": np.array([6, 2, 4], np.int32), "h": normal(2, 3, 7), "c": normal(2, 3, 7) / 2,
    }  # fmt: skip
    shapes = {"x": ["steps", "batch", 5], "lengths": ["batch"], "h": [2, "batch", 7], "c": [2, "batch", 7]}
    weights = {
        "w": normal(2, 28, 5) / 2, "r": normal(2, 28, 7) / 3, "b": normal(2, 56), "p": normal(2, 21),
        "gw": normal(1, 27, 14) / 4, "gr": normal(1, 27, 9) / 3, "gb": normal(1, 54),
        "nw": normal(1, 8, 9) / 3, "nr": normal(1, 8, 8) / 3, "one": [1], "joined": [0, 0, -1],
    }  # fmt: skip
    activations = ["Sigmoid", "Tanh", "Tanh", "HardSigmoid", "ScaledTanh", "Softsign"]
    nodes = [
        node("LSTM", ["x", "w", "r", "b", "lengths", "h", "c", "p"], ["y", "", "last_c"], direction="bidirectional",
             hidden_size=7, clip=2.0, activations=activations, activation_alpha=[0.3, 0.8], activation_beta=[0.4, 1.1]),
        node("Transpose", ["y"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "joined"], ["both"]),
        node("GRU", ["both", "gw", "gr", "gb", "lengths"], ["g", "last_h"], direction="reverse", hidden_size=9,
             linear_before_reset=1),
        node("Squeeze", ["g", "one"], ["s"]),
        node("RNN", ["s", "nw", "nr"], ["n"], hidden_size=8, activations=["LeakyRelu"]),
    ]  # fmt: skip
    return model(nodes, inputs, shapes, "last_c last_h n", weights, 21), inputs


def detector() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return what is done behind a detector: boxes of two classes, their scores, classes that there are, and regions."""
    random = np.random.default_rng(3)
    corner, size = random.uniform(0, 9, (1, 20, 2)), random.uniform(1, 6, (1, 20, 2))
    inputs = {
        "boxes": np.concatenate([corner, corner + size], -1).astype(np.float32),
        "scores": random.uniform(0, 1, (1, 2, 20)).astype(np.float32),
        "image": normal(1, 3, 16, 16),
    }
    shapes = {"boxes": [1, "n", 4], "scores": [1, 2, "n"]}
    weights = {
        "limit": [4], "overlap": np.array([0.3], np.float32), "least": np.array([0.4], np.float32), "zero": 0, "one": 1,
        "two": 2, "first": [0], "half": np.float32(0.8), "order": [1, 0, 3, 2],
    }  # fmt: skip
    nodes = [
        node("NonMaxSuppression", ["boxes", "scores", "limit", "overlap", "least"], ["chosen"]),
        node("Gather", ["chosen", "two"], ["number"], axis=1),
        node("Gather", ["chosen", "one"], ["class"], axis=1),
        node("Squeeze", ["boxes", "first"], ["b"]),
        node("Gather", ["b", "number"], ["found"], axis=0),
        node("GatherND", ["scores", "chosen"], ["score"]),
        node("Greater", ["score", "half"], ["good"]),
        node("Compress", ["found", "good"], ["best"], axis=0),
        node("NonZero", ["good"], ["places"]),
        node("Unique", ["class"], ["classes", "", "which", "counts"], sorted=0),
        node("Gather", ["found", "order"], ["turned"], axis=1),
        node("Mul", ["class", "zero"], ["images"]),
        node("RoiAlign", ["image", "turned", "images"], ["parts"], output_height=2, output_width=3, sampling_ratio=2,
             spatial_scale=0.9),
        node("RoiAlign", ["image", "turned", "images"], ["peaks"], output_height=2, output_width=1, mode="max",
             coordinate_transformation_mode="output_half_pixel"),
    ]  # fmt: skip
    outputs = "chosen best places classes which counts parts peaks"
    return model(nodes, inputs, shapes, outputs, weights, 16), inputs


def signals() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return a mel spectrum of frames, and transforms of other axes and lengths, forth and back."""
    inputs = {"x": normal(2, 70, 1), "z": normal(3, 9, 2)}
    shapes = {"x": ["batch", "length", 1], "z": [3, 9, 2]}
    weights = {
        "size": 24, "step": 9, "bands": 5, "rate": 4000, "low": np.float32(0), "high": np.float32(1800), "last": [-1],
        "longer": 13, "shorter": 7,
    }  # fmt: skip
    nodes = [
        node("HannWindow", ["size"], ["window"]),
        node("STFT", ["x", "step", "window"], ["frames"]),
        node("ReduceSumSquare", ["frames", "last"], ["power"], keepdims=0),
        node("MelWeightMatrix", ["bands", "size", "rate", "low", "high"], ["filters"]),
        node("MatMul", ["power", "filters"], ["mel"]),
        node("DFT", ["z", "shorter"], ["forth"], axis=1),
        node("DFT", ["forth"], ["back"], axis=-2, inverse=1),
        node("DFT", ["x", "longer"], ["half"], axis=1, onesided=1),
    ]
    return model(nodes, inputs, shapes, "mel forth back half", weights, 18), inputs


def regions() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return images that are cut, unpooled, made of blocks and moved, and sequences that are reversed."""
    inputs = {
        "x": normal(2, 3, 6, 8), "blocks": normal(2, 12, 15), "theta": normal(2, 2, 3) / 2,
        "lengths": np.array([1, 4, 6, 2, 3, 5, 6, 2]),
    }  # fmt: skip
    shapes = {"x": ["n", 3, 6, 8], "theta": ["n", 2, 3]}
    weights = {"shape": [4, 11], "image": [4, 6], "block": [2, 2], "size": [2, 3, 5, 4], "one": [0], "three": [1]}
    nodes = [
        node("CenterCropPad", ["x", "shape"], ["cut"], axes=[2, -1]),
        node("MaxPool", ["x"], ["pooled", "places"], kernel_shape=[2, 2], strides=[2, 2]),
        node("MaxUnpool", ["pooled", "places"], ["unpooled"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Col2Im", ["blocks", "image", "block"], ["whole"], pads=[0, 0, 0, 0]),
        node("AffineGrid", ["theta", "size"], ["grid"]),
        node("GridSample", ["x", "grid"], ["moved"]),
        node("Slice", ["x", "one", "three", "one"], ["first"]),
        node("Squeeze", ["first", "one"], ["planes"]),
        node("Transpose", ["planes"], ["sequences"], perm=[1, 2, 0]),
        node("ReverseSequence", ["sequences", "lengths"], ["reversed"]),
    ]
    return model(nodes, inputs, shapes, "cut unpooled whole moved reversed", weights, 20), inputs


def einsum() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return sums of products of all forms that equations have."""
    inputs = {"x": normal(2, 3, 4, 4), "y": normal(4, 5), "z": normal(3, 1)}
    shapes = {"x": ["n", 3, 4, 4], "y": [4, "m"]}
    equations = {
        "a": ("bhqk,kd->bqhd", "x y"), "b": ("...ii->...i", "x"), "c": ("b...jj", "x"), "d": ("ba,dc,bc", "y z y"),
        "e": ("...ij,jk->...", "x y"), "f": ("bcij, cj", "x z"),
    }  # fmt: skip
    nodes = [
        node("Einsum", operands.split(), [name], equation=equation) for name, (equation, operands) in equations.items()
    ]
    return model(nodes, inputs, shapes, " ".join(equations), {}, 12), inputs


def grams() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return weighted counts of sequences of one and of three numbers, with up to two others between them."""
    inputs = {"x": np.random.default_rng(5).integers(0, 4, (3, 14))}
    attributes = {
        "ngram_counts": [0, 2, 6], "ngram_indexes": [3, 0, 1, 5, 2, 4], "pool_int64s": [1, 3, 0, 1, 2, 2, 1, 2, 3, 0, 0, 1],
        "weights": [0.5, 1.5, 2.0, 3.0, 0.25, 0.75], "min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 2,
    }  # fmt: skip
    nodes = [node("TfIdfVectorizer", ["x"], [mode], mode=mode, **attributes) for mode in ("TF", "IDF", "TFIDF")]
    return model(nodes, inputs, {"x": ["rows", "columns"]}, "TF IDF TFIDF", {}, 9), inputs


def main() -> None:
    """Write all files."""
    for make in (recurrent, detector, signals, regions, einsum, grams):
        made, inputs = make()
        data = made.SerializeToString()
        (FOLDER / f"{make.__name__}.onnx").write_bytes(data)
        names = [info.name for info in made.graph.output]
        results = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(names, inputs)
        results = {f"result {name}": result for name, result in zip(names, results, strict=True)}
        np.savez_compressed(FOLDER / f"{make.__name__}.npz", **inputs, **results)


if __name__ == "__main__":
    main()
