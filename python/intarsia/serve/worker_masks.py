# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Answer a worker's questions which tokens may come next."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

import numpy as np

from ..generation.constrained import Constraint
from ..generation.masks import MaskedText
from . import worker_protocol as protocol
from .worker_protocol import MaskRow


class MaskAnswers:
    """Holds the texts of requests with constraints, and answers questions about them in a thread of its own.

    Parameters
    ----------
    vocabulary : int
        Tokens of the model.
    send : callable
        Takes the messages that answer.
    """

    def __init__(self, vocabulary: int, send: Callable[[bytes], None]) -> None:
        self._words = (vocabulary + 31) // 32
        self._send = send
        self._texts: dict[tuple[int, int], _Text] = {}
        self._questions: queue.SimpleQueue[tuple[int, list[MaskRow]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None  # most workers are asked for no masks

    def add(self, request: int, samples: int, constraint: Constraint) -> None:
        """Take the constraint of a request; each of its samples is a text of its own."""
        for sample in range(samples):
            self._texts[request, sample] = _Text(constraint)

    def forget(self, request: int, sample: int) -> str | None:
        """Drop a sample that has ended; return why its grammar could not go on, if that was so."""
        text = self._texts.pop((request, sample), None)
        return None if text is None else text.problem

    def ask(self, number: int, rows: list[MaskRow]) -> None:
        """Take a question: the number of a round, and the texts whose next tokens are asked for."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._answer_questions, name="intarsia-masks", daemon=True)
            self._thread.start()
        self._questions.put((number, rows))

    def close(self) -> None:
        """Answer no more questions than have come."""
        self._questions.put(None)

    def _answer_questions(self) -> None:
        while (question := self._questions.get()) is not None:
            number, rows = question
            complete, bits = self._answer(rows)
            self._send(protocol.masks(number, complete, memoryview(bits).cast("B")))

    def _answer(self, rows: Sequence[MaskRow]) -> tuple[bytes, np.ndarray]:
        """Return which texts are complete, a byte each, and the bits of tokens that may come next, u32 [rows, words].

        A text whose grammar fails, or that is not known, has no token that may come next.
        """
        complete = bytearray(len(rows))
        bits = np.zeros((len(rows), self._words), np.uint32)
        for i, row in enumerate(rows):
            text = self._texts.get((row.request, row.sample))  # it may end meanwhile
            if text is not None:
                complete[i] = text.fill(row, bits[i])
        return bytes(complete), bits


class _Text:
    """A text with a constraint.

    Attributes
    ----------
    problem : str or None
        Why its grammar cannot go on.
    """

    def __init__(self, constraint: Constraint) -> None:
        self.problem: str | None = None
        self._constraint = constraint
        self._masked: MaskedText | None = None
        self._tokens: list[int] = []

    def fill(self, row: MaskRow, bits: np.ndarray) -> bool:
        """Fill the bits of a row; return True if the text is complete. A text that has failed has no bits."""
        if self.problem is not None:
            return False
        self._tokens[row.kept :] = row.added
        try:
            if self._masked is None:
                self._masked = MaskedText(self._constraint)
            return self._masked.fill(self._tokens, bits)
        except BaseException as error:  # a panic of llguidance is no Exception; other texts go on
            self.problem = str(error) or type(error).__name__
            bits[:] = 0
            return False
