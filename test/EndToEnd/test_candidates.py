# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nn.candidates through the whole compiler, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from candidate_formulas import check, program, special_logits
from programs import build
from random_numbers import RNG


def temperatures_of(rows: int, count: int = 2) -> np.ndarray:
    return RNG.uniform(0.3, 3, (rows, count)).astype(np.float32)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3", "cpu:x86-64-v2", "reference"])
@pytest.mark.parametrize(("vocabulary", "count", "temperatures"), [(1000, 64, 2), (517, 17, 1), (3, 3, 4), (256, 5, 2)])
def test_candidates(tools, tmp_path, target: str, vocabulary: int, count: int, temperatures: int) -> None:
    module = build(tools, tmp_path, program(vocabulary, count, temperatures), target=target)
    logits = special_logits(11, vocabulary, RNG)
    for rows in (11, 1):
        given = temperatures_of(rows, temperatures)
        # Differences of logits are up to 40, rounded to 2^-20 of one and divided by 0.3; sums are of f32.
        check(module.main(logits[-rows:], given), logits[-rows:], given, 5e-6)


def test_large_vocabulary(tools, tmp_path) -> None:
    """More than 500 blocks of logits, the last of which is not full."""
    module = build(tools, tmp_path, program(131_075, 64))
    logits = special_logits(10, 131_075, RNG)
    given = temperatures_of(10)
    # Each of 64 sums adds up 2,048 powers one after the other.
    check(module.main(logits, given), logits, given, 2e-5)


def test_logits_that_the_kernel_computes(tools, tmp_path) -> None:
    """The op reads what elementwise ops in front of it compute."""
    text = program(1000, 8).replace(
        "%v, %i, %s = nn.candidates %l,",
        "%d = arith.addf %l, %l : tensor<?x1000xf32>\n        %v, %i, %s = nn.candidates %d,",
    )
    module = build(tools, tmp_path, text)
    logits = special_logits(9, 1000, RNG)
    given = temperatures_of(9)
    check(module.main(logits, given), logits + logits, given, 5e-6)
