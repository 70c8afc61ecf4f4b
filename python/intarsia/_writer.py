# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The continuation of one prompt: chooses tokens by their logits, and decodes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ._constrained import Constraint
from ._device_rows import DeviceRow, log_probability
from ._sampling import Sampling

if TYPE_CHECKING:
    from ._generator import Generator


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
    """

    ids: list[int]
    text: str | None
    logprobs: list[float]
    finish_reason: str


class Writer:
    """The continuation of one prompt; it has the attributes of `Generation` while they grow."""

    def __init__(
        self,
        generator: Generator,
        prompt: list[int],
        stops: list[str],
        sampling: Sampling,
        random: np.random.Generator,
        constraint: Constraint | None,
    ) -> None:
        self.tokenizer = generator.tokenizer
        self.vocabulary = generator.vocabulary
        self.ends = generator._ends if constraint is None else generator._ends | constraint.ends
        self.prompt, self.stops, self.sampling, self.random = prompt, stops, sampling, random
        self.constraint = constraint
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.finish_reason = "length"
        self.text = ""
        self.told = 0
        # Tokens are decoded together with the tokens before them: some tokenizers drop a leading space.
        self._tokens = self._whole_letters(prompt)
        self._from, self._read = 0, len(self._tokens)
        self._settled = ""

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Return the probability [vocabulary] of each token as the next one."""
        return self.sampling.probabilities(self._allowed(logits), self.prompt + self.ids)

    def _allowed(self, logits: np.ndarray) -> np.ndarray:
        return logits if self.constraint is None else self.constraint.restrict(logits)

    @property
    def needs_all_logits(self) -> bool:
        """True if the likeliest tokens alone decide nothing."""
        return self.constraint is not None or self.sampling.needs_all_logits

    def take(self, logits: np.ndarray | DeviceRow) -> int | None:
        """Choose the next token; None when the text ends."""
        number = self.random.random() if self.sampling.temperature else 0.0
        token = None
        if isinstance(logits, DeviceRow) and not self.needs_all_logits:
            token = self.sampling.choose_candidate(logits.likeliest, number)
        if token is None:
            everything = logits.logits() if isinstance(logits, DeviceRow) else logits
            token = self.sampling.choose(self._allowed(everything), self.prompt + self.ids, number)
        return token if self.add(token, logits) else None

    def add(self, token: int, logits: np.ndarray | DeviceRow) -> bool:
        """Append a token, given the logits that it was chosen by; return True if the text continues after it."""
        complete = self.constraint is not None and self.constraint.accept(token)
        if token in self.ends:
            self.finish_reason = "end"
            return False
        self.ids.append(token)
        self.logprobs.append(log_probability(logits, token))
        if self.tokenizer is not None:
            self.text = self._decode(token)
            found = [at for at in (self.text.find(stop) for stop in self.stops if stop) if at >= 0]
            if found:
                self.text = self.text[: min(found)]
                self.finish_reason = "stop"
                return False
        if complete:
            self.finish_reason = "end"
        return not complete

    def _whole_letters(self, prompt: list[int]) -> list[int]:
        """Return the last tokens of a prompt: at least one, and only whole characters."""
        if self.tokenizer is None:
            return []
        counts = (count for count in range(1, 5) if "\ufffd" not in self.tokenizer.decode(prompt[-count:]))
        return prompt[-next(counts, 1) :]

    def _decode(self, token: int) -> str:
        """Return the text with one more token; only tokens whose text may still change are decoded."""
        self._tokens.append(token)
        before = self.tokenizer.decode(self._tokens[self._from : self._read])
        after = self.tokenizer.decode(self._tokens[self._from :])
        text = self._settled + after[len(before) :]
        if len(after) > len(before) and not after.endswith("\ufffd"):
            self._settled, self._from, self._read = text, self._read, len(self._tokens)
        return text

    def news(self, last: bool = False) -> Iterator[str | int]:
        """Yield text that later tokens cannot change."""
        if self.tokenizer is None:
            yield from self.ids[self.told :]
            self.told = len(self.ids)
            return
        certain = len(self.text)
        if not last and self.finish_reason == "length":
            # A replacement character may become a letter, and the end of the text may begin a stop string.
            certain = len(self.text.rstrip("\ufffd"))
            for stop in self.stops:
                for length in range(min(len(stop) - 1, certain), 0, -1):
                    if self.text[:certain].endswith(stop[:length]):
                        certain -= length
                        break
        if certain > self.told:
            yield self.text[self.told : certain]
            self.told = certain

    def result(self) -> Generation:
        """Return the finished text."""
        text = None if self.tokenizer is None else self.text
        return Generation(self.ids, text, self.logprobs, self.finish_reason)
