# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts with artifacts of GGUF files, which carry what the files say about their tokenizers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gguf
import intarsia
import pytest
from gguf_models import as_floats, tensors_of, write_settings

MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"
HELLO = [{"role": "user", "content": "Hello"}]


def gguf_model(path: Path, name: str | None = None, **changes: object) -> Path:
    """Write the model as llama.cpp's converter does, its tokenizer too; names stand for tokenizer.ggml.NAME."""
    config = json.loads((MODEL / "config.json").read_text())
    description = json.loads((MODEL / "tokenizer.json").read_text())
    vocabulary = description["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    special = {token["content"] for token in description["added_tokens"]}
    writer = gguf.GGUFWriter(path, "llama")
    write_settings(writer, config)
    if name:
        writer.add_name(name)
    values = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tokens,
        "token_type": [3 if token in special else 1 for token in tokens],
        "merges": [" ".join(merge) for merge in description["model"]["merges"]],
        "add_bos_token": True,
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    for name, value in (values | changes).items():
        if value is not None:
            writer.add_key_value(
                f"tokenizer.ggml.{name}",
                value,
                gguf.GGUFValueType.ARRAY if isinstance(value, list) else gguf.GGUFValueType.get_type(value),
                sub_type=gguf.GGUFValueType.get_type(value[0]) if isinstance(value, list) else None,
            )
    writer.add_chat_template("{{ bos_token }}{{ messages[0].content }}")
    for name, tensor in tensors_of(MODEL, config):
        data, kind = as_floats("F32")(name, tensor)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_tokenizer_of_a_gguf_file(tools, tmp_path, monkeypatch):
    source = gguf_model(tmp_path / "glossary.gguf", name="Phi 3 of the glossary")
    tools.compile(source, "-o", tmp_path / "m.itx")
    given = intarsia.Generator(tmp_path / "m.itx", tokenizer=source)
    monkeypatch.setitem(sys.modules, "gguf", None)
    carried = intarsia.Generator(tmp_path / "m.itx")
    assert carried.module.files == ("tokenizer.gguf.json",)
    assert carried.tokenizer.get_vocab() == given.tokenizer.get_vocab()
    for line in (MODEL / "heldout.txt").read_text().splitlines()[:200]:
        assert carried.encode(line) == given.encode(line)
    assert carried.encode_chat(HELLO) == given.encode_chat(HELLO)
    # What special tokens of this family do with white space goes by the model's name.
    tokenizer = carried.tokenizer
    assert carried.encode("</s> \n violin <s> a") == given.encode("</s> \n violin <s> a")
    assert carried.encode("</s> \n violin") == [0, *tokenizer.encode("</s>violin", add_special_tokens=False).ids]
    assert carried.generate("violin (noun):", 12) == given.generate("violin (noun):", 12)


def test_gguf_files_without_a_tokenizer_that_is_known(tools, tmp_path):
    tools.compile(gguf_model(tmp_path / "m.gguf", pre="martian"), "-o", tmp_path / "m.itx")
    generator = intarsia.Generator(tmp_path / "m.itx")
    assert generator.generate([0, 100], 2)[0].text is None
    message = r"m\.itx: tokenizer\.gguf\.json: tokenizer\.ggml\.pre is 'martian', known are"
    with pytest.raises(intarsia.InvalidArgumentError, match=message):
        generator.generate("violin")
    result = tools.compile(gguf_model(tmp_path / "m.gguf", model=None), "-o", tmp_path / "m.itx")
    assert "remark: m.gguf: has no tokenizer.ggml.model, so that the artifact gets no tokenizer" in result.stderr
    assert intarsia.Generator(tmp_path / "m.itx").module.files == ()
