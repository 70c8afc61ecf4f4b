# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The text of a sample, token by token, against the whole text of the package tokenizers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import intarsia
import pytest
from intarsia.text.text_stream import Detokenizer, Stops, TextStream
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

GLOSSARY = Path(__file__).resolve().parents[2] / "examples" / "glossary" / "tokenizer.json"


def byte_tokenizer() -> Tokenizer:
    """Return a tokenizer whose tokens 0 to 255 are single bytes, in the order of the letters that spell them."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["</s>"])
    return tokenizer


def word_tokenizer(decoder: Any, words: list[str]) -> Tokenizer:
    """Return a tokenizer of some words, and of some that are no text."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_special_tokens(["</s>"])
    return tokenizer


def piece_tokenizer(decoder: Any = None) -> Tokenizer:
    """Return a tokenizer like Llama 2's: a sign for spaces, the first of which is dropped, and tokens for bytes."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"abcdefgh▁", "▁a", "▁bc", "de", "▁▁", "é", "世"]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoder or decoders.Sequence(
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


#: Decoders, with words that they make no text of.
WORDS = {
    "metaspace": lambda: word_tokenizer(decoders.Metaspace(), ["", "▁", "\ufffd", "▁▁", "a", "▁a"]),
    "wordpiece": lambda: word_tokenizer(decoders.WordPiece(), ["##", "a", "##b", ".", "", "'s"]),
    "suffixes": lambda: word_tokenizer(decoders.BPEDecoder(), ["</w>", "a", "b</w>", ""]),
    "spaces between": lambda: word_tokenizer(None, ["", "a", "b"]),
    "gemma": lambda: piece_tokenizer(
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    ),
}


def runs_of(tokenizer: Tokenizer, numbers: random.Random) -> list[int]:
    """Return runs of the same few tokens, some of which are no text, or parts of letters."""
    ids: list[int] = []
    unknown = tokenizer.get_vocab_size() + 5
    parts = [tokenizer.token_to_id(name) for name in ("<0xE4>", "<0x80>", "ä", "Ģ")]
    parts = [token for token in parts if token is not None]
    for _ in range(6):
        # A run of bytes begins behind a letter: decoders of single bytes take letters before it back.
        ids.append(tokenizer.token_to_id("a"))
        one = numbers.choice([*parts, unknown, tokenizer.token_to_id("</s>"), numbers.randrange(4)])
        between = [numbers.choice([one, one, unknown])] * numbers.choice((0, 1, 2))
        ids += [one] * numbers.choice((1, 3, 15, 16, 17, 40)) + between
    # What the package leaves out may also stand within a letter.
    letter = tokenizer.encode("界", add_special_tokens=False).ids
    gap = [numbers.choice((unknown, tokenizer.token_to_id("</s>")))] * 40
    return [*ids, tokenizer.token_to_id("a"), *letter[:-1], *gap, *letter[-1:]]


@pytest.mark.parametrize("name", [*TOKENIZERS, *WORDS])
@pytest.mark.parametrize("skips_special", [True, False])
def test_long_runs_without_text_change_no_text(name: str, skips_special: bool) -> None:
    tokenizer = {**TOKENIZERS, **WORDS}[name]()
    detokenizer = Detokenizer(tokenizer)
    numbers = random.Random(9)
    prompt = [tokenizer.token_to_id("a")]
    before = tokenizer.decode(prompt)
    for _ in range(200):
        ids = runs_of(tokenizer, numbers)
        stream = TextStream(detokenizer.decoder(prompt, skips_special))
        text = "".join(map(stream.add, ids))
        assert before + text + stream.rest == tokenizer.decode(prompt + ids, skip_special_tokens=skips_special)


class Counting:
    """A tokenizer that counts the tokens which it decodes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self.decoded = tokenizer, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def decode(self, ids: list[int], **options: bool) -> str:
        self.decoded += len(ids)
        return self._tokenizer.decode(ids, **options)


def streamed(tokenizer: Any, prompt: list[int], ids: list[int]) -> None:
    stream = TextStream(Detokenizer(tokenizer).decoder(prompt, True))
    for token in ids:
        stream.add(token)


def written(tokenizer: Any, prompt: list[int], ids: list[int]) -> None:
    writer = intarsia.Writer(tokenizer, prompt, intarsia.SamplingOptions())
    for token in ids:
        writer.add(token, 0.0)
        list(writer.news())


@pytest.mark.parametrize("take", [streamed, written])
@pytest.mark.parametrize(
    ("name", "token"),
    [("pieces", "</s>"), ("pieces", "<0xE4>"), ("pieces", None), ("gemma", "<0xE4>"), ("metaspace", ""),
     ("metaspace", "\ufffd"), ("bytes", "ä"), ("bytes", "</s>"), ("wordpiece", "##")],
)  # fmt: skip
def test_a_token_costs_as_much_after_many_without_text(take: Any, name: str, token: str | None) -> None:
    """Each token was decoded together with all since the last text: 2,000 were two million."""
    tokenizer = Counting({**TOKENIZERS, **WORDS}[name]())
    number = tokenizer.get_vocab_size() + 5 if token is None else tokenizer.token_to_id(token)
    take(tokenizer, [tokenizer.token_to_id("a")], [number] * 2000)
    assert tokenizer.decoded < 2000 * 40


def test_endless_garbage_is_text_too() -> None:
    tokenizer = piece_tokenizer()
    byte = tokenizer.token_to_id("<0xE4>")
    stream = TextStream(Detokenizer(tokenizer).decoder([tokenizer.token_to_id("a")], True))
    pieces = [stream.add(byte) for _ in range(1000)]
    assert set("".join(pieces)) == {"\ufffd"}
    assert sum(map(bool, pieces)) > 50  # what is held back is bounded


def test_byte_level_tokens_are_bytes() -> None:
    tokenizer = byte_tokenizer()
    assert Detokenizer(tokenizer).token_bytes(tokenizer.token_to_id("é")) == b"\xe9"
    assert Detokenizer(tokenizer).token_bytes(tokenizer.token_to_id("Ġ")) == b" "


class Shouting:
    """A decoder of a program."""

    def decode_chain(self, tokens: list[str]) -> list[str]:
        return [token.upper() for token in tokens]


def test_a_decoder_of_the_program_is_followed() -> None:
    tokenizer = word_tokenizer(decoders.Decoder.custom(Shouting()), ["a", "b"])
    stream = TextStream(Detokenizer(tokenizer).decoder([0], True))
    assert [stream.add(token) for token in (0, 1)] == ["A", "B"]
