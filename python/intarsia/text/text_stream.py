# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turn the tokens of one sample into text as they come, up to a stop string."""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from typing import Any, Protocol

from .token_bytes import byte_level_letters

#: Tokens without a whole letter that are decoded together before they are taken for what they are: a letter has at most
#: four bytes, so that more of them are none.
_MOST_OPEN = 16

#: Of as many tokens without any text, so many stay: decoders look no further back.
_KEPT_OPEN = 4


class Decoder(Protocol):
    """Decodes the tokens of one sample."""

    def add(self, token: int) -> str:
        """Return the letters that this token completes."""

    def rest(self) -> str:
        """Return what the last tokens are if no more come: replacement characters for parts of letters."""


class Detokenizer:
    """Makes decoders for a tokenizer.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        The model's tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._letters = byte_level_letters() if _kind(tokenizer.decoder) == "ByteLevel" else None
        added = tokenizer.get_added_tokens_decoder()
        self._special = frozenset(number for number, token in added.items() if token.special)
        self._bytes: dict[int, bytes] = {}
        self._single: tuple[dict[int, str], dict[int, str]] = ({}, {})

    def decoder(self, prompt: Sequence[int], skips_special: bool) -> Decoder:
        """Return the decoder of what follows a prompt."""
        if self._letters is not None:
            return _ByteDecoder(self, skips_special)
        return _WindowDecoder(self, prompt[-8:], skips_special)

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of a token of a byte-level tokenizer, as the package's decoder has them."""
        found = self._bytes.get(token)
        if found is None:
            spelled = self._tokenizer.id_to_token(token) or ""
            letters = self._letters
            is_spelled = all(letter in letters for letter in spelled)
            found = bytes(letters[letter] for letter in spelled) if is_spelled else spelled.encode()
            self._bytes[token] = found
        return found

    def is_left_out(self, token: int, skips_special: bool) -> bool:
        """Return True for a token that the package leaves out before it decodes."""
        return (skips_special and token in self._special) or self._tokenizer.id_to_token(token) is None

    def decode(self, tokens: Sequence[int], skips_special: bool) -> str:
        """Return the text of tokens."""
        return self._tokenizer.decode(tokens, skip_special_tokens=skips_special)

    def single(self, token: int, skips_special: bool) -> str:
        """Return the text of one token alone."""
        known = self._single[skips_special]
        text = known.get(token)
        if text is None:
            text = known[token] = self.decode([token], skips_special)
        return text


def _kind(decoder: Any) -> str | None:
    """Return the kind of a decoder of the package; None for others, as a program may have its own."""
    try:
        return None if decoder is None else json.loads(decoder.__getstate__())["type"]
    except Exception:  # the package raises plain Exception
        return None


class _ByteDecoder:
    """Of byte-level tokenizers: a token is bytes, whatever stands beside it."""

    __slots__ = ("_decode", "_decoder", "_owner", "_skips_special")

    def __init__(self, owner: Detokenizer, skips_special: bool) -> None:
        self._owner, self._skips_special = owner, skips_special
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._decode = self._decoder.decode

    def add(self, token: int) -> str:
        if self._skips_special and token in self._owner._special:
            return ""
        data = self._owner._bytes.get(token)
        return self._decode(self._owner.token_bytes(token) if data is None else data)

    def rest(self) -> str:
        return self._decoder.getstate()[0].decode("utf-8", "replace")


class _WindowDecoder:
    """Of other tokenizers: tokens are decoded together with some before them, because some drop a leading space.

    The window is the tokens that made the last text, and the open ones behind them, which made none yet.
    """

    __slots__ = ("_before", "_owner", "_read", "_rest", "_skips_special", "_tokens")

    def __init__(self, owner: Detokenizer, prompt: Sequence[int], skips_special: bool) -> None:
        self._owner, self._skips_special = owner, skips_special
        counts = (count for count in range(1, 5) if "\ufffd" not in owner.decode(list(prompt[-count:]), skips_special))
        self._tokens = list(prompt[-next(counts, 1) :])
        self._read = len(self._tokens)
        self._before = owner.decode(self._tokens, skips_special)
        self._rest = ""

    def add(self, token: int) -> str:
        if self._owner.is_left_out(token, self._skips_special):
            return ""
        self._tokens.append(token)
        text = self._owner.decode(self._tokens, self._skips_special)
        new = text[len(self._before) :]
        is_full = len(self._tokens) - self._read >= _MOST_OPEN
        if not new or (new.endswith("\ufffd") and not is_full):
            self._rest = new
            if is_full:
                del self._tokens[self._read : -_KEPT_OPEN]
            return ""
        self._rest = ""
        del self._tokens[: self._read]
        self._read = len(self._tokens)
        if self._read == 1:
            self._before = self._owner.single(token, self._skips_special)
        else:
            self._before = self._owner.decode(self._tokens, self._skips_special)
        return new

    def rest(self) -> str:
        return self._rest


class Stops:
    """Texts that end a sample; one object serves all samples of a request."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = list(stops)
        begun = {stop[:length] for stop in stops for length in range(1, len(stop))}
        self._begun = begun
        self._lengths = sorted({len(text) for text in begun}, reverse=True)

    def find(self, text: str) -> tuple[int, str] | None:
        """Return where the first stop string of a text begins, and which it is."""
        found = [(at, stop) for stop in self.stops if (at := text.find(stop)) >= 0]
        return min(found, key=lambda one: one[0], default=None)

    def begun(self, text: str) -> int:
        """Return how many letters at the end of a text may begin a stop string."""
        size = len(text)
        for length in self._lengths:
            if length <= size and text[size - length :] in self._begun:
                return length
        return 0


class TextStream:
    """The text of one sample: what is certain of it, token by token.

    Attributes
    ----------
    stop : str or None
        The stop string that has ended the text; it is not part of it unless `shows_stop`.
    """

    __slots__ = ("_decoder", "_held", "_shows_stop", "_stops", "stop")

    def __init__(self, decoder: Decoder, stops: Stops | None = None, shows_stop: bool = False) -> None:
        self._decoder, self._stops, self._shows_stop = decoder, stops, shows_stop
        self._held = ""  # may begin a stop string
        self.stop: str | None = None

    def add(self, token: int) -> str:
        """Take a token; return text that later tokens cannot change. After a stop string there is none."""
        text = self._decoder.add(token)
        if self._stops is None or not text or self.stop is not None:
            return text if self.stop is None else ""
        return self._search(text)

    def finish(self) -> str:
        """Take the end of the tokens; return the rest of the text."""
        if self.stop is not None:
            return ""
        rest = self._decoder.rest()
        if self._stops is None:
            return rest
        text = self._search(rest)
        held, self._held = self._held, ""
        return text if self.stop is not None else text + held

    @property
    def rest(self) -> str:
        """The text that later tokens may change, as it is if none come."""
        return "" if self.stop is not None else self._held + self._decoder.rest()

    def _search(self, new: str) -> str:
        text = self._held + new
        found = self._stops.find(text)
        if found is not None:
            at, self.stop = found
            self._held = ""
            return text[: at + len(self.stop)] if self._shows_stop else text[:at]
        begun = self._stops.begun(text)
        self._held = text[len(text) - begun :] if begun else ""
        return text[: len(text) - begun] if begun else text
