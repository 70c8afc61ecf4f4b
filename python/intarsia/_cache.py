# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The memory of language models' sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from . import _runtime
from ._checks import INT64_MAX, token_ids, whole_number
from ._module import Module


class Cache(_runtime.Cache):
    """What a language model keeps of sequences of tokens, in pages that sequences with a common beginning share.

    Calls may come from several threads, and are done one after another.

    Parameters
    ----------
    module : Module
        A language model.
    function : str
        Its step function.
    sequences : int
        The most sequences at a time.
    pages : int
        Pages of all sequences together; 0: what `memory` is enough for.
    memory : int
        The most bytes that the cache may take; 0: no limit, and half of what is available where `pages` is 0.

    Raises
    ------
    Error
        The machine, or the cgroup, has less memory available.
    """

    def __init__(
        self, module: Module, function: str = "step", *, sequences: int = 1, pages: int = 0, memory: int = 0
    ) -> None:
        super().__init__(module._runtime, function, *_checked(sequences, pages, memory))

    @staticmethod
    def bytes_needed(
        module: Module, function: str = "step", *, sequences: int = 1, pages: int = 0, memory: int = 0
    ) -> int:
        """Return the bytes that a cache takes, without making it."""
        return _runtime.cache_bytes_needed(module._runtime, function, *_checked(sequences, pages, memory))

    def step(self, chunks: Iterable[tuple[_runtime.Sequence, Sequence[int], int]]) -> np.ndarray:
        """Append tokens to sequences in one call.

        Parameters
        ----------
        chunks : iterable of (Sequence, token ids, int)
            Each sequence at most once; the number says after how many of its last tokens logits are wanted.

        Returns
        -------
        ndarray, float32 [sum of the numbers, vocabulary]
            Logits in the order of the chunks.

        Raises
        ------
        InvalidArgumentError
            A token is not in the vocabulary, or a sequence gets longer than the model's context.
        CacheFullError
            No page is left. The sequences are what they were before.
        """
        logits = super().step([(sequence, token_ids(ids), outputs) for sequence, ids, outputs in chunks])
        return np.empty((0, self.info["vocabulary"]), np.float32) if logits is None else logits


def _checked(sequences: int, pages: int, memory: int) -> tuple[int, int, int]:
    """Return what a cache is asked for, within what the runtime can be told."""
    return (
        whole_number("sequences", sequences, 0, INT64_MAX),
        whole_number("pages", pages, 0, INT64_MAX),
        whole_number("memory", memory, 0, INT64_MAX),
    )
