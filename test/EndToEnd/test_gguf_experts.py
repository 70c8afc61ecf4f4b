# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mixtures of experts from GGUF files, against the same values from safetensors."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf_models import as_floats, read_tensors, stacked_experts, write_gguf
from safetensors.numpy import save_file
from test_gguf import DECODERS, plain, random_weights, run, set_key, write_changed

#: Decoders with experts, with what their GGUF files cannot say otherwise.
MODELS = {
    "mixtral": {},
    "qwen3-moe-bf16": {"norm_topk_prob": True, "use_sliding_window": False},
    "gpt-oss-bf16": {"swiglu_limit": 7.0},
}


def write_settings(name: str, folder: Path, **settings: object) -> dict[str, np.ndarray]:
    """Write the configuration of a decoder for float32, and give its tensors."""
    folder.mkdir()
    config = json.loads((DECODERS / name / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float32"} | MODELS[name] | settings))
    return {key: value.astype(np.float32) for key, value in read_tensors(DECODERS / name).items()}


@pytest.mark.parametrize("name", MODELS)
def test_floats(tools, scratch, name):
    folder = scratch / name
    save_file(write_settings(name, folder), folder / "model.safetensors")
    write_gguf(folder, scratch / f"{name}.gguf", as_floats("F32"))
    ids = np.random.default_rng(6).integers(0, 99, 30)
    actual = run(scratch / f"{name}.gguf", scratch / f"{name}-g.itx", tools, ids, 20)
    expected = run(folder, scratch / f"{name}-h.itx", tools, ids, 20)
    assert np.abs(expected).max() > 0.5
    assert np.abs(actual - expected).max() <= 1e-5


def random_tensors(tensors: dict[str, np.ndarray], sizes: dict[int, int]) -> dict[str, np.ndarray]:
    """Give random tensors of the same names, sizes replaced."""
    rng = np.random.default_rng(8)
    result = {}
    for name, value in tensors.items():
        shape = tuple(sizes.get(size, size) for size in value.shape)
        result[name] = (0.1 * rng.standard_normal(shape) + ("norm" in name)).astype(np.float32)
    return result


def with_values(tensors: dict[str, np.ndarray], values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Give a model's tensors with the given ones, which are stacked over the experts, instead of their own."""
    result = {name: value.copy() for name, value in tensors.items()}
    for name, value in values.items():
        stem, part, _ = name.rsplit(".", 2)
        if f"{stem}.0.{part}.weight" in result:
            result |= {f"{stem}.{i}.{part}.weight": matrix for i, matrix in enumerate(value)}
        elif part == "down_proj":
            result[f"{stem}.down_proj"] = np.ascontiguousarray(value.swapaxes(1, 2))
        else:
            result[f"{stem}.gate_up_proj"][..., part == "up_proj" :: 2] = value.swapaxes(1, 2)
    return result


@pytest.mark.parametrize(
    ("name", "types", "ratio"),
    [
        ("mixtral", ("Q4_0", "Q8_0"), 0.6),
        ("qwen3-moe-bf16", ("Q8_0", "Q4_0"), 0.7),
        ("gpt-oss-bf16", ("MXFP4", "MXFP4"), 0.6),
        ("mixtral", ("Q5_0", "Q4_0"), 1.0),
        ("mixtral", ("Q4_0", "F16"), 0.7),
        ("mixtral", ("Q4_K", "Q6_K"), 0.6),
        ("qwen3-moe-bf16", ("Q5_K", "Q4_1"), 0.6),
    ],
)
def test_blocks_compute_as_dequantized(tools, scratch, name, types, ratio):
    """Gate and up of one type, down of another, with rows of whole blocks; what no kernel reads is decoded."""
    hidden, inner = (256, 256) if types[0].endswith("_K") else (64, 96)
    sizes = {48: hidden, 40: inner, 24: inner, 80: 2 * inner}
    folder = scratch / "-".join((name, *types))
    before = write_settings(name, folder, hidden_size=hidden, intermediate_size=inner, moe_intermediate_size=inner)
    tensors = random_tensors(before, sizes)
    stored, values, rng = {}, {}, np.random.default_rng(10)
    for key, value in stacked_experts(tensors).items():
        if value.ndim != 3:
            continue
        kind = Type[types["ffn_down" in key or "down_proj" in key or ".w2." in key]]
        if kind == Type.F16:
            data, values[key] = value.astype(np.float16), value.astype(np.float16).astype(np.float32)
        else:
            if kind.name.endswith("_K"):  # the package decodes them only
                rows = random_weights(kind.name, (value.shape[0] * value.shape[1], value.shape[2]), rng)
                data = rows.reshape(*value.shape[:2], -1)
            else:
                data = gguf.quantize(value, kind)
            values[key] = gguf.dequantize(data, kind)
        stored[value.tobytes()] = (data, kind)
    save_file(tensors, folder / "model.safetensors")
    path = folder / "m.gguf"
    write_gguf(folder, path, lambda _, value: stored.get(value.tobytes(), (value, Type.F32)))
    save_file(with_values(tensors, values), folder / "model.safetensors")
    ids = np.random.default_rng(9).integers(0, 99, 40)
    expected = run(folder, folder / "dequantized.itx", tools, ids, 30)
    assert np.abs(expected).max() > 0.5
    actual = run(path, folder / "m.itx", tools, ids, 30)
    assert np.abs(actual - expected).max() <= 1e-4 * np.abs(expected).max()
    # At their bits, but for what panels of 32 rows add and the matrices that are no experts.
    smaller = (folder / "m.safetensors").stat().st_size / (folder / "dequantized.safetensors").stat().st_size
    assert smaller < ratio
    # With activations quantized to 8 bits, as a user gets it: each is off by 0.4 % of the largest of its block. A token
    # whose router is undecided may go through another expert.
    error = np.abs(run(path, folder / "m.itx", tools, ids, 30, activations=8) - expected)
    assert 0 < np.quantile(error, 0.7) < 0.02 * np.abs(expected).max()


def test_requantized(tools, scratch):
    """Weights in other blocks are quantized to the requested format."""
    folder = scratch / "experts-again"
    tensors = random_tensors(write_settings("mixtral", folder, hidden_size=64, intermediate_size=96), {48: 64, 40: 96})
    save_file(tensors, folder / "model.safetensors")

    def store(_: str, value: np.ndarray) -> tuple[np.ndarray, Type]:
        return (gguf.quantize(value, Type.Q5_0), Type.Q5_0) if value.ndim == 3 else (value, Type.F32)

    write_gguf(folder, folder / "m.gguf", store)
    done = tools.compile(folder / "m.gguf", "-o", folder / "m.itx", "--quantize=int4", "--quantize-parts=experts")
    assert "decoded" not in done.stderr
    done = tools.run("intarsia-compile", folder / "m.gguf", "--quantize=int4", "--stop-after=lower")
    recipes = (text.split("rt.yield")[0] for text in done.stdout.split("rt.constant "))
    recipe = next(text for text in recipes if "ggml_type<q5_0>" in text)
    for op in (
        "nn.dequantize %0 {format = #nn.ggml_type<q5_0>}",
        "nn.quantize %1 {format = #nn.block_format<i4, f16, 32",
    ):
        assert op in recipe
    assert recipe.count("nn.quantize") == recipe.count("ggml_type<q5_0>") == 2  # gate and up


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        ("mixtral", lambda w: w.add_tensor("blk.0.ffn_up_shexp.weight", np.ones(1, "f4")), "'blk.0.ffn_up_shexp.weight', which"),
        ("mixtral", set_key("llama.expert_count", 4), "'blk.0.ffn_gate_inp.weight' is [5, 48], the metadata implies [4, 48] (llama.expert_count)"),
        ("mixtral", set_key("llama.expert_used_count", 6), "llama.expert_used_count is 6, llama.expert_count is 5"),
        ("mixtral", lambda w: w.kv_data[0].pop("llama.expert_used_count"), "key 'llama.expert_used_count' is missing"),
        ("mixtral", set_key("llama.expert_shared_count", 1), "key 'llama.expert_shared_count' is not supported"),
        ("mixtral", set_key("llama.expert_gating_func", 2), "key 'llama.expert_gating_func' is 2: only a softmax"),
        ("mixtral", set_key("llama.expert_weights_norm", False, gguf.GGUFValueType.BOOL), "'llama.expert_weights_norm' is false"),
        ("mixtral", set_key("llama.expert_weights_scale", 2.0, gguf.GGUFValueType.FLOAT32), "'llama.expert_weights_scale' is not supported"),
        ("gpt-oss", lambda w: w.kv_data[0].pop("gpt-oss.expert_count"), "key 'gpt-oss.expert_count' is missing"),
        ("gpt-oss", set_key("gpt-oss.expert_feed_forward_length", 41), "the metadata implies [5, 41, 48] (gpt-oss.expert_feed_forward_length)"),
    ],
)  # fmt: skip
def test_refusals(tools, scratch, model, change, message):
    write_changed(scratch / "m.gguf", change, model=model)
    done = tools.run("intarsia-compile", scratch / "m.gguf", "--stop-after=import", check=False)
    assert message in done.stderr
    assert done.returncode == 1


def test_gate_and_up_of_two_types(tools, scratch):
    def store(name: str, value: np.ndarray) -> tuple[np.ndarray, Type]:
        return (value.astype(np.float16), Type.F16) if name == "blk.0.ffn_up_exps.weight" else plain(name, value)

    write_changed(scratch / "m.gguf", lambda writer: None, store, model="mixtral")
    done = tools.run("intarsia-compile", scratch / "m.gguf", "--stop-after=import", check=False)
    assert "the experts' w1.weight and w3.weight have elements of two types" in done.stderr
