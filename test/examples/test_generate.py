# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/c/generate.c compiles as its README says, and continues texts as PyTorch does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).resolve().parents[2]
GOLDENS = SOURCE / "test" / "EndToEnd" / "goldens"


def test_generate(tools, build_dir, tmp_path):
    program = tmp_path / "generate"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include", f"-L{build_dir}/lib"]
    command = ["clang-22", SOURCE / "examples/c/generate.c", *flags, "-lintarsia_runtime", "-o", program]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr

    tools.compile(SOURCE / "examples" / "glossary", "-o", tmp_path / "m.itx", "--kv=f32")
    with np.load(GOLDENS / "glossary.npz") as golden:
        prompts = [row[:length] for row, length in zip(golden["tokens"], golden["lengths"], strict=True)]
    greedy = json.loads((GOLDENS / "glossary.json").read_text())["greedy_ids"]
    # All prompts begin with the same token; after it they are of different lengths.
    first, second = prompts[0], next(prompt for prompt in prompts[1:] if len(prompt) != len(prompts[0]))
    number = next(i for i, prompt in enumerate(prompts) if prompt is second)
    assert first[0] == second[0]
    texts = [",".join(map(str, ids)) for ids in (first[:1], first[1:], second[1:])]

    def run(count: int, *ids: str) -> subprocess.CompletedProcess[str]:
        environment = {"LD_LIBRARY_PATH": f"{build_dir}/lib"}
        arguments = [program, tmp_path / "m.itx", str(count), *ids]
        return subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=60)

    result = run(40, *texts)
    assert result.returncode == 0, result.stderr
    rows = [[int(token) for token in line.split()] for line in result.stdout.splitlines()]
    assert rows == [list(pair) for pair in zip(greedy[0][:40], greedy[number][:40], strict=True)]
    assert "the cache takes " in result.stderr

    result = run(1, "0", "1", "4096")
    assert result.returncode == 1
    assert "error: " in result.stderr
    assert "'input_ids' is 4096 at [0] of chunk 1" in result.stderr
