# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The loop that continues texts together, a token of each in a step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from .batch import Batch
from .writer import Writer


def decode(batch: Batch, writers: list[Writer], max_tokens: int) -> Iterator[None]:
    """Decode all texts together until each has ended; yield after every forward step.

    Parameters
    ----------
    batch : Batch
        The sequences in the cache of the model.
    writers : list of Writer
        The writers that choose and collect tokens.
    max_tokens : int
        The most tokens to generate for each.
    """
    prompts = batch.prefill(every_token=False)
    # Sequences that are decoded together, how many tokens each has got, and what gives their latest logits.
    under_way: deque[tuple[list[int], int, Callable[[], list[Any]]]] = deque()
    for part in batch.parts():
        rows = [prompts[i][-1][-1] for i in part]
        under_way.append((part, 0, lambda rows=rows: rows))
    while under_way:
        part, count, wait = under_way.popleft()
        tokens = {i: writers[i].take(logits) for i, logits in zip(part, wait(), strict=True)}
        yield
        going = {i: token for i, token in tokens.items() if token is not None and batch.has_room(i)}
        if going and count + 1 < max_tokens:
            under_way.append((list(going), count + 1, batch.start(going)))


def then_keep(steps: Iterator[None], *batches: Batch) -> Iterator[None]:
    """Run steps; let later prompts begin with what they have computed, also if the caller stops early."""
    try:
        yield from steps
    finally:
        for batch in batches:
            batch.keep()
