# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Errors of agents in Python, at the user's line: figures, as the dialect's verifiers refuse them, and control flow."""

import math
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from intarsia import agent
from intarsia.agents import figures, graph

llama = agent.Model("llama", shape="llama-3.1-8b")
web = agent.Tool("web", ms=350)


def graph_of(body):
    return agent.graph(agent.text(10))(body)


def asks(**arguments):
    return lambda: graph_of(lambda a: llama.answer(a, **{"tokens": 5, **arguments}))


def ways(**cases):
    return lambda: graph_of(lambda a: agent.branch({name: (p, lambda: a) for name, p in cases.items()}))


def again(**arguments):
    return lambda: graph_of(lambda a: agent.loop(lambda c: c, a, **{"runs": agent.Amount(2, max=4), **arguments}))


def verifies(tools, text):
    run = subprocess.run([tools.path("intarsia-opt"), "-"], input=text, capture_output=True, text=True, timeout=60)
    assert run.returncode in (0, 1), run.stderr
    return run.returncode == 0


#  Control flow


@pytest.mark.parametrize(
    "look",
    [
        lambda a: 1 if a else 2,
        lambda a: not a,
        lambda a: a == "yes",
        lambda a: a != "yes",
        lambda a: a == a,
        lambda a: a < 3,
        lambda a: a <= 3,
        lambda a: a > 3,
        lambda a: a >= 3,
    ],
)
def test_python_cannot_decide(look):
    with pytest.raises(agent.AgentError, match=r"cannot decide by %a of graph '.*agent\.branch.*agent\.loop"):
        graph_of(lambda a: (look(a), a)[1])


@pytest.mark.parametrize("look", [list, len, lambda a: "yes" in a, lambda a: a[0], lambda a: [*a], lambda a: min(a)])
def test_python_cannot_look_inside(look):
    with pytest.raises(agent.AgentError, match=r"cannot look into %a of graph '.*agent\.map"):
        graph_of(lambda a: (look(a), a)[1])


def test_values_are_themselves():
    def body(a):
        b = web(a, tokens=5)
        assert {a: 1, b: 2}[b] == 2
        assert len({a, b, a}) == 2
        assert a in (a, b)  # the same one is found before any comparison
        return b

    assert "agent.invoke @web" in str(graph_of(body))


def test_the_line_is_the_users(tmp_path):
    (tmp_path / "chat.py").write_text(
        "from intarsia import agent\n"
        "@agent.graph(agent.text(10))\n"
        "def chat(q):\n"
        "    if q == 'yes':\n"
        "        return q\n"
        "    return q\n"
    )
    run = subprocess.run([sys.executable, tmp_path / "chat.py"], capture_output=True, text=True)
    assert "AgentError: chat.py:4: Python cannot decide by %q of graph 'chat'" in run.stderr
    # Also where a dataclass's own code is between.
    for bad in ("agent.Sla(p95_ms=0)", "agent.Amount(-1)", "agent.Model('m', parameters=-1)"):
        (tmp_path / "bad.py").write_text(f"from intarsia import agent\n\n{bad}\n")
        run = subprocess.run([sys.executable, tmp_path / "bad.py"], capture_output=True, text=True)
        assert "AgentError: bad.py:3: " in run.stderr, run.stderr


#  Figures


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: agent.Amount(-1), "mean of an amount is -1, must be a number between 0 and"),
        (lambda: agent.Amount(math.nan), "mean of an amount is nan, must be a number"),
        (lambda: agent.Amount(1, p95=math.inf), "p95 of an amount is inf, must be a number"),
        (lambda: agent.Amount("5"), "mean of an amount is '5', must be a number"),
        (lambda: agent.Amount(5, max="9"), "max of an amount is '9', must be a number"),
        (lambda: agent.Amount(10**400), "mean of an amount is 1000.*, must be a number"),
        (lambda: agent.Amount(100, p95=50), "p95 of an amount is 50, less than its mean, which is 100"),
        (lambda: agent.Amount(100, p95=1000), r"p95 of an amount is 1000 with a mean of 100, which no lognormal has"),
        (lambda: agent.Amount(100, max=50), "mean of an amount is 100, max only 50"),
        (lambda: agent.Amount(p50=9, p95=5), "p95 of an amount is 5, less than its p50, which is 9"),
        (lambda: agent.Amount(p50=0, p95=5), "p50 of an amount is 0, must be positive"),
        (lambda: agent.Sla(p95_ms=math.nan), "p95_ms of the Sla is nan, must be a number between 1 and 8.64e"),
        (lambda: agent.Sla(p95_ms="3 s"), "p95_ms of the Sla is '3 s', must be a number"),
        (lambda: agent.Sla(requests_per_second=-3), "requests_per_second of the Sla is -3, must be a number between"),
        (
            lambda: agent.graph(agent.text(1), sla=3000)(lambda a: a),
            "sla of graph '<lambda>' is 3000, must be such as agent.Sla",
        ),
        (
            lambda: agent.text(1e9),
            r"tokens of agent.text is 1000000000.0, must be 0, or between .* characters or bytes",
        ),
        (lambda: agent.text(100, p95=200, max=1e9), "max of tokens of agent.text is 1000000000.0"),
        (lambda: agent.text(100, p96=200), "text has no argument 'p96'; known are max, p50"),
        (lambda: agent.audio(True), "seconds of agent.audio is True, must be a number or an Amount"),
        (lambda: agent.Model("m", parameters=-1), "parameters of model 'm' is -1, must be a number between 1000 and"),
        (
            lambda: agent.Model("m", shape="s", context_tokens=0.5),
            "context_tokens of model 'm' is 0.5, must be a whole",
        ),
        (lambda: agent.Model("m", shape=""), "shape of model 'm' is '', must be a text"),
        (lambda: agent.Model("", shape="s"), "name of a model is '', must be a text"),
        (lambda: agent.Model("m", shape="s", precisions="bf16"), "precisions of model 'm' is 'bf16', must be a list"),
        (
            lambda: agent.Model("m", shape="s", precisions=["f8"]),
            "precision 'f8' of model 'm' is unknown; known are f32",
        ),
        (lambda: agent.Model("m", shape="s", encoders={"text": llama}), "encoders of model 'm' has 'text'"),
        (lambda: agent.Model("m", shape="s", encoders={"image": llama}), "must be a Model with tokens_per_unit"),
        (lambda: agent.Tool("t", ms="fast"), "ms of tool 't' is 'fast', must be a number or an Amount"),
        (lambda: agent.Tool("t", ms=0.00035), "ms of tool 't' is 0.00035, must be 0, or between 0.001"),
        (
            lambda: agent.Tool("t", ms=1, dollars_per_call=-1),
            "dollars_per_call of tool 't' is -1, must be 0, or between",
        ),
        (
            lambda: agent.Tool("t", ms=1, concurrency=0),
            "concurrency of tool 't' is 0, must be a whole number between 1",
        ),
        (lambda: agent.Tool("t", ms=1, failure_probability=1), "failure_probability of tool 't' is 1, must be 0, or"),
        (lambda: agent.Memory("n", read_ms=-1, write_ms=1), "read_ms of memory 'n' is -1"),
        (lambda: agent.Memory("n", read_ms=1, write_ms=1, concurrency=0), "concurrency of memory 'n' is 0"),
        (lambda: agent.Index("i", 10, 10, 0, ms=1), "chunk_tokens of index 'i' is 0, must be a whole number between 1"),
        (lambda: agent.Index("i", 10, 10, 9, embedder="m"), "embedder of index 'i' is 'm', must be a Model"),
        (
            lambda: graph_of(lambda a: agent.Index("i", 10, 10, 9, ms=1).retrieve(a, top_k=11)),
            "top_k of retrieve of 'i' is 11, the index has 10 vectors",
        ),
        (asks(tokens="many"), "tokens of answer of 'llama' is 'many', must be a number or an Amount, such as"),
        (asks(instruction_tokens=0), "instruction_tokens of answer of 'llama' is 0, must be a whole number"),
        (asks(shared_instructions=True), "answer of 'llama' has shared_instructions, but no instruction_tokens"),
        (asks(label="\udcff"), r"label of answer of 'llama' is '\\udcff', must be Unicode"),
        (
            asks(label="\x9b"),
            r"label of answer of 'llama' is '\\x9b', must have no line ends and other control characters",
        ),
        (asks(label=""), "label of answer of 'llama' is '', must be a text that is not empty"),
        (asks(together=5), "together of answer of 'llama' is 5, must be a text"),
        (asks(place=""), "place of answer of 'llama' is '', must be a pool of a system, such as 'dc::fast'"),
        (asks(place="fast"), "place of answer of 'llama' is 'fast', must be a pool"),
        (asks(place="dc::"), "place of answer of 'llama' is 'dc::', must be a pool"),
        (asks(label="a\ntouch x"), r"label of answer of 'llama' is 'a\\ntouch x', must have no line ends .* U\+000A"),
        (
            asks(place="dc::\x1b[2J"),
            r"place of answer of 'llama' is 'dc::\\x1b\[2J', must have no line ends .* U\+001B",
        ),
        (asks(place="dc::\udcff"), r"place of answer of 'llama' is 'dc::\\udcff', must be Unicode"),
        (lambda: graph_of(lambda a: agent.compute("", a, ms=1, tokens=1)), "name of a compute is ''"),
        (lambda: graph_of(lambda a: web(a, size=0.5)), "size of tool 'web' is 0.5, must be 0, or between 1 and"),
        (lambda: graph_of(lambda a: agent.stream(a, every=-1)), "every of stream is -1"),
        (ways(x=1.6, y=-0.6), "probability of case 'x' of branch is 1.6, must be a number between 0 and 1"),
        (ways(x="half", y=0.5), "probability of case 'x' of branch is 'half', must be a number"),
        (ways(), "branch has no case"),
        (lambda: graph_of(lambda a: agent.branch({"x": 1.0})), "case 'x' of branch is 1.0, must be a probability and"),
        (
            again(runs=agent.Amount(2, max=2.5)),
            "max of runs of loop is 2.5, must be a whole number between 1 and 100000",
        ),
        (again(runs=agent.Amount(0.5, max=2)), "runs of loop is 0.5, must be a number between 1"),
        (again(runs=agent.Amount(2, p95=3, max=4)), "loop says by percentiles how often it runs"),
        (again(run_probabilities=[0.5, 0.4]), "probabilities of loop sum to 0.9, must sum to 1"),
        (again(run_probabilities=[0.5, 0.5]), "loop runs 2 times on average, by its run_probabilities 1.5"),
        (again(run_probabilities=[0.2] * 5), "loop has 5 run_probabilities, but runs at most 4 times"),
        (
            lambda: graph_of(lambda a: agent.map(lambda p: p, a, width=0)),
            "width of map is 0, must be a number between 1",
        ),
        (lambda: graph_of(lambda a: agent.map(lambda p: p, a, width=2, concurrency=0)), "concurrency of map is 0"),
    ],
)
def test_figures(make, message):
    with pytest.raises(agent.AgentError, match=rf"^test_agent_refused\.py:\d+: .*{message}"):
        make()


def tool_of(**arguments):
    return str(graph_of(lambda a: agent.Tool("t", **{"ms": 1, **arguments})(a, tokens=1)))


def model_of(**arguments):
    return str(graph_of(lambda a: agent.Model("m", shape="s", **arguments).answer(a, tokens=1)))


def index_of(**arguments):
    given = {"vectors": 2**50, "dimension": 1, "chunk_tokens": 1, "ms": 1, **arguments}
    return str(graph_of(lambda a: agent.Index("i", **given).retrieve(a, top_k=1)))


def sla_of(**arguments):
    return str(agent.graph(agent.text(1), sla=agent.Sla(**arguments))(lambda a: a))


def found(top_k):
    return str(graph_of(lambda a: agent.Index("i", 2**50, 1, 1, ms=1).retrieve(a, top_k=top_k)))


def sized(size):
    return lambda figure: str(agent.graph(size(figure))(lambda a: a))


def branched(probability):
    cases = {"x": (probability, lambda: None), "y": (1 - probability, lambda: None)}
    return str(graph_of(lambda a: agent.branch(cases)))


# How a figure of each range gets into IR.
WRITERS = {
    "unit tokens": sized(agent.text),
    "unit pixels": sized(agent.image),
    "unit seconds": sized(agent.video),
    "unit bytes": sized(agent.data),
    "unit ms": lambda figure: tool_of(ms=figure),
    "unit ": lambda figure: str(graph_of(lambda a: agent.map(lambda part: part, a, width=figure))),
    "instruction_tokens": lambda figure: str(asks(instruction_tokens=figure)()),
    "top_k": found,
    "items at once": lambda n: str(graph_of(lambda a: agent.map(lambda part: part, a, width=2, concurrency=n))),
    "runs": lambda figure: str(again(runs=agent.Amount(1, max=figure))()),
    "probability": branched,
}
for name in ("parameters", "flops_per_unit", "flops_per_output", "tokens_per_unit", "kv_bytes_per_token"):
    WRITERS[name] = lambda figure, name=name: model_of(**{name: figure})
WRITERS["context_tokens"] = lambda figure: model_of(context_tokens=figure)
for name in ("vectors", "dimension", "chunk_tokens", "bytes_per_vector", "visited"):
    WRITERS[name] = lambda figure, name=name: index_of(**{name: figure})
for name in ("dollars_per_call", "concurrency", "failure_probability"):
    WRITERS[name] = lambda figure, name=name: tool_of(**{name: figure})
for name in ("p50_ms", "p95_ms", "p99_ms", "ttft_ms", "tbt_ms", "requests_per_second"):
    WRITERS[name] = lambda figure, name=name: sla_of(**{name: figure})

TABLE = {**figures.RANGES, **{f"unit {unit}": each for unit, each in figures.UNIT_RANGES.items()}}


@pytest.mark.parametrize("name", TABLE)
def test_ranges_are_those_of_the_verifiers(tools, monkeypatch, name):
    """At each end, and just outside of it, Python and the dialect say the same."""
    within = TABLE[name]
    outside = [within.low - 1, within.high + 1] if within.whole else [within.low * 0.999, within.high * 1.001]
    values = [within.low, within.high, *outside, 0, -1]
    if name in ("probability",):
        values = [0, 1, 1.001, -0.001]
    said = []
    for figure in values:
        try:
            WRITERS[name](figure)
            said.append(True)
        except agent.AgentError:
            said.append(False)
    assert said[:2] == [True, True]
    assert said[-1] is False
    monkeypatch.setattr(figures.Range, "holds", lambda self, figure: True)
    monkeypatch.setattr(graph, "_check_runs", lambda *_: None)
    texts = []
    for figure in values:
        try:
            texts.append(WRITERS[name](figure))
        except agent.AgentError:  # what Python refuses for another reason as well
            texts.append("refused")
    with ThreadPoolExecutor(2) as pool:
        verified = list(pool.map(lambda text: verifies(tools, text), texts))
    assert dict(zip(values, verified, strict=True)) == dict(zip(values, said, strict=True))


def test_amounts_are_those_of_the_verifier(tools, monkeypatch):
    """Drawn means, percentiles and bounds: Python refuses what the dialect does, and nothing else."""
    rng = random.Random(7)
    drawn = []
    for _ in range(600):
        given = {rng.choice(("p50", "p90", "p95", "p99")): 100 * math.exp(rng.gauss(0.8, 1.2))}
        if rng.random() < 0.5:
            given["max"] = 100 * math.exp(rng.gauss(1.5, 1))
        drawn.append(given)
    said, lines = [], []
    for given in drawn:
        try:
            agent.Amount(100, **given)
            said.append(True)
        except agent.AgentError:
            said.append(False)
        given_text = ", ".join(f"{name} = {figure!r}" for name, figure in given.items())
        lines.append(f"module attributes {{test.a = #agent.amount<100 tokens, {given_text}>}} {{}}")
    assert 100 < sum(said) < 500
    run = subprocess.run(
        [tools.path("intarsia-opt"), "-", "--split-input-file"],
        input="\n// -----\n".join(lines),
        capture_output=True,
        text=True,
        timeout=60,
    )
    refused = {int(line.split(":")[1]) // 2 for line in run.stderr.splitlines() if ": error: " in line}
    assert [number not in refused for number in range(len(drawn))] == said
