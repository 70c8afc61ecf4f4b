# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels hold their emitters instead of inheriting them (decision 117)."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from emitters import TARGETS, Class, depth_of, measure, methods_of, reachable  # noqa: E402

DEEPEST, MOST_METHODS = 4, 80


@pytest.mark.parametrize("target", TARGETS)
def test_depth_and_methods(target):
    rows = measure(target)
    deep = [f"{name} stands on {depth - 1} classes" for name, depth, _ in rows if depth > DEEPEST]
    large = [f"a line of {name} can name {methods} methods" for name, _, methods in rows if methods > MOST_METHODS]
    assert not deep + large, "\n".join(deep + large)
    assert any(name == "LinearKernel" or name == "TiledLinear" for name, _, _ in rows), "classes were not found"


def test_methods_are_counted():
    body = """
public:
  Tiles(int64_t rows, Loops &loops) : rows(rows), loops{loops} { check(rows); }
  mlir::Value at(mlir::Value row, function_ref<void(Value)> use = nullptr);
  template <typename Fn> Outcome<Fn, Value> each(Fn body) { return loops.each(body); }
  std::function<Value(Value sum, Value row)> scaled = [](Value sum, Value) { return sum; };
  struct Place { Value stage; int64_t next() const; };
  MemoryEmitter memory{loops};
  int64_t rows = count(3);
"""
    assert methods_of(body) == ["Tiles", "at", "each"]
    classes = {"Loops": Class([], ["add", "mul"]), "Tiles": Class(["Loops"], ["at"])}
    assert depth_of("Tiles", classes) == 2
    assert reachable("Tiles", classes) == 3
