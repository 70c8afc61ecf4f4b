# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that measurements make: the directory and the GGUF file are the same model."""

from __future__ import annotations

import intarsia
import numpy as np
import tokenizers
from harness import llama
from serving import models


def test_directory_and_gguf_are_one_model(tools, tmp_path, small_config):
    tensors = llama.random_weights(small_config)
    assert {value.dtype for value in tensors.values()} == {np.dtype(np.float16)}
    assert not np.array_equal(tensors["lm_head.weight"], tensors["model.embed_tokens.weight"])
    llama.write_directory(tmp_path / "small", small_config, tensors)
    llama.write_gguf(tmp_path / "small.gguf", llama.read_config(tmp_path / "small"), tensors)
    ids = [[1, 5, 9, 2, 70, 33]]
    logits = []
    for source in ("small", "small.gguf"):
        tools.compile(tmp_path / source, "-o", tmp_path / f"{source}.itx", "--kv=f32")
        logits.append(intarsia.Generator(tmp_path / f"{source}.itx").logits(ids)[0])
    assert np.abs(logits[0]).max() > 1e-2
    np.testing.assert_allclose(logits[1], logits[0], atol=1e-5)


def test_rope_theta_of_newer_directories(tmp_path):
    for text in ('{"rope_theta": 500.0}', '{"rope_parameters": {"rope_theta": 500.0}}'):
        (tmp_path / "config.json").write_text(text)
        assert llama.read_config(tmp_path)["rope_theta"] == 500


def test_files_have_the_directory_s_tokenizer(tools, tmp_path, small_config):
    texts = ["the keys of a cache, the values of a cache"] * 50
    config = small_config | {"vocab_size": 150, "bos_token_id": 0, "eos_token_id": 1}
    folder = tmp_path / "small"
    folder.mkdir()
    models.write_tokenizer(folder, config["vocab_size"], texts)
    llama.write_gguf(tmp_path / "small.gguf", config, llama.random_weights(config), folder / "tokenizer.json")
    tools.compile(tmp_path / "small.gguf", "-o", tmp_path / "small.itx")
    expected = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    generator = intarsia.Generator(tmp_path / "small.itx")
    for text in ("the values", " caché of\n keys", "</s>"):
        assert generator.encode(text) == expected.encode(text).ids
    assert expected.encode("</s>").ids == [1]
    assert len(expected.encode("the cache").ids) < len("the cache")
