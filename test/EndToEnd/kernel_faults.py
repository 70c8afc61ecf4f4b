# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small programs, and a fault of one kernel of each: what test_verify_kernels.py has the reference device find."""

from __future__ import annotations

from dataclasses import dataclass, field
from string import Template

import numpy as np

RNG = np.random.default_rng(11)
SUSPECT = "model.suspect"  # the name of the op whose kernel is faulty


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@dataclass(frozen=True)
class Case:
    """A program and a fault of one of its kernels.

    Attributes
    ----------
    root : str
        What the faulty kernel is built around, a case of KernelRoot.
    arguments : dict
        Sizes and element of each argument, as "n x 64 x f32"; n is a size that the call decides.
    body : str
        The ops that compute the results; $x is the type of the argument x. The op at SUSPECT is in the faulty kernel.
    results : dict
        The type of each result by its value's name.
    right, wrong : str
        A regular expression that matches once in the kernel's body, and what replaces the match.
    inputs : dict
        The arguments' values.
    output : str
        The result that the fault makes wrong.
    states : dict
        The argument that each result updates in place.
    weights : dict
        Tensors of the archive @weights.
    flags : tuple
        More arguments of the compiler.
    tolerance : float
        What right kernels differ by at most. The default is the one of docs/devices.md for f32.
    """

    root: str
    arguments: dict[str, str]
    body: str
    results: dict[str, str]
    right: str
    wrong: str
    inputs: dict[str, np.ndarray]
    output: str = "y"
    states: dict[str, str] = field(default_factory=dict)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    tolerance: float = 1e-5

    def text(self) -> str:
        """Give the program. An op beside the others has a kernel of its own, which is right."""
        types = {name: tensor_type(sizes) for name, sizes in self.arguments.items()}
        arguments = [argument(name, sizes, name in self.states.values()) for name, sizes in self.arguments.items()]
        arguments.append(argument("beside", "beside x 8 x f32"))
        place = list(self.arguments).index
        results = {name: Template(kind).substitute(types) for name, kind in self.results.items()}
        attributes = [
            f"nn.state = {place(self.states[name])} : i64" if name in self.states else f'nn.name = "{name}"'
            for name in results
        ]
        declared = [f"{kind} {{{text}}}" for kind, text in zip(results.values(), attributes, strict=True)]
        archive = 'nn.archive @weights {file = "w.safetensors"}\n' if self.weights else ""
        return f"""{archive}func.func @main({", ".join(arguments)})
    -> ({", ".join(declared)}, tensor<?x8xf32> {{nn.name = "cosines"}}) {{
  %cosines = math.cos %beside : tensor<?x8xf32> loc("model.beside")
  {Template(self.body).substitute(types).replace("SUSPECT", f'loc("{SUSPECT}")')}
  return {", ".join(f"%{name}" for name in results)}, %cosines : {", ".join(results.values())}, tensor<?x8xf32>
}}
"""

    def given(self) -> dict[str, np.ndarray]:
        """Give the arguments' values; those that the program updates are copies."""
        return {name: value.copy() for name, value in self.inputs.items()} | {"beside": BESIDE}


BESIDE = normal(3, 8)


def tensor_type(sizes: str) -> str:
    *dimensions, element = sizes.split(" x ")
    return f"tensor<{''.join(f'{size if size.isdigit() else chr(63)}x' for size in dimensions)}{element}>"


def argument(name: str, sizes: str, state: bool = False) -> str:
    names = ", ".join(f'"{"" if size.isdigit() else size}"' for size in sizes.split(" x ")[:-1])
    return f'%{name}: {tensor_type(sizes)} {{nn.name = "{name}", nn.sizes = [{names}]{", nn.state" if state else ""}}}'


def rows(
    op: str, right: str, wrong: str, more: dict[str, tuple[str, np.ndarray]] | None = None, features: int = 37
) -> Case:
    """Give the case of an op whose result has the type of its first operand %x."""
    more = more or {}
    return Case(
        "rows",
        {"x": f"n x {features} x f32"} | {name: sizes for name, (sizes, _) in more.items()},
        f"%y = {op} SUSPECT",
        {"y": "$x"},
        right,
        wrong,
        {"x": normal(5, features)} | {name: value for name, (_, value) in more.items()},
    )


def scaled(result: str, value: str, kind: str) -> str:
    """Give the ops that multiply a matrix by a constant."""
    return f"""%row = arith.constant 0 : index
  %rows = tensor.dim %{value}, %row : {kind}
  %empty = tensor.empty(%rows) : tensor<?x24xf32>
  %{result} = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}} ins(%{value} : {kind}) outs(%empty : tensor<?x24xf32>) {{
    ^bb0(%number: f32, %out: f32):
      %scale = arith.constant 4.875 : f32
      %product = arith.mulf %number, %scale : f32
      linalg.yield %product : f32
  }} -> tensor<?x24xf32>"""


SUMS_TEXT = """%zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<37xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<37xf32>) -> tensor<37xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
      iterator_types = ["reduction", "parallel"]} ins(%x : $x) outs(%zeros : tensor<37xf32>) {
    ^bb0(%number: f32, %sum: f32):
      %least = arith.constant 0.375 : f32
      %term = arith.maximumf %number, %least : f32
      %next = arith.addf %sum, %term : f32
      linalg.yield %next : f32
  } -> tensor<37xf32> SUSPECT"""

LINEAR = dict(
    arguments={"x": "n x 64 x f32"},
    results={"y": "tensor<?x33xf32>"},
    weights={"w": normal(33, 64) / 8, "b": normal(33)},
    inputs={"x": normal(7, 64)},
)
LINEAR_TEXT = """%w = nn.weight @weights["w"] : tensor<33x64xf32>
  %b = nn.weight @weights["b"] : tensor<33xf32>
  %NAME = nn.linear %x, %w, %b : ($x, tensor<33x64xf32>, tensor<33xf32>) -> tensor<?x33xf32> SUSPECT"""
WITHOUT_BIAS = dict(
    right=r"(nn\.linear %\w+, %\w+), %\w+ : \((.*), tensor<33xf32>\)",
    wrong=r"\1 : (\2)",
)
HEADS = "%y = nn.attention %q, %k, %v {causal, scale = 0.25 : f32} : ($q, $k, $k) -> $q SUSPECT"
ATTENTION = dict(
    arguments={
        name: f"b x {sizes} x f32" for name, sizes in (("q", "s x 4 x 16"), ("k", "s x 2 x 16"), ("v", "s x 2 x 16"))
    },
    body=HEADS,
    results={"y": "$q"},
    inputs={"q": normal(2, 9, 4, 16), "k": normal(2, 9, 2, 16), "v": normal(2, 9, 2, 16)},
)

# Two sequences in pages of four tokens' slots; no page is that of both.
PLACES = dict(p="tokens x i64", s="tokens x i64", t="sequences x places x i64")
CACHED = dict(
    root="cached_attention",
    arguments={"q": "tokens x 4 x 16 x f32", "k": "pages x 2 x 16 x 32 x f32", "v": "pages x 2 x 32 x 16 x f32"}
    | PLACES,
    results={"y": "$q"},
    inputs={
        "q": normal(5, 4, 16),
        "k": normal(4, 2, 16, 32),
        "v": normal(4, 2, 32, 16),
        "p": integers(40, 7, 41, 0, 8),
        "s": integers(0, 1, 0, 1, 1),
        "t": np.array([[2, 0], [1, 3]], np.int64),
    },
)
CACHED_TEXT = """%y = nn.cached_attention %q, (%k) <keys, f32, page = 32, transposed>, (%v) <values, f32, page = 32>,
    %p, %s, %t {scale = 0.25 : f32, soft_cap = 3.0 : f32, window = 36 : i64} : ($q, $k, $v, $p, $s, $t) -> $q SUSPECT"""

APPEND = dict(root="cache_append", results={"y": "$c"}, states={"y": "c"})
APPENDED = {"k": "tokens x 2 x 16 x f32"} | PLACES
APPENDED_VALUES = {
    "k": normal(2, 2, 16),
    "p": integers(0, 1),
    "s": integers(1, 1),
    "t": np.array([[2, 0], [1, 3]], np.int64),
}
# Positions are taken for sequences.
SWAPPED = dict(right=r"(%\w+), (%\w+), (%\w+) : ", wrong=r"\2, \1, \3 : ")

EXPERTS_TEXT = """%y = nn.experts %x, %i, %w, %gu, %d gate_up_bias %gb {activation = #nn.gated_activation<clamped_swiglu>,
    alpha = 1.7 : f32, limit = 7.0 : f32} : ($x, $i, $w, $gu, $d, $gb) -> $x SUSPECT"""

CASES = {
    "linear": Case("linear", body=LINEAR_TEXT.replace("NAME", "y"), **LINEAR, **WITHOUT_BIAS),
    "linear-gelu": Case(
        "linear",
        body=LINEAR_TEXT.replace("NAME", "h") + "\n  %y = nn.gelu %h {form = #nn.gelu_form<erf>} : tensor<?x33xf32>",
        right="<erf>",
        wrong="<tanh>",
        **LINEAR,
    ),
    "linear-int8": Case(
        "linear",
        body=LINEAR_TEXT.replace("NAME", "y"),
        flags=("--quantize=int8",),
        tolerance=0.05,
        **LINEAR,
        **WITHOUT_BIAS,
    ),
    "matmul": Case(
        "matmul",
        {"x": "b x n x 24 x f32", "w": "b x 24 x 24 x f32"},
        "%y = nn.matmul %x, %w {transpose_rhs} : ($x, $w) -> $x SUSPECT",
        {"y": "$x"},
        r" \{transpose_rhs\}",
        "",
        {"x": normal(2, 5, 24), "w": normal(2, 24, 24)},
    ),
    "conv": Case(
        "conv",
        {"x": "n x 6 x 7 x 5 x f32"},
        """%w = nn.weight @weights["w"] : tensor<9x45xf32>
  %y = nn.conv %x, %w {window = array<i64: 3, 3>, pads_high = array<i64: 0, 1>, pads_low = array<i64: 2, 1>}
    : ($x, tensor<9x45xf32>) -> tensor<?x6x7x9xf32> SUSPECT""",
        {"y": "tensor<?x6x7x9xf32>"},
        r"pads_high = array<i64: 0, 1>, pads_low = array<i64: 2, 1>",
        "pads_high = array<i64: 1, 1>, pads_low = array<i64: 1, 1>",
        {"x": normal(2, 6, 7, 5)},
        weights={"w": normal(9, 45)},
    ),
    "recurrent": Case(
        "recurrent",
        {"x": "n x t x 36 x f32"},
        """%w = nn.weight @weights["w"] : tensor<36x9xf32>
  %y, %h, %c = nn.recurrent <lstm>, <forward>, %x, %w {gate_order = array<i64: 0, 3, 1, 2>}
    : ($x, tensor<36x9xf32>) -> (tensor<?x?x9xf32>, tensor<1x?x9xf32>, tensor<1x?x9xf32>) SUSPECT""",
        {"y": "tensor<?x?x9xf32>"},
        r"gate_order = array<i64: 0, 3, 1, 2>",
        "gate_order = array<i64: 0, 3, 2, 1>",
        {"x": normal(2, 3, 36)},
        weights={"w": normal(36, 9)},
    ),
    "attention-scale": Case("attention", right=r"2\.5\d*e-01", wrong="2.6e-01", **ATTENTION),
    "attention-causal": Case("attention", right="causal, ", wrong="", **ATTENTION),
    "cached-attention-window": Case(body=CACHED_TEXT, right="window = 36", wrong="window = 37", **CACHED),
    "cached-attention-cap": Case(body=CACHED_TEXT, right=r"3\.0\d*e\+00", wrong="3.1e+00", **CACHED),
    "cache-append": Case(
        body="%y = nn.cache_append(%c) <keys, f32, page = 32, transposed>, %k, %p, %s, %t : ($c, $k, $p, $s, $t) -> $c SUSPECT",
        arguments={"c": "pages x 2 x 16 x 32 x f32"} | APPENDED,
        inputs={"c": normal(4, 2, 16, 32)} | APPENDED_VALUES,
        **APPEND,
        **SWAPPED,
    ),
    # The slots that change are few among those of the cache.
    "cache-append-int8": Case(
        body="%y, %z = nn.cache_append(%c, %q) <values, ui8, page = 32>, %k, %p, %s, %t : ($c, $q, $k, $p, $s, $t) -> ($c, $q) SUSPECT",
        arguments={"c": "pages x 2 x 32 x 16 x i8", "q": "pages x 2 x 2 x 32 x i8"} | APPENDED,
        inputs={
            "c": RNG.integers(-128, 128, (40, 2, 32, 16), np.int8),
            "q": RNG.integers(-128, 128, (40, 2, 2, 32), np.int8),
        }
        | APPENDED_VALUES,
        tolerance=0.05,
        **APPEND | {"results": {"y": "$c", "z": "$q"}, "states": {"y": "c", "z": "q"}},
        **SWAPPED,
    ),
    "cache-append-e4m3": Case(
        body="""%r = nn.rope %k, %p, %f {attention_factor = 1.25 : f32} : ($k, $p, $f) -> $k
  %y = nn.cache_append(%c) <keys, f8E4M3FN, page = 32, transposed>, %r, %p, %s, %t : ($c, $k, $p, $s, $t) -> $c SUSPECT""",
        arguments={"c": "pages x 2 x 16 x 32 x i8", "f": "8 x f32"} | APPENDED,
        inputs={"c": RNG.integers(-128, 128, (40, 2, 16, 32), np.int8), "f": normal(8)} | APPENDED_VALUES,
        right=r"attention_factor = 1\.25\d*e\+00",
        wrong="attention_factor = 1.3",
        tolerance=0.05,
        **APPEND,
    ),
    "route": Case(
        "route",
        {"x": "tokens x 13 x f32"},
        "%i, %y = nn.route %x {normalize, top_k = 3 : i64} : ($x) -> (tensor<?x3xi32>, tensor<?x3xf32>) SUSPECT",
        {"i": "tensor<?x3xi32>", "y": "tensor<?x3xf32>"},
        "normalize, ",
        "",
        {"x": normal(6, 13)},
    ),
    "candidates": Case(
        "candidates",
        {"x": "tokens x 4 x f32", "t": "tokens x 4 x f32"},
        "%y, %i, %s = nn.candidates %x, %t {count = 3 : i64} : ($x, $t) -> (tensor<?x3xf32>, tensor<?x3xi32>, $t) SUSPECT",
        {"y": "tensor<?x3xf32>", "i": "tensor<?x3xi32>", "s": "$t"},
        r"nn\.candidates (%\w+), (%\w+)",
        r"nn.candidates \2, \1",
        {"x": np.abs(normal(6, 4)) + 1, "t": np.abs(normal(6, 4)) + 1},
    ),
    "experts": Case(
        "experts",
        {
            "x": "tokens x 32 x f32",
            "i": "tokens x 2 x i32",
            "w": "tokens x 2 x f32",
            "gu": "4 x 2 x 48 x 32 x f32",
            "d": "4 x 32 x 48 x f32",
            "gb": "4 x 2 x 48 x f32",
        },
        EXPERTS_TEXT,
        {"y": "$x"},
        r"alpha = 1\.7\d*e\+00",
        "alpha = 1.75e+00",
        {
            "x": normal(5, 32),
            "i": np.array([[0, 1], [2, 3], [1, 3], [3, 0], [2, 1]], np.int32),
            "w": np.abs(normal(5, 2)),
            "gu": normal(4, 2, 48, 32) / 6,
            "d": normal(4, 32, 48) / 7,
            "gb": normal(4, 2, 48),
        },
    ),
    "layer-norm": rows(
        "nn.layer_norm %x, %g, %b {epsilon = 1.0e-5 : f32} : ($x, $g, $b) -> $x",
        r"epsilon = \S+",
        "epsilon = 1.0e-3",
        {"g": ("37 x f32", normal(37)), "b": ("37 x f32", normal(37))},
    ),
    "rms-norm": rows(
        "nn.rms_norm %x, %g {epsilon = 1.0e-6 : f32} : ($x, $g) -> $x",
        r"epsilon = \S+",
        "epsilon = 1.0e-3",
        {"g": ("37 x f32", normal(37))},
    ),
    "group-norm": rows(
        "nn.group_norm %x, %g {epsilon = 1.0e-5 : f32, groups = 4 : i64} : ($x, $g) -> $x",
        "groups = 4",
        "groups = 2",
        {"g": ("64 x f32", normal(64))},
        features=64,
    ),
    "softmax": rows("nn.softmax %x : $x", r"nn\.softmax", "nn.sigmoid"),
    "embedding": Case(
        "rows",
        {"i": "n x i64", "t": "50 x 24 x f32"},
        "%h = nn.embedding %t, %i : ($t, $i) -> tensor<?x24xf32> SUSPECT\n  " + scaled("y", "h", "tensor<?x24xf32>"),
        {"y": "tensor<?x24xf32>"},
        r"4\.875\d*e\+00",
        "4.876e+00",
        {"i": integers(3, 49, 0, 17), "t": normal(50, 24)},
    ),
    "elementwise": Case(
        "rows",
        {"x": "n x 24 x f32"},
        scaled("y", "x", "$x") + " SUSPECT",
        {"y": "$x"},
        r"4\.875\d*e\+00",
        "-4.875e+00",
        {"x": normal(5, 24)},
    ),
    "rope": Case(
        "rows",
        {"x": "n x 3 x 16 x f32", "p": "n x i64", "f": "8 x f32"},
        "%y = nn.rope %x, %p, %f {interleaved} : ($x, $p, $f) -> $x SUSPECT",
        {"y": "$x"},
        r" \{interleaved\}",
        "",
        {
            "x": normal(4, 3, 16),
            "p": integers(0, 1, 5, 1000),
            "f": np.float32(10000.0) ** (-np.arange(8, dtype=np.float32) / 8),
        },
    ),
    "reduction": Case(
        "generic",
        {"x": "n x 37 x f32"},
        SUMS_TEXT,
        {"y": "tensor<37xf32>"},
        r"3\.75\d*e-01",
        "3.76e-01",
        {"x": normal(9, 37)},
    ),
    "gelu": rows("nn.gelu %x {form = #nn.gelu_form<tanh>} : $x", "<tanh>", "<erf>"),
    "silu": rows("nn.silu %x : $x", r"nn\.silu", "nn.sigmoid"),
}
