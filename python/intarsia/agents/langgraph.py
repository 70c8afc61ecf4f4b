# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs of LangGraph as graphs of agents."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import graph as agent
from .figures import RANGES, AgentError, check, check_all, check_probabilities
from .langgraph_flow import END, START, Sends, Several, _bound, _flow, _with_exits
from .langgraph_walk import Annotation, _Walk, annotated, kinds
from .values import Figure, Size, Sla, Value, _amount

__all__ = ["Annotation", "compute", "convert", "llm", "probabilities", "retrieve", "sends", "several", "tool"]

ASSUMED_TOKENS = 300  # tokens of a language model's answer with `assume`
ASSUMED_INPUT_TOKENS = 200  # tokens of a key of the state that the caller gives, with `assume`
ASSUMED_MODEL = 'agent.Model("llama8b", shape="llama-3.1-8b")'  # the `assume_model` that messages propose


def llm(
    model: agent.Model,
    *,
    tokens: Figure,
    instruction_tokens: int | None = None,
    shared_instructions: bool = False,
    reads: Sequence[str] | None = None,
    writes: Sequence[str] | None = None,
) -> Annotation:
    """Annotate a node that asks a language model; see :meth:`intarsia.agent.Model.answer`."""
    _check_is(model, agent.Model, "langgraph.llm")
    _amount("tokens", "langgraph.llm", tokens, "tokens")
    check_all("langgraph.llm", {"instruction_tokens": instruction_tokens})

    def run(name: str, inputs: Sequence[Value]) -> Value:
        return model.answer(
            *inputs,
            tokens=tokens,
            instruction_tokens=instruction_tokens,
            shared_instructions=shared_instructions,
            label=name,
        )

    return Annotation(run, reads, writes)


def tool(
    what: agent.Tool, *, tokens: Figure, reads: Sequence[str] | None = None, writes: Sequence[str] | None = None
) -> Annotation:
    """Annotate a node that calls a tool."""
    _check_is(what, agent.Tool, "langgraph.tool")
    _amount("tokens", "langgraph.tool", tokens, "tokens")
    return Annotation(lambda name, inputs: what(*inputs, tokens=tokens, label=name), reads, writes)


def retrieve(
    index: agent.Index, *, top_k: int, reads: Sequence[str], writes: Sequence[str] | None = None
) -> Annotation:
    """Annotate a node that searches an index, by the first key that it reads."""
    _check_is(index, agent.Index, "langgraph.retrieve")
    check_all("langgraph.retrieve", {"top_k": top_k})
    if not reads:
        raise AgentError(f"reads of langgraph.retrieve is {reads!r}, must begin with the key of the query")
    return Annotation(lambda name, inputs: index.retrieve(inputs[0], top_k=top_k, label=name), reads, writes)


def _check_is(thing: Any, kind: type, what: str) -> None:
    if not isinstance(thing, kind):
        raise AgentError(f"{what} has {thing!r} as its first argument, must be an agent.{kind.__name__}")


def compute(
    *, ms: Figure, tokens: Figure, reads: Sequence[str] | None = None, writes: Sequence[str] | None = None
) -> Annotation:
    """Annotate a node that computes by itself, `ms` on one core."""
    _amount("ms", "langgraph.compute", ms, "ms")
    _amount("tokens", "langgraph.compute", tokens, "tokens")
    return Annotation(lambda name, inputs: agent.compute(name, *inputs, ms=ms, tokens=tokens), reads, writes)


def probabilities(
    *, max_runs: int | None = None, **targets: float
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Annotate the function of a conditional edge with the probability of each key of its path map.

    `max_runs` bounds the innermost loop around it, and other loops that one of its targets leaves.
    """
    check_probabilities("the probability of", "langgraph.probabilities", targets)
    if max_runs is not None:
        check("max_runs", "langgraph.probabilities", max_runs, RANGES["runs"])

    return lambda path: annotated(path, (dict(targets), max_runs))


def several(*, max_runs: int | None = None, **targets: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Annotate the function of a conditional edge that returns a list with the probability of each key in it.

    Whether a key is in the list does not depend on the others; probabilities of 1 are those of keys that always are.
    `max_runs` is as in :func:`probabilities`.
    """
    for key, probability in targets.items():
        check(f"the probability of {key!r}", "langgraph.several", probability, RANGES["probability"])
    if max_runs is not None:
        check("max_runs", "langgraph.several", max_runs, RANGES["runs"])
    return lambda path: annotated(path, Several(dict(targets), max_runs))


def sends(*, width: Figure, tokens: Figure) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Annotate the function of a conditional edge that returns Sends: their number, and the tokens of each.

    They lead to one node, which reads only the Send and nothing else of the state.
    """
    _amount("width", "langgraph.sends", width, "")
    _amount("tokens", "langgraph.sends", tokens, "tokens")
    return lambda path: annotated(path, Sends(width, tokens))


def convert(
    source: Any,
    *,
    inputs: Mapping[str, Size] | None = None,
    output: str | None = None,
    sla: Sla | None = None,
    name: str = "graph",
    assume: bool = False,
    assume_model: agent.Model | None = None,
    keeps_prefix: bool = True,
) -> agent.Graph:
    """Convert a LangGraph `StateGraph`, compiled or not, to a graph.

    Parameters
    ----------
    source
        The `StateGraph`. Its conditional edges have path maps.
    inputs
        The sizes of the keys of the state that a request gives.
    output
        The key of the answer; by default the last one that is written.
    sla, name
        The service-level agreement and the name of the graph.
    assume
        Use defaults for missing sizes and probabilities: a node is a language model (`assume_model`) that writes 300
        tokens, a request gives 200 tokens in the first key, cases are equally probable, a loop runs at most 10 times.
        Without it anything missing is an error, which lists it with these defaults.
    assume_model
        The model of nodes without annotation; needed with `assume` if there are such nodes.
    keeps_prefix
        Language models in loops keep their cache from one run to the next.

    """
    builder = getattr(source, "builder", source)
    for part in ("nodes", "edges", "branches", "channels"):
        if not hasattr(builder, part):
            raise AgentError(f"{type(source).__name__} is no StateGraph of LangGraph: it has no {part}")
    for key, size in (inputs or {}).items():
        if not isinstance(size, Size):
            raise AgentError(f"input {key!r} is {size!r}, must be a size such as agent.text(400)")
    if sla is not None and not isinstance(sla, Sla):
        raise AgentError(f"sla is {sla!r}, must be such as agent.Sla(p95_ms=3000)")
    annotations = {node: _annotation(node, spec) for node, spec in builder.nodes.items()}
    bare = [node for node, annotation in annotations.items() if annotation is None]
    missing = [f"node {node!r}: would be a language model that writes {ASSUMED_TOKENS} tokens" for node in bare]
    flow = _with_exits(_flow(builder, missing))
    keys = [key for key in builder.channels if not key.startswith(("__", "branch:"))]
    if not inputs:
        missing.append(f"inputs of the graph: {keys[0]!r} would be {ASSUMED_INPUT_TOKENS} tokens")
        inputs = {keys[0]: agent.text(ASSUMED_INPUT_TOKENS)}
    loops = flow.loops()
    bounds = {header: _bound(flow, header, loops, missing) for header in loops}
    if missing and not assume:
        listed = "\n".join(f"  {each}" for each in missing)
        model = f", assume_model={ASSUMED_MODEL}" if bare else ""
        raise AgentError(
            f"the graph does not say:\n{listed}\nannotate them (see intarsia.langgraph: llm, tool, retrieve, compute, "
            f"probabilities, several, sends), or take these defaults with assume=True{model}"
        )
    if bare and assume_model is None:
        raise AgentError(
            f"nodes {', '.join(map(repr, bare))} have no annotation, and assume=True takes them for a language model; "
            f"say for which, such as assume_model={ASSUMED_MODEL}, or annotate them"
        )
    if bare and not isinstance(assume_model, agent.Model):
        raise AgentError(f"assume_model is {assume_model!r}, must be a model such as {ASSUMED_MODEL}")
    for node in bare:
        annotations[node] = llm(assume_model, tokens=ASSUMED_TOKENS)
    for key in inputs:
        if key not in keys:
            raise AgentError(f"input {key!r} is no key of the state; keys are {', '.join(keys)}")
    grows = {key for key in keys if type(builder.channels[key]).__name__ == "BinaryOperatorAggregate"}
    walk = _Walk(flow, loops, bounds, annotations, keys, grows, keeps_prefix)
    given = list(inputs)

    def body(*values: Value) -> Sequence[Value]:
        state = walk.run([START], END, {key: (value,) for key, value in zip(given, values, strict=True)}).state
        answer = output or walk.written
        if answer not in state:
            raise AgentError(f"no node writes {answer!r}; written are {', '.join(state)}")
        return state[answer] if kinds(state[answer]) else [walk.whole(answer, state[answer])]

    result = agent.Graph(name, dict(inputs), sla, private=False)
    result._write(body)
    return result


def _annotation(node: str, spec: Any) -> Annotation | None:
    found = (spec.metadata or {}).get("intarsia")
    for function in (getattr(spec.runnable, "func", None), getattr(spec.runnable, "afunc", None), spec.runnable):
        while isinstance(function, functools.partial):
            function = function.func
        found = found or getattr(function, "__intarsia__", None)
    if found is not None and not isinstance(found, Annotation):
        raise AgentError(
            f"node {node!r} is annotated with {found!r}, must be what langgraph.llm, tool, retrieve or compute gives"
        )
    return found
