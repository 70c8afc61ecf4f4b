# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions and pools by the formulas of nn.conv and nn.pool, in NumPy and double precision."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Conv:
    """Channels, and what the attributes say of each spatial dimension."""

    size: tuple[int, ...]
    window: tuple[int, ...]
    channels: tuple[int, int] = (3, 4)
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    groups: int = 1
    transposed: bool = False
    output_pads: tuple[int, ...] = ()

    def entries(self, values: tuple[int, ...], otherwise: int) -> tuple[int, ...]:
        return values or (otherwise,) * len(self.size)

    @property
    def result(self) -> tuple[int, ...]:
        def of(d: int) -> int:
            stride, dilation = self.entries(self.strides, 1)[d], self.entries(self.dilations, 1)[d]
            extent = (self.window[d] - 1) * dilation + 1
            pads = self.entries(self.low, 0)[d] + self.entries(self.high, 0)[d]
            if self.transposed:
                return (self.size[d] - 1) * stride - pads + extent + self.entries(self.output_pads, 0)[d]
            return (self.size[d] + pads - extent) // stride + 1

        return tuple(map(of, range(len(self.size))))

    def attributes(self) -> str:
        def array(name: str, values: tuple[int, ...]) -> list[str]:
            return [f"{name} = array<i64: {', '.join(map(str, values))}>"] if values else []

        parts = array("window", self.window) + array("strides", self.strides) + array("dilations", self.dilations)
        parts += array("pads_low", self.low) + array("pads_high", self.high) + array("output_pads", self.output_pads)
        parts += [f"groups = {self.groups}"] if self.groups != 1 else []
        parts += ["transposed"] if self.transposed else []
        return "{" + ", ".join(parts) + "}"

    def compute(self, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        """Add up what each position of the window gives, by the formula of the op's description."""
        batch, out = x.shape[0], w.shape[0]
        inputs, outputs = x.shape[-1] // self.groups, out // self.groups
        y = np.zeros((batch, *self.result, out))
        weight = w.astype(float).reshape(out, *self.window, inputs)
        strides, dilations = self.entries(self.strides, 1), self.entries(self.dilations, 1)
        low = self.entries(self.low, 0)
        outer, inner = (self.size, self.result) if self.transposed else (self.result, self.size)
        for o in itertools.product(*map(range, outer)):
            for k in itertools.product(*map(range, self.window)):
                i = tuple(o[d] * strides[d] + k[d] * dilations[d] - low[d] for d in range(len(o)))
                if any(not 0 <= i[d] < inner[d] for d in range(len(o))):
                    continue
                read, written = (o, i) if self.transposed else (i, o)
                for group in range(self.groups):
                    columns = slice(group * outputs, (group + 1) * outputs)
                    channels = x[(slice(None), *read, slice(group * inputs, (group + 1) * inputs))].astype(float)
                    y[(slice(None), *written, columns)] += channels @ weight[(columns, *k)].T
        return y if bias is None else y + bias.astype(float)


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

    def attributes(self) -> str:
        def array(name: str, values: tuple[int, ...]) -> list[str]:
            return [f"{name} = array<i64: {', '.join(map(str, values))}>"] if values else []

        parts = array("window", self.window) + array("strides", self.strides) + array("dilations", self.dilations)
        parts += array("pads_low", self.low) + array("pads_high", self.high) + array("beyond_high", self.beyond)
        parts += [self.flags] if self.flags else []
        parts += [f"p = {self.p}"] if self.p != 2 else []
        return "{" + ", ".join(parts) + "}"

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
