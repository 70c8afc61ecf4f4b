# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights are streamed: an archive whose sizes have more than 32 bits is compiled in megabytes of memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

GIGABYTE = 10**9
ARCHIVE_BYTES = 45 * GIGABYTE // 10
assert ARCHIVE_BYTES > 2**32
# Anonymous resident memory of the compiler, which has 25 MB; mapped files do not count.
LIMIT_BYTES = 250 * 10**6

HIDDEN, INTERMEDIATE, VOCABULARY = 4096, 16384, 32000


def layer_tensors(index: int) -> dict[str, list[int]]:
    prefix = f"encoder.layer.{index}."
    shapes = {}
    for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        shapes[f"{prefix}{name}.weight"] = [HIDDEN, HIDDEN]
        shapes[f"{prefix}{name}.bias"] = [HIDDEN]
    shapes[f"{prefix}intermediate.dense.weight"] = [INTERMEDIATE, HIDDEN]
    shapes[f"{prefix}intermediate.dense.bias"] = [INTERMEDIATE]
    shapes[f"{prefix}output.dense.weight"] = [HIDDEN, INTERMEDIATE]
    shapes[f"{prefix}output.dense.bias"] = [HIDDEN]
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        shapes[f"{prefix}{name}.weight"] = [HIDDEN]
        shapes[f"{prefix}{name}.bias"] = [HIDDEN]
    return shapes


def write_sparse_model(folder: Path) -> int:
    """Write a BERT directory whose archive is a hole of ARCHIVE_BYTES or a little more; return its layers."""
    shapes = {
        "embeddings.word_embeddings.weight": [VOCABULARY, HIDDEN],
        "embeddings.position_embeddings.weight": [512, HIDDEN],
        "embeddings.token_type_embeddings.weight": [2, HIDDEN],
        "embeddings.LayerNorm.weight": [HIDDEN],
        "embeddings.LayerNorm.bias": [HIDDEN],
    }
    header, offset, layers = {}, 0, 0
    while True:
        for name, shape in shapes.items():
            count = 4
            for size in shape:
                count *= size
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + count]}
            offset += count
        if offset >= ARCHIVE_BYTES:
            break
        shapes = layer_tensors(layers)
        layers += 1
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + offset)
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512,
        "num_attention_heads": 32,
        "num_hidden_layers": layers,
        "type_vocab_size": 2,
        "vocab_size": VOCABULARY,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return layers


def anonymous_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def test_memory_of_the_compiler(tools, scratch):
    free = shutil.disk_usage(scratch).free
    if free < 2 * ARCHIVE_BYTES:
        pytest.skip(f"the packed archive needs {2 * ARCHIVE_BYTES >> 30} GiB of disk, {free >> 30} GiB are free")
    source = scratch / "large"
    source.mkdir()
    write_sparse_model(source)
    output = scratch / "large-out"
    output.mkdir()
    try:
        with subprocess.Popen(
            [tools.path("intarsia-compile"), source, "-o", output / "large.itx"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            peak = 0
            while process.poll() is None:
                peak = max(peak, anonymous_bytes(process.pid))
                time.sleep(0.01)
            text = process.stdout.read()
        assert process.returncode == 0, text
        packed = sum(path.stat().st_size for path in output.iterdir())
        print(f"peak anonymous memory {peak / 1e6:.0f} MB for {packed / 1e9:.1f} GB of packed weights")
        assert packed >= ARCHIVE_BYTES
        assert 0 < peak < LIMIT_BYTES
    finally:
        shutil.rmtree(output)
