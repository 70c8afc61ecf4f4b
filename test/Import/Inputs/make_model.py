#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a tiny BERT directory (weights are zeros), changed or broken as the options say. Standard library only.

make_model.py DIRECTORY [--config KEY=JSON …] [--tensor NAME=DTYPE:2x3 …] [--drop NAME …] [--dtype DTYPE]
    [--offsets NAME=BEGIN:END …] [--header-length N] [--truncate BYTES] [--write FILE=TEXT …] [--remove FILE …]
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import struct
from pathlib import Path

CONFIG = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 8,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "type_vocab_size": 2,
    "vocab_size": 11,
}
BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2}


def shapes() -> dict[str, list[int]]:
    hidden, inner, layer = 8, 16, "encoder.layer.0."
    result = {
        "embeddings.word_embeddings.weight": [11, hidden],
        "embeddings.position_embeddings.weight": [12, hidden],
        "embeddings.token_type_embeddings.weight": [2, hidden],
    }
    linears = [
        (name, hidden, hidden) for name in ("attention.self.query", "attention.self.key", "attention.self.value")
    ]
    linears += [
        ("attention.output.dense", hidden, hidden),
        ("intermediate.dense", inner, hidden),
        ("output.dense", hidden, inner),
    ]
    for name, outputs, inputs in linears:
        result[f"{layer}{name}.weight"] = [outputs, inputs]
        result[f"{layer}{name}.bias"] = [outputs]
    for name in ("embeddings.LayerNorm", layer + "attention.output.LayerNorm", layer + "output.LayerNorm"):
        result[name + ".weight"] = [hidden]
        result[name + ".bias"] = [hidden]
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    for option in ("config", "tensor", "drop", "offsets", "write", "remove"):
        parser.add_argument(f"--{option}", action="append", default=[])
    parser.add_argument("--dtype", default="F32")
    parser.add_argument("--header-length", type=int)
    parser.add_argument("--truncate", type=int, default=0)
    options = parser.parse_args()

    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    config = dict(CONFIG)
    for change in options.config:
        key, value = change.split("=", 1)
        if value:
            config[key] = json.loads(value)
        else:
            del config[key]
    (options.directory / "config.json").write_text(json.dumps(config, indent=2))

    tensors = {name: (options.dtype, shape) for name, shape in shapes().items()}
    for change in options.tensor:
        name, (dtype, shape) = change.split("=")[0], change.split("=")[1].split(":")
        tensors[name] = (dtype, [int(size) for size in shape.split("x")])
    for name in options.drop:
        del tensors[name]
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + BYTES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    for change in options.offsets:
        name, offsets = change.split("=")
        header[name]["data_offsets"] = [int(offset) for offset in offsets.split(":")]
    text = json.dumps(header).encode()
    length = len(text) if options.header_length is None else options.header_length
    data = struct.pack("<Q", length) + text + bytes(end)
    (options.directory / "model.safetensors").write_bytes(data[: len(data) - options.truncate])

    for change in options.write:
        name, text = change.split("=", 1)
        path = options.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for name in options.remove:
        (options.directory / name).unlink()


if __name__ == "__main__":
    main()
