# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A format for each tensor and cache of a model, within a budget: what is chosen, and why nothing else is."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..support.errors import InvalidArgumentError
from .knapsack import solve

#: How often a limit of the loss is corrected by the measured loss of the whole choice.
CORRECTIONS = 3
#: Share of a limit of the loss that may be left unused.
SLACK = 0.1


@dataclass(frozen=True)
class Candidate:
    """A format of an item: what the model loses by it, the bytes of the item and the microseconds for a token."""

    format: str
    loss: float
    bytes: float
    microseconds: float = 0.0
    layer_error: float = 0.0
    output_error: float = 0.0


@dataclass
class Item:
    """A tensor or a cache, with its candidates from the smallest to the largest."""

    key: str
    name: str
    weights: int  # of a tensor; 0 of a cache
    candidates: list[Candidate]
    is_pinned: bool = False


@dataclass(frozen=True)
class Budget:
    """What the user limits. Without any limit but `loss`, the smallest model is chosen.

    Attributes
    ----------
    bits : float, optional
        Bits of a weight, on average over the tensors that a format is chosen for.
    size : float, optional
        Bytes of all weights, and of the caches of so many tokens as are counted.
    loss : float, optional
        The most that is lost: KL divergence in nats of a token, or 1 - cosine.
    microseconds : float, optional
        Predicted for one token.
    """

    bits: float | None = None
    size: float | None = None
    loss: float | None = None
    microseconds: float | None = None


@dataclass
class Problem:
    """Items, and what does not depend on them.

    `interaction` is the measured loss of a choice over the sum of its parts' losses, by which sums are multiplied.
    """

    items: list[Item]
    other_bytes: float = 0.0
    other_microseconds: float = 0.0
    interaction: float = 1.0
    unit: str = "nats"
    chosen: list[int] = field(default_factory=list)

    def total(self, what: str, chosen: Sequence[int]) -> float:
        """Return the sum of a figure of candidates."""
        return sum(getattr(item.candidates[at], what) for item, at in zip(self.items, chosen, strict=True))

    def loss(self, chosen: Sequence[int]) -> float:
        """Return the loss that is expected of a choice."""
        return self.total("loss", chosen) * self.interaction

    def size(self, chosen: Sequence[int]) -> float:
        """Return the bytes of the model, with caches if they are items."""
        return self.other_bytes + self.total("bytes", chosen)

    def bits(self, chosen: Sequence[int]) -> float:
        """Return the bits of a weight, on average over the tensors that are items."""
        pairs = [(item, item.candidates[at]) for item, at in zip(self.items, chosen, strict=True) if item.weights]
        return 8 * sum(one.bytes for _, one in pairs) / max(1, sum(item.weights for item, _ in pairs))

    def microseconds(self, chosen: Sequence[int]) -> float:
        """Return the predicted time of a token."""
        return self.other_microseconds + self.total("microseconds", chosen)

    def rate(self, chosen: Sequence[int]) -> float:
        """Return the predicted tokens a second; 0 where nothing is predicted, as for images."""
        microseconds = self.microseconds(chosen)
        return 1e6 / microseconds if microseconds > 0 else 0.0

    def solve(self, budget: Budget, minimized: str = "loss") -> list[int] | None:
        """Return the choice with the least loss or the fewest bytes within a budget; none if there is none."""
        figures = {
            name: [np.array([getattr(one, name) for one in item.candidates]) for item in self.items]
            for name in ("loss", "bytes", "microseconds")
        }
        weights, limits = [], []
        if budget.bits is not None:
            total = sum(item.weights for item in self.items)
            weights.append(
                [one if item.weights else 0 * one for item, one in zip(self.items, figures["bytes"], strict=True)]
            )
            limits.append(budget.bits * total / 8)
        if budget.size is not None:
            weights.append(figures["bytes"])
            limits.append(budget.size - self.other_bytes)
        if budget.microseconds is not None:
            weights.append(figures["microseconds"])
            limits.append(budget.microseconds - self.other_microseconds)
        if budget.loss is not None:
            weights.append(figures["loss"])
            limits.append(budget.loss / self.interaction)
        return solve(figures[minimized], weights, limits)

    def choose(self, budget: Budget) -> list[int]:
        """Return the best choice within a budget.

        Raises
        ------
        InvalidArgumentError
            No choice is; the message names the smallest size and loss that can be.
        """
        has_size = budget.bits is not None or budget.size is not None or budget.microseconds is not None
        chosen = self.solve(budget, "loss" if has_size else "bytes")
        if chosen is None:
            raise InvalidArgumentError(self.why_not(budget), "invalid argument")
        self.chosen = chosen
        return chosen

    def why_not(self, budget: Budget) -> str:
        """Return what a budget that cannot be met would have to be."""
        smallest = self.solve(Budget(), "bytes")
        fastest = self.solve(Budget(), "microseconds")
        best = self.solve(Budget(), "loss")
        facts = []
        if budget.bits is not None and budget.bits < self.bits(smallest):
            facts.append(
                f"the smallest that can be is {self.bits(smallest):.3f} bits a weight, asked for are {budget.bits:g}"
            )
        if budget.size is not None and budget.size < self.size(smallest):
            facts.append(
                f"the smallest size that can be is {bytes_text(self.size(smallest))}, asked for are "
                f"{bytes_text(budget.size)}"
            )
        if budget.microseconds is not None and budget.microseconds < self.microseconds(fastest):
            facts.append(
                f"the fastest that is predicted is {self.rate(fastest):.1f} tokens a second, asked "
                f"for are {1e6 / budget.microseconds:.1f}"
            )
        if budget.loss is not None and budget.loss < self.loss(best):
            facts.append(
                f"the smallest loss that can be is {self.loss(best):.3g} {self.unit}, asked for are {budget.loss:.3g}"
            )
        if not facts and budget.loss is not None:
            without = self.solve(replace(budget, loss=None), "loss")
            least = self.solve(Budget(loss=budget.loss), "bytes")
            if without is not None:
                facts.append(
                    f"within the other limits the smallest loss that can be is {self.loss(without):.3g} {self.unit}"
                )
            facts.append(
                f"with a loss of {budget.loss:.3g} {self.unit} the smallest size that can be is "
                f"{bytes_text(self.size(least))}, {self.bits(least):.3f} bits a weight"
            )
        if not facts:
            facts.append(
                f"each limit can be met alone, not all together: the smallest size is "
                f"{bytes_text(self.size(smallest))}, the fastest {self.rate(fastest):.1f} tokens a second"
            )
        return "no choice of formats is within the budget: " + "; ".join(facts)

    def front(self, points: int = 24) -> list[list[int]]:
        """Return choices from the smallest model to the one with the least loss, each the best of its size."""
        smallest, best = self.solve(Budget(), "bytes"), self.solve(Budget(), "loss")
        sizes = np.geomspace(self.size(smallest), max(self.size(best), self.size(smallest)), points)
        # Just above each size, so that the solver's tolerance (1e-6) leaves none out.
        choices = [self.solve(Budget(size=float(size) * (1 + 1e-5))) for size in sizes]
        return [one for one in choices if one is not None]


@dataclass
class Outcome:
    """What was chosen for a model.

    Attributes
    ----------
    table : str
        A line for each tensor and cache, and sums.
    loss : float
        Measured for the whole choice: KL divergence in nats of a token, a picture or a pixel, or 1 - cosine.
    same_class : float, optional
        Of images with classes: the share of pictures, or of pixels, whose likeliest class stays the same.
    """

    table: str
    problem: Problem
    chosen: list[int]
    loss: float
    expected: float
    correlation: float
    budget: Budget
    same_class: float | None = None


def neighbours(item: Item, at: int) -> tuple[Candidate | None, Candidate | None]:
    """Return the next smaller candidate, and the next larger one that loses less."""
    own = item.candidates[at]
    smaller = [one for one in item.candidates if one.bytes < own.bytes]
    larger = [one for one in item.candidates if one.bytes > own.bytes and one.loss < own.loss]
    return (
        max(smaller, key=lambda one: (one.bytes, -one.loss), default=None),
        min(larger, key=lambda one: (one.bytes, one.loss), default=None),
    )


def bytes_text(count: float) -> str:
    """Return "12.3 MB"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= size:
            return f"{count / size:.3f} {unit}" if unit != "kB" else f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def table(problem: Problem, chosen: Sequence[int]) -> str:
    """Return a line for each tensor and cache: its format, and what the next ones would cost and save."""
    width = max(len(item.name) for item in problem.items) + 1
    lines = [f"{'':{width}} {'weights':>11} {'format':>13} {'bits':>6} {'loss':>9}   next smaller / next larger"]
    for item, at in zip(problem.items, chosen, strict=True):
        own = item.candidates[at]
        bits = f"{8 * own.bytes / item.weights:6.2f}" if item.weights else f"{'':6}"
        smaller, larger = neighbours(item, at)
        why = "pinned by --keep" if item.is_pinned else " / ".join(
            "none" if other is None
            else f"{other.format}: loss {other.loss - own.loss:+.2g}, {'+' if other.bytes > own.bytes else '-'}"
            f"{bytes_text(abs(other.bytes - own.bytes))}"
            for other in (smaller, larger)
        )  # fmt: skip
        lines.append(f"{item.name:{width}} {item.weights or '':>11} {own.format:>13} {bits} {own.loss:9.2e}   {why}")
    return "\n".join(lines) + "\n"


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Return Spearman's rank correlation; equal values share the mean of their ranks."""

    def ranks(values: Sequence[float]) -> np.ndarray:
        array = np.asarray(values, np.float64)
        _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        return (ends - (counts - 1) / 2)[inverse]

    if len(left) < 2:
        return float("nan")
    return float(np.corrcoef(ranks(left), ranks(right))[0, 1])


def choose_and_measure(
    problem: Problem, budget: Budget, measure: Callable[[Sequence[int]], float]
) -> tuple[list[int], float, float]:
    """Choose within a budget and measure the whole choice; correct a limit of the loss by what was measured.

    Parameters
    ----------
    problem : Problem
        Its `interaction` becomes the measured loss over the sum.
    budget : Budget
        What is limited.
    measure : callable
        Quantizes the model so, and returns what it then loses.

    Returns
    -------
    tuple
        The choice, the sum of what its parts lose, and its measured loss.
    """
    chosen, within = problem.choose(budget), None
    for left in reversed(range(CORRECTIONS)):
        expected = problem.total("loss", chosen)
        loss = measure(chosen)
        if budget.loss is not None and loss <= budget.loss:
            within = chosen
        limit = budget.loss
        ratio = loss / expected if expected > 0 else 1.0
        if limit is None or left == 0 or (1 - SLACK) * limit <= loss <= limit:
            break
        before, problem.interaction = problem.interaction, ratio
        following = problem.choose(budget)
        if following == chosen:
            break
        if loss <= limit and problem.loss(following) <= problem.loss(chosen):
            problem.interaction = before
            break
        chosen = following
    if within is not None and loss > budget.loss:  # the last step went too far
        chosen, expected, loss = within, problem.total("loss", within), measure(within)
        ratio = loss / expected if expected > 0 else 1.0
    problem.interaction = ratio if expected > 0 else 1.0
    if budget.loss is not None and loss > budget.loss:
        raise InvalidArgumentError(
            f"the loss of the whole choice is {loss:.3g} {problem.unit}, more than the {budget.loss:.3g} "
            "asked for, though its parts lose less: give a smaller --max-loss or a larger size", "invalid argument",
        )  # fmt: skip
    return chosen, expected, loss


def read_pin(text: str) -> tuple[str, str]:
    """Read ``GLOB=FORMAT``, which pins tensors and caches by their names."""
    glob, _, form = text.rpartition("=")
    if not glob or not form:
        raise InvalidArgumentError(f"--keep={text}: GLOB=FORMAT pins tensors or caches to a format", "invalid argument")
    return glob, form


def matches(glob: str, key: str, name: str) -> bool:
    """Return true if a pattern is that of a tensor: of its key or of the name of the linear that reads it."""
    return fnmatch.fnmatchcase(key, glob) or fnmatch.fnmatchcase(name, glob)


def summary(outcome: Outcome) -> str:
    """Return the lines below the table."""
    problem, chosen = outcome.problem, outcome.chosen
    before = problem.other_bytes + sum(max(c.bytes for c in item.candidates) for item in problem.items)
    rate = problem.rate(chosen)
    lines = [
        f"size {bytes_text(problem.size(chosen))} of {bytes_text(before)}, {problem.bits(chosen):.3f} bits a weight"
        + (f"; predicted {rate:.1f} tokens a second" if rate else ""),
        f"loss {outcome.loss:.4g} {problem.unit}, measured for the whole choice; its parts sum up to "
        f"{outcome.expected:.4g}",
    ]
    if outcome.same_class is not None:
        lines.append(f"the likeliest class stays the same in {100 * outcome.same_class:.4g} % of what was measured")
    if np.isfinite(outcome.correlation):
        lines.append(f"rank correlation of the layers' errors with the losses: {outcome.correlation:.3f}")
    return "\n".join(lines) + "\n"


def trace(outcome: Outcome) -> dict[str, Any]:
    """Return the decisions with their alternatives, for a file of JSON."""
    problem = outcome.problem
    return {
        "budget": {name: value for name, value in vars(outcome.budget).items() if value is not None},
        "unit": problem.unit,
        "bytes": problem.size(outcome.chosen),
        "bits": problem.bits(outcome.chosen),
        "microseconds": problem.microseconds(outcome.chosen) or None,  # of images nothing is predicted
        "loss": outcome.loss,
        "expected_loss": outcome.expected,
        **({} if outcome.same_class is None else {"same_class": outcome.same_class}),
        "rank_correlation": outcome.correlation if np.isfinite(outcome.correlation) else None,
        "items": [
            {
                "key": item.key,
                "name": item.name,
                "weights": item.weights,
                "chosen": item.candidates[at].format,
                "pinned": item.is_pinned,
                "why_not": [one.format if one else None for one in neighbours(item, at)],
                "candidates": [vars(one) for one in item.candidates],
            }
            for item, at in zip(problem.items, outcome.chosen, strict=True)
        ],
    }
