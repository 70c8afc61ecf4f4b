# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text of tokens that come one by one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import intarsia
import numpy as np
import pytest
import tokenizers
from intarsia.text.token_bytes import TokenBytes
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
    splits = 0
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids) == text
        for at in range(len(ids)):
            prompt = tokenizer.decode(ids[:at])
            if "\ufffd" in prompt:  # cut inside of a letter
                continue
            writer = writer_of(tokenizer, [], ids[:at])
            pieces = []
            for token in ids[at:]:
                assert writer.add(token, 0.0)
                pieces += writer.news()
            pieces += writer.news(last=True)
            assert prompt + writer.text == text
            assert "".join(pieces) == writer.text
            assert "\ufffd" not in "".join(pieces)
            splits += 1
    assert splits > 200


def test_only_new_tokens_are_decoded():
    tokenizer = with_a_space_before()
    longest = 0

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

        def decode(self, ids: list[int], **options: bool) -> str:
            nonlocal longest
            longest = max(longest, len(ids))
            return tokenizer.decode(ids, **options)

    ids = tokenizer.encode(" ".join(TEXTS), add_special_tokens=False).ids
    writer = writer_of(Counting(), [], ids[:3])
    for token in ids[3:]:
        writer.add(token, 0.0)
    assert len(ids) > 300
    assert longest < 20


def writer_of(tokenizer: Any, stops: list[str], prompt: list[int], **options: bool) -> intarsia.Writer:
    return intarsia.Writer(tokenizer, prompt, intarsia.SamplingOptions(stop=stops), **options)


@pytest.mark.parametrize("make", [byte_level, with_a_space_before])
def test_the_first_stop_string_ends_the_text(make):
    """Stop strings over the borders of tokens and of letters, against a search of the whole text."""
    tokenizer = make()
    random = np.random.default_rng(7)
    stopped = 0
    for _ in range(150):
        whole = " ".join(random.choice(TEXTS, 3))
        stops = []
        for _ in range(random.integers(1, 6)):
            begin = random.integers(len(whole))
            stops.append(whole[begin : begin + random.integers(1, 12)] + ("#" if random.random() < 0.5 else ""))
        ids = tokenizer.encode(f"a{whole}").ids
        writer = writer_of(tokenizer, stops, tokenizer.encode("a").ids)
        pieces = []
        for token in ids[1:]:
            going = writer.add(token, 0.0)
            pieces += writer.news()
            assert not any(stop in "".join(pieces) for stop in stops)
            if not going:
                break
        pieces += writer.news(last=True)
        # The first one that is complete, after as few tokens as that needs.
        for count in range(1, len(ids) + 1):
            text = tokenizer.decode(ids[:count]).removeprefix(tokenizer.decode(ids[:1]))
            at = min((text.find(stop) for stop in stops if stop in text), default=None)
            if at is not None:
                break
        assert writer.text == "".join(pieces) == text[:at]
        assert writer.finish_reason == ("length" if at is None else "stop")
        stopped += at is not None
    assert 50 < stopped < 150


def test_many_stop_strings_are_searched_in_the_last_letters_alone():
    """256 stop strings and 5,000 tokens took 41 s, as the whole text was searched after each token."""
    tokenizer = byte_level()
    writer = writer_of(tokenizer, [f"stop string number {number}#" for number in range(256)], tokenizer.encode("a").ids)
    ids = (tokenizer.encode(" ".join(TEXTS)).ids * 20)[:5000]
    begin = time.process_time()
    length = 0
    for token in ids:
        assert writer.add(token, 0.0)
        length += sum(map(len, writer.news()))
    assert time.process_time() - begin < 8
    assert length + sum(map(len, writer.news(last=True))) == len(writer.text) > 5000


def test_special_tokens_can_be_shown():
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["<tool_call>", "</tool_call>", "<|eom|>"])
    call, done, end = (tokenizer.token_to_id(name) for name in ("<tool_call>", "</tool_call>", "<|eom|>"))
    ids = [call, *tokenizer.encode('{"name": "f"}', add_special_tokens=False).ids, done]
    texts = {}
    for skipped in (True, False):
        writer = writer_of(tokenizer, [], tokenizer.encode("a").ids, skip_special_tokens=skipped)
        pieces = []
        for token in ids:
            assert writer.add(token, 0.0)
            pieces += writer.news()
        writer.end("end", end)
        result = writer.result()
        assert (result.ids, result.finish_reason, result.end_token) == (ids, "end", end)
        assert "".join([*pieces, *writer.news(last=True)]) == result.text
        texts[skipped] = result.text
    assert texts == {True: '{"name": "f"}', False: '<tool_call>{"name": "f"}</tool_call>'}


def test_bytes_of_tokens():
    """Joined, the bytes of tokens are those of the text, where single tokens are parts of letters."""
    parts = 0
    for tokenizer, bytes_of in ((make(), TokenBytes(make())) for make in (byte_level, with_a_space_before)):
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            joined = b"".join(bytes_of[ident] for ident in ids)
            # Llama's texts begin with a space that is not shown.
            assert joined.decode() in (text, f" {text}")
            parts += sum("\ufffd" in tokenizer.decode([ident]) for ident in ids)
    assert parts > 100
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["<｜end｜>"])
    bytes_of = TokenBytes(tokenizer)
    assert bytes_of[tokenizer.token_to_id("<｜end｜>")] == "<｜end｜>".encode()
    assert bytes_of[10**6] == b""


@pytest.mark.parametrize("decoder", [None, decoders.WordPiece(), decoders.Metaspace(), decoders.BPEDecoder()])
def test_bytes_of_tokens_of_other_decoders(decoder):
    tokenizer = tokenizers.Tokenizer(models.WordLevel({"violin": 0, "▁und": 1}, unk_token="violin"))
    if decoder is not None:
        tokenizer.decoder = decoder
    assert TokenBytes(tokenizer)[0] == b"violin"
    if isinstance(decoder, decoders.Metaspace):
        assert TokenBytes(tokenizer)[1] == b" und"
