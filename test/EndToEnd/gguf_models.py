# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GGUF files of Hugging Face models, written as llama.cpp's converter writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
from gguf import GGMLQuantizationType as Type
from safetensors import safe_open

ARCHITECTURES = {
    "mistral": "llama", "mixtral": "llama", "gemma3_text": "gemma3", "gpt_oss": "gpt-oss", "qwen3_moe": "qwen3moe",
}  # fmt: skip
#: The stored form of a tensor: blocks or floats, with their type.
Store = Callable[[str, np.ndarray], tuple[np.ndarray, Type]]


def stored_name(name: str, kind: str) -> str:
    """`model.layers.0.self_attn.q_proj.weight` → `blk.0.attn_q.weight`, as the package has it."""
    architecture = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[ARCHITECTURES.get(kind, kind)]
    return gguf.get_tensor_name_map(architecture, 8).get_name(name, try_suffixes=(".weight", ".bias"))


def permuted(rows: np.ndarray, heads: int) -> np.ndarray:
    """Reorder the rows of query and key of Llama as rotary embeddings of neighbours need them."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, 2, half, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    with safe_open(folder / "model.safetensors", "np") as file:
        names = file.keys()
        return {name: file.get_tensor(name) for name in names}


def tensors_of(folder: Path, config: dict) -> Iterator[tuple[str, np.ndarray]]:
    """Give the model's tensors by their names in GGUF files."""
    is_llama = ARCHITECTURES.get(config["model_type"], config["model_type"]) == "llama"
    for name, value in stacked_experts(read_tensors(folder)).items():
        if is_llama and ".q_proj." in name:
            value = permuted(value, config["num_attention_heads"])
        if is_llama and ".k_proj." in name:
            value = permuted(value, config["num_key_value_heads"])
        if config["model_type"].startswith("gemma"):
            yield from gemma_tensors(name, value, config)
            continue
        if config["model_type"] == "gpt2" and value.ndim == 2 and ".h." in name:
            value = np.ascontiguousarray(value.T)
        yield stored_name(name, config["model_type"]), value


def stacked_experts(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Stack matrices of experts that are stored one by one, and part those of gpt-oss, as the converter does."""
    result, apart = {}, {}
    for name, value in tensors.items():
        if found := re.fullmatch(r"(.*\.experts)\.(\d+)\.(.*)", name):
            apart.setdefault(f"{found[1]}.{found[3]}", {})[int(found[2])] = value
        elif ".experts.gate_up_proj" in name:
            stem, kind = (
                name.removesuffix("_bias").removesuffix("gate_up_proj"),
                "bias" if "_bias" in name else "weight",
            )
            for which, part in enumerate(("gate_proj", "up_proj")):
                columns = value[..., which::2]
                result[f"{stem}{part}.{kind}"] = columns if kind == "bias" else columns.swapaxes(1, 2)
        elif name.endswith(".experts.down_proj"):
            result[f"{name}.weight"] = value.swapaxes(1, 2)
        elif name.endswith(".experts.down_proj_bias"):
            result[f"{name.removesuffix('_bias')}.bias"] = value
        elif name.endswith(".sinks"):
            result[f"{name}.weight"] = value
        else:
            result[name] = value
    result |= {name: np.stack([of[i] for i in sorted(of)]) for name, of in apart.items()}
    return {name: np.ascontiguousarray(value) for name, value in result.items()}


def gemma_tensors(name: str, value: np.ndarray, config: dict) -> Iterator[tuple[str, np.ndarray]]:
    """Norms hold the whole scale. What files cannot say is multiplied into weights: the scale of scores where it is not
    that of a head, and that of embeddings where it is rounded to bfloat16."""
    value = value.astype(np.float32)
    if value.ndim == 1:
        value = value + np.float32(1)
    last_of_query = "q_norm" if config["model_type"] == "gemma3_text" else "q_proj"
    if last_of_query in name:
        value = value * np.float32((config["head_dim"] / config["query_pre_attn_scalar"]) ** 0.5)
    if name == "model.embed_tokens.weight" and config["dtype"] == "bfloat16":
        yield "output.weight", value
        scale = np.float32(config["hidden_size"] ** 0.5)
        value = value * (scale.astype(ml_dtypes.bfloat16).astype(np.float32) / scale)
    yield stored_name(name, config["model_type"]), value


def llama3_factors(config: dict, rope: dict) -> np.ndarray:
    dim = config["head_dim"]
    frequencies = rope["rope_theta"] ** -(np.arange(0, dim, 2) / dim)
    turns = rope["original_max_position_embeddings"] * frequencies / (2 * np.pi)
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    blend = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - blend) / factor + blend)).astype(np.float32)


def write_gpt2_settings(writer: gguf.GGUFWriter, config: dict) -> None:
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_feed_forward_length(config["n_inner"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])


def write_gemma_settings(writer: gguf.GGUFWriter, config: dict) -> None:
    if config["model_type"] == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
        return
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
    writer.add_float32("gemma3.rope.freq_base_swa", config["rope_parameters"]["sliding_attention"]["rope_theta"])


def write_settings(writer: gguf.GGUFWriter, config: dict) -> None:
    heads = config["num_attention_heads"]
    dim = config.get("head_dim") or config["hidden_size"] // heads
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    rope = rope.get("full_attention", rope)
    if config["model_type"].startswith("gemma"):
        write_gemma_settings(writer, config)
    if count := config.get("num_local_experts"):
        writer.add_expert_count(count)
        writer.add_expert_used_count(config["num_experts_per_tok"])
    if config["model_type"] != "mixtral" and count:
        writer.add_expert_feed_forward_length(config.get("moe_intermediate_size", config["intermediate_size"]))
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(dim)
    writer.add_value_length(dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_rope_freq_base(rope.get("rope_theta", config.get("rope_theta", 10000.0)))
    writer.add_rope_dimension_count(int(rope.get("partial_rotary_factor", 1.0) * dim))
    kind = rope.get("rope_type", "default")
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(rope["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "beta_fast" in rope:
            writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
    if kind == "longrope":
        original, scale = rope["original_max_position_embeddings"], config["max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(original)
        attention = (1 + np.log(scale / original) / np.log(original)) ** 0.5
        writer.add_rope_scaling_attn_factors(float(attention))
        writer.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], np.float32))
        writer.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], np.float32))
    if kind == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config, rope))
    if config.get("sliding_window") and config["model_type"] != "qwen3_moe":
        writer.add_sliding_window(config["sliding_window"])


def as_floats(kind: str) -> Store:
    """Store matrices as F32, F16 or BF16, vectors as F32."""

    def store(name: str, value: np.ndarray) -> tuple[np.ndarray, Type]:
        value = value.astype(np.float32)
        if value.ndim == 1 or kind == "F32":
            return value, Type.F32
        if kind == "F16":
            return value.astype(np.float16), Type.F16
        return value.astype(ml_dtypes.bfloat16).view(np.int16), Type.BF16

    return store


def write_gguf(folder: Path, path: Path, store: Store, tokenizer: str = "", **arguments: object) -> None:
    """Write the model of a Hugging Face directory; `tokenizer` is the kind that the file names ("none": ids are all it
    takes), `arguments` are of the writer."""
    config = json.loads((folder / "config.json").read_text())
    kind = config["model_type"]
    writer = gguf.GGUFWriter(path, ARCHITECTURES.get(kind, kind), **arguments)
    (write_gpt2_settings if kind == "gpt2" else write_settings)(writer, config)
    writer.add_eos_token_id(2)
    writer.add_bos_token_id(1)
    if tokenizer:
        writer.add_tokenizer_model(tokenizer)
    for name, value in tensors_of(folder, config):
        data, type_ = store(name, value)
        writer.add_tensor(name, data, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
