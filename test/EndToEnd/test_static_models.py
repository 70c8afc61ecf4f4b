# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models whose inputs have integers of 8 bits with scales of a calibration text: what is found, directories that are
compiled, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import intarsia
import numpy as np
import pytest
from intarsia.__main__ import main
from intarsia.quantization import quantize, static
from intarsia.quantization.safetensors import read_tensors, write_tensors

VOCABULARY, HIDDEN, INTERMEDIATE, LAYERS = 64, 256, 512, 2
#: Features of norms that are far larger than others, as those of many models are.
OUTLIERS = [7, 130, 200]
PRECISION = "intarsia-precision.json"


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """An encoder of two layers."""
    folder = tmp_path_factory.mktemp("outliers")
    rng = np.random.default_rng(0)
    tensors = {}

    def linear(name: str, outputs: int, inputs: int) -> None:
        tensors[f"{name}.weight"] = (rng.normal(size=(outputs, inputs)) / np.sqrt(inputs)).astype(np.float32)
        tensors[f"{name}.bias"] = rng.normal(size=outputs).astype(np.float32) / 10

    def norm(name: str, outliers: float) -> None:
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = np.ones(HIDDEN, np.float32), np.zeros(HIDDEN, np.float32)
        tensors[f"{name}.weight"][OUTLIERS] = outliers

    for name, rows in (("word", VOCABULARY), ("position", 64), ("token_type", 2)):
        tensors[f"embeddings.{name}_embeddings.weight"] = rng.normal(size=(rows, HIDDEN)).astype(np.float32)
    norm("embeddings.LayerNorm", 30)
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        for name in ("query", "key", "value"):
            linear(f"{prefix}attention.self.{name}", HIDDEN, HIDDEN)
        linear(f"{prefix}attention.output.dense", HIDDEN, HIDDEN)
        norm(f"{prefix}attention.output.LayerNorm", 30)
        linear(f"{prefix}intermediate.dense", INTERMEDIATE, HIDDEN)
        linear(f"{prefix}output.dense", HIDDEN, INTERMEDIATE)
        norm(f"{prefix}output.LayerNorm", 30 if layer + 1 < LAYERS else 1)
    for name, weight in tensors.items():  # outliers are many times as large, and count as others do
        if (
            weight.ndim == 2
            and weight.shape[1] == HIDDEN
            and "embeddings" not in name
            and "attention.output" not in name
        ):
            weight[:, OUTLIERS] /= 30
    write_tensors(folder / "model.safetensors", tensors)
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "intermediate_size": INTERMEDIATE, "hidden_act": "gelu", "vocab_size": VOCABULARY,
        "max_position_embeddings": 64, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def windows() -> np.ndarray:
    return np.random.default_rng(1).integers(3, VOCABULARY, (24, 32))


@pytest.fixture(scope="module")
def quantized(model, windows, tmp_path_factory):
    """A directory with scales of a text, what the command printed, and the file of its choice."""
    folder = tmp_path_factory.mktemp("static")
    table = intarsia.quantize_static(model, folder / "q", windows)
    return folder / "q", table, json.loads((folder / "q" / PRECISION).read_text())


def outputs_of(directory: Path, windows: np.ndarray, *flags: str) -> np.ndarray:
    return intarsia.compile(directory, options=list(flags))["main"](windows)


def error_of(exact: np.ndarray, other: np.ndarray) -> float:
    return float(np.linalg.norm(other - exact) / np.linalg.norm(exact))


def changed(directory: Path, to: Path, change) -> Path:
    """Return a directory with another choice."""
    to.mkdir()
    for file in directory.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    choice = json.loads((directory / PRECISION).read_text())
    change(choice)
    (to / PRECISION).write_text(json.dumps(choice))
    return to


def test_ranges_of_features_move_into_weights(quantized):
    _, table, choice = quantized
    inputs = {one["weights"][0]: one for one in choice["static_inputs"]}
    assert len(inputs) == 4 * LAYERS
    one = inputs["encoder.layer.0.attention.self.query.weight"]
    assert one["weights"] == [f"encoder.layer.0.attention.self.{name}.weight" for name in ("query", "key", "value")]
    factors = np.array(one["factors"])
    others = np.delete(factors, OUTLIERS)
    assert factors[OUTLIERS].min() > 5 * others.max()
    assert set(choice["tensors"].values()) == {"int8-channel"}
    assert f"{4 * LAYERS} inputs have scales of the text" in table


def test_less_is_lost_than_with_one_scale_for_all_features(quantized, model, windows, tmp_path):
    """Against the model in f32, on texts that were not calibrated with."""
    directory, _, _ = quantized
    others = np.random.default_rng(2).integers(3, VOCABULARY, (6, 32))
    exact = outputs_of(model, others)

    def flat(choice) -> None:
        weights = read_tensors(model / "model.safetensors")
        for one in choice["static_inputs"]:
            weight = np.concatenate([weights[key] for key in one["weights"]])
            largest = np.array(one["factors"]) * np.abs(weight).max(0)  # of features, but for one number
            one["factors"] = [float(max(one["factors"]))] * largest.size

    scaled = error_of(exact, outputs_of(directory, others, "--quantize-attention=16"))
    one_scale = error_of(
        exact, outputs_of(changed(directory, tmp_path / "flat", flat), others, "--quantize-attention=16")
    )
    tokens = error_of(exact, outputs_of(model, others, "--quantize=int8", "--quantize-activations=8-token",
                                        "--quantize-attention=16"))  # fmt: skip
    assert scaled < 0.02
    assert scaled < 0.5 * one_scale
    assert scaled < tokens


def test_minilm(minilm_dir, tmp_path):
    """Sentences of examples/glossary, 100 of them not calibrated with: the embeddings are near those in f32."""
    lines = (Path(__file__).parents[2] / "examples/glossary/heldout.txt").read_text().splitlines()
    ids = quantize.encode_documents(minilm_dir, lines[100:228])
    window = quantize.usual_window(minilm_dir, len(ids), 128)
    assert 15 < window < 60
    table = intarsia.quantize_static(minilm_dir, tmp_path / "q", quantize.read_windows(ids, window))
    assert "25 inputs have scales of the text" in table
    exact, scaled = intarsia.compile(minilm_dir), intarsia.compile(tmp_path / "q")
    texts = [np.array([quantize.encode_documents(minilm_dir, [line])]) for line in lines[:100]]
    x, y = (np.stack([module["main"](text)[0][0].mean(0) for text in texts]).astype(np.float64)
            for module in (exact, scaled))  # fmt: skip
    cosines = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    assert cosines.mean() > 0.997  # 0.9976 of 500 sentences
    assert cosines.min() > 0.98


def test_windows_are_as_long_as_the_texts_of_an_encoder(model, tmp_path):
    assert quantize.usual_window(model, 3000, 100) == 30
    assert quantize.usual_window(model, 3000, 1) == 512
    assert quantize.usual_window(model, 3000, 2) == 512
    assert quantize.usual_window(model, 3, 9) == 2
    (tmp_path / "config.json").write_text('{"bos_token_id": 1, "eos_token_id": 2}')
    assert quantize.usual_window(tmp_path, 3000, 100) == 512


@pytest.mark.cpu_only
def test_devices_agree(quantized, windows):
    """One directory compiles for all that multiply integers with few scales; the user may say otherwise."""
    directory, _, _ = quantized
    plain = outputs_of(directory, windows[:2], "--target=reference", "--quantize-attention=16")
    on_cpu = outputs_of(directory, windows[:2], "--quantize-attention=16")
    # A sum in another order may round a feature to its other neighbour.
    assert np.median(np.abs(plain - on_cpu)) < 1e-3 * np.abs(plain).max()
    assert error_of(plain, on_cpu) < 0.01
    as_it_is = outputs_of(directory, windows[:2], "--quantize-activations=16", "--quantize-attention=16")
    assert np.abs(as_it_is - on_cpu).max() > 0


def test_factors_bring_inputs_to_their_range():
    rng = np.random.default_rng(3)
    rows, weight = rng.normal(size=(50, 40)).astype(np.float32), rng.normal(size=(30, 40)).astype(np.float32)
    rows[:, 3] = 0
    weight[:, 9] = 0
    largest = np.abs(rows).max(0)
    for strength in static.STRENGTHS:
        factors = static.factors_of(largest, weight, strength)
        assert np.isfinite(factors).all()
        assert np.isfinite(np.float32(1) / factors).all()
        integers = static.rounded_input(rows, factors)
        assert np.abs(integers).max() == 127
        # Multiplied with what weights become, the values are near those of floats.
        products = integers.astype(np.float64) @ static.rounded_weight(weight, factors).T.astype(np.float64)
        assert np.abs(products - rows @ weight.T).max() < 0.5
    best = static.choose_factors(["w"], largest, rows, [weight])
    losses = []
    for strength in static.STRENGTHS:
        factors = static.factors_of(largest, weight, strength)
        outputs = static.rounded_input(rows, factors) @ static.rounded_weight(weight, factors).T
        losses.append(np.square(outputs - rows @ weight.T).sum() / np.square(rows @ weight.T).sum())
    assert best.loss == pytest.approx(min(losses), rel=1e-4)
    assert best.strength == static.STRENGTHS[int(np.argmin(losses))]


def test_a_run_that_was_ended_goes_on(quantized, model, windows, tmp_path):
    _, table, choice = quantized

    def kill(text: str) -> None:
        if text.startswith("layer 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        intarsia.quantize_static(model, tmp_path / "q", windows, progress=kill)
    texts: list[str] = []
    again = intarsia.quantize_static(model, tmp_path / "q", windows, progress=texts.append)
    assert texts[0] == "going on behind 1 layers"
    assert again == table
    assert json.loads((tmp_path / "q" / PRECISION).read_text()) == choice
    assert not (tmp_path / "q.work").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--quantize=int8"], "8-static finds ranges of inputs on a text: give --calibration=FILE"),
        (["--quantize=int4", "--calibration=ids.npy"], "8-static multiplies weights in int8-channel, not in int4"),
        (["--quantize=auto", "--calibration=ids.npy", "--bits=5"], "--quantize=auto changes weights"),
        (["--quantize=int8", "--calibration=ids.npy", "--narrow-blocks=50%"], "--narrow-blocks is for"),
        (["--quantize=int8", "--calibration=ids.npy", "--quantize-parts=embedding"], "is about linears"),
        (["--quantize=int8", "--calibration=wrong.npy"], "the vocabulary of"),
    ],
)  # fmt: skip
def test_what_is_refused(model, windows, tmp_path, monkeypatch, capsys, flags, message):
    monkeypatch.chdir(tmp_path)
    np.save("ids.npy", windows)
    np.save("wrong.npy", windows + VOCABULARY)
    assert main(["quantize", str(model), "-o", "q", "--quantize-activations=8-static", *flags]) == 1
    assert message in capsys.readouterr().err
    assert not Path("q").exists()


def test_inputs_that_are_no_numbers(model, windows, tmp_path):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "config.json").write_bytes((model / "config.json").read_bytes())
    tensors = dict(read_tensors(model / "model.safetensors"))
    norm = tensors["encoder.layer.0.output.LayerNorm.weight"].copy()
    norm[9] = np.nan
    write_tensors(damaged / "model.safetensors", tensors | {"encoder.layer.0.output.LayerNorm.weight": norm})
    with pytest.raises(intarsia.InvalidArgumentError, match="query has NaN or infinity in feature 9 on the"):
        intarsia.quantize_static(damaged, tmp_path / "q", windows)


def test_directories_that_are_refused(quantized, model, tools, tmp_path):
    directory, _, _ = quantized

    def refused(folder: Path, *flags: str) -> str:
        result = tools.run("intarsia-compile", folder, "-o", tmp_path / "m.itx", *flags, check=False)
        assert result.returncode == 1
        return result.stderr

    assert (
        "needs to know the range of each feature of inputs, which takes a step of its own: `intarsia quantize"
        in refused(model, "--quantize=int8", "--quantize-activations=8-static")
    )
    assert "kernels of 'cuda:sm_90a' scale integers by blocks of 32" in refused(directory, "--target=cuda:sm_90a")
    changes = {
        "has the factor 0.000000 for feature 0": lambda one: one["factors"].__setitem__(0, 0),
        "has the factor inf for feature 1": lambda one: one["factors"].__setitem__(1, 1e39),
        "'factors' is no list of numbers": lambda one: one["factors"].__setitem__(0, "1"),
        "must be said 'weights', 'factors'": lambda one: one.pop("factors"),
        "which the model does not have": lambda one: one.update(weights=[one["weights"][0] + "x"]),
        "are they for another model?": lambda one: one.update(factors=[1.0] * 200),
    }
    for number, (message, change) in enumerate(changes.items()):
        error = refused(
            changed(directory, tmp_path / str(number), lambda choice, c=change: c(choice["static_inputs"][0]))
        )
        assert message in error, message
    with pytest.raises(intarsia.InvalidArgumentError, match="which says its precision already"):
        intarsia.quantize_static(directory, tmp_path / "again", np.zeros((1, 8), np.int64))
