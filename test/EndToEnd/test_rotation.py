# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models whose layers pass on rotated values: they compute what they did before."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path

import intarsia
import numpy as np
import pytest
from intarsia.__main__ import main
from intarsia.quantization.rotate import multiply_hadamard, power_of_two, rotate
from intarsia.quantization.safetensors import ModelWeights, write_tensors

HERE = Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "examples" / "glossary"


@pytest.mark.parametrize(("features", "size"), [(8, 8), (24, 8), (64, 64), (3, 1)])
def test_hadamard_matrices(features, size):
    """Sylvester's are powers of [[1, 1], [1, -1]] under the Kronecker product."""
    matrix = functools.reduce(np.kron, [np.array([[1, 1], [1, -1]])] * int(np.log2(size)), np.eye(1)) / np.sqrt(size)
    matrix = np.kron(np.eye(features // size), matrix)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], features)
    rows = np.random.default_rng(1).normal(size=(5, features))
    np.testing.assert_allclose(multiply_hadamard(rows, size, signs), rows * signs @ matrix, atol=1e-12)
    assert power_of_two(features) == size


@pytest.mark.parametrize("kinds", [["residual"], ["values"], ["residual", "values"]])
def test_rotated_models_predict_what_they_did(tools, tmp_path, kinds):
    """The cross entropy of windows is PyTorch's of the model as it is, which test_decoders.py compares with too."""
    rotate(MODEL, tmp_path / "rotated", kinds)
    tools.compile(tmp_path / "rotated", "-o", tmp_path / "m.itx", "--kv=f32")
    generator = intarsia.Generator(tmp_path / "m.itx")
    with np.load(HERE / "goldens" / "glossary.npz") as arrays:
        windows = arrays["windows"][:10]
    expected = json.loads((HERE / "goldens" / "glossary.json").read_text())["window_losses"][:10]
    actual = [generator.cross_entropy(window.tolist()) for window in windows]
    np.testing.assert_allclose(actual, expected, rtol=2e-5)
    before, after = ModelWeights(MODEL), ModelWeights(tmp_path / "rotated")
    for name, is_changed in [("mlp.gate_proj", "residual" in kinds), ("self_attn.v_proj", True)]:
        key = f"model.layers.3.{name}.weight"
        assert np.allclose(before.read(key, "f32"), after.read(key, "f32"), atol=1e-3) != is_changed
    assert ("lm_head.weight" in after.names) == ("residual" in kinds)
    assert generator.generate("violin (noun):", max_tokens=4)[0].text


def test_outliers_are_spread(tmp_path):
    """A feature of the stream that is far larger than others is as large as they are afterwards."""
    shutil.copytree(MODEL, tmp_path / "model")
    weights = ModelWeights(MODEL)
    tensors = {name: np.array(weights.read(name, "f32")) for name in weights.names}
    tensors["model.layers.0.mlp.down_proj.weight"][77] *= 50
    write_tensors(tmp_path / "model" / "model.safetensors", tensors)
    rotate(tmp_path / "model", tmp_path / "rotated")
    rows = ModelWeights(tmp_path / "rotated").read("model.layers.0.mlp.down_proj.weight", "f32")
    lengths = np.sqrt(np.square(rows).mean(1))
    assert lengths.max() < 3 * np.median(lengths)


def test_models_that_cannot_be_rotated(tmp_path):
    with pytest.raises(intarsia.InvalidArgumentError, match="models of type 'bert' cannot be rotated, only llama"):
        rotate(HERE / "models" / "bert", tmp_path / "rotated")
    with pytest.raises(intarsia.InvalidArgumentError, match="'keys' is nothing to rotate: residual and values are"):
        rotate(MODEL, tmp_path / "rotated", ["keys"])
    shutil.copytree(MODEL, tmp_path / "quantized")
    config = json.loads((MODEL / "config.json").read_text()) | {"quantization_config": {"quant_method": "gptq"}}
    (tmp_path / "quantized" / "config.json").write_text(json.dumps(config))
    with pytest.raises(intarsia.InvalidArgumentError, match="is quantized already"):
        rotate(tmp_path / "quantized", tmp_path / "rotated")
    assert not (tmp_path / "rotated").exists()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "precious").touch()
    with pytest.raises(intarsia.InvalidArgumentError, match="has files of something else"):
        rotate(MODEL, tmp_path / "folder")
    assert (tmp_path / "folder" / "precious").exists()


def test_rotations_that_were_ended(tmp_path):
    """What is complete stays, what is not or is of other settings is made anew."""

    def end(text: str) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "rotated"
    with pytest.raises(KeyboardInterrupt):
        rotate(MODEL, folder, progress=end)
    assert not (folder / "config.json").exists()
    rotate(MODEL, folder)
    times = [file.stat().st_mtime_ns for file in sorted(folder.iterdir())]
    rotate(MODEL, folder, progress=end)
    assert times == [file.stat().st_mtime_ns for file in sorted(folder.iterdir())]
    with pytest.raises(KeyboardInterrupt):
        rotate(MODEL, folder, ["values"], progress=end)


def test_the_command(tmp_path, capsys):
    arguments = ["quantize", str(MODEL), "-o", str(tmp_path / "q"), "--quantize=mxfp4", "--rotate=residual,values"]
    assert main(arguments) == 0
    assert "e2m1" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["q"]
    assert json.loads((tmp_path / "q" / "rotation.json").read_text())["rotated"] == ["residual", "values"]
    assert json.loads((tmp_path / "q" / "config.json").read_text())["tie_word_embeddings"] is False
    assert main([*arguments[:-1], "--rotate=keys"]) == 1
    assert "'keys' is nothing to rotate" in capsys.readouterr().err


def test_rotated_models_are_calibrated(tiny_decoder, tmp_path):
    """A run that is ended goes on behind its last layer, with the rotated model that is there."""
    ids = np.random.default_rng(1).integers(3, 96, (8, 32))

    def end(text: str) -> None:
        if text.startswith("layer 2 of 3: the quantized layer"):
            raise KeyboardInterrupt

    said: list[str] = []
    for name in ("whole", "ended"):
        if name == "ended":
            with pytest.raises(KeyboardInterrupt):
                intarsia.quantize(tiny_decoder, tmp_path / name, "int4", ids, rotations=["residual"], progress=end)
        intarsia.quantize(tiny_decoder, tmp_path / name, "int4", ids, rotations=["residual"], progress=said.append)
    assert said.count("going on behind 1 layers") == 1
    assert sum(text.startswith("rotating") for text in said) == 3  # parts of the model, once
    made = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("whole", "ended")]
    assert made[0] == made[1]
    assert "layer-00001.safetensors" in made[0]
    assert not any(name.startswith("intarsia.work") for name in made[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ended", "whole"]
