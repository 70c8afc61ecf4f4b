# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The choice of a token in NumPy and float64, which the runtime's is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from intarsia.generation.sampling import Likeliest, SamplingOptions
from intarsia.support.errors import InvalidArgumentError

#: Likeliest tokens that are looked at first.
_FEW = 1024
#: Lower temperatures divide by this.
_LEAST_TEMPERATURE = 1e-30

_Result = TypeVar("_Result")


class Reference(SamplingOptions):
    """Options whose methods are NumPy's."""

    @property
    def _counts(self) -> bool:
        return self.presence_penalty != 0.0 or self.frequency_penalty != 0.0

    @property
    def divisor(self) -> float:
        """What differences of logits are divided by; 1 if the most likely token is taken."""
        return max(self.temperature, _LEAST_TEMPERATURE) if self.temperature else 1.0

    def probabilities(self, logits: np.ndarray, context: Sequence[int] | np.ndarray, generated: int = 0) -> np.ndarray:
        """Return the probability of each token [vocabulary] as the next one after `context` [tokens].

        The last `generated` tokens of the context were generated, the others are the prompt.
        """
        scores = self._penalised(logits, context, generated)
        result = np.zeros(scores.size)
        if self.temperature == 0.0:
            result[_likeliest_token(scores)] = 1.0
            return result
        if not self.top_k and self.top_p == 1.0 and not self.min_p:
            powers = np.exp((scores - _largest(scores)) / self.divisor).astype(np.float64)
            return powers / powers.sum()

        def fill(likeliest: Likeliest) -> np.ndarray | None:
            weights = self._weights(likeliest)
            kept = self._keep(likeliest, weights)
            if kept is None or min(kept[0], likeliest.vocabulary) > weights.size:
                return None
            count, _, _ = kept
            result[likeliest.tokens[:count]] = weights[:count] / weights[:count].sum()
            return result

        return self._decide(scores, fill)

    def choose(self, logits: np.ndarray, context: Sequence[int] | np.ndarray, number: float, generated: int = 0) -> int:
        """Return the next token after `context` [tokens], given its logits [vocabulary] and a number in [0, 1).

        The last `generated` tokens of the context were generated, the others are the prompt.
        """
        scores = self._penalised(logits, context, generated)
        if self.temperature == 0.0:
            return _likeliest_token(scores)
        return self._decide(scores, lambda likeliest: self._draw(likeliest, number))

    def choose_candidate(self, likeliest: Likeliest, number: float) -> int | None:
        """Return the token that `choose` returns for the same number; None if that needs all logits."""
        if self.temperature == 0.0:
            return int(likeliest.tokens[0])
        if not np.isfinite(likeliest.total):
            return None
        return self._draw(likeliest, number)

    def _decide(self, scores: np.ndarray, decide: Callable[[Likeliest], _Result | None]) -> _Result:
        """Return what is decided by as few of the likeliest tokens as suffice."""
        total = float(np.exp((scores - _largest(scores)) / self.divisor).sum(dtype=np.float64))
        count = min(_FEW, scores.size)
        while True:
            tokens = likeliest_tokens(scores, count)
            result = decide(Likeliest(tokens, scores[tokens], total, 0.0, scores.size))
            if result is not None:
                return result
            count = min(8 * count, scores.size)

    def _weights(self, likeliest: Likeliest) -> np.ndarray:
        """Return what the probabilities of the tokens are proportional to."""
        logits = likeliest.logits.astype(np.float64)
        return np.exp((logits - logits[0]) / self.divisor)

    def _keep(self, likeliest: Likeliest, weights: np.ndarray) -> tuple[int, float, float] | None:
        """Apply the rules.

        Returns
        -------
        (int, float, float) or None
            How many of the likeliest tokens remain, the sum of their weights, and by how much that may be off; None if
            too few tokens are known.
        """
        count, total, error = likeliest.vocabulary, likeliest.total, likeliest.total * likeliest.error
        known = weights.size
        sums = np.cumsum(weights)
        if 0 < self.top_k < count:
            if self.top_k > known:
                return None
            count, total, error = self.top_k, float(sums[self.top_k - 1]), 0.0
        if self.top_p < 1.0:
            # A token remains if those before it sum to less than the limit.
            limit = self.top_p * total
            before = sums[: min(count, known)]
            kept = int(np.searchsorted(before, limit)) + 1
            if _is_near(before, limit, error) or (kept > known and known < count):
                return None
            count = min(kept, count)
            total, error = float(sums[count - 1]), 0.0
        if self.min_p > 0.0:
            kept = int(np.count_nonzero(weights[: min(count, known)] >= self.min_p))
            if kept == known and known < count:
                return None
            if kept < count:
                count, total, error = kept, float(sums[kept - 1]), 0.0
        return count, total, error

    def _draw(self, likeliest: Likeliest, number: float) -> int | None:
        """Return the token that a number in [0, 1) means; None if too few tokens are known."""
        weights = self._weights(likeliest)
        kept = self._keep(likeliest, weights)
        if kept is None:
            return None
        count, total, error = kept
        sums = np.cumsum(weights[:count])
        at = number * total
        index = int(np.searchsorted(sums, at, side="right"))
        if _is_near(sums, at, error):
            return None
        if index == sums.size:
            if index < count:
                return None
            # The total may be above the running sum by its rounding.
            index = int(np.count_nonzero(weights[:count])) - 1
        return int(likeliest.tokens[index])

    def _penalised(self, logits: np.ndarray, context: Sequence[int] | np.ndarray, generated: int) -> np.ndarray:
        """Return logits with biases and penalties; those without any are returned as they are."""
        if self.repetition_penalty == 1.0 and not self._counts and not self.logit_bias:
            return logits
        scores = logits.astype(np.float64)
        for token, bias in (self.logit_bias or {}).items():
            scores[token] += bias
        if self.repetition_penalty != 1.0:
            seen = np.unique(np.asarray(context, np.int64))
            found = scores[seen]
            scores[seen] = np.where(found > 0, found / self.repetition_penalty, found * self.repetition_penalty)
        if self._counts and generated:
            seen, counts = np.unique(np.asarray(context[len(context) - generated :], np.int64), return_counts=True)
            scores[seen] -= self.presence_penalty + self.frequency_penalty * counts
        return scores


def _likeliest_token(scores: np.ndarray) -> int:
    """Return the token with the largest score; refuse scores that allow none."""
    token = int(scores.argmax())
    if scores[token] == -np.inf:
        _largest(scores)
    return token


def _largest(scores: np.ndarray) -> float:
    """Return the largest score; refuse those that no distribution follows from."""
    largest = scores.max()
    if not np.isfinite(largest):
        raise InvalidArgumentError(
            f"the largest logit is {largest}: no token can be drawn; the model's weights may be corrupted, or its "
            "activations beyond what their type holds",
            "invalid argument",
        )
    return largest


def _is_near(sums: np.ndarray, at: float, error: float) -> bool:
    """Return True if a number may be on the other side of one of some ascending sums than it seems."""
    return error > 0.0 and bool(np.searchsorted(sums, at - error) != np.searchsorted(sums, at + error, side="right"))


def likeliest_tokens(scores: np.ndarray, count: int) -> np.ndarray:
    """Return the tokens with the largest scores, the largest first; of equal scores the lower token comes first."""
    if count < scores.size:
        least = np.partition(scores, -count)[-count]
        above = np.flatnonzero(scores > least)
        tokens = np.concatenate([above, np.flatnonzero(scores == least)[: count - above.size]])
    else:
        tokens = np.arange(scores.size)
    return tokens[np.argsort(-scores[tokens], kind="stable")]


def draw(probabilities: np.ndarray, number: float) -> int:
    """Return a token with its probability; `probabilities` [vocabulary] need not sum to 1.

    The number in [0, 1) means a token as it does in `SamplingOptions`: shares lie side by side, the largest first.
    """
    at = number * probabilities.sum()
    count = min(_FEW, probabilities.size)
    while True:
        tokens = likeliest_tokens(probabilities, count)
        sums = np.cumsum(probabilities[tokens])
        index = int(np.searchsorted(sums, at, side="right"))
        if index < count:
            return int(tokens[index])
        if count == probabilities.size:
            # The sum in pairs may be above the running sum.
            return int(tokens[np.count_nonzero(probabilities[tokens]) - 1])
        count = min(8 * count, probabilities.size)
