# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models behind intarsia-worker: their texts are those of PyTorch and of an engine in this process."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import intarsia
import numpy as np
import pytest
from intarsia.generation.constrained import Grammars
from intarsia.generation.engine import END, FINISHED, LENGTH, TOKEN, Engine, Mock, Request
from intarsia.generation.sampling import SamplingOptions
from intarsia.serve.worker import WorkerEngine, WorkerLostError

SOURCE = Path(__file__).resolve().parents[2]
GLOSSARY = SOURCE / "examples" / "glossary"
GOLDENS = SOURCE / "test" / "EndToEnd" / "goldens"
STOP = 1


@pytest.fixture(autouse=True)
def worker_program(tools, monkeypatch):
    monkeypatch.setenv("INTARSIA_WORKER", str(tools.path("intarsia-worker")))


@pytest.fixture(scope="module")
def golden() -> tuple[list[list[int]], list[list[int]]]:
    """Return prompts and their greedy continuations."""
    with np.load(GOLDENS / "glossary.npz") as arrays:
        prompts = [row[:length].tolist() for row, length in zip(arrays["tokens"], arrays["lengths"], strict=True)]
    return prompts, json.loads((GOLDENS / "glossary.json").read_text())["greedy_ids"]


def events_of(engine: Any, requests: list[Request]) -> list[list[Any]]:
    """Return the events of each request; they run together."""
    numbers = [engine.submit(request) for request in requests]
    events: dict[int, list[Any]] = {number: [] for number in numbers}
    left = sum(request.samples for request in requests)
    while left:
        new = engine.poll(60)
        assert new, "nothing comes any more"
        for event in new:
            events[event.request].append(event)
            left -= event.kind == FINISHED
    return [events[number] for number in numbers]


def tokens(events: list[Any], sample: int = 0) -> list[int]:
    return [event.token for event in events if event.kind == TOKEN and event.sample == sample]


def test_texts_are_those_of_pytorch(tools, golden):
    prompts, greedy = golden
    with WorkerEngine(tools.artifact(GLOSSARY, "--kv=f32")) as engine:
        assert engine.info["vocabulary"] == 4096
        assert engine.info["context"] == 1024
        assert len(engine.info["hash"]) == 32
        requests = [Request(prompt, max_tokens=40, ends=[STOP]) for prompt in prompts]
        for events, ids in zip(events_of(engine, requests), greedy, strict=True):
            until = min(ids.index(STOP), 40)
            assert tokens(events) == ids[:until]
            assert (events[-1].finish, events[-1].token) == ((LENGTH, -1) if until == 40 else (END, STOP))


def values(events: list[Any]) -> list[tuple[Any, ...]]:
    """Return what events say, but for times and what depends on other requests."""
    names = ("kind", "sample", "token", "logprob", "top", "finish", "prompt_tokens", "tokens", "message")
    return [tuple(getattr(event, name) for name in names) for event in events]


def sorted_values(events: list[Any], samples: int) -> list[list[tuple[Any, ...]]]:
    return [[one for one in values(events) if one[1] == sample] for sample in range(samples)]


@pytest.mark.parametrize("model", ["mock", "glossary"])
def test_events_are_those_of_an_engine_in_this_process(tools, golden, model):
    prompts = golden[0]
    options = {"temperature": 0.9, "top_k": 50, "top_p": 0.95, "min_p": 0.001, "repetition_penalty": 1.1}
    options |= {"presence_penalty": 0.2, "frequency_penalty": 0.1, "logit_bias": {7: 3.0, 8: float("-inf")}}
    sampling = SamplingOptions(seed=-5, min_tokens=3, stop_tokens=[STOP], **options)
    requests = [
        Request(prompts[0], sampling, max_tokens=30, samples=2, logprobs=3),
        Request(prompts[1], SamplingOptions(seed=2**64 - 1, temperature=1.0), max_tokens=10, seed_spawn=3),
        Request(prompts[2], max_tokens=5, prompt_logprobs=2, logprobs=0),
        Request(prompts[3], max_tokens=0, key="k", salt="s", priority=2, deadline_seconds=100.0),
    ]
    path = tools.artifact(GLOSSARY, "--kv=f32")
    served = Mock(seed=7) if model == "mock" else path
    with WorkerEngine(served) as worker, Engine(served if model == "mock" else intarsia.load(path)) as engine:
        theirs, ours = events_of(worker, requests), events_of(engine, requests)
    for one, other, request in zip(theirs, ours, requests, strict=True):
        assert sorted_values(one, request.samples) == sorted_values(other, request.samples)
    assert len(tokens(theirs[0], 1)) >= 3


def test_grammars(tools, golden):
    from tokenizers import Tokenizer

    grammars = Grammars(Tokenizer.from_file(str(GLOSSARY / "tokenizer.json")), 4096, [STOP])
    tokenizer = Tokenizer.from_file(str(GLOSSARY / "tokenizer.json"))
    schema = {"type": "object", "properties": {"n": {"enum": [12, 345]}}, "additionalProperties": False}
    schema |= {"required": ["n"]}
    with WorkerEngine(tools.artifact(GLOSSARY, "--kv=f32")) as engine:
        constraint = grammars.constraint(None, "(yes|no), [0-9]{3}", None)
        requests = [Request(golden[0][0], max_tokens=40, ends=[STOP], constraint=constraint, samples=2)]
        requests += [Request(golden[0][1], max_tokens=40, ends=[STOP])]
        requests += [
            Request(golden[0][2], max_tokens=60, ends=[STOP], constraint=grammars.constraint(schema, None, None))
        ]
        regular, free, json_text = events_of(engine, requests)
    text = tokenizer.decode(tokens(regular)).strip()
    assert text[:-3] in ("yes, ", "no, ")
    assert text[-3:].isdecimal()
    assert tokens(regular) == tokens(regular, 1)
    assert tokens(free) == golden[1][1][: golden[1][1].index(STOP)][:40]
    assert json.loads(tokenizer.decode(tokens(json_text)))["n"] in (12, 345)


def test_ranks_of_a_world(tools, golden, tmp_path):
    tools.compile(GLOSSARY, "-o", tmp_path / "m.itx", "--kv=f32", "--world=2")
    prompts, greedy = golden
    with WorkerEngine(tmp_path / "m.itx", world=2) as engine:
        requests = [Request(prompt, max_tokens=8, ends=[STOP]) for prompt in prompts]
        for events, ids in zip(events_of(engine, requests), greedy, strict=True):
            assert tokens(events) == ids[: min(ids.index(STOP), 8)]
        # One rank dies: the world is over, and the reason names it.
        children = Path(f"/proc/{engine.process}/task/{engine.process}/children").read_text().split()
        assert len(children) == 2
        os.kill(int(children[1]), signal.SIGKILL)
        with pytest.raises(WorkerLostError, match=r"rank 1 .*was ended by signal 9"):
            engine.poll(60)
