# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What tests share does what they rely on."""

from __future__ import annotations

import pytest
from programs import in_turn
from random_numbers import RNG, seeded_by


def usual(parameters) -> set[tuple[object, ...]]:
    return {one.values for one in parameters if not one.marks}


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_cases_take_turns(count: int) -> None:
    """Each case meets both vendors, each architecture a case, and no pair is lost."""
    cases, architectures = list(range(count)), ["sm_80", "gfx942", "sm_90a", "gfx1100", "gfx1201"]
    parameters = in_turn(cases, architectures)
    assert {one.values for one in parameters} == {(case, one) for case in cases for one in architectures}
    assert {one for _, one in usual(parameters)} == set(architectures)
    for case in cases:
        assert {one[:2] for given, one in usual(parameters) if given == case} == {"sm", "gf"}
    assert len(usual(parameters)) == max(count, 2) + max(count, 3)


@pytest.fixture
def drawn() -> int:
    return int(RNG.integers(1 << 60))


def test_random_numbers_are_those_of_the_test(request: pytest.FixtureRequest, drawn: int) -> None:
    """They depend on the name of the test, not on what was drawn before, by fixtures for example."""
    numbers = [int(RNG.integers(1 << 60)) for _ in range(3)]
    with seeded_by(request.node.nodeid):
        assert [int(RNG.integers(1 << 60)) for _ in range(3)] == numbers
        with seeded_by("another"):
            assert int(RNG.integers(1 << 60)) not in numbers
    with seeded_by(f"{request.node.parent.nodeid}::drawn[0]"):
        assert int(RNG.integers(1 << 60)) == drawn
