# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Options of sampling; choose the next token from logits, or from the likeliest tokens alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, TypeVar

import numpy as np

from ..support.checks import brief, real_number, whole_number
from ..support.errors import InvalidArgumentError
from .arguments import texts_to_stop, tokens_to_stop

#: Likeliest tokens that are looked at first: few tokens of a large vocabulary are likely, and sorting all of them would
#: take longer than a small model.
_FEW = 1024
#: By how much, relatively, a sum of exponentials that a device computed may be off. Measured are at most 1e-6
#: (test_gpu_candidates.py); what a larger error than this could change is decided by all logits.
DEVICE_ERROR = 1e-5

#: Lower temperatures divide by this: differences of logits over lower ones are beyond what floats of 32 bits hold, and
#: the token with the largest logit takes all of the probability either way.
_LEAST_TEMPERATURE = 1e-30
#: By a higher temperature all tokens are equally likely in single precision.
_MOST_TEMPERATURE = 1e9
#: By a larger penalty, or one over it, a logit in single precision may leave its range.
_MOST_PENALTY = 1e9
#: Likeliest tokens whose probabilities may be asked for.
_MOST_LOGPROBS = 20

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Likeliest:
    """The likeliest tokens of a vocabulary, as many as are known.

    Attributes
    ----------
    tokens : ndarray of int [known]
        The likeliest token first; of those with equal logits the lower one.
    logits : ndarray of float [known]
        Their logits.
    total : float
        The sum over the whole vocabulary of exp((logit - largest logit) / temperature).
    error : float
        By how much, relatively, `total` may be off.
    vocabulary : int
        Tokens of the vocabulary.
    """

    tokens: np.ndarray
    logits: np.ndarray
    total: float
    error: float
    vocabulary: int


@dataclass(frozen=True)
class SamplingOptions:
    """How the next token is chosen, and when a text ends.

    Rules are applied in the order below, each to the tokens that remain. A token is drawn by one random number: it is
    the one in whose share of the probability the number lies, when the shares of the tokens that remain lie side by
    side, that of the likeliest first. What the likeliest tokens decide needs no others (decision 35).

    Attributes
    ----------
    logit_bias : mapping of int to float, optional
        Is added to the logits of tokens; -inf forbids one.
    repetition_penalty : float
        Divides positive and multiplies negative logits of tokens that already occur (arXiv 1909.05858, section 4.1).
    presence_penalty : float
        Is subtracted from logits of tokens that were generated.
    frequency_penalty : float
        Likewise, times how often a token was generated.
    temperature : float
        Divides logits; 0 takes the most likely token.
    top_k : int
        Keeps this many most likely tokens, of equally likely ones the lower ids; 0: all.
    top_p : float
        Keeps the fewest most likely tokens whose probabilities sum to at least this (arXiv 1904.09751, section 3.1).
    min_p : float
        Keeps tokens at least this times as likely as the most likely one (arXiv 2407.01082, section 3).
    seed : int, optional
        Makes sampling repeatable; it may be negative. Each prompt has its own random stream, independent of the batch.
    stop : str or sequence of str
        Texts that end the generation; they are not part of the result.
    stop_tokens : sequence of int
        Tokens that end the generation, beside those of the model.
    min_tokens : int
        No token ends the generation before so many; where only such tokens are allowed, the text ends earlier.
    logprobs : int, optional
        Of so many likeliest tokens the result has the probabilities too (`Generation.top_logprobs`).
    """

    logit_bias: Mapping[int, float] | None = field(default=None, hash=False)
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | Sequence[str] = ()
    stop_tokens: Sequence[int] = ()
    min_tokens: int = 0
    logprobs: int | None = None

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        for name, least, most in (
            ("repetition_penalty", 1 / _MOST_PENALTY, _MOST_PENALTY),
            ("presence_penalty", -_MOST_PENALTY, _MOST_PENALTY),
            ("frequency_penalty", -_MOST_PENALTY, _MOST_PENALTY),
            ("temperature", 0.0, _MOST_TEMPERATURE),
            ("top_p", 0.0, 1.0),
            ("min_p", 0.0, 1.0),
        ):
            self._set(name, real_number(name, getattr(self, name), least, most))
        if self.top_p == 0.0:
            raise InvalidArgumentError("top_p is 0.0, must be above 0", "invalid argument")
        self._set("top_k", whole_number("top_k", self.top_k, 0))
        self._set("min_tokens", whole_number("min_tokens", self.min_tokens, 0))
        if self.seed is not None:
            self._set("seed", whole_number("seed", self.seed, -(2**63)))
        if self.logprobs is not None:
            self._set("logprobs", whole_number("logprobs", self.logprobs, 0, _MOST_LOGPROBS))
        self._set("stop", tuple(texts_to_stop(self.stop)))
        self._set("stop_tokens", tokens_to_stop(self.stop_tokens))
        if self.logit_bias is not None:
            self._set("logit_bias", _checked_biases(self.logit_bias))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def check_tokens(self, vocabulary: int) -> None:
        """Refuse tokens that a model does not have."""
        for name, tokens in (("logit_bias", self.logit_bias or ()), ("stop_tokens", self.stop_tokens)):
            if (largest := max(tokens, default=0)) >= vocabulary:
                raise InvalidArgumentError(
                    f"{name} has token {largest}, which the model does not have: its vocabulary is 0 to "
                    f"{vocabulary - 1}",
                    "invalid argument",
                )

    @property
    def needs_all_logits(self) -> bool:
        """True if the likeliest tokens by the model's own logits say nothing of those by the rules."""
        return self.repetition_penalty != 1.0 or self._counts or bool(self.logit_bias)

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


class SamplingKeywords(TypedDict, total=False):
    """The fields of `SamplingOptions` as keywords of a function."""

    logit_bias: Mapping[int, float] | None
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int | None
    stop: str | Sequence[str]
    stop_tokens: Sequence[int]
    min_tokens: int
    logprobs: int | None


def _checked_biases(biases: Mapping[int, float]) -> dict[int, float]:
    if not isinstance(biases, Mapping):
        raise InvalidArgumentError(
            f"logit_bias is of type {type(biases).__name__}, must be a mapping from token ids to numbers",
            "invalid argument",
        )
    return {
        whole_number("a token of logit_bias", token, 0): real_number(
            f"logit_bias of token {brief(token)}", bias, -np.inf, _MOST_PENALTY
        )
        for token, bias in biases.items()
    }


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


def draw(probabilities: np.ndarray, random: np.random.Generator) -> int:
    """Return a token with its probability; `probabilities` [vocabulary] need not sum to 1.

    The random number means a token as it does in `SamplingOptions`: shares lie side by side, the largest first.
    """
    at = random.random() * probabilities.sum()
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
