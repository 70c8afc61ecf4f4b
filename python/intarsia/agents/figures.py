# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of figures and names of agents: the ranges of the dialect's verifiers, reported at the user's line."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from statistics import NormalDist
from typing import Any

from ..support.checks import control_character


def user_location() -> tuple[str, int]:
    """Return file and line of the user's program: the innermost frame outside this package."""
    frame = sys._getframe(1)
    package = __name__.partition(".")[0]
    # Compares the module's name, because code that dataclasses generate has no file.
    while frame.f_back is not None and f"{frame.f_globals.get('__name__', '')}.".startswith(f"{package}."):
        frame = frame.f_back
    return os.path.basename(frame.f_code.co_filename), frame.f_lineno


class AgentError(ValueError):
    """An agent is not valid; the message says where, what is wrong and what to try.

    Attributes
    ----------
    place : tuple of str and int
        File and line of the user's program.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.place = user_location()

    def __str__(self) -> str:
        file, line = self.place
        return f"{file}:{line}: {super().__str__()}"


@dataclass(frozen=True)
class Range:
    """A plausible range, both ends included; `zero`: 0 is allowed too; `whole`: a count."""

    low: float
    high: float
    hint: str = ""
    zero: bool = False
    whole: bool = False

    def __str__(self) -> str:
        number = "a whole number" if self.whole else "0, or" if self.zero else "a number"
        return f"{number} between {self.low:g} and {_bound(self.high)}{self.hint and f'; {self.hint}'}"

    def holds(self, figure: float) -> bool:
        """Return True if a figure is in the range."""
        return (self.zero and figure == 0) or self.low <= figure <= self.high


def _bound(figure: float) -> str:
    return str(figure) if isinstance(figure, int) else f"{figure:g}"


def _count(high: int, low: int = 1) -> Range:
    return Range(low, high, whole=True)


#: The range of amounts whose unit is not known yet: the largest range of any unit.
AMOUNT_RANGE = Range(0, 1e14)

#: The ranges of amounts by unit: `rangeOf` of dialects/Agent/AgentDialect.cpp.
UNIT_RANGES: Mapping[str, Range] = {
    "tokens": Range(0.01, 1e8, "are these characters or bytes?", zero=True),
    "pixels": Range(64, 1e11, "is it width times height, of all images?", zero=True),
    "seconds": Range(0.001, 1e6, "is it in seconds, not milliseconds?", zero=True),
    "bytes": Range(1, 1e14, "is it in bytes?", zero=True),
    "ms": Range(0.001, 8.64e7, "is it in milliseconds, not seconds or microseconds?", zero=True),
    "": Range(1, 1e6, "what may not happen at all belongs into agent.branch"),
}

_MILLISECONDS = "is it in milliseconds, not seconds?"
_FLOPS = "is it in flops, not teraflops?"

#: The ranges of other arguments: the verifiers in dialects/Agent (AgentOps, AgentTasks, AgentRegions, AgentDialect).
RANGES: Mapping[str, Range] = {
    "parameters": Range(1e3, 1e14, "is it a number, 7e9 for 7B?"),
    "flops_per_unit": Range(1, 1e16, _FLOPS),
    "flops_per_output": Range(1, 1e16, _FLOPS, zero=True),
    "tokens_per_unit": Range(1e-7, 1e4, "is it tokens for one pixel or one second?"),
    "kv_bytes_per_token": Range(16, 1e8, "is it in bytes?"),
    "context_tokens": _count(100_000_000),
    "vectors": _count(2**50),
    "dimension": _count(1_000_000),
    "chunk_tokens": _count(100_000_000),
    "bytes_per_vector": _count(100_000_000),
    "visited": Range(1e-9, 1, "it is a fraction of the vectors"),
    "dollars_per_call": Range(1e-9, 1e4, "is it in dollars?", zero=True),
    "concurrency": _count(100_000_000),
    "failure_probability": Range(1e-12, 0.99, "it is a fraction of the calls, and some must succeed", zero=True),
    "instruction_tokens": _count(100_000_000),
    "top_k": _count(1_000_000),
    "items at once": _count(1_000_000),  # `concurrency` of a map
    "runs": _count(100_000),
    "p50_ms": Range(1, 8.64e7, _MILLISECONDS),
    "p95_ms": Range(1, 8.64e7, _MILLISECONDS),
    "p99_ms": Range(1, 8.64e7, _MILLISECONDS),
    "ttft_ms": Range(0.1, 1e6, _MILLISECONDS),
    "tbt_ms": Range(0.05, 1e4, _MILLISECONDS),
    "requests_per_second": Range(1e-6, 1e6, "is it of one second, and of this graph?"),
    "probability": Range(0, 1),
}

# The catalogue's names of precisions.
PRECISIONS = ("f32", "f16", "bf16", "fp8", "int8", "fp4", "int4")
#: Element types of caches.
CACHES = tuple(precision for precision in PRECISIONS if precision != "f32")


def check(argument: str, what: str, figure: Any, within: Range) -> None:
    """Refuse a figure that is not a number or is outside its range."""
    if isinstance(figure, bool) or not isinstance(figure, Integral if within.whole else Real):
        raise AgentError(f"{argument} of {what} is {figure!r}, must be {within}")
    try:
        number = float(figure)
    except OverflowError:
        number = math.inf
    if not within.holds(number):
        raise AgentError(f"{argument} of {what} is {figure}, must be {within}")


def check_all(what: str, figures: Mapping[str, Any]) -> None:
    """Refuse arguments outside the range of their name; None counts as not given."""
    for argument, figure in figures.items():
        if figure is not None and argument in RANGES:
            check(argument, what, figure, RANGES[argument])


def check_text(argument: str, what: str, string: Any) -> None:
    """Refuse a name that is not a str, is empty, has control characters, or is no UTF-8; None counts as not given."""
    if string is None:
        return
    if not isinstance(string, str) or not string:
        raise AgentError(f"{argument} of {what} is {string!r}, must be a text that is not empty")
    try:
        string.encode()
    except UnicodeEncodeError as error:
        raise AgentError(
            f"{argument} of {what} is {string!a}, must be Unicode: character {error.start} is half of a pair; "
            "was it read with errors='surrogateescape'?"
        ) from None
    if found := control_character(string):
        raise AgentError(
            f"{argument} of {what} is {string!a}, must have no line ends and other control characters: it has "
            f"U+{ord(found):04X}"
        )


def check_probabilities(argument: str, what: str, probabilities: Mapping[Any, Any] | Sequence[Any]) -> None:
    """Refuse probabilities that are not between 0 and 1 or do not sum to 1."""
    figures = list(probabilities.values()) if isinstance(probabilities, Mapping) else list(probabilities)
    names = list(probabilities) if isinstance(probabilities, Mapping) else range(1, len(figures) + 1)
    for name, figure in zip(names, figures, strict=True):
        check(f"{argument} {name!r}", what, figure, RANGES["probability"])
    if abs(sum(figures) - 1) > 1e-6:
        shown = dict(zip(names, figures, strict=True))
        raise AgentError(f"probabilities of {what} sum to {sum(figures):g}, must sum to 1: {shown}")


def lognormal_exists(mean: float, percent: float, value: float, limit: float | None) -> bool:
    """Return True if a lognormal, cut at the limit, has the mean and the percentile.

    Repeats the search of `Amount::fromMeanAndPercentile` (lib/Support/Amount.cpp): with spread 0 the mean is the
    percentile; E[min(X, limit)] must then cross the mean at a spread of at most 4.
    """
    if mean <= 0 or value <= 0:
        return False
    if mean == value:
        return True
    normal = NormalDist()
    score = normal.inv_cdf(percent / 100)
    for step in range(1, 4 * 256 + 1):
        spread = step / 256
        center = math.log(value) - score * spread
        found = math.exp(center + spread * spread / 2)
        if limit is not None:
            cut = (math.log(limit) - center) / spread
            found = found * normal.cdf(cut - spread) + limit * normal.cdf(-cut)
        if (found <= mean) if value > mean else (found >= mean):
            return True
    return False
