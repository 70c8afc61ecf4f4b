# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks with several stages each, interleaved and breadth-first, give what ranks with one stage and one process give.

As a program it is a rank: test_turns_in_pipelines.py ARTIFACT WHAT RESULTS. WHAT is "steps", "prompt" or "texts".
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import intarsia
import numpy as np
import pytest
from deeper_models import deepen, wide_llama
from ranks import run_ranks, start_ranks
from test_split_models import HERE, TOLERANCE, difference

WORLD = int(os.environ.get("ITX_WORLD_SIZE", "1"))
GLOSSARY = HERE.parent.parent / "examples" / "glossary"


def steps_of(artifact: Path) -> dict[str, np.ndarray]:
    """Return the logits of prompts that are given in parts, of several sequences together, and of tokens behind them."""
    module = intarsia.load(artifact)
    cache = intarsia.Cache(module, sequences=5, pages=1 if os.environ.get("TEST_SHORT_RANK") else 0)
    random = np.random.default_rng(4)
    logits = []

    def text(length: int) -> list[int]:
        return [int(id) for id in random.integers(5, 90, length)]

    # One prompt, whose last logits are wanted, and tokens behind it. Its parts are of 16 tokens in every pipeline.
    first, ids = cache.sequence(), text(30)
    part = cache.prefill_tokens(len(ids))
    for begin in range(0, len(ids), part):
        rows = cache.step([(first, ids[begin : begin + part], int(begin + part >= len(ids)))])
    logits.append(rows)
    for _ in range(4):
        logits.append(cache.step([(first, [int(logits[-1].argmax())], 1)]))
    prompt, logits = logits, []
    # Several sequences, of which all logits are wanted, some, and none.
    more = [cache.sequence() for _ in range(3)]
    logits.append(
        cache.step([(more[0], text(37), 37), (first, text(2), 1), (more[1], text(1), 1), (more[2], text(30), 0)])
    )
    # All of them together, begun and taken later.
    for _ in range(3):
        started = cache.start_step([(sequence, text(1), 1) for sequence in [*more, first]])
        logits.append(started.wait())
    # What two sequences share is not written to; a sequence that was cut goes on.
    child = more[0].fork()
    logits.append(cache.step([(child, text(5), 5), (more[0], text(3), 3)]))
    more[2].truncate(7)
    logits.append(cache.step([(more[2], text(20), 20)]))
    if WORLD > 1:
        assert intarsia.World().all_reduce(np.ones(3, np.float32)).tolist() == [WORLD] * 3
    logits.append(cache.step([(child, text(1), 1)]))
    return {"prompt": np.concatenate(prompt), "logits": np.concatenate(logits)}


def prompt_of(artifact: Path) -> dict[str, np.ndarray]:
    """Return the logits of a prompt of 700 tokens, and of a token behind it."""
    cache = intarsia.Cache(intarsia.load(artifact))
    sequence = cache.sequence()
    ids = [int(id) for id in np.random.default_rng(4).integers(5, 90, 700)]
    part = cache.prefill_tokens(len(ids))
    for begin in range(0, len(ids), part):
        rows = cache.step([(sequence, ids[begin : begin + part], int(begin + part >= len(ids)))])
    return {"prompt": rows, "token": cache.step([(sequence, [8], 1)])}


def texts_of(artifact: Path) -> dict[str, np.ndarray]:
    """Return the tokens that prompts are continued by, several together and one that begins like another."""
    generator = intarsia.Generator(artifact)
    random = np.random.default_rng(3)
    prompts = [random.integers(5, 90, length).tolist() for length in (7, 50, 2, 20)]
    texts = generator.generate(prompts, 10)
    texts += generator.generate([*prompts[1:3], prompts[1][:40] + prompts[3]], 4, seed=7, temperature=0.8, top_k=12)
    return {str(number): np.array(text.ids) for number, text in enumerate(texts)}


WHAT = {"steps": steps_of, "prompt": prompt_of, "texts": texts_of}


def compiled(tools, model: Path, path: Path, world: int, partition: str, *flags: str) -> Path:
    split = [f"--world={world}", f"--partition={partition}"] if world > 1 else []
    tools.run("intarsia-compile", model, "-o", path, *split, *flags)
    return path


@pytest.mark.parametrize(
    ("name", "layers", "partition", "world", "hosts"),
    [
        ("llama", 4, "interleaved", 2, ""),
        ("llama", 4, "breadth-first:3", 2, "ab"),
        ("qwen3", 6, "pipeline,breadth-first", 3, ""),
        ("gemma2", 6, "interleaved:2", 3, "aab"),
        ("gpt-oss", 8, "pipeline,interleaved:2", 4, ""),
        ("gpt2", 8, "breadth-first:2", 4, "abbc"),
        ("mixtral", 4, "tensor:2,interleaved:2", 4, ""),
        ("mixtral", 4, "pipeline:2,expert:2,breadth-first:3", 4, "aabb"),
    ],
)
def test_turns(tools, name: str, layers: int, partition: str, world: int, hosts: str, tmp_path: Path) -> None:
    """A prompt in equal parts has the bits of a pipeline with one stage a rank; all values are those of one process."""
    model = deepen(name, layers, tmp_path / "model")
    whole = compiled(tools, model, tmp_path / "whole.itx", 1, "", "--kv=f32")
    kinds = [kind for kind in partition.split(",") if not kind.startswith(("interleaved", "breadth-first", "pipeline"))]
    plain = ",".join([f"pipeline:{world // 2 if kinds else world}", *kinds])
    one = compiled(tools, model, tmp_path / "one.itx", world, plain, "--kv=f32")
    turns = compiled(tools, model, tmp_path / "turns.itx", world, partition, "--kv=f32")
    expected = steps_of(whole)
    of_one = run_ranks(__file__, one, Path("steps"), tmp_path / "one", world, hosts)
    of_turns = run_ranks(__file__, turns, Path("steps"), tmp_path / "turns", world, hosts)
    for found, same in zip(of_turns, of_one, strict=True):
        np.testing.assert_array_equal(found["prompt"], same["prompt"])
        assert difference(found, expected) <= TOLERANCE


@pytest.mark.parametrize(
    ("name", "partition", "world"), [("llama", "interleaved", 2), ("mixtral", "tensor:2,breadth-first:2", 4)]
)
def test_devices_with_memory_of_their_own(tools, name: str, partition: str, world: int, tmp_path: Path) -> None:
    """What goes round between stages is in memory of the host, what ranks of a stage add in that of the devices."""
    model = deepen(name, 4, tmp_path / "model")
    flags = ["--kv=f32", "--target=reference"]
    expected = steps_of(compiled(tools, model, tmp_path / "whole.itx", 1, "", *flags))
    turns = compiled(tools, model, tmp_path / "turns.itx", world, partition, *flags)
    for found in run_ranks(__file__, turns, Path("steps"), tmp_path / "turns", world):
        assert difference(found, expected) <= TOLERANCE


@pytest.mark.parametrize("caches", ["f16", "fp8", "int8", "int4"])
def test_caches(tools, caches: str, tmp_path: Path) -> None:
    """As above; elsewhere a value may be rounded to the next one, which changes less than the format does."""
    turns = compiled(tools, GLOSSARY, tmp_path / "turns.itx", 2, "interleaved:3", f"--kv={caches}")
    one = compiled(tools, GLOSSARY, tmp_path / "one.itx", 2, "pipeline", f"--kv={caches}")
    expected = steps_of(tools.artifact(GLOSSARY, f"--kv={caches}"))
    exact = steps_of(tools.artifact(GLOSSARY, "--kv=f32"))
    results = [run_ranks(__file__, each, Path("steps"), tmp_path / each.stem, 2) for each in (turns, one)]
    for found, same in zip(*results, strict=True):
        np.testing.assert_array_equal(found["prompt"], same["prompt"])
        assert difference(found, expected) <= difference(expected, exact)


@pytest.fixture(scope="module")
def wide(tools, folder: Path) -> tuple[Path, dict[str, np.ndarray]]:
    """Give a model whose rows are wide, and what it computes in one piece."""
    model = wide_llama(folder / "model")
    return model, prompt_of(compiled(tools, model, folder / "whole.itx", 1, "", "--kv=f32", "--quantize=none"))


@pytest.mark.parametrize(
    ("partition", "world", "hosts"),
    [
        ("interleaved:3", 2, ""),
        ("breadth-first:3", 2, ""),
        ("interleaved", 3, ""),
        ("breadth-first", 3, "abb"),
        ("breadth-first:2", 4, ""),
        ("interleaved:2", 4, "aabb"),
    ],
)
def test_long_messages(tools, wide, partition: str, world: int, hosts: str, tmp_path: Path) -> None:
    """A send of 300 kB waits for its receiver: no rank waits in a circle."""
    model, expected = wide
    turns = compiled(tools, model, tmp_path / "turns.itx", world, partition, "--kv=f32", "--quantize=none")
    for found in run_ranks(__file__, turns, Path("prompt"), tmp_path / "results", world, hosts):
        assert difference(found, expected) <= TOLERANCE


def test_texts(tools, tmp_path: Path) -> None:
    whole = tools.artifact(GLOSSARY, "--kv=f32")
    turns = compiled(tools, GLOSSARY, tmp_path / "turns.itx", 2, "breadth-first", "--kv=f32")
    expected = texts_of(whole)
    for results in run_ranks(__file__, turns, Path("texts"), tmp_path / "results", 2):
        assert {name: tokens.tolist() for name, tokens in results.items()} == {
            name: tokens.tolist() for name, tokens in expected.items()
        }


def test_command_line(tools, tmp_path: Path) -> None:
    whole = tools.artifact(GLOSSARY, "--kv=f32")
    turns = compiled(tools, GLOSSARY, tmp_path / "turns.itx", 2, "interleaved", "--kv=f32")
    ids = "--ids=" + ",".join(str(id) for id in np.random.default_rng(4).integers(5, 90, 70))
    expected = tools.run("intarsia-run", whole, ids, "--max-tokens=8").stdout
    assert tools.run("intarsia-run", turns, "--world=2", ids, "--max-tokens=8").stdout == expected
    assert len(expected.split()) == 8


def test_a_rank_that_fails_in_a_part(tools, tmp_path: Path) -> None:
    """Other ranks have gone on: the world ends, and nobody waits for the deadline."""
    turns = compiled(tools, GLOSSARY, tmp_path / "turns.itx", 2, "interleaved", "--kv=f32")
    command = [__file__, turns, "steps", tmp_path / "results"]
    for rank in start_ranks(command, 2, tmp_path, TEST_SHORT_RANK="1"):
        message = rank.communicate(timeout=30)[1]
        assert rank.returncode != 0
        assert "the cache is full" in message


def test_functions_of_single_stages(tools, tmp_path: Path) -> None:
    """A stage alone is nothing that a program can call, or make a cache of."""
    turns = compiled(tools, GLOSSARY, tmp_path / "turns.itx", 2, "interleaved", "--kv=f32")
    program = f"""
import intarsia
module = intarsia.load({str(turns)!r})
ids = dict(input_ids=[7], positions=[0], sequences=[0], page_table=[[0]], output_tokens=[0])
state = intarsia.make_state(module.step, pages=1, sequences=1)
for attempt, message in (
    (lambda: module.step(**ids, **state), "make a cache"),
    (lambda: intarsia.Cache(module, function="step.turn0"), "give the name of the last"),
):
    try:
        attempt()
    except intarsia.Error as error:
        assert message in str(error), error
    else:
        raise AssertionError(message)
"""
    (tmp_path / "program.py").write_text(program)
    for rank in start_ranks([tmp_path / "program.py"], 2, tmp_path):
        message = rank.communicate(timeout=60)[1]
        assert rank.returncode == 0, message


@pytest.mark.parametrize(
    ("model", "world", "partition", "message"),
    [
        ("decoders/llama", 2, "interleaved:9", "layers, so that each of 2 ranks has at most 2 stages"),
        ("decoders/llama", 2, "interleaved:1", "'1' is not a number of stages of a rank"),
        ("decoders/llama", 2, "pipeline,breadth-first:x", "'x' is not a number of stages of a rank"),
        ("decoders/llama", 2, "interleaved,breadth-first", "how many stages a rank has is given twice"),
        ("decoders/llama", 2, "context:2,interleaved", "give pipeline more than one rank"),
        ("decoders/llama", 2, "tensor,interleaved", "give pipeline more than one rank"),
        ("models/bert", 2, "interleaved", "'main' keeps no caches"),
    ],
)
def test_refused(tools, model: str, world: int, partition: str, message: str, tmp_path: Path) -> None:
    flags = [f"--world={world}", f"--partition={partition}", "-o", tmp_path / "m.itx"]
    failed = tools.run("intarsia-compile", HERE / model, *flags, check=False)
    assert failed.returncode == 1
    assert message in failed.stderr
    assert not (tmp_path / "m.itx").exists()


if __name__ == "__main__":
    artifact_path, what, results_path = sys.argv[1:]
    np.savez(f"{results_path}.{os.environ['ITX_WORLD_RANK']}", **WHAT[what](Path(artifact_path)))
