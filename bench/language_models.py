#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures language models at four bits against llama.cpp: prefill, decode, decode of several sequences.

The model is a Llama of 1.1 billion random weights (the shape of TinyLlama). llama.cpp makes its own files of it, Q4_0
and Q4_K_M. Markdown to standard output, Markdown and JSON to build/bench. On a build of `make bench`:

    pip install -r bench/requirements.txt -r bench/requirements-language-models.txt
    python bench/language_models.py [--pairs=12] [--quantize=int4] [--peers=q4_0,q4_k_m]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from harness import machine
from harness.measures import comparison_text
from harness.ratios import alternate
from harness.report import table
from harness.workers import Worker

ROOT = Path(__file__).resolve().parent.parent
SHAPE = {
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
HEAD_DIM = SHAPE["hidden_size"] // SHAPE["num_attention_heads"]
# What llama.cpp calls its formats (llama.h, enum llama_ftype).
FTYPES = {"q4_0": 2, "q8_0": 7, "q4_k_m": 15}
TASKS = {  # tokens of the prompts, sequences
    "prefill": (512, 1),
    "decode": (128, 1),
    "decode of 8": (128, 8),
}


def weights() -> dict[str, np.ndarray]:
    """Weights by the names of Hugging Face, f16: one stretch of random numbers, from another place for each."""
    rng = np.random.default_rng(1)
    numbers = (0.02 * rng.standard_normal(1 << 22, np.float32)).astype(np.float16)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return np.resize(np.roll(numbers, int(rng.integers(1 << 20))), rows * columns).reshape(rows, columns)

    hidden, wide = SHAPE["hidden_size"], SHAPE["intermediate_size"]
    small = SHAPE["num_key_value_heads"] * HEAD_DIM
    ones = np.ones(hidden, np.float16)
    tensors = {"model.embed_tokens.weight": matrix(SHAPE["vocab_size"], hidden)}
    tensors |= {"lm_head.weight": matrix(SHAPE["vocab_size"], hidden), "model.norm.weight": ones}
    for layer in range(SHAPE["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes = {"q": (hidden, hidden), "k": (small, hidden), "v": (small, hidden), "o": (hidden, hidden)}
        tensors |= {f"{at}self_attn.{name}_proj.weight": matrix(*shape) for name, shape in shapes.items()}
        shapes = {"gate": (wide, hidden), "up": (wide, hidden), "down": (hidden, wide)}
        tensors |= {f"{at}mlp.{name}_proj.weight": matrix(*shape) for name, shape in shapes.items()}
        tensors |= {f"{at}{name}_layernorm.weight": ones for name in ("input", "post_attention")}
    return tensors


def make_directory(folder: Path, tensors: dict[str, np.ndarray]) -> None:
    """Writes the model as Hugging Face does."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float16", **SHAPE}
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    save_file(tensors, folder / "model.safetensors.partial")
    (folder / "model.safetensors.partial").rename(folder / "model.safetensors")


def make_gguf(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Writes the model as llama.cpp reads it: rows of query and key in the order of its rope."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(SHAPE["hidden_size"])
    writer.add_block_count(SHAPE["num_hidden_layers"])
    writer.add_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_head_count(SHAPE["num_attention_heads"])
    writer.add_head_count_kv(SHAPE["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(SHAPE["rms_norm_eps"])
    writer.add_rope_freq_base(SHAPE["rope_theta"])
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_vocab_size(SHAPE["vocab_size"])
    writer.add_file_type(1)
    writer.add_tokenizer_model("none")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, SHAPE["num_hidden_layers"])
    for name, value in tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            value = value.reshape(-1, 2, HEAD_DIM // 2, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
        stored = names.get_name(name, (".weight",))
        writer.add_tensor(stored, value if value.ndim == 2 else value.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_models(cache: Path, peers: list[str]) -> None:
    """Makes what is missing in `cache`."""
    folder, plain = cache / "llama-1.1b", cache / "llama-1.1b-f16.gguf"
    missing = [peer for peer in peers if not (cache / f"llama-1.1b-{peer}.gguf").exists()]
    if (folder / "model.safetensors").exists() and not missing:
        return
    print("==> Making a Llama of 1.1 billion weights", file=sys.stderr, flush=True)
    tensors = weights()
    make_directory(folder, tensors)
    if missing:
        import llama_cpp

        make_gguf(plain, tensors)
        for peer in missing:
            parameters = llama_cpp.llama_model_quantize_default_params()
            parameters.ftype = FTYPES[peer]
            target = cache / f"llama-1.1b-{peer}.gguf"
            if llama_cpp.llama_model_quantize(str(plain).encode(), str(target).encode(), ctypes.byref(parameters)):
                raise RuntimeError(f"llama.cpp cannot make {target}")
        plain.unlink()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures language models against llama.cpp.")

    def listed(text: str) -> list[str]:
        return text.split(",")

    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="build folder to measure")
    parser.add_argument("--cache", type=Path, default=ROOT / "build/bench/models", help="where the models are made")
    parser.add_argument("--work", type=Path, default=ROOT / "build/bench/work", help="artifacts, logs")
    parser.add_argument("--output", type=Path, default=ROOT / "build/bench", help="folder of language_models.*")
    parser.add_argument("--quantize", default="int4", help="format of our weights")
    parser.add_argument("--peers", type=listed, default=["q4_0", "q4_k_m"], help=f"some of: {', '.join(FTYPES)}")
    parser.add_argument("--tasks", type=listed, default=list(TASKS), help=f"some of: {', '.join(TASKS)}")
    parser.add_argument("--pairs", type=int, default=12, help="pairs of rounds a ratio")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    described = machine.describe()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
    make_models(arguments.cache, arguments.peers)
    artifact = arguments.work / f"llama-1.1b-{arguments.quantize}.itx"
    artifact.parent.mkdir(parents=True, exist_ok=True)
    command = [arguments.build / "bin/intarsia-compile", arguments.cache / "llama-1.1b"]
    subprocess.run([*command, "-o", artifact, f"--quantize={arguments.quantize}"], check=True)
    environment = {"PYTHONPATH": str(arguments.build / "python")}
    rows: list[dict[str, Any]] = []
    for task in arguments.tasks:
        tokens, batch = TASKS[task]
        kind = task.split()[0]
        flags = [kind, f"--tokens={tokens}", f"--batch={batch}", f"--threads={arguments.threads}"]

        def start(name: str, engine: str, model: Path, flags: list[str] = flags, task: str = task) -> Worker:
            log = arguments.work / "log" / f"language-{task.replace(' ', '-')}-{name.replace(' ', '-')}.log"
            command = [sys.executable, ROOT / "bench/language_model_worker.py", engine, model, *flags]
            return Worker(name, command, log, arguments.threads, environment)

        for peer in arguments.peers:
            print(f"==> {task}, {peer}", file=sys.stderr, flush=True)
            with (
                start("intarsia", "intarsia", artifact) as ours,
                start(f"llama.cpp {peer}", "llama.cpp", arguments.cache / f"llama-1.1b-{peer}.gguf") as other,
            ):
                comparison = alternate(ours, [other], arguments.pairs, round_ms=400)[0]
            print("  " + comparison_text(comparison), file=sys.stderr, flush=True)
            count = batch * (tokens if kind == "prefill" else 1)
            rows.append({"task": task, "tokens": count, **comparison.to_json()})
    body = table(
        ("task", "peer", f"ours ({arguments.quantize}), tokens/s", "peer, tokens/s", "ratio"),
        [
            (
                row["task"],
                row["peer"],
                *(f"{1e3 * row['tokens'] / row[key]:.1f}" for key in ("ours_ms", "peer_ms")),
                f"{row['ratio']:.2f} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]",
            )
            for row in rows
        ],
    )
    processor = f"{described['vendor']}, family {described['family']}, model {described['model']}"
    page = f"## Language models\n\n{processor}; {arguments.threads} threads.\n\n{body}"
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "language_models.md").write_text(page)
    (arguments.output / "language_models.json").write_text(json.dumps({"machine": described, "rows": rows}, indent=1))
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
