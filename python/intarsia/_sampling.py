# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Choose the next token from logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._errors import InvalidArgumentError


@dataclass(frozen=True)
class Sampling:
    """The rules for choosing the next token, applied in the order below. Each rule sees only the tokens that remain.

    Attributes
    ----------
    repetition_penalty : float
        Divides positive and multiplies negative logits of tokens that already occur (arXiv 1909.05858, section 4.1).
    temperature : float
        Divides logits; 0 takes the most likely token.
    top_k : int
        Keeps this many most likely tokens; 0: all.
    top_p : float
        Keeps the fewest most likely tokens whose probabilities sum to at least this (arXiv 1904.09751, section 3.1).
    min_p : float
        Keeps tokens at least this times as likely as the most likely one (arXiv 2407.01082, section 3).
    """

    repetition_penalty: float = 1.0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        for name, valid, wanted in (
            ("repetition_penalty", self.repetition_penalty > 0, "above 0"),
            ("temperature", self.temperature >= 0, "at least 0"),
            ("top_k", self.top_k >= 0, "at least 0"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "from 0 to 1"),
        ):
            if not valid:
                raise InvalidArgumentError(f"{name} is {getattr(self, name)}, must be {wanted}", "invalid argument")

    def probabilities(self, logits: np.ndarray, context: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the probability of each token [vocabulary] as the next one after `context` [tokens]."""
        scores = self._penalised(logits, context)
        if self.temperature == 0.0:
            chosen = np.zeros(scores.size)
            chosen[scores.argmax()] = 1.0
            return chosen
        scores = scores / self.temperature
        tokens = None
        if 0 < self.top_k < scores.size:
            tokens = np.flatnonzero(scores >= np.partition(scores, -self.top_k)[-self.top_k])
            scores = scores[tokens]
        chosen = np.exp(scores - scores.max()).astype(np.float64)
        if self.top_p < 1.0:
            chosen /= chosen.sum()
            likeliest = _likeliest(chosen, self.top_p)
            tokens = likeliest if tokens is None else tokens[likeliest]
            chosen = chosen[likeliest]
        if self.min_p > 0.0:
            chosen[chosen < self.min_p * chosen.max()] = 0.0
        chosen /= chosen.sum()
        if tokens is None:
            return chosen
        result = np.zeros(logits.size)
        result[tokens] = chosen
        return result

    def choose(self, logits: np.ndarray, context: Sequence[int] | np.ndarray, random: np.random.Generator) -> int:
        """Return the next token after `context` [tokens], given its logits [vocabulary]."""
        if self.temperature == 0.0:
            return int(self._penalised(logits, context).argmax())
        return draw(self.probabilities(logits, context), random)

    def _penalised(self, logits: np.ndarray, context: Sequence[int] | np.ndarray) -> np.ndarray:
        if self.repetition_penalty == 1.0:
            return logits
        seen = np.unique(context)
        scores = logits.astype(np.float64)
        penalised = scores[seen]
        scores[seen] = np.where(penalised > 0, penalised / self.repetition_penalty, penalised * self.repetition_penalty)
        return scores


def _likeliest(probabilities: np.ndarray, total: float) -> np.ndarray:
    """Return the fewest most likely tokens whose probabilities sum to at least `total`."""
    size = probabilities.size
    # Few tokens of a large vocabulary are likely, and sorting all of them would take longer than a small model.
    count = min(1024, size)
    while True:
        tokens = np.sort(np.argpartition(probabilities, -count)[-count:])
        tokens = tokens[np.argsort(-probabilities[tokens], kind="stable")]
        before = np.cumsum(probabilities[tokens]) - probabilities[tokens]
        if count == size or before[-1] >= total:
            return tokens[before < total]
        count = min(8 * count, size)


def draw(probabilities: np.ndarray, random: np.random.Generator) -> int:
    """Return a token with its probability; `probabilities` [vocabulary] need not sum to 1."""
    cumulative = np.cumsum(probabilities)
    return int(np.searchsorted(cumulative, random.random() * cumulative[-1], side="right"))
