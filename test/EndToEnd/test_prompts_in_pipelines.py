# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stages of a pipeline compute different parts of a prompt at the same time, and give what one process gives.

As a program it is a rank: test_prompts_in_pipelines.py ARTIFACT FLAG RESULTS. The first rank makes the flag, a file, after
its part of a prompt without results, and the ranks of the last stage wait for it before they begin.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import intarsia
import numpy as np
import pytest
from ranks import run_ranks, start_ranks
from test_split_models import HERE, TOLERANCE, difference

TOKENS, DECODED = 54, 8
WAIT_S = 60


def results_of(artifact: Path, flag: Path | None = None) -> dict[str, np.ndarray]:
    """Return the logits after a prompt that is given in parts, and after each of some tokens."""
    rank = int(os.environ.get("ITX_WORLD_RANK", "0"))
    waits = 2 * rank >= int(os.environ.get("ITX_WORLD_SIZE", "0"))
    module = intarsia.load(artifact)
    cache = intarsia.Cache(module, pages=1 if os.environ.get("TEST_SHORT_RANK") == str(rank) else 0)
    sequence = cache.sequence()
    ids = [int(id) for id in np.random.default_rng(4).integers(5, 90, TOKENS)]
    part = cache.prefill_tokens(len(ids))
    if flag and waits:
        end = time.monotonic() + WAIT_S
        while not flag.exists():
            assert time.monotonic() < end, "the first rank waits for results that it does not want"
            time.sleep(0.01)
    logits = []
    for begin in range(0, len(ids), part):
        is_last = begin + part >= len(ids)
        rows = cache.step([(sequence, ids[begin : begin + part], int(is_last))])
        assert (rows is not None and len(rows)) == is_last
        if flag and rank == 0 and begin == 0:
            flag.touch()
    logits.append(rows)
    for _ in range(DECODED):
        logits.append(cache.step([(sequence, [int(logits[-1].argmax())], 1)]))
    return {"logits": np.concatenate(logits), "part": np.array(part)}


@pytest.mark.parametrize(
    ("name", "partition", "world", "hosts"),
    [
        ("llama", "pipeline", 2, ""),
        ("qwen3", "pipeline", 3, "aab"),
        ("mixtral", "pipeline:2,tensor:2", 4, ""),
        ("gemma3", "pipeline", 2, "ab"),
    ],
)
def test_parts_of_a_prompt(tools, name: str, partition: str, world: int, hosts: str, tmp_path: Path) -> None:
    model = HERE / "decoders" / name
    whole, split = tools.artifact(model, "--kv=f32"), tmp_path / "split.itx"
    tools.run("intarsia-compile", model, "-o", split, "--kv=f32", f"--world={world}", f"--partition={partition}")
    expected = results_of(whole)
    assert expected["part"] == 512
    flag = tmp_path / "flag"
    for results in run_ranks(__file__, split, flag, tmp_path / "results", world, hosts):
        assert results["part"] == 16
        assert difference(results, {"logits": expected["logits"]}) <= TOLERANCE
    assert flag.exists()


def test_a_rank_that_fails_in_a_part(tools, tmp_path: Path) -> None:
    """Other stages have gone on to later parts: the world ends, and nobody waits for the deadline."""
    split = tmp_path / "split.itx"
    model = HERE / "decoders" / "llama"
    tools.run("intarsia-compile", model, "-o", split, "--kv=f32", "--world=2", "--partition=pipeline")
    command = [__file__, split, tmp_path / "flag", tmp_path / "results"]
    for rank in start_ranks(command, 2, tmp_path, TEST_SHORT_RANK="1"):
        assert "the cache is full: 1 more pages" in rank.communicate(timeout=30)[1]
        assert rank.returncode != 0


def test_command_line(tools, tmp_path: Path) -> None:
    model = HERE / "decoders" / "llama"
    whole, split = tools.artifact(model, "--kv=f32"), tmp_path / "split.itx"
    tools.run("intarsia-compile", model, "-o", split, "--kv=f32", "--world=2", "--partition=pipeline")
    ids = ",".join(str(id) for id in np.random.default_rng(4).integers(5, 90, TOKENS))
    expected = tools.run("intarsia-run", whole, f"--ids={ids}", "--max-tokens=8").stdout
    done = tools.run("intarsia-run", split, "--world=2", f"--ids={ids}", "--max-tokens=8")
    assert done.stdout == expected
    assert len(expected.split()) == 8


if __name__ == "__main__":
    artifact_path, flag_path, results_path = map(Path, sys.argv[1:])
    np.savez(f"{results_path}.{os.environ['ITX_WORLD_RANK']}", **results_of(artifact_path, flag_path))
