# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What bench/engines.py says of an engine, here of a model that computes nothing."""

from __future__ import annotations

import argparse
import dataclasses

import engines
import pytest
from intarsia.generation.engine import Engine, Mock

MODEL = Mock(vocabulary=256, page_tokens=16, step_seconds=0.0005)  # all requests are there before one has ended
OPTIONS = argparse.Namespace(pairs=1, requests=40)


def make(seed: int = 0, **options: object) -> Engine:
    options.pop("spill_memory", None)  # it has no state that could be moved
    return Engine(dataclasses.replace(MODEL, seed=seed), **options)


@pytest.fixture(scope="module")
def info():
    with make() as engine:
        return engine.info


@pytest.mark.parametrize("name", engines.MEASUREMENTS)
def test_texts_are_the_same(name, info):
    result = engines.MEASUREMENTS[name](make, info, OPTIONS)
    assert result["differ"] == 0
    assert "preemptions" in result["text"]


@pytest.mark.parametrize("name", engines.MEASUREMENTS)
def test_other_texts_are_counted(name, info):
    made = []

    def other(**options: object) -> Engine:
        made.append(make(len(made), **options))
        return made[-1]

    assert engines.MEASUREMENTS[name](other, info, OPTIONS)["differ"] > 0


def test_a_text_that_ends_early(info):
    from intarsia.generation.engine import Request

    with make() as engine, pytest.raises(RuntimeError, match="a text ended early: finish 4"):
        engines.run(engine, [Request([1], max_tokens=3000, deadline_seconds=1e-6)])
