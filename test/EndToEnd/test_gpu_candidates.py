# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nn.candidates on emulated GPUs, against NumPy in float64.

Sums of powers may be off by 1e-6 relatively: differences of logits are rounded to 2^-24 of their size, which counts as
much as powers of them do (x exp(-x) is at most 0.37), powers by 2 units of the last place, and sums in a tree of about
20 additions. Samplers allow for ten times as much (DEVICE_ERROR of python/intarsia/generation/sampling.py).
"""

from __future__ import annotations

import numpy as np
import pytest
from candidate_formulas import check, program, special_logits
from intarsia.generation.sampling import DEVICE_ERROR
from programs import SCHEDULES, build, in_turn, random_cases
from random_numbers import RNG
from test_candidates import temperatures_of

pytestmark = pytest.mark.cpu_only

TOLERANCE = 1e-6
assert TOLERANCE <= DEVICE_ERROR / 10


@pytest.mark.parametrize(
    ("vocabulary", "count", "temperatures", "architecture"),
    in_turn([(5000, 64, 2), (2049, 7, 1), (3, 3, 4)], ["sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100", "gfx1201"]),
)
def test_candidates(tools, tmp_path, architecture: str, vocabulary: int, count: int, temperatures: int) -> None:
    """Several parts of a row, of which the last has one logit, and a part that is nearly empty."""
    module = build(tools, tmp_path, program(vocabulary, count, temperatures), target=f"emulated:{architecture}")
    logits = special_logits(11, vocabulary, RNG)
    for rows in (11, 1):
        given = temperatures_of(rows, temperatures)
        check(module.main(logits[-rows:], given), logits[-rows:], given, TOLERANCE)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("architecture", ["sm_80", "gfx942"])
def test_large_vocabulary(tools, tmp_path, monkeypatch, architecture: str, schedule: str) -> None:
    """More parts than a block has warps; a missing barrier shows when warps run one after the other."""
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    vocabulary = 200_003
    module = build(tools, tmp_path, program(vocabulary, 64), target=f"emulated:{architecture}")
    logits = special_logits(9, vocabulary, RNG)
    rows = [0, SCHEDULES.index(schedule) + 1, 5 + SCHEDULES.index(schedule)]
    given = temperatures_of(len(rows))
    check(module.main(logits[rows], given), logits[rows], given, TOLERANCE)


def test_random_shapes(tools, tmp_path, monkeypatch) -> None:
    for number in random_cases(monkeypatch, usual=3):
        vocabulary = int(RNG.integers(1, 9000))
        count = int(RNG.integers(1, min(64, vocabulary) + 1))
        architecture = ("sm_80", "gfx90a", "gfx1100")[number % 3]
        module = build(tools, tmp_path / str(number), program(vocabulary, count), target=f"emulated:{architecture}")
        logits = (RNG.uniform(0.1, 20) * RNG.standard_normal((3, vocabulary))).astype(np.float32)
        given = temperatures_of(3)
        check(module.main(logits, given), logits, given, TOLERANCE)


def test_ascending_logits(tools, tmp_path) -> None:
    """Each part has larger logits than all before it."""
    module = build(tools, tmp_path, program(20_000, 64), target="emulated:sm_80")
    logits = np.stack([np.arange(20_000), -np.arange(20_000)]).astype(np.float32) / 64
    given = temperatures_of(2)
    check(module.main(logits, given), logits, given, TOLERANCE)


def test_one_result(tools, tmp_path) -> None:
    """A kernel that yields tokens alone stores no others."""
    text = program(3000, 1).replace(
        "return %v, %i, %s : tensor<?x1xf32>, tensor<?x1xi32>, tensor<?x2xf32>", "return %i : tensor<?x1xi32>"
    )
    begin, end = text.index("-> (tensor<?x1xf32>"), text.index(") {", text.index("-> (tensor<?x1xf32>"))
    text = text[:begin] + '-> (tensor<?x1xi32> {nn.name = "tokens"}' + text[end:]
    module = build(tools, tmp_path, text, target="emulated:sm_80")
    logits = special_logits(9, 3000, RNG)
    order = np.where(np.isnan(logits), np.inf, np.where(np.isposinf(logits), 1e30, logits))
    np.testing.assert_array_equal(module.main(logits, temperatures_of(9))[:, 0], order.argmax(axis=1))


def test_logits_that_the_kernel_computes(tools, tmp_path) -> None:
    text = program(3000, 8).replace(
        "%v, %i, %s = nn.candidates %l,",
        "%d = arith.addf %l, %l : tensor<?x3000xf32>\n        %v, %i, %s = nn.candidates %d,",
    )
    module = build(tools, tmp_path, text, target="emulated:gfx942")
    logits = special_logits(9, 3000, RNG)
    given = temperatures_of(9)
    check(module.main(logits, given), logits + logits, given, TOLERANCE)
