# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The nests of loops that nests.py times: each in MLIR as other compilers write it, and in PyTorch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass
class Nest:
    """A function in both languages, and what it is called with."""

    name: str
    text: str
    function: Callable
    arguments: list[np.ndarray]


def tensor(shape: Sequence[int], element: str = "f32") -> str:
    return "tensor<" + "".join(f"{size}x" for size in shape) + element + ">"


def maps(*results: str, loops: int) -> str:
    names = ", ".join("abcdefg"[:loops])
    return "[" + ", ".join(f"affine_map<({names}) -> ({result})>" for result in results) + "]"


def kinds(loops: int, reductions: Sequence[int] = ()) -> str:
    return "[" + ", ".join('"reduction"' if loop in reductions else '"parallel"' for loop in range(loops)) + "]"


class Writer:
    """Writes one function op by op."""

    def __init__(self, name: str, inputs: Sequence[tuple[Sequence[int], str]]) -> None:
        self.name = name
        self.inputs = [(tuple(shape), element) for shape, element in inputs]
        self.lines: list[str] = []
        self.next = 0
        self.of: dict[str, tuple[tuple[int, ...], str]] = {f"%x{i}": v for i, v in enumerate(self.inputs)}

    def value(self, shape: Sequence[int] = (), element: str = "f32") -> str:
        self.next += 1
        name = f"%v{self.next}"
        self.of[name] = (tuple(shape), element)
        return name

    def type(self, value: str) -> str:
        return tensor(*self.of[value])

    def constant(self, text: str, element: str = "f32") -> str:
        result = self.value()
        self.lines.append(f"{result} = arith.constant {text} : {element}")
        return result

    def empty(self, shape: Sequence[int], element: str = "f32") -> str:
        result = self.value(shape, element)
        self.lines.append(f"{result} = tensor.empty() : {tensor(shape, element)}")
        return result

    def filled(self, shape: Sequence[int], text: str, element: str = "f32") -> str:
        scalar, empty = self.constant(text, element), self.empty(shape, element)
        result = self.value(shape, element)
        self.lines.append(
            f"{result} = linalg.fill ins({scalar} : {element}) outs({empty} : {self.type(empty)}) -> {self.type(empty)}"
        )
        return result

    def generic(
        self,
        inputs: Sequence[str],
        inits: Sequence[str],
        results: Sequence[str],
        loops: int,
        body: str,
        reductions: Sequence[int] = (),
    ) -> str:
        """Maps are texts of dimensions a, b, c…; the body names its arguments %i0…, %o0… and ends with its yield."""
        result = self.value(*self.of[inits[0]])
        for i, init in enumerate(inits):
            self.of[f"{result}#{i}"] = self.of[init]
        count = f":{len(inits)}" if len(inits) > 1 else ""
        arguments = [f"%i{i}: {self.of[value][1]}" for i, value in enumerate(inputs)]
        arguments += [f"%o{i}: {self.of[value][1]}" for i, value in enumerate(inits)]
        types = ", ".join(self.type(init) for init in inits)
        ins = f"ins({', '.join(inputs)} : {', '.join(self.type(value) for value in inputs)}) " if inputs else ""
        self.lines.append(
            f"{result}{count} = linalg.generic {{indexing_maps = {maps(*results, loops=loops)}, iterator_types = {kinds(loops, reductions)}}} "
            f"{ins}outs({', '.join(inits)} : {types}) {{\n^bb0({', '.join(arguments)}):\n{body}\n}} -> ({types})"
        )
        return result

    def map(self, inputs: Sequence[tuple[str, str]], shape: Sequence[int], body: str, element: str = "f32") -> str:
        loops = len(shape)
        identity = ", ".join("abcdefg"[:loops])
        return self.generic(
            [value for value, _ in inputs],
            [self.empty(shape, element)],
            [at for _, at in inputs] + [identity],
            loops,
            body,
        )

    def reduce(
        self,
        value: str,
        read: str,
        shape: Sequence[int],
        written: str,
        loops: int,
        reductions: Sequence[int],
        op: str,
        init: str,
    ) -> str:
        element = self.of[value][1]
        body = f"%s = {op} %i0, %o0 : {element}\nlinalg.yield %s : {element}"
        return self.generic([value], [self.filled(shape, init, element)], [read, written], loops, body, reductions)

    def text(self, *results: str) -> str:
        arguments = ", ".join(f"%x{i}: {tensor(*value)}" for i, value in enumerate(self.inputs))
        types = ", ".join(self.type(result) for result in results)
        body = "\n".join(self.lines)
        return f"func.func @{self.name}({arguments}) -> ({types}) {{\n{body}\nreturn {', '.join(results)} : {types}\n}}"


LOWEST = "0xFF800000"


def softmax(name: str, shape: Sequence[int], axis: int, random: np.random.Generator) -> Nest:
    w = Writer(name, [(shape, "f32")])
    loops = len(shape)
    names = list("abcdefg"[:loops])
    identity = ", ".join(names)
    kept = [1 if d == axis else size for d, size in enumerate(shape)]
    at = ", ".join("0" if d == axis else n for d, n in enumerate(names))
    largest = w.reduce("%x0", identity, kept, at, loops, [axis], "arith.maximumf", LOWEST)
    powers = w.map(
        [("%x0", identity), (largest, at)],
        shape,
        "%d = arith.subf %i0, %i1 : f32\n%e = math.exp %d : f32\nlinalg.yield %e : f32",
    )
    total = w.reduce(powers, identity, kept, at, loops, [axis], "arith.addf", "0.0")
    result = w.map([(powers, identity), (total, at)], shape, "%d = arith.divf %i0, %i1 : f32\nlinalg.yield %d : f32")
    return Nest(name, w.text(result), lambda x: x.softmax(axis), [random.standard_normal(shape, np.float32)])


def mean(name: str, shape: Sequence[int], axes: Sequence[int], random: np.random.Generator) -> Nest:
    w = Writer(name, [(shape, "f32")])
    loops = len(shape)
    names = list("abcdefg"[:loops])
    left = [size for d, size in enumerate(shape) if d not in axes]
    at = ", ".join(n for d, n in enumerate(names) if d not in axes)
    total = w.reduce("%x0", ", ".join(names), left, at, loops, axes, "arith.addf", "0.0")
    count = w.constant(repr(float(np.prod([shape[d] for d in axes]))))
    identity = ", ".join("abcdefg"[: len(left)])
    result = w.map([(total, identity)], left, f"%d = arith.divf %i0, {count} : f32\nlinalg.yield %d : f32")
    return Nest(name, w.text(result), lambda x: x.mean(list(axes)), [random.standard_normal(shape, np.float32)])


def extreme(name: str, shape: Sequence[int], axis: int, random: np.random.Generator) -> Nest:
    """The largest element along an axis and where it is, as torch-mlir writes it."""
    w = Writer(name, [(shape, "f32")])
    loops = len(shape)
    names = list("abcdefg"[:loops])
    left = [size for d, size in enumerate(shape) if d != axis]
    at = ", ".join(n for d, n in enumerate(names) if d != axis)
    body = (
        f"%k = linalg.index {axis} : index\n%n = arith.index_cast %k : index to i64\n%m = arith.maximumf %i0, %o0 : f32\n"
        "%g = arith.cmpf ogt, %i0, %o0 : f32\n%s = arith.select %g, %n, %o1 : i64\nlinalg.yield %m, %s : f32, i64"
    )
    result = w.generic(
        ["%x0"], [w.filled(left, LOWEST), w.filled(left, "0", "i64")], [", ".join(names), at, at], loops, body, [axis]
    )
    return Nest(
        name,
        w.text(f"{result}#0", f"{result}#1"),
        lambda x: tuple(x.max(axis)),
        [random.standard_normal(shape, np.float32)],
    )


def transposed(name: str, shape: Sequence[int], order: Sequence[int], random: np.random.Generator) -> Nest:
    w = Writer(name, [(shape, "f32")])
    result_shape = [shape[d] for d in order]
    empty = w.empty(result_shape)
    result = w.value(result_shape)
    w.lines.append(
        f"{result} = linalg.transpose ins(%x0 : {tensor(shape)}) outs({empty} : {tensor(result_shape)}) permutation = {list(order)}"
    )
    return Nest(
        name, w.text(result), lambda x: x.permute(list(order)).contiguous(), [random.standard_normal(shape, np.float32)]
    )


def pooled(
    name: str,
    shape: Sequence[int],
    last: bool,
    window: int,
    stride: int,
    dilation: int,
    kind: str,
    random: np.random.Generator,
) -> Nest:
    """A window over the height and width of an image, with its channels last or not."""
    import torch

    w = Writer(name, [(shape, "f32")])
    rows, columns = (shape[1], shape[2]) if last else (shape[2], shape[3])
    size = [(extent - (window - 1) * dilation - 1) // stride + 1 for extent in (rows, columns)]
    at = [f"{loop} * {stride} + {tap} * {dilation}" for loop, tap in (("b", "e"), ("c", "f"))]
    read = f"a, {at[0]}, {at[1]}, d" if last else f"a, d, {at[0]}, {at[1]}"
    written = "a, b, c, d" if last else "a, d, b, c"
    channels = shape[3] if last else shape[1]
    result_shape = [shape[0], *size, channels] if last else [shape[0], channels, *size]
    init, op = (LOWEST, "arith.maximumf") if kind == "max" else ("0.0", "arith.addf")
    taps = w.empty([window, window])
    body = f"%s = {op} %i0, %o0 : f32\nlinalg.yield %s : f32"
    result = w.generic(["%x0", taps], [w.filled(result_shape, init)], [read, "e, f", written], 6, body, [4, 5])
    if kind == "average":
        count = w.constant(repr(float(window * window)))
        result = w.map(
            [(result, "a, b, c, d")], result_shape, f"%d = arith.divf %i0, {count} : f32\nlinalg.yield %d : f32"
        )

    def peer(x: "torch.Tensor") -> "torch.Tensor":
        image = x.permute(0, 3, 1, 2) if last else x
        if kind == "max":
            image = torch.nn.functional.max_pool2d(image, window, stride, dilation=dilation)
        else:
            image = torch.nn.functional.avg_pool2d(image, window, stride)
        return image.permute(0, 2, 3, 1).contiguous() if last else image

    return Nest(name, w.text(result), peer, [random.standard_normal(shape, np.float32)])


MULTIPLY_ADD = "%p = arith.mulf %i0, %i1 : f32\n%s = arith.addf %p, %o0 : f32\nlinalg.yield %s : f32"


def image_block(name: str, channels: int, size: int, random: np.random.Generator) -> Nest:
    """A window for each channel, a product over channels and a rectifier, of an image with its channels first."""
    import torch

    shape, taps = (1, channels, size + 2, size + 2), (channels, 3, 3)
    w = Writer(name, [(shape, "f32")])
    zero = w.constant("0.0")
    weights = [random.standard_normal(one, np.float32) for one in (taps, (channels, channels))]
    weights[1] /= channels
    names = []
    for weight in weights:
        names.append(w.value(weight.shape))
        w.lines.append(f'{names[-1]} = arith.constant dense<"0x{weight.tobytes().hex()}"> : {tensor(weight.shape)}')
    result_shape = (1, channels, size, size)
    identity = "a, b, c, d"
    windows = w.generic(
        ["%x0", names[0]],
        [w.filled(result_shape, "0.0")],
        ["a, b, c + e, d + f", "b, e, f", identity],
        6,
        MULTIPLY_ADD,
        [4, 5],
    )
    mixed = w.generic(
        [windows, names[1]],
        [w.filled(result_shape, "0.0")],
        ["a, e, c, d", "b, e", identity],
        5,
        MULTIPLY_ADD,
        [4],
    )
    result = w.map([(mixed, identity)], result_shape, f"%r = arith.maximumf %i0, {zero} : f32\nlinalg.yield %r : f32")

    windows_of, mix = (torch.from_numpy(weight) for weight in (weights[0][:, None], weights[1][:, :, None, None]))

    def peer(x: "torch.Tensor") -> "torch.Tensor":
        return torch.relu(torch.nn.functional.conv2d(torch.nn.functional.conv2d(x, windows_of, groups=channels), mix))

    return Nest(name, w.text(result), peer, [random.standard_normal(shape, np.float32)])


def turned_heads(name: str, rows: int, heads: int, width: int, random: np.random.Generator) -> Nest:
    """Products of heads that are turned to the front and back, as PyTorch writes attention, without its softmax."""
    import torch

    shape, apart = (rows, heads * width), (rows, heads, width)
    w = Writer(name, [(shape, "f32")])

    def reshaped(value: str, result_shape: Sequence[int], groups: str) -> str:
        result = w.value(result_shape)
        if len(result_shape) == 3:
            sizes = f"output_shape {list(result_shape)} "
            w.lines.append(
                f"{result} = tensor.expand_shape {value} {groups} {sizes}: {w.type(value)} into {tensor(result_shape)}"
            )
        else:
            w.lines.append(
                f"{result} = tensor.collapse_shape {value} {groups} : {w.type(value)} into {tensor(result_shape)}"
            )
        return result

    def turned(value: str, order: Sequence[int]) -> str:
        result_shape = [w.of[value][0][d] for d in order]
        empty, result = w.empty(result_shape), w.value(result_shape)
        w.lines.append(
            f"{result} = linalg.transpose ins({value} : {w.type(value)}) outs({empty} : {w.type(empty)}) permutation = {list(order)}"
        )
        return result

    split = reshaped("%x0", apart, "[[0], [1, 2]]")
    front = turned(split, (1, 0, 2))
    keys = turned(front, (0, 2, 1))
    scores = w.generic(
        [front, keys],
        [w.filled((heads, rows, rows), "0.0")],
        ["a, b, d", "a, d, c", "a, b, c"],
        4,
        MULTIPLY_ADD,
        [3],
    )
    scaled = w.map(
        [(scores, "a, b, c")],
        (heads, rows, rows),
        f"%p = arith.mulf %i0, {w.constant(repr(1 / (8 * rows)))} : f32\nlinalg.yield %p : f32",
    )
    mixed = w.generic(
        [scaled, front],
        [w.filled((heads, rows, width), "0.0")],
        ["a, b, d", "a, d, c", "a, b, c"],
        4,
        MULTIPLY_ADD,
        [3],
    )
    result = reshaped(turned(mixed, (1, 0, 2)), shape, "[[0], [1, 2]]")

    def peer(x: "torch.Tensor") -> "torch.Tensor":
        front = x.reshape(apart).transpose(0, 1)
        return ((front @ front.transpose(1, 2) / (8 * rows)) @ front).transpose(0, 1).reshape(shape)

    return Nest(name, w.text(result), peer, [random.standard_normal(shape, np.float32)])


def chains(random: np.random.Generator) -> list[Nest]:
    """Broadcasts and elementwise ops, also around reductions."""
    import torch

    nests = []
    rows, columns = 512, 1024
    shape, both = (rows, columns), "a, b"
    x = random.standard_normal(shape, np.float32)
    of_columns, of_rows = random.standard_normal(columns, np.float32), random.standard_normal(rows, np.float32)

    w = Writer("bias_relu", [(shape, "f32"), ((columns,), "f32"), ((columns,), "f32")])
    zero = w.constant("0.0")
    result = w.map(
        [("%x0", both), ("%x1", "b"), ("%x2", "b")],
        shape,
        f"%p = arith.mulf %i0, %i1 : f32\n%s = arith.addf %p, %i2 : f32\n%r = arith.maximumf %s, {zero} : f32\nlinalg.yield %r : f32",
    )
    nests.append(
        Nest(
            "bias_relu", w.text(result), lambda x, a, b: torch.relu(x * a + b), [x, of_columns, of_columns[::-1].copy()]
        )
    )

    w = Writer("column_scale", [(shape, "f32"), ((rows,), "f32")])
    result = w.map([("%x0", both), ("%x1", "a")], shape, "%p = arith.mulf %i0, %i1 : f32\nlinalg.yield %p : f32")
    nests.append(Nest("column_scale", w.text(result), lambda x, a: x * a[:, None], [x, of_rows]))

    w = Writer("outer_sum", [((rows,), "f32"), ((columns,), "f32")])
    result = w.map(
        [("%x0", "a"), ("%x1", "b")],
        shape,
        "%p = arith.addf %i0, %i1 : f32\n%t = math.tanh %p : f32\nlinalg.yield %t : f32",
    )
    nests.append(Nest("outer_sum", w.text(result), lambda a, b: torch.tanh(a[:, None] + b), [of_rows, of_columns]))

    w = Writer("gelu", [(shape, "f32")])
    half, one, root = w.constant("0.5"), w.constant("1.0"), w.constant("0.70710678118654752")
    result = w.map(
        [("%x0", both)],
        shape,
        f"%q = arith.mulf %i0, {root} : f32\n%e = math.erf %q : f32\n%s = arith.addf %e, {one} : f32\n"
        f"%h = arith.mulf %i0, {half} : f32\n%r = arith.mulf %h, %s : f32\nlinalg.yield %r : f32",
    )
    nests.append(Nest("gelu", w.text(result), lambda x: torch.nn.functional.gelu(x), [x]))

    flat = rows * columns
    w = Writer("flat_silu", [((flat,), "f32")])
    one = w.constant("1.0")
    result = w.map(
        [("%x0", "a")],
        [flat],
        f"%n = arith.negf %i0 : f32\n%e = math.exp %n : f32\n%s = arith.addf %e, {one} : f32\n%r = arith.divf %i0, %s : f32\nlinalg.yield %r : f32",
    )
    nests.append(Nest("flat_silu", w.text(result), lambda x: torch.nn.functional.silu(x), [x.reshape(-1).copy()]))

    w = Writer("masked", [(shape, "f32"), (shape, "f32")])
    lowest = w.constant(LOWEST)
    result = w.map(
        [("%x0", both), ("%x1", both)],
        shape,
        f"%c = arith.cmpf ogt, %i0, %i1 : f32\n%r = arith.select %c, %i0, {lowest} : f32\nlinalg.yield %r : f32",
    )
    nests.append(
        Nest(
            "masked",
            w.text(result),
            lambda x, y: torch.where(x > y, x, float("-inf")),
            [x, random.standard_normal(shape, np.float32)],
        )
    )

    w = Writer("layer_norm", [(shape, "f32"), ((columns,), "f32"), ((columns,), "f32")])
    count, epsilon = w.constant(repr(float(columns))), w.constant("1.0e-5")
    kept = [rows, 1]
    total = w.reduce("%x0", both, kept, "a, 0", 2, [1], "arith.addf", "0.0")
    average = w.map([(total, "a, 0")], kept, f"%d = arith.divf %i0, {count} : f32\nlinalg.yield %d : f32")
    centred = w.map([("%x0", both), (average, "a, 0")], shape, "%d = arith.subf %i0, %i1 : f32\nlinalg.yield %d : f32")
    squares = w.map([(centred, both)], shape, "%d = arith.mulf %i0, %i0 : f32\nlinalg.yield %d : f32")
    square = w.reduce(squares, both, kept, "a, 0", 2, [1], "arith.addf", "0.0")
    inverse = w.map(
        [(square, "a, 0")],
        kept,
        f"%d = arith.divf %i0, {count} : f32\n%e = arith.addf %d, {epsilon} : f32\n%r = math.rsqrt %e : f32\nlinalg.yield %r : f32",
    )
    result = w.map(
        [(centred, both), (inverse, "a, 0"), ("%x1", "b"), ("%x2", "b")],
        shape,
        "%n = arith.mulf %i0, %i1 : f32\n%p = arith.mulf %n, %i2 : f32\n%s = arith.addf %p, %i3 : f32\nlinalg.yield %s : f32",
    )
    nests.append(
        Nest(
            "layer_norm",
            w.text(result),
            lambda x, a, b: torch.nn.functional.layer_norm(x, (columns,), a, b, 1e-5),
            [x, of_columns, of_columns[::-1].copy()],
        )
    )

    w = Writer("length", [(shape, "f32")])
    squares = w.map([("%x0", both)], shape, "%d = arith.mulf %i0, %i0 : f32\nlinalg.yield %d : f32")
    total = w.reduce(squares, both, [rows], "a", 2, [1], "arith.addf", "0.0")
    result = w.map([(total, "a")], [rows], "%r = math.sqrt %i0 : f32\nlinalg.yield %r : f32")
    nests.append(Nest("length", w.text(result), lambda x: torch.sqrt((x * x).sum(1)), [x]))

    w = Writer("log_sum_exp", [(shape, "f32")])
    largest = w.reduce("%x0", both, [rows], "a", 2, [1], "arith.maximumf", LOWEST)
    powers = w.map(
        [("%x0", both), (largest, "a")],
        shape,
        "%d = arith.subf %i0, %i1 : f32\n%e = math.exp %d : f32\nlinalg.yield %e : f32",
    )
    total = w.reduce(powers, both, [rows], "a", 2, [1], "arith.addf", "0.0")
    result = w.map(
        [(total, "a"), (largest, "a")],
        [rows],
        "%l = math.log %i0 : f32\n%r = arith.addf %l, %i1 : f32\nlinalg.yield %r : f32",
    )
    nests.append(Nest("log_sum_exp", w.text(result), lambda x: torch.logsumexp(x, 1), [x]))

    w = Writer("integer_sum", [(shape, "i32")])
    total = w.reduce("%x0", both, [rows], "a", 2, [1], "arith.addi", "0")
    nests.append(
        Nest(
            "integer_sum",
            w.text(total),
            lambda x: x.sum(1, dtype=torch.int32),
            [random.integers(-99, 99, shape, dtype=np.int32)],
        )
    )
    return nests


def moves(random: np.random.Generator) -> list[Nest]:
    """Gathers, concatenations, paddings."""
    import torch

    nests = []
    rows, columns = 512, 1024
    x = random.standard_normal((rows, columns), np.float32)
    at = random.integers(0, rows, 2048, dtype=np.int64)

    w = Writer("gather_rows", [((rows, columns), "f32"), ((2048,), "i64")])
    body = "%r = arith.index_cast %i0 : i64 to index\n%c = linalg.index 1 : index\n%e = tensor.extract %x0[%r, %c] : tensor<512x1024xf32>\nlinalg.yield %e : f32"
    result = w.map([("%x1", "a")], [2048, columns], body)
    nests.append(Nest("gather_rows", w.text(result), lambda x, i: torch.index_select(x, 0, i), [x, at]))

    w = Writer("gather_elements", [((rows, columns), "f32"), ((rows, 256), "i64")])
    body = "%r = linalg.index 0 : index\n%c = arith.index_cast %i0 : i64 to index\n%e = tensor.extract %x0[%r, %c] : tensor<512x1024xf32>\nlinalg.yield %e : f32"
    result = w.map([("%x1", "a, b")], [rows, 256], body)
    nests.append(
        Nest(
            "gather_elements",
            w.text(result),
            lambda x, i: torch.gather(x, 1, i),
            [x, random.integers(0, columns, (rows, 256), dtype=np.int64)],
        )
    )

    w = Writer("concatenated", [((rows, columns), "f32"), ((rows, 256), "f32")])
    result = w.value((rows, columns + 256))
    w.lines.append(
        f"{result} = tensor.concat dim(1) %x0, %x1 : (tensor<512x1024xf32>, tensor<512x256xf32>) -> tensor<512x1280xf32>"
    )
    nests.append(
        Nest(
            "concatenated",
            w.text(result),
            lambda x, y: torch.cat([x, y], 1),
            [x, random.standard_normal((rows, 256), np.float32)],
        )
    )

    image = random.standard_normal((8, 64, 64, 32), np.float32)
    w = Writer("padded", [(image.shape, "f32")])
    zero = w.constant("0.0")
    result = w.value((8, 66, 66, 32))
    w.lines.append(
        f"{result} = tensor.pad %x0 low[0, 1, 1, 0] high[0, 1, 1, 0] {{\n^bb0(%p: index, %q: index, %r: index, %s: index):\n"
        f"tensor.yield {zero} : f32\n}} : {tensor(image.shape)} to tensor<8x66x66x32xf32>"
    )
    nests.append(Nest("padded", w.text(result), lambda x: torch.nn.functional.pad(x, (0, 0, 1, 1, 1, 1)), [image]))
    return nests


def prefix_sums(name: str, shape: Sequence[int], axis: int, random: np.random.Generator) -> Nest:
    """As torch-mlir writes `cumsum`."""
    import torch

    w = Writer(name, [(shape, "f32")])
    result, kind = w.value(shape), tensor(shape)
    last = tensor([size for d, size in enumerate(shape) if d != axis])
    w.lines.append(
        f"%e = tensor.empty() : {kind}\n%z = arith.constant dense<0.0> : {last}\n"
        f"{result}, %last = tm_tensor.scan dimension({axis}) inclusive(true) ins(%x0 : {kind}) outs(%e, %z : {kind}, {last}) {{\n"
        f"^bb0(%a: f32, %b: f32):\n%s = arith.addf %a, %b : f32\ntm_tensor.yield %s : f32\n}} -> {kind}, {last}"
    )
    return Nest(name, w.text(result), lambda x: torch.cumsum(x, axis), [random.random(shape, np.float32)])


def all_nests() -> list[Nest]:
    random = np.random.default_rng(7)
    return [
        softmax("softmax_0", (512, 1024), 0, random),
        softmax("softmax_1", (512, 1024), 1, random),
        softmax("softmax_middle", (16, 64, 512), 1, random),
        softmax("softmax_heads", (12, 128, 128), 2, random),
        mean("mean_rows", (512, 1024), [1], random),
        mean("mean_columns", (512, 1024), [0], random),
        mean("mean_middle", (64, 128, 64), [1], random),
        mean("mean_image", (8, 64, 28, 28), [2, 3], random),
        mean("mean_all", (512, 1024), [0, 1], random),
        extreme("argmax_1", (512, 1024), 1, random),
        extreme("argmax_0", (512, 1024), 0, random),
        transposed("transpose", (512, 1024), (1, 0), random),
        transposed("transpose_heads", (4, 128, 12, 64), (0, 2, 1, 3), random),
        transposed("transpose_batched", (16, 128, 256), (0, 2, 1), random),
        transposed("transpose_channels", (4, 64, 56, 56), (0, 2, 3, 1), random),
        pooled("max_pool_last", (1, 64, 64, 64), True, 2, 2, 1, "max", random),
        pooled("max_pool_first", (1, 64, 112, 112), False, 3, 2, 1, "max", random),
        pooled("average_pool", (1, 32, 66, 66), False, 3, 1, 1, "average", random),
        pooled("max_pool_dilated", (1, 66, 66, 64), True, 3, 1, 2, "max", random),
        *chains(random),
        *moves(random),
        image_block("image_block", 64, 56, random),
        turned_heads("turned_heads", 128, 12, 64, random),
        prefix_sums("prefix_sums", (512, 1024), 1, random),
        prefix_sums("prefix_sums_columns", (512, 1024), 0, random),
        prefix_sums("prefix_sums_long", (4, 1 << 15), 1, random),
    ]
