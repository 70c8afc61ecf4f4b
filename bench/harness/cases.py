# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measured models and inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Input:
    """One input; `values` is the kind of its values: "tokens", "ones" or "normal"."""

    name: str
    dtype: str
    values: str


@dataclass(frozen=True)
class Model:
    """A model: its inputs, the names of their leading dimensions ([batch, sequence], [batch]), its shape."""

    key: str
    title: str
    inputs: tuple[Input, ...]
    sizes: tuple[str, ...]
    layers: int
    hidden: int
    intermediate: int
    feature_shape: tuple[int, ...] = ()
    patches: int = 0
    vocabulary: int = 30522


@dataclass(frozen=True)
class Case:
    """A model at given sizes; with `in_bar` it counts for the geometric mean."""

    key: str
    title: str
    model: str
    sizes: tuple[int, ...]
    in_bar: bool = True


TEXT_INPUTS = (Input("input_ids", "int64", "tokens"), Input("attention_mask", "int64", "ones"))
MODELS = {
    model.key: model
    for model in (
        Model("minilm", "MiniLM-L6-v2", TEXT_INPUTS, ("batch", "sequence"), 6, 384, 1536),
        Model("bert", "BERT-base (random weights)", TEXT_INPUTS, ("batch", "sequence"), 12, 768, 3072),
        Model(
            "vit",
            "ViT-base/16 (random weights)",
            (Input("pixel_values", "float32", "normal"),),
            ("batch",),
            12,
            768,
            3072,
            (3, 224, 224),
            patches=196,
        ),
    )
}
CASES = {
    case.key: case
    for case in (
        Case("minilm-1x128", "MiniLM 1×128", "minilm", (1, 128)),
        Case("minilm-8x128", "MiniLM 8×128", "minilm", (8, 128)),
        Case("bert-1x128", "BERT-base 1×128", "bert", (1, 128)),
        Case("vit-1", "ViT-base 1×3×224×224", "vit", (1,), in_bar=False),
    )
}


def flops(case: Case) -> int:
    """Returns twice the multiply-adds of the case's matrix multiplications, the least work for the FMA units."""
    model = MODELS[case.model]
    batch = case.sizes[0]
    tokens = model.patches + 1 if model.patches else case.sizes[1]
    linears = 2 * tokens * (4 * model.hidden**2 + 2 * model.hidden * model.intermediate)
    attention = 4 * tokens**2 * model.hidden
    embedding = 2 * model.hidden * math.prod(model.feature_shape) if model.patches else 0
    return batch * (model.layers * (linears + attention) + embedding)


def make_inputs(case: Case) -> dict[str, np.ndarray]:
    """Returns the arrays of a case, the same in every process."""
    model = MODELS[case.model]
    generator = np.random.default_rng(0)
    shape = (*case.sizes, *model.feature_shape)
    result: dict[str, np.ndarray] = {}
    for entry in model.inputs:
        if entry.values == "tokens":
            array = generator.integers(1000, model.vocabulary, shape)
        elif entry.values == "ones":
            array = np.ones(shape)
        else:
            array = generator.standard_normal(shape)
        result[entry.name] = array.astype(entry.dtype)
    return result


def model_directory(cache: Path, model: str) -> Path:
    """Returns the Hugging Face directory of a model."""
    return cache / model


def onnx_file(cache: Path, model: str) -> Path:
    return cache / f"{model}.onnx"


def quantized_file(cache: Path, model: str, kind: str) -> Path:
    """Returns a model that make_quantized_models.py makes for a peer: ONNX, or OpenVINO's own format."""
    return cache / f"{model}.{kind}.{'xml' if kind.startswith('openvino') else 'onnx'}"
