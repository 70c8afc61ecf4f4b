# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Translates a LangGraph graph in supersteps, as LangGraph runs it, with the state as values.

The state holds, for each key, its parts in order. A key with a reducer gets another part from each node that writes it;
no part occurs twice. Nodes of a superstep see the state before it. A loop or a conditional edge is a region of the
agent, which gives one part for each key that it writes. If other nodes run at the same time, this part is only its own
addition, because theirs are added beside it; otherwise it is the whole value of the key.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple

from . import graph as agent
from .figures import AgentError
from .langgraph_flow import END, NEXT, NOTHING, START, Sends, _Bound, _Flow, sent
from .values import Amount, Value

State = dict[str, tuple[Value, ...]]


@dataclass(frozen=True)
class Annotation:
    """The annotation of a node. Made by :func:`llm`, :func:`tool`, :func:`retrieve` and :func:`compute`."""

    run: Callable[[str, Sequence[Value]], Value]
    reads: Sequence[str] | None = None
    writes: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, keys in (("reads", self.reads), ("writes", self.writes)):
            if isinstance(keys, str):
                raise AgentError(f"{name} is {keys!r}, must be a list of keys of the state, such as [{keys!r}]")

    def __call__(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """Annotate a function."""
        return annotated(body, self)


def annotated(body: Callable[..., Any], note: Any) -> Callable[..., Any]:
    """Return a copy of a function with a note: several nodes may run the same function with different notes."""
    if isinstance(body, FunctionType):
        copy = FunctionType(body.__code__, body.__globals__, body.__name__, body.__defaults__, body.__closure__)
        copy.__kwdefaults__ = body.__kwdefaults__
        functools.update_wrapper(copy, body)
        del copy.__wrapped__  # type: ignore[attr-defined]
        body = copy
    body.__intarsia__ = note  # type: ignore[attr-defined]
    return body


class _Visit(NamedTuple):
    """A node that is to run, or some of whose conditional edges are to be taken."""

    node: str
    source: str  # node that triggers the run
    sure: bool = True  # True if all requests are here in this superstep
    decides: tuple[int, ...] = ()  # numbers of ways of its choice, which are taken together


class _Write(NamedTuple):
    """A write to a key: its first `keeps` parts stay (all of them: None)."""

    key: str
    keeps: int | None
    part: Value


class _Written(NamedTuple):
    """The result of a region: its writes, its supersteps, and `sure` if all requests take that many."""

    writes: list[_Write]
    steps: int
    sure: bool


class _End(NamedTuple):
    """The end of a section: the state, and the supersteps as for a region."""

    state: State
    steps: int
    sure: bool


@dataclass
class _Section:
    """A section of the graph while it is translated."""

    stop: str
    state: State
    due: dict[int, list[_Visit]] = field(default_factory=dict)
    writes: dict[int, list[_Write]] = field(default_factory=dict)
    deferred: list[_Visit] = field(default_factory=list)
    arrived: dict[tuple[tuple[str, ...], str], set[str]] = field(default_factory=dict)
    ran: dict[str, bool] = field(default_factory=dict)  # nodes that ran; True if the superstep is certain
    ended: list[_Visit] = field(default_factory=list)
    steps: int = 0
    sure: bool = True

    def go(self, step: int, visit: _Visit, flow: _Flow) -> None:
        if visit.node in flow.deferred and visit.node != self.stop:
            self.deferred.append(visit)
        else:
            self.due.setdefault(step, []).append(visit)


class _Walk:
    """Translates nodes to tasks, superstep by superstep."""

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
        self.inside: list[str] = []  # headers of the enclosing loops
        self.shared: dict[str, int] = {}  # by key, the number of parts that nodes outside the enclosing region see too
        self.results: dict[str, Value] = {}
        self.wholes: dict[tuple[str, ...], Value] = {}
        self.written = ""

    #  Supersteps

    def run(self, starts: Sequence[str], stop: str, state: State, source: str = NOTHING) -> _End:
        """Translate everything from some nodes, which run at the same time, to `stop`, which is excluded."""
        section = _Section(stop, dict(state))
        for start in starts:
            section.go(0, _Visit(start, source), self.flow)
        step = 0
        while section.due or section.deferred:
            if not section.due:
                section.due[step + 1], section.deferred = section.deferred, []
            step = min(section.due)
            for when in sorted(section.writes):
                if when <= step:
                    self.apply(section.writes.pop(when), section.state)
            self.superstep(section, step)
        for when in sorted(section.writes):
            self.apply(section.writes.pop(when), section.state)
        for (sources, target), arrived in section.arrived.items():
            raise AgentError(
                f"node {target!r} waits for {_listed(sources)}, of which only {_listed(sorted(arrived))} runs before "
                f"{_called(stop)}: it would wait for ever; let edges lead to it one by one, or give add_node defer=True"
            )
        return _End(section.state, section.steps, section.sure)

    def superstep(self, section: _Section, step: int) -> None:
        # LangGraph runs a node once in a superstep, and applies the writes of nodes in the order of their names.
        visits: dict[tuple[str, tuple[int, ...]], _Visit] = {}
        for visit in section.due.pop(step):
            if visit.node == section.stop:
                self.end(section, step, visit)
                continue
            other = visits.setdefault((visit.node, visit.decides), visit)
            if other is not visit and (self.sends(other) or self.sends(visit)):
                raise sent(visit.node)
            if other is not visit and not (other.sure and visit.sure) and visit.node not in self.flow.deferred:
                raise _unsure(visit.node)
        alone = len(visits) == 1 and not section.due and not section.writes
        for key in sorted(visits):
            visit = visits[key]._replace(sure=visits[key].sure or alone)
            if visit.decides or (visit.node in self.loops and visit.node not in self.inside):
                if self.sends(visit):
                    raise sent(visit.node)
                beside = [other for place, other in visits.items() if place != key]
                beside += [other for later in section.due.values() for other in later]
                others = [start for other in beside for start in self.starts(other.node, other.decides)]
                self.region(section, step, visit, alone, others + [other.node for other in section.deferred])
                continue
            if visit.node in section.ran and not (visits[key].sure and section.ran[visit.node]):
                raise _unsure(visit.node)
            section.ran[visit.node] = visits[key].sure
            if visit.node != START:
                sends = self.sends(visit)
                writes = self.sent(visit, sends, section.state) if sends else self.task(visit.node, section.state)
                section.writes.setdefault(step + 1, []).extend(writes)
            for following in self.following(visit.node, section.stop):
                if isinstance(following, tuple):
                    visited = visit._replace(source=visit.node, decides=following)
                    section.go(step + 1, visited, _Flow())
                else:
                    section.go(step + 1, _Visit(following, visit.node, visit.sure), self.flow)
            for wait in self.flow.waits_of.get(visit.node, ()):
                arrived = section.arrived.setdefault(wait, set())
                arrived.add(visit.node)
                if arrived == set(wait[0]):
                    del section.arrived[wait]
                    section.go(step + 1, _Visit(wait[1], visit.node, visit.sure), self.flow)

    def sends(self, visit: _Visit) -> Sends | None:
        """Return how often a node runs that Sends lead to."""
        return self.flow.sends.get((visit.source, visit.node))

    def starts(self, node: str, decides: tuple[int, ...]) -> list[str]:
        """Return the nodes that run first of a visit."""
        if not decides:
            return [node]
        ways = [self.flow.choices[node].ways[number] for number in decides]
        return [target for way in ways for target in way.targets if target != NOTHING]

    def following(self, node: str, stop: str) -> list[str | tuple[int, ...]]:
        """Return the nodes that follow in any case, and the groups of ways that are chosen from.

        Ways out of a node are independent. Those whose nodes lead to each other before they come together are a group:
        how often such a node runs depends on all of them.
        """
        choice = self.flow.choices.get(node)
        if choice is None:
            return list(self.flow.edges.get(node, ()))
        if len(choice.targets) == 1 and not self.flow.waits_of.get(node):
            return list(choice.targets)
        groups = [(number,) for number, way in enumerate(choice.ways) if not way.is_sure()]
        plain = [number for number, way in enumerate(choice.ways) if way.is_sure()]
        waiting = [target for _, target in self.flow.waits_of.get(node, ())]

        def reached(numbers: Sequence[int]) -> set[str]:
            return self.flow.between(self.starts(node, tuple(numbers)), stop) if numbers else set()

        merged = True
        while merged and len(groups) + len(plain) > 1:
            merged = False
            for group in groups:
                inside, end = self.inside_of(node, group, stop)
                # Where some ways lead to nothing and the others to the end, the rest must be known too.
                all_of_it = end and stop != END and not waiting
                others = [each for each in groups if each != group] + [(each,) for each in plain]
                found = [each for each in others if all_of_it or inside & reached(each)]
                if found:
                    groups = [each for each in groups if each != group and each not in found]
                    groups.append(tuple(sorted({*group, *(number for each in found for number in each)})))
                    plain = [each for each in plain if (each,) not in found]
                    merged = True
                    break
        return [*(self.starts(node, (number,))[0] for number in plain), *groups]

    def inside_of(self, node: str, group: tuple[int, ...], stop: str) -> tuple[set[str], bool]:
        """Return the nodes of a group of ways before they come together, and whether some lead to nothing."""
        cases, following = self.cases(node, group, stop)
        starts = [target for case in cases for target in case]
        return self.flow.between(starts, following), () in cases

    def cases(
        self, node: str, group: tuple[int, ...], stop: str
    ) -> tuple[dict[tuple[str, ...], tuple[float, str]], str]:
        """Return the cases of a group of ways, and where they come together."""
        choice = self.flow.choices[node]
        cases = choice.combined(group)
        if () in cases:
            return cases, stop
        return cases, self.flow.meets([target for case in cases for target in case], stop, node)

    def end(self, section: _Section, step: int, visit: _Visit) -> None:
        if section.ended and section.stop != END and (step != section.steps or not (visit.sure and section.sure)):
            sources = sorted({visit.source, *(each.source for each in section.ended)})
            raise AgentError(
                f"ways from {_listed(sources)} to {_called(section.stop)} take a different number of steps, so that "
                "LangGraph runs what comes then once for each; let them come together in a node that waits: "
                "add_edge([…], node), or add_node(node, …, defer=True)"
            )
        if self.sends(visit):
            raise sent(visit.node)
        section.ended.append(visit)
        section.steps = max(section.steps, step)
        section.sure = section.sure and visit.sure

    def region(self, section: _Section, step: int, visit: _Visit, alone: bool, others: Sequence[str]) -> None:
        """Translate the loop or the cases that begin at a node, and continue where they join."""
        node = visit.node
        if visit.decides:
            cases, following = self.cases(node, visit.decides, section.stop)
            nodes = self.flow.between([target for case in cases for target in case], following)
        else:
            following = self.bounds[node].exit
            # The loop ends where a run of the enclosing loop ends.
            if self.inside and following not in self.loops[self.inside[-1]] - {self.inside[-1]}:
                following = NEXT
            nodes = self.loops[node]
        if both := nodes & self.flow.between(others, section.stop):
            what = "the conditional edge from" if visit.decides else "the loop from"
            raise AgentError(
                f"{what} node {node!r} and what runs at the same time ({_listed(sorted(set(others)))}) both lead to "
                f"{_listed(sorted(both))}, so that nothing says how often it runs; let {what} node {node!r} end in a "
                "node of its own first"
            )
        shared = self.shared
        if not alone:
            self.shared = {key: len(parts) for key, parts in section.state.items()}
        try:
            done = (
                self.choose(node, visit.decides, cases, following, section.state)
                if visit.decides
                else self.loop(node, section.state)
            )
        finally:
            self.shared = shared
        writes = [
            write._replace(keeps=(self.kept(write.key) if alone else None) if write.key in self.grows else 0)
            for write in done.writes
        ]
        section.writes.setdefault(step + done.steps, []).extend(writes)
        section.sure = section.sure and done.sure
        sure = visit.sure and (alone or done.sure)
        exits = following in self.flow.choices and self.flow.choices[following].is_exit
        if exits and done.writes:
            self.results[following] = done.writes[-1].part
        section.go(step + done.steps, _Visit(following, node, sure, decides=(0,) if exits else ()), self.flow)

    #  The state

    def apply(self, writes: Sequence[_Write], state: State) -> None:
        """Apply the writes of a superstep; several writes to a key that is replaced are concatenated."""
        replaced: set[str] = set()
        for key, keeps, part in writes:
            parts = state.get(key, ())
            state[key] = (*(parts if keeps is None or key in replaced else parts[:keeps]), part)
            replaced.add(key)

    def whole(self, key: str, parts: tuple[Value, ...]) -> Value:
        if len(parts) == 1:
            return parts[0]
        names = tuple(part.name for part in parts)
        known = self.wholes.get(names)
        if known is None or not self.holds(known):
            # A text that grows is joined with what is new of it: all nodes that read it would be quadratic otherwise.
            before = self.wholes.get(names[:-1]) if len(parts) > 2 else None
            before = before if before is not None and self.holds(before) else None
            if several := kinds([before, parts[-1]] if before is not None else parts):
                raise AgentError(
                    f"key {key!r} of the state holds {' and '.join(several)} where a loop or a conditional edge needs "
                    "one text; give each a key of its own"
                )
            known = agent.join(before, parts[-1]) if before is not None else agent.join(*parts)
            self.wholes[names] = known
        return known

    def holds(self, value: Value) -> bool:
        """Return true if a value may be used where the next task is written."""
        return value._block.holds(agent._trace("a graph").block)

    def kept(self, key: str) -> int:
        return self.shared.get(key, 0) if key in self.grows else 0

    def own(self, key: str, state: State) -> Value:
        """Return a region's own value of a key; an empty text if it has none."""
        if parts := state.get(key, ())[self.kept(key) :]:
            return self.whole(key, parts)
        for value in (part for parts in state.values() for part in parts):
            if value.kind == "text":
                return agent.map(lambda item: item, value, width=1, each=0, label="nothing")
        raise AgentError(f"key {key!r} of the state is not there before it may be written; give it in inputs")

    def writes(self, node: str) -> list[str]:
        annotation = self.annotations[node]
        assert annotation is not None  # missing ones have been reported
        writes = annotation.writes or [key for key in self.keys if key in self.grows] or list(self.keys)
        for key in writes:
            if key not in self.keys:
                raise AgentError(
                    f"node {node!r} writes {key!r}, which is no key of the state; keys are {', '.join(self.keys)}"
                )
        return list(writes)

    def changed(self, sections: Sequence[set[str]], state: State) -> list[str]:
        """Return the keys that a region gives, in order: keys that surely exist before or after it, or are declared."""
        sections = [nodes & self.annotations.keys() for nodes in sections]  # without the ends of loops
        found = [{key for node in nodes for key in self.writes(node)} for nodes in sections]
        said = {
            key for nodes in sections for node in nodes for key in getattr(self.annotations[node], "writes", 0) or ()
        }
        return [
            key
            for key in self.keys
            if any(key in keys for keys in found)
            and (key in state or key in self.grows or key in said or all(key in keys for keys in found))
        ]

    #  Nodes and regions

    def sent(self, visit: _Visit, sends: Sends, state: State) -> list[_Write]:
        """Translate a node that runs once for each Send; the Send is all that it reads."""
        writes: list[_Write] = []

        def body(item: Value) -> Value:
            writes.extend(self.task(visit.node, state, [item]))
            return self.results[visit.node]

        over = (
            self.results[visit.source]
            if visit.source in self.results
            else next(part for parts in state.values() for part in parts)
        )
        result = agent.map(body, over, width=sends.width, each=sends.tokens, label=visit.node)
        self.results[visit.node] = result
        return [write._replace(part=result) for write in writes]

    def task(self, node: str, state: State, inputs: Sequence[Value] | None = None) -> list[_Write]:
        annotation = self.annotations[node]
        assert annotation is not None
        if inputs is None:
            inputs = self.inputs(node, annotation, state)
        try:
            result = annotation.run(node, inputs)
        except AgentError as error:
            raise AgentError(f"node {node!r}: {error.args[0]}") from None
        self.results[node] = result
        writes = self.writes(node)
        self.written = writes[-1]
        return [_Write(key, None if key in self.grows else 0, result) for key in writes]

    def inputs(self, node: str, annotation: Annotation, state: State) -> list[Value]:
        reads = annotation.reads if annotation.reads is not None else [key for key in self.keys if key in state]
        for key in reads:
            if key not in state:
                raise AgentError(
                    f"node {node!r} reads {key!r}, which nothing before it writes; there are {', '.join(state)}"
                )
        # Parts of different kinds, such as an image and texts, are separate inputs.
        inputs = [
            value for key in reads for value in (state[key] if kinds(state[key]) else [self.whole(key, state[key])])
        ]
        if annotation.reads is None:  # a value that one node wrote to several keys is read once
            inputs = list({id(value): value for value in inputs}.values())
        return inputs

    def choose(
        self,
        node: str,
        group: tuple[int, ...],
        cases: Mapping[tuple[str, ...], tuple[float, str]],
        stop: str,
        state: State,
    ) -> _Written:
        """Translate the cases of a choice, in each of which some nodes run at the same time."""
        kept = self.changed([self.flow.between(case, stop) for case in cases], state)
        ends: list[_End] = []

        def body(case: tuple[str, ...]) -> Callable[[], tuple[Value, ...]]:
            def run() -> tuple[Value, ...]:
                ends.append(self.run(case, stop, state, node))
                return tuple(self.own(key, ends[-1].state) for key in kept)

            return run

        waits = [self.results[node]] if node in self.results else [part for parts in state.values() for part in parts]
        bodies: dict[str, tuple[float, Callable[[], tuple[Value, ...]]]] = {}
        for case, (probability, key) in cases.items():
            while key in bodies:  # users may call a result as we call several
                key += " too"
            bodies[key] = (probability, body(case))
        names = dict.fromkeys(way.name for way in (self.flow.choices[node].ways[each] for each in group) if way.name)
        results = _tuple(agent.branch(bodies, on=waits[:1], decide=" and ".join(names) or None))
        steps = max(end.steps for end in ends)
        sure = all(end.sure and end.steps == steps for end in ends)
        return _Written([_Write(*each) for each in zip(kept, [None] * len(kept), results, strict=True)], steps, sure)

    def loop(self, header: str, state: State) -> _Written:
        bound = self.bounds[header]
        probabilities = [bound.again**n * (1 - bound.again) for n in range(bound.most - 1)]
        probabilities.append(bound.again ** (bound.most - 1))
        mean = sum((n + 1) * p for n, p in enumerate(probabilities))
        changed = self.changed([self.loops[header]], state)
        ends: list[_End] = []

        def body(*values: Value) -> tuple[Value, ...]:
            begin = {
                key: (*state.get(key, ())[: self.kept(key)], value) for key, value in zip(changed, values, strict=True)
            }
            ends.append(self.run([header], NEXT, {**state, **begin}))
            return tuple(self.own(key, ends[-1].state) for key in changed)

        outer, self.flow = self.flow, bound.run
        self.inside.append(header)
        results = agent.loop(
            body,
            *(self.own(key, state) for key in changed),
            runs=Amount(round(mean, 12), max=bound.most),
            run_probabilities=probabilities,
            keeps_prefix=self.keeps_prefix,
            label=header,
        )
        self.inside.pop()
        self.flow = outer
        if self.written not in changed:
            self.written = changed[-1]
        writes = [_Write(*each) for each in zip(changed, [None] * len(changed), _tuple(results), strict=True)]
        return _Written(writes, ends[0].steps, bound.again == 0)


def kinds(parts: Sequence[Value]) -> list[str]:
    """Return the kinds of parts, if there are several."""
    found = sorted({part.kind for part in parts})
    return found if len(found) > 1 else []


def _tuple(results: Any) -> tuple[Value, ...]:
    return results if isinstance(results, tuple) else () if results is None else (results,)


def _listed(nodes: Sequence[str]) -> str:
    return " and ".join(map(_called, nodes))


def _called(node: str) -> str:
    return {START: "START", END: "END", NEXT: "the next run of the loop"}.get(node, repr(node))


def _unsure(node: str) -> AgentError:
    return AgentError(
        f"several ways lead to node {node!r}, and how long one of them takes differs between requests, so that "
        "LangGraph runs the node once or several times; let it wait for all of them: add_node(…, defer=True)"
    )
