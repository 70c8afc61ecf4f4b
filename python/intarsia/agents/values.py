# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Amounts, sizes and values of agents, and the trace of the graph."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Real
from typing import Any, NoReturn, Protocol

from .figures import (
    AMOUNT_RANGE,
    UNIT_RANGES,
    AgentError,
    check,
    check_all,
    check_text,
    lognormal_exists,
    user_location,
)
from .text import attributes, location, shortest, symbol


@dataclass(frozen=True)
class Amount:
    """An amount that differs from request to request.

    Parameters
    ----------
    mean
        The mean; leave it out if there are two percentiles or more.
    max
        A bound that is never exceeded.
    p50, p90, p95, p99
        Percentiles. With a mean at most one is allowed; the amount is then lognormal.

    """

    mean: float | None = None
    max: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None

    def __post_init__(self) -> None:
        percentiles = [name for name in ("p50", "p90", "p95", "p99") if getattr(self, name) is not None]
        for name in ("max", "mean", *percentiles):
            if (figure := getattr(self, name)) is not None:
                check(name, "an amount", figure, AMOUNT_RANGE)
            if figure == 0 and name in percentiles:
                raise AgentError(f"{name} of an amount is 0, must be positive; put what may not happen into a branch")
            if figure is not None and self.max is not None and figure > self.max:
                raise AgentError(f"{name} of an amount is {figure}, max only {self.max}")
        if self.mean is None and len(percentiles) < 2:
            raise AgentError(
                "an amount has neither a mean nor two percentiles; write Amount(300) or Amount(p50=200, p95=900)"
            )
        if self.mean is not None and len(percentiles) > 1:
            raise AgentError(
                f"an amount has a mean and {' and '.join(percentiles)}; give a mean and one, or percentiles alone"
            )
        for lower, upper in pairwise(percentiles):
            if getattr(self, lower) > getattr(self, upper):
                figures = f"{getattr(self, upper)}, less than its {lower}, which is {getattr(self, lower)}"
                raise AgentError(f"{upper} of an amount is {figures}")
        if self.mean is not None and percentiles:
            (name,), value, percent = percentiles, getattr(self, percentiles[0]), int(percentiles[0][1:])
            if percent >= 75 and value < self.mean:
                raise AgentError(f"{name} of an amount is {value}, less than its mean, which is {self.mean}")
            if not lognormal_exists(self.mean, percent, value, self.max):
                raise AgentError(
                    f"{name} of an amount is {value} with a mean of {self.mean}, which no lognormal has (its median "
                    "is at most the mean, its 95th percentile at most 3.87 times it); give percentiles instead, such "
                    "as p50 and p95"
                )

    def _check(self, argument: str, what: str, unit: str) -> None:
        for name, figure in vars(self).items():
            if figure is not None:
                which = argument if name == "mean" else f"{name} of {argument}"
                check(which, what, figure, UNIT_RANGES[unit])

    def _text(self, unit: str) -> str:
        parts = [f"{shortest(self.mean)} {unit}".strip()] if self.mean is not None else [unit or "count"]
        for name in ("p50", "p90", "p95", "p99", "max"):
            if (figure := getattr(self, name)) is not None:
                parts.append(f"{name} = {shortest(figure)}")
        return f"<{', '.join(parts)}>"


Figure = float | int | Amount


def _amount(argument: str, what: str, figure: Figure, unit: str) -> Amount:
    """Return a number or an amount as an amount; refuse values that are not plausible in its unit ("" for counts)."""
    if isinstance(figure, bool) or not isinstance(figure, (Amount, Real)):
        raise AgentError(
            f"{argument} of {what} is {figure!r}, must be a number or an Amount, such as Amount(300, p95=700)"
        )
    if not isinstance(figure, Amount):
        check(argument, what, figure, UNIT_RANGES[unit])
        return Amount(figure)
    figure._check(argument, what, unit)
    return figure


@dataclass(frozen=True)
class Size:
    """A kind and amount of data, made by :func:`text`, :func:`image`, :func:`audio`, :func:`video` or :func:`data`."""

    kind: str
    amount: Amount

    @property
    def _type(self) -> str:
        return f"!agent.{self.kind}"

    @property
    def _text(self) -> str:
        return self.amount._text(_UNITS[self.kind])


_UNITS = {"text": "tokens", "image": "pixels", "audio": "seconds", "video": "seconds", "data": "bytes"}


def text(tokens: Figure | None = None, **percentiles: float) -> Size:
    """Return the size of text, in tokens; ``text(400, p95=900)`` is short for ``text(Amount(400, p95=900))``."""
    return _size("text", tokens, percentiles)


def image(pixels: Figure | None = None, **percentiles: float) -> Size:
    """Return the size of images, in pixels of all together."""
    return _size("image", pixels, percentiles)


def audio(seconds: Figure | None = None, **percentiles: float) -> Size:
    """Return the size of sound, in seconds."""
    return _size("audio", seconds, percentiles)


def video(seconds: Figure | None = None, **percentiles: float) -> Size:
    """Return the size of video, in seconds."""
    return _size("video", seconds, percentiles)


def data(size: Figure | None = None, **percentiles: float) -> Size:
    """Return the size of any other data, in bytes."""
    return _size("data", size, percentiles)


def _size(kind: str, figure: Figure | None, percentiles: dict[str, float]) -> Size:
    if isinstance(figure, Amount) and percentiles:
        raise AgentError(f"{kind} has an Amount and {', '.join(percentiles)} beside it; put them into the Amount")
    for name in percentiles:
        if name not in ("max", "p50", "p90", "p95", "p99"):
            raise AgentError(f"{kind} has no argument {name!r}; known are max, p50, p90, p95, p99")
    if percentiles or figure is None:
        figure = Amount(figure, **percentiles)
    unit = _UNITS[kind]
    return Size(kind, _amount("size" if kind == "data" else unit, f"agent.{kind}", figure, unit))


@dataclass(frozen=True)
class Sla:
    """A service-level agreement.

    Parameters
    ----------
    p50_ms, p95_ms, p99_ms
        Milliseconds from request to answer, at one of these percentiles.
    ttft_ms, tbt_ms
        Milliseconds to the first token and between tokens, at the same percentile, for language models whose text
        leaves the graph.
    requests_per_second
        The rate of requests.

    """

    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    ttft_ms: float | None = None
    tbt_ms: float | None = None
    requests_per_second: float | None = None

    def __post_init__(self) -> None:
        if sum(figure is not None for figure in (self.p50_ms, self.p95_ms, self.p99_ms)) > 1:
            raise AgentError("an Sla promises a latency at several percentiles; give one of p50_ms, p95_ms, p99_ms")
        check_all("the Sla", vars(self))

    @property
    def _text(self) -> str:
        given = [f"{name} = {shortest(value)}" for name, value in vars(self).items() if value is not None]
        return f"#agent.sla<{', '.join(given)}>"


#  The trace


@dataclass(frozen=True, eq=False)
class _Declared:
    name: str

    def __post_init__(self) -> None:
        check_text("name", f"a {type(self).__name__.lower()}", self.name)
        what = f"{type(self).__name__.lower()} {self.name!r}"
        check_all(what, vars(self))
        self._check(what)

    def _check(self, what: str) -> None:
        pass

    def _needs(self) -> Sequence[_Declared]:
        return ()

    def _text(self) -> str:
        raise NotImplementedError


@dataclass(eq=False)
class _Block:
    """The ops of a region. A value belongs to the block that makes it, and may be used there and in inner blocks."""

    where: str
    parent: _Block | None = None
    lines: list[str] = field(default_factory=list)

    def holds(self, other: _Block) -> bool:
        block: _Block | None = other
        while block is not None and block is not self:
            block = block.parent
        return block is self


class _Called(Protocol):
    """A graph that another one calls."""

    name: str
    _trace: _Trace

    def _text(self) -> str: ...


@dataclass(eq=False)
class _Trace:
    """A graph while its function runs."""

    name: str
    block: _Block
    declared: dict[str, _Declared] = field(default_factory=dict)
    called: dict[str, _Called] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)  # the last number behind a name

    def fresh(self, hint: str) -> str:
        # Names of values are ASCII in IR: "été" becomes ete; a name without ASCII letters becomes v.
        letters = unicodedata.normalize("NFKD", hint).encode("ascii", "ignore").decode()
        base = "".join(c if c.isalnum() else "_" for c in letters).strip("_") or "v"
        base = f"v{base}" if base[0].isdigit() else base
        name, count = base, self.counts.get(base, 1)
        while name in self.names:
            count += 1
            name = f"{base}_{count}"
        self.names.add(name)
        self.counts[base] = count
        return f"%{name}"

    def use(self, declared: _Declared) -> str:
        other = self.declared.setdefault(declared.name, declared)
        if other is not declared:
            raise AgentError(f"two things are called {declared.name!r}: {other!r} and {declared!r}")
        return symbol(declared.name)


_traces: list[_Trace] = []


def _trace(what: str) -> _Trace:
    if not _traces:
        raise AgentError(f"{what} is called outside of a graph; put it into a function with @agent.graph(…)")
    return _traces[-1]


@dataclass(frozen=True, eq=False)
class Value:
    """A value that flows between tasks. Functions of this module take and return values.

    Its contents exist only when a request runs: Python cannot inspect it, and a comparison is an error.
    """

    name: str
    kind: str
    _block: _Block = field(repr=False)
    _trace: _Trace = field(repr=False)

    __hash__ = object.__hash__

    def _decides(self, *_: Any) -> NoReturn:
        raise AgentError(
            f"Python cannot decide by {self.name} of graph {self._trace.name!r}, which is there only with a request: "
            "one way would be written down, and the other lost; write agent.branch({…}, on=value) for `if`, "
            "agent.loop(body, …, runs=Amount(3.2, max=8)) for `while` (values that are the same: `is`)"
        )

    def _opens(self, *_: Any) -> NoReturn:
        raise AgentError(
            f"Python cannot look into {self.name} of graph {self._trace.name!r}, which is there only with a request; "
            "write agent.map(body, value, width=…) for `for`, agent.branch or agent.loop for what its content decides"
        )

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _decides  # type: ignore[assignment]
    __iter__ = __len__ = __contains__ = __getitem__ = _opens

    @property
    def _type(self) -> str:
        return f"!agent.{self.kind}"


def _operands(what: str, values: Sequence[Any]) -> list[Value]:
    trace = _trace(what)
    for position, value in enumerate(values):
        if not isinstance(value, Value):
            raise AgentError(f"input {position} of {what} is {value!r}, must be a value of this graph")
        if value._trace is not trace:
            raise AgentError(
                f"input {position} of {what} is a value of graph {value._trace.name!r}, this is {trace.name!r}"
            )
        if not value._block.holds(trace.block):
            raise AgentError(
                f"input {position} of {what} is made in {value._block.where}, which is over or may not happen; "
                f"let {value._block.where} return it"
            )
    return list(values)


def _types(values: Sequence[Value]) -> str:
    return ", ".join(value._type for value in values)


def _results(kinds: Sequence[str]) -> str:
    return f"!agent.{kinds[0]}" if len(kinds) == 1 else f"({', '.join(f'!agent.{kind}' for kind in kinds)})"


def _here() -> str:
    """Return the line of the user's program, as a location of the IR."""
    return location(*user_location())


def _emit(
    op: str,
    head: str,
    inputs: Sequence[Value],
    size: Size | None,
    options: Mapping[str, Any],
    hint: str,
    says: bool = True,
) -> Value:
    """Add a task with one result to the graph."""
    trace = _trace(hint)
    kind = size.kind if size else "text"
    result = trace.fresh(hint)
    produces = f" produces {size._text}" if size and says else ""
    names = ", ".join(value.name for value in inputs)
    task = f"{op} {head.replace('@@', names)}{produces}{attributes(options)}"
    trace.block.lines.append(f"{result} = {task} : ({_types(inputs)}) -> !agent.{kind}{_here()}")
    return Value(result, kind, trace.block, trace)


def _produced(what: str, sizes: Mapping[str, Figure | None]) -> Size:
    """Return the one given argument of tokens, pixels, seconds and size, as a Size."""
    given = {name: figure for name, figure in sizes.items() if figure is not None}
    if len(given) != 1:
        raise AgentError(
            f"{what} says {' and '.join(given) or 'nothing'} of what it produces, must give one of {', '.join(sizes)}"
        )
    name, figure = next(iter(given.items()))
    kind = {"tokens": "text", "pixels": "image", "seconds": "audio", "size": "data"}[name]
    return Size(kind, _amount(name, what, figure, _UNITS[kind]))


def _task_options(
    what: str, label: str | None, place: str | None, together: str | None, apart: str | None
) -> dict[str, Any]:
    """Return attributes of a task: its name for people, its pool, and groups of tasks that share a pool, or do not."""
    for name, given in (("label", label), ("together", together), ("apart", apart)):
        check_text(name, what, given)
    placement = None
    if place is not None:
        if not isinstance(place, str) or place.count("::") != 1 or not all(place.split("::")):
            raise AgentError(f"place of {what} is {place!r}, must be a pool of a system, such as 'dc::fast'")
        check_text("place", what, place)
        placement = (f"#fleet.placement<{'::'.join(symbol(part) for part in place.split('::'))}>",)
    return {"label": label, "place": placement, "together": together, "apart": apart}
