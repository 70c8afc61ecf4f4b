# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rotate what the layers of a language model pass on, without changing what it computes.

The residual stream is multiplied by an orthogonal matrix that every layer undoes, and so are values between the two
linears around attention (R1 and R2 of QuaRot, arXiv 2404.00456, and SpinQuant, arXiv 2405.16406). Hadamard matrices
spread features that are far larger than others, so that blocks of weights have fewer outliers. Both are folded into
weights: the model has the same ops before and after.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..support.checks import read_json, whole_number
from ..support.errors import InvalidArgumentError
from ..support.work import OWN_FILES, WorkFolder
from .safetensors import ModelWeights, write_tensors

#: The file of a rotated model that says what was rotated.
FILE = "rotation.json"
#: What can be rotated.
KINDS = ("residual", "values")
#: Values of model_type whose layers are those of Llama: norms by the root of the mean square with one weight a feature,
#: directly before linears, and nothing else on the residual stream.
MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")

_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")
#: The linears of a layer that read the residual stream, each with the norm before it, and those that add to it.
_READS = {
    "self_attn.q_proj": "input_layernorm",
    "self_attn.k_proj": "input_layernorm",
    "self_attn.v_proj": "input_layernorm",
    "mlp.gate_proj": "post_attention_layernorm",
    "mlp.up_proj": "post_attention_layernorm",
}
_ADDS = ("self_attn.o_proj", "mlp.down_proj")
_NORMS = ("input_layernorm", "post_attention_layernorm")


def multiply_hadamard(values: np.ndarray, size: int, signs: np.ndarray | None = None) -> np.ndarray:
    """Return values [..., features] times an orthogonal matrix: signs, then a Hadamard matrix for each `size` features.

    `size` is a power of two that divides the features. The Hadamard matrix is Sylvester's, divided by the root of its
    size, and so its own inverse.
    """
    result = np.asarray(values, np.float64)
    if signs is not None:
        result = result * signs
    shape = result.shape
    step = 1
    while step < size:
        pairs = result.reshape(*shape[:-1], -1, 2, step)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        result = np.stack([first + second, first - second], -2).reshape(shape)
        step *= 2
    return result / np.sqrt(size)


def power_of_two(features: int) -> int:
    """Return the largest power of two that divides a number."""
    return features & -features


class _Rotation:
    """What becomes of each tensor of a model."""

    def __init__(self, model: Path, kinds: Sequence[str], seed: int) -> None:
        config = read_json(model / "config.json")
        if config.get("model_type") not in MODEL_TYPES:
            raise InvalidArgumentError(
                f"{model}: models of type '{config.get('model_type')}' cannot be rotated, only "
                f"{', '.join(MODEL_TYPES)}: leave --rotate out",
                "invalid argument",
            )
        if config.get("quantization_config"):
            raise InvalidArgumentError(
                f"{model}: is quantized already (quantization_config); rotate the model that it was made of",
                "invalid argument",
            )
        self.config = config
        self.weights = ModelWeights(model)
        self.is_tied = bool(config.get("tie_word_embeddings")) and "lm_head.weight" not in self.weights.names
        self.residual, self.values = (kind in kinds for kind in KINDS)

        def size(name: str) -> int:
            return whole_number(f"{model / 'config.json'}: {name}", config.get(name), 1)

        features = size("hidden_size")
        self.block = power_of_two(features)
        self.signs = np.random.default_rng(seed).choice([-1.0, 1.0], features)
        self.head = size("head_dim") if config.get("head_dim") else features // size("num_attention_heads")
        self.head_block = power_of_two(self.head)

    def read(self, name: str) -> np.ndarray:
        return self.weights.read(name, "f32")

    def columns(self, weight: np.ndarray) -> np.ndarray:
        """Return a weight [outputs, features] that reads the rotated stream."""
        return multiply_hadamard(weight, self.block, self.signs)

    def rows(self, weight: np.ndarray) -> np.ndarray:
        """Return a weight [features, inputs] or a bias [features] that adds to the rotated stream."""
        return multiply_hadamard(weight.T, self.block, self.signs).T

    def heads(self, rows: np.ndarray) -> np.ndarray:
        """Return rows [heads * features, …], each head's features rotated."""
        parts = rows.reshape(-1, self.head, *rows.shape[1:])
        return np.moveaxis(multiply_hadamard(np.moveaxis(parts, 1, -1), self.head_block), -1, 1).reshape(rows.shape)

    def of_layer(self, layer: str, module: str, kind: str, tensor: np.ndarray) -> np.ndarray:
        """Return what a tensor of a layer becomes."""
        if self.residual and module in _NORMS:
            return np.ones_like(tensor)
        result = np.asarray(tensor, np.float64)
        if self.residual and kind == "weight" and module in _READS:
            result = self.columns(result * self.read(f"model.layers.{layer}.{_READS[module]}.weight"))
        if self.values and module == "self_attn.v_proj":
            result = self.heads(result)
        if self.values and kind == "weight" and module == "self_attn.o_proj":
            result = self.heads(result.T).T
        if self.residual and module in _ADDS:
            result = self.rows(result)
        return result

    def of_model(self, name: str) -> np.ndarray:
        """Return what a tensor becomes."""
        tensor = self.read(name)
        if found := _LAYER.fullmatch(name):
            return self.of_layer(*found.groups(), tensor)
        if not self.residual:
            return tensor
        if name == "model.norm.weight":
            return np.ones_like(tensor)
        if name == "lm_head.weight":
            return self.head_of(tensor)
        if name == "model.embed_tokens.weight":
            return self.columns(tensor)
        return tensor

    def head_of(self, weight: np.ndarray) -> np.ndarray:
        return self.columns(weight * self.read("model.norm.weight"))


def rotate(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    kinds: Sequence[str] = KINDS,
    *,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> None:
    """Write a model directory that computes what another one does, with rotated weights in f32.

    Parameters
    ----------
    model, output : path
        Hugging Face directories. What an earlier call made of the same model stays as it is. Norms get weights of
        one, and an embedding that is the head too becomes two matrices.
    kinds : sequence of str
        ``"residual"`` and ``"values"``: what is rotated.
    seed : int
        Of the signs of the residual stream's features.

    Raises
    ------
    InvalidArgumentError
        The model has other layers than Llama's, is quantized, a kind is not known, or the folder has other files.
    """
    with WorkFolder(output, model=Path(model)) as folder:
        rotate_into(Path(model), folder, kinds, "rotate", seed=seed, progress=progress)


def rotate_into(
    model: Path,
    output: WorkFolder,
    kinds: Sequence[str],
    owner: str,
    *,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> None:
    """Write a rotated model into a folder that marks what was written, and for whose run; see `rotate`."""
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise InvalidArgumentError(
            f"'{unknown[0]}' is nothing to rotate: {' and '.join(KINDS)} are", "invalid argument"
        )
    rotation = _Rotation(model, kinds, seed)
    settings = {"rotated": list(kinds), "seed": seed, "model": _digest(model)}
    if output.begin(owner, json.dumps(settings)) and output.state.get("complete"):
        return
    parts: dict[str, list[str]] = {}
    for name in sorted(rotation.weights.names):
        found = _LAYER.fullmatch(name)
        parts.setdefault(f"layer-{int(found[1]):05}" if found else "others", []).append(name)
    index: dict[str, str] = {}
    for number, (part, names) in enumerate(parts.items()):
        tensors = {name: np.ascontiguousarray(rotation.of_model(name), np.float32) for name in names}
        if part == "others" and rotation.residual and rotation.is_tied:
            table = rotation.read("model.embed_tokens.weight")
            tensors["lm_head.weight"] = np.ascontiguousarray(rotation.head_of(table), np.float32)
        write_tensors(output.file(f"{part}.safetensors"), tensors)
        output.keep(f"{part}.safetensors")
        index |= dict.fromkeys(tensors, f"{part}.safetensors")
        progress(f"rotating, {100 * (number + 1) // len(parts)} %")
    config = rotation.config
    config["tie_word_embeddings"] = rotation.is_tied and not rotation.residual
    for name in ("dtype", "torch_dtype"):
        if name in config:
            config[name] = "float32"
    written = ("config.json", FILE, *OWN_FILES)
    for file in sorted(model.iterdir()):
        if file.name in written or file.suffix == ".safetensors" or file.name.endswith(".index.json"):
            continue
        if file.is_file():
            shutil.copyfile(file, output.file(file.name))
            output.keep(file.name)
    index_file = "model.safetensors.index.json"
    texts = {index_file: {"metadata": {}, "weight_map": index}, "config.json": config, FILE: settings}
    for name, value in texts.items():
        output.file(name).write_text(json.dumps(value, indent=2) + "\n")
        output.keep(name)
    output.state["complete"] = True
    output.save()


def _digest(model: Path) -> str:
    """Return a hash of the settings of a model, and of the sizes and times of its weights."""
    digest = hashlib.sha256((model / "config.json").read_bytes())
    for file in sorted(model.glob("*.safetensors")):
        state = file.stat()
        digest.update(f"{file.name}:{state.st_size}:{state.st_mtime_ns};".encode())
    return digest.hexdigest()
