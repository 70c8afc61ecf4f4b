# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs of `linalg`, `tensor`, `arith`, `math` and `scf`, and what NumPy makes of them in float64.

A program is a chain: each op takes the value so far, at times an earlier one of its shape, and gives the next one. The
first dimension of the argument is a size that the call decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

LETTERS = "abcdef"


@dataclass
class Value:
    """A tensor of a program: its name, its type, whether the first size is the call's, and its elements."""

    name: str
    array: np.ndarray
    is_dynamic: bool

    @property
    def shape(self) -> list[str]:
        sizes = [str(size) for size in self.array.shape]
        return ["?", *sizes[1:]] if self.is_dynamic else sizes

    @property
    def type(self) -> str:
        return f"tensor<{''.join(size + 'x' for size in self.shape)}f32>"


@dataclass
class RandomProgram:
    """Writes one program.

    Attributes
    ----------
    text : str
        The function.
    argument : ndarray of float32
        Its argument.
    results : list of ndarray
        What it returns, in float64.
    """

    random: np.random.Generator
    name: str
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        random = self.random
        shape = random.integers(2, 7, random.integers(1, 4))
        # Every other program has dimensions of several vectors, every fourth two of them.
        for _ in range(random.integers(0, 4) - 1):
            shape[random.integers(len(shape))] = random.integers(7, 70)
        self.argument = random.standard_normal(shape).astype(np.float32)
        value = Value("%x", self.argument.astype(np.float64), bool(random.integers(4)))
        argument = value.type
        self.seen = [value]
        ops = [
            self.unary, self.binary, self.broadcast, self.reduce, self.transpose, self.window, self.pad, self.slice,
            self.insert, self.concat, self.collapse, self.softmax, self.branch, self.loop, self.largest, self.position,
            self.repeat, self.switch, self.guarded, self.slice_at_data,
        ]  # fmt: skip
        for _ in range(random.integers(3, 8)):
            op = ops[random.integers(len(ops))]
            if (following := op(value)) is not None:
                value = following
                self.seen.append(value)
        returned = [value, *(other for other in self.seen[1:-1] if random.random() < 0.2)]
        self.results = [one.array for one in returned]
        names = ", ".join(one.name for one in returned)
        types = ", ".join(one.type for one in returned)
        body = "\n".join(f"  {line}" for line in self.lines)
        sizes = ", ".join(['"n"', *['""'] * (len(shape) - 1)])
        said = f" {{nn.sizes = [{sizes}]}}" if self.seen[0].is_dynamic else ""
        self.text = f"""func.func @{self.name}(%x: {argument}{said}) -> ({types}) {{
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %greatest = arith.constant 0x7F800000 : f32
  %n = tensor.dim %x, %c0 : {argument}
{body}
  return {names} : {types}
}}
"""

    # Parts of ops.

    def new(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def say(self, line: str) -> None:
        self.lines.append(line)

    def made(self, array: np.ndarray, is_dynamic: bool) -> Value:
        return Value(self.new(), array, is_dynamic and array.ndim > 0)

    def size(self, value: Value) -> str:
        """Return the first size of a dynamic value."""
        name = self.new()
        self.say(f"{name} = tensor.dim {value.name}, %c0 : {value.type}")
        return name

    def empty(self, like: Value, sized_by: Value) -> str:
        name = self.new()
        self.say(f"{name} = tensor.empty({self.size(sized_by) if like.is_dynamic else ''}) : {like.type}")
        return name

    def filled(self, like: Value, sized_by: Value, scalar: str) -> str:
        empty, name = self.empty(like, sized_by), self.new()
        self.say(f"{name} = linalg.fill ins({scalar} : f32) outs({empty} : {like.type}) -> {like.type}")
        return name

    def generic(self, result: Value, inputs: list[Value], init: str, maps: list[str], loops: str, body: str) -> None:
        dimensions = ", ".join(LETTERS[: len(loops)])
        kinds = ", ".join('"parallel"' if loop == "p" else '"reduction"' for loop in loops)
        taken = f"ins({', '.join(i.name for i in inputs)} : {', '.join(i.type for i in inputs)}) " if inputs else ""
        arguments = "".join(f"%i{n}: f32, " for n in range(len(inputs)))
        maps_text = ", ".join(f"affine_map<({dimensions}) -> ({one})>" for one in maps)
        self.say(
            f"{result.name} = linalg.generic {{indexing_maps = [{maps_text}], iterator_types = [{kinds}]}} {taken}"
            f"outs({init} : {result.type}) {{\n  ^bb0({arguments}%o: f32):\n    {body}\n"
            f"    linalg.yield %r : f32 }} -> {result.type}"
        )

    def letters(self, value: Value) -> list[str]:
        return list(LETTERS[: value.array.ndim])

    # Ops. Each returns the next value; None where it does not fit.

    def unary(self, value: Value) -> Value:
        op, function = [
            ("math.tanh", np.tanh), ("math.absf", np.abs), ("arith.negf", np.negative), ("math.atan", np.arctan),
            ("math.erf", np.vectorize(math.erf, otypes=[float])), ("math.sin", np.sin),
        ][self.random.integers(6)]  # fmt: skip
        result = self.made(function(value.array), value.is_dynamic)
        self.say(f"{result.name} = {op} {value.name} : {value.type}")
        return result

    def binary(self, value: Value) -> Value:
        others = [o for o in self.seen if o.type == value.type and o.array.shape == value.array.shape] or [value]
        other = others[self.random.integers(len(others))]
        op, function = [
            ("addf", np.add), ("subf", np.subtract), ("mulf", np.multiply), ("maximumf", np.maximum),
            ("minnumf", np.fmin),
        ][self.random.integers(5)]  # fmt: skip
        result = self.made(function(value.array, other.array), value.is_dynamic)
        self.say(f"{result.name} = arith.{op} {value.name}, {other.name} : {value.type}")
        return result

    def axes(self, value: Value, least: int = 1) -> list[int] | None:
        rank = value.array.ndim
        if rank < least:
            return None
        count = self.random.integers(least, rank + 1)
        return sorted(int(axis) for axis in self.random.choice(rank, count, replace=False))

    def reduced(self, value: Value, axes: list[int], keeps: bool, kind: str) -> Value:
        function = np.sum if kind == "addf" else np.max
        is_dynamic = value.is_dynamic and 0 not in axes
        result = self.made(function(value.array, axis=tuple(axes), keepdims=keeps), is_dynamic)
        letters = self.letters(value)
        kept = [("0" if d in axes else letter) for d, letter in enumerate(letters) if keeps or d not in axes]
        init = self.filled(result, value, "%zero" if kind == "addf" else "%least")
        loops = "".join("r" if d in axes else "p" for d in range(len(letters)))
        self.generic(
            result, [value], init, [", ".join(letters), ", ".join(kept)], loops, f"%r = arith.{kind} %i0, %o : f32"
        )
        return result

    def reduce(self, value: Value) -> Value | None:
        axes = self.axes(value)
        if axes is None:
            return None
        return self.reduced(value, axes, bool(self.random.integers(2)), ["addf", "maximumf"][self.random.integers(2)])

    def broadcast(self, value: Value) -> Value | None:
        """Subtract the mean or the like along some axes."""
        axes = self.axes(value)
        if axes is None:
            return None
        keeps = bool(self.random.integers(2))
        part = self.reduced(value, axes, keeps, "maximumf")
        array = part.array if keeps else np.expand_dims(part.array, tuple(axes))
        result = self.made(value.array - array, value.is_dynamic)
        letters = self.letters(value)
        of_part = [("0" if d in axes else letter) for d, letter in enumerate(letters) if keeps or d not in axes]
        init = self.empty(result, value)
        whole = ", ".join(letters)
        self.generic(result, [value, part], init, [whole, ", ".join(of_part), whole], "p" * len(letters),
                     "%r = arith.subf %i0, %i1 : f32")  # fmt: skip
        return result

    def transpose(self, value: Value) -> Value | None:
        """In any order. A first dimension that the call decides stays the first."""
        if value.array.ndim < 2:
            return None
        order = list(range(value.is_dynamic)) + [
            int(d) + value.is_dynamic for d in self.random.permutation(value.array.ndim - value.is_dynamic)
        ]
        result = self.made(value.array.transpose(order), value.is_dynamic)
        init = self.empty(result, value)
        self.say(f"{result.name} = linalg.transpose ins({value.name} : {value.type}) outs({init} : {result.type}) "
                 f"permutation = {order}")  # fmt: skip
        return result

    def window(self, value: Value) -> Value | None:
        """Sums or maxima of windows along one axis."""
        axis = self.one_axis(value)
        if axis is None:
            return None
        stride, dilation = (int(one) for one in self.random.integers(1, 3, 2))
        length = value.array.shape[axis]
        size = int(self.random.integers(1, 4))
        reach = dilation * (size - 1) + 1
        if reach > length:
            return None
        kind = ["addf", "maximumf"][self.random.integers(2)]
        views = np.lib.stride_tricks.sliding_window_view(value.array, reach, axis)[..., ::dilation]
        views = np.take(views, range(0, views.shape[axis], stride), axis)
        result = self.made(views.sum(-1) if kind == "addf" else views.max(-1), value.is_dynamic)
        letters = self.letters(value)
        extra = LETTERS[len(letters)]
        window = Value(self.new(), np.zeros(size), False)
        self.say(f"{window.name} = tensor.empty() : {window.type}")
        read = [
            f"{letter} * {stride} + {extra} * {dilation}" if d == axis else letter for d, letter in enumerate(letters)
        ]
        init = self.filled(result, value, "%zero" if kind == "addf" else "%least")
        self.generic(result, [value, window], init, [", ".join(read), extra, ", ".join(letters)], "p" * len(letters) + "r",
                     f"%r = arith.{kind} %i0, %o : f32")  # fmt: skip
        return result

    def one_axis(self, value: Value) -> int | None:
        """Return an axis whose size is known."""
        known = [d for d in range(value.array.ndim) if d or not value.is_dynamic]
        return known[self.random.integers(len(known))] if known else None

    def pad(self, value: Value) -> Value | None:
        axis = self.one_axis(value)
        if axis is None or value.array.size > 2000:
            return None
        low, high = (int(one) for one in self.random.integers(0, 3, 2))
        widths = [(low, high) if d == axis else (0, 0) for d in range(value.array.ndim)]
        result = self.made(np.pad(value.array, widths), value.is_dynamic)
        lows, highs = ", ".join(str(one) for one, _ in widths), ", ".join(str(one) for _, one in widths)
        arguments = ", ".join(f"%p{d}: index" for d in range(value.array.ndim))
        self.say(f"{result.name} = tensor.pad {value.name} low[{lows}] high[{highs}] {{\n  ^bb0({arguments}):\n"
                 f"    tensor.yield %zero : f32 }} : {value.type} to {result.type}")  # fmt: skip
        return result

    def region(self, value: Value) -> tuple[str, tuple[slice, ...]] | None:
        """Return offsets and sizes of a random part along one axis, as text and for NumPy."""
        axis = self.one_axis(value)
        if axis is None:
            return None
        length = value.array.shape[axis]
        begin = int(self.random.integers(0, length))
        size = int(self.random.integers(1, length - begin + 1))
        offsets, sizes, slices = [], [], []
        for d, whole in enumerate(value.array.shape):
            is_axis = d == axis
            offsets.append(str(begin if is_axis else 0))
            sizes.append(str(size) if is_axis else self.size(value) if d == 0 and value.is_dynamic else str(whole))
            slices.append(slice(begin, begin + size) if is_axis else slice(None))
        ones = ", ".join("1" for _ in sizes)
        return f"[{', '.join(offsets)}] [{', '.join(sizes)}] [{ones}]", tuple(slices)

    def slice(self, value: Value) -> Value | None:
        region = self.region(value)
        if region is None:
            return None
        text, where = region
        result = self.made(value.array[where], value.is_dynamic)
        self.say(f"{result.name} = tensor.extract_slice {value.name}{text} : {value.type} to {result.type}")
        return result

    def insert(self, value: Value) -> Value | None:
        """Put the negated part back."""
        region = self.region(value)
        if region is None:
            return None
        text, where = region
        part = self.made(value.array[where], value.is_dynamic)
        self.say(f"{part.name} = tensor.extract_slice {value.name}{text} : {value.type} to {part.type}")
        negated = self.made(-part.array, value.is_dynamic)
        self.say(f"{negated.name} = arith.negf {part.name} : {part.type}")
        array = value.array.copy()
        array[where] = negated.array
        result = self.made(array, value.is_dynamic)
        self.say(
            f"{result.name} = tensor.insert_slice {negated.name} into {value.name}{text} : {part.type} into {value.type}"
        )
        return result

    def concat(self, value: Value) -> Value | None:
        axis = self.one_axis(value)
        if axis is None or value.array.size > 2000:
            return None
        result = self.made(np.concatenate([value.array, value.array], axis), value.is_dynamic)
        self.say(f"{result.name} = tensor.concat dim({axis}) {value.name}, {value.name} : "
                 f"({value.type}, {value.type}) -> {result.type}")  # fmt: skip
        return result

    def collapse(self, value: Value) -> Value | None:
        rank = value.array.ndim
        if rank < 2 or (value.is_dynamic and rank < 3):
            return None
        at = int(self.random.integers(1 if value.is_dynamic else 0, rank - 1))
        groups = [[d] for d in range(at)] + [[at, at + 1]] + [[d] for d in range(at + 2, rank)]
        shape = [math.prod(value.array.shape[d] for d in group) for group in groups]
        result = self.made(value.array.reshape(shape), value.is_dynamic)
        self.say(f"{result.name} = tensor.collapse_shape {value.name} {groups} : {value.type} into {result.type}")
        return result

    def softmax(self, value: Value) -> Value | None:
        if value.array.ndim == 0:
            return None
        axis = int(self.random.integers(value.array.ndim))
        e = np.exp(value.array - value.array.max(axis, keepdims=True))
        result = self.made(e / e.sum(axis, keepdims=True), value.is_dynamic)
        init = self.empty(result, value)
        self.say(f"{result.name} = linalg.softmax dimension({axis}) ins({value.name} : {value.type}) "
                 f"outs({init} : {value.type}) -> {value.type}")  # fmt: skip
        return result

    def branch(self, value: Value) -> Value:
        """Take one of two by whether the call's size is large."""
        is_large, bound = self.new(), int(self.random.integers(2, 7))
        result = self.made(
            np.negative(value.array) if len(self.argument) > bound else value.array * 2, value.is_dynamic
        )
        self.say(f"%b{self.count} = arith.constant {bound} : index")
        self.say(f"{is_large} = arith.cmpi sgt, %n, %b{self.count} : index")
        self.say(f"{result.name} = scf.if {is_large} -> {value.type} {{\n    %t = arith.negf {value.name} : {value.type}\n"
                 f"    scf.yield %t : {value.type}\n  }} else {{\n    %t = arith.addf {value.name}, {value.name} : "
                 f"{value.type}\n    scf.yield %t : {value.type}\n  }}")  # fmt: skip
        return result

    def loop(self, value: Value) -> Value:
        count = int(self.random.integers(1, 4))
        array = value.array
        for _ in range(count):
            array = np.sin(array)
        result = self.made(array, value.is_dynamic)
        self.say(f"%b{self.count} = arith.constant {count} : index")
        self.say(f"%s{self.count} = arith.constant 1 : index")
        self.say(f"{result.name} = scf.for %k = %c0 to %b{self.count} step %s{self.count} iter_args(%t = {value.name}) -> "
                 f"({value.type}) {{\n    %u = math.sin %t : {value.type}\n    scf.yield %u : {value.type}\n  }}")  # fmt: skip
        return result

    def repeat(self, value: Value) -> Value:
        """Repeat a step as often as integers that the host computes from the call's size say, which a check is about."""
        factor, divisor, modulus = (int(one) for one in self.random.integers(1, 9, 3))
        count = len(self.argument) * factor // divisor % modulus
        array = value.array
        for _ in range(count):
            array = np.sin(array)
        result = self.made(array, value.is_dynamic)
        a, b, c, product, quotient, rest, times, one, zero, left, small = (self.new() for _ in range(11))
        for name, number in ((a, factor), (b, divisor), (c, modulus)):
            self.say(f"{name} = arith.constant {number} : index")
        self.say(f"{one} = arith.constant 1 : i64")
        self.say(f"{zero} = arith.constant 0 : i64")
        self.say(f"{product} = arith.muli %n, {a} : index")
        self.say(f"{quotient} = arith.floordivsi {product}, {b} : index")
        self.say(f"{rest} = arith.remsi {quotient}, {c} : index")
        self.say(f"{times} = arith.index_cast {rest} : index to i64")
        self.say(
            f"{result.name}, {left} = scf.while (%t = {value.name}, %k = {times}) : ({value.type}, i64) -> "
            f"({value.type}, i64) {{\n    %more = arith.cmpi sgt, %k, {zero} : i64\n"
            f"    scf.condition(%more) %t, %k : {value.type}, i64\n  }} do {{\n  ^bb0(%t: {value.type}, %k: i64):\n"
            f'    {small} = arith.cmpi sle, %k, {times} : i64\n    cf.assert {small}, "counts down"\n'
            f"    %u = math.sin %t : {value.type}\n    %l = arith.subi %k, {one} : i64\n"
            f"    scf.yield %u, %l : {value.type}, i64\n  }}"
        )
        return result

    def switch(self, value: Value) -> Value:
        """Take one of three by the call's size; one of them asserts what is true of it."""
        case = len(self.argument) % 3
        result = self.made([np.negative(value.array), value.array * 2, value.array][case], value.is_dynamic)
        three, rest, small = (self.new() for _ in range(3))
        self.say(f"{three} = arith.constant 3 : index")
        self.say(f"{rest} = arith.remui %n, {three} : index")
        self.say(
            f"{result.name} = scf.index_switch {rest} -> {value.type}\n  case 0 {{\n"
            f"    %t = arith.negf {value.name} : {value.type}\n    scf.yield %t : {value.type}\n  }}\n  case 1 {{\n"
            f"    %t = arith.addf {value.name}, {value.name} : {value.type}\n    {small} = arith.cmpi uge, %n, {rest} : index\n"
            f'    cf.assert {small}, "no less"\n    scf.yield %t : {value.type}\n  }}\n  default {{\n'
            f"    scf.yield {value.name} : {value.type}\n  }}"
        )
        return result

    def guarded(self, value: Value) -> Value | None:
        """Read along an axis as far as there are elements."""
        axis = self.one_axis(value)
        if axis is None or value.array.size > 2000:
            return None
        length, extra = value.array.shape[axis], int(self.random.integers(1, 4))
        widths = [(0, extra) if d == axis else (0, 0) for d in range(value.array.ndim)]
        result = self.made(np.pad(value.array, widths), value.is_dynamic)
        init = self.empty(result, value)
        letters, limit = self.letters(value), self.new()
        self.say(f"{limit} = arith.constant {length} : index")
        indices = [f"%k{d}" for d in range(len(letters))]
        lines = "\n    ".join(f"{index} = linalg.index {d} : index" for d, index in enumerate(indices))
        read = f"%e = tensor.extract {value.name}[{', '.join(indices)}] : {value.type}\n      scf.yield %e : f32"
        none = "scf.yield %zero : f32"
        predicate = ["ult", "slt", "sge", "uge"][self.random.integers(4)]
        sides = (read, none) if predicate.endswith("lt") else (none, read)
        self.generic(
            result, [], init, [", ".join(letters)], "p" * len(letters),
            f"{lines}\n    %c = arith.cmpi {predicate}, %k{axis}, {limit} : index\n    %r = scf.if %c -> f32 {{\n"
            f"      {sides[0]}\n    }} else {{\n      {sides[1]}\n    }}",
        )  # fmt: skip
        return result

    def slice_at_data(self, value: Value) -> Value | None:
        """A part at an offset that a tensor holds."""
        axis = self.one_axis(value)
        if axis is None:
            return None
        length = value.array.shape[axis]
        begin = int(self.random.integers(0, length))
        size = int(self.random.integers(1, length - begin + 1))
        result = self.made(np.take(value.array, range(begin, begin + size), axis), value.is_dynamic)
        table, number, offset, sum_ = (self.new() for _ in range(4))
        self.say(f"{table} = arith.constant dense<{begin}> : tensor<i64>")
        self.say(f"{sum_} = arith.addi {table}, {table} : tensor<i64>")
        self.say(f"{number} = tensor.extract {sum_}[] : tensor<i64>")
        self.say(f"%h{self.count} = arith.constant 2 : i64")
        half = self.new()
        self.say(f"{half} = arith.divsi {number}, %h{self.count - 1} : i64")
        self.say(f"{offset} = arith.index_cast {half} : i64 to index")
        offsets = ", ".join(offset if d == axis else "0" for d in range(value.array.ndim))
        sizes = ", ".join(
            str(size) if d == axis else self.size(value) if d == 0 and value.is_dynamic else str(whole)
            for d, whole in enumerate(value.array.shape)
        )
        ones = ", ".join("1" for _ in range(value.array.ndim))
        self.say(f"{result.name} = tensor.extract_slice {value.name}[{offsets}] [{sizes}] [{ones}] : "
                 f"{value.type} to {result.type}")  # fmt: skip
        return result

    def largest(self, value: Value) -> Value | None:
        """The largest element along the last axis, beside a sum in the same op."""
        if value.array.ndim < 2:
            return None
        result, other = (
            self.made(value.array.max(-1), value.is_dynamic),
            self.made(value.array.sum(-1), value.is_dynamic),
        )
        first, second = self.filled(result, value, "%least"), self.filled(other, value, "%zero")
        letters = self.letters(value)
        dimensions, rows = ", ".join(letters), ", ".join(letters[:-1])
        kinds = ", ".join(['"parallel"'] * (len(letters) - 1) + ['"reduction"'])
        both = self.new()
        self.say(
            f"{both}:2 = linalg.generic {{indexing_maps = [affine_map<({dimensions}) -> ({dimensions})>, "
            f"affine_map<({dimensions}) -> ({rows})>, affine_map<({dimensions}) -> ({rows})>], "
            f"iterator_types = [{kinds}]}} ins({value.name} : {value.type}) outs({first}, {second} : {result.type}, "
            f"{other.type}) {{\n  ^bb0(%i: f32, %o: f32, %p: f32):\n    %r = arith.maximumf %i, %o : f32\n"
            f"    %q = arith.addf %i, %p : f32\n    linalg.yield %r, %q : f32, f32 }} -> ({result.type}, {other.type})"
        )
        array = result.array - other.array
        difference = self.made(array, value.is_dynamic)
        self.say(f"{difference.name} = arith.subf {both}#0, {both}#1 : {difference.type}")
        return difference

    def position(self, value: Value) -> Value | None:
        """The largest or smallest element along the last axis, read from where it is."""
        if value.array.ndim < 2:
            return None
        is_largest, takes_equal = (bool(self.random.integers(2)) for _ in range(2))
        best = self.made((np.max if is_largest else np.min)(value.array, -1), value.is_dynamic)
        letters = self.letters(value)
        dimensions, rows = ", ".join(letters), ", ".join(letters[:-1])
        first = self.filled(best, value, "%least" if is_largest else "%greatest")
        positions = f"tensor<{'x'.join([*best.shape, 'i64'])}>"
        zero, empty, none, both, found = (self.new() for _ in range(5))
        self.say(f"{zero} = arith.constant 0 : i64")
        self.say(f"{empty} = tensor.empty({self.size(value) if best.is_dynamic else ''}) : {positions}")
        self.say(f"{none} = linalg.fill ins({zero} : i64) outs({empty} : {positions}) -> {positions}")
        kinds = ", ".join(['"parallel"'] * (len(letters) - 1) + ['"reduction"'])
        condition = ("og" if is_largest else "ol") + ("e" if takes_equal else "t")
        self.say(
            f"{both}:2 = linalg.generic {{indexing_maps = [affine_map<({dimensions}) -> ({dimensions})>, "
            f"affine_map<({dimensions}) -> ({rows})>, affine_map<({dimensions}) -> ({rows})>], "
            f"iterator_types = [{kinds}]}} ins({value.name} : {value.type}) outs({first}, {none} : {best.type}, "
            f"{positions}) {{\n  ^bb0(%i: f32, %o: f32, %p: i64):\n    %k = linalg.index {len(letters) - 1} : index\n"
            f"    %m = arith.index_cast %k : index to i64\n    %c = arith.cmpf {condition}, %i, %o : f32\n"
            f"    %r = arith.select %c, %i, %o : f32\n    %q = arith.select %c, %m, %p : i64\n"
            f"    linalg.yield %r, %q : f32, i64 }} -> ({best.type}, {positions})"
        )
        indices = [f"%r{d}" for d in range(len(letters) - 1)]
        lines = "\n    ".join(f"{index} = linalg.index {d} : index" for d, index in enumerate(indices))
        kinds = ", ".join(['"parallel"'] * (len(letters) - 1))
        self.say(
            f"{found} = linalg.generic {{indexing_maps = [affine_map<({rows}) -> ({rows})>, affine_map<({rows}) -> ({rows})>], "
            f"iterator_types = [{kinds}]}} ins({both}#1 : {positions}) outs({first} : {best.type}) {{\n"
            f"  ^bb0(%i: i64, %o: f32):\n    {lines}\n    %k = arith.index_cast %i : i64 to index\n"
            f"    %r = tensor.extract {value.name}[{', '.join([*indices, '%k'])}] : {value.type}\n"
            f"    linalg.yield %r : f32 }} -> {best.type}"
        )
        self.say(f"{best.name} = arith.addf {found}, {both}#0 : {best.type}")
        best.array = best.array * 2
        return best
