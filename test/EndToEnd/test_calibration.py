# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that are quantized with what they compute on a text: segments, model directories, what they lose."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import intarsia
import ml_dtypes
import numpy as np
import pytest
from intarsia.__main__ import main
from intarsia.quantization import quantize
from intarsia.quantization.safetensors import read_tensors, write_tensors

HERE = Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "examples" / "glossary"
#: Windows of 192 tokens that perplexity is measured on; what comes behind them is calibration text.
MEASURED = 200
DTYPES = {"F16": np.float16, "I32": np.int32, "U8": np.uint8, "I64": np.int64, "F32": np.float32,
          "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn}  # fmt: skip


@pytest.fixture(scope="module")
def golden():
    with np.load(HERE / "goldens" / "glossary.npz") as arrays:
        return {**arrays, **json.loads((HERE / "goldens" / "glossary.json").read_text())}


@pytest.fixture(scope="module")
def windows():
    ids = quantize.encode_documents(MODEL, (MODEL / "heldout.txt").read_text().removesuffix("\n").split("\n"))
    return quantize.read_windows(ids[MEASURED * 192 + 1 :], 192)[:80]


def read(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(
            data[8 + size :], DTYPES[entry["dtype"]], int(np.prod(entry["shape"])), entry["data_offsets"][0]
        ).reshape(entry["shape"])
        for name, entry in header.items()
    }


def dequantized(tensors: dict[str, np.ndarray], name: str) -> np.ndarray:
    """The arithmetic of compressed-tensors: elements times scales."""
    scales = tensors[f"{name}.weight_scale"]
    if f"{name}.weight" in tensors:
        return tensors[f"{name}.weight"].astype(np.float32) * scales
    packed = tensors[f"{name}.weight_packed"]
    if packed.dtype == np.int32:
        rows, columns = tensors[f"{name}.weight_shape"]
        bits = packed.shape[1] * 32 // columns
        words = packed.view(np.uint32)[..., None] >> np.arange(0, 32, bits, dtype=np.uint32)
        values = (words & (2**bits - 1)).reshape(rows, -1)[:, :columns].astype(np.float32) - 2 ** (bits - 1)
        scales = scales.astype(np.float32)
    else:
        values = np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1)
        values = values.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
        if scales.dtype == np.uint8:
            scales = scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
        else:
            scales = scales.astype(np.float32) / tensors[f"{name}.weight_global_scale"]
    return values * np.repeat(scales, values.shape[1] // scales.shape[1], 1)


def linears(layer: int) -> list[str]:
    return [f"model.layers.{layer}.{name}" for name in (
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")]  # fmt: skip


@pytest.fixture(scope="module")
def quantized(windows, tmp_path_factory):
    """Directories by format, made when they are first asked for."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "quantized"
            intarsia.quantize(MODEL, made[name], name, windows)
        return made[name]

    return make


def segment(tools, folder: Path, number: int) -> quantize._Segment:
    path = folder / f"{number}.itx"
    tools.run("intarsia-compile", MODEL, "-o", path, f"--segment={number}")
    return quantize._Segment(intarsia.load(path))


def test_segments_compute_what_the_model_does(tools, windows, tmp_path):
    """One after another, up to what the head multiplies; the input of the first linears is that of NumPy."""
    some = windows[:3]
    tools.compile(MODEL, "-o", tmp_path / "m.itx")
    expected = intarsia.Generator(tmp_path / "m.itx").logits([row.tolist() for row in some])
    weights = read(MODEL / "model.safetensors")
    table = weights["model.embed_tokens.weight"].astype(np.float64)
    values: dict[str, np.ndarray] = {}
    for number in range(7):
        part = segment(tools, tmp_path, number)
        assert part.function.signature.metadata["segments"] == 7
        results = part(some, values)
        values |= {name: array for name, array in results.items() if name.startswith("value.")}
        if number < 6:
            assert part.linears == linears(number)
            heads = ["self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj"]
            assert list(part.inputs(results)) == [f"model.layers.{number}.{head}" for head in heads]
            assert part.readers(f"model.layers.{number}.mlp.gate_proj") == linears(number)[4:6]
        if number == 0:
            rows = table[some.reshape(-1)]
            rows /= np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5)
            rows *= weights["model.layers.0.input_layernorm.weight"].astype(np.float64)
            np.testing.assert_allclose(
                part.inputs(results)["model.layers.0.self_attn.q_proj"], rows, rtol=1e-5, atol=1e-6
            )
    assert part.linears == ["lm_head"]
    logits = part.inputs(results)["lm_head"] @ table.T
    np.testing.assert_allclose(logits, np.concatenate(expected), atol=2e-3)


@pytest.fixture(scope="module")
def few() -> np.ndarray:
    """Windows for the model of two layers: three calls."""
    return np.random.default_rng(1).integers(3, 96, (300, 32))


@pytest.fixture(scope="module")
def uninterrupted(tiny_decoder, few, tmp_path_factory) -> bytes:
    """The weights that a run over three calls makes, which nothing ends."""
    folder = tmp_path_factory.mktemp("whole")
    intarsia.quantize(tiny_decoder, folder / "q", "int4", few)
    assert [path.name for path in folder.iterdir()] == ["q"]
    return (folder / "q" / "model.safetensors").read_bytes()


def test_a_run_that_was_ended_goes_on(tiny_decoder, few, uninterrupted, tmp_path):
    said: list[str] = []

    def end(text: str) -> None:
        said.append(text)
        if text.startswith("layer 2 of 3: rounding"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        intarsia.quantize(tiny_decoder, tmp_path / "ended", "int4", few, progress=end)
    assert said[0] == "layer 1 of 3: inputs, 33 %"
    assert not (tmp_path / "ended").exists()
    said.clear()
    intarsia.quantize(tiny_decoder, tmp_path / "ended", "int4", few, progress=said.append)
    assert said[:2] == ["going on behind 1 layers", "layer 2 of 3: inputs, 33 %"]
    assert [path.name for path in tmp_path.iterdir()] == ["ended"]
    assert (tmp_path / "ended" / "model.safetensors").read_bytes() == uninterrupted


def test_a_run_that_was_killed_goes_on(tiny_decoder, few, uninterrupted, tmp_path):
    """SIGKILL leaves no time for anything; files that were incomplete are not taken, and those that are lost are missed.

    Behind the last layer all that is left is to write the model.
    """
    program = (
        "import sys, os, signal, numpy, intarsia\n"
        "def end(text):\n"
        "    if text.startswith('going on'): print(text)\n"
        "    if text.startswith(sys.argv[4]): sys.stdout.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "intarsia.quantize(sys.argv[1], sys.argv[2], 'int4', numpy.load(sys.argv[3]), progress=end)\n"
    )
    np.save(tmp_path / "ids.npy", few)
    ends = [
        ("layer 1 of 3: the quantized layer, 66 %", ""),
        ("layer 2 of 3: inputs, 33 %", "going on behind 0 layers\n"),
        ("writing the model", "going on behind 1 layers\n"),
        ("writing the model", "going on behind 3 layers\n"),
    ]
    for when, expected in ends:
        command = [sys.executable, "-c", program, tiny_decoder, tmp_path / "killed", tmp_path / "ids.npy", when]
        ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        assert ended.returncode == -signal.SIGKILL
        assert ended.stdout == expected
        assert not (tmp_path / "killed").exists()
    shutil.copytree(tmp_path / "killed.work", tmp_path / "lost.work")
    (tmp_path / "lost.work" / "quantized-00000.safetensors").unlink()
    for name, first in (("killed", ["going on behind 3 layers"]), ("lost", ["layer 1 of 3: inputs, 33 %"])):
        said: list[str] = []
        intarsia.quantize(tiny_decoder, tmp_path / name, "int4", few, progress=said.append)
        assert said[:1] == first
        assert (tmp_path / name / "model.safetensors").read_bytes() == uninterrupted
        assert not (tmp_path / f"{name}.work").exists()


def test_another_run_does_not_go_on(tiny_decoder, few, tmp_path, capsys):
    def end(text: str) -> None:
        if text.startswith("layer 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        intarsia.quantize(tiny_decoder, tmp_path / "q", "int4", few[:2], progress=end)
    said: list[str] = []
    intarsia.quantize(tiny_decoder, tmp_path / "q", "int8", few[:2], progress=said.append)
    assert said[0] == "layer 1 of 3: inputs, 100 %"
    assert "q.work is of a run with another model, text or format; what it has of that run" in capsys.readouterr().err


def test_a_model_that_changes_meanwhile_makes_no_result(tiny_decoder, few, tmp_path):
    """Layers before and behind the change would be of two versions."""
    model = tmp_path / "model"
    shutil.copytree(tiny_decoder, model)

    def change(text: str) -> None:
        if text.startswith("layer 2 of 3: rounding"):
            weights = (model / "model.safetensors").read_bytes()
            (model / "model.safetensors").write_bytes(weights[:-64] + bytes(64))

    with pytest.raises(intarsia.InvalidArgumentError, match="its files were written to while they were read"):
        intarsia.quantize(model, tmp_path / "q", "int4", few[:2], progress=change)
    assert not (tmp_path / "q").exists()


def test_models_are_directories(windows, tmp_path):
    with pytest.raises(intarsia.InvalidArgumentError, match="is no model directory"):
        intarsia.quantize(MODEL / "model.safetensors", tmp_path / "q", "int4", windows[:2])
    with pytest.raises(intarsia.InvalidArgumentError, match="scales are always searched for"):
        intarsia.quantize(MODEL, tmp_path / "q", "int4", windows[:2], search_scales=True)


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("int4", 4.5),
        ("mxfp4", 4.25),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("int4-g128", 4.13), ("int8", 8.5), ("nvfp4", 4.5), ("fp8", 8.1))
        ),
    ],
)
def test_directories_hold_what_compressed_tensors_does(quantized, name, bits):
    output = quantized(name)
    tensors, original = read(output / "model.safetensors"), read(MODEL / "model.safetensors")
    config = json.loads((output / "config.json").read_text())
    settings = config.pop("quantization_config")
    assert config == json.loads((MODEL / "config.json").read_text())
    assert settings["quant_method"] == "compressed-tensors"
    groups = list(settings["config_groups"].values())
    modules = [module for layer in range(6) for module in linears(layer)]
    assert sorted(groups[0]["targets"]) == sorted(modules)
    assert len(groups) == 1
    assert groups[0]["weights"]["num_bits"] == (8 if "8" in name.split("-")[0] else 4)
    stored = 0
    for module in modules:
        weight = original[f"{module}.weight"].astype(np.float32)
        error = np.sqrt(((dequantized(tensors, module) - weight) ** 2).mean() / (weight**2).mean())
        # Farther than the nearest values are: errors cancel in outputs, and make up for those of earlier layers.
        assert error < (0.25 if "4" in name.split("-")[0] else 0.05)
        stored += sum(array.nbytes for key, array in tensors.items() if key.startswith(f"{module}."))
    elements = sum(original[f"{module}.weight"].size for module in modules)
    assert 8 * stored / elements == pytest.approx(bits, abs=0.05)
    for key in ("model.embed_tokens.weight", "model.norm.weight", "model.layers.3.input_layernorm.weight"):
        np.testing.assert_array_equal(tensors[key].view(np.uint16), original[key].view(np.uint16))
    assert (output / "tokenizer.json").read_bytes() == (MODEL / "tokenizer.json").read_bytes()
    assert not (output / "demo.py").exists()


def test_without_a_text_weights_are_rounded_to_nearest(tools, tmp_path):
    tools.run("intarsia-quantize", MODEL, "-o", tmp_path / "nearest", "--quantize=int4")
    tensors, original = read(tmp_path / "nearest" / "model.safetensors"), read(MODEL / "model.safetensors")
    for module in linears(2):
        scales = np.repeat(tensors[f"{module}.weight_scale"].astype(np.float32), 32, 1)
        weight = original[f"{module}.weight"].astype(np.float32)
        expected = np.clip(np.rint(weight / scales), -8, 7) * scales
        np.testing.assert_array_equal(dequantized(tensors, module), expected)


@pytest.mark.parametrize("name", ["int4", "int4-g128", "mxfp4", "nvfp4"])
def test_scales_with_the_least_error(tiny_decoder, tmp_path, name):
    """Of 400 scales for each block that NumPy tries in float64, few leave less than the one that was chosen."""
    model = MODEL if name == "int4-g128" else tiny_decoder  # whose matrices have 64 columns
    for folder, is_searched in [("searched", True), ("nearest", False)]:
        intarsia.quantize(model, tmp_path / folder, name, search_scales=is_searched)
    searched, nearest = (read(tmp_path / folder / "model.safetensors") for folder in ("searched", "nearest"))
    weights = read(model / "model.safetensors")
    block = {"int4-g128": 128, "nvfp4": 16}.get(name, 32)
    levels = np.arange(-8, 8) if name.startswith("int4") else np.arange(16, dtype=np.uint8)
    if not name.startswith("int4"):
        levels = np.unique(levels.view(ml_dtypes.float4_e2m1fn).astype(np.float64))
    module = linears(1)[6]
    rows = weights[f"{module}.weight"].astype(np.float64).reshape(-1, block)
    errors = [((dequantized(tensors, module).reshape(-1, block) - rows) ** 2).sum(1) for tensors in (searched, nearest)]
    largest = np.abs(rows).max(1, keepdims=True)
    # Powers of two are the scales of mxfp4.
    tried = 2.0 ** np.arange(-12, 0) if name == "mxfp4" else np.linspace(0.05, 0.3, 400)
    tried = np.concatenate([tried, -tried]) if name.startswith("int4") else tried
    best = np.full(len(rows), np.inf)
    for scale in tried:
        scales = scale if name == "mxfp4" else scale * largest
        ratios = np.clip(rows / scales, levels[0], levels[-1])
        at = np.searchsorted((levels[1:] + levels[:-1]) / 2, ratios)
        best = np.minimum(best, ((levels[at] * scales - rows) ** 2).sum(1))
    # The grid has 32 parts, and scales are rounded to their type: E4M3 has three bits of mantissa.
    assert errors[0].sum() < {"nvfp4": 1.1}.get(name, 1.02) * best.sum()
    assert errors[0].sum() < 0.98 * errors[1].sum()
    assert (errors[0] <= errors[1] * (1 + 1e-6)).all()


#: What rounding to nearest loses in the same formats, linears only: perplexity over that of f32 (docs/quantization.md).
NEAREST = {"int4": 2.34e-2, "int4-g128": 3.46e-2, "mxfp4": 2.67e-2, "nvfp4": 1.77e-2}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ("int4", "mxfp4") else pytest.mark.slow) for name in NEAREST],
)
def test_less_is_lost_on_other_texts(tools, quantized, tmp_path, golden, name):
    """Half of what rounding to nearest loses, or less."""
    tools.compile(quantized(name), "-o", tmp_path / "m.itx", "--kv=f32", "--quantize-activations=16")
    some = slice(60)
    perplexity = intarsia.Generator(tmp_path / "m.itx").perplexity(golden["windows"][some])
    assert 1e-3 < perplexity / np.exp(np.mean(golden["window_losses"][some])) - 1 < 0.5 * NEAREST[name]


def test_the_command(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("\n".join((MODEL / "heldout.txt").read_text().split("\n")[1500:]))
    output = tmp_path / "quantized"
    assert main(["quantize", str(MODEL), "-o", str(output), f"--calibration={text}", "--lines", "--tokens=1024"]) == 0
    said = capsys.readouterr()
    assert "i4, f16 for 32" in said.out
    assert f"wrote {output}" in said.out
    assert "has 768 features, the text 1024 tokens: fewer than 10 for each" in said.err
    generator = intarsia.Generator(intarsia.compile(output))
    assert generator.generate("violin (noun):", max_tokens=4)[0].text


def test_sentence_encoders(minilm, minilm_dir, tmp_path):
    """Embeddings of other texts stay near those of the model as it is, nearer than with rounding to nearest."""
    documents = (MODEL / "heldout.txt").read_text().split("\n")[:120]
    ids = quantize.read_windows(quantize.encode_documents(minilm_dir, documents), 64)
    inputs = {"input_ids": ids[-8:], "attention_mask": np.ones_like(ids[-8:])}
    exact = minilm.embed(**inputs)
    means = []
    for windows in (ids[:-8], None):
        folder = tmp_path / f"{len(means)}"
        assert "i8, f16 for 32" in intarsia.quantize(minilm_dir, folder, "int8", windows)
        assert (folder / "1_Pooling" / "config.json").exists()
        other = intarsia.compile(folder, options=["--quantize-activations=16"]).embed(**inputs)
        cosines = (exact * other).sum(-1) / np.linalg.norm(exact, axis=-1) / np.linalg.norm(other, axis=-1)
        means.append(cosines.mean())
    assert means[1] < means[0] < 1 - 1e-6
    assert means[0] > 0.9995


def test_segments_without_a_limited_size(tmp_path):
    """What follows the layers of DistilBERT reads no positions, whose number the model limits."""
    windows = np.random.default_rng(0).integers(0, 99, (40, 24))
    assert "i8, f16 for 32" in intarsia.quantize(
        HERE / "models" / "distilbert", tmp_path / "quantized", "int8", windows
    )


def test_models_of_images(tmp_path):
    """Weights of each linear lose less of its outputs on the images than with rounding to nearest."""
    vit = HERE / "models" / "vit"
    images = np.random.default_rng(0).normal(size=(500, 3, 12, 12)).astype(np.float32)
    np.save(tmp_path / "images.npy", images)
    output = tmp_path / "quantized"
    assert main(["quantize", str(vit), "-o", str(output), f"--calibration={tmp_path / 'images.npy'}"]) == 0
    assert not (output / "calibration.json").exists()
    exact = intarsia.compile(vit).main(pixel_values=images[:64])
    errors = []
    intarsia.quantize(vit, tmp_path / "nearest", "int4")
    for folder in (output, tmp_path / "nearest"):
        model = intarsia.compile(folder, options=["--quantize-activations=16"])
        actual = model.main(pixel_values=images[:64])
        assert actual._fields == ("last_hidden_state", "pooler_output")
        errors.append(np.square(actual.last_hidden_state - exact.last_hidden_state).mean())
    assert 1e-5 < errors[0] < 0.9 * errors[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--quantize-parts=embedding"], "'model.embed_tokens.weight' is also the embedding"),
        (["--quantize-parts=linears,lm_head"], "'model.embed_tokens.weight' is also the embedding"),
        (["--quantize=none"], "--quantize"),
        (["--quantize=int3"], "int3"),
        (["--second-moments=absent.safetensors"], "absent.safetensors: there is no such file"),
    ],
)
def test_what_cannot_be_written(tools, tmp_path, arguments, message):
    result = tools.run("intarsia-quantize", MODEL, "-o", tmp_path / "quantized", *arguments, check=False)
    assert result.returncode == 1
    assert message in result.stderr
    assert not list((tmp_path / "quantized").glob("*"))


def test_bad_outputs(tools, tmp_path):
    result = tools.run("intarsia-quantize", MODEL, "-o", MODEL, check=False)
    assert result.returncode == 1
    assert "is the model that is read; choose another directory" in result.stderr
    (tmp_path / "file").touch()
    result = tools.run("intarsia-quantize", MODEL, "-o", tmp_path / "file", check=False)
    assert "is no directory" in result.stderr
    result = tools.run("intarsia-quantize", tmp_path / "file", "-o", tmp_path / "other", check=False)
    assert "needs a model directory" in result.stderr


@pytest.fixture
def moments():
    """Second moments of the second layer as a calibration writes them, here of independent features."""
    heads = {"self_attn.q_proj": 256, "self_attn.o_proj": 256, "mlp.gate_proj": 256, "mlp.down_proj": 768}
    return {f"second_moments.model.layers.1.{name}": np.eye(size, dtype=np.float32) for name, size in heads.items()}


def round_layer(tools, folder: Path, moments, *flags: str, check: bool = True):
    write_tensors(folder / "moments", moments)
    return tools.run(
        "intarsia-quantize", MODEL, "-o", folder / "part", "--linears=model.layers.1.*",
        f"--second-moments={folder / 'moments'}", *flags, check=check,
    )  # fmt: skip


def test_parts_and_what_they_mean(tools, tmp_path, moments):
    round_layer(tools, tmp_path, moments, f"--decoded={tmp_path / 'decoded'}")
    part, decoded = read(tmp_path / "part"), read_tensors(tmp_path / "decoded")
    assert sorted(decoded) == sorted(f"{name}.weight" for name in linears(1))
    for name in linears(1):
        np.testing.assert_array_equal(decoded[f"{name}.weight"], dequantized(part, name))
    tools.run("intarsia-quantize", MODEL, "-o", tmp_path / "model", f"--part={tmp_path / 'part'}")
    tensors = read(tmp_path / "model" / "model.safetensors")
    for name, array in part.items():
        np.testing.assert_array_equal(tensors[name], array)
    # A part of another format, or of another model, is not taken.
    result = tools.run(
        "intarsia-quantize", MODEL, "-o", tmp_path / "other", f"--part={tmp_path / 'part'}", "--quantize=int4-g128",
        check=False,
    )  # fmt: skip
    assert "it was made for another format" in result.stderr


def test_weights_can_have_another_aim(tools, tmp_path, moments):
    aim = np.random.default_rng(0).normal(size=(256, 768)).astype(np.float32)
    moments["target.model.layers.1.mlp.down_proj"] = aim
    round_layer(tools, tmp_path, moments)
    actual = dequantized(read(tmp_path / "part"), "model.layers.1.mlp.down_proj")
    assert np.sqrt(((actual - aim) ** 2).mean()) < 0.15


def test_moments_of_another_model(tools, tmp_path, moments):
    name = "second_moments.model.layers.1.mlp.down_proj"

    def refused(change) -> str:
        changed = {key: array.copy() for key, array in moments.items()}
        change(changed)
        result = round_layer(tools, tmp_path, changed, check=False)
        assert result.returncode == 1
        assert not (tmp_path / "part").exists()
        return result.stderr

    assert f"has no tensor '{name}', the inputs of" in refused(lambda changed: changed.pop(name))
    assert "is F32 [3, 3], the inputs of 'model.layers.1.mlp.down_proj' are 768 features of F32" in refused(
        lambda changed: changed.__setitem__(name, np.eye(3, dtype=np.float32))
    )
    assert "tensor 'target.model.layers.1.mlp.down_proj' is F32 [3, 3], the weight is F32 [256, 768]" in refused(
        lambda changed: changed.__setitem__("target.model.layers.1.mlp.down_proj", np.eye(3, dtype=np.float32))
    )

    def damage(changed) -> None:
        changed[name][5, 7] = np.nan

    assert f"tensor '{name}': the moments of feature 5 are not finite" in refused(damage)


def test_weights_that_cannot_be_quantized(tools, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(MODEL, model)
    path = model / "model.safetensors"
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + size])["model.layers.4.mlp.up_proj.weight"]
    at = 8 + size + entry["data_offsets"][0] + 2 * (3 * 256 + 5)
    data[at : at + 2] = b"\xc0\x7f"  # NaN
    path.write_bytes(data)
    result = tools.run("intarsia-quantize", model, "-o", tmp_path / "quantized", check=False)
    assert result.returncode == 1
    assert "tensor 'model.layers.4.mlp.up_proj.weight' has nan at [3, 5]" in result.stderr
    assert not list((tmp_path / "quantized").glob("*"))


def test_segments_that_are_not_there(tools, tmp_path):
    result = tools.run("intarsia-compile", MODEL, "-o", tmp_path / "m.itx", "--segment=7", check=False)
    assert "'step' has segments 0 to 6, not 7" in result.stderr
    result = tools.run(
        "intarsia-compile", MODEL, "-o", tmp_path / "m.itx", "--segment-weights=other.safetensors", check=False
    )
    assert "--segment-weights are those of one layer: give --segment too" in result.stderr
    for name, message in [("absent.safetensors", "absent.safetensors"), ("../m.safetensors", "is not below")]:
        result = tools.run(
            "intarsia-compile", MODEL, "-o", tmp_path / "m.itx", "--segment=0", f"--segment-weights={name}", check=False
        )
        assert message in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.txt", "short", "tokens, a window needs 512: give more text, or --window"),
        ("ids.npy", np.zeros(600, np.float32), "is float32 of rank 1, token ids are integers"),
        (
            "ids.npy",
            np.full(600, 4096),
            "token 0 of window 0 of the calibration text has the id 4096, the vocabulary of",
        ),
        ("ids.npy", np.zeros((2, 3, 4, 4), np.float32), "the model reads '"),
        ("ids.npy", np.full((2, 3, 4, 4), np.nan), "the calibration images have NaN or infinity"),
    ],
)
def test_bad_texts(tmp_path, capsys, name, content, message):
    file = tmp_path / name
    if isinstance(content, str):
        file.write_text(content)
    else:
        np.save(file, content)
    assert main(["quantize", str(MODEL), "-o", str(tmp_path / "quantized"), f"--calibration={file}"]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "quantized").exists()


def test_inputs_that_are_not_finite(windows, tmp_path):
    """The layer and the feature are named; nothing is written."""
    model = tmp_path / "model"
    shutil.copytree(MODEL, model)
    path = model / "model.safetensors"
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + size])["model.layers.1.post_attention_layernorm.weight"]
    at = 8 + size + entry["data_offsets"][0] + 2 * 77
    data[at : at + 2] = (np.float32([1e30]).view(np.uint32) >> 16).astype("<u2").tobytes()
    path.write_bytes(data)
    with pytest.raises(intarsia.InvalidArgumentError, match=r"input of model.layers.1.mlp.gate_proj .* in feature 77 "):
        intarsia.quantize(model, tmp_path / "q", "int4", windows[:2])
    assert not (tmp_path / "q").exists()


def test_measuring_on_the_calibration_text(tmp_path, windows, capsys):
    """A model says if it was calibrated on a text, for the part of it that is measured."""
    lines = (MODEL / "heldout.txt").read_text().removesuffix("\n").split("\n")
    (tmp_path / "text.txt").write_text("\n".join(lines[:40]))
    ids = quantize.encode_documents(MODEL, lines[:30])
    intarsia.quantize(MODEL, tmp_path / "q", "int8", quantize.read_windows(ids, 192))
    intarsia.compile(tmp_path / "q", output=tmp_path / "q.itx")
    (tmp_path / "other.txt").write_text("\n".join(lines[40:80]))
    said = {}
    for name in ("text", "other"):
        capsys.readouterr()
        assert main(["perplexity", str(tmp_path / "q.itx"), str(tmp_path / f"{name}.txt"), "--lines"]) == 0
        said[name] = capsys.readouterr().err
    share = re.search(r"about (\d+) % of .*text.txt is text that this model was calibrated on", said["text"])
    assert 55 < int(share[1]) < 95
    assert "calibrated" not in said["other"]
