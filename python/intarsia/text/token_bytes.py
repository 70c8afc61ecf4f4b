# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The bytes that tokens stand for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any


class TokenBytes:
    """The bytes of a tokenizer's tokens.

    A letter may be spread over several tokens, and text has a replacement character for each part of one: who compares
    or joins tokens needs their bytes. They depend on the tokenizer's decoder: tokens of byte-level tokenizers spell
    bytes by letters (GPT-2's table), others have tokens such as ``<0xE2>``, and a sign for the space.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        The tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._added = tokenizer.get_added_tokens_decoder()
        decoder = tokenizer.decoder
        parts = list(_parts(json.loads(decoder.__getstate__()))) if decoder is not None else []
        kinds = {part["type"] for part in parts}
        self._letters = byte_level_letters() if "ByteLevel" in kinds else {}
        self._has_bytes = "ByteFallback" in kinds
        self._replaced = [
            (part["pattern"]["String"], part["content"])
            for part in parts
            if part["type"] == "Replace" and "String" in part.get("pattern", {})
        ]
        self._replaced += [(part["replacement"], " ") for part in parts if part["type"] == "Metaspace"]

    def __getitem__(self, token: int) -> bytes:
        """Return the bytes of a token; none for one that the tokenizer does not have."""
        if token in self._added:
            return self._added[token].content.encode()
        spelled = self._tokenizer.id_to_token(token)
        if spelled is None:
            return b""
        if self._letters and all(letter in self._letters for letter in spelled):
            return bytes(self._letters[letter] for letter in spelled)
        if self._has_bytes and (byte := re.fullmatch(r"<0x([0-9A-Fa-f]{2})>", spelled)):
            return bytes([int(byte[1], 16)])
        if not self._replaced:
            return self._tokenizer.decode([token], skip_special_tokens=False).encode()
        for sign, text in self._replaced:
            spelled = spelled.replace(sign, text)
        return spelled.encode()


def _parts(decoder: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield decoder
    for part in decoder.get("decoders", ()):
        yield from _parts(part)


def byte_level_letters() -> dict[str, int]:
    """Return the byte for each letter of byte-level tokenizers (bytes_to_unicode of GPT-2's encoder.py)."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + i): byte for i, byte in enumerate(hidden)}
