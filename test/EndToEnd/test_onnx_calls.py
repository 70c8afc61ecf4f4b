# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of ONNX files whose inputs do not have sizes that go together: each ends with an error that names the node."""

from __future__ import annotations

from typing import Any, NamedTuple

import intarsia
import numpy as np
import pytest
from onnx_wire import BOOL, INT64, graph, model, node, value


class Case(NamedTuple):
    """A model, shapes of inputs that go together, and shapes of single inputs that do not, with what is said of them."""

    file: bytes
    good: dict[str, tuple[int, ...]]
    bad: list[tuple[str, tuple[int, ...], str]]
    bools: tuple[str, ...] = ()
    integers: tuple[str, ...] = ()


def case(
    made: bytes, good: dict[str, tuple[int, ...]], bad: list[tuple[str, tuple[int, ...], str]], outputs: str = "y",
    stored: dict[str, Any] | None = None, opset: int = 23, bools: tuple[str, ...] = (), integers: tuple[str, ...] = (),
    known: dict[str, list[int]] | None = None,
) -> Case:  # fmt: skip
    """Return a case of one node, whose inputs have sizes of their own but for those that are `known`."""
    fixed = known or {}
    kinds = dict.fromkeys(bools, BOOL) | dict.fromkeys(integers, INT64)
    inputs = [
        value(
            name,
            [size or f"{name}.{i}" for i, size in enumerate(fixed.get(name, [0] * len(shape)))],
            kinds.get(name, 1),
        )
        for name, shape in good.items()
    ]
    return Case(model(graph([made], inputs, outputs, stored), opset), good, bad, bools, integers)


SCANNED = graph(
    [node("Add", "s x", "t"), node("Mul", "t z", "u")], [value("s", [3]), value("x", [3]), value("z", [3])], "t u"
)
DELTA = {"update_rule": "gated_delta", "q_num_heads": 2, "kv_num_heads": 2}
TOKENS = {"q": (2, 3, 8), "k": (2, 3, 8), "v": (2, 3, 4), "past": (2, 2, 4, 2), "g": (2, 3, 2), "b": (2, 3, 2)}
ATTENTION = {"q": (2, 4, 3, 8), "k": (2, 2, 6, 8), "v": (2, 2, 6, 5), "m": (2, 4, 3, 6)}
CACHE = {"c": (2, 2, 5, 3), "u": (2, 2, 2, 3), "w": (2,)}
IMAGE = {"x": (2, 4, 7, 6), "w": (6, 2, 3, 2), "o": (2, 24, 5, 5), "b": (6,), "m": (2, 12, 5, 5)}

CASES = {
    "scan": case(
        node("Scan", "s xs zs", "y ys", body=SCANNED, num_scan_inputs=2), {"s": (3,), "xs": (4, 3), "zs": (4, 3)},
        [("zs", (2, 3), "dimension 0 of input 'zs'"), ("zs", (6, 3), "dimension 0 of input 'zs'")], "y ys",
    ),
    "linear attention": case(
        node("LinearAttention", "q k v past g b", "y s", **DELTA), TOKENS,
        [
            ("k", (2, 5, 8), "dimension 1 of input 'key'"), ("k", (3, 3, 8), "dimension 0 of input 'key'"),
            ("k", (2, 3, 10), ""), ("v", (2, 2, 4), "dimension 1 of input 'value'"),
            ("g", (2, 2, 2), "dimension 1 of input 'decay'"), ("g", (2, 3, 6), "'decay' for a head must be 1 or"),
            ("b", (2, 2, 2), "dimension 1 of input 'beta'"), ("b", (2, 3, 4), "dimension 2 of input 'beta'"),
            ("past", (2, 2, 4, 3), ""),
        ], "y s", opset=27,
    ),
    "attention": case(
        node("Attention", "q k v m"), ATTENTION,
        [
            ("m", (2, 4, 3, 7), "dimension 3 of input 'attn_mask' must be at most"),
            ("m", (3, 4, 3, 6), "dimension 0 of input 'attn_mask' must be 1 or"),
            ("m", (2, 3, 3, 6), "dimension 1 of input 'attn_mask'"), ("m", (2, 4, 2, 6), "dimension 2 of input 'attn_mask'"),
            ("q", (2, 3, 3, 8), "the number of heads of input 'Q' must be a multiple of that of input 'K'"),
            ("v", (2, 1, 6, 5), "the number of heads of input 'V'"), ("k", (1, 2, 6, 8), ""), ("k", (2, 2, 6, 7), ""),
        ],
    ),
    "numbers of keys": case(
        node("Attention", "q k v - - - n"), {**ATTENTION, "n": (2,)}, [("n", (1,), ""), ("n", (3,), "")],
        opset=24, integers=("n",),
    ),
    "cache": case(
        node("TensorScatter", "c u w"), CACHE,
        [
            ("u", (2, 2, 7, 3), "dimension 2 of input 'update' must be at most"),
            ("u", (2, 2, 2, 5), "dimension 3 of input 'update'"), ("u", (3, 2, 2, 3), "dimension 0 of input 'update'"),
            ("w", (1,), ""),
        ], opset=24, integers=("w",),
    ),
    "split": case(
        node("Split", "x p", "y z"), {"x": (5, 2)},
        [("x", (6, 2), "must be 5, the sum of 'split'"), ("x", (4, 2), "")], "y z", {"p": [2, 3]},
    ),
    "grid": case(
        node("AffineGrid", "t s"), {"t": (2, 2, 3)},
        [
            ("t", (3, 2, 3), "dimension 0 of input 'theta' must be 2, element 0 of input 'size'"),
            ("t", (2, 3, 3), "dimension 1 of input 'theta'"), ("t", (2, 2, 4), "dimension 2 of input 'theta'"),
        ], stored={"s": [2, 1, 2, 3]},
    ),
    "deformed": case(
        node("DeformConv", "x w o b m", group=2, offset_group=2, kernel_shape=[3, 2]), IMAGE,
        [
            ("x", (2, 6, 7, 6), ""), ("o", (2, 25, 5, 5), ""), ("o", (2, 24, 5, 6), ""), ("m", (1, 12, 5, 5), ""),
            ("m", (2, 12, 6, 5), ""), ("b", (7,), ""),
        ],
    ),
    "compressed": case(
        node("Compress", "x c", axis=0), {"x": (3, 2), "c": (3,)},
        [("c", (4,), "the number of elements of input 'condition' must be at most the size of the axis")], bools=("c",),
    ),
    "unpooled": case(
        node("MaxUnpool", "x i", kernel_shape=[2]), {"x": (1, 1, 3), "i": (1, 1, 3)}, [("i", (1, 1, 4), "")],
        integers=("i",),
    ),
    "batches of indices": case(
        node("GatherND", "x i", batch_dims=1), {"x": (3, 4), "i": (3, 1)},
        [("i", (2, 1), "dimension 0 of input 'indices' must be equal to dimension 0 of input 'data'")],
        integers=("i",), known={"i": [0, 1]},
    ),
    "sampled": case(
        node("GridSample", "x g"), {"x": (2, 1, 4, 4), "g": (2, 3, 3, 2)}, [("g", (1, 3, 3, 2), "dimension 0 of input 'grid'")],
    ),
    "classes": case(
        node("NegativeLogLikelihoodLoss", "x t w"), {"x": (3, 6, 2), "t": (3, 2), "w": (6,)},
        [
            ("t", (2, 2), "dimension 0 of input 'target'"), ("t", (3, 1), "dimension 1 of input 'target'"),
            ("w", (7,), "dimension 0 of input 'weight'"),
        ], integers=("t",),
    ),
    "square": case(
        node("Det", "x"), {"x": (3, 2, 2)}, [("x", (3, 2, 3), "the number of rows of a matrix")], known={"x": [0, 2, 0]},
    ),
    "channels": case(
        node("CausalConvWithState", "x w - p", "y z"), {"x": (2, 3, 5), "w": (3, 1, 4), "p": (2, 3, 3)},
        [("x", (2, 2, 5), ""), ("p", (2, 2, 3), ""), ("p", (2, 3, 2), "")], "y z", opset=27, known={"w": [3, 1, 4]},
    ),
    "cells": case(
        node("LSTM", "x w r - - h c"),
        {"x": (5, 2, 3), "w": (1, 16, 3), "r": (1, 16, 4), "h": (1, 2, 4), "c": (1, 2, 4)},
        [
            ("c", (1, 2, 5), "dimension 2 of input 'initial_c' must be 4"),
            ("c", (2, 2, 4), "dimension 0 of input 'initial_c' must be 1"), ("h", (1, 3, 4), ""), ("x", (5, 2, 4), ""),
        ], known={"w": [1, 16, 3], "r": [1, 16, 4]},
    ),
    "pooled": case(
        node("MaxPool", "x", kernel_shape=[3], pads=[1, 0]), {"x": (1, 2, 5)},
        [("x", (1, 2, 1), "dimension 2 of input 'X' must be at least 2, the extent of a window")],
    ),
    "convolved": case(
        node("Conv", "x w", kernel_shape=[3]), {"x": (1, 2, 5), "w": (3, 2, 3)},
        [("x", (1, 2, 2), "dimension 2 of input 'X' must be at least 3, the extent of a window")],
    ),
    "real result": case(
        node("DFT", "x", onesided=1, inverse=1), {"x": (1, 3, 2)},
        [("x", (1, 1, 2), "dimension 1 of input 'input' must be at least 2, as 'dft_length' is not given")], opset=19,
        known={"x": [0, 0, 2]},
    ),
    "short signal": case(
        node("STFT", "x s - f"), {"x": (1, 9, 1)}, [("x", (1, 7, 1), "a signal has a window of 8 elements")],
        known={"x": [0, 0, 1]},
        stored={"s": np.asarray(2), "f": np.asarray(8)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_calls(tmp_path, name):
    tried = CASES[name]
    (tmp_path / "m.onnx").write_bytes(tried.file)
    main = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main

    def filled(input: str, shape: tuple[int, ...]) -> np.ndarray:
        if input in tried.integers:
            return np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
        return np.ones(shape, bool if input in tried.bools else np.float32)

    good = {input: filled(input, shape) for input, shape in tried.good.items()}
    main(**good)
    for input, shape, message in tried.bad:
        with pytest.raises(intarsia.Error) as error:
            main(**(good | {input: filled(input, shape)}))
        assert message in str(error.value)
        assert message == "" or "asserted at 'y'" in str(error.value)
