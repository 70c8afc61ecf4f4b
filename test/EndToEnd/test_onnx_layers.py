# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recurrent layers, selections, regions and signals of ONNX files, against ONNX Runtime (make_onnx_layers.py) and NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import intarsia
import numpy as np
import pytest
from onnx_wire import BOOL, INT32, INT64, graph, model, node, tensor, value
from random_numbers import RNG, normal

FOLDER = Path(__file__).parent / "onnx"


@pytest.mark.parametrize("name", ["recurrent", "detector", "signals", "regions", "einsum", "grams"])
def test_layers(tmp_path, name):
    golden = dict(np.load(FOLDER / f"{name}.npz"))
    expected = [golden.pop(key) for key in list(golden) if key.startswith("result ")]
    module = intarsia.compile(FOLDER / f"{name}.onnx", output=tmp_path / "m.itx")
    for found, wanted in zip(module.main(**golden), expected, strict=True):
        assert found.dtype == wanted.dtype
        # Sums of some 70 products, of powers in a spectrum.
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-5)


def compiled(folder: Path, nodes: list[bytes], inputs: list[bytes], outputs: str, stored: dict[str, Any], opset=21):
    (folder / "m.onnx").write_bytes(model(graph(nodes, inputs, outputs, stored), opset))
    return intarsia.compile(folder / "m.onnx", output=folder / "m.itx")


def test_batches_first(tmp_path):
    """Layout 1 exchanges batch and steps of all inputs and outputs; lengths beyond the sequence are all of it."""
    weights = {"w": normal(2, 12, 3) / 2, "r": normal(2, 12, 4) / 2}
    inputs = [value("x", ["b", "s", 3]), value("t", ["s", "b", 3]), value("n", ["b"], INT32), value("h", ["b", 2, 4]),
              value("g", [2, "b", 4])]  # fmt: skip
    nodes = [node("GRU", f"{x} w r - n {h}", f"{x}y {x}h", direction="bidirectional", layout=layout)
             for x, h, layout in (("x", "h", 1), ("t", "g", 0))]  # fmt: skip
    stored = {name: tensor(each, name, "f4") for name, each in weights.items()}
    module = compiled(tmp_path, nodes, inputs, "xy xh ty th", stored)
    x, h = normal(3, 5, 3), normal(3, 2, 4)
    turned = [np.ascontiguousarray(x.swapaxes(0, 1)), np.ascontiguousarray(h.swapaxes(0, 1))]
    first, first_state, second, second_state = module.main(x, turned[0], np.array([5, 0, 3], np.int32), h, turned[1])
    np.testing.assert_array_equal(first, second.transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(first_state, second_state.swapaxes(0, 1))
    np.testing.assert_array_equal(first_state[1], h[1])  # of an empty sequence
    longer = module.main(x, turned[0], np.array([7, -1, 3], np.int32), h, turned[1])
    np.testing.assert_array_equal(longer[0], first)


def test_nothing_is_chosen(tmp_path):
    """Tensors of a size that a call computes may have no elements, and so may what is computed of them."""
    nodes = [
        node("Greater", "x zero", "c"), node("Compress", "x c", "g", axis=0), node("Unique", "g", "u f i k"),
        node("NonZero", "g", "z"), node("ReduceSum", "g", "s", keepdims=0), node("Unsqueeze", "g one", "h"),
        node("MatMul", "h w", "m"), node("TopK", "g none", "t p"),
    ]  # fmt: skip
    stored = {"zero": tensor(0, "zero", "f4"), "one": [1], "w": tensor([[1, 2]], "w", "f4"), "none": [0]}
    module = compiled(tmp_path, nodes, [value("x", ["n"])], "g u f i k z s m t", stored)
    for x in (np.array([3, -1, 3, 2], np.float32), np.array([-1, -2], np.float32)):
        chosen = x[x > 0]
        unique = np.unique(chosen, return_index=True, return_inverse=True, return_counts=True)
        expected = [chosen, *unique, np.argwhere(chosen).T, chosen.sum(), np.outer(chosen, [1, 2]), chosen[:0]]
        for found, wanted in zip(module.main(x), expected, strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_array_equal(found, wanted)


def test_no_elements(tmp_path):
    """Dimensions of 0 that the model states: no batch, no steps, no boxes, nothing to sort."""
    nodes = [
        node("LSTM", "x w r - - h", "a b", direction="bidirectional"), node("GRU", "z v q", "c"),
        node("NonMaxSuppression", "boxes scores limit", "d"), node("TopK", "e none", "f g"), node("Unique", "e", "i"),
        node("NonZero", "e", "j"), node("Compress", "e false", "k", axis=1),
        node("Einsum", "e e", "m", equation="ij,kj"), node("CenterCropPad", "e one", "n", axes=[1]),
    ]  # fmt: skip
    stored = {"w": np.ones((2, 8, 3)), "r": np.ones((2, 8, 2)), "v": np.ones((1, 6, 3)), "q": np.ones((1, 6, 2))}
    stored = {name: tensor(each, name, "f4") for name, each in stored.items()}
    stored |= {"limit": [3], "none": [0], "false": tensor([], "false", "b1"), "one": [1]}
    inputs = {"x": (4, 0, 3), "h": (2, 0, 2), "z": (0, 2, 3), "boxes": (1, 0, 4), "scores": (1, 2, 0), "e": (2, 0)}  # fmt: skip
    outputs = {"a": (4, 2, 0, 2), "b": (2, 0, 2), "c": (0, 1, 2, 2), "d": (0, 3), "f": (2, 0), "g": (2, 0), "i": (0,),
               "j": (2, 0), "k": (2, 0), "m": (2, 2), "n": (2, 1)}  # fmt: skip
    described = [value(name, shape) for name, shape in inputs.items()]
    module = compiled(tmp_path, nodes, described, " ".join(outputs), stored)
    results = module.main(*(np.zeros(shape, np.float32) for shape in inputs.values()))
    for shape, found in zip(outputs.values(), results, strict=True):
        assert found.shape == shape
        np.testing.assert_array_equal(found, 0)


def test_no_candidates(tmp_path):
    """Boxes are chosen among those of the best scores, of which there may be none."""
    nodes = [
        node("ReduceMax", "s ends", "m", keepdims=0), node("Greater", "m least", "c"), node("Compress", "b c", "d", axis=1),
        node("Compress", "s c", "t", axis=2), node("NonMaxSuppression", "d t limit overlap"),
    ]  # fmt: skip
    stored = {
        "ends": [0, 1],
        "least": tensor(0.5, "least", "f4"),
        "limit": [3],
        "overlap": tensor(0.5, "overlap", "f4"),
    }
    module = compiled(tmp_path, nodes, [value("b", [1, "n", 4]), value("s", [1, 1, "n"])], "y", stored)
    boxes = np.array([[[0, 0, 1, 1], [5, 5, 6, 6], [0, 0, 1, 1.1]]], np.float32)
    scores = np.array([[[0.6, 0.4, 0.7]]], np.float32)
    np.testing.assert_array_equal(module.main(boxes, scores), [[0, 0, 1]])
    assert module.main(boxes, scores * 0).shape == (0, 3)


def test_numbers_without_a_sign(tmp_path):
    """The first bit of a number is none of a sign, also where elements are sorted."""
    inputs = [value("x", ["n"], 13), value("c", ["n"], BOOL)]
    nodes = [node("Unique", "x", "u f i k"), node("Compress", "x c", "z")]
    module = compiled(tmp_path, nodes, inputs, "u k z", {})
    x = np.array([1 << 63, 5, (1 << 64) - 1, 5, 0], np.uint64)
    unique, counts, chosen = module.main(x, np.array([1, 0, 1, 0, 0], bool))
    np.testing.assert_array_equal(unique, np.unique(x))
    np.testing.assert_array_equal(counts, [1, 2, 1, 1])
    np.testing.assert_array_equal(chosen, x[[0, 2]])
    assert unique.dtype == chosen.dtype == np.uint64


def test_sizes_of_signals(tmp_path):
    """Signals are cut and continued with zeros by a length that is a size of the call; those too short are refused."""
    nodes = [
        node("Shape", "z", "shape"), node("Gather", "shape axis", "n"), node("DFT", "x n axis", "t"),
        node("STFT", "x step - frame", "s"), node("BlackmanWindow", "n", "w", periodic=0),
    ]  # fmt: skip
    stored = {"axis": 1, "step": 1, "frame": 8}
    module = compiled(tmp_path, nodes, [value("x", [2, "length", 1]), value("z", [1, "n"])], "t s w", stored)
    x = normal(2, 11, 1)
    for size in (7, 19):
        transform, frames, window = module.main(x, np.zeros((1, size), np.float32))
        expected = np.fft.fft(x[..., 0].astype(float), size)
        np.testing.assert_allclose(transform, np.stack([expected.real, expected.imag], -1), atol=2e-5)
        expected = np.fft.rfft(np.lib.stride_tricks.sliding_window_view(x[..., 0].astype(float), 8, 1))
        np.testing.assert_allclose(frames, np.stack([expected.real, expected.imag], -1), atol=2e-5)
        np.testing.assert_allclose(window, np.blackman(size), atol=1e-6)
    with pytest.raises(intarsia.Error, match="a window of 8 elements"):
        module.main(x[:, :7], np.zeros((1, 7), np.float32))


def test_sizes_by_data(tmp_path):
    """A window has as many elements as an input says, as many are the largest, and parts of a shape are sizes."""
    nodes = [node("HammingWindow", "n", "w"), node("Shape", "x", "s"), node("Split", "s", "a b", num_outputs=2),
             node("Concat", "b a", "t", axis=0), node("Reshape", "x t", "y"), node("TopK", "x k", "v i", axis=0),
             node("TopK", "x a", "u j", axis=0, largest=0)]  # fmt: skip
    inputs = [value("n", [], INT32), value("x", ["p", "q"]), value("k", [1], INT64)]
    module = compiled(tmp_path, nodes, inputs, "w y v i u", {})
    x = np.array([[3, 1, 2], [3, 4, 0]], np.float32)
    window, turned, values, indices, least = module.main(np.array(12, np.int32), x, np.array([1]))
    np.testing.assert_array_equal(values, [[3, 4, 2]])
    np.testing.assert_array_equal(indices, [[0, 1, 0]])
    np.testing.assert_array_equal(least, np.sort(x, 0))
    np.testing.assert_allclose(window, 25 / 46 - 21 / 46 * np.cos(np.arange(12) * np.pi / 6), atol=1e-6)
    np.testing.assert_array_equal(turned, x.reshape(3, 2))
    with pytest.raises(intarsia.Error, match="which is negative"):
        module.main(np.array(-1, np.int32), x, np.array([1]))
    assert module.main(np.array(1, np.int32), x, np.array([0]))[2].shape == (0, 3)
    with pytest.raises(intarsia.Error, match="must be at most"):
        module.main(np.array(1, np.int32), x, np.array([3]))


def test_regions_of_any_length(tmp_path):
    """Lengths beyond the sequence end a call."""
    module = compiled(
        tmp_path, [node("ReverseSequence", "x n")], [value("x", ["t", "b"]), value("n", ["b"], INT64)], "y", {}
    )
    x = RNG.standard_normal((4, 3)).astype(np.float32)
    found = module.main(x, np.array([0, 2, 4]))
    np.testing.assert_array_equal(found, np.stack([x[:, 0], x[[1, 0, 2, 3], 1], x[::-1, 2]], 1))
    with pytest.raises(intarsia.Error, match="must be at most"):
        module.main(x, np.array([1, 5, 1]))
