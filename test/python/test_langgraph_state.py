# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How large the state of a LangGraph graph is where a node reads it, compared with LangGraph running the graph."""

import collections
import operator
import re
import subprocess
from itertools import pairwise
from typing import Annotated, TypedDict

import pytest
from intarsia import agent, langgraph

pytest.importorskip("langgraph.graph", reason="langgraph is not installed (pip install 'intarsia[langgraph]')")
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

small = agent.Model("small", shape="llama-3.1-8b")
QUESTION, ANSWER = 25, 80  # tokens
RUNS = 3


class State(TypedDict):
    messages: Annotated[list, operator.add]


def graph_of(
    edges, choices=(), waits=(), deferred=(), back=(), run=lambda name: lambda state: {}, path=lambda name: None
):
    """Make a StateGraph of edges, choices {node: {target: probability}}, edges of several sources, deferred nodes."""
    builder = StateGraph(State)
    choices = dict(choices)
    ends = [*edges, *((node, target) for node, targets in choices.items() for target in targets)]
    ends += [(source, target) for sources, target in waits for source in sources]
    for name in sorted({node for edge in ends for node in edge} - {START, END}):
        note = langgraph.llm(small, tokens=ANSWER)
        builder.add_node(name, run(name), metadata={"intarsia": note}, defer=name in deferred)
    for source, target in edges:
        builder.add_edge(source, target)
    for sources, target in waits:
        builder.add_edge(list(sources), target)
    for node, targets in choices.items():
        builder.add_conditional_edges(node, path(node), {target: target for target in targets})
    return builder


def ran(shape):
    """Executions of each node for a request, and how many tokens it reads in all of them, when LangGraph runs it.

    Exactly: once for each way that choices can go, by its probability. The RUNSth run of a loop is the last.
    """
    choices, back = dict(shape.get("choices", ())), shape.get("back", {})
    found = collections.defaultdict(lambda: (0, 0))

    def request(taken):
        """Run a request whose first choices are given, and those that choose otherwise later."""
        reads, made, probability = [], {}, 1.0

        def run(name):
            def node(state):
                reads.append((name, sum(state["messages"])))
                return {"messages": [ANSWER]}

            return node

        def path(name):
            def decide(state):
                nonlocal probability
                turn = (name, sum(each == name for each, _ in made) + 1)
                targets = {key: p for key, p in choices[name].items() if key != back.get(name) or turn[1] < RUNS}
                made[turn] = taken.get(turn, next(iter(targets)))
                if turn not in taken:
                    others.extend({**taken, **made, turn: key} for key in list(targets)[1:])
                probability *= targets[made[turn]] / sum(targets.values())
                return made[turn]

            return decide

        others = []
        graph_of(**shape, run=run, path=path).compile().invoke({"messages": [QUESTION]})
        for name, tokens in reads:
            found[name] = found[name][0] + probability, found[name][1] + probability * tokens
        for other in others:
            request(other)

    request({})
    return dict(found)


def imported(shape):
    def path(name):
        return langgraph.probabilities(max_runs=RUNS, **shape["choices"][name])(lambda state: None)

    return agent.from_langgraph(graph_of(**shape, path=path), inputs={"messages": agent.text(QUESTION)})


def planned(tools, graph):
    """The same of the import: a prompt has new tokens and those that are in the cache."""
    run = subprocess.run(
        [tools.path("intarsia-opt"), "-", "--plan-decompose"], input=str(graph), capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr + str(graph)
    found = collections.defaultdict(lambda: (0, 0))
    for line in run.stdout.splitlines():
        if "agent.prefill" in line:
            tokens = sum(float(each) for each in re.findall(r"(?:new|cached)_tokens = #agent.amount<([\d.e+-]+)", line))
            executions = float(re.search(r"executions = ([\d.e+-]+)", line)[1])
            label = re.search(r'label = "([^"]*)"', line)[1]
            found[label] = found[label][0] + executions, found[label][1] + executions * tokens
    return dict(found)


def diamonds(count):
    """Make a graph n0 -> l0, r0 -> n1 -> l1, r1 -> n2 -> …"""
    edges = [(START, "n0"), (f"n{count}", END)]
    for each in range(count):
        for side in ("l", "r"):
            edges += [(f"n{each}", f"{side}{each}"), (f"{side}{each}", f"n{each + 1}")]
    return edges


FIXED = {
    "one diamond": {"edges": diamonds(1)},
    "six diamonds": {"edges": diamonds(6)},
    "five workers": {"edges": [*((START, f"w{n}") for n in range(5)), *((f"w{n}", "d") for n in range(5)), ("d", END)]},
    "a diamond in one": {
        "edges": [
            *((START, "a"), ("a", "b"), ("a", "c"), ("b", "b1"), ("b", "b2"), ("b1", "b3"), ("b2", "b3")),
            *(("c", "c1"), ("c1", "c2"), ("b3", "d"), ("c2", "d"), ("d", END)),
        ]
    },
    "ways that share a node": {
        "edges": [(START, "a"), *(("a", each) for each in "bc"), ("b", "d"), ("c", "d"), ("c", "e"), *pairwise("dfg"),
                  ("e", "f"), ("g", END)],
    },
    "a node that waits": {
        "edges": [*pairwise([START, "a", "b"]), *pairwise("acx"), ("d", END)],
        "waits": [(("b", "x"), "d")],
    },
    "a deferred node": {
        "edges": [*pairwise([START, "a", "b", "d"]), *pairwise("acxd"), ("d", END)],
        "deferred": ["d"],
    },
    # LangGraph runs a node once more for a way that comes later, and all after it too.
    "unequal ways": {"edges": [*pairwise([START, "a", "b", "d", "e", END]), *pairwise("acxd")]},
    "ways to the end": {"edges": [*pairwise([START, "a", "b", END]), *pairwise(["a", "c", "x", END])]},
}  # fmt: skip


@pytest.mark.parametrize("shape", FIXED.values(), ids=FIXED)
def test_nodes_read_what_they_read_in_langgraph(tools, shape):
    assert planned(tools, imported(shape)) == ran(shape)


def test_figures_of_fan_in(tools):
    """Counted by hand: what came in, and once what each node before wrote."""
    assert planned(tools, imported(FIXED["one diamond"]))["n1"] == (1, QUESTION + 3 * ANSWER)
    assert planned(tools, imported(FIXED["six diamonds"]))["n6"] == (1, QUESTION + 18 * ANSWER)
    assert planned(tools, imported(FIXED["five workers"]))["d"] == (1, QUESTION + 5 * ANSWER)


RANDOM = {
    "cases that come together": {
        "edges": [*pairwise([START, "a"]), ("x", "d"), ("y", "d"), *pairwise(["d", "e", END])],
        "choices": {"a": {"x": 0.25, "y": 0.75}},
    },
    "a case that adds nothing": {
        "edges": [*pairwise([START, "a"]), ("x", "d"), *pairwise(["d", "e", END])],
        "choices": {"a": {"x": 0.25, "d": 0.75}},
    },
    "cases beside a node": {
        "edges": [(START, "a"), ("a", "b"), ("a", "c"), ("x", "m"), ("y", "m"), ("c", "c2"), *pairwise(["d", "e", END])],
        "choices": {"b": {"x": 0.25, "y": 0.75}},
        "waits": [(("m", "c2"), "d")],
    },
    "a diamond in a case": {
        "edges": [(START, "a"), ("x", "l"), ("x", "r"), ("l", "z"), ("r", "z"), ("z", "d"), ("y", "d"), ("d", END)],
        "choices": {"a": {"x": 0.25, "y": 0.75}},
    },
    "a diamond in a loop": {
        "edges": [(START, "a"), ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("e", END)],
        "choices": {"d": {"a": 0.5, "e": 0.5}},
        "back": {"d": "a"},
    },
    "diamonds in a loop": {
        "edges": [*diamonds(2)[2:], (START, "n0"), ("e", END)],
        "choices": {"n2": {"n0": 0.5, "e": 0.5}},
        "back": {"n2": "n0"},
    },
    "a loop in a case beside a node": {
        "edges": [*pairwise([START, "a", "b"]), *pairwise("acd"), ("m", "d"), ("y", "m"), ("d", END)],
        "choices": {"b": {"x": 0.5, "y": 0.5}, "x": {"x": 0.5, "m": 0.5}},
        "back": {"x": "x"},
        "deferred": ["d"],
    },
}  # fmt: skip


@pytest.mark.parametrize("shape", RANDOM.values(), ids=RANDOM)
def test_nodes_read_on_average_what_they_read_in_langgraph(tools, shape):
    found, expected = planned(tools, imported(shape)), ran(shape)
    assert found.keys() == expected.keys()
    for node in expected:
        assert found[node] == pytest.approx(expected[node], rel=1e-5), node  # IR has six digits


# How long a way takes differs between requests, and so does what nodes of the other way see of it.
APART = {
    "two that may add nothing": {
        "edges": [(START, "a"), ("a", "b"), ("a", "c"), ("x", "m"), ("y", "n"), *pairwise(["d", "e", END])],
        "choices": {"b": {"x": 0.25, "m": 0.75}, "c": {"y": 0.5, "n": 0.5}},
        "waits": [(("m", "n"), "d")],
    },
    "loops at the same time": {
        "edges": [*pairwise([START, "a", "b"]), ("a", "c"), *pairwise("md"), *pairwise("nd"), *pairwise(["d", "e", END])],
        "choices": {"b": {"b": 0.5, "m": 0.5}, "c": {"c": 0.25, "n": 0.75}},
        "deferred": ["d"],
        "back": {"b": "b", "c": "c"},
    },
}  # fmt: skip


@pytest.mark.parametrize("shape", APART.values(), ids=APART)
def test_what_comes_after_reads_it_once(tools, shape):
    found, expected = planned(tools, imported(shape)), ran(shape)
    for node in expected:
        assert found[node][0] == pytest.approx(expected[node][0], rel=1e-5), node
    for node in ("d", "e"):
        assert found[node] == pytest.approx(expected[node], rel=1e-5), node


class Plain(TypedDict):
    question: str
    notes: str
    answer: str


class Two(TypedDict):
    question: str
    log: Annotated[list, operator.add]
    notes: Annotated[list, operator.add]


@pytest.mark.parametrize(
    ("schema", "reads", "tokens"),
    [
        (Plain, None, ANSWER),  # the question and all else is what the first node gave: read once
        (Plain, ["notes"], ANSWER),
        (Two, None, QUESTION + ANSWER),
        (Two, ["log"], ANSWER),
        (Two, ["notes"], ANSWER),
        (Two, ["log", "notes"], 2 * ANSWER),  # said to be read twice
    ],
)
def test_what_is_written_to_several_keys(tools, schema, reads, tokens):
    builder = StateGraph(schema)
    builder.add_node("one", lambda state: {}, metadata={"intarsia": langgraph.llm(small, tokens=ANSWER)})
    builder.add_node("two", lambda state: {}, metadata={"intarsia": langgraph.llm(small, tokens=1, reads=reads)})
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    graph = agent.from_langgraph(builder, inputs={"question": agent.text(QUESTION)})
    assert planned(tools, graph)["two"] == (1, tokens)


def sending(sends, run=lambda name: lambda state: {}, workers=("w",)):
    builder = StateGraph(State)
    for name in ("plan", "w", "sum"):
        builder.add_node(name, run(name), metadata={"intarsia": langgraph.llm(small, tokens=ANSWER)})
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", sends, list(workers))
    builder.add_edge("w", "sum")
    return builder


def test_sends(tools):
    reads = []

    def run(name):
        def node(state):
            reads.append((name, sum(state["messages"])))
            return {"messages": [ANSWER]}

        return node

    @langgraph.sends(width=3, tokens=40)
    def sends(state):
        return [Send("w", {"messages": [40]}) for _ in range(3)]

    sending(sends, run).compile().invoke({"messages": [QUESTION]})
    expected = collections.defaultdict(lambda: (0, 0))
    for name, tokens in reads:
        expected[name] = expected[name][0] + 1, expected[name][1] + tokens
    inputs = {"messages": agent.text(QUESTION)}
    assert planned(tools, agent.from_langgraph(sending(sends), inputs=inputs)) == expected
    assert expected["w"] == (3, 120)

    with pytest.raises(agent.AgentError, match="the conditional edge from 'plan' sends to sum, w, must send to one"):
        agent.from_langgraph(sending(sends, workers=("w", "sum")), inputs=inputs)
    builder = sending(sends)
    builder.add_conditional_edges(
        "w", langgraph.probabilities(w=0.5, sum=0.5, max_runs=2)(lambda state: None), ["w", "sum"]
    )
    builder.edges.discard(("w", "sum"))
    with pytest.raises(agent.AgentError, match="node 'w' runs once for each Send, and begins a loop, or is where"):
        agent.from_langgraph(builder, inputs=inputs)
    builder = sending(sends)
    builder.add_node("all", lambda state: {}, metadata={"intarsia": langgraph.llm(small, tokens=1)})
    builder.edges.discard((START, "plan"))
    builder.add_edge(START, "all")
    builder.add_conditional_edges("all", langgraph.probabilities(w=0.5, plan=0.5)(lambda state: None), ["w", "plan"])
    with pytest.raises(agent.AgentError, match="node 'w' runs once for each Send"):
        agent.from_langgraph(builder, inputs=inputs)
    with pytest.raises(agent.AgentError, match=r"width of langgraph.sends is 0"):
        langgraph.sends(width=0, tokens=40)


REFUSED = {
    "a node after ways of which one has a loop": (
        {
            "edges": [*pairwise([START, "a", "b"]), *pairwise("acd"), *pairwise("md"), ("d", END)],
            "choices": {"b": {"b": 0.5, "m": 0.5}},
        },
        r"several ways lead to node 'd', and how long one of them takes differs .* add_node\(…, defer=True\)",
    ),
    "a case that ends beside a node": (
        {"edges": [*pairwise([START, "a", "b"]), *pairwise("acd"), ("d", END)], "choices": {"b": {"d": 0.5, END: 0.5}}},
        r"the conditional edge from node 'b' and what runs at the same time \('d'\) both lead to 'd'.* end in a node",
    ),
    "one of two sources": (
        {
            "edges": [*pairwise([START, "a"]), ("d", END)],
            "choices": {"a": {"b": 0.5, "c": 0.5}},
            "waits": [(("b", "c"), "d")],
        },
        "node 'd' waits for 'b' and 'c', of which only 'b' runs before 'd': it would wait for ever; let edges lead to",
    ),
    "unequal ways in a loop": (
        {"edges": [*pairwise([START, "a", "b", "d"]), *pairwise("acxd")], "choices": {"d": {"a": 0.5, END: 0.5}}},
        "ways from 'd' to the next run of the loop take a different number of steps, .* add_node.node, …, defer=True",
    ),
}


@pytest.mark.parametrize(("shape", "message"), REFUSED.values(), ids=REFUSED)
def test_what_runs_nobody_knows_how_often(shape, message):
    with pytest.raises(agent.AgentError, match=message):
        imported(shape)
