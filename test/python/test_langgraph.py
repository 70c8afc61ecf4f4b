# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs of LangGraph as agents. How often nodes run is compared with LangGraph running them."""

import functools
import inspect
import operator
import random
import re
import subprocess
from typing import Annotated, Literal, TypedDict

import pytest
from intarsia import agent, langgraph

pytest.importorskip("langgraph.graph", reason="langgraph is not installed (pip install 'intarsia[langgraph]')")
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

small = agent.Model("small", shape="llama-3.1-8b")
large = agent.Model("large", shape="llama-3.1-70b")
embedder = agent.Model("minilm", parameters=2.27e7)
index = agent.Index("kb", vectors=1_000_000, dimension=384, chunk_tokens=100, embedder=embedder, visited=0.001)
search = agent.Tool("search", ms=agent.Amount(350, p95=900))


@pytest.fixture
def intarsia_opt(tools):
    return tools.path("intarsia-opt")


class State(TypedDict):
    question: str
    documents: str
    log: Annotated[list, operator.add]
    answer: str


def work(intarsia_opt, graph):
    """Expected executions and probability by label, from intarsia-opt."""
    run = subprocess.run([intarsia_opt, "-", "--plan-decompose"], input=str(graph), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr + str(graph)
    found = re.findall(r'label = "([^"]*)".*?executions = ([\d.e+-]+), probability = ([\d.e+-]+)', run.stdout)
    return {label: (float(executions), float(probability)) for label, executions, probability in found}, run.stdout


def counting(choices, seed, times, builder_of):
    """Mean executions of each node when LangGraph runs the graph, with the given random choices."""
    rng = random.Random(seed)
    counts = {}

    def node(name):
        def run(state):
            counts[name] = counts.get(name, 0) + 1
            return {"log": [name]}

        return run

    def path(name):
        targets, weights = zip(*choices[name].items(), strict=True)
        return lambda state: rng.choices(targets, weights)[0]

    compiled = builder_of(node, path).compile()
    for _ in range(times):
        compiled.invoke({"question": "q", "documents": "", "log": [], "answer": ""}, {"recursion_limit": 1000})
    return {name: count / times for name, count in counts.items()}


def annotated(specs, choices, max_runs=200):
    def node(name):
        def run(state): ...

        return specs[name](run)

    def path(name):
        return langgraph.probabilities(max_runs=max_runs, **choices[name])(lambda state: None)

    return node, path


def react(node, path):
    builder = StateGraph(State)
    builder.add_node("think", node("think"))
    builder.add_node("act", node("act"))
    builder.add_node("finish", node("finish"))
    builder.add_edge(START, "think")
    builder.add_conditional_edges("think", path("think"), {"go": "act", "stop": "finish"})
    builder.add_edge("act", "think")
    builder.add_edge("finish", END)
    return builder


REACT = {
    "think": langgraph.llm(small, tokens=80, reads=["log"], writes=["log"]),
    "act": langgraph.tool(search, tokens=300, reads=["log"], writes=["log"]),
    "finish": langgraph.llm(large, tokens=200, reads=["log"], writes=["answer"]),
}


def test_react(intarsia_opt):
    choices = {"think": {"go": 0.7, "stop": 0.3}}
    graph = agent.from_langgraph(
        react(*annotated(REACT, choices)), inputs={"log": agent.text(50)}, output="answer", name="react"
    )
    found, text = work(intarsia_opt, graph)
    ran = counting(choices, 1, 500, react)
    assert found["think"][0] == pytest.approx(1 / 0.3, rel=1e-4)
    assert found["act"][0] == pytest.approx(1 / 0.3 - 1, rel=1e-4)
    assert found["finish"] == (1, 1)
    # 500 requests, runs geometric: a standard error of 3.7 %.
    for name in ("think", "act", "finish"):
        assert found[name][0] == pytest.approx(ran[name], rel=0.16)
    assert "keeps_prefix" in text
    assert "cached_tokens" in text  # the log grows at its end


def test_bound_of_a_loop(intarsia_opt):
    choices = {"think": {"go": 0.7, "stop": 0.3}}
    graph = agent.from_langgraph(
        react(*annotated(REACT, choices, max_runs=2)), inputs={"log": agent.text(50)}, output="answer"
    )
    assert work(intarsia_opt, graph)[0]["think"][0] == pytest.approx(1.7)


def routed(node, path):
    """A branch whose cases meet, two nodes at the same time, and a correction that goes back."""
    builder = StateGraph(State)
    for name in ("route", "easy", "find", "read", "check", "report"):
        builder.add_node(name, node(name))
    builder.add_edge(START, "route")
    builder.add_conditional_edges("route", path("route"), {"easy": "easy", "hard": "find"})
    builder.add_edge("find", "read")
    builder.add_edge("read", "check")
    builder.add_edge("easy", "check")
    builder.add_conditional_edges("check", path("check"), {"again": "route", "good": "report"})
    builder.add_edge("report", END)
    return builder


ROUTED = {
    "route": langgraph.llm(small, tokens=2, reads=["question"], writes=["log"]),
    "easy": langgraph.llm(small, tokens=100, reads=["question"], writes=["answer"]),
    "find": langgraph.retrieve(index, top_k=5, reads=["question"], writes=["documents"]),
    "read": langgraph.llm(large, tokens=300, reads=["documents", "question"], writes=["answer"]),
    "check": langgraph.llm(small, tokens=5, reads=["question", "answer"], writes=["log"]),
    "report": langgraph.compute(ms=3, tokens=400, reads=["log"], writes=["documents"]),
}


def test_branches_in_a_loop(intarsia_opt):
    choices = {"route": {"easy": 0.6, "hard": 0.4}, "check": {"again": 0.25, "good": 0.75}}
    graph = agent.from_langgraph(
        routed(*annotated(ROUTED, choices)),
        inputs={"question": agent.text(50), "answer": agent.text(1), "log": agent.text(1)},
        output="answer",
    )
    found, _ = work(intarsia_opt, graph)
    ran = counting(choices, 2, 500, routed)
    for name in ("route", "easy", "find", "read", "check"):
        assert found[name][0] == pytest.approx(ran[name], rel=0.2), name
    assert found["easy"][0] == pytest.approx(0.6 / 0.75, rel=1e-4)


def entered(node, path):
    builder = StateGraph(State)
    builder.add_node("left", node("left"))
    builder.add_node("right", node("right"))
    builder.add_conditional_edges(START, path(START), {"left": "left", "right": "right"})
    builder.add_edge("left", END)
    builder.add_edge("right", END)
    return builder


def nested(node, path):
    builder = StateGraph(State)
    for name in ("outer", "inner", "check", "end"):
        builder.add_node(name, node(name))
    builder.add_edge(START, "outer")
    builder.add_edge("outer", "inner")
    builder.add_conditional_edges("inner", path("inner"), {"again": "inner", "good": "check"})
    builder.add_conditional_edges("check", path("check"), {"again": "outer", "good": "end"})
    builder.add_edge("end", END)
    return builder


def left_early(node, path):
    builder = StateGraph(State)
    builder.add_node("first", node("first"))
    builder.add_node("second", node("second"))
    builder.add_edge(START, "first")
    builder.add_conditional_edges("first", path("first"), {"retry": "first", "go": "second", "stop": END})
    builder.add_conditional_edges("second", path("second"), {"back": "first", "stop": END})
    return builder


def to_a_human(node, path):
    """A loop that is left to two nodes, which come together again."""
    builder = StateGraph(State)
    for name in ("triage", "look", "write", "human", "end"):
        builder.add_node(name, node(name))
    builder.add_edge(START, "triage")
    ways = {"more": "look", "known": "write", "unclear": "human"}
    builder.add_conditional_edges("triage", path("triage"), ways)
    builder.add_conditional_edges("look", path("look"), {"back": "triage", "lost": "human"})
    builder.add_edge("write", "end")
    builder.add_edge("human", "end")
    builder.add_edge("end", END)
    return builder


def left_from_inside(node, path):
    """An inner loop that is left to the outer one and out of both; the outer one is left to three places."""
    builder = StateGraph(State)
    for name in ("outer", "inner", "check", "left", "right"):
        builder.add_node(name, node(name))
    builder.add_edge(START, "outer")
    builder.add_edge("outer", "inner")
    ways = {"again": "inner", "good": "check", "bad": "left"}
    builder.add_conditional_edges("inner", path("inner"), ways)
    builder.add_conditional_edges("check", path("check"), {"again": "outer", "good": "right", "end": END})
    builder.add_edge("left", END)
    builder.add_edge("right", END)
    return builder


@pytest.mark.parametrize(
    ("make", "choices"),
    [
        (entered, {START: {"left": 0.25, "right": 0.75}}),
        (nested, {"inner": {"again": 0.5, "good": 0.5}, "check": {"again": 0.25, "good": 0.75}}),
        (left_early, {"first": {"retry": 0.2, "go": 0.5, "stop": 0.3}, "second": {"back": 0.5, "stop": 0.5}}),
        (
            to_a_human,
            {"triage": {"more": 0.5, "known": 0.3, "unclear": 0.2}, "look": {"back": 0.7, "lost": 0.3}},
        ),
        pytest.param(
            left_from_inside,
            {
                "inner": {"again": 0.4, "good": 0.4, "bad": 0.2},
                "check": {"again": 0.5, "good": 0.25, "end": 0.25},
            },
            marks=pytest.mark.slow,  # a minute: loops in loops have many executions
        ),
    ],
)
def test_shapes_run_as_often_as_langgraph_runs_them(intarsia_opt, make, choices):
    nodes = ["left", "right", "outer", "inner", "check", "end", "first", "second", "triage", "look", "write", "human"]
    specs = {name: langgraph.llm(small, tokens=10, reads=["log"], writes=["log"]) for name in nodes}
    graph = agent.from_langgraph(make(*annotated(specs, choices)), inputs={"log": agent.text(5)})
    found, _ = work(intarsia_opt, graph)
    ran = counting(choices, 3, 500, make)
    assert found.keys() == ran.keys()
    for name in ran:
        assert found[name][0] == pytest.approx(ran[name], rel=0.2), name


def forked(node, path):
    builder = StateGraph(State)
    for name in ("start", "left", "right", "end"):
        builder.add_node(name, node(name))
    builder.add_edge(START, "start")
    builder.add_edge("start", "left")
    builder.add_edge("start", "right")
    builder.add_edge(["left", "right"], "end")
    builder.add_edge("end", END)
    return builder


def test_nodes_at_the_same_time(tools, tmp_path):
    specs = {
        name: langgraph.llm(small, tokens=100, reads=["log"], writes=["log"]) for name in ("start", "left", "right")
    }
    specs["end"] = langgraph.llm(small, tokens=10, reads=["log"], writes=["answer"])
    graph = agent.from_langgraph(forked(*annotated(specs, {})), inputs={"log": agent.text(50)}, output="answer")
    run = subprocess.run(
        [tools.path("intarsia-test-opt"), "-", "--plan-decompose", "--test-agent-graph", "-o", tmp_path / "o.mlir"],
        input=str(graph),
        capture_output=True,
        text=True,
        check=True,
    )
    # left and right wait for start, end for both; left and right not for each other.
    arcs = re.search(r"^  dag; (.*)$", run.stdout, re.M).group(1)
    arcs = {tuple(arc.split(" e")[0].split(" -> ")) for arc in arcs.split("; ")}
    assert {("1", "2"), ("1", "4"), ("3", "6"), ("5", "6")} <= arcs
    assert not {("3", "4"), ("2", "5"), ("3", "5"), ("2", "4")} & arcs


def test_missing_sizes_are_listed():
    builder = react(lambda name: lambda state: {}, lambda name: lambda state: "stop")
    with pytest.raises(agent.AgentError) as error:
        agent.from_langgraph(builder)
    text = str(error.value)
    for each in ("think", "act", "finish"):
        assert f"node '{each}': would be a language model that writes 300 tokens" in text
    assert "conditional edge from 'think': each of go, stop with 0.5" in text
    assert "inputs of the graph: 'question' would be 200 tokens" in text
    assert "loop from node 'think': at most 10 runs (max_runs)" in text
    # The arguments that the message proposes work.
    assert "defaults with assume=True, assume_model=agent.Model(" in text
    proposed = text.partition("these defaults with ")[2]
    agent.from_langgraph(builder, **eval(f"dict({proposed})", {"agent": agent}), inputs={"log": agent.text(1)})


def test_assumed_sizes(intarsia_opt):
    builder = react(lambda name: lambda state: {}, lambda name: lambda state: "stop")
    # All at once, not the first alone.
    with pytest.raises(
        agent.AgentError, match=r"nodes 'think', 'act', 'finish' have no annotation.*assume_model=agent"
    ):
        agent.from_langgraph(builder, assume=True)
    with pytest.raises(agent.AgentError, match="assume_model is 'llama', must be a model"):
        agent.from_langgraph(builder, assume=True, assume_model="llama")
    inputs = {"question": agent.text(30), "log": agent.text(1)}
    graph = agent.from_langgraph(builder, assume=True, assume_model=small, inputs=inputs)
    assert work(intarsia_opt, graph)[0]["think"][0] == pytest.approx(2 - 2**-9, rel=1e-5)


def test_assumed_probabilities_need_no_model(intarsia_opt):
    builder = react(lambda name: REACT[name](lambda state: {}), lambda name: lambda state: "stop")
    inputs = {"log": agent.text(1)}
    with pytest.raises(agent.AgentError, match=r"these defaults with assume=True$"):
        agent.from_langgraph(builder, inputs=inputs)
    graph = agent.from_langgraph(builder, assume=True, inputs=inputs)
    assert work(intarsia_opt, graph)[0]["finish"] == (1, 1)


def imported(decorate, **options):
    builder = StateGraph(State)
    builder.add_node("a", decorate(lambda state: {}))
    builder.add_edge(START, "a")
    return agent.from_langgraph(builder, inputs={"log": agent.text(5)}, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: langgraph.llm(small, tokens="many"),
            "tokens of langgraph.llm is 'many', must be a number or an Amount",
        ),
        (lambda: langgraph.tool(search, tokens=-1), "tokens of langgraph.tool is -1, must be 0, or between"),
        (lambda: langgraph.retrieve(index, top_k=0, reads=[]), "top_k of langgraph.retrieve is 0"),
        (lambda: langgraph.compute(ms=1e9, tokens=1), "ms of langgraph.compute is 1000000000.0"),
        (lambda: langgraph.probabilities(a=1.6, b=-0.6), "the probability of 'a' of langgraph.probabilities is 1.6"),
        (lambda: langgraph.probabilities(a=0.5), "probabilities of langgraph.probabilities sum to 0.5, must sum to 1"),
        (lambda: langgraph.probabilities(a=1, max_runs=0), "max_runs of langgraph.probabilities is 0"),
        (
            lambda: langgraph.llm("small", tokens=5),
            "langgraph.llm has 'small' as its first argument, must be an agent.Model",
        ),
        (lambda: langgraph.tool(small, tokens=5), "langgraph.tool has Model.* must be an agent.Tool"),
        (
            lambda: langgraph.retrieve(search, top_k=5, reads=["log"]),
            "langgraph.retrieve has Tool.* must be an agent.Index",
        ),
        (lambda: langgraph.retrieve(index, top_k=5, reads=[]), r"reads of langgraph.retrieve is \[\], must begin with"),
        (lambda: langgraph.llm(small, tokens=5, reads="log"), r"reads is 'log', must be a list .* such as \['log'\]"),
        (lambda: langgraph.compute(ms=1, tokens=5, writes="log"), "writes is 'log', must be a list of keys"),
        (
            lambda: imported(langgraph.llm(small, tokens=5, reads=[])),
            "node 'a': answer of 'small' has no input, but no",
        ),
        (
            lambda: imported(langgraph.probabilities(a=1)),
            "node 'a' is annotated with .*, must be what langgraph.llm, tool",
        ),
        (
            lambda: imported(langgraph.llm(small, tokens=5), sla=5),
            r"sla is 5, must be such as agent.Sla\(p95_ms=3000\)",
        ),
        (lambda: agent.from_langgraph(StateGraph(State), inputs={"log": 5}), "input 'log' is 5, must be a size"),
    ],
)
def test_figures_of_annotations(make, message):
    with pytest.raises(agent.AgentError, match=message):
        make()


def test_a_path_map_of_truths(intarsia_opt):
    builder = StateGraph(State)
    for name in ("yes", "no"):
        builder.add_node(name, langgraph.llm(small, tokens=9, reads=["log"], writes=["log"])(lambda state: {}))
    path = langgraph.probabilities(**{"True": 0.25, "False": 0.75})
    builder.add_conditional_edges(START, path(lambda state: True), {True: "yes", False: "no"})
    found, _ = work(intarsia_opt, agent.from_langgraph(builder, inputs={"log": agent.text(5)}))
    assert found == {"yes": (0.25, 0.25), "no": (0.75, 0.75)}


def test_commands_are_refused():
    def ask(state) -> Command[Literal["act", "__end__"]]: ...

    builder = StateGraph(State)
    builder.add_node("ask", langgraph.llm(small, tokens=9)(ask))
    builder.add_node("act", langgraph.llm(small, tokens=9)(lambda state: {}))
    builder.add_edge(START, "ask")
    with pytest.raises(agent.AgentError, match=r"node 'ask' goes where a Command says: act, __end__; nothing says"):
        agent.from_langgraph(builder, inputs={"log": agent.text(5)})


def test_nodes_of_any_script(intarsia_opt):
    builder = StateGraph(State)
    before = START
    for name in ("été", "質問", "3", "ete"):
        builder.add_node(name, langgraph.llm(small, tokens=9)(lambda state: {}))
        builder.add_edge(before, name)
        before = name
    found, _ = work(intarsia_opt, agent.from_langgraph(builder, inputs={"log": agent.text(5)}))
    escaped = {"".join(chr(b) if b < 128 else f"\\{b:02X}" for b in name.encode()) for name in builder.nodes}
    assert found == dict.fromkeys(escaped, (1, 1))


def chain(*names, **notes):
    builder = StateGraph(State)
    before = START
    for name in names:
        builder.add_node(name, notes[name])
        builder.add_edge(before, name)
        before = name
    return builder


def test_one_function_with_several_annotations(intarsia_opt):
    def run(state): ...

    def decide(state): ...

    def build(again):
        builder = chain(
            "first", "last", first=langgraph.llm(small, tokens=7)(run), last=langgraph.llm(large, tokens=9)(run)
        )
        path = langgraph.probabilities(first=again, __end__=1 - again, max_runs=2)(decide)
        builder.add_conditional_edges("last", path, ["first", END])
        return builder

    builders = [build(0.25), build(0.5)]
    for builder, runs in zip(builders, (1.25, 1.5), strict=True):
        found, text = work(intarsia_opt, agent.from_langgraph(builder, inputs={"log": agent.text(5)}))
        assert found["first"][0] == pytest.approx(runs)
        assert re.search(r"agent.prefill @small.*label = .first.*", text)
        assert re.search(r"agent.prefill @large.*label = .last.*", text)
    # The function itself, used somewhere else, says nothing.
    with pytest.raises(agent.AgentError, match="node 'bare': would be a language model"):
        agent.from_langgraph(chain("bare", bare=run), inputs={"log": agent.text(5)})


def test_partial_and_asynchronous_functions(intarsia_opt):
    @langgraph.llm(small, tokens=9)
    def run(state, how): ...

    @langgraph.llm(small, tokens=9)
    async def wait(state): ...

    builder = chain("partial", "async", **{"partial": functools.partial(run, how=1), "async": wait})
    assert inspect.iscoroutinefunction(wait)
    assert work(intarsia_opt, agent.from_langgraph(builder, inputs={"log": agent.text(5)}))[0].keys() == {
        "partial",
        "async",
    }


def test_each_loop_has_its_bound(intarsia_opt):
    builder = chain("outer", "inner", "check", **dict.fromkeys(("outer", "inner", "check"), lambda state: {}))
    builder.edges.discard(("inner", "check"))
    for name in builder.nodes:
        builder.nodes[name].metadata = {"intarsia": langgraph.llm(small, tokens=1)}
    inner = langgraph.probabilities(inner=0.5, check=0.5, max_runs=2)(lambda state: None)
    builder.add_conditional_edges("inner", inner, ["inner", "check"])
    check = langgraph.probabilities(outer=0.5, __end__=0.5, max_runs=5)(lambda state: None)
    builder.add_conditional_edges("check", check, ["outer", END])
    found, _ = work(intarsia_opt, agent.from_langgraph(builder, inputs={"log": agent.text(5)}))
    outer = sum(0.5**run for run in range(5))
    assert found["outer"][0] == pytest.approx(outer, rel=1e-5)
    assert found["inner"][0] == pytest.approx(outer * 1.5, rel=1e-5)


def test_keys_that_a_loop_or_a_case_writes_first(intarsia_opt):
    """Both are read: 200 tokens by one who reads an answer, 50 or none by one who reads documents."""
    notes = {
        "write": langgraph.llm(small, tokens=200, reads=["question"], writes=["answer"]),
        "find": langgraph.llm(small, tokens=100, reads=["question"], writes=["documents"]),
        "report": langgraph.llm(small, tokens=9, reads=["answer", "documents"], writes=["log"]),
    }
    builder = StateGraph(State)
    for name, note in notes.items():
        builder.add_node(name, note(lambda state: {}))
    builder.add_edge(START, "write")
    path = langgraph.probabilities(write=0.5, find=0.25, report=0.25, max_runs=3)(lambda state: None)
    builder.add_conditional_edges("write", path, ["write", "find", "report"])
    builder.add_edge("find", "report")
    # The loop may be left to either.
    _, text = work(intarsia_opt, agent.from_langgraph(builder, inputs={"question": agent.text(5)}))
    report = next(line for line in text.splitlines() if "agent.prefill" in line and 'label = "report"' in line)
    assert "new_tokens = #agent.amount<250 tokens" in report

    builder.branches.clear()
    builder.add_node("check", langgraph.compute(ms=1, tokens=1, reads=["answer"], writes=["log"])(lambda state: {}))
    again = langgraph.probabilities(write=0.5, check=0.5, max_runs=3)(lambda state: None)
    builder.add_conditional_edges("write", again, ["write", "check"])
    path = langgraph.probabilities(find=0.5, report=0.5)(lambda state: None)
    builder.add_conditional_edges("check", path, ["find", "report"])
    _, text = work(intarsia_opt, agent.from_langgraph(builder, inputs={"question": agent.text(5)}))
    report = next(line for line in text.splitlines() if "agent.prefill" in line and 'label = "report"' in line)
    assert "new_tokens = #agent.amount<250 tokens" in report


def test_pictures_in_the_messages(intarsia_opt):
    eye = agent.Model("eye", parameters=3e8, tokens_per_unit=1e-3)
    seeing = agent.Model("seeing", shape="llama-3.1-8b", encoders={"image": eye})
    note = langgraph.llm(seeing, tokens=80)
    builder = chain("look", "tell", look=note(lambda state: {}), tell=note(lambda state: {}))
    _, text = work(intarsia_opt, agent.from_langgraph(builder, inputs={"log": agent.image(1_000_000)}))
    tell = [line for line in text.splitlines() if "agent.prefill" in line and 'label = "tell"' in line]
    assert "new_tokens = #agent.amount<1080 tokens>" in tell[0]


def test_metadata_and_compiled(intarsia_opt):
    builder = StateGraph(State)
    note = langgraph.llm(small, tokens=100, reads=["question"], writes=["answer"])
    builder.add_node("answer", lambda state: {}, metadata={"intarsia": note})
    builder.add_edge(START, "answer")
    graph = agent.from_langgraph(builder.compile(), inputs={"question": agent.text(30)})
    assert work(intarsia_opt, graph)[0] == {"answer": (1, 1)}


def test_what_cannot_be():
    note = langgraph.llm(small, tokens=100, reads=["question"], writes=["answer"])

    def cyclic():
        builder = StateGraph(State)
        for name in ("a", "b", "c"):
            builder.add_node(name, note(lambda state: {}))
        path = langgraph.probabilities(b=0.5, c=0.5)(lambda state: "b")
        builder.add_conditional_edges("a", path, {"b": "b", "c": "c"})
        builder.add_edge(START, "a")
        builder.add_edge("b", "c")
        builder.add_conditional_edges(
            "c", langgraph.probabilities(b=0.5, e=0.5)(lambda state: "b"), {"b": "b", "e": END}
        )
        return builder

    inputs = {"question": agent.text(30)}
    with pytest.raises(agent.AgentError, match="entered at more than one node"):
        agent.from_langgraph(cyclic(), inputs=inputs)

    builder = StateGraph(State)
    builder.add_node("a", note(lambda state: {}))
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: END)
    with pytest.raises(agent.AgentError, match="give add_conditional_edges a path map"):
        agent.from_langgraph(builder, inputs=inputs)

    builder = StateGraph(State)
    builder.add_node("a", note(lambda state: {}))
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", langgraph.probabilities(y=1.0)(lambda state: END), {"x": END})
    with pytest.raises(
        agent.AgentError, match=r"leads to x, its probabilities are \{'y': 1.0\}; give one for each, with the sum 1"
    ):
        agent.from_langgraph(builder, inputs=inputs)

    with pytest.raises(agent.AgentError, match="int is no StateGraph"):
        agent.from_langgraph(5)

    def goes(state): ...  # by a Command, which nothing says

    builder = StateGraph(State)
    builder.add_node("a", note(goes))
    builder.add_node("b", note(lambda state: {}))
    builder.add_edge(START, "a")
    with pytest.raises(
        agent.AgentError, match=r"no way leads from START to node 'b'; add the edges, .* a Command goes"
    ):
        agent.from_langgraph(builder, inputs=inputs)
    builder.add_conditional_edges("a", note(lambda state: "b"), ["b", END])
    with pytest.raises(
        agent.AgentError, match=r"the conditional edge from 'a' is annotated with Annotation.*, must be with"
    ):
        agent.from_langgraph(builder, inputs=inputs)

    builder = StateGraph(State)
    builder.add_node("a", langgraph.llm(small, tokens=100, reads=["documents"], writes=["answer"])(lambda state: {}))
    builder.add_edge(START, "a")
    with pytest.raises(agent.AgentError, match="node 'a' reads 'documents', which nothing before it writes"):
        agent.from_langgraph(builder, inputs=inputs)
    with pytest.raises(agent.AgentError, match="input 'questions' is no key of the state"):
        agent.from_langgraph(builder, inputs={"questions": agent.text(30)})
