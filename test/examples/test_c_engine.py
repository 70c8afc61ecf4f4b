# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/c/engine.c compiles as its README says, and continues texts together as PyTorch does one by one."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).resolve().parents[2]
GOLDENS = SOURCE / "test" / "EndToEnd" / "goldens"
END = 1


def test_engine(tools, build_dir, tmp_path):
    program = tmp_path / "engine"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include", f"-L{build_dir}/lib"]
    command = ["clang-22", SOURCE / "examples/c/engine.c", *flags, "-lintarsia_runtime", "-o", program]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr

    model = tools.artifact(SOURCE / "examples" / "glossary", "--kv=f32")
    with np.load(GOLDENS / "glossary.npz") as golden:
        prompts = [row[:length] for row, length in zip(golden["tokens"], golden["lengths"], strict=True)]
    greedy = json.loads((GOLDENS / "glossary.json").read_text())["greedy_ids"]

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        environment = {"LD_LIBRARY_PATH": f"{build_dir}/lib"}
        return subprocess.run(
            [program, model, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=60
        )

    result = run(END, 40, *(",".join(map(str, prompt)) for prompt in prompts), "4096")
    assert result.returncode == 0, result.stderr
    assert "prompt 7: " in result.stderr
    assert "4096" in result.stderr
    texts: dict[int, list[int]] = {}
    order = []
    for number, token, logprob in re.findall(r"(\d+) token (\d+) (\S+)\n", result.stdout):
        texts.setdefault(int(number), []).append(int(token))
        order.append(int(number))
        assert -20 < float(logprob) <= 0
    for number, ids in enumerate(greedy, 1):
        until = ids.index(END)
        assert texts[number] == ids[: min(until, 40)]
        assert f"{number} {'end' if until < 40 else 'length'} {len(texts[number])} \n" in result.stdout
    # They run together: the steps are about those of the longest text, not of all. On a busy machine steps pass before
    # all of them have come.
    steps, tokens = map(int, re.search(r"(\d+) steps for (\d+) tokens", result.stderr).groups())
    assert tokens >= sum(map(len, texts.values()))
    longest = max(map(len, texts.values()))
    assert steps <= longest + (tokens - longest) / 2
    assert sum(one != other for one, other in pairwise(order)) > len(order) // 2
