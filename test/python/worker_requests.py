# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests for tests of workers, and a constraint without a grammar."""

from __future__ import annotations

from typing import Any

import numpy as np
from intarsia.generation.engine import Request
from intarsia.generation.sampling import SamplingOptions

_SAMPLING = set(SamplingOptions.__dataclass_fields__) - {"logprobs"}


def request(**changes: Any) -> Request:
    """Return a request of three tokens for five more, with changes of it and of its sampling."""
    sampling = SamplingOptions(**{name: changes.pop(name) for name in list(changes) if name in _SAMPLING})
    return Request(**{"prompt": [1, 2, 3], "max_tokens": 5, "sampling": sampling} | changes)


class Word:
    """A constraint that allows the tokens of a word, one after another; token 0 ends a text."""

    def __init__(self, tokens: tuple[int, ...], at: int = 0, fails_at: int = -1) -> None:
        self.tokens, self.at, self.fails_at = tokens, at, fails_at

    def copy(self) -> Word:
        return Word(self.tokens, self.at, self.fails_at)

    @property
    def is_complete(self) -> bool:
        return self.at == len(self.tokens)

    def accept(self, token: int) -> bool:
        if token == 0:
            return True
        if token != self.tokens[self.at]:
            raise ValueError(f"the grammar does not allow token {token}")
        self.at += 1
        return self.is_complete

    def fill(self, bits: np.ndarray) -> None:
        if self.at == self.fails_at:
            raise ValueError("out of fuel")
        token = self.tokens[self.at]
        bits[token // 32] |= 1 << token % 32
