# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs models with transformers, and says for each how its results compare with those of Intarsia.

Standard input: a line "MODEL RESULTS.npz" for each. Standard output: a line for each: "agree", "differ FIGURE", "refused"
(transformers refuses the model, or lacks weights of it) or "not finite" (in transformers). Needs torch and transformers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

#: Of the largest result. float32 alone differs by 1e-5 in damaged models, whose weights may be large.
TOLERANCE = 1e-3


def run(folder: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    config = json.loads((folder / "config.json").read_text())
    kind = getattr(transformers, config["architectures"][0])
    model, loading = kind.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    if loading["missing_keys"] or loading["mismatched_keys"]:
        raise ValueError("weights are missing")
    # Weights are computed with in float32, but constants of the model are rounded as the weights are.
    scale = getattr(model.get_input_embeddings(), "embed_scale", None)
    if scale is not None:
        scale.copy_(scale.to(getattr(torch, config.get("dtype") or config.get("torch_dtype") or "float32")))
    with torch.no_grad():
        result = model.eval()(**{name: torch.from_numpy(value) for name, value in inputs.items()})
    return {name: result[name].numpy() for name in result if isinstance(result[name], torch.Tensor)}


def compare(folder: Path, results: Path) -> str:
    with np.load(results) as file:
        ours = dict(file)
    names = ("input_ids", "attention_mask", "token_type_ids", "pixel_values")
    try:
        theirs = run(folder, {name: value for name, value in ours.items() if name in names})
    except Exception as error:  # whatever transformers comes across
        print(f"{folder}: {type(error).__name__}: {error}", file=sys.stderr)
        return "refused"
    worst = 0.0
    for name in ours.keys() & theirs.keys() - set(names):
        if ours[name].shape != theirs[name].shape:
            return f"differ {name} {ours[name].shape} {theirs[name].shape}"
        if not np.isfinite(theirs[name]).all():
            return "not finite"
        if not np.isfinite(ours[name]).all():
            return f"differ {name}: finite in transformers only"
        scale = max(1.0, float(np.abs(theirs[name]).max(initial=0)))
        worst = max(worst, float(np.abs(ours[name] - theirs[name]).max(initial=0)) / scale)
    return "agree" if worst <= TOLERANCE else f"differ {worst:.2e}"


def main() -> None:
    transformers.logging.set_verbosity_error()
    for line in sys.stdin:
        folder, results = line.split()
        print(compare(Path(folder), Path(results)), flush=True)


if __name__ == "__main__":
    main()
