# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tokens that may come next in the texts of an engine."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .constrained import Constraint


class Masks:
    """Says which tokens may come next in texts that have a constraint.

    The engine's thread calls it before each step.

    Attributes
    ----------
    lock : threading.RLock
        Held while a request is submitted: the thread asks for its first mask when it is known here.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[int, int], MaskedText] = {}
        self._errors: dict[int, str] = {}
        self.lock = threading.RLock()

    def add(self, request: int, samples: int, constraint: Constraint) -> None:
        """Take the constraint of a request; each of its samples is a text of its own."""
        with self.lock:
            for sample in range(samples):
                self._texts[request, sample] = MaskedText(constraint)

    def error(self, request: int) -> str | None:
        """Return what failed, if something did."""
        with self.lock:
            return self._errors.get(request)

    def remove(self, request: int, samples: int) -> None:
        """Forget a request that has ended."""
        with self.lock:
            for sample in range(samples):
                self._texts.pop((request, sample), None)
            self._errors.pop(request, None)

    def __call__(self, rows: list[tuple[int, int, list[int], np.ndarray]]) -> list[bool]:
        """Fill the bits of texts; return which of them are complete."""
        complete = []
        for request, sample, tokens, bits in rows:
            with self.lock:
                text = self._texts[request, sample]
            try:
                complete.append(text.fill(tokens, bits))
            except Exception as error:
                with self.lock:
                    self._errors[request] = str(error)
                raise
        return complete


class MaskedText:
    """A text and the constraint's state after it; the constraint itself is left as it is."""

    def __init__(self, constraint: Constraint) -> None:
        self._first, self._state = constraint, constraint.copy()
        self._tokens: list[int] = []

    def fill(self, tokens: list[int], bits: np.ndarray) -> bool:
        """Fill the bits of the tokens that may follow those of the text; return True if none need follow."""
        known = len(self._tokens)
        if self._tokens != tokens[:known]:  # proposals of a draft were refused
            self._state, self._tokens, known = self._first.copy(), [], 0
        complete = False
        for token in tokens[known:]:
            complete = self._state.accept(token)
            self._tokens.append(token)
        complete = complete or self._state.is_complete
        if not complete:
            self._state.fill(bits)
        return complete
