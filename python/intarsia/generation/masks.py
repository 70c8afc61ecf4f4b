# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tokens that may come next in the texts of an engine."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

if TYPE_CHECKING:
    from .. import _runtime
    from .constrained import Constraint

#: What `Masks` say of a text: it goes on, it is complete, or its tokens cannot be found.
_GOES_ON, _COMPLETE, _FAILED = 0, 1, -1


class Masks:
    """Says which tokens may come next in texts that have a constraint.

    The engine's thread calls it before each step.

    Attributes
    ----------
    lock : threading.RLock
        Held while a request is submitted: the thread asks for its first mask when it is known here.
    """

    def __init__(self) -> None:
        # Whoever takes the events of a request has it: where nobody does, it ends.
        self._requests: WeakValueDictionary[int, MaskedRequest] = WeakValueDictionary()
        self.lock = threading.RLock()

    def add(self, number: int, request: MaskedRequest) -> None:
        """Take a request by its number."""
        with self.lock:
            self._requests[number] = request

    def __call__(self, rows: list[tuple[int, int, list[int], np.ndarray]]) -> list[int]:
        """Fill the bits of texts; return what is to be said of each."""
        with self.lock:
            requests = [self._requests.get(number) for number, _, _, _ in rows]
        return [
            _COMPLETE if request is None else request.fill(sample, tokens, bits)
            for request, (_, sample, tokens, bits) in zip(requests, rows, strict=True)
        ]


class MaskedRequest:
    """The texts of a request that has a constraint; each of its samples is one.

    Attributes
    ----------
    open : int
        Texts that have not ended.
    error : str or None
        What failed, if something did.
    """

    def __init__(self, samples: int, constraint: Constraint) -> None:
        self.open = samples
        self.error: str | None = None
        self._texts = [MaskedText(constraint) for _ in range(samples)]

    def fill(self, sample: int, tokens: list[int], bits: np.ndarray) -> int:
        """Fill the bits of a text."""
        try:
            return _COMPLETE if self._texts[sample].fill(tokens, bits) else _GOES_ON
        except BaseException as error:  # a panic of llguidance is no Exception
            self.error = str(error) or type(error).__name__
            return _FAILED


def take_ends(requests: dict[int, MaskedRequest], finished: Iterable[_runtime.Event]) -> None:
    """Forget requests that have ended, and say why those failed for which no tokens can be found."""
    for event in finished:
        request = requests.get(event.request)
        if request is None:
            continue
        if event.message is not None and request.error is not None:
            event.message = request.error
        request.open -= 1
        if request.open == 0:
            del requests[event.request]


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
