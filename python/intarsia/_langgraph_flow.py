# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nodes and edges of a LangGraph graph: its joins, its loops, and how often they run."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._agent_figures import AgentError
from ._agent_values import Figure

START, END = "__start__", "__end__"
NEXT = "__next__"  # target of the end of a loop's run, whether or not another run follows
ASSUMED_RUNS = 10  # bound of a loop with `assume`; cases are equally probable


@dataclass(frozen=True)
class _Choice:
    name: str
    targets: Mapping[str, float]
    keys: Mapping[str, str]  # result of the user's function for each target
    max_runs: int | None
    is_exit: bool = False  # of a loop that is left to several nodes, and no node of the user's


def _choice(
    name: str, ways: Sequence[tuple[str, str, float]], max_runs: int | None, *, is_exit: bool = False
) -> _Choice:
    """Make a choice of ways (target, key, probability); ways to the same target are merged."""
    targets: dict[str, float] = {}
    keys: dict[str, str] = {}
    for target, key, probability in ways:
        targets[target] = targets.get(target, 0) + probability
        keys[target] = f"{keys[target]} or {key}" if target in keys else key
    return _Choice(name, targets, keys, max_runs, is_exit)


@dataclass(frozen=True)
class Sends:
    """The number of Sends to a node, and the tokens of each. Made by :func:`intarsia.langgraph.sends`."""

    width: Figure
    tokens: Figure


@dataclass
class _Flow:
    """Nodes and the edges between them; a node has either edges or one choice.

    `waits` are edges with several sources, taken when all sources have run. A node that is `deferred` runs when nothing
    else is left to run. `sends` says for a node with one edge how often its target runs.
    """

    edges: dict[str, list[str]] = field(default_factory=dict)
    choices: dict[str, _Choice] = field(default_factory=dict)
    waits: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    deferred: set[str] = field(default_factory=set)
    sends: dict[str, Sends] = field(default_factory=dict)

    def after(self, node: str) -> list[str]:
        if node in self.choices:
            return list(self.choices[node].targets)
        waiting = [target for sources, target in self.waits if node in sources]
        return list(dict.fromkeys([*self.edges.get(node, []), *waiting]))

    def between(self, starts: Sequence[str], stop: str) -> set[str]:
        """Return the nodes on paths from some nodes to `stop`, which is excluded."""
        seen, queue = set(starts) - {stop}, [start for start in starts if start != stop]
        while queue:
            for following in self.after(queue.pop()):
                if following not in seen and following != stop:
                    seen.add(following)
                    queue.append(following)
        return seen

    def reachable(self, start: str) -> set[str]:
        seen, queue = {start}, [start]
        while queue:
            for following in self.after(queue.pop()):
                if following not in seen:
                    seen.add(following)
                    queue.append(following)
        return seen

    def meets(self, node: str, end: str) -> str:
        """Return the first node that lies on all paths from a node to the end."""
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
        # All other candidates come after the first.
        return max(candidates, key=lambda each: len(later[each]))

    def loops(self) -> dict[str, set[str]]:
        """Return the loops: the nodes inside by header.

        An edge goes back if its target dominates its source.
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
        # Without these edges the graph must have no cycles.
        state: dict[str, int] = {}

        def visit(each: str) -> None:
            state[each] = 1
            for following in self.after(each):
                if following in before[each]:
                    continue
                if state.get(following) == 1:
                    raise AgentError(
                        f"nodes {each!r} and {following!r} are in a cycle that is entered at more than one node; "
                        "let all ways into it lead to one node"
                    )
                if following not in state:
                    visit(following)
            state[each] = 2

        visit(START)
        return found


def _flow(builder: Any, missing: list[str]) -> _Flow:
    edges: dict[str, list[str]] = {}
    for source, target in sorted(builder.edges):
        edges.setdefault(source, []).append(target)
    waits = sorted(getattr(builder, "waiting_edges", ()))
    sources_of_waits = {source for sources, _ in waits for source in sources}
    choices: dict[str, _Choice] = {}
    sends: dict[str, Sends] = {}
    for node, branches in builder.branches.items():
        if len(branches) > 1 or node in edges or node in sources_of_waits:
            raise AgentError(
                f"node {node!r} has conditional edges beside other edges; make one conditional edge of them"
            )
        for name, branch in branches.items():
            if not branch.ends:
                raise AgentError(
                    f"the conditional edge from {node!r} says not where it may lead; "
                    "give add_conditional_edges a path map"
                )
            # A path map may have keys that are not str, such as True and False.
            ends = {str(key): target for key, target in branch.ends.items()}
            function = getattr(branch.path, "func", None) or getattr(branch.path, "afunc", None) or branch.path
            while isinstance(function, functools.partial):
                function = function.func
            note = getattr(function, "__intarsia__", (None, None))
            if isinstance(note, Sends):
                if len(targets := sorted(set(branch.ends.values()))) > 1 or targets == [END]:
                    raise AgentError(
                        f"the conditional edge from {node!r} sends to {', '.join(targets)}, must send to one node; "
                        "let the node before it lead to several, of which each sends to one"
                    )
                edges[node], sends[node] = targets, note
                continue
            if not isinstance(note, tuple):
                raise AgentError(
                    f"the conditional edge from {node!r} is annotated with {note!r}, must be with "
                    "langgraph.probabilities or langgraph.sends"
                )
            given, max_runs = note
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
        if node not in edges and node not in choices and node not in sources_of_waits:
            edges[node] = [END]
    ways = _Flow(
        {
            **edges,
            **{node: [t for b in each.values() for t in b.ends.values()] for node, each in builder.branches.items()},
        },
        waits=waits,
    )
    if lost := [node for node in builder.nodes if node not in ways.reachable(START)]:
        raise AgentError(
            f"no way leads from START to {', '.join(f'node {node!r}' for node in lost)}; add the edges, or leave the "
            "nodes out. Where a Command goes there, make a conditional edge of it, whose function has "
            "langgraph.probabilities"
        )
    deferred = {node for node, spec in builder.nodes.items() if getattr(spec, "defer", False)}
    return _Flow(edges, choices, waits, deferred, sends)


@dataclass(frozen=True)
class _Bound:
    """A loop: the flow of one run, the probability of another run, the bound, and the exit."""

    run: _Flow
    again: float
    most: int
    exit: str


def _bound(flow: _Flow, header: str, loops: Mapping[str, set[str]], missing: list[str]) -> _Bound:
    nodes = loops[header]
    exits = sorted({following for each in nodes for following in flow.after(each)} - nodes)
    if len(exits) != 1:
        raise AgentError(
            f"the loop from node {header!r} is left to {', '.join(map(repr, exits)) or 'nowhere'}, "
            "must be left to one node"
        )
    # A choice bounds the innermost loop around it, and the loops that it may leave.
    deeper = {each for inner, inside in loops.items() if inside < nodes and inner != header for each in inside}
    choices = [
        choice
        for each, choice in flow.choices.items()
        if each in nodes and ((each not in deeper and not choice.is_exit) or not nodes.issuperset(choice.targets))
    ]
    given = [choice.max_runs for choice in choices if choice.max_runs]
    if not given:
        missing.append(f"loop from node {header!r}: at most {ASSUMED_RUNS} runs (max_runs)")
    end = {header: NEXT, exits[0]: NEXT}
    waits = [(sources, end.get(target, target)) for sources, target in flow.waits if nodes.intersection(sources)]
    run = _Flow(waits=waits, deferred=flow.deferred, sends=flow.sends)
    # A run ends at the header or at the exit.
    for each in nodes:
        if each in flow.choices:
            choice = flow.choices[each]
            ways = [(end.get(target, target), choice.keys[target], p) for target, p in choice.targets.items()]
            run.choices[each] = _choice(choice.name, ways, choice.max_runs, is_exit=choice.is_exit)
        else:
            run.edges[each] = [end.get(target, target) for target in flow.edges.get(each, [])]
    return _Bound(run, _ends(flow, header, nodes, header), min(given, default=ASSUMED_RUNS), exits[0])


def _with_exits(flow: _Flow) -> _Flow:
    """Let each loop be left to one place: where it is left to several nodes, to a choice of them.

    As with all choices, the number of runs and the node that comes after them are independent.
    """
    while True:
        loops = flow.loops()
        for header, nodes in sorted(loops.items(), key=lambda each: (len(each[1]), each[0])):
            exits = sorted({following for each in nodes for following in flow.after(each)} - nodes)
            if len(exits) > 1:
                flow = _with_exit(flow, header, nodes, exits)
                break
        else:
            return flow


def _with_exit(flow: _Flow, header: str, nodes: set[str], exits: Sequence[str]) -> _Flow:
    leaving = {each for each in nodes if not nodes.issuperset(flow.after(each))}
    if several := sorted(each for each in leaving if each not in flow.choices and len(flow.after(each)) > 1):
        raise AgentError(
            f"the loop from node {header!r} is left to {', '.join(map(repr, exits))}, to several at the same time from "
            f"node {several[0]!r}; let a node after the loop lead to them"
        )
    ends = {each: _ends(flow, header, nodes, each) for each in exits}
    choices = [flow.choices[each] for each in sorted(leaving) if each in flow.choices]
    given = [choice.max_runs for choice in choices if choice.max_runs]
    name = f"the end of the loop from {header}"
    to = dict.fromkeys(exits, name)
    result = _Flow(dict(flow.edges), dict(flow.choices), list(flow.waits), flow.deferred, flow.sends)
    for each in leaving:
        if each in flow.choices:
            choice = flow.choices[each]
            ways = [(to.get(target, target), choice.keys[target], p) for target, p in choice.targets.items()]
            result.choices[each] = _choice(choice.name, ways, choice.max_runs, is_exit=choice.is_exit)
        elif each in flow.edges:
            result.edges[each] = [to.get(target, target) for target in flow.edges[each]]
    result.waits = [
        (sources, to.get(target, target) if nodes.intersection(sources) else target) for sources, target in flow.waits
    ]
    result.choices[name] = _Choice(
        " or ".join(dict.fromkeys(choice.name for choice in choices)),
        {each: probability / sum(ends.values()) for each, probability in ends.items()},
        {each: "end" if each == END else each for each in exits},
        min(given, default=None),
        is_exit=True,
    )
    return result


def _ends(flow: _Flow, header: str, nodes: set[str], goal: str) -> float:
    """Return the probability that a run of a loop ends at a node: at the header, if another run follows, or at an exit.

    Inner loops always end. Solved by iteration; a walk stays inside with a probability below 1.
    """
    back = dict.fromkeys(nodes, 0.0)
    for _ in range(100_000):
        change = 0.0
        for each in nodes:
            # Edges to several nodes are all taken and join again, so any one of them decides.
            ways = flow.choices[each].targets if each in flow.choices else {flow.after(each)[0]: 1.0}
            probability = sum(
                p * (1.0 if target == goal else 0.0 if target == header else back.get(target, 0.0))
                for target, p in ways.items()
            )
            change = max(change, abs(probability - back[each]))
            back[each] = probability
        if change < 1e-15:
            break
    return back[header]
