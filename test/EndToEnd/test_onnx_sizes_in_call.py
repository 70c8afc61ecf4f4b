# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files in which all dimensions of all inputs are sizes of the call, against NumPy by the definitions of the ops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import intarsia
import numpy as np
import pytest
from onnx_wire import BOOL, graph, model, node, tensor, value

#: Sums of up to a hundred products of numbers around 1, in f32.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def build(
    folder: Path, nodes: list[bytes], ranks: dict[str, int], outputs: str = "y", opset: int = 23, **stored: Any
) -> Any:
    """Compile a model whose inputs have sizes of their own, and return its function."""
    inputs = [value(name, [f"{name}.{i}" for i in range(rank)]) for name, rank in ranks.items()]
    (folder / "m.onnx").write_bytes(model(graph(nodes, inputs, outputs, stored), opset))
    return intarsia.compile(folder / "m.onnx", output=folder / "m.itx").main


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_convolution(tmp_path):
    """Groups, strides, dilations and pads with a weight of any number of channels, which the images are held to."""
    conv = node("Conv", "x w b", kernel_shape=[3, 2], group=2, strides=[2, 1], dilations=[1, 2], pads=[1, 0, 1, 1])
    main = build(tmp_path, [conv], {"x": 4, "w": 4, "b": 1})
    x, w, b = normal(2, 4, 7, 6), normal(6, 2, 3, 2), normal(6)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 1)))
    wanted = np.zeros((2, 6, 4, 5), np.float32) + b[:, None, None]
    for m, c, i, j in np.ndindex(6, 2, 3, 2):
        wanted[:, m] += w[m, c, i, j] * padded[:, m // 3 * 2 + c, i : i + 7 : 2, 2 * j : 2 * j + 5]
    np.testing.assert_allclose(main(x, w, b), wanted, **CLOSE)
    with pytest.raises(intarsia.Error):
        main(x, normal(6, 1, 3, 2), b)


def test_transposed_convolution(tmp_path):
    conv = node(
        "ConvTranspose", "x w", kernel_shape=[3], group=2, strides=[2], dilations=[2], pads=[1, 2], output_padding=[1]
    )
    main = build(tmp_path, [conv], {"x": 3, "w": 3})
    x, w = normal(2, 4, 5), normal(4, 3, 3)
    spread = np.zeros((2, 6, 14), np.float32)
    for c, m, k, i in np.ndindex(4, 3, 3, 5):
        spread[:, c // 2 * 3 + m, 2 * i + 2 * k] += w[c, m, k] * x[:, c, i]
    np.testing.assert_allclose(main(x, w), spread[:, :, 1:12], **CLOSE)
    with pytest.raises(intarsia.Error):
        main(x, normal(2, 3, 3))


def test_attention(tmp_path):
    """Two queries share a key; the mask is of one head, and of fewer keys than there are."""
    main = build(tmp_path, [node("Attention", "q k v mask")], {"q": 4, "k": 4, "v": 4, "mask": 4})
    q, k, v, mask = normal(2, 4, 3, 8), normal(2, 2, 6, 8), normal(2, 2, 6, 5), normal(2, 1, 3, 4)
    scores = q @ np.repeat(k, 2, 1).transpose(0, 1, 3, 2) / np.sqrt(8)
    scores += np.concatenate([mask, np.full((2, 1, 3, 2), -np.inf)], -1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(main(q, k, v, mask), weights @ np.repeat(v, 2, 1), **CLOSE)


def test_parts_and_pads(tmp_path):
    """A tensor is divided in three, the last part is as long as the first again, and rows without a pad are held to."""
    nodes = [
        node("Split", "x", "a b c", axis=0, num_outputs=3),
        node("Shape", "a", "long", start=0, end=1), node("Shape", "c", "short", start=0, end=1),
        node("Sub", "long short", "more"), node("Concat", "zero zero more zero", "pads", axis=0),
        node("Pad", "c pads", "d", mode="edge"), node("Add", "d a", "y"), node("Mul", "b two", "z"),
    ]  # fmt: skip
    main = build(tmp_path, nodes, {"x": 2}, "y z", zero=[0], two=tensor(2, "two", "f4"))
    for rows in (3, 7, 8):
        x = normal(rows, 4)
        part = -(-rows // 3)
        last = x[2 * part :]
        last = np.concatenate([last, np.repeat(last[-1:], part - len(last), 0)])
        y, z = main(x)
        np.testing.assert_allclose(y, last + x[:part], **CLOSE)
        np.testing.assert_array_equal(z, x[part : 2 * part] * 2)


def test_choices_of_sizes(tmp_path):
    """A size is chosen by whether others are equal: heads of keys are repeated as often as those of queries need."""
    nodes = [
        node("Shape", "q", "m", start=0, end=1), node("Shape", "k", "n", start=0, end=1), node("Equal", "m n", "same"),
        node("Not", "same", "differ"), node("Div", "m n", "ratio"), node("Where", "differ ratio one", "times"),
        node("Shape", "k", "d", start=1, end=2), node("Unsqueeze", "k one", "rows"),
        node("Concat", "n times d", "wide", axis=0), node("Expand", "rows wide", "repeated"),
        node("Concat", "m d", "flat", axis=0), node("Reshape", "repeated flat", "r"), node("Add", "r q", "y"),
        node("Cast", "differ", "z", to=BOOL),
    ]  # fmt: skip
    main = build(tmp_path, nodes, {"q": 2, "k": 2}, "y z", one=[1])
    for heads, keys in ((6, 2), (3, 3)):
        q, k = normal(heads, 5), normal(keys, 5)
        y, z = main(q, k)
        np.testing.assert_allclose(y, np.repeat(k, heads // keys, 0) + q, **CLOSE)
        assert z.tolist() == [heads != keys]


def test_norms(tmp_path):
    norm = node("GroupNormalization", "x s b", num_groups=2, epsilon=1e-3)
    main = build(tmp_path, [norm], {"x": 4, "s": 1, "b": 1})
    x, s, b = normal(2, 6, 3, 4), normal(6), normal(6)
    rows = x.reshape(2, 2, -1)
    rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-3)
    wanted = rows.reshape(x.shape) * s[:, None, None] + b[:, None, None]
    np.testing.assert_allclose(main(x, s, b), wanted, **CLOSE)


def test_indices_and_pools(tmp_path):
    """Indices have as many coordinates as the updates leave out; windows reach behind the last pads."""
    nodes = [node("Cast", "i", "j", to=7), node("ScatterND", "x j u", "w"), node("Unsqueeze", "w axes", "v"),
             node("MaxPool", "v", "y", kernel_shape=[3], strides=[2], ceil_mode=1)]  # fmt: skip
    main = build(tmp_path, nodes, {"x": 2, "i": 2, "u": 1}, "y w", axes=[0])
    for length in (5, 6):
        x, u = normal(4, length), normal(2) * 3
        index = np.array([[1, 2], [3, 0]], np.float32)
        wanted = x.copy()
        wanted[[1, 3], [2, 0]] = u
        y, w = main(x, index, u)
        np.testing.assert_array_equal(w, wanted)
        starts = range(0, -(-(length - 3) // 2) * 2 + 1, 2)
        np.testing.assert_array_equal(y, np.stack([wanted[:, i : i + 3].max(1) for i in starts], 1)[None])


@pytest.mark.parametrize(
    ("op", "attributes"), [("MaxPool", {"ceil_mode": 1}), ("MaxPool", {}), ("AveragePool", {}), ("LpPool", {})]
)
def test_images_smaller_than_a_window(tmp_path, op, attributes):
    """A call with no window of values is refused with the size that is too small."""
    main = build(tmp_path, [node(op, "x", kernel_shape=[3], **attributes)], {"x": 3})
    assert main(normal(2, 4, 3)).shape == (2, 4, 1)
    for length in (1, 2):
        with pytest.raises(intarsia.Error, match=r"x\.2|dimension 2"):
            main(normal(2, 4, length))


@pytest.mark.parametrize(
    ("op", "inputs", "message"),
    [
        ("ArgMax", "s", "dimension 1 of input 'data' must be at least 1"),
        ("ArgMin", "s", "dimension 1 of input 'data' must be at least 1"),
        ("Resize", "s - - sizes", "resize"),
        ("DFT", "s", "fft"),
    ],
)
def test_axes_without_elements(tmp_path, op, inputs, message):
    """What needs an element of an axis refuses calls in which it has none."""
    attributes = {"Resize": {"mode": "linear"}, "DFT": {}}.get(op, {"axis": 1})
    sizes = ["b", "n", 1] if op == "DFT" else ["b", "n"]
    nodes = [node("Slice", "x one end one", "s"), node(op, inputs, **attributes)]
    stored = {"one": [1], "end": [1_000_000_000], "sizes": [2, 4]}
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, [value("x", sizes)], stored=stored), 20))
    main = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main
    rest = sizes[2:]
    main(normal(2, 3, *rest))
    with pytest.raises(intarsia.Error, match=message):
        main(normal(2, 1, *rest))


def test_determinants(tmp_path):
    """Rows change places where the first element is the smaller one, or 0."""
    (tmp_path / "m.onnx").write_bytes(model(graph([node("Det", "x")], [value("x", ["n", 4, "m"])])))
    main = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx").main
    x = normal(3, 4, 4)
    x[0, 0, 0] = 0
    x[1, 2] = x[1, 1]
    np.testing.assert_allclose(main(x), np.linalg.det(x.astype(np.float64)), rtol=1e-4, atol=1e-5)
