# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recurrent layers, attention, selections, regions and signals of ONNX files that do not go with what they read: each is refused."""

from __future__ import annotations

from typing import Any

import pytest
from onnx_runs import check_refused, imported
from onnx_wire import BOOL, INT32, INT64, NAMED, SMALLEST, X, floats, graph, model, node, one, tensor, value

SEQUENCE = value("x", ["steps", 2, 3])
LSTM = {"w": floats(1, 16, 3), "r": floats(1, 16, 4)}
SIGNAL = value("x", [2, "length", 1])
IMAGE = value("x", [1, 3, 8, 8])
BOXES = [value("b", [1, "n", 4]), value("s", [1, 2, "n"])]


def lstm(given: dict[str, Any] | None = None, inputs: str = "x w r", x: bytes = SEQUENCE, **attributes: Any) -> bytes:
    """Return a model of one layer."""
    return one("LSTM", inputs, [x], LSTM | (given or {}), **attributes)


def roi(x: bytes = IMAGE, rois: tuple[int, int] = (2, 4), **attributes: Any) -> bytes:
    """Return a model of regions of images."""
    return one("RoiAlign", "x r i", [x], {"r": floats(*rois), "i": [0, 0]}, **attributes)


def dft(length: Any, x: bytes = SIGNAL, **attributes: Any) -> bytes:
    """Return a model of one transform."""
    return one("DFT", "x n", [x], {"n": length}, 17, **attributes)


def stft(step: Any, frame: Any, x: bytes = SIGNAL, window: int | None = None, **attributes: Any) -> bytes:
    """Return a model of transforms of frames."""
    stored = {"s": step, "f": frame} | ({"w": floats(window)} if window else {})
    return one("STFT", f"x s {'w' if window else '-'} f", [x], stored, 17, **attributes)


def mel(*numbers: float) -> bytes:
    """Return a model of filters."""
    stored = {
        name: tensor(each, "", "f4" if name in "de" else "i8") for name, each in zip("abcde", numbers, strict=True)
    }
    return one("MelWeightMatrix", "a b c d e", [], stored, 17)


def unpool(x: bytes = IMAGE, **attributes: Any) -> bytes:
    """Return a model of one unpooling."""
    return one("MaxUnpool", "x i", [x, value("i", [1, 3, 8, 8], INT64)], **attributes)


def col2im(image: list[int], block: list[int], x: bytes = IMAGE, **attributes: Any) -> bytes:
    """Return a model of blocks of an image."""
    return one("Col2Im", "x i b", [x], {"i": image, "b": block}, **attributes)


def grams(**attributes: Any) -> bytes:
    """Return a model of counts of sequences."""
    given = {"mode": "TF", "ngram_counts": [0], "ngram_indexes": [0, 1], "max_gram_length": 1} | attributes
    return one("TfIdfVectorizer", "x", [value("x", [4], INT64)], **given)


def chosen(*nodes: bytes) -> bytes:
    """Return a model that does this in a branch that the call chooses."""
    branches = {f"{name}_branch": graph(list(nodes), [], "r") for name in ("then", "else")}
    return one("If", "c", [NAMED, value("c", [], BOOL)], **branches)


CASES = {
    "direction": (lstm(direction="sideways"), "attribute 'direction' is none of"),
    "layout": (lstm(layout=2), "'layout' is not 0 or 1"),
    "hidden size": (lstm(hidden_size=5), "attribute 'hidden_size' is 5, input 'R' has 4"),
    "directions": (lstm(direction="bidirectional"), "dimension 0 of input 'W' is 1, must be 2"),
    "gates": (lstm({"w": floats(1, 12, 3)}), "dimension 1 of input 'W' is 12, must be 16"),
    "features": (lstm({"w": floats(1, 16, 5)}), "dimension 2 of input 'X' is 3, must be 5"),
    "no state": (lstm({"r": floats(1, 0, 0)}), "the hidden state has 0 numbers"),
    "scalar weight": (lstm({"w": floats()}), "has not 3 dimensions"),
    "scalar input": (lstm(x=value("x", [])), "has not 3 dimensions"),
    "weight of the call": (one("LSTM", "x w r", [SEQUENCE, value("w", ["n", 16, 3])], {"r": floats(1, 16, 4)}), "depend on the call"),
    "biases": (lstm({"b": floats(1, 16)}, "x w r b"), "dimension 1 of input 'B' is 16, must be 32"),
    "lengths": (lstm({"n": tensor([1], "", "i4")}, "x w r - n"), "dimension 0 of input 'sequence_lens' is 1, must be 2"),
    "real lengths": (lstm({"n": floats(2)}, "x w r - n"), "must be int32"),
    "state": (lstm({"h": floats(1, 3, 4)}, "x w r - - h"), "dimension 1 of input 'initial_h' is 3, must be 2"),
    "cells": (lstm({"c": floats(2, 4)}, "x w r - - - c"), "input 'initial_c' has 2 dimensions"),
    "peepholes": (lstm({"p": floats(1, 16)}, "x w r - - - - p"), "dimension 1 of input 'P' is 16, must be 12"),
    "integers": (lstm(x=value("x", [1, 2, 3], INT32)), "must be floats"),
    "types": (one("LSTM", "x w r", [value("x", [1, 2, 3], 10)], LSTM), "inputs have elements of float16 and float"),
    "activation": (lstm(activations=["Sigmoid", "Tanh", "Cosine"]), "names 'Cosine', which is none"),
    "activations": (lstm(activations=["Sigmoid"]), "attribute 'activations' names 1, the layer has 3"),
    "text": (lstm(activations=[1, 2]), "attribute 'activations' is no list of texts"),
    "numbers": (lstm(activations=["Sigmoid", "ScaledTanh", "Tanh"]), "activation 'ScaledTanh' has no finite"),
    "not a number": (lstm(activations=["Elu"] * 3, activation_alpha=[float("nan")]), "activation 'Elu' has no finite"),
    "clip": (lstm(clip=-1.0), "attribute 'clip' is not positive"),
    "clip to nothing": (lstm(clip=float("nan")), "attribute 'clip' is not positive"),
    "no weight": (one("GRU", "x", [SEQUENCE]), "has no input 1"),
    "reversed": (one("ReverseSequence", "x n", [NAMED], {"n": [1] * 4}, batch_axis=1, time_axis=1), "are not 0 and 1"),
    "reversed lengths": (one("ReverseSequence", "x n", [NAMED], {"n": [1]}), "is 1, must be 4"),
    # Attention.
    "no past values": (
        one("Attention", "x x x - p", [value("x", [1, 2, 3, 4]), value("p", [1, 2, 3, 4])], opset=23),
        "has the input 'past_key' and no 'past_value'",
    ),
    "length of past values": (
        one("Attention", "x x x - p r", [value("x", [1, 2, 3, 4]), value("p", [1, 2, 3, 4]), value("r", [1, 2, 2, 4])], opset=23),
        "the length of 'past_value' and 'V' is 5, must be 6",
    ),
    "batches": (
        one("Attention", "x k k", [value("x", [1, 2, 3, 4]), value("k", [2, 2, 3, 4])], opset=23),
        "the batch of input 'K' is 2, must be 1",
    ),
    "features of rows": (
        one("Attention", "x x x", [value("x", [1, 3, 9])], opset=23, q_num_heads=2, kv_num_heads=2),
        "the number of features is 9, must be a multiple of 2",
    ),
    "rows of a mask": (
        one("Attention", "x x x m", [value("x", [1, 2, 3, 4]), value("m", [2, 1, 3, 3])], opset=23),
        "dimension 0 of input 'attn_mask' is 2, must be 1",
    ),
    "type of lengths": (
        one("Attention", "x x x - - - n", [value("x", [1, 2, 3, 4]), value("n", [1])], opset=24), "must be int64",
    ),
    "precision of softmax": (
        one("Attention", "x x x", [value("x", [1, 2, 3, 4])], opset=23, softmax_precision=7), "'softmax_precision' is int64",
    ),
    "no precision of softmax": (
        one("Attention", "x x x", [value("x", [1, 2, 3, 4])], opset=23, softmax_precision=99), "is type 99",
    ),
    "scores as an output": (
        one("Attention", "x x x", [value("x", [1, 2, 3, 4])], opset=23, qk_matmul_output_mode=4), "must be 0 to 3",
    ),
    "types of a gate": (
        one("SwiGLU", "x z", [value("x", [4]), value("z", [4], 10)], opset=28), "inputs have elements of float and float16",
    ),
    # Losses.
    "classes": (
        one("NegativeLogLikelihoodLoss", "x t", [value("x", [2, 3]), value("t", [3], INT64)]),
        "dimension 0 of input 'target' is 3, must be 2, dimension 0 of input 'input'",
    ),
    "weights of classes": (
        one("NegativeLogLikelihoodLoss", "x t w", [value("x", [2, 3]), value("t", [2], INT64)], {"w": floats(3, 1)}),
        "input 'weight' has 2 dimensions",
    ),
    "real classes": (
        one("NegativeLogLikelihoodLoss", "x t", [value("x", [2, 3]), value("t", [2])]), "must be int32 or int64",
    ),
    # Equations.
    "letter": (one("Einsum", "x", [X], equation="i->j"), "has 'j' in the result and in no operand"),
    "rank": (one("Einsum", "x", [X], equation="ij"), "has 2 letters for an operand of rank 1"),
    "operands": (one("Einsum", "x", [X], equation="i,i"), "is of 2 operands, there are 1"),
    "sizes": (one("Einsum", "x w", [X], {"w": floats(5)}, equation="i,i"), "to dimensions of 4 and 5 elements"),
    "sign": (one("Einsum", "x", [X], equation="i+"), "has the character '+'"),
    "no operands": (one("Einsum", "", [X], equation=""), "has no inputs"),
    "conditions": (one("Einsum", "c", [value("c", [4], BOOL)], equation="i"), "must be numbers"),
    # Selections.
    "branch": (chosen(node("NonZero", "x", "r")), "stands in a branch or a loop of the call"),
    "condition": (one("Compress", "x c", [X], {"c": tensor([True] * 5, "", "b1")}), "input 'condition' is 5, must be at most 4"),
    "matrix of conditions": (one("Compress", "x c", [X], {"c": tensor([[True]], "", "b1")}), "has 2 dimensions"),
    "real conditions": (one("Compress", "x c", [X], {"c": floats(4)}), "must be bool"),
    "axis": (one("Compress", "x c", [X], {"c": tensor([True], "", "b1")}, axis=1), "'axis' is 1"),
    "axis of slices": (one("Unique", "x", [X], axis=SMALLEST), "'axis' is -9223372036854775808"),
    "boxes": (one("NonMaxSuppression", "x s", [value("x", [1, 5, 3]), value("s", [1, 1, 5])]), "inputs are not 'boxes'"),
    "numbers of boxes": (one("NonMaxSuppression", "x s", [value("x", [1, 5, 4]), value("s", [1, 1, 6])]), "dimension 2 of input 'scores' is 6, must be 5"),
    "limit": (one("NonMaxSuppression", "b s k", BOXES, {"k": tensor([1], "", "i4")}), "is not one number of type int64"),
    "thresholds": (one("NonMaxSuppression", "b s k t", BOXES, {"k": 1, "t": floats(2)}), "is not one number of type float"),
    # Regions.
    "samples": (roi(sampling_ratio=-1), "are not possible"),
    "height": (roi(output_height=0, sampling_ratio=1), "are not possible"),
    "smallest grid": (
        one("AffineGrid", "x s", [value("x", [1, 2, 3])], {"s": [1, 1, SMALLEST, 3]}), "the element -9223372036854775808",
    ),
    "width": (roi(output_width=1 << 40, sampling_ratio=1), "are not possible"),
    "mode": (roi(mode="median", sampling_ratio=1), "attribute 'mode' is 'median'"),
    "coordinates": (roi(rois=(2, 5), sampling_ratio=1), "inputs are not 'X'"),
    "no images": (roi(value("x", [0, 3, 8, 8]), sampling_ratio=1), "images have no elements"),
    "grid": (one("AffineGrid", "x s", [value("x", [1, 2, 3])], {"s": [1, 2, 3]}), "inputs are not 'theta'"),
    "size of a grid": (one("AffineGrid", "x s", [value("x", [1, 2, 3])], {"s": [1, 1, -2, 3]}), "input 'size' has -2"),
    "matrices": (one("AffineGrid", "x s", [value("x", [2, 2, 3])], {"s": [1, 1, 2, 3]}), "dimension 0 of input 'theta' is 2, must be 1"),
    "cut": (one("CenterCropPad", "x s", [X], {"s": [-1]}), "input 'shape' has -1"),
    "cut axes": (one("CenterCropPad", "x s", [X], {"s": [1, 2]}), "has 2 sizes, there are 1 axes"),
    "cut axis": (one("CenterCropPad", "x s", [X], {"s": [1]}, axes=[4]), "'axes' is 4"),
    "padded": (
        one("CenterCropPad", "x s", [value("x", [2, 2])], {"s": [1 << 40, 1 << 40]}),
        "more elements than memory can hold",
    ),
    "padded or cut": (one("CenterCropPad", "x s", [NAMED], {"s": [4, 4]}), "is cut or padded is known to the call only"),
    "block": (col2im([4, 4], [0, 2]), "are not sizes"),
    "strides": (col2im([4, 4], [2, 2], strides=[0, 1]), "attribute 'strides'"),
    "pads": (col2im([4, 4], [2, 2], pads=[-1, 0, 0, 0]), "attribute 'pads'"),
    "blocks": (col2im([4, 4], [2, 2], value("x", [1, 12, 8])), "as there are blocks"),
    "blocks of a scalar": (col2im([4, 4], [2, 2], value("x", [])), "as there are blocks"),
    "large block": (col2im([1 << 30] * 3, [1 << 30] * 3), "more elements than memory can hold"),
    "kernel": (unpool(), "do not go together"),
    "kernels": (unpool(kernel_shape=[2]), "do not go together"),
    "unpool pads": (unpool(kernel_shape=[2, 2], pads=[9, 9, 9, 9]), "leaves nothing"),
    "cut twice": (
        one("CenterCropPad", "x s", [value("x", [4, 6])], {"s": [2, 3]}, axes=[0, -2]), "'axes' has the axis 0 twice",
    ),
    "sizes of indices": (
        one("MaxUnpool", "x i", [IMAGE, value("i", [1, 3, 8, 7], INT64)], kernel_shape=[2, 2]),
        "dimension 3 of input 'I' is 7, must be 8",
    ),
    "rows of a grid": (
        one("AffineGrid", "x s", [value("x", [1, 3, 3])], {"s": [1, 1, 2, 3]}), "dimension 1 of input 'theta' is 3, must be 2",
    ),
    # Sequences of numbers.
    "texts": (grams(pool_strings=["a", "b"]), "'pool_int64s', 'ngram_counts' or 'ngram_indexes' are missing"),
    "places": (grams(pool_int64s=[1, 2], ngram_indexes=[0, -1]), "has numbers that are not possible"),
    "number of places": (grams(pool_int64s=[1, 2], ngram_indexes=[0]), "attribute 'ngram_indexes' has 1 numbers"),
    "place twice": (grams(pool_int64s=[1, 2], ngram_indexes=[3, 3]), "has a number twice"),
    "sections": (grams(pool_int64s=[1, 2], ngram_counts=[1, 0]), "does not divide 'pool_int64s'"),
    "halves": (grams(pool_int64s=[1, 2, 3], ngram_counts=[0, 2]), "does not divide 'pool_int64s'"),
    "lengths of grams": (grams(pool_int64s=[1, 2], min_gram_length=0), "attribute 'min_gram_length' is 0"),
    "weights": (grams(pool_int64s=[1, 2], mode="IDF", weights=[1.0]), "'weights' has not a number"),
    "criterion": (grams(pool_int64s=[1, 2], mode="DF"), "'mode' or 'max_skip_count' are not possible"),
    # Signals.
    "no length": (dft(0), "a transform has 0 elements"),
    "negative length": (dft(-7), "a transform has -7 elements"),
    "smallest length": (dft(SMALLEST), "input 'dft_length' is -9223372036854775808"),
    "long": (dft(1 << 40), "a transform has 1099511627776 elements"),
    "real length": (dft(floats()), "input 'dft_length' is not one integer"),
    "two lengths": (dft([1, 2]), "input 'dft_length' is not one integer"),
    "axis of parts": (dft(4, axis=2), "or it is the axis"),
    "no axis": (dft(4, axis=-4), "'axis' is -4"),
    "onesided": (dft(4, value("x", [2, 8, 2]), onesided=1), "is onesided of a complex input"),
    "onesided inverse": (dft(4, onesided=1, inverse=1), "is onesided and inverse of a real input"),
    "parts": (dft(4, value("x", [2, 8, 3])), "the last dimension is not of 1 or 2"),
    "nothing to transform": (one("DFT", "x", [value("x", [2, 0, 1])], opset=17), "a transform has 0 elements"),
    "one number": (
        one("DFT", "x", [value("x", [2, 1, 2])], opset=17, onesided=1, inverse=1),
        "dimension 1 of input 'input' is 1, must be at least 2, as 'dft_length' is not given",
    ),
    "step": (stft(0, 8), "input 'frame_step' is 0"),
    "steps back": (stft(-1, 8), "input 'frame_step' is -1"),
    "no frame": (stft(1, 0), "a frame has 0 elements"),
    "long frame": (stft(2, 1 << 23), "a frame has 8388608 elements"),
    "short": (stft(1, 9, value("x", [2, 8, 1])), "has 8 elements, a frame has 9"),
    "window": (stft(1, 8, window=7), "input 'frame_length' is 8, must be 7, the number of elements of 'window'"),
    "complex frames": (stft(1, 8, value("x", [2, 8, 2])), "is onesided of a complex signal"),
    "size": (one("HannWindow", "s", [], {"s": -3}, 17), "input 'size' is -3"),
    "smallest size": (one("HannWindow", "s", [], {"s": SMALLEST}, 17), "input 'size' is -9223372036854775808"),
    "huge": (one("HannWindow", "s", [], {"s": 1 << 60}, 17), "more elements than memory can hold"),
    "sizes of windows": (one("HannWindow", "s", [], {"s": [1, 2]}, 17), "input 'size' is not one integer"),
    "type of a window": (one("HammingWindow", "s", [], {"s": 4}, 17, output_datatype=8), "'output_datatype' is string"),
    "no type": (one("BlackmanWindow", "s", [], {"s": 4}, 17, output_datatype=99), "'output_datatype' is type 99"),
    "bands": (mel(-1, 16, 8000, 0, 4000), "are not possible"),
    "many bands": (mel(1 << 20, 1 << 20, 8000, 0, 4000), "the filters have"),
    "edges": (mel(4, 16, 8000, 0, 40000), "is above half of 'sample_rate'"),
    "not an edge": (mel(4, 16, 8000, 0, float("nan")), "are not possible"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bad_layers(tools, tmp_path, name):
    check_refused(tools, tmp_path, *CASES[name])


def test_many_errors(tools, tmp_path):
    """Equations that are wrong are refused beside all else."""
    nodes = [node("Einsum", "x", "a", equation="ij"), node("DFT", "x", "b"), node("Add", "a b")]
    done = imported(tools, tmp_path, model(graph(nodes, [X])))
    assert "2 kinds of nodes" in done.stderr
    assert "(Einsum" in done.stderr
    assert "(DFT" in done.stderr
