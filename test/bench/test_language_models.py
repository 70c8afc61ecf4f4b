# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What our side is made of, and what is counted, where language models are compared."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import language_models
import numpy as np
import pytest
from harness.program import NotMeasuredError


def write_archive(path: Path, sizes: dict[str, int]) -> None:
    """Write a safetensors file of bytes."""
    header, at = {}, 0
    for name, size in sizes.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(at))


@pytest.fixture
def session(tmp_path, monkeypatch):
    """Compilation writes an archive of as many bytes as `stored` says."""
    arguments = argparse.Namespace(cache=tmp_path, work=tmp_path, build=tmp_path, quantize="int4", ours="auto")
    made = language_models.Session(arguments)
    made.stored, made.commands = 1000, []

    def compile_(build: Path, source: Path, artifact: Path, *flags: str) -> None:
        made.commands.append((source, *flags))
        artifact.touch()
        write_archive(artifact.with_suffix(".safetensors"), {"w": made.stored})

    monkeypatch.setattr(language_models, "compile_model", compile_)
    for peer in language_models.PEERS.values():
        (tmp_path / peer.file).write_bytes(bytes(1000))
    return made


def test_what_ours_is_made_of(session, tmp_path):
    quantized = ("int4", tmp_path / "llama-1.1b-int4.itx")
    assert [session.ours(peer) for peer in ("q4_0", "openvino-int4")] == [quantized, quantized]
    assert session.commands == [(tmp_path / "llama-1.1b", "--quantize=int4")] * 2
    assert session.ours("q4_k_m") == ("q4_k_m", tmp_path / "llama-1.1b-q4_k_m.itx")
    assert session.commands[2:] == [(tmp_path / "llama-1.1b-q4_k_m.gguf",)]
    session.arguments.ours = "file"
    assert [session.ours(peer)[0] for peer in ("q4_0", "openvino-int4")] == ["q4_0", "int4"]
    session.arguments.ours = "directory"
    assert session.ours("q4_k_m") == quantized


def test_dequantized_weights_are_no_rival(session):
    session.stored = 7000
    for _ in range(2):
        with pytest.raises(NotMeasuredError, match="q4_k_m"):
            session.ours("q4_k_m")
    assert len(session.commands) == 1
    assert not list(session.arguments.work.glob("*.safetensors"))


def test_what_a_token_reads():
    tensors = {"model.embed_tokens.weight.panels32": 100, "lm_head.weight": 30, "model.norm.weight": 2}
    assert language_models.weight_bytes_of_a_token(tensors) == 32
    # One table for both ends is read whole.
    assert language_models.weight_bytes_of_a_token({"token_embd.weight": 100, "output.weight": 5}) == 5
    assert language_models.weight_bytes_of_a_token({"model.embed_tokens.weight": 100, "model.norm.weight": 2}) == 102


def test_agreement_is_that_of_the_worst_row():
    ours = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert language_models.least_cosine(ours, np.array([[3.0, 0.0], [0.6, 0.8]])) == pytest.approx(0.6)


def test_page():
    row = {"task": "decode of 8", "tokens": 8, "cosine": 0.9, "ours": "ours int4", "peer": "llama.cpp q4_0"}
    row |= {"ours_ms": 20.0, "peer_ms": 40.0, "ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.1}
    row["engines"] = {"ours int4": {"threads": 2}}
    page = language_models.render([row], [], ["decode against q4_k_m is not measured: …"])
    assert "| decode of 8 | int4 | llama.cpp q4_0 | 400.0 | 200.0 | 2.00 [1.90, 2.10] | 0.900 |" in page
    assert "- ours int4: threads 2" in page
    assert "- decode against q4_k_m is not measured" in page
