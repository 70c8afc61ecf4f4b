# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cache of a language model, and the texts in it that later prompts may begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import _runtime
from ..runtime.module import Module
from ..support.errors import CacheFullError, Error
from .cache import Cache

#: Sequences that a cache has room for, unless a call needs more.
MOST_SEQUENCES = 64


@dataclass
class Kept:
    """A sequence that prompts may begin with."""

    sequence: _runtime.Sequence
    tokens: list[int]
    is_asked: bool  # the user has given it, so that only the cache may evict it


class KeptTexts:
    """The cache of a language model, and the texts in it that later prompts may begin with.

    Parameters
    ----------
    module : Module
        The language model.
    context : int
        The most tokens of a sequence.
    cache_bytes : int or None
        The most bytes of the cache; None: half of the memory available when it is made.
    most_tokens : int
        The most tokens of the texts that are kept, without those that the user has given.
    spill : dict
        The options of `Cache` for sequences that it has no room for.

    Attributes
    ----------
    cache : Cache or None
        None: nothing has needed it.
    texts : list of Kept
        The texts, the latest one last.
    """

    def __init__(
        self, module: Module, context: int, cache_bytes: int | None, most_tokens: int, spill: dict[str, Any]
    ) -> None:
        self.context = context
        self.cache: Cache | None = None
        self.texts: list[Kept] = []
        self._module, self._bytes, self._most_tokens, self._spill = module, cache_bytes, most_tokens, spill

    def cache_bytes(self, lengths: Sequence[int]) -> int:
        """Return the bytes of keys and values that sequences of so many tokens take."""
        info = self.open(len(lengths)).info
        return self.pages(lengths) * info["page_bytes"] + len(lengths) * info["sequence_bytes"]

    def pages(self, lengths: Sequence[int]) -> int:
        """Return the pages that sequences of so many tokens take."""
        page = self.open(len(lengths)).info["page_tokens"]
        return sum(-(-min(length, self.context) // page) for length in lengths)

    def open(self, sequences: int) -> Cache:
        """Return a cache with room for so many more sequences."""
        while self.cache is not None and self.texts and self.cache.info["free_sequences"] < sequences:
            self.texts.pop(0)
        if self.cache is None or self.cache.info["free_sequences"] < sequences:
            self.texts, self.cache = [], None  # frees the old cache before the new one is made
            room = max(sequences, MOST_SEQUENCES)
            self.cache = Cache(self._module, sequences=room, memory=self._bytes or 0, **self._spill)
        return self.cache

    def sequence(self, cache: Cache, ids: list[int], reuse: bool) -> _runtime.Sequence:
        """Return a sequence that holds the known beginning of a prompt, or is empty."""
        self.texts = [kept for kept in self.texts if not kept.sequence.evicted]
        if not reuse:
            return cache.sequence()
        common = [common_length(kept.tokens, ids[:-1]) for kept in self.texts]
        longest = max(common, default=0)
        if longest < cache.info["page_tokens"]:
            return cache.sequence()  # bringing a text back takes longer than computing a few tokens
        kept = self.texts.pop(len(common) - 1 - common[::-1].index(longest))
        try:
            best = kept.sequence.fork()
        except CacheFullError:  # it does not fit beside what this batch has already
            self.texts.append(kept)
            return cache.sequence()
        except Error:  # it cannot be read back, and its tokens are computed again
            return cache.sequence()
        self.texts.append(kept)  # it is the latest one that was used
        best.truncate(longest)
        return best

    def keep(self, sequence: _runtime.Sequence, is_asked: bool = False) -> None:
        """Keep a sequence for prompts that begin like it, as long as nothing else needs its pages."""
        if not is_asked and self._most_tokens == 0:
            return
        new = Kept(sequence, sequence.tokens, is_asked)
        sequence.set_evictable(True)
        rest = []
        for old in self.texts:
            common = common_length(old.tokens, new.tokens)
            if old.sequence.evicted:
                continue
            if common == len(new.tokens):  # the new one is its beginning
                new = replace(old, is_asked=old.is_asked or new.is_asked)
            elif common == len(old.tokens):
                new = replace(new, is_asked=old.is_asked or new.is_asked)
            else:
                rest.append(old)
        self.texts = [*rest, new]
        excess = sum(len(kept.tokens) for kept in self.texts if not kept.is_asked) - self._most_tokens
        for kept in list(self.texts):
            if excess > 0 and not kept.is_asked:
                self.texts = [other for other in self.texts if other is not kept]
                excess -= len(kept.tokens)


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
