# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.pool against its formula, in NumPy and double precision."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from random_numbers import normal
from reference import nearest


@dataclass(frozen=True)
class Pool:
    """What the attributes say of each spatial dimension."""

    kind: str
    size: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    beyond: tuple[int, ...] = ()
    flags: str = ""
    p: int = 2

    def entries(self, values: tuple[int, ...], otherwise: int) -> tuple[int, ...]:
        return values or (otherwise,) * len(self.size)

    @property
    def result(self) -> tuple[int, ...]:
        def of(d: int) -> int:
            extent = (self.window[d] - 1) * self.entries(self.dilations, 1)[d] + 1
            pads = self.entries(self.low, 0)[d] + self.entries(self.high, 0)[d] + self.entries(self.beyond, 0)[d]
            return (self.size[d] + pads - extent) // self.entries(self.strides, 1)[d] + 1

        return tuple(map(of, range(len(self.size))))

    def text(self) -> str:
        def array(name: str, values: tuple[int, ...]) -> list[str]:
            return [f"{name} = array<i64: {', '.join(map(str, values))}>"] if values else []

        parts = array("window", self.window) + array("strides", self.strides) + array("dilations", self.dilations)
        parts += array("pads_low", self.low) + array("pads_high", self.high) + array("beyond_high", self.beyond)
        parts += [self.flags] if self.flags else []
        parts += [f"p = {self.p}"] if self.p != 2 else []
        return f"nn.pool <{self.kind}>, {{0}} {{{{{', '.join(parts)}}}}} : {{types}}"

    def compute(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the result, and where the largest elements are."""
        y = np.zeros((x.shape[0], *self.result, x.shape[-1]))
        places = np.zeros(y.shape, np.int64)
        strides, dilations = self.entries(self.strides, 1), self.entries(self.dilations, 1)
        low, high = self.entries(self.low, 0), self.entries(self.high, 0)
        for o in itertools.product(*map(range, self.result)):
            inside, padded = [], 0
            for k in itertools.product(*map(range, self.window)):
                at = tuple(o[d] * strides[d] + k[d] * dilations[d] - low[d] for d in range(len(o)))
                if all(0 <= at[d] < self.size[d] for d in range(len(o))):
                    inside.append(at)
                padded += all(-low[d] <= at[d] < self.size[d] + high[d] for d in range(len(o)))
            values = np.stack([x[(slice(None), *at)].astype(float) for at in inside])
            here = (slice(None), *o)
            if self.kind == "max":
                y[here] = values.max(0)
                places[here] = np.array([np.ravel_multi_index(at, self.size) for at in inside])[values.argmax(0)]
            elif self.kind == "average":
                y[here] = values.sum(0) / (padded if "count" in self.flags else len(inside))
            else:
                y[here] = (np.abs(values) ** self.p).sum(0) ** (1 / self.p)
        return y, places


POOLS = {
    "max": Pool("max", (6, 7), (3, 2)),
    "max_pads": Pool("max", (7, 6), (3, 3), strides=(2, 2), low=(1, 1), high=(1, 2)),
    "max_dilations": Pool("max", (9,), (3,), strides=(2,), dilations=(2,), low=(1,), high=(1,)),
    "max_3d": Pool("max", (3, 4, 5), (2, 2, 2), strides=(1, 2, 3), low=(0, 1, 0), high=(1, 0, 1)),
    "average": Pool("average", (5, 6), (2, 3), strides=(2, 1)),
    "average_pads": Pool("average", (6, 6), (3, 3), strides=(2, 2), low=(1, 1), high=(1, 1)),
    "average_counted": Pool("average", (6, 6), (3, 3), low=(1, 1), high=(1, 0), flags="count_include_pad"),
    "average_ceil": Pool("average", (6,), (3,), strides=(2,), low=(1,), high=(1,), beyond=(1,), flags="count_include_pad"),
    "average_global": Pool("average", (3, 4), (3, 4)),
    "lp": Pool("lp", (5, 5), (2, 2), strides=(2, 2)),
    "lp_1": Pool("lp", (5,), (3,), low=(1,), high=(1,), p=1),
    "lp_3": Pool("lp", (5,), (3,), p=3),
}  # fmt: skip


@pytest.mark.parametrize("name", POOLS)
def test_pool(evaluate, name: str) -> None:
    pool = POOLS[name]
    x = normal(2, *pool.size, 3)
    nearest(evaluate(pool.text(), [x], (2, *pool.result, 3)), pool.compute(x)[0])


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_special_values(evaluate, value: float) -> None:
    x = np.full((1, 4, 2), value, np.float32)
    x[0, 2] = 1
    expected = np.float32(
        [[[value] * 2, [np.nan if np.isnan(value) else 1] * 2, [np.nan if np.isnan(value) else 1] * 2]]
    )
    np.testing.assert_array_equal(evaluate(Pool("max", (4,), (2,)).text(), [x], (1, 3, 2)), expected)
