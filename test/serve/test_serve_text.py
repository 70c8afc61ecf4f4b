# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The text of a sample, token by token, against the whole text of the package tokenizers."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from intarsia.serve.text_stream import Detokenizer, Stops, TextStream
from serve_client import byte_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

GLOSSARY = Path(__file__).resolve().parents[2] / "examples" / "glossary" / "tokenizer.json"


def piece_tokenizer() -> Tokenizer:
    """Return a tokenizer like Llama 2's: a sign for spaces, the first of which is dropped, and tokens for bytes."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"abcdefgh▁", "▁a", "▁bc", "de", "▁▁", "é", "世"]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["</s>"])
    return tokenizer


TOKENIZERS = {
    "bytes": byte_tokenizer,
    "glossary": lambda: Tokenizer.from_file(str(GLOSSARY)),
    "pieces": piece_tokenizer,
}


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("skips_special", [True, False])
def test_pieces_make_the_whole_text(name: str, skips_special: bool) -> None:
    tokenizer = TOKENIZERS[name]()
    detokenizer = Detokenizer(tokenizer)
    numbers = random.Random(7)
    count = tokenizer.get_vocab_size()
    letters = tokenizer.encode("a 世é🎉", add_special_tokens=False).ids
    for _ in range(200):
        prompt = tokenizer.encode("aba", add_special_tokens=False).ids
        # Random tokens, and letters that are several of them. Decoders of single bytes take a letter back if what
        # follows is none; nobody can who has sent it.
        tokens = [numbers.randrange(257 if name == "pieces" else 0, count) for _ in range(30)]
        ids = [one for token in tokens for one in numbers.choice(([token], letters))]
        stream = TextStream(detokenizer.decoder(prompt, skips_special))
        text = "".join(map(stream.add, ids)) + stream.finish()
        whole = tokenizer.decode(prompt + ids, skip_special_tokens=skips_special)
        before = tokenizer.decode(prompt, skip_special_tokens=skips_special)
        assert before + text == whole


@pytest.mark.parametrize("name", TOKENIZERS)
def test_stop_strings_end_the_text_where_they_first_occur(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    detokenizer = Detokenizer(tokenizer)
    numbers = random.Random(8)
    prompt = tokenizer.encode("a", add_special_tokens=False).ids
    ends = 0
    for _ in range(300):
        text = "".join(numbers.choice("abcdé世 ") for _ in range(30))
        stops = ["".join(numbers.choice("abcdé世 ") for _ in range(numbers.randrange(1, 4))) for _ in range(3)]
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        whole = tokenizer.decode(prompt + ids)[len(tokenizer.decode(prompt)) :]
        found = [(whole.index(stop), i) for i, stop in enumerate(stops) if stop in whole]
        stream = TextStream(detokenizer.decoder(prompt, True), Stops(stops))
        got = ""
        for token in ids:
            got += stream.add(token)
            if stream.stop is not None:
                break
        got += stream.finish()
        # Which stop string is complete first decides; of those that a token completes together the first one.
        assert (stream.stop is not None) == bool(found)
        if found:
            ends += 1
            assert whole.startswith(got + stream.stop)
            assert not any(stop in got for stop in stops)
        else:
            assert got == whole
    assert ends > 50


def test_endless_garbage_is_text_too() -> None:
    tokenizer = piece_tokenizer()
    byte = tokenizer.token_to_id("<0xE4>")
    stream = TextStream(Detokenizer(tokenizer).decoder([tokenizer.token_to_id("a")], True))
    pieces = [stream.add(byte) for _ in range(1000)]
    assert set("".join(pieces)) == {"\ufffd"}
    assert sum(map(bool, pieces)) > 50  # what is held back is bounded


def test_byte_level_tokens_are_found_by_the_decoder() -> None:
    assert json.loads(byte_tokenizer().decoder.__getstate__())["type"] == "ByteLevel"
    assert Detokenizer(byte_tokenizer()).token_bytes(0xE9) == b"\xe9"
