# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The continuation of one prompt: takes tokens, and decodes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..text.text_stream import Detokenizer, Stops, TextStream
from .sampling import SamplingOptions


@dataclass
class Generation:
    """The generated text of one prompt.

    Attributes
    ----------
    ids : list of int
        The new tokens, without the one that ended the text.
    text : str or None
        The tokens as text; None without a tokenizer.
    logprobs : list of float
        Natural logarithm of each new token's probability before sampling rules.
    finish_reason : str
        ``"end"`` (the model ended its text, or the text is complete by its schema or grammar), ``"stop"`` (a stop
        string occurred), ``"length"`` (`max_tokens` or the model's context is used up).
    end_token : int or None
        The token that ended the text; None if none did. Models that call tools have several, such as Llama's
        ``<|eom_id|>`` for a call.
    top_logprobs : list of dict of int to float
        With `SamplingOptions.logprobs`, the same of the likeliest tokens at each place, the likeliest first.
    """

    ids: list[int]
    text: str | None
    logprobs: list[float]
    finish_reason: str
    end_token: int | None = None
    top_logprobs: list[dict[int, float]] = field(default_factory=list)


class Writer:
    """The continuation of one prompt; it has the attributes of `Generation` while they grow.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer or None
        None: there is no text, only token ids.
    prompt : list of int
        Token ids.
    sampling : SamplingOptions
        Its texts that end the generation.
    skip_special_tokens : bool
        Leave special tokens out of the text.
    detokenizer : Detokenizer, optional
        That of the tokenizer, where texts share one.
    """

    def __init__(
        self,
        tokenizer: Any,
        prompt: list[int],
        sampling: SamplingOptions,
        skip_special_tokens: bool = True,
        *,
        detokenizer: Detokenizer | None = None,
    ) -> None:
        self.tokenizer, self.prompt, self.sampling = tokenizer, prompt, sampling
        self.skip_special_tokens = skip_special_tokens
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.top_logprobs: list[dict[int, float]] = []
        self.finish_reason = "length"
        self.end_token: int | None = None
        self._stream: TextStream | None = None
        if tokenizer is not None:
            decoder = (detokenizer or Detokenizer(tokenizer)).decoder(prompt, skip_special_tokens)
            self._stream = TextStream(decoder, Stops(sampling.stop) if sampling.stop else None)
        self._pieces: list[str] = []  # of the text: later tokens cannot change them
        self._told = 0  # pieces that news() has yielded, or tokens if there is no text
        self._told_rest = False

    @property
    def text(self) -> str:
        """The text so far; the last letters may change with the next tokens."""
        return "".join(self._pieces) + (self._stream.rest if self._stream is not None else "")

    def add(self, token: int, logprob: float, likeliest: Sequence[tuple[int, float]] = ()) -> bool:
        """Append a token and its probability's logarithm; return True if the text continues after it."""
        self.ids.append(token)
        self.logprobs.append(logprob)
        if self.sampling.logprobs is not None:
            self.top_logprobs.append(dict(likeliest))
        if self._stream is None:
            return True
        text = self._stream.add(token)
        if text:
            self._pieces.append(text)
        if self._stream.stop is None:
            return True
        self.finish_reason = "stop"
        return False

    def end(self, reason: str, token: int | None = None) -> None:
        """Take the reason for which no more tokens come, and the token that ended the text."""
        self.finish_reason, self.end_token = reason, token

    def news(self, last: bool = False) -> Iterator[str | int]:
        """Yield text that later tokens cannot change; after the last token all that is left."""
        news = self.ids if self._stream is None else self._pieces
        begin, self._told = self._told, len(news)
        if self._stream is None:
            yield from news[begin:]
            return
        text = "".join(news[begin:])
        if not self._told_rest and (last or self.finish_reason != "length"):
            self._told_rest = True
            text += self._stream.rest
        if text:
            yield text

    def result(self) -> Generation:
        """Return the finished text."""
        text = None if self.tokenizer is None else self.text
        return Generation(self.ids, text, self.logprobs, self.finish_reason, self.end_token, self.top_logprobs)
