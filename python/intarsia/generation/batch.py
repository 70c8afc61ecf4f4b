# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sequences that a language model continues together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _runtime
from ..support.errors import CacheFullError
from .cache import Cache
from .device_rows import DeviceRow
from .kept import KeptTexts, common_length


class Batch:
    """Sequences that are decoded together, and their state in the cache.

    Logits are arrays [rows, vocabulary] on the host. With a temperature they are rows that stay on the device which
    computes them, if the likeliest tokens can be found there.
    """

    def __init__(
        self,
        kept: KeptTexts,
        sequences: list[list[int]],
        max_tokens: int,
        temperature: float | None = None,
    ) -> None:
        self.kept = kept
        self.sequences = sequences
        self.cache: Cache | None = None
        self.caches: list[_runtime.Sequence] = []
        lengths = [len(ids) + max_tokens for ids in sequences]
        info = kept.open(len(sequences)).info
        self.temperature = temperature if info["candidates"] else None
        if kept.pages(lengths) > info["pages"]:
            raise CacheFullError(
                f"{len(sequences)} prompts and {max_tokens} tokens after each need {kept.cache_bytes(lengths)} "
                f"bytes of keys and values, the cache has {info['bytes']}: give fewer prompts, a smaller max_tokens, "
                "or more memory (Generator(artifact, cache=bytes))",
                "cache full",
            )

    def keep(self) -> None:
        """Let later prompts begin with these sequences."""
        if self.cache is self.kept.cache:
            for sequence in self.caches:
                self.kept.keep(sequence)

    def length(self, sequence: int) -> int:
        """Return how many tokens of a sequence are in the cache.

        The cache alone counts them: a call that is interrupted after a forward step leaves no other count behind.
        """
        return self.caches[sequence].length

    def room(self, sequence: int) -> int:
        """Return the number of tokens that still fit the model's context."""
        return self.kept.context - self.length(sequence)

    def has_room(self, sequence: int) -> bool:
        """Return True if another token fits the model's context."""
        return self.room(sequence) > 0

    def rewind(self, sequence: int, length: int) -> None:
        """Keep the first tokens of a sequence; if fewer remain (`length`), the others must be appended again."""
        self.caches[sequence].truncate(length)

    def prefill(self, every_token: bool, reuse: bool = True) -> list[list[Any]]:
        """Run all prompts in chunks; return logits of every token, or of the last one of each prompt.

        ``reuse``: what is known of a prompt, and what it has in common with others, is not computed again.
        """
        # Logits of every token require that every token is computed. Sequences that share a page copy it before they
        # write to it, which takes one more for each.
        pages = self.kept.pages([len(ids) for ids in self.sequences]) + len(self.sequences)
        reuse = reuse and not every_token and pages <= self.kept.open(len(self.sequences)).info["pages"]
        self.cache = self.kept.open(len(self.sequences))
        self.caches = [self.kept.sequence(self.cache, ids, reuse) for ids in self.sequences]
        results: list[list[Any]] = [[] for _ in self.sequences]
        if not reuse:
            self._run_prompts(list(range(len(self.sequences))), every_token, results)
            return results
        known = [sequence.length for sequence in self.caches]
        for wave in waves(self.sequences, known, self.cache.info["page_tokens"]):
            for i, leader, common in wave:
                if leader is not None:
                    self.caches[i] = self.caches[leader]  # the sequence that it had is free for the next one
                    self.caches[i] = self.caches[leader].fork()
                    self.rewind(i, common)
            self._run_prompts([i for i, _, _ in wave], every_token, results)
        return results

    def _run_prompts(self, numbers: list[int], every_token: bool, results: list[list[Any]]) -> None:
        assert self.cache is not None
        pieces: list[tuple[int, int, int]] = []
        room = part = self.cache.prefill_tokens(sum(len(self.sequences[i]) - self.length(i) for i in numbers))
        for i in numbers:
            ids, begin = self.sequences[i], self.length(i)
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
        return lambda: list(step.wait())

    def extend(self, tokens: dict[int, tuple[list[int], int]]) -> list[Any]:
        """Append tokens to some sequences; return logits after the last tokens of each, as many as the number says."""
        logits = self._step([(i, ids, count) for i, (ids, count) in tokens.items()])
        return _split(logits, [count for _, count in tokens.values()])

    def _step(self, rows: list[tuple[int, list[int], int]]) -> np.ndarray | list[DeviceRow]:
        """Append tokens to some sequences; return logits after the last `outputs` tokens of each."""
        chunks = [(self.caches[i], ids, outputs) for i, ids, outputs in rows]
        if self.temperature is None:
            return self.cache.step(chunks)
        return self.cache.step_on_device(chunks, self.temperature)


def waves(prompts: Sequence[list[int]], known: Sequence[int], least: int) -> list[list[tuple[int, int | None, int]]]:
    """Order prompts by waves: one that begins like another comes behind it, and starts from its state.

    Parameters
    ----------
    prompts : sequence of lists of int
        Token ids.
    known : sequence of int
        How many tokens of each prompt need not be computed anyway.
    least : int
        How many more tokens a prompt must have in common with another one to wait for it.

    Returns
    -------
    list of list of (int, int or None, int)
        Number of a prompt, of an earlier one that it begins like, and how many tokens they have in common.
    """
    leaders = _leaders(prompts)
    result: list[list[tuple[int, int | None, int]]] = [[]]
    depths: list[int] = []
    for i, (leader, common) in enumerate(leaders):
        if leader is None or common < known[i] + least:
            leader, common = None, known[i] + least - 1
        depths.append(0 if leader is None else depths[leader] + 1)
        result += [[] for _ in range(depths[i] + 1 - len(result))]
        result[depths[i]].append((i, leader, common))
    return result


def _leaders(prompts: Sequence[list[int]]) -> list[tuple[int | None, int]]:
    """Return for each prompt an earlier one with which it has most tokens in common, but for its last, and how many.

    In the order of their tokens, that is the nearest earlier one on one of the two sides: what two prompts have in
    common is the least of what neighbours between them have.
    """
    order = sorted(range(len(prompts)), key=prompts.__getitem__)
    best: list[tuple[int | None, int]] = [(None, 0)] * len(prompts)
    for direction in (order, order[::-1]):
        # Prompts passed, each earlier than the one above it, and what each has in common with the one below it.
        passed: list[tuple[int, int]] = []
        before = None
        for i in direction:
            common = 0 if before is None else common_length(prompts[before], prompts[i])
            while passed and passed[-1][0] > i:
                common = min(common, passed.pop()[1])
            if passed:
                usable = min(common, len(prompts[i]) - 1)
                if usable > best[i][1]:
                    best[i] = passed[-1][0], usable
            passed.append((i, common))
            before = i
    for i in range(len(prompts)):
        # Of several such prompts the first one: the others wait for it themselves.
        leader, common = best[i]
        while leader is not None and best[leader][0] is not None and best[leader][1] >= common:
            leader = best[leader][0]
        best[i] = leader, common
    return best


def _split(rows: np.ndarray | list[DeviceRow], counts: Sequence[int]) -> list[Any]:
    """Return parts of rows, each of so many."""
    ends = np.cumsum(counts)
    return [rows[end - count : end] for end, count in zip(ends, counts, strict=True)]
