# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stages of a pipeline compute steps of different sequences at the same time, and give what one process gives.

As a program it is a rank: test_steps_in_pipelines.py ARTIFACT FLAG RESULTS. The first rank makes the flag, a file, when
it has begun a step less than there are stages, and the ranks of the last stage wait for it before they begin. If it is
"texts", prompts are continued instead.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from pathlib import Path

import intarsia
import numpy as np
import pytest
from ranks import run_ranks, start_ranks
from test_split_models import HERE, TOLERANCE, difference

RANK, WORLD = int(os.environ.get("ITX_WORLD_RANK", "0")), int(os.environ.get("ITX_WORLD_SIZE", "1"))
#: Tokens of the prompts. With logits of all of them, messages are longer than what ranks have room for on their way.
LENGTHS = [58, 31, 4, 60, 17, 55, 60, 2, 60, 59] * 4
DECODED = 3
WAIT_S = 60


def wait_for(flag: Path) -> None:
    end = time.monotonic() + WAIT_S
    while not flag.exists():
        assert time.monotonic() < end, "the first rank waits for logits that it has not asked for"
        time.sleep(0.01)


def results_of(artifact: Path, flag: Path) -> dict[str, np.ndarray]:
    """Return logits of all tokens of texts, computed in groups that are under way together."""
    module = intarsia.load(artifact)
    pages = 1 if os.environ.get("TEST_SHORT_RANK") == str(RANK) else 0
    cache = intarsia.Cache(module, sequences=len(LENGTHS), pages=pages)
    stages = cache.info["stages"]
    random = np.random.default_rng(4)
    texts = [random.integers(5, 90, length + DECODED).tolist() for length in LENGTHS]
    sequences = [cache.sequence() for _ in texts]
    logits: list[list[np.ndarray]] = [[] for _ in texts]
    under_way: deque = deque()

    def wait() -> None:
        group, counts, step = under_way.popleft()
        parts = np.split(step.wait(), np.cumsum(counts)[:-1])
        for i, rows in zip(group, parts, strict=True):
            logits[i].append(rows)

    def start(group: list[int], begin: list[int], end: list[int]) -> None:
        chunks = [(sequences[i], texts[i][b:e], e - b) for i, b, e in zip(group, begin, end, strict=True)]
        under_way.append((group, [count for _, _, count in chunks], cache.start_step(chunks)))

    if RANK * stages // WORLD == stages - 1 and stages > 1:
        wait_for(flag)
    # One group more than there are stages: the oldest results come while later steps are begun.
    groups = [part.tolist() for part in np.array_split(np.arange(len(texts)), stages + 1)]
    for number, group in enumerate(groups):
        start(group, [0] * len(group), [LENGTHS[i] for i in group])
        if RANK == 0 and number == stages - 2:
            flag.touch()
    for token in range(DECODED):
        for group in groups:
            wait()
            start(group, [LENGTHS[i] + token for i in group], [LENGTHS[i] + token + 1 for i in group])
    # Other exchanges come between steps that are under way and their logits.
    wait()
    sequences[groups[0][0]].truncate(2)
    again = cache.step([(sequences[groups[0][0]], texts[groups[0][0]][2:9], 7)])
    if WORLD > 1:
        assert intarsia.World().all_reduce(np.ones(3, np.float32)).tolist() == [WORLD] * 3
    while under_way:
        wait()
    # Nobody takes the logits of the last steps.
    for i in groups[-1]:
        cache.start_step([(sequences[i], texts[i][:1], 1)])
    return {f"logits{i}": np.concatenate(rows) for i, rows in enumerate(logits)} | {"again": again}


@pytest.mark.parametrize(
    ("name", "partition", "world", "hosts"),
    [
        ("llama", "pipeline", 2, ""),
        ("qwen3", "pipeline", 3, ""),
        ("gemma3", "pipeline", 3, "abb"),
        ("mixtral", "pipeline:2,tensor:2", 4, "aabb"),
    ],
)
def test_steps_of_groups(tools, name: str, partition: str, world: int, hosts: str, tmp_path: Path) -> None:
    model = HERE / "decoders" / name
    whole, split = tools.artifact(model, "--kv=f32"), tmp_path / "split.itx"
    tools.run("intarsia-compile", model, "-o", split, "--kv=f32", f"--world={world}", f"--partition={partition}")
    flag = tmp_path / "flag"
    expected = results_of(whole, flag)
    assert not flag.exists()
    for results in run_ranks(__file__, split, flag, tmp_path / "results", world, hosts):
        assert difference(results, expected) <= TOLERANCE
    assert flag.exists()


def texts_of(artifact: Path) -> dict[str, np.ndarray]:
    """Return the tokens of prompts that are continued together, of lengths that differ; the second text is begun only."""
    generator = intarsia.Generator(artifact)
    random = np.random.default_rng(3)
    prompts = [random.integers(5, 90, length).tolist() for length in (7, 60, 2, 20, 63)]
    greedy = generator.generate(prompts, 12)
    _, steps = generator.start(prompts[0], 9)
    next(steps)
    steps.close()
    drawn = generator.generate(prompts[1:4], 5, seed=7, temperature=0.8, top_k=12)
    prefill, decode = generator.measure([[7, 8, 9]] * 3, 4)
    assert prefill > 0
    assert decode > 0
    return {str(number): np.array(text.ids) for number, text in enumerate([*greedy, *drawn])}


def test_texts(tools, tmp_path: Path) -> None:
    model = HERE / "decoders" / "llama"
    whole, split = tools.artifact(model, "--kv=f32"), tmp_path / "split.itx"
    tools.run("intarsia-compile", model, "-o", split, "--kv=f32", "--world=2", "--partition=pipeline")
    expected = texts_of(whole)
    assert [len(expected[str(number)]) for number in range(5)] == [12, 5, 12, 12, 2]
    for results in run_ranks(__file__, split, Path("texts"), tmp_path / "results", 2):
        assert {name: tokens.tolist() for name, tokens in results.items()} == {
            name: tokens.tolist() for name, tokens in expected.items()
        }


def test_a_rank_that_fails_in_a_step(tools, tmp_path: Path) -> None:
    """Other stages have gone on to later steps: the world ends, and nobody waits for the deadline."""
    split = tmp_path / "split.itx"
    tools.run(
        "intarsia-compile", HERE / "decoders" / "llama", "-o", split, "--kv=f32", "--world=2", "--partition=pipeline"
    )
    command = [__file__, split, tmp_path / "flag", tmp_path / "results"]
    for rank in start_ranks(command, 2, tmp_path, TEST_SHORT_RANK="1"):
        message = rank.communicate(timeout=30)[1]
        assert "the cache is full" in message
        assert rank.returncode != 0


def test_stages_on_a_device_with_a_memory_of_its_own(tools, tmp_path: Path) -> None:
    """Stages exchange values in memory of the host: logits are there too, and can be taken after the step."""
    whole, split, flag = tmp_path / "whole.itx", tmp_path / "split.itx", tmp_path / "flag"
    command = ["intarsia-compile", HERE / "decoders" / "llama", "--target=reference", "--kv=f32", "-o"]
    tools.run(*command, whole)
    tools.run(*command, split, "--world=2", "--partition=pipeline")
    expected = results_of(whole, flag)
    for results in run_ranks(__file__, split, flag, tmp_path / "results", 2):
        assert difference(results, expected) <= TOLERANCE


if __name__ == "__main__":
    artifact_path, flag_path, results_path = map(Path, sys.argv[1:])
    found = texts_of(artifact_path) if flag_path.name == "texts" else results_of(artifact_path, flag_path)
    np.savez(f"{results_path}.{RANK}", **found)
