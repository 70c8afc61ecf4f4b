# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text of tokens that come one by one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import intarsia
import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, normalizers

HERE = Path(__file__).resolve().parent
GLOSSARY = HERE.parents[1] / "examples" / "glossary" / "tokenizer.json"
TEXTS = [
    text for text in json.loads((HERE / "gguf_goldens.json").read_text())["texts"] if len(text) > 1 and "<" not in text
]


def byte_level() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(GLOSSARY))


def with_a_space_before() -> tokenizers.Tokenizer:
    """Return a tokenizer as Llama 2's: text begins with a space that is not shown, letters without a token are bytes."""
    words = ["▁", "▁a", "▁string", "▁we", "'", "s", "ing", "def", "▁(", "1", "2", ":", "\n"]
    letters = [chr(code) for code in range(33, 127) if chr(code) not in words]
    vocabulary = [*(f"<0x{byte:02X}>" for byte in range(256)), *words, *letters]
    tokenizer = tokenizers.Tokenizer(models.BPE({t: i for i, t in enumerate(vocabulary)}, [], byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


@pytest.mark.parametrize("make", [byte_level, with_a_space_before])
def test_prompt_and_text_are_the_whole(make):
    tokenizer = make()
    model = SimpleNamespace(tokenizer=tokenizer, vocabulary=4096, _ends=set())
    logits = np.zeros(4096)
    splits = 0
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids) == text
        for at in range(len(ids)):
            prompt = tokenizer.decode(ids[:at])
            if "\ufffd" in prompt:  # cut inside of a letter
                continue
            writer = intarsia.Writer(model, ids[:at], [], intarsia.Sampling(), np.random.default_rng(), None)
            pieces = []
            for token in ids[at:]:
                assert writer.add(token, logits)
                pieces += writer.news()
            pieces += writer.news(last=True)
            assert prompt + writer.text == text
            assert "".join(pieces) == writer.text
            assert "\ufffd" not in "".join(pieces)
            splits += 1
    assert splits > 200


def test_only_new_tokens_are_decoded():
    tokenizer = byte_level()
    longest = 0

    class Counting:
        def decode(self, ids: list[int]) -> str:
            nonlocal longest
            longest = max(longest, len(ids))
            return tokenizer.decode(ids)

    model = SimpleNamespace(tokenizer=Counting(), vocabulary=4096, _ends=set())
    ids = tokenizer.encode(" ".join(TEXTS), add_special_tokens=False).ids
    writer = intarsia.Writer(model, ids[:3], [], intarsia.Sampling(), np.random.default_rng(), None)
    for token in ids[3:]:
        writer.add(token, np.zeros(4096))
    assert len(ids) > 300
    assert longest < 20
