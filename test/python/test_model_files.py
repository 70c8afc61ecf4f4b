# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files of models and of arrays that `intarsia quantize` reads: what they are not is said by name."""

from __future__ import annotations

import json
from pathlib import Path

import intarsia
import numpy as np
import pytest
from intarsia.__main__ import main
from intarsia.quantization import overlap
from intarsia.quantization.safetensors import ModelWeights, read_tensors, write_tensors
from intarsia.support.checks import DEEPEST_JSON, parse_json

DEEP = "[" * 100000
CONFIG = {"model_type": "llama", "vocab_size": 9, "hidden_size": 4, "num_attention_heads": 2}
TENSOR = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


@pytest.fixture
def model(tmp_path) -> Path:
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    write_tensors(folder / "model.safetensors", {"a": np.arange(6, dtype=np.float32).reshape(2, 3)})
    return folder


def refused(model: Path, capsys, *flags: str) -> str:
    """Return what `intarsia quantize` says; a traceback would fail the test."""
    ids = model.parent / "ids.npy"
    if not ids.exists():
        np.save(ids, np.zeros(40, np.int64))
    given = ["quantize", str(model), "-o", str(model.parent / "q"), f"--calibration={ids}", "--window=8", *flags]
    assert main(given) == 1
    assert not (model.parent / "q").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize("flags", [[], ["--rotate=values"]])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "config.json: is a list, must be an object"),
        (DEEP, "config.json: is nested too deep: more than 64 levels"),
        ('{"a":' + "[" * 64 + "]" * 64 + "}", "config.json: is nested too deep: more than 64 levels"),
        ("{", "config.json: Expecting"),
        ("\xff", "config.json: 'utf-8' codec can't decode"),
    ],
)
def test_settings(model, capsys, text, message, flags):
    (model / "config.json").write_text(text, encoding="latin-1")
    assert message in refused(model, capsys, *flags)
    (model / "config.json").unlink()
    assert "config.json: there is no such file" in refused(model, capsys, *flags)


@pytest.mark.parametrize("value", ["4", None, 0, [4], 4.0])
def test_sizes_in_settings(model, capsys, value):
    (model / "config.json").write_text(json.dumps(CONFIG | {"hidden_size": value}))
    assert "config.json: hidden_size is" in refused(model, capsys, "--rotate=values")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "index.json: is a list, must be an object"),
        (DEEP, "index.json: is nested too deep"),
        ("{}", "index.json: is damaged, or no file of safetensors: has no 'weight_map'"),
        ('{"weight_map": ["a"]}', "has no 'weight_map' that names a file for each tensor"),
        ('{"weight_map": {"a": 5}}', "has no 'weight_map' that names a file for each tensor"),
        ('{"weight_map": {"a": "other.safetensors"}}', "other.safetensors: there is no such file"),
    ],
)
def test_indices(model, capsys, text, message):
    (model / "model.safetensors.index.json").write_text(text)
    assert message in refused(model, capsys)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ([], "its header: is a list, must be an object"),
        (DEEP, "its header: is nested too deep"),
        ({"a": 5}, "the header has int for 'a'"),
        ({"__metadata__": 5}, "the header has int for '__metadata__'"),
        ({"a": TENSOR | {"dtype": 5}}, "the header has no dtype, shape and data_offsets for 'a'"),
        ({"a": TENSOR | {"shape": "2"}}, "the header has no dtype, shape and data_offsets for 'a'"),
        ({"a": TENSOR | {"shape": [-2, -3]}}, "the header has no dtype, shape and data_offsets for 'a'"),
        ({"a": TENSOR | {"shape": [True]}}, "the header has no dtype, shape and data_offsets for 'a'"),
        ({"a": TENSOR | {"data_offsets": [0]}}, "the header has no dtype, shape and data_offsets for 'a'"),
        ({"a": {}}, "the header has no dtype, shape and data_offsets for 'a'"),
    ],
)
def test_headers(model, capsys, header, message):
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    (model / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(24))
    assert message in refused(model, capsys)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": [2, 4]}, r"'a' is F32 \[2, 4\] at 0 to 24: not so many bytes"),
        ({"data_offsets": [24, 48]}, r"'a' is F32 \[2, 3\] at 24 to 48: not so many bytes"),
        ({"data_offsets": [24, 0]}, "at 24 to 0: not so many bytes"),
        ({"shape": [2**62, 2**62]}, "not so many bytes"),
        (
            {"shape": [0, 2**62, 2**62], "data_offsets": [0, 0]},
            r"is damaged.* 'a' is F32 \[0, 4611686018427387904, .*big",
        ),
        ({"shape": [1] * 100, "data_offsets": [0, 4]}, "is damaged, .* 'a' is F32 .*dimension"),
        ({"dtype": "F8_E4M3"}, "'a' is F8_E4M3; known are F64, F32"),
    ],
)
def test_tensors_outside_of_their_file(model, change, message):
    text = json.dumps({"a": TENSOR | change}).encode()
    (model / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(24))
    with pytest.raises(intarsia.InvalidArgumentError, match=message):
        read_tensors(model / "model.safetensors")
    with pytest.raises(intarsia.InvalidArgumentError, match=message):
        ModelWeights(model).read("a", "f32")


def test_tensors_that_are_not_there(model):
    weights = ModelWeights(model)
    np.testing.assert_array_equal(weights.read("a", "f32"), np.arange(6).reshape(2, 3))
    with pytest.raises(intarsia.NotFoundError, match="has no tensor 'b'"):
        weights.read("b", "f32")


@pytest.mark.parametrize(
    "data", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((", b"PK\x03\x04", b"text"]
)
def test_arrays(model, capsys, data):
    (model.parent / "ids.npy").write_bytes(data)
    assert "ids.npy: is no array of NumPy" in refused(model, capsys)


def test_several_arrays(model, capsys):
    np.savez(model.parent / "ids.npz", a=np.zeros(3))
    (model.parent / "ids.npz").rename(model.parent / "ids.npy")
    assert "ids.npy: has several arrays, must be one" in refused(model, capsys)


def test_the_deepest_json():
    def nested(levels: int) -> str:
        return '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)

    assert parse_json("x", nested(DEEPEST_JSON))
    assert parse_json("x", '{"a": "%s"}' % ("[" * 1000))
    with pytest.raises(intarsia.InvalidArgumentError, match="x: is nested too deep: more than 64 levels"):
        parse_json("x", nested(DEEPEST_JSON + 1))


def test_deep_descriptions_of_a_calibration():
    with pytest.raises(intarsia.InvalidArgumentError, match=r"calibration\.json: is damaged"):
        overlap.share([1, 2], '{"passages": ' + DEEP)
