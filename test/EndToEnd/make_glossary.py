#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes goldens/glossary.npz and glossary.json: what PyTorch computes in float32 for examples/glossary.

Needs: pip install torch transformers tokenizers numpy llama-cpp-python. The tests need none of the first two and the
last.

glossary.npz: tokens int64 [prompts, longest] (padded with 0), lengths int64 [prompts], logits float32 [prompts,
longest, 4096] (zeros beyond a length), windows int64 [200, 193] of the held-out text.
glossary.json: prompts, their greedy continuations of 48 tokens, the loss of every window, the perplexity; the
perplexity with matrices and the inputs of all linears quantized as block_formats.py does, for each format of the
linears (the table in int6, of int8 in int8), and for the same format of linears and table; what llama.cpp quantizes and
computes with, on the CPU, and its perplexity.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import numpy as np
import torch
from block_formats import activation_block, quantize_activations, quantize_weight
from gguf_models import as_floats, write_gguf
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

HERE = Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "examples" / "glossary"
WINDOWS, STRIDE = 200, 192
PROMPTS = [
    "violin (noun):",
    "run (verb):",
    "compiler (noun):",
    "slowly (adverb):",
    "red, crimson (adjective): of a color at the end of the",
    "network, web (noun): an",
]


FORMATS = ["int4", "int4-g128", "int6", "int8", "mxfp4", "nvfp4"]
# llama.cpp's formats of a file, and of its table where it is not that which belongs to the former (Q6_K of Q4_0).
PEERS = {
    "Q4_0": (llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, None),
    "Q4_0, table too": (llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, llama_cpp.GGML_TYPE_Q4_0),
    "Q8_0": (llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, None),
}


def quantized_perplexity(name: str, table: str, windows: np.ndarray) -> float:
    """Perplexity with quantized weights and activations, computed in float32."""
    model = LlamaForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager").eval()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            block = activation_block(table if module is model.lm_head else name)
            module.register_forward_pre_hook(
                lambda _, inputs, block=block: torch.from_numpy(quantize_activations(inputs[0].numpy(), block))
            )
    seen = set()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2 and id(parameter) not in seen:
                seen.add(id(parameter))
                kind = table if parameter is model.model.embed_tokens.weight else name
                parameter.copy_(torch.from_numpy(quantize_weight(kind, parameter.numpy())))
        losses = []
        for part in np.split(windows, 10):
            logits = model(torch.from_numpy(part[:, :-1])).logits
            losses.append(
                torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(part[:, 1:]).flatten())
            )
    return math.exp(float(np.mean([loss.item() for loss in losses])))


def quantized(windows: np.ndarray) -> dict[str, object]:
    """Ours in PyTorch with formats of their own for the table, and with one format; llama.cpp's."""
    return {
        "quantized_perplexity": {
            name: quantized_perplexity(name, "int8" if name == "int8" else "int6", windows) for name in FORMATS
        },
        "quantized_perplexity_of_one_format": {
            name: quantized_perplexity(name, name, windows) for name in ("int4", "mxfp4", "nvfp4")
        },
        "llama_cpp_version": f"llama-cpp-python {llama_cpp.__version__}",
        "llama_cpp_perplexity": {name: llama_cpp_perplexity(*formats, windows) for name, formats in PEERS.items()},
    }


def llama_cpp_perplexity(ftype: int, table: int | None, windows: np.ndarray) -> float:
    """Perplexity of llama.cpp with what its own quantizer makes of the weights."""
    with tempfile.TemporaryDirectory() as folder:
        exact, quantized = Path(folder) / "f32.gguf", Path(folder) / "quantized.gguf"
        write_gguf(MODEL, exact, as_floats("F32"), tokenizer="none")
        quantize = llama_cpp.llama_model_quantize_default_params()
        quantize.ftype = ftype
        if table is not None:
            quantize.token_embedding_type = quantize.output_tensor_type = table
        assert llama_cpp.llama_model_quantize(bytes(exact), bytes(quantized), ctypes.byref(quantize)) == 0
        settings = llama_cpp.llama_model_default_params()
        settings.n_gpu_layers = 0
        model = llama_cpp.llama_model_load_from_file(bytes(quantized), settings)
        losses = list(llama_cpp_losses(model, windows))
        llama_cpp.llama_model_free(model)
    return math.exp(float(np.mean(losses)))


def llama_cpp_losses(model: ctypes.c_void_p, windows: np.ndarray) -> Iterator[float]:
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = 256
    settings.n_threads = settings.n_threads_batch = 1  # more wait for one another longer than such a model takes
    context = llama_cpp.llama_init_from_model(model, settings)
    batch = llama_cpp.llama_batch_init(256, 0, 1)
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    batch.n_tokens = length = windows.shape[1] - 1
    for window in windows:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        for position in range(length):
            batch.token[position], batch.pos[position] = int(window[position]), position
            batch.n_seq_id[position], batch.seq_id[position][0], batch.logits[position] = 1, 0, 1
        assert llama_cpp.llama_decode(context, batch) == 0
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), shape=(length, vocabulary))
        yield torch.nn.functional.cross_entropy(torch.from_numpy(logits), torch.from_numpy(window[1:])).item()
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)


def main() -> None:
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    end = tokenizer.token_to_id("</s>")
    model = LlamaForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager").eval()

    def logits(ids: list[int]) -> torch.Tensor:
        return model(torch.tensor([ids])).logits[0]

    prompts = [tokenizer.encode(prompt).ids for prompt in PROMPTS]
    longest = max(map(len, prompts))
    tokens = np.zeros((len(prompts), longest), np.int64)
    values = np.zeros((len(prompts), longest, model.config.vocab_size), np.float32)
    greedy = []
    with torch.no_grad():
        for row, ids in enumerate(prompts):
            tokens[row, : len(ids)] = ids
            values[row, : len(ids)] = logits(ids).numpy()
            text = list(ids)
            for _ in range(48):
                text.append(int(logits(text)[-1].argmax()))
            greedy.append(text[len(ids) :])
        lines = (MODEL / "heldout.txt").read_text().splitlines()
        stream = [token for line in lines for token in (*tokenizer.encode(line).ids, end)]
        windows = np.array([stream[i * STRIDE : i * STRIDE + STRIDE + 1] for i in range(WINDOWS)], np.int64)
        losses = [torch.nn.functional.cross_entropy(logits(list(w[:-1])), torch.tensor(w[1:])).item() for w in windows]
    lengths = np.array([len(ids) for ids in prompts])
    np.savez_compressed(HERE / "goldens/glossary.npz", tokens=tokens, lengths=lengths, logits=values, windows=windows)
    golden = {
        "perplexity": math.exp(float(np.mean(losses))),
        "window_losses": losses,
        **quantized(windows),
        "prompts": PROMPTS,
        "greedy_ids": greedy,
        "greedy_text": [tokenizer.decode(ids) for ids in greedy],
    }
    (HERE / "goldens/glossary.json").write_text(json.dumps(golden, indent=1))


if __name__ == "__main__":
    sys.exit(main())
