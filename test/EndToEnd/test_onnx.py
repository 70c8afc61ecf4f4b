# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files, compiled and run, against ONNX's reference evaluator (make_onnx.py); and files that are no models."""

from __future__ import annotations

import subprocess
from pathlib import Path

import intarsia
import numpy as np
import pytest
from onnx_wire import BOOL, INT64, UINT16, UINT32, UINT64, graph, model, node, tensor, value

FOLDER = Path(__file__).parent / "onnx"


@pytest.mark.parametrize("name", ["mlp", "convolutions", "shapes", "functions"])
def test_models(tmp_path, name):
    golden = dict(np.load(FOLDER / f"{name}.npz"))
    expected = golden.pop("result")
    module = intarsia.compile(FOLDER / f"{name}.onnx", output=tmp_path / "m.itx")
    # Sums of up to 72 products of numbers around 1, in f32.
    np.testing.assert_allclose(module.main(**golden), expected, rtol=0, atol=2e-5)


def test_sizes_of_calls(tmp_path):
    """A call is held to sizes that the model names, and takes any others."""
    module = intarsia.compile(FOLDER / "shapes.onnx", output=tmp_path / "m.itx")
    for batch, length in [(1, 1), (3, 7)]:
        x = np.random.default_rng(0).standard_normal((batch, length, 16)).astype(np.float32)
        heads = x.reshape(batch, length, 4, 4).transpose(0, 2, 1, 3)
        scores = heads @ heads.transpose(0, 1, 3, 2)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        expected = (weights @ heads).transpose(0, 2, 1, 3).reshape(batch, length, 16) + x
        np.testing.assert_allclose(module.main(x), expected, rtol=0, atol=2e-5)
    with pytest.raises(intarsia.Error, match="x"):
        module.main(np.zeros((2, 5, 8), np.float32))


def test_parts_by_indices(tmp_path):
    """Indices below 0 count from behind, and a slice of a size of the call is right, or the call has an error."""
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    nodes = [node("Gather", "w i", "g"), node("Slice", "g b e", "y")]
    stored = {"w": tensor(rows, "w", "f4"), "b": [1], "e": [3]}
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, [value("i", ["n"], INT64)], stored=stored)))
    module = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx")
    np.testing.assert_array_equal(module.main(np.array([0, -1, 3, -4])), rows[[-1, 3]])
    with pytest.raises(intarsia.Error, match="n is 2, must be at least 3"):
        module.main(np.array([0, 1]))


def test_sizes_as_conditions(tmp_path):
    """A size of a call is true unless it is 0, whatever its last bit is."""
    nodes = [node("Shape", "x", "s"), node("Cast", "s", to=BOOL)]
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, [value("x", ["n", "m"])])))
    module = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx")
    np.testing.assert_array_equal(module.main(np.zeros((2, 3), np.float32)), [True, True])


def test_sizes_of_two_names(tmp_path):
    """Sizes that meet in an op are one size, whatever they are called, and a call is held to it."""
    inputs = [value("x", ["a"]), value("z", ["b"])]
    (tmp_path / "m.onnx").write_bytes(model(graph([node("Add", "x z")], inputs)))
    module = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx")
    ones = np.ones(4, np.float32)
    np.testing.assert_array_equal(module.main(ones, ones), ones * 2)
    for other in (3, 1):
        with pytest.raises(intarsia.Error, match="must be the same"):
            module.main(ones, ones[:other])


def test_windows_of_all_channels(tmp_path):
    """A window that is larger than there are channels has all of them, and is divided by its own size."""
    size, alpha = (1 << 31) - 1, 1e9
    normed = node("LRN", "x", size=size, alpha=alpha, beta=0.5, bias=2.0)
    (tmp_path / "m.onnx").write_bytes(model(graph([normed], [value("x", [1, 4, 2, 3])])))
    module = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx")
    x = np.random.default_rng(0).standard_normal((1, 4, 2, 3)).astype(np.float32)
    expected = x / np.sqrt(2 + alpha / size * (x.astype(np.float64) ** 2).sum(1, keepdims=True))
    np.testing.assert_allclose(module.main(x), expected, rtol=0, atol=1e-5)


def test_files_of_integers(tools, tmp_path):
    """A file of '<u2' is of integers for an input of u16, although it is of bf16 for others."""
    (tmp_path / "m.onnx").write_bytes(model(graph([node("Max", "x x")], [value("x", [3], UINT16)])))
    intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx")
    numbers = np.array([1, 0x7FC0, 65535], np.uint16)
    np.save(tmp_path / "x.npy", numbers)
    written = tmp_path / "y.npy"
    tools.run("intarsia-run", tmp_path / "m.itx", f"--input=x=@{tmp_path / 'x.npy'}", f"--output=@{written}")
    np.testing.assert_array_equal(np.load(written), numbers)


@pytest.mark.parametrize(("kind", "dtype"), [(UINT32, np.uint32), (UINT64, np.uint64)])
def test_integers_without_a_sign(tmp_path, kind, dtype):
    """Numbers whose first bit is set are the larger ones."""
    inputs = [value("x", [3], kind), value("z", [3], kind)]
    (tmp_path / "m.onnx").write_bytes(model(graph([node("Max", "x z")], inputs)))
    module = intarsia.compile(tmp_path / "m.onnx", output=tmp_path / "m.itx")
    most = np.iinfo(dtype).max
    x, z = np.array([1, most, 7], dtype), np.array([most // 2 + 1, 5, 6], dtype)
    result = module.main(x, z)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.maximum(x, z))


def test_damaged_files(tools, tmp_path):
    """A damaged file is imported or refused in words that name it, wherever it is damaged."""
    good = (FOLDER / "convolutions.onnx").read_bytes()
    bad = tmp_path / "bad.onnx"
    for at in np.random.default_rng(0).integers(1, len(good), 12):
        damaged = bytearray(good[: int(at)] if at % 2 else good)
        damaged[int(at) - 1] ^= 0xFF
        bad.write_bytes(damaged)
        compiler = tools.path("intarsia-compile")
        done = subprocess.run(
            [compiler, bad, "--stop-after=import", "-o", tmp_path / "m.mlir"], capture_output=True, text=True
        )
        assert done.returncode in (0, 1), at
        assert done.returncode == 0 or "bad.onnx: " in done.stderr.splitlines()[0]
