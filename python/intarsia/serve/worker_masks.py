# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Answer a worker's questions which tokens may come next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..generation.constrained import Constraint
from ..generation.masks import MaskedText
from .worker_protocol import MaskRow


class MaskAnswers:
    """Holds the texts of requests with constraints.

    Parameters
    ----------
    vocabulary : int
        Tokens of the model.
    """

    def __init__(self, vocabulary: int) -> None:
        self._words = (vocabulary + 31) // 32
        self._texts: dict[tuple[int, int], tuple[MaskedText, list[int]]] = {}
        self._problems: dict[tuple[int, int], str] = {}

    def add(self, request: int, samples: int, constraint: Constraint) -> None:
        """Take the constraint of a request; each of its samples is a text of its own."""
        for sample in range(samples):
            self._texts[request, sample] = MaskedText(constraint), []

    def forget(self, request: int, sample: int) -> str | None:
        """Drop a sample that has ended; return why its grammar could not go on, if that was so."""
        self._texts.pop((request, sample), None)
        return self._problems.pop((request, sample), None)

    def answer(self, rows: Sequence[MaskRow]) -> tuple[bytes, np.ndarray]:
        """Return which texts are complete, a byte each, and the bits of tokens that may come next, u32 [rows, words].

        A text whose grammar fails, or that is not known, has no token that may come next.
        """
        complete = bytearray(len(rows))
        bits = np.zeros((len(rows), self._words), np.uint32)
        for i, row in enumerate(rows):
            name = row.request, row.sample
            if name not in self._texts or name in self._problems:
                continue
            text, tokens = self._texts[name]
            tokens[row.kept :] = row.added
            try:
                complete[i] = text.fill(tokens, bits[i])
            except Exception as error:  # a grammar of a user: its text ends, others go on
                self._problems[name] = str(error)
                bits[i] = 0
        return bytes(complete), bits
