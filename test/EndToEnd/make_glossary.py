#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes goldens/glossary.npz and glossary.json: what PyTorch computes in float32 for examples/glossary.

Needs: pip install torch transformers tokenizers numpy. The tests need none of the first two.

glossary.npz: tokens int64 [prompts, longest] (padded with 0), lengths int64 [prompts], logits float32 [prompts,
longest, 4096] (zeros beyond a length), windows int64 [200, 193] of the held-out text.
glossary.json: prompts, their greedy continuations of 48 tokens, the loss of every window, the perplexity.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
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
        "prompts": PROMPTS,
        "greedy_ids": greedy,
        "greedy_text": [tokenizer.decode(ids) for ids in greedy],
    }
    (HERE / "goldens/glossary.json").write_text(json.dumps(golden, indent=1))


if __name__ == "__main__":
    sys.exit(main())
