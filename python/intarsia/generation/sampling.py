# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Options of sampling; the runtime chooses the next token from logits, or from the likeliest tokens alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np

from .. import _runtime
from ..support.checks import INT64_MAX, brief, real_number, token_ids, whole_number
from ..support.errors import InvalidArgumentError
from .arguments import texts_to_stop, tokens_to_stop

#: By how much, relatively, a sum of exponentials that a device computed may be off.
DEVICE_ERROR = _runtime.DEVICE_ERROR

#: By a higher temperature all tokens are equally likely in single precision.
_MOST_TEMPERATURE = 1e9
#: By a larger penalty, or one over it, a logit in single precision may leave its range.
_MOST_PENALTY = 1e9
#: Likeliest tokens whose probabilities may be asked for.
_MOST_LOGPROBS = 20


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
    def runtime(self) -> _runtime.SamplingRules:
        """The rules for the sampler of the runtime."""
        biases = self.logit_bias or {}
        return _runtime.SamplingRules(
            np.fromiter(biases.keys(), np.int64),
            np.fromiter(biases.values(), np.float32),
            self.repetition_penalty,
            self.presence_penalty,
            self.frequency_penalty,
            self.temperature,
            min(self.top_k, INT64_MAX),
            self.top_p,
            self.min_p,
        )

    def probabilities(self, logits: np.ndarray, context: Sequence[int] | np.ndarray, generated: int = 0) -> np.ndarray:
        """Return the probability of each token [vocabulary] as the next one after `context` [tokens].

        The last `generated` tokens of the context were generated, the others are the prompt.
        """
        return np.array(self.runtime.probabilities(_row(logits), token_ids(context), generated))

    def choose(self, logits: np.ndarray, context: Sequence[int] | np.ndarray, number: float, generated: int = 0) -> int:
        """Return the next token after `context` [tokens], given its logits [vocabulary] and a number in [0, 1).

        The last `generated` tokens of the context were generated, the others are the prompt.
        """
        return self.runtime.choose(_row(logits), token_ids(context), number, generated)

    def choose_candidate(self, likeliest: Likeliest, number: float) -> int | None:
        """Return the token that `choose` returns for the same number; None if that needs all logits."""
        return self.runtime.choose_candidate(
            token_ids(likeliest.tokens),
            _row(likeliest.logits),
            likeliest.total,
            likeliest.error,
            likeliest.vocabulary,
            number,
        )


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


def _row(logits: np.ndarray) -> np.ndarray:
    """Return logits as the runtime takes them."""
    return np.ascontiguousarray(logits, np.float32)
