#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes models/NAME and goldens/NAME.npz: small models with random weights, and what PyTorch computes for them.

Needs: pip install torch transformers sentence-transformers safetensors numpy. The tests need none of these: what this
script writes is committed. Every model differs from the others in a setting that an importer can get wrong.

goldens/NAME.npz holds the inputs by their Hugging Face names (input_ids, attention_mask, token_type_ids int64
[batch, sequence]; pixel_values float32 [batch, channels, height, width]) and the outputs (last_hidden_state,
pooler_output, logits, sentence_embedding float32). Padded positions of token outputs mean nothing.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import Pooling

HERE = Path(__file__).resolve().parent
SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
}
SMALL_DISTILBERT = {
    "vocab_size": 99,
    "dim": 32,
    "n_layers": 1,
    "n_heads": 4,
    "hidden_dim": 64,
    "max_position_embeddings": 40,
}
SMALL_VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 12,
    "patch_size": 4,
}
LENGTHS = (17, 9, 1)


def randomize(model: torch.nn.Module, seed: int) -> None:
    """Weights that make attention uneven and biases and scales matter, unlike those of initializer_range."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_scale = parameter.ndim == 1 and name.endswith("weight")
            if is_scale:
                parameter.copy_(1 + 0.2 * noise)
            elif parameter.ndim == 1:
                parameter.copy_(0.2 * noise)
            else:
                # Logits of a masked language model are dot products with the embeddings: larger ones cost digits.
                fan_in = 16 if "embedding" in name else parameter[0].numel()
                parameter.copy_(1.5 * noise / fan_in**0.5)


def tokens(config: transformers.PretrainedConfig, seed: int) -> dict[str, np.ndarray]:
    """A ragged batch, padded on the right."""
    random = np.random.default_rng(seed)
    shape = (len(LENGTHS), max(LENGTHS))
    padding = config.pad_token_id or 0
    ids = random.integers(5, config.vocab_size, shape)
    mask = (np.arange(shape[1]) < np.array(LENGTHS)[:, None]).astype(np.int64)
    inputs = {"input_ids": np.where(mask == 1, ids, padding).astype(np.int64), "attention_mask": mask}
    types = getattr(config, "type_vocab_size", 0)
    if types > 0:
        inputs["token_type_ids"] = random.integers(0, types, shape).astype(np.int64)
    return inputs


def images(config: transformers.ViTConfig, seed: int) -> dict[str, np.ndarray]:
    size = config.image_size
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    random = np.random.default_rng(seed)
    return {"pixel_values": random.normal(0, 1, (2, config.num_channels, height, width)).astype(np.float32)}


def run(model: torch.nn.Module, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with torch.no_grad():
        result = model(**{name: torch.from_numpy(value) for name, value in inputs.items()})
    names = ("last_hidden_state", "pooler_output", "logits")
    return {name: result[name].numpy() for name in names if name in result and result[name] is not None}


def write(
    name: str,
    model: transformers.PreTrainedModel,
    seed: int,
    finish: Callable[[Path, dict[str, np.ndarray], dict[str, np.ndarray]], None] | None = None,
    **save: Any,
) -> None:
    """Saves the model and its golden. `finish` may change the saved directory and add outputs."""
    randomize(model, seed)
    model.eval()
    folder = HERE / "models" / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **save)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = model.config
    inputs = images(config, seed) if config.model_type == "vit" else tokens(config, seed)
    outputs = run(model, inputs)
    if finish:
        finish(folder, inputs, outputs)
    (HERE / "goldens").mkdir(exist_ok=True)
    np.savez_compressed(HERE / "goldens" / f"{name}.npz", **inputs, **outputs)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{name}: {size / 1024:.0f} KB, " + ", ".join(f"{k} {v.shape}" for k, v in outputs.items()), file=sys.stderr)


def rename_weights(rename: Callable[[str], str]) -> Callable[..., None]:
    """The names that older checkpoints have for the same weights."""

    def finish(folder: Path, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> None:
        path = folder / "model.safetensors"
        save_file({rename(key): value for key, value in load_file(path).items()}, path, metadata={"format": "pt"})

    return finish


def sentence_pipeline(modules: list[torch.nn.Module], seed: int) -> Callable[..., None]:
    """Adds modules.json, the modules' settings and weights, and their result sentence_embedding."""

    def finish(folder: Path, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> None:
        entries = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
        features = {
            "token_embeddings": torch.from_numpy(outputs["last_hidden_state"]),
            "attention_mask": torch.from_numpy(inputs["attention_mask"]),
        }
        for index, module in enumerate(modules, start=1):
            kind = type(module).__name__
            path = f"{index}_{kind}"
            randomize(module, seed + index)
            if kind != "Normalize":
                (folder / path).mkdir()
                module.save(str(folder / path))
            entries.append(
                {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
            )
            with torch.no_grad():
                features = module(features)
        (folder / "modules.json").write_text(json.dumps(entries, indent=2) + "\n")
        settings = {"max_seq_length": 32, "do_lower_case": False}
        (folder / "sentence_bert_config.json").write_text(json.dumps(settings, indent=2) + "\n")
        outputs["sentence_embedding"] = features["sentence_embedding"].numpy()

    return finish


def old_pooling_config(modes: list[str], finish: Callable[..., None]) -> Callable[..., None]:
    """Writes the pooling settings as flags, as sentence-transformers did before version 5.5."""

    def both(folder: Path, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> None:
        finish(folder, inputs, outputs)
        flags = {"word_embedding_dimension": SMALL["hidden_size"]}
        for mode in (
            "cls_token",
            "mean_tokens",
            "max_tokens",
            "mean_sqrt_len_tokens",
            "weightedmean_tokens",
            "lasttoken",
        ):
            flags[f"pooling_mode_{mode}"] = mode in modes
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(flags, indent=2) + "\n")

    return both


def main() -> None:
    t = transformers
    labels = {0: "negative", 1: "neutral", 2: "positive"}
    tags = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}

    write("bert", t.BertModel(t.BertConfig(**{**SMALL, "num_hidden_layers": 2})), 1, max_shard_size="60KB")
    write(
        "bert-sequence-classification",
        t.BertForSequenceClassification(t.BertConfig(**SMALL, hidden_act="relu", id2label=labels)),
        2,
    )
    write(
        "bert-token-classification",
        t.BertForTokenClassification(t.BertConfig(**SMALL, hidden_act="gelu_new", id2label=tags)),
        3,
    )
    old_names = rename_weights(
        lambda key: key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
    )
    write("bert-masked-lm", t.BertForMaskedLM(t.BertConfig(**SMALL, layer_norm_eps=1e-3)), 4, old_names)

    roberta = {**SMALL, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    write("roberta", t.RobertaModel(t.RobertaConfig(**{**roberta, "num_hidden_layers": 2})), 5)
    write(
        "roberta-sequence-classification",
        t.RobertaForSequenceClassification(t.RobertaConfig(**roberta, pad_token_id=3, id2label=labels)),
        6,
    )
    write("roberta-token-classification", t.RobertaForTokenClassification(t.RobertaConfig(**roberta, id2label=tags)), 7)
    write("roberta-masked-lm", t.RobertaForMaskedLM(t.RobertaConfig(**roberta, hidden_act="silu")), 8)

    write(
        "xlm-roberta",
        t.XLMRobertaModel(t.XLMRobertaConfig(**roberta), add_pooling_layer=False),
        9,
    )
    write(
        "xlm-roberta-sequence-classification",
        t.XLMRobertaForSequenceClassification(t.XLMRobertaConfig(**roberta, id2label=labels)),
        10,
    )
    write(
        "xlm-roberta-token-classification",
        t.XLMRobertaForTokenClassification(t.XLMRobertaConfig(**roberta, id2label=tags)),
        11,
    )
    write(
        "xlm-roberta-masked-lm",
        t.XLMRobertaForMaskedLM(t.XLMRobertaConfig(**roberta, tie_word_embeddings=False)),
        12,
    )

    distilbert = SMALL_DISTILBERT
    write(
        "distilbert",
        t.DistilBertModel(t.DistilBertConfig(**{**distilbert, "n_layers": 2}, sinusoidal_pos_embds=True)),
        13,
    )
    write(
        "distilbert-sequence-classification",
        t.DistilBertForSequenceClassification(
            t.DistilBertConfig(**distilbert, id2label={0: "NEGATIVE", 1: "POSITIVE"})
        ),
        14,
    )
    write(
        "distilbert-token-classification",
        t.DistilBertForTokenClassification(t.DistilBertConfig(**distilbert, activation="relu", id2label=tags)),
        15,
    )
    write("distilbert-masked-lm", t.DistilBertForMaskedLM(t.DistilBertConfig(**distilbert)), 16)

    write("vit", t.ViTModel(t.ViTConfig(**{**SMALL_VIT, "num_hidden_layers": 2})), 17)
    write(
        "vit-image-classification",
        t.ViTForImageClassification(
            t.ViTConfig(
                **{**SMALL_VIT, "image_size": [12, 8], "patch_size": [4, 2]},
                qkv_bias=False,
                num_channels=1,
                id2label=labels,
            )
        ),
        18,
    )
    new_names = {
        "encoder.layer.": "layers.",
        "attention.attention.query": "attention.q_proj",
        "attention.attention.key": "attention.k_proj",
        "attention.attention.value": "attention.v_proj",
        "attention.output.dense": "attention.o_proj",
        "intermediate.dense": "mlp.fc1",
        "output.dense": "mlp.fc2",
    }

    def modern(key: str) -> str:
        for old, new in new_names.items():
            key = key.replace(old, new)
        return key

    write(
        "vit-new-names",
        t.ViTModel(t.ViTConfig(**SMALL_VIT, hidden_act="quick_gelu", pooler_act="relu", pooler_output_size=24)),
        19,
        rename_weights(modern),
    )

    width = SMALL["hidden_size"]
    write(
        "sentence-mean",
        t.BertModel(t.BertConfig(**SMALL), add_pooling_layer=False),
        20,
        old_pooling_config(["mean_tokens"], sentence_pipeline([Pooling(width, "mean"), Normalize()], 20)),
    )
    write(
        "sentence-all-poolings",
        t.DistilBertModel(t.DistilBertConfig(**distilbert)),
        21,
        sentence_pipeline(
            [
                Pooling(width, ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")),
                Dense(6 * width, 16),
                Dense(16, 24, bias=False, activation_function=torch.nn.Identity(), use_residual=True),
                Normalize(),
            ],
            21,
        ),
    )


if __name__ == "__main__":
    main()
