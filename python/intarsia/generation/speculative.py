# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Speculative decoding: a small model proposes tokens, and the model itself checks several of them in one call.

Leviathan, Kalman and Matias 2023, "Fast Inference from Transformers via Speculative Decoding" (arXiv 2211.17192): the
text has exactly the distribution that it has without the small model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from ..runtime.module import Module
from ..support.errors import InvalidArgumentError
from .batch import Batch
from .sampling import draw
from .writer import Writer


class Model(Protocol):
    """What the check of a draft model reads: a `Generator`."""

    module: Module
    vocabulary: int

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, a tokenizers.Tokenizer; None: there are only token ids."""
        ...


def check_draft(target: Model, draft: Model) -> None:
    """Refuse a draft model that cannot propose tokens for another model."""
    name = draft.module.path
    if draft is target:
        raise _error(f"{name}: a generator cannot be its own draft: both would write the same caches")
    if target.tokenizer is None or draft.tokenizer is None:
        if target.vocabulary != draft.vocabulary:
            raise _error(
                f"the draft {name} has {draft.vocabulary} tokens, the model {target.module.path} {target.vocabulary}: "
                "a draft needs the model's tokenizer"
            )
        return
    ours, theirs = target.tokenizer.get_vocab(), draft.tokenizer.get_vocab()
    if ours != theirs:
        differing = min((set(ours.items()) ^ set(theirs.items())), key=lambda item: (item[1], item[0]))[1]
        raise _error(
            f"token {differing} is {draft.tokenizer.id_to_token(differing)!r} for the draft {name} and "
            f"{target.tokenizer.id_to_token(differing)!r} for the model {target.module.path}: a draft needs the "
            "model's tokenizer"
        )


def choose(target: np.ndarray, draft: np.ndarray, token: int, random: np.random.Generator) -> int:
    """Return the next token, given one that the draft model proposes: `token` itself, or another.

    Parameters
    ----------
    target, draft : ndarray [vocabulary]
        Probabilities of the next token by the two models.
    token : int
        Drawn from `draft`.
    random : numpy.random.Generator
        The random numbers that decide if the token stays.

    Returns
    -------
    int
        A token that has the distribution `target` (algorithm 1 of the paper): the proposed one with probability
        min(1, target / draft), else one drawn from max(0, target - draft).
    """
    if random.random() * draft[token] < target[token]:
        return token
    rest = np.maximum(target - draft, 0.0)
    # If both are equal except for rounding, nothing may be left.
    return draw(rest if rest.any() else target, random)


def speculate(batch: Batch, drafts: Batch, writers: list[Writer], max_tokens: int, draft_tokens: int) -> Iterator[None]:
    """Decode all texts together until each has ended; yield after every call of the model.

    Parameters
    ----------
    batch, drafts : Batch
        The sequences in the caches of the model, and of the draft model.
    writers : list of Writer
        The writers that choose and collect tokens.
    max_tokens : int
        The most tokens to generate for each.
    draft_tokens : int
        The most tokens that are proposed at once.
    """
    drafts.prefill(every_token=False)
    latest = {i: parts[-1][-1] for i, parts in enumerate(batch.prefill(every_token=False))}
    going = {i for i, logits in latest.items() if writers[i].take(logits) is not None}
    yield
    while True:
        going = {i for i in going if len(writers[i].ids) < max_tokens and batch.has_room(i)}
        if not going:
            return
        # At least the last token is not in a cache yet.
        missing = {i: (writers[i].prompt + writers[i].ids)[batch.length(i) :] for i in going}
        proposals = {
            i: _Proposal(
                writers[i],
                min(draft_tokens, max_tokens - len(writers[i].ids) - 1, batch.room(i) - len(missing[i])),
            )
            for i in going
        }
        _propose(drafts, proposals)
        tokens = {i: ([*missing[i], *proposals[i].tokens], len(proposals[i].tokens) + 1) for i in going}
        for i, rows in zip(tokens, batch.extend(tokens), strict=True):
            if not _judge(writers[i], rows, proposals[i]):
                going.discard(i)
            # Rejected tokens are overwritten: caches are read only up to the position of a token.
            known = len(writers[i].prompt) + len(writers[i].ids) - 1
            batch.rewind(i, known)
            drafts.rewind(i, min(known, drafts.length(i)))
        yield


class _Proposal:
    """The draft model's proposal after one text: tokens, and the probabilities that each was drawn from."""

    def __init__(self, writer: Writer, limit: int) -> None:
        self.text = writer.prompt + writer.ids
        self.limit = limit
        self.tokens: list[int] = []
        self.probabilities: list[np.ndarray] = []
        self._writer = writer
        self._constraint = None if writer.constraint is None else writer.constraint.copy()

    def add(self, logits: np.ndarray) -> None:
        """Draw a token by the draft model's logits; a token that ends the text is the last."""
        vocabulary = self._writer.vocabulary
        # The draft's vocabulary may be padded to another size than the model's.
        logits = np.pad(logits[:vocabulary], (0, max(0, vocabulary - logits.size)), constant_values=-np.inf)
        if self._constraint is not None:
            logits = self._constraint.restrict(logits)
        text = self.text + self.tokens
        generated = len(text) - len(self._writer.prompt)
        self.probabilities.append(self._writer.sampling.probabilities(logits, text, generated))
        self.tokens.append(draw(self.probabilities[-1], self._writer.random))
        complete = self._constraint is not None and self._constraint.accept(self.tokens[-1])
        if complete or self.tokens[-1] in self._writer.ends:
            self.limit = len(self.tokens)


def _propose(drafts: Batch, proposals: dict[int, _Proposal]) -> None:
    feed = {}
    for i, proposal in proposals.items():
        missing = proposal.text[drafts.length(i) :]
        proposal.limit = min(proposal.limit, drafts.room(i) - len(missing) + 1)
        if proposal.limit > 0:
            feed[i] = (missing, 1)
    while feed:
        for i, rows in zip(feed, drafts.extend(feed), strict=True):
            proposals[i].add(rows[0])
        feed = {i: (proposals[i].tokens[-1:], 1) for i in feed if len(proposals[i].tokens) < proposals[i].limit}


def _judge(writer: Writer, rows: np.ndarray, proposal: _Proposal) -> bool:
    """Append the proposed tokens that stay and one of the model's own; return True if the text continues.

    `rows` [proposed + 1, vocabulary] are the model's logits before each of the proposed tokens, and after the last.
    """
    for row, token, draft in zip(rows[:-1], proposal.tokens, proposal.probabilities, strict=True):
        chosen = choose(writer.probabilities(row), draft, token, writer.random)
        if not writer.add(chosen, row):
            return False
        if chosen != token:
            return True
    return writer.take(rows[-1]) is not None


def _error(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, "invalid argument")
