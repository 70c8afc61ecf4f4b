# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions of integers of 8 bits through the whole compiler, against their formula.

Inputs and weights are integers times powers of two, which quantization leaves as they are, so that results are exact:
sums stay below 2^24. Sizes leave remainders of register tiles, panels and vectors on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from programs import build, random_cases, with_threads
from random_numbers import RNG
from windows import Conv

pytestmark = pytest.mark.cpu_only

TARGETS = ["cpu", "cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:x86-64-v2", "reference"]
#: What an element of the input is a multiple of, and one of the weight.
UNIT, WEIGHT_UNIT = 2.0**-3, 2.0**-5


@dataclass(frozen=True)
class Program:
    """A convolution whose operands are quantized."""

    conv: Conv
    block: int | None = None  # channels that share a scale of the input, 0: all of a position; None: scales are known
    batch: int = 2
    dynamic: bool = False  # the sizes of the image are not known to the compiler
    residual: bool = False  # and a relu behind it
    parts: bool = False  # the result is the greater one of the halves of its channels, a relu of the first
    bytes: bool = False  # the result is multiplied again: by a linear that gives its integers
    shared: bool = False  # and added to what comes out, as floats or as the numbers that its integers stand for
    stored: str = "f32"  # the scales of the weight

    @property
    def depth(self) -> int:
        return int(np.prod(self.conv.window)) * self.conv.channels[0]

    def image(self, sizes: tuple[int, ...], channels: int, element: str = "f32") -> str:
        known = ["?" if self.dynamic else str(size) for size in (self.batch, *sizes)]
        return f"tensor<{'x'.join(known)}x{channels}x{element}>"

    def quantized(
        self, value: str, result: str, sizes: tuple[int, ...], channels: int, factors: str, replaces: str = ""
    ) -> str:
        """Return the ops that quantize and dequantize an image."""
        block = self.block or 0
        axis = len(sizes) + 1
        x, q = self.image(sizes, channels), self.image(sizes, channels, "i8")
        s = self.image(sizes, -(-channels // block) if block else 1)
        form = f"#nn.block_format<i8, f32, {block}, axis = {axis}>"
        unit, types = (", unit_scale", f"{x}, tensor<{channels}xf32>") if self.block is None else ("", x)
        given = f"{value} factors {factors}" if self.block is None else value
        return f"""{result}_q, {result}_s = nn.quantize {given} {{format = {form}{unit}{replaces}}} : ({types}) -> ({q}, {s})
          {result} = nn.dequantize {result}_q, {result}_s {{format = {form}}} : ({q}, {s}) -> {x}"""

    def factors(self) -> np.ndarray:
        """Return what the integers of the result stand for, in units."""
        return np.where(np.arange(self.conv.channels[1]) % 3, 64, 32)

    @staticmethod
    def weight(name: str, key: str, out: int, depth: int, scale: str) -> str:
        form, w = f"#nn.block_format<i8, {scale}, 0, axis = 1>", f"tensor<{out}x{depth}xf32>"
        q, s = f"tensor<{out}x{depth}xi8>", f"tensor<{out}x1x{scale}>"
        return f"""%{name}_w = nn.weight @weights["{key}"] : {w}
          %{name}_q, %{name}_s = nn.quantize %{name}_w {{format = {form}}} : ({w}) -> ({q}, {s})
          %{name} = nn.dequantize %{name}_q, %{name}_s {{format = {form}}} : ({q}, {s}) -> {w}"""

    def function(self, name: str) -> str:
        conv, (channels, out) = self.conv, self.conv.channels

        def argument(value: str, sizes: tuple[int, ...], count: int) -> str:
            named = ", ".join(f'"{value}{d}"' for d in range(len(sizes)))
            names = f', nn.sizes = ["batch", {named}, ""]' if self.dynamic else ""
            return f'%{value}: {self.image(sizes, count)} {{nn.name = "{value}"{names}}}'

        x, y = self.image(conv.size, channels), self.image(conv.result, out)
        arguments = [argument("x", conv.size, channels)]
        lines = [
            f"%f = arith.constant dense<{1 / UNIT}> : tensor<{channels}xf32>",
            self.quantized("%x", "%i", conv.size, channels, "%f"),
            self.weight("w", f"{name}.w", out, self.depth, self.stored),
            f'%b = nn.weight @weights["{name}.b"] : tensor<{out}xf32>',
            f"%c = nn.conv %i, %w, %b {conv.attributes()} : ({x}, tensor<{out}x{self.depth}xf32>, "
            f"tensor<{out}xf32>) -> {y}",
        ]
        result = "%c"
        if self.residual:
            arguments.append(argument("r", conv.result, out))
            lines += [f"%a = arith.addf %c, %r : {y}", f"%y = nn.relu %a : {y}"]
            result = "%y"
        if self.parts:
            half, sizes = self.image(conv.result, out // 2), [self.batch, *conv.result, out // 2]
            for part, begin in (("l", 0), ("h", out // 2)):
                offsets, ones = [0] * (len(sizes) - 1) + [begin], [1] * len(sizes)
                lines.append(f"%{part} = tensor.extract_slice {result}{offsets}{sizes}{ones} : {y} to {half}")
            lines += [f"%p = nn.relu %l : {half}", f"%m = arith.maximumf %p, %h : {half}"]
            result, y = "%m", half
        if self.bytes:
            factors = ", ".join(str(1 / UNIT / factor) for factor in self.factors())
            lines += [
                f"%g = arith.constant dense<[{factors}]> : tensor<{out}xf32>",
                self.quantized(result, "%j", conv.result, out, "%g", ", nn.replaces_input" if self.shared else ""),
                self.weight("v", f"{name}.v", out, out, "f32"),
                f"%z = nn.linear %j, %v : ({y}, tensor<{out}x{out}xf32>) -> {y}",
            ]
            if self.shared:
                lines += [
                    f"%h = arith.constant dense<{1 / 127}> : tensor<{out}xf32>",
                    self.quantized("%z", "%k", conv.result, out, "%h"),
                    f"%n = nn.linear %k, %v : ({y}, tensor<{out}x{out}xf32>) -> {y}",
                    f"%t = arith.addf %n, {result} : {y}",
                ]
            result = "%t" if self.shared else "%z"
        body = "\n          ".join(lines)
        return f"""func.func @{name}({", ".join(arguments)}) -> ({y} {{nn.name = "y"}}) {{
          {body}
          return {result} : {y} }}
        """

    def weights(self, name: str) -> dict[str, np.ndarray]:
        out = self.conv.channels[1]

        def matrix(depth: int) -> np.ndarray:
            integers = RNG.integers(-127, 128, (out, depth))
            integers[:, RNG.integers(depth)] = 127  # which makes the scale WEIGHT_UNIT
            return (integers * WEIGHT_UNIT).astype(np.float32)

        bias = (RNG.integers(-500, 500, out) * UNIT * WEIGHT_UNIT).astype(np.float32)
        weights = {f"{name}.w": matrix(self.depth), f"{name}.b": bias}
        # The identity: what comes out are the integers of the result, times 127.
        return weights | ({f"{name}.v": np.eye(out, dtype=np.float32) * 127} if self.bytes else {})

    def input(self) -> np.ndarray:
        integers = RNG.integers(-127, 128, (self.batch, *self.conv.size, self.conv.channels[0]))
        if self.block is None:
            integers = RNG.integers(-160, 161, integers.shape)  # what is beyond is clipped
        elif self.conv.channels[0]:
            integers[..., :: self.block or integers.shape[-1]] = -127  # which makes the scale UNIT
        return (integers * UNIT).astype(np.float32)

    def check(self, module, name: str, weights: dict[str, np.ndarray], target: str = "cpu") -> None:
        x = self.input()
        inputs = [x]
        # With known scales integers stand for themselves: factors are left to the weights.
        read = np.clip(x / UNIT, -128, 127) if self.block is None else x
        expected = self.conv.compute(read, weights[f"{name}.w"], weights[f"{name}.b"])
        if self.residual:
            inputs.append((RNG.integers(-5000, 5000, expected.shape) * UNIT * WEIGHT_UNIT).astype(np.float32))
            expected = np.maximum(expected + inputs[1], 0)
        if self.parts:
            low, high = np.split(expected, 2, axis=-1)
            expected = np.maximum(np.maximum(low, 0), high)
        if self.bytes:
            factors = self.factors() * UNIT
            integers = np.clip(np.rint(expected / factors), -128, 127)
            # The reference reads the result as it is.
            residual = expected if target == "reference" else integers * factors
            expected = integers * 127 + (residual if self.shared else 0)
        assert np.abs(expected).max(initial=0) < 2**24 * UNIT * WEIGHT_UNIT
        np.testing.assert_array_equal(getattr(module, name)(*inputs), expected.astype(np.float32))


PADS = {"low": (1, 1), "high": (1, 1)}
PROGRAMS = {
    "known": Program(Conv((9, 11), (3, 3), channels=(32, 70), **PADS), residual=True),
    "wide": Program(Conv((9, 11), (3, 3), channels=(32, 33), **PADS), block=256, residual=True),
    "two_blocks": Program(Conv((5, 6), (2, 3), channels=(288, 40), low=(1, 0), high=(0, 1)), block=256),
    "positions": Program(Conv((6, 7), (3, 3), channels=(64, 32)), block=0),
    "words": Program(Conv((7, 9), (3, 3), channels=(12, 36), **PADS)),
    "words_wide": Program(Conv((7, 9), (3, 2), channels=(20, 36), strides=(2, 1), **PADS), block=256),
    "strides": Program(Conv((12, 9), (3, 3), channels=(64, 32), strides=(2, 2), **PADS), stored="f16"),
    "points": Program(Conv((9, 7), (1, 1), channels=(96, 40), strides=(2, 2))),
    "dilations": Program(Conv((13, 12), (3, 3), channels=(32, 20), dilations=(2, 3), low=(2, 3), high=(0, 4))),
    "dynamic": Program(Conv((10, 21), (3, 2), channels=(32, 36), low=(2, 0), high=(0, 1)), dynamic=True, residual=True),
    "dynamic_wide": Program(Conv((10, 9), (3, 3), channels=(64, 36), strides=(3, 2)), block=256, dynamic=True),
    "passed": Program(Conv((6, 7), (3, 3), channels=(32, 64), **PADS), residual=True, bytes=True),
    "shared": Program(
        Conv((6, 7), (3, 3), channels=(32, 64), **PADS), residual=True, bytes=True, shared=True, dynamic=True
    ),
    "parts": Program(Conv((6, 7), (3, 3), channels=(32, 128), **PADS), parts=True),
    "speech": Program(Conv((75,), (5,), channels=(32, 40), strides=(2,), low=(4,), high=(0,)), block=256),
    "column": Program(Conv((21, 1), (3, 1), channels=(32, 36), strides=(2, 1), low=(1, 0), high=(1, 0)), residual=True),
    "volume": Program(Conv((4, 6, 5), (2, 3, 3), channels=(32, 33), strides=(1, 2, 1), low=(1, 1, 1), high=(0, 1, 1))),
    "in_pads": Program(Conv((1, 2), (3, 3), channels=(32, 5), low=(3, 3), high=(3, 3)), batch=1),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_byte_convolutions(tools, tmp_path, target: str) -> None:
    weights = {key: value for name, program in PROGRAMS.items() for key, value in program.weights(name).items()}
    text = "".join(program.function(name) for name, program in PROGRAMS.items())
    module = build(tools, tmp_path, text, weights, target)
    for name, program in PROGRAMS.items():
        program.check(module, name, weights, target)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v2", "reference", "emulated:sm_90a", "emulated:gfx942"])
def test_inputs_that_are_dequantized(tools, tmp_path, target: str) -> None:
    """By a convolution of floats, whose weight is an argument or in groups, and by one that is spread."""
    text, convs = "", {}
    form = "#nn.block_format<i8, f32, 0, axis = 3>"
    for name, more in (
        ("plain", {}),
        ("groups", {"groups": 4}),
        ("transposed", {"transposed": True, "strides": (2, 2)}),
    ):
        conv = convs[name] = Conv((6, 7), (3, 3), channels=(16, 36), low=(1, 1), high=(1, 1), **more)
        q, s, x = (f"tensor<2x6x7x{kind}>" for kind in ("16xi8", "1xf32", "16xf32"))
        w, y = f"tensor<36x{9 * 16 // conv.groups}xf32>", f"tensor<2x{'x'.join(map(str, conv.result))}x36xf32>"
        text += f"""func.func @{name}(%q: {q} {{nn.name = "q"}}, %s: {s} {{nn.name = "s"}}, %w: {w} {{nn.name = "w"}}) -> {y} {{
          %x = nn.dequantize %q, %s {{format = {form}}} : ({q}, {s}) -> {x}
          %y = nn.conv %x, %w {conv.attributes()} : ({x}, {w}) -> {y}
          return %y : {y} }}
        """
    module = build(tools, tmp_path, text, target=target)
    for name, conv in convs.items():
        q, s = (
            RNG.integers(-127, 128, (2, 6, 7, 16), np.int8),
            2.0 ** RNG.integers(-4, 1, (2, 6, 7, 1)).astype(np.float32),
        )
        w = RNG.integers(-8, 9, (36, 9 * 16 // conv.groups)).astype(np.float32)
        np.testing.assert_array_equal(getattr(module, name)(q, s, w), conv.compute(q * s, w))


@pytest.mark.parametrize("target", [*TARGETS, "emulated:sm_90a", "emulated:gfx942"])
def test_random_byte_convolutions(tools, tmp_path, monkeypatch, target: str) -> None:
    def some(choices: list[int], count: int = 1) -> tuple[int, ...]:
        return tuple(int(each) for each in RNG.choice(choices, count))

    def some_program() -> Program:
        while True:
            spatial = int(RNG.integers(1, 4))
            conv = Conv(
                some([1, *range(5, [40, 14, 9][spatial - 1])], spatial), some([1, 2, 3], spatial),
                some([4, 24, 32, 64, 260]) + some([1, 12, 33, 64]), some([1, 2, 3], spatial), some([1, 1, 2], spatial),
                some([0, 1, 2], spatial), some([0, 1, 2], spatial),
            )  # fmt: skip
            if min(conv.result) >= 1:
                break
        block, dynamic = [None, 0, 256][int(RNG.integers(3))], bool(RNG.integers(2))
        batch = some([1, 2] if dynamic else [0, 1, 2])[0]
        return Program(
            conv, block, batch, dynamic, residual=bool(RNG.integers(2)), stored=["f32", "f16"][some([0, 1])[0]]
        )

    numbers = list(random_cases(monkeypatch, usual=3))
    for begin in range(0, len(numbers), 10):
        programs = {f"f{number}": some_program() for number in numbers[begin : begin + 10]}
        weights = {key: value for name, program in programs.items() for key, value in program.weights(name).items()}
        text = "".join(program.function(name) for name, program in programs.items())
        module = build(tools, tmp_path / str(begin), text, weights, target)
        for name, program in programs.items():
            try:
                with with_threads(int(RNG.integers(1, 5))):
                    program.check(module, name, weights, target)
            except Exception as error:
                raise AssertionError(f"of {program}") from error
