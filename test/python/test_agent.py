# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""intarsia.agent: its IR verifies, and invalid agents are errors that say what to try."""

import re
import subprocess
from pathlib import Path

import pytest
from intarsia import agent
from intarsia.agents.values import _trace

llama = agent.Model("llama", shape="llama-3.1-8b")
web = agent.Tool("web", ms=agent.Amount(350, p95=900))


def verified(tools, text, *options):
    run = subprocess.run(
        [tools.path("intarsia-opt"), "-", *options], input=text, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr + text
    return run.stdout


def everything():
    ear = agent.Model("ear", parameters=6.4e8, tokens_per_unit=25)
    omni = agent.Model(
        "omni", shape="s", encoders={"audio": ear}, precisions=("int8", "int4", "fp8"), kv_bytes_per_token=1e5
    )
    draw = agent.Model("draw", module="draw.itx", flops_per_output=1e16)
    here = agent.Index("here", vectors=1000, dimension=8, chunk_tokens=50, embedder=llama, visited=1e-6)
    there = agent.Index("over there", vectors=1000, dimension=8, chunk_tokens=50, ms=agent.Amount(p50=20, p95=70))
    notes = agent.Memory("notes", read_ms=3, write_ms=agent.Amount(5, p99=9), concurrency=7)
    odd = agent.Tool('q"uo\\te', ms=0.5, endpoint="https://é.example", dollars_per_call=1e-5, failure_probability=0.5)

    @agent.function(ms=4, tokens=300)
    def rerank(documents): ...

    @agent.graph(agent.text(100, p95=200), private=True)
    def inner(question):
        return llama.answer(question, tokens=50, label="inner"), web(question, size=1000)

    @agent.graph(
        agent.text(400, p95=900, max=2000),
        agent.audio(agent.Amount(p50=3, p95=9)),
        agent.image(1_000_000),
        agent.video(5),
        agent.data(2048),
        sla=agent.Sla(p99_ms=3000.5, ttft_ms=250, tbt_ms=20, requests_per_second=0.01),
        name="all of it",
    )
    def outer(question, sound, photo, film, blob):
        answer, raw = inner(question, label="ask")
        heard = omni.answer(sound, question, tokens=agent.Amount(30, p95=70, max=100), instruction_tokens=20)
        texts = agent.join(here.retrieve(question, top_k=3), there.retrieve(question, top_k=2, tokens=90), heard)
        best = rerank(texts)
        picture = draw.infer(photo, film, blob, raw, pixels=1_000_000, label="draw", together="a", apart="b")
        notes.write(best)
        kept = notes.read(question, tokens=10)

        def turn(one, two):
            return agent.join(one, odd(two, tokens=5)), two

        one, two = agent.loop(turn, best, kept, runs=agent.Amount(1.5, max=2), run_probabilities=[0.5, 0.5])
        left, right = agent.branch(
            {"a": (1 / 3, lambda: (one, picture)), "b": (2 / 3, lambda: (two, photo))}, on=[best, picture]
        )
        agent.branch({"write": (0.5, lambda: notes.write(left)), "not": (0.5, lambda: None)})
        parts = agent.map(lambda part: llama.answer(part, tokens=20), left, width=agent.Amount(3, p95=6), each=100)
        return agent.stream(parts, every=10), right, answer

    return outer


def test_everything_verifies(tools):
    text = str(everything())
    printed = verified(tools, text)
    assert printed.count("agent.graph") == 2
    # Read and printed once more it is the same.
    assert verified(tools, printed) == printed
    assert 'agent.tool @"q\\22uo\\\\te"' in printed
    plan = verified(tools, text, "--plan-decompose")
    assert 'label = "ask/inner"' in plan


def test_inputs_by_name(tools):
    """Inputs of functions and graphs may be given by name; the order is that of the parameters."""

    @agent.function(ms=1, tokens=1)
    def weigh(text): ...

    @agent.graph(agent.text(1), agent.image(100))
    def inner(one, two):
        return weigh(text=one)

    @agent.graph(agent.image(100), agent.text(1))
    def outer(two, one):
        return inner(two=two, one=one), inner(one, two=two)

    text = verified(tools, str(outer))
    assert text.count("agent.call @inner(%arg1, %arg0) : (!agent.text, !agent.image)") == 2


def test_tasks_without_inputs(tools):
    clock = agent.Memory("clock", read_ms=1, write_ms=1)

    @agent.graph()
    def nothing():
        return [
            web(tokens=1),
            clock.read(tokens=1),
            agent.compute("now", ms=1, tokens=1),
            llama.infer(tokens=1),
            llama.answer(tokens=1, instruction_tokens=5),
        ]

    verified(tools, str(nothing))


def test_locations_are_the_users(tools):
    text = str(everything())
    printed = verified(tools, text, "--mlir-print-debuginfo", "--mlir-print-local-scope")
    lines = Path(__file__).read_text().splitlines()
    line = next(n for n, each in enumerate(lines, 1) if 'label="inner"), web' in each)
    assert f'loc("test_agent.py":{line}:1)' in next(each for each in printed.splitlines() if 'label = "inner"' in each)


def test_functions_stay_functions():
    @agent.function(ms=1, tokens=1)
    def double(number):
        """Twice."""
        return 2 * number

    assert double(4) == 8
    assert double(number=4) == 8
    assert double.__doc__ == "Twice."


@pytest.mark.parametrize("figure", [1e-5, 0.1, 1, 350, 1e15, 1e22, 1 / 3, 123456789.123])
def test_figures_are_read_as_they_are(tools, figure):
    from intarsia.agents.text import real, shortest

    text = f"module attributes {{test.a = {real(figure)}}} {{}}"
    printed = verified(tools, text, "--mlir-print-op-generic")
    assert float(printed.split("test.a = ")[1].split(" ")[0]) == figure
    assert float(shortest(figure)) == figure


def test_names_of_any_script(tools):
    """Names of values are ASCII in IR; labels are the user's, byte for byte."""
    labels = ["été", "ete", "質問", "回答", "²", "٣", "3 à 4", "", "v", "ete_2", "🙂", "a b", "%x#0", "ﬁn"]

    @agent.graph(agent.text(9), name="requête")
    def asked(été):
        return [llama.answer(été, tokens=5, label=label or None) for label in labels]

    text = str(asked)
    names = [line.split(" = ")[0].strip() for line in text.splitlines() if "agent.llm" in line]
    assert names[:3] == ["%ete_2", "%ete_3", "%v"]
    assert len(set(names)) == len(labels)
    printed = verified(tools, text)
    found = [re.search(r'label = "((?:[^"\\]|\\.)*)"', line) for line in printed.splitlines() if "agent.llm" in line]
    found = [match and re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), match[1]) for match in found]
    assert [each and each.encode("latin-1").decode() for each in found] == [label or None for label in labels]
    assert verified(tools, printed) == printed


def test_options_of_tasks_are_named():
    """A misspelt one is Python's error, at the call."""
    for call in (lambda a: web(a, tokens=1, lable="x"), lambda a: agent.compute("f", a, ms=1, tokens=1, lable="x")):
        with pytest.raises(TypeError, match="unexpected keyword argument 'lable'"):
            graph_of(call)


def graph_of(body, *inputs):
    return agent.graph(*(inputs or (agent.text(10),)))(body)


def recursive(question):
    return _trace("x").called["g"](question)


other = graph_of(lambda x: x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: agent.Amount(), "neither a mean nor two percentiles"),
        (lambda: agent.Amount(p95=5), "neither a mean nor two percentiles"),
        (lambda: agent.Amount(5, p50=4, p95=9), "a mean and p50 and p95; give a mean and one"),
        (lambda: agent.text(agent.Amount(5), p95=9), "put them into the Amount"),
        (lambda: agent.Sla(p50_ms=1, p95_ms=2), "at several percentiles"),
        (lambda: agent.Model("m"), "model 'm' has neither a shape nor a module nor parameters"),
        (lambda: agent.Index("i", 10, 10, 10), "neither an embedder nor a time"),
        (lambda: web(1, tokens=3), "tool 'web' is called outside of a graph"),
        (lambda: agent.graph()(lambda a: a), "takes a, but sizes are given for 0"),
        (lambda: agent.graph(5)(lambda a: a), "input 0 of graph '<lambda>' is 5, must be a size"),
        (
            lambda: graph_of(lambda a: web("text", tokens=1)),
            "input 0 of tool 'web' is 'text', must be a value of this graph",
        ),
        (
            lambda: graph_of(lambda a: web(a)),
            "tool 'web' says nothing of what it produces, must give one of tokens, pixels",
        ),
        (lambda: graph_of(lambda a: web(a, tokens=1, size=2)), "says tokens and size of what it produces"),
        (lambda: graph_of(lambda a: 5), "input 0 of the result of graph '<lambda>' is 5"),
        (lambda: graph_of(lambda a: agent.join()), "join has no parts"),
        (
            lambda: graph_of(lambda a, b: agent.join(a, b), agent.text(1), agent.image(100)),
            "join has parts of text and image, must be of one kind",
        ),
        (
            lambda: graph_of(lambda a: agent.branch({"x": (0.5, lambda: a), "y": (0.4, lambda: a)})),
            "probabilities of branch sum to 0.9, must sum to 1",
        ),
        (
            lambda: graph_of(lambda a: agent.branch({"x": (0.5, lambda: a), "y": (0.5, lambda: None)})),
            r"case 'y' of branch gives \[\], the cases before it \['text'\]",
        ),
        (lambda: graph_of(lambda a: agent.loop(lambda c: c, a, runs=agent.Amount(3))), "has no bound"),
        (lambda: graph_of(lambda a: agent.loop(lambda c: c, a, runs=3)), "has no bound"),
        (
            lambda: graph_of(lambda a: agent.loop(lambda c: (c, c), a, runs=agent.Amount(3, max=4))),
            r"carries \['text'\], its body returns \['text', 'text'\]",
        ),
        (
            lambda: graph_of(lambda a: agent.branch([("x", 0.5, lambda: a)])),
            r"branch has \[.*\] as cases, must be such as \{\"easy\": \(0.6, lambda",
        ),
        (lambda: graph_of(lambda a: other(y=a)), "call of '<lambda>' gives 0 inputs and y, the graph takes x"),
        (lambda: graph_of(lambda a: other(a, x=a)), "call of '<lambda>' gives 1 inputs and x, the graph takes x"),
        (lambda: graph_of(lambda *, a: a), r"parameter a of graph '<lambda>' takes no single input by its position"),
        (lambda: graph_of(lambda *a: a), r"parameter \*a of graph '<lambda>' takes no single input by its position"),
        (
            lambda: graph_of(lambda a: agent.Memory("m", 1, 1).write()),
            "write of 'm' has no input, must have what is written",
        ),
        (lambda: graph_of(lambda a: other()), r"gives \[\], the graph takes \['text'\]"),
    ],
)
def test_what_cannot_be(make, message):
    with pytest.raises(agent.AgentError, match=message):
        make()


def test_values_stay_where_they_are_made():
    kept = []

    def body(question):
        def case():
            kept.append(web(question, tokens=5))
            return question

        agent.branch({"x": (0.5, case), "y": (0.5, lambda: question)})
        return kept[0]

    with pytest.raises(agent.AgentError, match=r"is made in case 'x' of branch, which is over or may not happen"):
        graph_of(body)
    with pytest.raises(agent.AgentError, match="is a value of graph 'body', this is '<lambda>'"):
        graph_of(lambda a: kept[0])


def test_names_are_unique():
    twin = agent.Tool("web", ms=1)
    with pytest.raises(agent.AgentError, match="two things are called 'web'"):
        graph_of(lambda a: (web(a, tokens=1), twin(a, tokens=1)))
    first, second = graph_of(lambda a: web(a, tokens=1)), graph_of(lambda a: a)
    with pytest.raises(agent.AgentError, match="two graphs are called"):
        agent.module(first, second)
