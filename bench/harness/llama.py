# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Llama models as files: a Hugging Face directory, and GGUF files that llama.cpp reads and makes."""

from __future__ import annotations

import ctypes
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

# The shape of TinyLlama, 1.1 billion weights.
BILLION = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "float16",
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
# Enumerators of llama.cpp's formats (llama.h, enum llama_ftype).
FTYPES = {"q4_0": 2, "q8_0": 7, "q4_k_m": 15, "tq1_0": 36, "tq2_0": 37}


@functools.cache
def load_llama_cpp() -> Any:
    """Returns the binding of llama.cpp's C interface, with its log silenced."""
    import llama_cpp

    silent = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    llama_cpp.log_callback_kept_alive = silent
    llama_cpp.llama_backend_init()
    return llama_cpp


def random_weights(config: Mapping[str, Any], seed: int = 1) -> dict[str, np.ndarray]:
    """Returns f16 weights by their Hugging Face names: one array of random values, read at different offsets."""
    rng = np.random.default_rng(seed)
    values = (0.02 * rng.standard_normal(1 << 22, np.float32)).astype(np.float16)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return np.resize(np.roll(values, int(rng.integers(1 << 20))), rows * columns).reshape(rows, columns)

    hidden, wide, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    small = config["num_key_value_heads"] * hidden // config["num_attention_heads"]
    ones = np.ones(hidden, np.float16)
    tensors = {"model.embed_tokens.weight": matrix(vocabulary, hidden)}
    tensors |= {"lm_head.weight": matrix(vocabulary, hidden), "model.norm.weight": ones}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes = {"q": (hidden, hidden), "k": (small, hidden), "v": (small, hidden), "o": (hidden, hidden)}
        tensors |= {f"{at}self_attn.{name}_proj.weight": matrix(*shape) for name, shape in shapes.items()}
        shapes = {"gate": (wide, hidden), "up": (wide, hidden), "down": (hidden, wide)}
        tensors |= {f"{at}mlp.{name}_proj.weight": matrix(*shape) for name, shape in shapes.items()}
        tensors |= {f"{at}{name}_layernorm.weight": ones for name in ("input", "post_attention")}
    return tensors


def read_config(folder: Path) -> dict[str, Any]:
    """Reads config.json, with rope_theta where older files have it."""
    config = json.loads((folder / "config.json").read_text())
    config.setdefault("rope_theta", config.get("rope_parameters", {}).get("rope_theta", 10000.0))
    return config


def write_directory(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a model as a Hugging Face directory."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(dict(tensors), folder / "model.safetensors.partial")
    (folder / "model.safetensors.partial").rename(folder / "model.safetensors")


def write_gguf(
    path: Path, config: Mapping[str, Any], tensors: Mapping[str, np.ndarray], tokenizer: Path | None = None
) -> None:
    """Writes a model for llama.cpp: rows of query and key in the order of its rope, vectors in f32.

    `tokenizer` is the tokenizer.json of a byte-level BPE; without it the model takes token ids only.
    """
    import gguf

    head_dim = config["hidden_size"] // config["num_attention_heads"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(head_dim)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(int(next(iter(tensors.values())).dtype == np.float16))
    if tokenizer:
        _write_tokenizer(writer, config, json.loads(tokenizer.read_text()))
    else:
        writer.add_tokenizer_model("none")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for name, value in tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            value = value.reshape(-1, 2, head_dim // 2, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
        stored = names.get_name(name, (".weight",))
        writer.add_tensor(stored, value if value.ndim == 2 else value.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_tokenizer(writer: Any, config: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> None:
    import gguf

    special = {entry["id"] for entry in tokenizer["added_tokens"] if entry["special"]}
    ids = {index: text for text, index in tokenizer["model"]["vocab"].items()}
    kinds = [gguf.TokenType.CONTROL if index in special else gguf.TokenType.NORMAL for index in range(len(ids))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([ids[index] for index in range(len(ids))])
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)


def quantize_gguf(source: Path, target: Path, format: str) -> None:
    """Quantizes a GGUF file with llama.cpp."""
    llama_cpp = load_llama_cpp()
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = FTYPES[format]
    partial = target.with_name(f"{target.name}.partial")
    if llama_cpp.llama_model_quantize(str(source).encode(), str(partial).encode(), ctypes.byref(parameters)):
        raise RuntimeError(f"llama.cpp cannot make {target}")
    partial.rename(target)
