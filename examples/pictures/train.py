#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains the two models of this folder on pictures that drawing.py makes, in a few minutes on a CPU.

    train.py [classifier] [segmenter]

Needs: pip install torch transformers numpy. The demo does not: the weights are committed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from drawing import KINDS, SIZE, draw, pixel_values

HERE = Path(__file__).resolve().parent
BATCH = 32


def examples(random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a batch of new pictures, their largest kinds and their masks."""
    scenes = [draw(random) for _ in range(BATCH)]
    pictures = np.stack([scene.picture for scene in scenes])
    largest = torch.tensor([scene.largest for scene in scenes])
    return torch.from_numpy(pixel_values(pictures)), largest, torch.from_numpy(np.stack([s.mask for s in scenes]))


def make(name: str) -> transformers.PreTrainedModel:
    """Return an untrained model."""
    if name == "classifier":
        labels = {"id2label": dict(enumerate(KINDS))}
        sizes = {"embedding_size": 16, "hidden_sizes": [16, 32, 64, 96], "depths": [1, 1, 1, 1]}
        config = transformers.ResNetConfig(**sizes, layer_type="basic", image_size=SIZE, **labels)
        return transformers.ResNetForImageClassification(config)
    labels = {"id2label": dict(enumerate(("ground", *KINDS)))}
    sizes = {"hidden_sizes": [24, 40, 64, 96], "depths": [1, 1, 2, 2], "num_attention_heads": [1, 2, 4, 6]}
    config = transformers.SegformerConfig(
        **sizes, mlp_ratios=[2] * 4, decoder_hidden_size=64, drop_path_rate=0.0, classifier_dropout_prob=0.0, **labels
    )
    return transformers.SegformerForSemanticSegmentation(config)


def train(name: str, steps: int) -> None:
    """Train a model and write its directory."""
    torch.manual_seed(0)
    random, model = np.random.default_rng(0), make(name).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps)
    started = time.perf_counter()
    for step in range(steps):
        pixels, largest, masks = examples(random)
        loss = model(pixels, labels=largest if name == "classifier" else masks).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 49:
            print(f"{name}: step {step + 1}, loss {loss.item():.3f}, {time.perf_counter() - started:.0f} s", flush=True)
    model.eval().save_pretrained(HERE / name)


def main() -> None:
    """Train the models that are named, or both."""
    for name, steps in (("classifier", 1000), ("segmenter", 2000)):
        if not sys.argv[1:] or name in sys.argv[1:]:
            train(name, steps)


if __name__ == "__main__":
    main()
