# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that are quantized with what they compute on a text: second moments, model directories, what they lose."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import intarsia
import ml_dtypes
import numpy as np
import pytest
from intarsia import _quantize
from intarsia.__main__ import main

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
    ids = _quantize.encode_documents(MODEL, (MODEL / "heldout.txt").read_text().removesuffix("\n").split("\n"))
    return _quantize.read_windows(ids[MEASURED * 192 + 1 :], 192)


@pytest.fixture(scope="module")
def moments(windows, tmp_path_factory):
    path = tmp_path_factory.mktemp("calibration") / "second_moments.safetensors"
    _quantize.second_moments(MODEL, windows, path)
    return path


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


def test_second_moments_of_the_first_layer(windows, moments):
    """Its input is the normalized embedding, which NumPy computes in f64."""
    weights = read(MODEL / "model.safetensors")
    table = weights["model.embed_tokens.weight"].astype(np.float64)
    rows = table[windows.reshape(-1)]
    rows /= np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5)
    rows *= weights["model.layers.0.input_layernorm.weight"].astype(np.float64)
    actual = read(moments)["second_moments.model.layers.0.self_attn.q_proj"]
    np.testing.assert_allclose(actual, rows.T @ rows / len(rows), rtol=2e-5, atol=1e-5 * (rows**2).mean())


def test_each_input_is_observed_once(moments):
    names = {"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj"}
    expected = {f"second_moments.model.layers.{layer}.{name}" for layer in range(6) for name in names}
    tensors = read(moments)
    # The head multiplies one row of each call, and is not quantized with the linears; it is observed all the same.
    assert set(tensors) - expected <= {"second_moments.lm_head", "second_moments.model.embed_tokens"}
    assert expected <= set(tensors)
    assert all(np.array_equal(array, array.T) or np.allclose(array, array.T, rtol=1e-5) for array in tensors.values())


def test_several_passes_give_the_same(windows, moments, tmp_path, monkeypatch):
    monkeypatch.setattr(_quantize, "MOMENTS_BYTES", 3 << 20)
    said = []
    _quantize.second_moments(MODEL, windows[:22], tmp_path / "several", said.append)
    assert any("pass 2 of " in text for text in said)
    monkeypatch.setattr(_quantize, "MOMENTS_BYTES", 1 << 30)
    _quantize.second_moments(MODEL, windows[:22], tmp_path / "one")
    several, one = read(tmp_path / "several"), read(tmp_path / "one")
    assert several.keys() == one.keys()
    for name, array in one.items():
        np.testing.assert_allclose(several[name], array, rtol=1e-5, atol=1e-5 * np.abs(array).max())


def test_a_pass_that_was_ended_goes_on(windows, tmp_path, monkeypatch):
    monkeypatch.setattr(_quantize, "SECONDS_BETWEEN_STATES", 0)
    some, file = windows[:63], tmp_path / "moments"

    def end(text: str) -> None:
        if "8,064" in text:  # the second of three calls
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _quantize.second_moments(MODEL, some, file, end)
    assert not file.exists()
    said = []
    _quantize.second_moments(MODEL, some, file, said.append)
    assert next(text for text in said if "tokens" in text) == "calibration: 8,064 of 12,096 tokens"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["moments"]
    _quantize.second_moments(MODEL, some, tmp_path / "whole")
    for name, array in read(tmp_path / "whole").items():
        np.testing.assert_array_equal(read(file)[name], array)
    said.clear()
    _quantize.second_moments(MODEL, some, file, said.append)
    assert said == [f"{file} was made of this model and text"]
    # Another text is not taken for this one.
    _quantize.second_moments(MODEL, some[:2], file, said.append)
    assert "calibration: 384 of 384 tokens" in said


@pytest.mark.parametrize(
    ("name", "bits"), [("int4", 4.5), ("int4-g128", 4.13), ("int8", 8.5), ("mxfp4", 4.25), ("nvfp4", 4.5), ("fp8", 8.1)]
)
def test_directories_hold_what_compressed_tensors_does(tools, tmp_path, moments, name, bits):
    output = tmp_path / "quantized"
    tools.run("intarsia-quantize", MODEL, "-o", output, f"--quantize={name}", f"--second-moments={moments}")
    tensors, original = read(output / "model.safetensors"), read(MODEL / "model.safetensors")
    config = json.loads((output / "config.json").read_text())
    quantized = config.pop("quantization_config")
    assert config == json.loads((MODEL / "config.json").read_text())
    assert quantized["quant_method"] == "compressed-tensors"
    groups = list(quantized["config_groups"].values())
    modules = [module for layer in range(6) for module in linears(layer)]
    assert sorted(groups[0]["targets"]) == sorted(modules)
    assert len(groups) == 1
    assert groups[0]["weights"]["num_bits"] == (8 if "8" in name.split("-")[0] else 4)
    stored = 0
    for module in modules:
        weight = original[f"{module}.weight"].astype(np.float32)
        error = np.sqrt(((dequantized(tensors, module) - weight) ** 2).mean() / (weight**2).mean())
        assert error < (0.2 if "4" in name.split("-")[0] else 0.05)
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


#: What rounding to nearest loses in the same formats, linears only: perplexity over that of f32 (docs/quantization.md).
NEAREST = {"int4": 2.34e-2, "int4-g128": 3.46e-2, "mxfp4": 2.67e-2, "nvfp4": 1.77e-2}


@pytest.mark.parametrize(("name", "share"), [("int4", 0.5), ("int4-g128", 0.5), ("nvfp4", 0.5), ("mxfp4", 0.67)])
def test_less_is_lost_on_other_texts(tools, tmp_path, moments, golden, name, share):
    output = tmp_path / "quantized"
    tools.run("intarsia-quantize", MODEL, "-o", output, f"--quantize={name}", f"--second-moments={moments}")
    tools.compile(output, "-o", tmp_path / "m.itx", "--kv=f32", "--quantize-activations=16")
    perplexity = intarsia.Generator(tmp_path / "m.itx").perplexity(golden["windows"])
    assert 1e-3 < perplexity / golden["perplexity"] - 1 < share * NEAREST[name]


def test_the_command(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("\n".join((MODEL / "heldout.txt").read_text().split("\n")[1500:]))
    output = tmp_path / "quantized"
    assert main(["quantize", str(MODEL), "-o", str(output), f"--calibration={text}", "--lines", "--tokens=4096"]) == 0
    said = capsys.readouterr().out
    assert "i4, f16 for 32" in said
    assert f"wrote {output}" in said
    generator = intarsia.Generator(intarsia.compile(output))
    assert generator.generate("violin (noun):", max_tokens=4)[0].text


def test_encoders(tools, minilm_dir, tmp_path):
    ids = np.random.default_rng(0).integers(1000, 20000, (40, 64))
    table = intarsia.quantize(minilm_dir, tmp_path / "quantized", "int8", ids)
    assert "i8, f16 for 32" in table
    assert "int8" not in json.dumps(json.loads((tmp_path / "quantized" / "config.json").read_text())["architectures"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--quantize=int6"], "compressed-tensors has no format for 'i6, f16 for 32'"),
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


def test_moments_of_another_model(tools, tmp_path, moments):
    tensors = {name: np.array(array) for name, array in read(moments).items()}
    name = "second_moments.model.layers.1.mlp.down_proj"

    def refused(change) -> str:
        changed = dict(tensors)
        change(changed)
        _quantize._write(tmp_path / "moments", changed, {})
        result = tools.run(
            "intarsia-quantize", MODEL, "-o", tmp_path / "quantized", f"--second-moments={tmp_path / 'moments'}",
            check=False,
        )  # fmt: skip
        assert result.returncode == 1
        assert not list((tmp_path / "quantized").glob("*"))
        return result.stderr

    assert f"has no tensor '{name}', the inputs of" in refused(lambda changed: changed.pop(name))
    assert "is F32 [3, 3], the inputs of 'model.layers.1.mlp.down_proj' are 768 features of F32" in refused(
        lambda changed: changed.__setitem__(name, np.eye(3, dtype=np.float32))
    )

    def damage(changed) -> None:
        changed[name] = changed[name].copy()
        changed[name][5, 7] = np.nan

    assert f"tensor '{name}': the moments of feature 5 are not finite" in refused(damage)


def test_weights_that_cannot_be_quantized(tools, tmp_path, moments):
    model = tmp_path / "model"
    shutil.copytree(MODEL, model)
    path = model / "model.safetensors"
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + size])["model.layers.4.mlp.up_proj.weight"]
    at = 8 + size + entry["data_offsets"][0] + 2 * (3 * 256 + 5)
    data[at : at + 2] = b"\xc0\x7f"  # NaN
    path.write_bytes(data)
    result = tools.run(
        "intarsia-quantize", model, "-o", tmp_path / "quantized", f"--second-moments={moments}", check=False
    )
    assert result.returncode == 1
    assert "tensor 'model.layers.4.mlp.up_proj.weight' has nan at [3, 5]" in result.stderr
    assert not list((tmp_path / "quantized").glob("*"))


def test_observing(tools, tmp_path):
    result = tools.run("intarsia-compile", MODEL, "-o", tmp_path / "m.itx", "--observe=no.such*", check=False)
    assert "has a name that 'no.such*' matches" in result.stderr
    result = tools.run("intarsia-compile", MODEL, "-o", tmp_path / "m.itx", "--observe=[", check=False)
    assert "'[' is no glob" in result.stderr
    result = tools.run(
        "intarsia-compile", MODEL, "-o", tmp_path / "m.itx", "--observe=*", "--quantize=int4", check=False
    )
    assert "--observe is about the model as it is" in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.txt", "short", "tokens, a window needs 512: give more text, or --window"),
        ("ids.npy", np.zeros(600, np.float32), "is float32 of rank 1, token ids are integers"),
        ("ids.npy", np.full(600, 4096), "input_ids"),
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
