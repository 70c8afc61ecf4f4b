# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nodes and edges of a LangGraph graph: its joins, its loops, and how often they run."""

from __future__ import annotations

import functools
import itertools
import math
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .figures import AgentError
from .values import Figure

START, END = "__start__", "__end__"
NEXT = "__next__"  # target of the end of a loop's run, whether or not another run follows
NOTHING = ""  # what a conditional edge leads to that leads nowhere
ASSUMED_RUNS = 10  # bound of a loop with `assume`; cases are equally probable
MOST_CASES = 256  # combinations of what conditional edges of a node choose that lead to the same nodes


@dataclass(frozen=True)
class _Way:
    """A way out of a node: to one of its targets, or to `NOTHING`."""

    name: str  # the user's function
    targets: Mapping[str, float]
    keys: Mapping[str, str] = field(default_factory=dict)  # result of the user's function for each target
    max_runs: int | None = None

    def mapped(self, to: Mapping[str, str]) -> _Way:
        """Return the same way to other targets."""
        ways = [(to.get(target, target), self.keys.get(target, target), p) for target, p in self.targets.items()]
        return _way(self.name, ways, self.max_runs)

    def is_sure(self) -> bool:
        return len(self.targets) == 1 and NOTHING not in self.targets


def _way(name: str, ways: Iterable[tuple[str, str, float]], max_runs: int | None) -> _Way:
    """Make a way of (target, key, probability); those to the same target are merged."""
    targets: dict[str, float] = {}
    keys: dict[str, str] = {}
    for target, key, probability in ways:
        targets[target] = targets.get(target, 0) + probability
        keys[target] = f"{keys[target]} or {key}" if target in keys else key
    return _Way(name, targets, keys, max_runs)


@dataclass(frozen=True)
class _Choice:
    """The ways out of a node, which are chosen independently of each other and taken in the same superstep.

    A target that several of them lead to runs once. If all lead to `NOTHING`, `empty` follows, which is `NOTHING` too
    if edges of several sources follow.
    """

    node: str
    ways: tuple[_Way, ...]
    empty: str = END
    is_exit: bool = False  # of a loop that is left to several nodes, and no node of the user's

    @functools.cached_property
    def targets(self) -> list[str]:
        """All nodes that may follow."""
        found = dict.fromkeys(target for way in self.ways for target in way.targets if target != NOTHING)
        if self.empty and all(NOTHING in way.targets for way in self.ways):
            found[self.empty] = None
        return list(found)

    @property
    def max_runs(self) -> int | None:
        return min((way.max_runs for way in self.ways if way.max_runs), default=None)

    @functools.cached_property
    def cases(self) -> dict[tuple[str, ...], float]:
        """The probabilities of the sets of nodes that follow together."""
        return {case: probability for case, (probability, _) in self.combined(range(len(self.ways))).items()}

    def combined(self, numbers: Sequence[int]) -> dict[tuple[str, ...], tuple[float, str]]:
        """Return the sets of nodes that some of the ways lead to together, each with its probability and its name.

        Ways that all lead to nothing lead to `empty` only if no others are beside them.
        """
        ways = [self.ways[number] for number in numbers]
        count = math.prod(len(way.targets) for way in ways)
        if count > MOST_CASES:
            raise AgentError(
                f"the ways from node {self.node!r} have {count} combinations, at most {MOST_CASES} are imported; let "
                "nodes of their own follow it, of which each leads to a part of them"
            )
        empty = self.empty if len(ways) == len(self.ways) else NOTHING
        found: dict[tuple[str, ...], tuple[float, str]] = {}
        for each in itertools.product(*(way.targets.items() for way in ways)):
            case = tuple(sorted({target for target, _ in each} - {NOTHING})) or ((empty,) if empty else ())
            probability = math.prod(p for _, p in each)
            said = [
                way.keys.get(target, target)
                for way, (target, _) in zip(ways, each, strict=True)
                if way.name and (target != NOTHING or len(ways) == 1)
            ]
            key = " and ".join(dict.fromkeys(said)) or "nothing"
            if probability > 0 or len(ways) == 1:
                before, known = found.get(case, (0.0, ""))
                found[case] = before + probability, f"{known} or {key}" if known else key
        return found

    def mapped(self, to: Mapping[str, str]) -> _Choice:
        """Return the same choice of other targets."""
        ways = tuple(way.mapped(to) for way in self.ways)
        return _Choice(self.node, ways, to.get(self.empty, self.empty), self.is_exit)


@dataclass(frozen=True)
class Sends:
    """The number of Sends to a node, and the tokens of each. Made by :func:`intarsia.langgraph.sends`."""

    width: Figure
    tokens: Figure


@dataclass(frozen=True)
class Several:
    """The probability of each key that a function may return beside others. Made by `intarsia.langgraph.several`."""

    targets: Mapping[str, float]
    max_runs: int | None


@dataclass
class _Flow:
    """Nodes and the edges between them; a node has either edges or a choice.

    `waits` are edges with several sources, taken when all sources have run. A node that is `deferred` runs when nothing
    else is left to run. `sends` says how often a node runs that another one sends to, by both.
    """

    edges: dict[str, list[str]] = field(default_factory=dict)
    choices: dict[str, _Choice] = field(default_factory=dict)
    waits: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    deferred: set[str] = field(default_factory=set)
    sends: dict[tuple[str, str], Sends] = field(default_factory=dict)

    @functools.cached_property
    def waits_of(self) -> dict[str, list[tuple[tuple[str, ...], str]]]:
        """The edges with several sources, by source."""
        found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for wait in self.waits:
            for source in wait[0]:
                found.setdefault(source, []).append(wait)
        return found

    def after(self, node: str) -> list[str]:
        following = self.choices[node].targets if node in self.choices else self.edges.get(node, [])
        return list(dict.fromkeys([*following, *(target for _, target in self.waits_of.get(node, ()))]))

    def between(self, starts: Iterable[str], stop: str) -> set[str]:
        """Return the nodes on paths from some nodes to `stop`, which is excluded."""
        seen = set(starts) - {stop}
        queue = list(seen)
        while queue:
            for following in self.after(queue.pop()):
                if following not in seen and following != stop:
                    seen.add(following)
                    queue.append(following)
        return seen

    def reachable(self, start: str) -> set[str]:
        return self.between([start], NOTHING)

    def meets(self, targets: Iterable[str], end: str, node: str) -> str:
        """Return the first node that lies on all paths from some nodes to the end; `node` is what leads to them."""
        tree = self._to_the_end(end)
        found = None
        for target in targets:
            if target not in tree:
                raise AgentError(f"ways from node {node!r} do not come together before {end!r}")
            found = target if found is None else tree.common(found, target)
        assert found is not None
        return found

    def _to_the_end(self, end: str) -> _Dominators:
        """Return what lies on all paths to an end: the dominators of the graph whose edges go back."""
        if end not in self._trees:
            sources = sources_of(self, {end, *self.edges, *self.choices, *self.waits_of})
            self._trees[end] = _Dominators(end, sources.__getitem__)
        return self._trees[end]

    @functools.cached_property
    def _trees(self) -> dict[str, _Dominators]:
        return {}

    def loops(self) -> dict[str, set[str]]:
        """Return the loops: the nodes inside by header.

        An edge goes back if its target dominates its source.
        """
        tree = _Dominators(START, self.after)
        sources = sources_of(self, tree.order)
        found: dict[str, set[str]] = {}
        for each in tree.order:
            for header in self.after(each):
                if tree.dominates(header, each):
                    nodes, queue = found.setdefault(header, {header}), [each]
                    while queue:
                        one = queue.pop()
                        if one not in nodes:
                            nodes.add(one)
                            queue += sources[one]
        self._check_cycles(tree)
        return found

    def _check_cycles(self, tree: _Dominators) -> None:
        """Refuse cycles that are there without the edges that go back."""
        _, back = depth_first(START, lambda one: [each for each in self.after(one) if not tree.dominates(each, one)])
        if back:
            raise AgentError(
                f"nodes {back[0][0]!r} and {back[0][1]!r} are in a cycle that is entered at more than one node; "
                "let all ways into it lead to one node"
            )


def sources_of(flow: _Flow, nodes: Iterable[str]) -> dict[str, list[str]]:
    """Return the nodes that edges come from, for each node."""
    sources: dict[str, list[str]] = {each: [] for each in nodes}
    for each in list(sources):
        for following in flow.after(each):
            sources.setdefault(following, []).append(each)
    return sources


def depth_first(start: str, after: Callable[[str], Iterable[str]]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return nodes in the order in which a search leaves them, and the edges to nodes that it had not left yet."""
    order: list[str] = []
    back: list[tuple[str, str]] = []
    state = {start: 1}
    stack = [(start, iter(after(start)))]
    while stack:
        node, following = stack[-1]
        for each in following:
            if state.get(each) == 1:
                back.append((node, each))
            elif each not in state:
                state[each] = 1
                stack.append((each, iter(after(each))))
                break
        else:
            stack.pop()
            state[node] = 2
            order.append(node)
    return order, back


class _Dominators:
    """The tree of nodes that lie on all paths from a root.

    Computed as in Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001.
    """

    def __init__(self, root: str, after: Callable[[str], Iterable[str]]) -> None:
        left, _ = depth_first(root, after)
        #: Nodes that the root leads to; those that lead to a node without going back come before it.
        self.order = left[::-1]
        self.number = {node: number for number, node in enumerate(self.order)}
        before: dict[str, list[str]] = {node: [] for node in self.order}
        for node in self.order:
            for each in after(node):
                before[each].append(node)
        self.parents = {root: root}
        changed = True
        while changed:
            changed = False
            for node in self.order[1:]:
                known = [each for each in before[node] if each in self.parents]
                parent = functools.reduce(self.common, known)
                changed |= self.parents.get(node) != parent
                self.parents[node] = parent
        self.spans = self._spans(root)

    def __contains__(self, node: str) -> bool:
        return node in self.number

    def common(self, one: str, other: str) -> str:
        """Return the last node that lies on all paths to both."""
        while one != other:
            while self.number[one] > self.number[other]:
                one = self.parents[one]
            while self.number[other] > self.number[one]:
                other = self.parents[other]
        return one

    def dominates(self, one: str, other: str) -> bool:
        """Return true if a node lies on all paths to another."""
        first, last = self.spans[one]
        return first <= self.spans[other][0] <= last

    def _spans(self, root: str) -> dict[str, tuple[int, int]]:
        """Return for each node the first and the last number of its tree."""
        children: dict[str, list[str]] = {node: [] for node in self.order}
        for node in self.order[1:]:
            children[self.parents[node]].append(node)
        left, _ = depth_first(root, children.__getitem__)
        # A search leaves the nodes of a tree one after another, its root last.
        sizes: dict[str, int] = {}
        for node in left:
            sizes[node] = 1 + sum(sizes[child] for child in children[node])
        last = {node: number for number, node in enumerate(left)}
        # Positions count from the root, so that a node comes before its tree.
        count = len(left)
        return {node: (count - 1 - last[node], count - 1 - last[node] + sizes[node] - 1) for node in left}


def _flow(builder: Any, missing: list[str]) -> _Flow:
    edges: dict[str, list[str]] = {}
    for source, target in sorted(builder.edges):
        edges.setdefault(source, []).append(target)
    waits = sorted(getattr(builder, "waiting_edges", ()))
    sources_of_waits = {source for sources, _ in waits for source in sources}
    ways: dict[str, list[_Way]] = {}
    sends: dict[tuple[str, str], Sends] = {}
    for node, branches in builder.branches.items():
        for name, branch in branches.items():
            found = _ways_of(node, name, branch, missing)
            if isinstance(found, tuple):
                target, note = found
                if target in edges.get(node, []) or (node, target) in sends:
                    raise sent(target)
                edges.setdefault(node, []).append(target)
                sends[node, target] = note
            else:
                ways.setdefault(node, []).extend(found)
    for node, spec in builder.nodes.items():
        if getattr(spec, "ends", ()):
            raise AgentError(
                f"node {node!r} goes where a Command says: {', '.join(map(str, spec.ends))}; nothing says how often; "
                "make a conditional edge of it, whose function has langgraph.probabilities"
            )
        if node not in edges and node not in ways and node not in sources_of_waits:
            edges[node] = [END]
    choices = {}
    for node, several in ways.items():
        choice = _choice(node, edges.get(node, []), several, node in sources_of_waits)
        if any((node, target) in sends for way in choice.ways if not way.is_sure() for target in way.targets):
            raise sent(next(target for one, target in sends if one == node))
        if all(way.is_sure() for way in choice.ways) and (not choice.max_runs or not choice.ways):
            edges[node] = choice.targets
        else:
            edges.pop(node, None)
            choices[node] = choice
    for node, targets in edges.items():
        if len(targets) > 1:  # an end beside other nodes ends nothing
            edges[node] = [target for target in targets if target != END]
    deferred = {node for node, spec in builder.nodes.items() if getattr(spec, "defer", False)}
    flow = _Flow(edges, choices, waits, deferred, sends)
    reached = flow.reachable(START)
    if lost := [node for node in builder.nodes if node not in reached]:
        raise AgentError(
            f"no way leads from START to {', '.join(f'node {node!r}' for node in lost)}; add the edges, or leave the "
            "nodes out. Where a Command goes there, make a conditional edge of it, whose function has "
            "langgraph.probabilities"
        )
    return flow


def _ways_of(node: str, name: str, branch: Any, missing: list[str]) -> list[_Way] | tuple[str, Sends]:
    """Return the ways that a conditional edge is; of one that sends, where to and the note."""
    function = getattr(branch.path, "func", None) or getattr(branch.path, "afunc", None) or branch.path
    while isinstance(function, functools.partial):
        function = function.func
    several = _returned(function)
    # A path map may have keys that are not str, such as True and False.
    ends = {str(key): target for key, target in (branch.ends or dict.fromkeys(several)).items()}
    ends = {key: target or key for key, target in ends.items()}
    if not ends:
        raise AgentError(
            f"the conditional edge from {node!r} says not where it may lead; give add_conditional_edges a path map"
        )
    note = getattr(function, "__intarsia__", (None, None))
    if isinstance(note, Sends):
        if len(targets := sorted(set(ends.values()))) > 1 or targets == [END]:
            raise AgentError(
                f"the conditional edge from {node!r} sends to {', '.join(targets)}, must send to one node; "
                "let the node before it lead to several, of which each sends to one"
            )
        return targets[0], note
    if not isinstance(note, tuple | Several):
        raise AgentError(
            f"the conditional edge from {node!r} is annotated with {note!r}, must be with "
            "langgraph.probabilities, langgraph.several or langgraph.sends"
        )
    if note == (None, None) and several:
        missing.append(f"conditional edge from {node!r}, which returns several: each of {', '.join(ends)} with 1")
        note = Several(dict.fromkeys(ends, 1.0), None)
    given, max_runs = (note.targets, note.max_runs) if isinstance(note, Several) else note
    if given is None:
        share = 1 / len(ends)
        missing.append(f"conditional edge from {node!r}: each of {', '.join(ends)} with {share:.3g}, one at a time")
        given = dict.fromkeys(ends, share)
    if any(key not in ends for key in given):
        raise AgentError(
            f"the conditional edge from {node!r} leads to {', '.join(ends)}, its probabilities are {dict(given)}; "
            f"give one for each{'' if isinstance(note, Several) else ', with the sum 1'}"
        )
    places = {key: NOTHING if target == END else target for key, target in ends.items()}
    if not isinstance(note, Several):
        return [_way(name, [(places[key], key, probability) for key, probability in given.items()], max_runs)]
    return [
        _way(name, [(places[key], key, probability), (NOTHING, "nothing", 1 - probability)], max_runs)
        if probability < 1
        else _way(name, [(places[key], key, 1.0)], max_runs)
        for key, probability in given.items()
    ]


def _returned(function: Any) -> list[str]:
    """Return the names that a function says to return several of: ``-> Sequence[Literal["b", "c"]]``."""
    try:
        returned = typing.get_type_hints(function).get("return")
    except Exception:  # no function, or names that are not known here: whatever evaluating them raises
        return []
    origin, arguments = typing.get_origin(returned), typing.get_args(returned)
    if not (isinstance(origin, type) and issubclass(origin, Iterable) and arguments):
        return []
    inner = arguments[0]
    return [str(key) for key in typing.get_args(inner)] if typing.get_origin(inner) is typing.Literal else []


def _choice(node: str, edges: Sequence[str], ways: Sequence[_Way], waits: bool) -> _Choice:
    """Return the choice of a node with conditional edges, and perhaps others beside them."""
    sure = list(dict.fromkeys([*edges, *(target for way in ways if way.is_sure() for target in way.targets)]))
    sure = [target for target in sure if target != END]
    max_runs = min((way.max_runs for way in ways if way.max_runs), default=None)
    # What follows in any case is nothing that another way adds.
    rest = [way.mapped(dict.fromkeys(sure, NOTHING)) for way in ways if not way.is_sure()]
    rest = [way for way in rest if set(way.targets) != {NOTHING}] if sure or waits else rest
    found = (*(_Way("", {target: 1.0}, {}, max_runs) for target in sure), *rest)
    return _Choice(node, found, NOTHING if waits else END)


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
    if several := sorted(each for each in nodes if _leaves_with_others(flow, each, nodes)):
        raise AgentError(
            f"the loop from node {header!r} is left to {exits[0]!r}, to which node {several[0]!r} leads beside others, "
            "so that the loop goes on; let a node after the loop lead to it, or a node of the loop come after it"
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
            run.choices[each] = flow.choices[each].mapped(end)
        else:
            run.edges[each] = list(dict.fromkeys(end.get(target, target) for target in flow.edges.get(each, [])))
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
    if several := sorted(each for each in leaving if _leaves_with_others(flow, each, nodes)):
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
            result.choices[each] = flow.choices[each].mapped(to)
        elif each in flow.edges:
            result.edges[each] = [to.get(target, target) for target in flow.edges[each]]
    result.waits = [
        (sources, to.get(target, target) if nodes.intersection(sources) else target) for sources, target in flow.waits
    ]
    way = _Way(
        " or ".join(dict.fromkeys(way.name for choice in choices for way in choice.ways if way.name)),
        {each: probability / sum(ends.values()) for each, probability in ends.items()},
        {each: "end" if each == END else each for each in exits},
        min(given, default=None),
    )
    result.choices[name] = _Choice(name, (way,), is_exit=True)
    return result


def _leaves_with_others(flow: _Flow, node: str, nodes: set[str]) -> bool:
    """Return true if a node may lead out of a loop and to another node at the same time."""
    cases = flow.choices[node].cases if node in flow.choices else [tuple(flow.edges.get(node, ()))]
    return any(len(case) > 1 and not nodes.issuperset(case) for case in cases)


def _ends(flow: _Flow, header: str, nodes: set[str], goal: str) -> float:
    """Return the probability that a run of a loop ends at a node: at the header, if another run follows, or at an exit.

    Inner loops always end. Solved by iteration; a walk stays inside with a probability below 1.
    """
    back = dict.fromkeys(nodes, 0.0)
    # Nodes that lead to others come after them, so that what is known goes all the way in one round.
    order, _ = depth_first(header, lambda each: [one for one in flow.after(each) if one in nodes and one != header])
    # Nodes that follow at the same time join again, so any one of them decides.
    ways = {
        each: [(next(iter([*case, *flow.after(each)])), p) for case, p in flow.choices[each].cases.items()]
        if each in flow.choices
        else [(flow.after(each)[0], 1.0)]
        for each in order
    }
    for _ in range(100_000):
        change = 0.0
        for each in order:
            probability = sum(
                p * (1.0 if target == goal else 0.0 if target == header else back.get(target, 0.0))
                for target, p in ways[each]
            )
            change = max(change, abs(probability - back[each]))
            back[each] = probability
        if change < 1e-15:
            break
    return back[header]


def sent(node: str) -> AgentError:
    """Return the error that a node that Sends lead to is more than that."""
    what = f"node {node!r}" if node != NEXT else "the next run of the loop"
    return AgentError(
        f"{what} runs once for each Send, and begins a loop, or is where other ways come together; let the Sends "
        "lead to a node of their own, and an edge from there to it"
    )
