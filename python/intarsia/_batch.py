# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sequences that a language model continues together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _runtime
from ._cache import Cache
from ._device_rows import DeviceRow
from ._errors import CacheFullError

if TYPE_CHECKING:
    from ._generator import Generator


class Batch:
    """Sequences that are decoded together, and their state in the cache.

    Logits are arrays [rows, vocabulary] on the host. With a temperature they are rows that stay on the device which
    computes them, if the likeliest tokens can be found there.
    """

    def __init__(
        self,
        generator: Generator,
        sequences: list[list[int]],
        max_tokens: int,
        temperature: float | None = None,
    ) -> None:
        self.generator = generator
        self.sequences = sequences
        self.lengths = [0] * len(sequences)
        self.cache: Cache | None = None
        self.caches: list[_runtime.Sequence] = []
        lengths = [len(ids) + max_tokens for ids in sequences]
        info = generator._open_cache(len(sequences)).info
        self.temperature = temperature if info["candidates"] else None
        if generator._pages(lengths) > info["pages"]:
            raise CacheFullError(
                f"{len(sequences)} prompts and {max_tokens} tokens after each need {generator.cache_bytes(lengths)} "
                f"bytes of keys and values, the cache has {info['bytes']}: give fewer prompts, a smaller max_tokens, "
                "or more memory (Generator(artifact, cache=bytes))",
                "cache full",
            )

    def keep(self) -> None:
        """Let later prompts begin with these sequences."""
        if self.cache is self.generator._cache:
            for sequence in self.caches:
                self.generator._keep(sequence)

    def room(self, sequence: int) -> int:
        """Return the number of tokens that still fit the model's context."""
        return self.generator.context - self.lengths[sequence]

    def has_room(self, sequence: int) -> bool:
        """Return True if another token fits the model's context."""
        return self.room(sequence) > 0

    def rewind(self, sequence: int, length: int) -> None:
        """Keep the first tokens of a sequence; if fewer remain (`lengths`), the others must be appended again."""
        self.lengths[sequence] = self.caches[sequence].truncate(length)

    def prefill(self, every_token: bool, reuse: bool = True) -> list[list[Any]]:
        """Run all prompts in chunks; return logits of every token, or of the last one of each prompt.

        ``reuse``: what is known of a prompt, and what it has in common with others, is not computed again.
        """
        # Logits of every token require that every token is computed. Sequences that share a page copy it before they
        # write to it, which takes one more for each.
        pages = self.generator._pages([len(ids) for ids in self.sequences]) + len(self.sequences)
        reuse = reuse and not every_token and pages <= self.generator._open_cache(len(self.sequences)).info["pages"]
        self.cache = self.generator._open_cache(len(self.sequences))
        self.caches = [self.generator._sequence(self.cache, ids, reuse) for ids in self.sequences]
        self.lengths = [sequence.length for sequence in self.caches]
        results: list[list[Any]] = [[] for _ in self.sequences]
        if not reuse:
            self._run_prompts(list(range(len(self.sequences))), every_token, results)
            return results
        for wave in self._waves(self.cache.info["page_tokens"]):
            for i, leader, common in wave:
                if leader is not None:
                    self.caches[i] = self.caches[leader]  # the sequence that it had is free for the next one
                    self.caches[i] = self.caches[leader].fork()
                    self.rewind(i, common)
            self._run_prompts([i for i, _, _ in wave], every_token, results)
        return results

    def _waves(self, least: int) -> list[list[tuple[int, int | None, int]]]:
        """Order the prompts by waves: one that begins like another comes behind it, and starts from its state.

        Returns
        -------
        list of list of (int, int or None, int)
            Number of a prompt, of the one that it begins like, and how many tokens they have in common: at least
            ``least`` more than the prompt has already.
        """
        waves: list[list[tuple[int, int | None, int]]] = [[]]
        depths: list[int] = []
        for i, ids in enumerate(self.sequences):
            leader, common = None, self.lengths[i] + least - 1
            for j in range(i):
                length = common_length(self.sequences[j], ids[:-1])
                if length > common:
                    leader, common = j, length
            depths.append(0 if leader is None else depths[leader] + 1)
            waves += [[] for _ in range(depths[i] + 1 - len(waves))]
            waves[depths[i]].append((i, leader, common))
        return waves

    def _run_prompts(self, numbers: list[int], every_token: bool, results: list[list[Any]]) -> None:
        assert self.cache is not None
        pieces: list[tuple[int, int, int]] = []
        room = part = self.cache.prefill_tokens(sum(len(self.sequences[i]) - self.lengths[i] for i in numbers))
        for i in numbers:
            ids, begin = self.sequences[i], self.lengths[i]
            while begin < len(ids):
                end = min(begin + room, len(ids))
                pieces.append((i, begin, end))
                room -= end - begin
                begin = end
                if room == 0:
                    self._chunk(pieces, every_token, results)
                    pieces, room = [], part
        if pieces:
            self._chunk(pieces, every_token, results)

    def _chunk(self, pieces: list[tuple[int, int, int]], every_token: bool, results: list[list[Any]]) -> None:
        # The wanted logits are those of the last tokens of a piece.
        counts = [end - begin if every_token else int(end == len(self.sequences[i])) for i, begin, end in pieces]
        logits = self._step(
            [(i, self.sequences[i][begin:end], count) for (i, begin, end), count in zip(pieces, counts, strict=True)]
        )
        for (i, _, _), count, rows in zip(pieces, counts, _split(logits, counts), strict=True):
            if count:
                results[i].append(rows)

    def decode(self, tokens: dict[int, int]) -> list[Any]:
        """Append one token to some sequences; return the logits after it."""
        return [rows[0] for rows in self.extend({i: ([token], 1) for i, token in tokens.items()})]

    def parts(self) -> list[list[int]]:
        """Return the numbers of the sequences in parts that `start` can have under way at the same time.

        There is one part, unless ranks are stages of a pipeline that give logits in memory of the host.
        """
        assert self.cache is not None
        stages = 1 if self.cache.info["candidates"] else self.cache.info["stages"]
        numbers = np.array_split(np.arange(len(self.sequences)), min(stages, len(self.sequences)))
        return [part.tolist() for part in numbers]

    def start(self, tokens: dict[int, int]) -> Callable[[], list[Any]]:
        """Append one token to some sequences; return a function that waits for the logits after it."""
        assert self.cache is not None
        if self.cache.info["candidates"]:  # logits are in the memory of a device
            rows = self.decode(tokens)
            return lambda: rows
        step = self.cache.start_step([(self.caches[i], [token], 1) for i, token in tokens.items()])
        for i in tokens:
            self.lengths[i] += 1
        return lambda: list(step.wait())

    def extend(self, tokens: dict[int, tuple[list[int], int]]) -> list[Any]:
        """Append tokens to some sequences; return logits after the last tokens of each, as many as the number says."""
        logits = self._step([(i, ids, count) for i, (ids, count) in tokens.items()])
        return _split(logits, [count for _, count in tokens.values()])

    def _step(self, rows: list[tuple[int, list[int], int]]) -> np.ndarray | list[DeviceRow]:
        """Append tokens to some sequences; return logits after the last `outputs` tokens of each."""
        chunks = [(self.caches[i], ids, outputs) for i, ids, outputs in rows]
        logits: np.ndarray | list[DeviceRow]
        if self.temperature is None:
            logits = self.cache.step(chunks)
        else:
            logits = self.cache.step_on_device(chunks, self.temperature)
        for i, ids, _ in rows:
            self.lengths[i] += len(ids)
        return logits


def _split(rows: np.ndarray | list[DeviceRow], counts: Sequence[int]) -> list[Any]:
    """Return parts of rows, each of so many."""
    ends = np.cumsum(counts)
    return [rows[end - count : end] for end, count in zip(ends, counts, strict=True)]


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens two sequences have in common at their beginning."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low
