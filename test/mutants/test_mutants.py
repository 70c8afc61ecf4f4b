# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What mutants.py calls a crash is one, and its mutants are the same each time."""

from __future__ import annotations

import os
import random
import sys
from dataclasses import replace

import pytest
from mutations import join_safetensors, mutate_bytes, mutate_json, mutate_safetensors, mutate_text, split_safetensors
from outcomes import Limits, run
from sources import with_hash

LIMITS = Limits(cpu_seconds=1, memory_bytes=1 << 30)


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("pass", "taken"),
        ("sys.exit('error: it is wrong')", "refused"),
        ("sys.exit(2)", "no message"),
        ("os.kill(os.getpid(), 11)", "crash"),
        ("print('error: AddressSanitizer: heap-use-after-free'); sys.exit(1)", "crash"),
        ("1 // 0", "crash"),
        ("sys.exit(199)", "crash"),
        ("bytearray(1 << 34)", "memory"),
        ("any(iter(int, 1))", "hang"),
    ],
)
def test_outcomes(program, kind):
    command = [sys.executable, "-c", f"import os, sys, time; {program}"]
    assert run(command, LIMITS, dict(os.environ)).kind == kind


def test_a_program_that_waits_hangs():
    """It is ended though it takes no time of a processor."""
    command = [sys.executable, "-c", "import time; time.sleep(100)"]
    outcome = run(command, replace(LIMITS, wall_seconds=1), dict(os.environ))
    assert outcome.kind == "hang"
    assert outcome.seconds < LIMITS.cpu_seconds


def test_the_same_seed_makes_the_same_mutants():
    value = {"name": "x", "sizes": [1, 2, 3], "nested": {"flag": True, "rate": 0.5}}
    archive = join_safetensors({"a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}}, bytes(8))
    text = '%0 = nn.linear(%x, %w) {scale = 0.5 : f32} : (tensor<?x4xf32>) -> tensor<?x8xf32>\nreturn "x" 1\n'
    for mutate, whole in (
        (mutate_json, value),
        (mutate_text, text),
        (mutate_bytes, archive),
        (mutate_safetensors, archive),
    ):
        first, again = ([mutate(random.Random(i), whole) for i in range(200)] for _ in range(2))
        assert repr(first) == repr(again)
        assert sum(mutant != whole for mutant in first) > 150
    assert value["sizes"] == [1, 2, 3]
    assert split_safetensors(archive)[1] == bytes(8)


def test_hashes_are_made_right(glossary_artifact):
    artifact = glossary_artifact.read_bytes()
    assert with_hash(artifact) == artifact
    assert with_hash(artifact.replace(b'"producer"', b'"Producer"')) != artifact
