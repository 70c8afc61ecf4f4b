#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes goldens/glossary.npz and glossary.json: what PyTorch computes in float32 for examples/glossary.

Needs: pip install torch transformers tokenizers numpy. The tests need none of the first two.

glossary.npz: tokens int64 [prompts, longest] (padded with 0), lengths int64 [prompts], logits float32 [prompts,
longest, 4096] (zeros beyond a length), windows int64 [200, 193] of the held-out text.
glossary.json: prompts, their greedy continuations of 48 tokens, the loss of every window, the perplexity; the
perplexity with all matrices and the inputs of all linears rounded as block_formats.py does, for each format.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from block_formats import round_activations, round_weight
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


FORMATS = ["int4", "int4-g128", "int8", "mxfp4", "nvfp4"]


def rounded_perplexity(name: str, windows: np.ndarray) -> float:
    """Perplexity with rounded weights and activations, computed in float32."""
    model = LlamaForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager").eval()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda _, inputs: torch.from_numpy(round_activations(inputs[0].numpy())))
    seen = set()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2 and id(parameter) not in seen:
                seen.add(id(parameter))
                parameter.copy_(torch.from_numpy(round_weight(name, parameter.numpy())))
        losses = []
        for part in np.split(windows, 10):
            logits = model(torch.from_numpy(part[:, :-1])).logits
            losses.append(
                torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(part[:, 1:]).flatten())
            )
    return math.exp(float(np.mean([loss.item() for loss in losses])))


def main() -> None:
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    begin, end = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
    model = LlamaForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager").eval()

    def logits(ids: list[int]) -> torch.Tensor:
        return model(torch.tensor([ids])).logits[0]

    prompts = [[begin, *tokenizer.encode(prompt).ids] for prompt in PROMPTS]
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
        stream = [token for line in lines for token in (begin, *tokenizer.encode(line).ids, end)]
        windows = np.array([stream[i * STRIDE : i * STRIDE + STRIDE + 1] for i in range(WINDOWS)], np.int64)
        losses = [torch.nn.functional.cross_entropy(logits(list(w[:-1])), torch.tensor(w[1:])).item() for w in windows]
    lengths = np.array([len(ids) for ids in prompts])
    np.savez_compressed(HERE / "goldens/glossary.npz", tokens=tokens, lengths=lengths, logits=values, windows=windows)
    golden = {
        "perplexity": math.exp(float(np.mean(losses))),
        "window_losses": losses,
        "rounded_perplexity": {name: rounded_perplexity(name, windows) for name in FORMATS},
        "prompts": PROMPTS,
        "greedy_ids": greedy,
        "greedy_text": [tokenizer.decode(ids) for ids in greedy],
    }
    (HERE / "goldens/glossary.json").write_text(json.dumps(golden, indent=1))


if __name__ == "__main__":
    sys.exit(main())
