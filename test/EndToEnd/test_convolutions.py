# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions and pools through the whole compiler, on processors, the reference and GPUs, against their formulas.

Sizes leave remainders of register tiles, panels and vectors on purpose, and of blocks of rows and columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import intarsia
import ml_dtypes
import numpy as np
import pytest
from op_cases import chance, pick
from programs import build, close, one_of_each_vendor, random_cases, with_threads
from random_numbers import RNG, normal
from windows import Conv, Pool

pytestmark = pytest.mark.cpu_only

TARGETS = ["cpu", "cpu:x86-64-v3", "cpu:x86-64-v2", "reference"]
#: Element types, and half of the distance between two numbers around 1.
ELEMENTS = {"f32": (np.float32, 2.0**-24), "f16": (np.float16, 2.0**-11), "bf16": (ml_dtypes.bfloat16, 2.0**-8)}


@dataclass(frozen=True)
class Program:
    """A convolution, and how its operands come to it."""

    conv: Conv
    batch: int = 2
    bias: bool = True
    dynamic: bool = False  # the sizes of the image are not known to the compiler
    argument: bool = False  # the weight is one, and not packed at compile time
    narrow: bool = False  # the weight is stored in bf16
    residual: bool = False  # and a relu behind it
    picture: bool = False  # the channels of the input come first, and are moved
    parts: str = ""  # halves of the channels are results: each by "itself", or both read by one op, "together"
    element: str = "f32"  # of all tensors

    def function(self, name: str) -> str:
        conv = self.conv
        out, depth = conv.channels[1], int(np.prod(conv.window)) * conv.channels[0] // conv.groups

        def image(sizes: tuple[int, ...], channels: int) -> str:
            known = ["?" if self.dynamic else str(size) for size in (self.batch, *sizes)]
            return f"tensor<{'x'.join(known)}x{channels}xf32>"

        def argument(value: str, sizes: tuple[int, ...], channels: int) -> str:
            named = ", ".join(f'"{value}{d}"' for d in range(len(sizes)))
            names = f', nn.sizes = ["batch", {named}, ""]' if self.dynamic else ""
            return f'%{value}: {image(sizes, channels)} {{nn.name = "{value}"{names}}}'

        x, y = image(conv.size, conv.channels[0]), image(conv.result, out)
        w, b = f"tensor<{out}x{depth}x{'bf16' if self.narrow else 'f32'}>", f"tensor<{out}xf32>"
        arguments = [argument("x", conv.size, conv.channels[0])]
        lines = []
        if self.picture:
            first = f"tensor<{self.batch}x{conv.channels[0]}x{'x'.join(map(str, conv.size))}xf32>"
            arguments[0] = f'%p: {first} {{nn.name = "x"}}'
            order = [0, *range(2, len(conv.size) + 2), 1]
            lines += [
                f"%e = tensor.empty() : {x}",
                f"%x = linalg.transpose ins(%p : {first}) outs(%e : {x}) permutation = {order}",
            ]
        if self.argument:
            arguments.append(f'%w: {w} {{nn.name = "w"}}')
        else:
            lines.append(f'%w = nn.weight @weights["{name}.w"] : {w}')
        if self.bias:
            lines.append(f'%b = nn.weight @weights["{name}.b"] : {b}')
        operands, types = ("%x, %w, %b", f"{x}, {w}, {b}") if self.bias else ("%x, %w", f"{x}, {w}")
        lines.append(f"%c = nn.conv {operands} {conv.attributes()} : ({types}) -> {y}")
        result = "%c"
        if self.residual:
            arguments.append(argument("r", conv.result, out))
            lines += [f"%s = arith.addf %c, %r : {y}", f"%y = nn.relu %s : {y}"]
            result = "%y"
        results, types = result, y
        if self.parts:
            types = image(conv.result, out // 2)
            sizes = [self.batch, *conv.result, out // 2]
            for part, begin in (("low", 0), ("high", out // 2)):
                offsets, ones = [0] * (len(sizes) - 1) + [begin], [1] * len(sizes)
                lines.append(f"%{part} = tensor.extract_slice {result}{offsets}{sizes}{ones} : {y} to {types}")
            lines.append(f"%gate = nn.relu %low : {types}")
            results = "%gate, %high"
        if self.parts == "together":
            lines.append(f"%m = arith.mulf %gate, %high : {types}")
            results = "%m"
        names = ", ".join(f'{types} {{nn.name = "y{i}"}}' for i in range(results.count(",") + 1))
        body = "\n          ".join(lines)
        text = f"""func.func @{name}({", ".join(arguments)}) -> ({names}) {{
          {body}
          return {results} : {", ".join([types] * (results.count(",") + 1))} }}
        """
        return text.replace("f32>", f"{self.element}>")

    def check(self, module, name: str, weights: dict[str, np.ndarray]) -> None:
        conv = self.conv
        x = normal(self.batch, *conv.size, conv.channels[0]).astype(ELEMENTS[self.element][0])
        w, b = weights[f"{name}.w"], weights.get(f"{name}.b")
        inputs = [np.moveaxis(x, -1, 1) if self.picture else x] + ([w] if self.argument else [])
        expected = conv.compute(x, w, b)
        rounded = np.abs(expected).max(initial=0)
        if self.residual:
            r = normal(*expected.shape).astype(x.dtype)
            inputs.append(r)
            expected = np.maximum(expected + r.astype(float), 0)
        magnitudes = conv.compute(np.abs(x.astype(float)), np.abs(w.astype(float)))
        roundings = int(np.prod(conv.window)) * conv.channels[0] // conv.groups + 8
        # Of sums of so many products, as matmul_error; of the long ones only the root remains (Higham, section 2.8).
        error = 2.0**-24 * 4 * roundings**0.5 * magnitudes.max(initial=0)
        # The result of the convolution may be rounded, and that of the sum is.
        error += ELEMENTS[self.element][1] * (rounded + np.abs(expected).max(initial=0))
        result = getattr(module, name)(*inputs)
        if not self.parts:
            close(result, expected, error)
            return
        gate, other = np.split(expected, 2, axis=-1)
        gate = np.maximum(gate, 0)
        if self.parts == "together":
            close(result, gate * other, error * 2 * np.abs(expected).max())
        else:
            close(result[0], gate, error)
            close(result[1], other, error)

    def weights(self, name: str) -> dict[str, np.ndarray]:
        out, dtype = self.conv.channels[1], ELEMENTS[self.element][0]
        w = normal(out, int(np.prod(self.conv.window)) * self.conv.channels[0] // self.conv.groups)
        weights = {f"{name}.w": w.astype(ml_dtypes.bfloat16 if self.narrow else dtype)}
        return weights | ({f"{name}.b": normal(out).astype(dtype)} if self.bias else {})


PADS = {"low": (1, 1), "high": (1, 1)}
PROGRAMS = {
    "plain": Program(Conv((9, 11), (3, 3), channels=(5, 33))),
    "pads": Program(Conv((9, 11), (3, 3), channels=(5, 70), **PADS), residual=True),
    "strides": Program(Conv((12, 9), (3, 3), channels=(16, 32), strides=(2, 2), **PADS), bias=False),
    "points": Program(Conv((9, 7), (1, 1), channels=(8, 40), strides=(2, 2))),
    "dilations": Program(Conv((13, 12), (3, 3), channels=(6, 20), dilations=(2, 3), low=(2, 3), high=(2, 3))),
    "dynamic": Program(Conv((10, 75), (3, 2), channels=(4, 36), low=(1, 0), high=(0, 1)), dynamic=True, residual=True),
    "argument": Program(Conv((6, 6), (3, 3), channels=(7, 34), **PADS), argument=True),
    "narrow": Program(Conv((6, 7), (3, 3), channels=(8, 32), **PADS), narrow=True),
    "depthwise": Program(Conv((10, 9), (3, 3), channels=(40, 40), groups=40, **PADS), residual=True),
    "depthwise_in_place": Program(Conv((9, 12), (3, 2), channels=(64, 64), groups=64, strides=(2, 1))),
    "depthwise_dynamic": Program(
        Conv((9, 12), (5, 5), channels=(33, 33), groups=33, low=(2, 2), high=(2, 2)), dynamic=True
    ),
    "groups": Program(Conv((7, 6), (3, 3), channels=(24, 48), groups=4, **PADS)),
    "groups_of_panels": Program(Conv((5, 6), (3, 3), channels=(8, 128), groups=2, **PADS)),
    "groups_in_lanes": Program(Conv((6, 9), (3, 3), channels=(72, 72), groups=18, **PADS)),
    "groups_of_vectors": Program(Conv((6, 5), (3, 3), channels=(24, 48), groups=3, **PADS)),
    "multiplier": Program(Conv((7, 6), (3, 3), channels=(20, 40), groups=20, **PADS)),
    "speech": Program(Conv((150,), (5,), channels=(12, 40), strides=(2,), low=(4,), high=(0,))),
    "speech_dynamic": Program(Conv((130,), (3,), channels=(12, 40), dilations=(2,)), dynamic=True),
    "column": Program(Conv((75, 1), (5, 1), channels=(12, 40), strides=(2, 3), low=(4, 0), high=(0, 0)), residual=True),
    "column_in_place": Program(Conv((30, 1, 1), (3, 1, 1), channels=(16, 40))),
    "column_picture": Program(Conv((37, 1), (3, 1), channels=(3, 24), low=(1, 0), high=(1, 0)), picture=True),
    "column_depthwise": Program(Conv((21, 1), (3, 1), channels=(40, 40), groups=40, low=(1, 0), high=(1, 0))),
    "column_transposed": Program(Conv((11, 1), (4, 1), channels=(8, 12), strides=(2, 1), transposed=True)),
    "volume": Program(Conv((4, 6, 5), (2, 3, 3), channels=(3, 33), strides=(1, 2, 1), low=(1, 1, 1), high=(0, 1, 1))),
    "transposed": Program(
        Conv((4, 5), (3, 4), channels=(6, 34), strides=(2, 2), low=(1, 1), high=(1, 1), transposed=True,
             output_pads=(1, 0)), residual=True,
    ),
    "transposed_all": Program(
        Conv((5, 4), (2, 5), channels=(6, 12), strides=(3, 2), low=(0, 2), high=(1, 0), groups=3, transposed=True,
             output_pads=(2, 1)), dynamic=True,
    ),
    "transposed_volume": Program(
        Conv((2, 3, 20), (3, 2, 4), channels=(5, 35), strides=(2, 1, 2), low=(1, 0, 1), transposed=True), batch=1,
    ),
    "transposed_dilated": Program(Conv((5, 4), (2, 3), channels=(4, 6), dilations=(2, 1), transposed=True)),
    "transposed_speech": Program(Conv((11,), (4,), channels=(8, 12), strides=(2,), groups=2, transposed=True)),
    "empty": Program(Conv((6, 7), (3, 3), channels=(8, 40), **PADS), batch=0, residual=True),
    "empty_depthwise": Program(Conv((6, 7), (3, 3), channels=(32, 32), groups=32, **PADS), batch=0),
    "in_pads": Program(Conv((1, 2), (3, 3), channels=(3, 5), low=(3, 3), high=(3, 3)), batch=1),
    "deep": Program(Conv((6, 11), (3, 3), channels=(200, 38), **PADS), batch=1, residual=True),
    "deep_blocks": Program(Conv((3, 140), (3, 3), channels=(200, 38), **PADS)),
    "picture": Program(Conv((11, 37), (7, 7), channels=(3, 33), strides=(2, 2), low=(3, 3), high=(3, 3)), picture=True),
    "picture_of_two": Program(Conv((5, 21), (3, 3), channels=(2, 8), **PADS), picture=True),
    "picture_by_channel": Program(Conv((6, 20), (3, 3), channels=(3, 24), groups=3, **PADS), picture=True),
    "parts": Program(Conv((6, 7), (3, 3), channels=(8, 128), **PADS), parts="itself"),
    "parts_together": Program(Conv((6, 7), (3, 3), channels=(8, 128), **PADS), parts="together"),
    "blocks_of_columns": Program(Conv((3, 400), (3, 3), channels=(128, 8), **PADS), batch=1),
}  # fmt: skip
#: Those that GPUs compute in tests: each kind once.
ON_GPUS = ("pads", "dilations", "dynamic", "depthwise", "groups", "speech", "transposed")


def check_all(tools, folder, names, target: str) -> None:
    programs = {name: PROGRAMS[name] for name in names}
    weights = {key: value for name, program in programs.items() for key, value in program.weights(name).items()}
    text = "".join(program.function(name) for name, program in programs.items())
    module = build(tools, folder, text, weights, target)
    for name, program in programs.items():
        program.check(module, name, weights)


@pytest.mark.parametrize("target", TARGETS)
def test_convolutions(tools, tmp_path, target: str) -> None:
    check_all(tools, tmp_path, PROGRAMS, target)


@pytest.mark.parametrize("architecture", one_of_each_vendor("sm_80", "sm_90a", "gfx942", "gfx1100"))
def test_convolutions_on_gpus(tools, tmp_path, architecture: str) -> None:
    check_all(tools, tmp_path, ON_GPUS, f"emulated:{architecture}")


@pytest.mark.parametrize("architecture", ["sm_90a", "gfx942"])
def test_matrix_instructions(tools, tmp_path, architecture: str) -> None:
    """Windows are rounded to f16 where they are multiplied, by warpgroups on Hopper."""
    conv = Conv((12, 9), (3, 3), channels=(16, 70), strides=(1, 2), **PADS)
    program = Program(conv, residual=True)
    weights = {name: np.float32(np.float16(value)) for name, value in program.weights("main").items()}
    text = program.function("main").replace("window =", "precision = f16, window =")
    module = build(tools, tmp_path, text, weights, f"emulated:{architecture}")
    x, r = np.float32(np.float16(normal(2, *conv.size, 16))), normal(2, *conv.result, 70)
    expected = np.maximum(conv.compute(x, weights["main.w"], weights["main.b"]) + r, 0)
    close(module.main(x, r), expected, 2.0**-24 * 160 * conv.compute(np.abs(x), np.abs(weights["main.w"])).max())


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_images_smaller_than_a_window(tools, tmp_path, target: str) -> None:
    """A call whose result would have no position is refused, by the size in the user's input."""
    program = Program(Conv((8, 8), (5, 3), channels=(4, 8), low=(1, 0), high=(0, 0)), dynamic=True)
    weights = program.weights("main")
    module = build(tools, tmp_path, program.function("main"), weights, target)
    assert module.main(normal(1, 4, 3, 4)).shape == (1, 1, 1, 8)
    for sizes, named in (((3, 3), "x0 is 3, must be at least 4"), ((4, 2), "x1 is 2, must be at least 3")):
        with pytest.raises(intarsia.Error, match=named):
            module.main(normal(1, *sizes, 4))


def some_program() -> Program:
    """Draw a convolution that has a result: each attribute, sizes of 1 and empty batches among them."""
    while True:
        spatial = int(RNG.integers(1, 4))

        def some(*choices: int, count: int = spatial) -> tuple[int, ...]:
            return tuple(pick(*choices) for _ in range(count))

        groups, transposed = pick(1, 1, 2, 3, 32), chance(0.3)
        channels = (groups * pick(1, 1, 3, 8), groups * pick(1, 2, 12, 33))
        strides, dilations = some(1, 2, 3), some(1, 1, 2)
        conv = Conv(
            some(1, *range(2, [40, 14, 9][spatial - 1] - 5 * transposed)), some(1, 2, 3, 4), channels, strides, dilations,
            some(0, 1, 2), some(0, 1, 2), groups, transposed,
            tuple(int(RNG.integers(max(s, d))) for s, d in zip(strides, dilations, strict=True)) if transposed else (),
        )  # fmt: skip
        if min(conv.result) >= 1:
            break
    dynamic, element = chance(), pick("f32", "f32", "f16", "bf16")
    batch = pick(1, 2) if dynamic else pick(0, 1, 2)
    return Program(
        conv, batch, chance(), dynamic, argument=chance(0.3), narrow=element == "f32" and chance(0.2), residual=chance(),
        picture=not dynamic and chance(0.2), element=element,
    )  # fmt: skip


@pytest.mark.parametrize("target", [*TARGETS, "emulated:sm_90a", "emulated:gfx942"])
def test_random_convolutions(tools, tmp_path, monkeypatch, target: str) -> None:
    numbers = list(random_cases(monkeypatch, usual=3))
    for begin in range(0, len(numbers), 10):
        programs = {f"f{number}": some_program() for number in numbers[begin : begin + 10]}
        weights = {key: value for name, program in programs.items() for key, value in program.weights(name).items()}
        given = [f"{name}.w" for name, program in programs.items() if program.argument]
        stored = {key: value for key, value in weights.items() if key not in given}
        text = "".join(program.function(name) for name, program in programs.items())
        # GPUs would multiply by weights in bf16 as the type that those are of.
        flags = ("--matmul-precision=f32",) if target.startswith("emulated") else ()
        module = build(tools, tmp_path / str(begin), text, stored, target, *flags)
        for name, program in programs.items():
            try:
                with with_threads(pick(1, 2, 3, 4)):
                    program.check(module, name, weights)
            except Exception as error:
                raise AssertionError(f"of {program}") from error


POOLS = {
    "largest": Pool("max", (9, 12), (3, 3), (2, 2), low=(1, 1), high=(1, 1)),
    "dilated": Pool("max", (14,), (3,), (2,), (2,), low=(1,), high=(2,)),
    "mean": Pool("average", (7, 9), (2, 3), (2, 3), low=(1, 0), high=(0, 1)),
    "counted": Pool("average", (7, 8), (3, 3), (2, 2), low=(1, 1), high=(1, 1), beyond=(0, 1), flags="count_include_pad"),
    "global": Pool("average", (7, 7), (7, 7)),
    "norm": Pool("lp", (5, 6, 4), (2, 2, 2)),
    "norm_3": Pool("lp", (12,), (4,), (3,), p=3),
}  # fmt: skip


@pytest.mark.parametrize("target", [*TARGETS, "emulated:sm_90a", "emulated:gfx942"])
def test_pools(tools, tmp_path, target: str) -> None:
    text = ""
    places = replace(POOLS["largest"], flags="with_indices")
    for name, pool in (POOLS | {"places": places}).items():
        shape = "x".join(map(str, pool.size))
        types = "x".join(map(str, pool.result))
        x, y, i = f"tensor<2x{shape}x37xf32>", f"tensor<2x{types}x37xf32>", f"tensor<2x{types}x37xi64>"
        results = f'{y} {{nn.name = "y"}}' + (f', {i} {{nn.name = "i"}}' if name == "places" else "")
        types, values = (f"({y}, {i})", "%y, %i") if name == "places" else (y, "%y")
        text += f"""func.func @{name}(%x: {x} {{nn.name = "x"}}) -> ({results}) {{
          {values} = nn.pool <{pool.kind}>, %x {pool.attributes()} : ({x}) -> {types}
          return {values} : {types.strip("()")} }}
        """
    module = build(tools, tmp_path, text, None, target)
    for name, pool in POOLS.items():
        x = normal(2, *pool.size, 37)
        close(getattr(module, name)(x), pool.compute(x)[0], 1e-6)
    x = np.round(normal(2, *places.size, 37) * 2) / 2  # with many that are equal
    y, i = module.places(x)
    largest, where = places.compute(x)
    np.testing.assert_array_equal(y, largest)
    np.testing.assert_array_equal(i, where)
