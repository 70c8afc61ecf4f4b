# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The worker of language models, asked as the harness asks it."""

from __future__ import annotations

import sys
from pathlib import Path

import intarsia
import language_model_worker
import numpy as np
import pytest
from harness.workers import Worker, WorkerError

TOKENS = 20


def prompt(sequence: int, length: int) -> list[int]:
    """What bench/language_model_worker.py computes: the prompt, then a token after the other."""
    return [(7 * i + sequence) % 1000 + 3 for i in range(length)]


def start(artifact: Path, build: Path, log: Path, task: str, batch: int) -> Worker:
    command = [sys.executable, language_model_worker.__file__, "intarsia", artifact, task]
    command += [f"--tokens={TOKENS}", f"--batch={batch}", "--threads=1"]
    return Worker("ours", command, log, 1, {"PYTHONPATH": str(build / "python")})


@pytest.mark.parametrize(("task", "calls", "length"), [("prefill", 3, TOKENS), ("decode", 5, TOKENS + 6)])
def test_computes_what_it_is_timed_for(glossary_artifact, build_dir, tmp_path, task, calls, length):
    generator = intarsia.Generator(glossary_artifact)
    with start(glossary_artifact, build_dir, tmp_path / "log", task, 2) as worker:
        # One call came before the first line; the one that warms up is not in the answer.
        times = worker.time(calls - 1, 1)
        worker.save(tmp_path / "logits")
    assert len(times) == calls - 1
    assert min(times) > 0
    logits = np.fromfile(tmp_path / "logits", "<f4").reshape(2, generator.vocabulary)
    expected = generator.logits([prompt(sequence, length) for sequence in range(2)])
    np.testing.assert_allclose(logits, [rows[-1] for rows in expected], atol=1e-3)


def test_what_it_does_not_know(glossary_artifact, build_dir, tmp_path):
    with (
        start(glossary_artifact, build_dir, tmp_path / "log", "prefill", 1) as worker,
        pytest.raises(WorkerError, match="unknown command 'dance'"),
    ):
        worker._ask("dance")
