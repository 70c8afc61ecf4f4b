# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Import graphs of LangGraph: nodes become tasks, conditional edges branches, edges back loops.

A node is a Python function, of which a graph does not know what it costs. An annotation says it, as a decorator of the
function or as the node's metadata:

>>> from intarsia import agent, langgraph
>>> llama = agent.Model("llama8b", shape="llama-3.1-8b")
>>> @langgraph.llm(llama, tokens=agent.Amount(300, p95=700))
... def respond(state): ...
>>> builder.add_node("respond", respond)                                               # doctest: +SKIP
>>> builder.add_node("respond", run, metadata={"intarsia": langgraph.llm(llama, tokens=300)})  # doctest: +SKIP

Keys of the state are the values that flow: a node reads those in `reads` (all that are there, if it is not said) and
writes those in `writes` (all that have a reducer, if there are some, otherwise all). A key with a reducer grows by what
is written; another one is replaced. A node waits for the nodes before it by what it reads of them.

How often a loop runs and which case is taken in a run are independent in the graph that comes out: expected executions
are those of the LangGraph graph, probabilities that a node runs at all may differ where a case ends the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import agent
from ._agent_figures import RANGES, AgentError, check, check_all, check_probabilities
from ._agent_values import Amount, Figure, Size, Sla, Value, _amount

__all__ = ["Annotation", "compute", "convert", "llm", "probabilities", "retrieve", "tool"]

START, END = "__start__", "__end__"
_NEXT = "__next__"  # where a run of a loop ends, whatever comes then
ASSUMED_TOKENS = 300  # what `assume` takes for a node without sizes: a language model's answer…
ASSUMED_INPUT_TOKENS = 200  # …a key of the state that the caller gives…
ASSUMED_RUNS = 10  # …and the bound of a loop; cases are equally probable
ASSUMED_MODEL = 'agent.Model("llama8b", shape="llama-3.1-8b")'  # what messages propose for `assume_model`


@dataclass(frozen=True)
class Annotation:
    """What a node is. Made by :func:`llm`, :func:`tool`, :func:`retrieve` and :func:`compute`."""

    run: Callable[[str, Sequence[Value]], Value]
    reads: Sequence[str] | None = None
    writes: Sequence[str] | None = None

    def __call__(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """Annotate a function."""
        body.__intarsia__ = self  # type: ignore[attr-defined]
        return body


def llm(
    model: agent.Model,
    *,
    tokens: Figure,
    instruction_tokens: int | None = None,
    shared_instructions: bool = False,
    reads: Sequence[str] | None = None,
    writes: Sequence[str] | None = None,
) -> Annotation:
    """Say that a node asks a language model; see :meth:`intarsia.agent.Model.answer`."""
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
    """Say that a node calls a tool."""
    _amount("tokens", "langgraph.tool", tokens, "tokens")
    return Annotation(lambda name, inputs: what(*inputs, tokens=tokens, label=name), reads, writes)


def retrieve(
    index: agent.Index, *, top_k: int, reads: Sequence[str], writes: Sequence[str] | None = None
) -> Annotation:
    """Say that a node searches an index, by the first key that it reads."""
    check_all("langgraph.retrieve", {"top_k": top_k})
    return Annotation(lambda name, inputs: index.retrieve(inputs[0], top_k=top_k, label=name), reads, writes)


def compute(
    *, ms: Figure, tokens: Figure, reads: Sequence[str] | None = None, writes: Sequence[str] | None = None
) -> Annotation:
    """Say that a node computes by itself, `ms` on one core."""
    _amount("ms", "langgraph.compute", ms, "ms")
    _amount("tokens", "langgraph.compute", tokens, "tokens")
    return Annotation(lambda name, inputs: agent.compute(name, *inputs, ms=ms, tokens=tokens), reads, writes)


def probabilities(
    *, max_runs: int | None = None, **targets: float
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Annotate the function of a conditional edge: how often it gives each key of its path map.

    `max_runs` bounds the loop that one of its targets goes back into.
    """
    check_probabilities("the probability of", "langgraph.probabilities", targets)
    if max_runs is not None:
        check("max_runs", "langgraph.probabilities", max_runs, RANGES["runs"])

    def decorate(path: Callable[..., Any]) -> Callable[..., Any]:
        path.__intarsia__ = dict(targets), max_runs  # type: ignore[attr-defined]
        return path

    return decorate


@dataclass(frozen=True)
class _Choice:
    name: str
    targets: Mapping[str, float]
    keys: Mapping[str, str]  # what the user's function gives for each target
    max_runs: int | None


def _choice(name: str, ways: Sequence[tuple[str, str, float]], max_runs: int | None) -> _Choice:
    """Make a choice of ways (target, key, probability); those to one target are one."""
    targets: dict[str, float] = {}
    keys: dict[str, str] = {}
    for target, key, probability in ways:
        targets[target] = targets.get(target, 0) + probability
        keys[target] = f"{keys[target]} or {key}" if target in keys else key
    return _Choice(name, targets, keys, max_runs)


@dataclass
class _Flow:
    """Nodes and the edges between them; a node has either edges or one choice."""

    edges: dict[str, list[str]]
    choices: dict[str, _Choice]

    def after(self, node: str) -> list[str]:
        return list(self.choices[node].targets) if node in self.choices else self.edges.get(node, [])

    def reachable(self, start: str) -> set[str]:
        seen, queue = {start}, [start]
        while queue:
            for following in self.after(queue.pop()):
                if following not in seen:
                    seen.add(following)
                    queue.append(following)
        return seen

    def meets(self, node: str, end: str) -> str:
        """Give the node where all ways from a node to the end come together first."""
        inside = self.reachable(node)
        later = {each: ({each} if each == end else set(inside)) for each in inside}
        changed = True
        while changed:
            changed = False
            for each in inside - {end}:
                following = [later[one] for one in self.after(each) if one in later]
                together = {each} | (set.intersection(*following) if following else set())
                changed |= together != later[each]
                later[each] = together
        candidates = later[node] - {node}
        if not candidates:
            raise AgentError(f"ways from node {node!r} do not come together before {end!r}")
        # The first of them is the one that all others come after.
        return max(candidates, key=lambda each: len(later[each]))

    def loops(self) -> dict[str, set[str]]:
        """Give the loops: by header the nodes inside.

        An edge goes back if it leads to a node that is always passed before.
        """
        everything = self.reachable(START)
        before = {each: ({START} if each == START else set(everything)) for each in everything}
        sources: dict[str, list[str]] = {each: [] for each in everything}
        for each in everything:
            for following in self.after(each):
                sources[following].append(each)
        changed = True
        while changed:
            changed = False
            for each in everything - {START}:
                passed = {each} | set.intersection(*(before[one] for one in sources[each]))
                changed |= passed != before[each]
                before[each] = passed
        found: dict[str, set[str]] = {}
        for each in everything:
            for header in self.after(each):
                if header in before[each]:
                    nodes, queue = found.setdefault(header, {header}), [each]
                    while queue:
                        one = queue.pop()
                        if one not in nodes:
                            nodes.add(one)
                            queue += sources[one]
        # What is left without these edges must be free of cycles.
        state: dict[str, int] = {}

        def visit(each: str) -> None:
            state[each] = 1
            for following in self.after(each):
                if following in before[each]:
                    continue
                if state.get(following) == 1:
                    raise AgentError(
                        f"nodes {each!r} and {following!r} are in a cycle that is entered in more than one place; "
                        "let all ways into it lead to one node"
                    )
                if following not in state:
                    visit(following)
            state[each] = 2

        visit(START)
        return found


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
    """Make a graph of a LangGraph `StateGraph`, compiled or not.

    Parameters
    ----------
    source
        The `StateGraph`. Its conditional edges have path maps.
    inputs
        What a request brings: sizes of keys of the state.
    output
        The key that is the answer; the last one that is written, if it is not said.
    sla, name
        The service level and the name of the graph.
    assume
        Take defaults where sizes and probabilities are missing: a node is a language model (`assume_model`) that writes
        300 tokens, a request brings 200 tokens in the first key, cases are equally probable, a loop runs at most 10
        times. Without it all that is missing is an error, which lists it with these defaults.
    assume_model
        The model of nodes that are assumed; needed with `assume` where a node has no annotation.
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
    annotations = {node: _annotation(spec) for node, spec in builder.nodes.items()}
    bare = [node for node, annotation in annotations.items() if annotation is None]
    missing = [f"node {node!r}: would be a language model that writes {ASSUMED_TOKENS} tokens" for node in bare]
    flow = _flow(builder, missing)
    keys = [key for key in builder.channels if not key.startswith(("__", "branch:"))]
    if not inputs:
        missing.append(f"inputs of the graph: {keys[0]!r} would be {ASSUMED_INPUT_TOKENS} tokens")
        inputs = {keys[0]: agent.text(ASSUMED_INPUT_TOKENS)}
    loops = flow.loops()
    bounds = {header: _bound(flow, header, nodes, missing) for header, nodes in loops.items()}
    if missing and not assume:
        listed = "\n".join(f"  {each}" for each in missing)
        model = f", assume_model={ASSUMED_MODEL}" if bare else ""
        raise AgentError(
            f"the graph does not say:\n{listed}\nannotate them (see intarsia.langgraph: llm, tool, retrieve, compute, "
            f"probabilities), or take these defaults with assume=True{model}"
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

    def body(*values: Value) -> Value:
        state = walk.run(START, END, dict(zip(given, values, strict=True)))
        answer = output or walk.written
        if answer not in state:
            raise AgentError(f"no node writes {answer!r}; written are {', '.join(state)}")
        return state[answer]

    result = agent.Graph(name, dict(inputs), sla, private=False)
    result._write(body)
    return result


def _annotation(spec: Any) -> Annotation | None:
    found = (spec.metadata or {}).get("intarsia")
    runnable = spec.runnable
    for function in (getattr(runnable, "func", None), getattr(runnable, "afunc", None), runnable):
        found = found or getattr(function, "__intarsia__", None)
    return found if isinstance(found, Annotation) else None


def _flow(builder: Any, missing: list[str]) -> _Flow:
    edges: dict[str, list[str]] = {}
    for source, target in sorted(builder.edges):
        edges.setdefault(source, []).append(target)
    for sources, target in sorted(getattr(builder, "waiting_edges", ())):
        for source in sources:
            edges.setdefault(source, []).append(target)
    choices: dict[str, _Choice] = {}
    for node, branches in builder.branches.items():
        if len(branches) > 1 or node in edges:
            raise AgentError(
                f"node {node!r} has conditional edges beside other edges; make one conditional edge of them"
            )
        for name, branch in branches.items():
            if not branch.ends:
                raise AgentError(
                    f"the conditional edge from {node!r} says not where it may lead; "
                    "give add_conditional_edges a path map"
                )
            # A path map may have other keys than texts, such as True and False.
            ends = {str(key): target for key, target in branch.ends.items()}
            function = getattr(branch.path, "func", None) or getattr(branch.path, "afunc", None) or branch.path
            given, max_runs = getattr(function, "__intarsia__", (None, None))
            if given is None:
                share = 1 / len(ends)
                missing.append(f"conditional edge from {node!r}: each of {', '.join(ends)} with {share:.3g}")
                given = dict.fromkeys(ends, share)
            if any(key not in ends for key in given):
                raise AgentError(
                    f"the conditional edge from {node!r} leads to {', '.join(ends)}, its probabilities are {given}; "
                    "give one for each, with the sum 1"
                )
            ways = [(ends[key], key, probability) for key, probability in given.items()]
            choices[node] = _choice(name, ways, max_runs)
    for node, spec in builder.nodes.items():
        if getattr(spec, "ends", ()):
            raise AgentError(
                f"node {node!r} goes where a Command says: {', '.join(map(str, spec.ends))}; nothing says how often; "
                "make a conditional edge of it, whose function has langgraph.probabilities"
            )
        if node not in edges and node not in choices:
            edges[node] = [END]
    return _Flow(edges, choices)


@dataclass(frozen=True)
class _Bound:
    """How a loop goes on: the flow of one run, the probability of another one, the bound, where it leads in the end."""

    run: _Flow
    again: float
    most: int
    exit: str


def _bound(flow: _Flow, header: str, nodes: set[str], missing: list[str]) -> _Bound:
    exits = sorted({following for each in nodes for following in flow.after(each)} - nodes)
    if len(exits) != 1:
        raise AgentError(
            f"the loop from node {header!r} is left to {', '.join(map(repr, exits)) or 'nowhere'}, "
            "must be left to one node"
        )
    given = [flow.choices[each].max_runs for each in nodes if each in flow.choices and flow.choices[each].max_runs]
    if not given:
        missing.append(f"loop from node {header!r}: at most {ASSUMED_RUNS} runs (max_runs)")
    end = {header: _NEXT, exits[0]: _NEXT}
    run = _Flow({}, {})
    # The header again, or the exit, is the end of a run.
    for each in nodes:
        if each in flow.choices:
            choice = flow.choices[each]
            ways = [(end.get(target, target), choice.keys[target], p) for target, p in choice.targets.items()]
            run.choices[each] = _choice(choice.name, ways, choice.max_runs)
        else:
            run.edges[each] = [end.get(target, target) for target in flow.after(each)]
    return _Bound(run, _again(flow, header, nodes), min(given, default=ASSUMED_RUNS), exits[0])


def _again(flow: _Flow, header: str, nodes: set[str]) -> float:
    """Give the probability that a run is followed by another one: that a walk from the header comes back to it.

    Inner loops come to an end for certain. Solved by iteration; a walk stays inside with a probability below 1.
    """
    back = dict.fromkeys(nodes, 0.0)
    for _ in range(100_000):
        change = 0.0
        for each in nodes:
            # Edges to several nodes are all taken, and meet again: any of them tells.
            ways = flow.choices[each].targets if each in flow.choices else {flow.after(each)[0]: 1.0}
            probability = sum(p * (1.0 if target == header else back.get(target, 0.0)) for target, p in ways.items())
            change = max(change, abs(probability - back[each]))
            back[each] = probability
        if change < 1e-15:
            break
    return back[header]


class _Walk:
    """Writes down tasks node by node, with the state as values."""

    def __init__(
        self,
        flow: _Flow,
        loops: dict[str, set[str]],
        bounds: dict[str, _Bound],
        annotations: Mapping[str, Annotation | None],
        keys: Sequence[str],
        grows: set[str],
        keeps_prefix: bool,
    ) -> None:
        self.flow, self.loops, self.bounds = flow, loops, bounds
        self.annotations, self.keys, self.grows, self.keeps_prefix = annotations, keys, grows, keeps_prefix
        self.inside: list[str] = []  # headers of the loops around
        self.written = ""

    def run(self, node: str, stop: str, state: dict[str, Value]) -> dict[str, Value]:
        while node != stop:
            if node in self.loops and node not in self.inside:
                state = self.loop(node, state)
                node = self.bounds[node].exit
                # A loop that ends where a run of the one around it does.
                if self.inside and node not in self.loops[self.inside[-1]] - {self.inside[-1]}:
                    node = _NEXT
                continue
            if node != START:
                state = self.task(node, state)
            following = self.flow.after(node)
            if len(following) == 1:
                node = following[0]
                continue
            meeting = self.flow.meets(node, stop)
            choice = self.flow.choices.get(node)
            state = self.fork(following, meeting, state) if choice is None else self.choose(choice, meeting, state)
            node = meeting
        return state

    def task(self, node: str, state: dict[str, Value]) -> dict[str, Value]:
        annotation = self.annotations[node]
        assert annotation is not None  # missing ones were an error before
        reads = annotation.reads if annotation.reads is not None else [key for key in self.keys if key in state]
        for key in reads:
            if key not in state:
                raise AgentError(
                    f"node {node!r} reads {key!r}, which nothing before it writes; there are {', '.join(state)}"
                )
        result = annotation.run(node, [state[key] for key in reads])
        writes = annotation.writes or [key for key in self.keys if key in self.grows] or list(self.keys)
        changed = dict(state)
        for key in writes:
            if key not in self.keys:
                raise AgentError(
                    f"node {node!r} writes {key!r}, which is no key of the state; keys are {', '.join(self.keys)}"
                )
            changed[key] = agent.join(state[key], result) if key in self.grows and key in state else result
            self.written = key
        return changed

    def fork(self, ways: Sequence[str], meeting: str, state: dict[str, Value]) -> dict[str, Value]:
        """Take all ways at the same time: each sees the state before; what they add to a key that grows is joined."""
        ends = [self.run(way, meeting, dict(state)) for way in ways]
        merged = dict(state)
        for end in ends:
            for key, value in end.items():
                if state.get(key) is value:
                    continue
                other = merged.get(key)
                merged[key] = value if other is None or other is state.get(key) else agent.join(other, value)
        return merged

    def choose(self, choice: _Choice, meeting: str, state: dict[str, Value]) -> dict[str, Value]:
        # Twice: the first time to see which keys the cases change. A case that does not write one gives what was there.
        changed = self.changes(list(choice.targets), meeting, state)
        kept = [key for key in changed if key in state or all(key in keys for keys in self.cases)]

        def case(target: str) -> Callable[[], tuple[Value, ...]]:
            return lambda: tuple(self.run(target, meeting, dict(state))[key] for key in kept)

        waits = [state[self.written]] if self.written in state else list(state.values())[:1]
        cases = {choice.keys[target]: (probability, case(target)) for target, probability in choice.targets.items()}
        results = agent.branch(cases, on=waits, decide=choice.name)
        results = results if isinstance(results, tuple) else () if results is None else (results,)
        return {**state, **dict(zip(kept, results, strict=True))}

    def loop(self, header: str, state: dict[str, Value]) -> dict[str, Value]:
        bound = self.bounds[header]
        outer, self.flow = self.flow, bound.run
        self.inside.append(header)
        probabilities = [bound.again**n * (1 - bound.again) for n in range(bound.most - 1)]
        probabilities.append(bound.again ** (bound.most - 1))
        mean = sum((n + 1) * p for n, p in enumerate(probabilities))
        # What a run writes must be there before the first: keys that are not yet come in with the loop only if it runs.
        changed = [key for key in self.changes([header], _NEXT, state) if key in state]
        dropped = [key for key in self.cases[0] if key not in state]

        def body(*values: Value) -> tuple[Value, ...]:
            end = self.run(header, _NEXT, {**state, **dict(zip(changed, values, strict=True))})
            return tuple(end[key] for key in changed)

        if not changed:
            raise AgentError(
                f"the loop from node {header!r} writes only {', '.join(dropped) or 'nothing'}, which is not there "
                "before it; give it in inputs, or let a node before the loop write it"
            )
        results = agent.loop(
            body,
            *(state[key] for key in changed),
            runs=Amount(round(mean, 12), max=bound.most),
            run_probabilities=probabilities,
            keeps_prefix=self.keeps_prefix,
            label=header,
        )
        self.inside.pop()
        self.flow = outer
        results = results if isinstance(results, tuple) else (results,)
        if self.written not in changed:
            self.written = changed[-1]
        return {**state, **dict(zip(changed, results, strict=True))}

    def changes(self, ways: Sequence[str], stop: str, state: dict[str, Value]) -> list[str]:
        """Keys that ways write, in order: by writing them down into a block that is thrown away."""
        trace = agent._trace("a graph")
        block, names, written = trace.block, set(trace.names), self.written
        self_cases: list[list[str]] = []
        found: list[str] = []
        for way in ways:
            trace.block = agent._Block("a trial", block)
            try:
                end = self.run(way, stop, dict(state))
            finally:
                trace.block = block
                trace.names = set(names)
            keys = [key for key in self.keys if end.get(key) is not state.get(key)]
            self_cases.append(keys)
            found += [key for key in keys if key not in found]
        self.written = written
        self.cases = self_cases
        return found
