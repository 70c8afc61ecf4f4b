# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The continuation of one prompt: takes tokens, and decodes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .sampling import SamplingOptions

#: Settled tokens that are kept before they are dropped together.
_MOST_TOKENS = 256


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
    """

    def __init__(
        self, tokenizer: Any, prompt: list[int], sampling: SamplingOptions, skip_special_tokens: bool = True
    ) -> None:
        self.tokenizer, self.prompt, self.sampling = tokenizer, prompt, sampling
        self.skip_special_tokens = skip_special_tokens
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.top_logprobs: list[dict[int, float]] = []
        self.finish_reason = "length"
        self.end_token: int | None = None
        self._stops = _Stops(sampling.stop)
        # The text: pieces that later tokens cannot change, and the rest.
        self._settled: list[str] = []
        self._settled_length = 0
        self._rest = ""
        # What news() has not yielded: the text from this letter on, or from this token on if there is no text.
        self._told = 0
        # Tokens are decoded together with the tokens before them: some tokenizers drop a leading space.
        self._tokens = self._whole_letters(prompt)
        self._from, self._read = 0, len(self._tokens)

    @property
    def text(self) -> str:
        """The text so far; the last letters may change with the next tokens."""
        self._settled = ["".join(self._settled)]
        return self._settled[0] + self._rest

    def add(self, token: int, logprob: float, likeliest: Sequence[tuple[int, float]] = ()) -> bool:
        """Append a token and its probability's logarithm; return True if the text continues after it."""
        self.ids.append(token)
        self.logprobs.append(logprob)
        if self.sampling.logprobs is not None:
            self.top_logprobs.append(dict(likeliest))
        if self.tokenizer is not None and self._write(token):
            self.finish_reason = "stop"
            return False
        return True

    def end(self, reason: str, token: int | None = None) -> None:
        """Take the reason for which no more tokens come, and the token that ended the text."""
        self.finish_reason, self.end_token = reason, token

    def _whole_letters(self, prompt: list[int]) -> list[int]:
        """Return the last tokens of a prompt: at least one, and only whole characters."""
        if self.tokenizer is None:
            return []
        counts = (count for count in range(1, 5) if "\ufffd" not in self._decoded(prompt[-count:]))
        return prompt[-next(counts, 1) :]

    def _decoded(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=self.skip_special_tokens)

    def _write(self, token: int) -> bool:
        """Add a token to the text; return True if a stop string occurs, which is cut off.

        Only tokens whose text may still change are decoded, and only text that they may change is searched.
        """
        self._tokens.append(token)
        before = self._decoded(self._tokens[self._from : self._read])
        after = self._decoded(self._tokens[self._from :])
        self._rest = after[len(before) :]
        window = self._stops.window + self._rest
        found = self._stops.find(window)
        if found is not None:
            self._cut(self._settled_length - len(self._stops.window) + found)
            return True
        if self._rest and not after.endswith("\ufffd"):
            self._settled.append(self._rest)
            self._settled_length += len(self._rest)
            self._stops.settle(window)
            self._rest = ""
            self._from, self._read = self._read, len(self._tokens)
            if self._from > _MOST_TOKENS:
                del self._tokens[: self._from]
                self._from, self._read = 0, self._read - self._from
        return False

    def _cut(self, length: int) -> None:
        """Keep the first letters of the text."""
        text = self.text[:length]
        self._settled, self._settled_length, self._rest = [text], len(text), ""

    def news(self, last: bool = False) -> Iterator[str | int]:
        """Yield text that later tokens cannot change."""
        if self.tokenizer is None:
            yield from self.ids[self._told :]
            self._told = len(self.ids)
            return
        rest = self._rest
        held = 0
        if not last and self.finish_reason == "length":
            # A replacement character may become a letter, and the end of the text may begin a stop string.
            rest = rest.rstrip("\ufffd")
            held = self._stops.begun(self._stops.window + rest)
        certain = self._settled_length + len(rest) - held
        if certain > self._told:
            # Pieces that were yielded are joined to one; the rest of them is short.
            pieces, length = [rest], len(rest)
            for piece in reversed(self._settled):
                if self._settled_length + len(rest) - length <= self._told:
                    break
                pieces.append(piece)
                length += len(piece)
            begin = self._settled_length + len(rest) - length
            yield "".join(reversed(pieces))[self._told - begin : certain - begin]
            self._told = certain

    def result(self) -> Generation:
        """Return the finished text."""
        text = None if self.tokenizer is None else self.text
        return Generation(self.ids, text, self.logprobs, self.finish_reason, self.end_token, self.top_logprobs)


class _Stops:
    """Texts that end a generation, searched where new letters may complete them.

    Attributes
    ----------
    window : str
        The last letters of the settled text in which a stop string may have begun.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._most = max(map(len, stops), default=1) - 1
        self._begun = {stop[:length] for stop in stops for length in range(1, len(stop))}
        self._lengths = sorted({len(begun) for begun in self._begun}, reverse=True)
        self.window = ""

    def find(self, text: str) -> int | None:
        """Return where the first stop string of a text begins."""
        found = [at for at in map(text.find, self._stops) if at >= 0]
        return min(found, default=None)

    def settle(self, text: str) -> None:
        """Take a text that has no stop string for what is before the next letters."""
        self.window = text[max(0, len(text) - self._most) :] if self._most else ""

    def begun(self, text: str) -> int:
        """Return how many letters at the end of a text may begin a stop string."""
        fitting = (length for length in self._lengths if length <= len(text))
        return next((length for length in fitting if text[len(text) - length :] in self._begun), 0)
