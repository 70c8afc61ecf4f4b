# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compute prompts in a cache, without choosing tokens after them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import _runtime
from .cache import Cache


def compute(
    cache: Cache, sequences: Sequence[_runtime.Sequence], prompts: Sequence[Sequence[int]], every_token: bool = False
) -> list[list[np.ndarray]]:
    """Append the tokens of prompts that their sequences do not have, in parts that suit the model.

    Returns
    -------
    list of list of ndarray [tokens, vocabulary]
        Of each prompt the logits after every token that was appended, in parts; or after its last one.
    """
    results: list[list[np.ndarray]] = [[] for _ in prompts]
    begins = [sequence.length for sequence in sequences]
    rest = sum(len(prompt) - begin for prompt, begin in zip(prompts, begins, strict=True))
    room = part = cache.prefill_tokens(rest)
    pieces: list[tuple[int, int, int]] = []
    for i, prompt in enumerate(prompts):
        begin = begins[i]
        while begin < len(prompt):
            end = min(begin + room, len(prompt))
            pieces.append((i, begin, end))
            room -= end - begin
            begin = end
            if room == 0:
                _step(cache, sequences, prompts, pieces, every_token, results)
                pieces, room = [], part
    if pieces:
        _step(cache, sequences, prompts, pieces, every_token, results)
    return results


def _step(
    cache: Cache,
    sequences: Sequence[_runtime.Sequence],
    prompts: Sequence[Sequence[int]],
    pieces: list[tuple[int, int, int]],
    every_token: bool,
    results: list[list[np.ndarray]],
) -> None:
    # The wanted logits are those of the last tokens of a piece.
    counts = [end - begin if every_token else int(end == len(prompts[i])) for i, begin, end in pieces]
    chunks = [
        (sequences[i], prompts[i][begin:end], count) for (i, begin, end), count in zip(pieces, counts, strict=True)
    ]
    logits = cache.step(chunks)
    for (i, _, _), count, end in zip(pieces, counts, np.cumsum(counts), strict=True):
        if count:
            results[i].append(logits[end - count : end])
