# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs of tasks, and the constructs that tasks are put together with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .figures import RANGES, AgentError, check, check_probabilities, check_text
from .text import attributes, quoted, real, shortest, symbol
from .things import Index, Memory, Model, Tool
from .values import (
    _UNITS,
    Amount,
    Figure,
    Size,
    Sla,
    Value,
    _amount,
    _Block,
    _Called,
    _Declared,
    _emit,
    _here,
    _operands,
    _produced,
    _results,
    _task_options,
    _Trace,
    _trace,
    _traces,
    _types,
    audio,
    data,
    image,
    text,
    video,
)

__all__ = [
    "AgentError",
    "Amount",
    "Graph",
    "Index",
    "Memory",
    "Model",
    "Size",
    "Sla",
    "Tool",
    "Value",
    "audio",
    "branch",
    "compute",
    "data",
    "function",
    "graph",
    "image",
    "join",
    "loop",
    "map",
    "module",
    "stream",
    "text",
    "video",
]


#  Tasks without a model or tool, and constructs of tasks


def compute(
    name: str,
    *inputs: Value,
    ms: Figure,
    tokens: Figure | None = None,
    pixels: Figure | None = None,
    seconds: Figure | None = None,
    size: Figure | None = None,
    label: str | None = None,
    place: str | None = None,
    together: str | None = None,
    apart: str | None = None,
) -> Value:
    """Compute by a function of the user's program, which takes `ms` on one core."""
    check_text("name", "a compute", name)
    what = f"compute {name!r}"
    values = _operands(what, inputs)
    produced = _produced(what, {"tokens": tokens, "pixels": pixels, "seconds": seconds, "size": size})
    head = f"{quoted(name)}(@@) takes {_amount('ms', what, ms, 'ms')._text('ms')}"
    return _emit(
        "agent.compute", head, values, produced, _task_options(what, label, place, together, apart), label or name
    )


def function(
    *,
    ms: Figure,
    tokens: Figure | None = None,
    pixels: Figure | None = None,
    seconds: Figure | None = None,
    size: Figure | None = None,
    label: str | None = None,
    place: str | None = None,
    together: str | None = None,
    apart: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Turn a function into a task: inside a graph a call adds a task, elsewhere it calls the function.

    >>> @function(ms=4, tokens=300)
    ... def rerank(documents): return sorted(documents)
    """

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(body)
        def call(*inputs: Any, **named: Any) -> Any:
            if not _traces:
                return body(*inputs, **named)
            return compute(
                body.__name__,
                *inputs,
                *named.values(),
                ms=ms,
                tokens=tokens,
                pixels=pixels,
                seconds=seconds,
                size=size,
                label=label,
                place=place,
                together=together,
                apart=apart,
            )

        return call

    return decorate


def join(*parts: Value) -> Value:
    """Concatenate texts: a growing context, a prompt of several parts. Costs nothing."""
    values = _operands("join", parts)
    if not values:
        raise AgentError("join has no parts")
    for value in values:
        if value.kind != values[0].kind:
            raise AgentError(f"join has parts of {values[0].kind} and {value.kind}, must be of one kind")
    trace = _trace("join")
    result = trace.fresh("joined")
    names = ", ".join(value.name for value in values)
    trace.block.lines.append(f"{result} = agent.join {names} : {values[0]._type}{_here()}")
    return Value(result, values[0].kind, trace.block, trace)


def stream(value: Value, *, every: Figure) -> Value:
    """Let consumers start when the first `every` (tokens, seconds, …) of the value are available."""
    (value,) = _operands("stream", [value])
    trace = _trace("stream")
    result = trace.fresh("stream")
    unit = _UNITS[value.kind]
    amount = _amount("every", "stream", every, unit)._text(unit)
    trace.block.lines.append(f"{result} = agent.stream {value.name} every {amount} : {value._type}{_here()}")
    return Value(result, value.kind, trace.block, trace)


def _region(
    where: str, body: Callable[..., Any], arguments: Sequence[str], kinds: Sequence[str]
) -> tuple[_Block, list[Value]]:
    """Run a part of a graph in its own block; return the block and the part's result."""
    trace = _trace(where)
    block = _Block(where, trace.block)
    trace.block = block
    try:
        returned = body(*(Value(name, kind, block, trace) for name, kind in zip(arguments, kinds, strict=True)))
        if returned is None:
            returned = ()
        values = _operands(f"the result of {where}", returned if isinstance(returned, (tuple, list)) else [returned])
    finally:
        trace.block = block.parent or block
    names = ", ".join(value.name for value in values)
    block.lines.append(f"agent.yield {names} : {_types(values)}" if values else "agent.yield")
    return block, values


def _close(trace: _Trace, op: str, kinds: Sequence[str], lines: Sequence[str], hint: str) -> Any:
    """Add an op with regions; return its results in the form of the body's: none, one, or a tuple."""
    result = trace.fresh(hint) if kinds else ""
    count = f":{len(kinds)}" if len(kinds) > 1 else ""
    trace.block.lines += [f"{result}{count} = {op}" if kinds else op, *lines]
    if not kinds:
        return None
    values = tuple(
        Value(f"{result}#{index}" if count else result, kind, trace.block, trace) for index, kind in enumerate(kinds)
    )
    return values if count else values[0]


def _indented(block: _Block) -> list[str]:
    return [f"  {line}" for line in block.lines]


def branch(
    cases: Mapping[str, tuple[float, Callable[[], Any]]],
    *,
    on: Value | Sequence[Value] = (),
    decide: str | None = None,
    label: str | None = None,
) -> Any:
    """Choose one of several cases.

    Parameters
    ----------
    cases
        By name: the probability, and a function that adds the tasks of the case. All return equally many values.
    on
        The values that the choice waits for.
    decide
        The user's function that chooses.
    label
        A name for reports.

    """
    check_text("label", "a branch", label)
    check_text("decide", "a branch", decide)
    what = f"branch {label or decide or ''}".strip()
    waits = _operands(what, [on] if isinstance(on, Value) else list(on))
    trace = _trace(what)
    if not cases:
        raise AgentError(f"{what} has no case")
    if not isinstance(cases, Mapping):
        raise AgentError(
            f'{what} has {cases!r} as cases, must be such as {{"easy": (0.6, lambda: …), "hard": (0.4, …)}}'
        )
    for name, case in cases.items():
        check_text("the name of a case", what, name)
        if not (isinstance(case, tuple) and len(case) == 2 and callable(case[1])):
            raise AgentError(
                f"case {name!r} of {what} is {case!r}, must be a probability and a function, such as (0.6, lambda: …)"
            )
    check_probabilities("probability of case", what, {name: probability for name, (probability, _) in cases.items()})
    location = _here()
    lines: list[str] = []
    kinds: list[str] | None = None
    for name, (probability, body) in cases.items():
        block, values = _region(f"case {name!r} of {what}", body, [], [])
        given = [value.kind for value in values]
        if kinds is not None and given != kinds:
            raise AgentError(f"case {name!r} of {what} gives {given}, the cases before it {kinds}")
        kinds = given
        lines += [
            f"  case {shortest(probability)} {quoted(name)} {{",
            *("  " + line for line in _indented(block)),
            "  }",
        ]
    lines[-1] += location
    head = f" on({', '.join(value.name for value in waits)})" if waits else ""
    kinds = kinds or []
    options = attributes({"decide": decide, "label": label})
    op = f"agent.branch{head}{options} : ({_types(waits)}) -> {_results(kinds)}"
    return _close(trace, op, kinds, lines, label or "chosen")


def loop(
    body: Callable[..., Any],
    *carried: Value,
    runs: Amount,
    keeps_prefix: bool = False,
    until: str | None = None,
    run_probabilities: Sequence[float] | None = None,
    label: str | None = None,
) -> Any:
    """Run tasks until they are done.

    Parameters
    ----------
    body
        Takes the carried values, adds the tasks of one run, returns the values for the next run. Runs at least once.
    carried
        The values for the first run; the result is that of the last run.
    runs
        The mean number of runs and the bound: ``Amount(3.2, max=8)``.
    keeps_prefix
        Language models keep their cache from one run to the next.
    until
        The user's function that ends the loop.
    run_probabilities
        P(1), P(2), …, if they are known.
    label
        A name for reports.

    """
    check_text("label", "a loop", label)
    check_text("until", "a loop", until)
    what = f"loop {label or until or ''}".strip()
    values = _operands(what, carried)
    trace = _trace(what)
    if not isinstance(runs, Amount) or runs.max is None:
        raise AgentError(f"{what} has no bound: say how often it runs at most, such as runs=Amount(3.2, max=8)")
    _check_runs(what, runs, run_probabilities)
    location = _here()
    arguments = [trace.fresh("carried") for _ in values]
    block, returned = _region(f"the body of {what}", body, arguments, [value.kind for value in values])
    kinds = [value.kind for value in values]
    if [value.kind for value in returned] != kinds:
        raise AgentError(f"{what} carries {kinds}, its body returns {[value.kind for value in returned]}")
    options: dict[str, Any] = {"until": until, "label": label}
    if run_probabilities is not None:
        options["run_probabilities"] = (f"array<f64: {', '.join(real(p) for p in run_probabilities)}>",)
    pairs = ", ".join(f"{name} = {value.name}" for name, value in zip(arguments, values, strict=True))
    keeps = " keeps_prefix" if keeps_prefix else ""
    types = f"({_types(values)}) -> {_results(kinds)}"
    op = f"agent.loop({pairs}) runs {runs._text('')}{keeps}{attributes(options)} : {types} {{"
    return _close(trace, op, kinds, [*_indented(block), f"}}{location}"], label or "last")


def _check_runs(what: str, runs: Amount, probabilities: Sequence[float] | None) -> None:
    _amount("runs", what, runs, "")
    most = runs.max or 0
    check("max of runs", what, int(most) if float(most).is_integer() else most, RANGES["runs"])
    if probabilities is None:
        if runs.mean is None or any(figure is not None for figure in (runs.p50, runs.p90, runs.p95, runs.p99)):
            raise AgentError(
                f"{what} says by percentiles how often it runs, must say a mean alone or run_probabilities"
            )
        return
    if len(probabilities) > most:
        raise AgentError(f"{what} has {len(probabilities)} run_probabilities, but runs at most {most:g} times")
    check_probabilities("run_probabilities: number", what, probabilities)
    mean = sum(count * probability for count, probability in enumerate(probabilities, 1))
    if runs.mean is not None and abs(mean - runs.mean) > 0.005 * mean:
        raise AgentError(f"{what} runs {runs.mean:g} times on average, by its run_probabilities {mean:g}")


def map(
    body: Callable[[Value], Any],
    over: Value,
    *,
    width: Figure,
    each: Figure | None = None,
    concurrency: int | None = None,
    label: str | None = None,
) -> Any:
    """Do the same for each of several items of a value, at the same time.

    Parameters
    ----------
    body
        Takes one item and adds its tasks; the results are concatenated.
    over
        The value that is split into items.
    width
        The number of items.
    each
        The size of an item; by default an equal share of the whole.
    concurrency
        The most items of a request that are processed at once.
    label
        A name for reports.

    """
    check_text("label", "a map", label)
    what = f"map {label or ''}".strip()
    (value,) = _operands(what, [over])
    trace = _trace(what)
    if concurrency is not None:
        check("concurrency", what, concurrency, RANGES["items at once"])
    unit = _UNITS[value.kind]
    of = f" each {_amount('each', what, each, unit)._text(unit)}" if each is not None else ""
    wide = _amount("width", what, width, "")._text("")
    location = _here()
    item = trace.fresh("item")
    block, returned = _region(f"the body of {what}", body, [item], [value.kind])
    kinds = [each_value.kind for each_value in returned]
    options = attributes({"concurrency": concurrency, "label": label})
    op = f"agent.map({item} = {value.name}) width {wide}{of}{options} : ({value._type}) -> {_results(kinds)} {{"
    return _close(trace, op, kinds, [*_indented(block), f"}}{location}"], label or "mapped")


#  Graphs


class Graph:
    """A recorded graph. Print it, or call it inside another graph."""

    def __init__(self, name: str, inputs: Mapping[str, Size], sla: Sla | None, private: bool) -> None:
        self.name = name
        self.inputs = dict(inputs)
        self.sla = sla
        self.private = private
        self.results: list[str] = []
        self._body: list[str] = []
        self._location = _here()
        self._trace = _Trace(name, _Block(f"graph {name!r}"))

    def _write(self, body: Callable[..., Any]) -> None:
        trace = self._trace
        arguments = [trace.fresh(name) for name in self.inputs]
        _traces.append(trace)
        try:
            returned = body(
                *(
                    Value(name, size.kind, trace.block, trace)
                    for name, size in zip(arguments, self.inputs.values(), strict=True)
                )
            )
            if returned is None:
                returned = ()
            what = f"the result of {trace.block.where}"
            values = _operands(what, returned if isinstance(returned, (tuple, list)) else [returned])
        finally:
            _traces.pop()
        self.results = [value.kind for value in values]
        names = ", ".join(value.name for value in values)
        end = f"agent.return {names} : {_types(values)}" if values else "agent.return"
        self._body = [*trace.block.lines, end]

    def _text(self) -> str:
        parameters = ", ".join(
            f"{name}: {size._type} {{agent.size = #agent.amount{size._text}}}"
            for name, size in zip(self._parameters(), self.inputs.values(), strict=True)
        )
        results = f" -> {_results(self.results)}" if self.results else ""
        promises = f" attributes {{sla = {self.sla._text}}}" if self.sla else ""
        private = "private " if self.private else ""
        lines = [
            f"agent.graph {private}{symbol(self.name)}({parameters}){results}{promises} {{",
            *(f"  {line}" for line in self._body),
            f"}}{self._location}",
        ]
        return "\n".join(lines)

    def _parameters(self) -> list[str]:
        names = _Trace(self.name, _Block(""))
        return [names.fresh(name) for name in self.inputs]

    def __call__(self, *inputs: Value, label: str | None = None, **named: Value) -> Any:
        """Add this graph as a task to another one, with inputs in order or by name."""
        what = f"call of {self.name!r}"
        names = list(self.inputs)[len(inputs) :]
        if named and sorted(named) != sorted(names):
            raise AgentError(
                f"{what} gives {len(inputs)} inputs and {', '.join(named)}, the graph takes {', '.join(self.inputs)}"
            )
        values = _operands(what, [*inputs, *(named[name] for name in names if named)])
        wanted = [size.kind for size in self.inputs.values()]
        if [value.kind for value in values] != wanted:
            raise AgentError(f"{what} gives {[value.kind for value in values]}, the graph takes {wanted}")
        trace = _trace(what)
        if trace is self._trace:
            raise AgentError(f"graph {self.name!r} calls itself: what repeats belongs into agent.loop, with a bound")
        check_text("label", what, label)
        trace.called[self.name] = self
        operands = ", ".join(value.name for value in values)
        op = (
            f"agent.call {symbol(self.name)}({operands}){attributes({'label': label})} : "
            f"({_types(values)}) -> {_results(self.results)}{_here()}"
        )
        return _close(trace, op, self.results, [], label or self.name)

    def __str__(self) -> str:
        return module(self)


def graph(
    *inputs: Size, sla: Sla | None = None, name: str | None = None, private: bool = False
) -> Callable[[Callable[..., Any]], Graph]:
    """Turn a function into a graph: it is run once, with a value for each parameter.

    Parameters
    ----------
    inputs
        The size of each parameter in a request: ``agent.text(400, p95=900)``.
    sla
        The service-level agreement.
    name
        The graph's name; by default that of the function.
    private
        True for graphs that only other graphs call.

    """

    def decorate(body: Callable[..., Any]) -> Graph:
        parameters = list(inspect.signature(body).parameters)
        check_text("name", "a graph", name)
        title = name or body.__name__
        if sla is not None and not isinstance(sla, Sla):
            raise AgentError(f"sla of graph {title!r} is {sla!r}, must be such as agent.Sla(p95_ms=3000)")
        if len(parameters) != len(inputs):
            raise AgentError(
                f"graph {title!r} takes {', '.join(parameters) or 'nothing'}, but sizes are given for {len(inputs)}; "
                "say what a request brings for each, such as @agent.graph(agent.text(400))"
            )
        for position, size in enumerate(inputs):
            if not isinstance(size, Size):
                raise AgentError(
                    f"input {position} of graph {title!r} is {size!r}, must be a size such as agent.text(400)"
                )
        for parameter in inspect.signature(body).parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                raise AgentError(f"parameter {parameter} of graph {title!r} takes no single input by its position")
        result = Graph(title, dict(zip(parameters, inputs, strict=True)), sla, private)
        result._write(body)
        return result

    return decorate


def module(*graphs: Graph) -> str:
    """Return the IR of graphs, of the graphs that they call, and of everything that their tasks name."""
    order: dict[str, _Called] = {}

    def visit(one: _Called) -> None:
        for other in one._trace.called.values():
            visit(other)
        if order.setdefault(one.name, one) is not one:
            raise AgentError(f"two graphs are called {one.name!r}")

    for one in graphs:
        visit(one)
    declared: dict[str, _Declared] = {}

    def declare(thing: _Declared) -> None:
        for other in thing._needs():
            declare(other)
        if declared.setdefault(thing.name, thing) is not thing:
            raise AgentError(f"two things are called {thing.name!r}: {declared[thing.name]!r} and {thing!r}")
        if thing.name in order:
            raise AgentError(f"a graph and a {type(thing).__name__.lower()} are both called {thing.name!r}")

    for one in order.values():
        for thing in one._trace.declared.values():
            declare(thing)
    parts = [thing._text() for thing in declared.values()]
    return "\n".join([*parts, *(one._text() for one in order.values())]) + "\n"
