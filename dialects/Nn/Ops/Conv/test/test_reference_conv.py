# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.conv against its formula, in NumPy and double precision."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from random_numbers import normal
from reference import nearest


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
        return "{{" + ", ".join(parts) + "}}"

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


CONVS = {
    "1d": Conv((9,), (3,)),
    "1d_all": Conv((11,), (3,), strides=(2,), dilations=(2,), low=(1,), high=(3,)),
    "2d": Conv((5, 6), (3, 2)),
    "pads": Conv((5, 6), (3, 3), low=(1, 0), high=(2, 1)),
    "strides": Conv((7, 8), (3, 3), strides=(2, 3), low=(1, 1), high=(1, 1)),
    "dilations": Conv((9, 9), (3, 3), dilations=(2, 3), low=(2, 3), high=(2, 3)),
    "groups": Conv((4, 5), (3, 3), channels=(6, 4), groups=2, low=(1, 1), high=(1, 1)),
    "depthwise": Conv((6, 5), (3, 3), channels=(4, 4), groups=4, strides=(2, 1)),
    "multiplier": Conv((4, 4), (2, 2), channels=(3, 6), groups=3),
    "3d": Conv((4, 5, 3), (2, 3, 2), strides=(1, 2, 1), low=(0, 1, 1), high=(1, 1, 0)),
    "point": Conv((1, 1), (1, 1)),
    "window_in_pads": Conv((1, 1), (3, 3), low=(3, 3), high=(3, 3)),
    "transposed": Conv((3, 4), (3, 2), transposed=True),
    "transposed_strides": Conv((3, 4), (3, 3), strides=(2, 3), transposed=True, low=(1, 1), high=(1, 0)),
    "transposed_all": Conv(
        (3, 2), (3, 2), channels=(4, 6), groups=2, strides=(3, 2), dilations=(2, 3), low=(1, 0), high=(0, 2),
        transposed=True, output_pads=(2, 1),
    ),
    "transposed_1d": Conv((5,), (4,), strides=(2,), low=(1,), high=(1,), transposed=True),
}  # fmt: skip


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("name", CONVS)
def test_conv(evaluate, name: str, bias: bool) -> None:
    conv = CONVS[name]
    x = normal(2, *conv.size, conv.channels[0])
    w = normal(conv.channels[1], int(np.prod(conv.window)) * conv.channels[0] // conv.groups)
    arrays = [x, w] + ([normal(conv.channels[1])] if bias else [])
    text = "nn.conv " + ", ".join(f"{{{i}}}" for i in range(len(arrays))) + f" {conv.attributes()} : {{types}}"
    nearest(evaluate(text, arrays, (2, *conv.result, conv.channels[1])), conv.compute(*arrays))
