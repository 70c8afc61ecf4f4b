# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nodes of LangGraph with several ways out of them: edges beside conditions, several conditions, routers of several.

LangGraph itself runs each graph, once for each way that its routers can go.
"""

import collections
import itertools
import operator
import re
import subprocess
import threading
import time
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal, TypedDict

import pytest
from intarsia import agent, langgraph

pytest.importorskip("langgraph.graph", reason="langgraph is not installed (pip install 'intarsia[langgraph]')")
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

small = agent.Model("small", shape="llama-3.1-8b")
RUNS = 3  # the last run of a loop


class State(TypedDict):
    log: Annotated[list, operator.add]


def one(**targets):
    """A router that returns one of its targets."""
    return {(target,): probability for target, probability in targets.items()}, langgraph.probabilities, targets


def several(**targets):
    """A router that returns some of its targets, independently of each other."""
    found = {}
    for chosen in itertools.product((True, False), repeat=len(targets)):
        probability = 1.0
        for (_, share), is_there in zip(targets.items(), chosen, strict=True):
            probability *= share if is_there else 1 - share
        found[tuple(target for target, is_there in zip(targets, chosen, strict=True) if is_there)] = probability
    return {targets: p for targets, p in found.items() if p > 0}, langgraph.several, targets


def graph_of(edges, routers=(), waits=(), deferred=(), run=lambda name: lambda state: {}, path=None):
    """Make a StateGraph of edges, and of routers {node: [router, …]}."""
    builder = StateGraph(State)
    routers = dict(routers)
    ends = [*edges, *((node, to) for node, each in routers.items() for router in each for to in router[2])]
    ends += [(source, target) for sources, target in waits for source in sources]
    for name in sorted({node for edge in ends for node in edge} - {START, END}):
        note = langgraph.llm(small, tokens=10)
        builder.add_node(name, run(name), metadata={"intarsia": note}, defer=name in deferred)
    for source, target in edges:
        builder.add_edge(source, target)
    for sources, target in waits:
        builder.add_edge(list(sources), target)
    for node, each in routers.items():
        for number, (_, annotate, targets) in enumerate(each):
            function = path(node, number) if path else annotate(max_runs=RUNS, **targets)(lambda state: None)
            function.__name__ = f"route_{number}"
            builder.add_conditional_edges(node, function, {target: target for target in targets})
    return builder


def ran(shape):
    """Mean executions of each node when LangGraph runs the graph, exactly. The RUNSth run of a loop is the last."""
    routers, back = dict(shape.get("routers", ())), shape.pop("back", {})
    found, lock = collections.Counter(), threading.Lock()

    def request(taken):
        """Run a request whose first choices are given, and those that choose otherwise later."""
        executed, made, probability, others = collections.Counter(), {}, 1.0, []

        def run(name):
            def node(state):
                with lock:
                    executed[name] += 1
                return {"log": [name]}

            return node

        def path(name, number):
            def decide(state):
                nonlocal probability
                with lock:  # nodes of a superstep run in threads
                    turn = (name, number, sum(each[:2] == (name, number) for each in made) + 1)
                    ways = {
                        way: p
                        for way, p in routers[name][number][0].items()
                        if back.get(name) not in way or turn[2] < RUNS
                    }
                    made[turn] = taken.get(turn, next(iter(ways)))
                    if turn not in taken:
                        others.extend({**taken, **made, turn: way} for way in list(ways)[1:])
                    probability *= ways[made[turn]] / sum(ways.values())
                    return list(made[turn])

            return decide

        graph_of(**shape, run=run, path=path).compile().invoke({"log": []})
        for name, count in executed.items():
            found[name] += probability * count
        for other in others:
            request(other)

    request({})
    return dict(found)


def imported(shape):
    return agent.from_langgraph(graph_of(**shape), inputs={"log": agent.text(5)})


def planned(tools, graph):
    """The same of the import: the sum over the tasks of a node."""
    run = subprocess.run(
        [tools.path("intarsia-opt"), "-", "--plan-decompose"], input=str(graph), capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr + str(graph)
    found = collections.Counter()
    for line in run.stdout.splitlines():
        if "agent.prefill" in line:
            label = re.search(r'label = "([^"]*)"', line)[1]
            found[label] += float(re.search(r"executions = ([\d.e+-]+)", line)[1])
    return {label: executions for label, executions in found.items() if executions}


def fan(*names, join=None):
    """Edges from some nodes to one, or to the end."""
    return [(name, join or END) for name in names] + ([(join, END)] if join else [])


A = (START, "a")
SHAPES = {
    "an edge beside a condition": {"edges": [A, ("a", "b"), *fan("b", "c", "d")], "routers": {"a": [one(c=0.3, d=0.7)]}},
    "that come together": {
        "edges": [A, ("a", "b"), *fan("b", "c", "d", join="e")], "routers": {"a": [one(c=0.3, d=0.7)]},
    },
    "that come together at other times": {
        "edges": [A, *pairwise("abxe"), *fan("c", "d", join="e")], "routers": {"a": [one(c=0.3, d=0.7)]},
    },
    "where the condition may end": {
        "edges": [A, ("a", "b"), *fan("b", "c", join="e")], "routers": {"a": [one(c=0.3, __end__=0.7)]},
    },
    "of which one is longer": {
        "edges": [A, *pairwise("abxyz"), ("c", "d"), ("z", END), ("d", END)], "routers": {"a": [one(c=0.3, __end__=0.7)]},
    },
    "to the same node": {"edges": [A, ("a", "b"), *fan("b", "c")], "routers": {"a": [one(b=0.4, c=0.6)]}},
    "to the same node alone": {"edges": [A, ("a", "b"), ("b", END)], "routers": {"a": [one(b=1.0)]}},
    "to one that both lead to": {
        "edges": [A, ("a", "b"), ("b", "e"), ("c", "e"), *fan("d", "e")], "routers": {"a": [one(c=0.4, d=0.6)]},
    },
    "at the start": {"edges": [A, *fan("a", "c", "d")], "routers": {START: [one(c=0.3, d=0.7)]}},
    "two conditions": {
        "edges": [A, *fan(*"bcde")], "routers": {"a": [one(b=0.3, c=0.7), one(d=0.6, e=0.4)]},
    },
    "two conditions that come together": {
        "edges": [A, *fan(*"bcd", join="e")], "routers": {"a": [one(b=0.3, c=0.7), one(d=0.6, __end__=0.4)]},
    },
    "two conditions with a node of both": {
        "edges": [A, *fan(*"bcd", join="e")], "routers": {"a": [one(b=0.3, c=0.7), one(c=0.6, d=0.4)]},
    },
    "three conditions": {
        "edges": [A, *fan(*"bcdfgh")],
        "routers": {"a": [one(b=0.3, c=0.7), one(d=0.6, __end__=0.4), one(f=0.2, g=0.3, h=0.5)]},
    },
    "a router of several": {"edges": [A, *fan(*"bcd")], "routers": {"a": [several(b=0.9, c=0.5, d=0.2)]}},
    "of several that come together": {"edges": [A, *fan(*"bcd", join="e")], "routers": {"a": [several(b=0.9, c=0.5, d=0.2)]}},
    "of several that all run": {"edges": [A, *fan(*"bcd", join="e")], "routers": {"a": [several(b=1.0, c=1.0, d=1.0)]}},
    "of several, one always": {"edges": [A, *fan(*"bcd", join="e")], "routers": {"a": [several(b=1.0, c=0.5, d=0.0)]}},
    "of several, with an end": {"edges": [A, *fan(*"bc", join="e")], "routers": {"a": [several(b=0.5, c=0.25, __end__=0.5)]}},
    "of several behind each other": {
        "edges": [A, ("b", "e"), ("c", "e"), *fan("f", "g")],
        "routers": {"a": [several(b=0.9, c=0.5)], "e": [several(f=0.5, g=0.5)]},
    },
    "of several beside an edge and a condition": {
        "edges": [A, ("a", "x"), *fan(*"xbcde")], "routers": {"a": [several(b=0.9, c=0.5), one(d=0.25, e=0.75)]},
    },
    "a deferred node behind them": {
        "edges": [A, ("a", "b"), *pairwise("bxe"), ("c", "e"), ("d", "e"), ("e", END)],
        "routers": {"a": [one(c=0.3, d=0.7)]}, "deferred": ["e"],
    },
    "beside an edge that waits": {
        "edges": [A, (START, "x"), *fan("c", "d", "e")], "routers": {"a": [one(c=0.3, d=0.7)]}, "waits": [(("a", "x"), "e")],
    },
    "beside an edge that waits, or nothing": {
        "edges": [A, (START, "x"), *fan("c", "e")], "routers": {"a": [one(c=0.3, __end__=0.7)]}, "waits": [(("a", "x"), "e")],
    },
    "in a loop": {
        "edges": [A, ("a", "b"), *[(each, "e") for each in "bcd"]],
        "routers": {"a": [one(c=0.3, d=0.7)], "e": [one(a=0.5, __end__=0.5)]}, "back": {"e": "a"},
    },
    "of several in a loop": {
        "edges": [A, *[(each, "e") for each in "bcd"]],
        "routers": {"a": [several(b=1.0, c=0.5, d=0.5)], "e": [one(a=0.5, f=0.5)]}, "back": {"e": "a"},
    },
    "a hook in a loop": {
        "edges": [A, ("a", "hook")],
        "routers": {"a": [one(hook=1.0)], "hook": [one(a=0.5, __end__=0.5)]}, "back": {"hook": "a"},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_nodes_run_as_often_as_in_langgraph(tools, name):
    shape = SHAPES[name]
    expected = ran(dict(shape))
    found = planned(tools, imported({key: value for key, value in shape.items() if key != "back"}))
    assert found == pytest.approx(expected, rel=1e-4)


def test_ways_that_never_meet_are_written_once():
    """What runs in any case is no part of the cases of others, and conditions are no product of each other."""
    text = str(imported(SHAPES["an edge beside a condition"]))
    assert text.count('label = "b"') == 1
    text = str(imported(SHAPES["three conditions"]))
    assert text.count("agent.branch") == 3
    assert all(text.count(f'label = "{name}"') == 1 for name in "abcdfgh")


def sending(edge):
    builder = StateGraph(State)
    for name in "abc":
        builder.add_node(name, langgraph.llm(small, tokens=10)(lambda state: {"log": ["x"]}))
    builder.add_edge(START, "a")
    builder.add_edge("a", edge)
    path = langgraph.sends(width=3, tokens=5)(lambda state: [Send("c", {"log": []})] * 3)
    builder.add_conditional_edges("a", path, ["c"])
    return builder


def test_sends_beside_an_edge(tools):
    found = planned(tools, agent.from_langgraph(sending("b"), inputs={"log": agent.text(5)}))
    assert found == {"a": 1, "b": 1, "c": 3}
    with pytest.raises(agent.AgentError, match="node 'c' runs once for each Send, and"):
        agent.from_langgraph(sending("c"), inputs={"log": agent.text(5)})


def hinted(returned, **options):
    def route(state): ...

    route.__annotations__["return"] = returned
    builder = graph_of([A, *fan(*"bc")])
    builder.add_conditional_edges("a", route, **options)
    return builder


@pytest.mark.parametrize(
    "returned", [Sequence[Literal["b", "c"]], list[Literal["b", "c"]], tuple[Literal["b", "c"], ...]]
)
@pytest.mark.parametrize("options", [{}, {"path_map": ["b", "c"]}])
def test_functions_that_say_that_they_return_several(tools, returned, options):
    builder = hinted(returned, **options)
    missing = "conditional edge from 'a', which returns several: each of b, c with 1"
    with pytest.raises(agent.AgentError, match=missing):
        agent.from_langgraph(builder, inputs={"log": agent.text(5)})
    assert planned(tools, agent.from_langgraph(builder, inputs={"log": agent.text(5)}, assume=True)) == {
        "a": 1, "b": 1, "c": 1,
    }  # fmt: skip


def test_functions_that_return_one(tools):
    graph = agent.from_langgraph(hinted(Literal["b", "c"]), inputs={"log": agent.text(5)}, assume=True)
    assert planned(tools, graph) == {"a": 1, "b": 0.5, "c": 0.5}


def test_annotations_of_several():
    with pytest.raises(agent.AgentError, match=r"the probability of 'b' of langgraph.several is 1.5"):
        langgraph.several(b=1.5)
    with pytest.raises(agent.AgentError, match=r"max_runs of langgraph\.several is 0"):
        langgraph.several(b=0.5, max_runs=0)
    builder = graph_of([A, *fan(*"bc")])
    builder.add_conditional_edges("a", langgraph.several(b=0.5, x=0.5)(lambda state: []), ["b", "c"])
    with pytest.raises(agent.AgentError, match=r"leads to b, c, its probabilities are .*; give one for each$"):
        agent.from_langgraph(builder, inputs={"log": agent.text(5)})


def test_too_many_combinations():
    names = [f"w{number}" for number in range(9)]
    shape = {"edges": [A, *fan(*names, join="e")], "routers": {"a": [several(**dict.fromkeys(names, 0.5))]}}
    with pytest.raises(agent.AgentError, match=r"the ways from node 'a' have 512 combinations, at most 256 are"):
        imported(shape)
    shape["edges"] = [A, *fan(*names)]
    assert str(imported(shape)).count("agent.branch") == 9


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (
            {"edges": [A, *pairwise("abe"), *pairwise("cxe"), *fan("d", join="e")], "routers": {"a": [one(c=0.3, d=0.7)]}},
            r"several ways lead to node 'e', and how long one of them takes differs .* defer=True",
        ),
        (
            {"edges": [A, ("a", "log"), ("log", END), ("act", "a")], "routers": {"a": [one(act=0.5, __end__=0.5)]}},
            "the loop from node 'a' is left to 'log', to which node 'a' leads beside others",
        ),
    ],
)  # fmt: skip
def test_ways_that_cannot_be_imported(shape, message):
    with pytest.raises(agent.AgentError, match=message):
        imported(shape)


@pytest.mark.parametrize("hooks", [{}, {"post_model_hook": lambda state: state}, {"pre_model_hook": lambda state: state,
                         "post_model_hook": lambda state: state}])  # fmt: skip
@pytest.mark.parametrize("form", [None, {"title": "R", "type": "object", "properties": {"a": {"type": "string"}}}])
def test_prebuilt_agents(tools, hooks, form):
    """The model asks for a tool or ends, each with the same probability as the ways of the router; ten runs at most."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.prebuilt import create_react_agent

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools, **_):
            return self

    @tool
    def look_up(query: str) -> str:
        """Look a word up."""
        return query

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = create_react_agent(Model(messages=iter([AIMessage("x")])), [look_up], response_format=form, **hooks)
    found = planned(tools, agent.from_langgraph(graph, assume=True, assume_model=small))
    again = 2 / 3 if "post_model_hook" in hooks else 1 / 2
    runs = sum(again**run for run in range(10))
    expected = {"agent": runs, "tools": runs / (3 if "post_model_hook" in hooks else 2), **dict.fromkeys(hooks, runs)}
    if form:
        expected["generate_structured_response"] = 1
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kind", ["chain", "diamonds", "conditions", "loops"])
def test_graphs_of_many_nodes(kind):
    """Ten times the nodes may take ten times as long, and a little more: they took a thousand times as long."""

    def seconds(count):
        edges, routers = [(START, "n0")], {}
        for number in range(count):
            here, there = f"n{number}", f"n{number + 1}"
            if kind == "chain":
                edges.append((here, there))
            elif kind == "loops":
                routers[here] = [one(**{here: 0.5, there: 0.5})]
            else:
                sides = [f"l{number}", f"r{number}"]
                edges += [(side, there) for side in sides]
                if kind == "diamonds":
                    edges += [(here, side) for side in sides]
                else:
                    routers[here] = [one(**dict.fromkeys(sides, 0.5))]
        builder = graph_of([*edges, (f"n{count}", END)], routers)
        begin = time.process_time()
        agent.from_langgraph(builder, inputs={"log": agent.text(5)})
        return time.process_time() - begin

    assert seconds(1000 if kind == "chain" else 300) < 3
