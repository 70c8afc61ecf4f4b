# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random uses of one op: its text, operands with sizes that are dynamic or not, and what NumPy says of its results."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from random_numbers import RNG, normal

BF16 = np.dtype(ml_dtypes.bfloat16)
#: What MLIR calls an element type.
TYPES = {
    np.dtype(np.float64): "f64", np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", BF16: "bf16",
    np.dtype(bool): "i1", np.dtype(np.int8): "i8", np.dtype(np.int16): "i16", np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
}  # fmt: skip
#: Half of the distance between two numbers around 1.
UNITS = {np.dtype(np.float64): 2.0**-53, np.dtype(np.float32): 2.0**-24, np.dtype(np.float16): 2.0**-11, BF16: 2.0**-8}


def chance(probability: float = 0.5) -> bool:
    return bool(RNG.uniform() < probability)


def pick(*choices):
    return choices[int(RNG.integers(len(choices)))]


def some_size(largest: int, least: int = 0) -> int:
    """Draw a size: 1 and the least ones more often than others."""
    return (
        min(largest, pick(least, 1, 2)) if chance(0.2) and least < 2 else int(RNG.integers(max(least, 1), largest + 1))
    )


def some_float() -> np.dtype:
    return np.dtype(pick(np.float32, np.float32, np.float16, ml_dtypes.bfloat16))


def some_number() -> np.dtype:
    """Draw any type that ops which only move or compare elements take."""
    return np.dtype(pick(np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.int16, np.int32, np.int64))


def some_values(shape: tuple[int, ...], dtype: np.dtype, coarse: bool = False) -> np.ndarray:
    """Draw elements; coarse ones are often equal, and some are NaN, infinite or -0."""
    if dtype.kind == "b":
        return RNG.integers(0, 2, shape).astype(bool)
    if dtype.kind == "i":
        return RNG.integers(-3, 4, shape).astype(dtype) if coarse else RNG.integers(-100, 101, shape).astype(dtype)
    x = normal(*shape) * (2 if coarse else 1)
    if coarse:
        x = np.round(x)
        for special in (np.nan, np.inf, -np.inf, -0.0):
            x[RNG.uniform(size=shape) < 0.03] = special
    return x.astype(dtype)


def is_float(dtype: np.dtype) -> bool:
    return dtype in UNITS


def array(name: str, values, kind: str = "i64") -> str:
    """Write an attribute; floats as f32 has them."""
    listed = ", ".join(str(int(v)) if kind[0] == "i" else f"{float(np.float32(v)):.10e}" for v in values)
    return f"{name} = array<{kind}{': ' if listed else ''}{listed}>"


@dataclass
class Case:
    """Operands and results, each with a letter for each dimension: ``N`` may be dynamic, what follows from it is ``n``,
    and ``.`` is always static."""

    op: str
    operands: dict[str, tuple[np.ndarray, str]]
    results: list[tuple[np.ndarray, str]]
    tolerance: float = 0  # 0: results are exact
    wild: frozenset[str] = frozenset()  # letters that are dynamic
    cut: tuple[int, ...] = ()  # of results with more rows than are expected, those behind them are -1

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        for value, letters in self.operands.values():
            assert value.ndim == len(letters), (value.shape, letters)
            for size, letter in zip(value.shape, letters, strict=True):
                assert sizes.setdefault(letter, size) == size or letter == ".", (self.op, letter)
        # Calls have no size of 0.
        letters = sorted(letter for letter, size in sizes.items() if size and letter != ".")
        self.wild = frozenset(letter for letter in letters if chance()) if chance(0.8) else frozenset()

    def kind(self, value: np.ndarray, letters: str) -> str:
        sizes = ["?" if a.upper() in self.wild else str(n) for a, n in zip(letters, value.shape, strict=True)]
        return "tensor<" + "".join(f"{size}x" for size in sizes) + TYPES[value.dtype] + ">"

    def function(self, name: str) -> str:
        arguments = []
        for key, (value, letters) in self.operands.items():
            named = ", ".join(f'"{a if a in self.wild else ""}"' for a in letters)
            sizes = f", nn.sizes = [{named}]" if self.wild.intersection(letters) else ""
            arguments.append(f'%{key}: {self.kind(value, letters)} {{nn.name = "{key}"{sizes}}}')
        inputs = ", ".join(self.kind(*each) for each in self.operands.values())
        results = [self.kind(*each) for each in self.results]
        named = ", ".join(f'{kind} {{nn.name = "r{i}"}}' for i, kind in enumerate(results))
        values = ", ".join(f"%r#{i}" for i in range(len(results)))
        return f"""func.func @{name}({", ".join(arguments)}) -> ({named}) {{
          %r:{len(results)} = {self.op} : ({inputs}) -> ({", ".join(results)})
          return {values} : {", ".join(results)} }}
        """

    def check(self, module, name: str) -> None:
        found = getattr(module, name)(*(value for value, _ in self.operands.values()))
        found = found if isinstance(found, (list, tuple)) else [found]
        for number, (actual, (expected, _)) in enumerate(zip(found, self.results, strict=True)):
            if actual.dtype == BF16 or expected.dtype == BF16:
                actual, expected = actual.astype(np.float64), expected.astype(np.float64)
            assert actual.shape == expected.shape, (name, number)
            if not self.tolerance or expected.dtype.kind in "bi":
                np.testing.assert_array_equal(actual, expected)
                continue
            largest = np.abs(expected[np.isfinite(expected)], dtype=np.float64).max(initial=0)
            np.testing.assert_allclose(
                actual.astype(np.float64), expected, 0, self.tolerance * max(largest, 1), equal_nan=True
            )
