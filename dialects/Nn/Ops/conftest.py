# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of references share.

A reference computes in f64 and rounds once, so every result is the number of its type that is nearest to NumPy's in
double precision (`reference.nearest`).
"""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from reference import Reference

TYPES = {
    np.dtype(np.float32): "f32",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(bool): "i1",
    np.dtype(np.int8): "i8",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
}


@pytest.fixture
def evaluate(tools, tmp_path: Path):
    """Run one op on arrays. With `dynamic` it sees every size as dynamic, so that no static shape helps it.

    `result_of` says which result is returned, and how many the op has."""

    def run(
        op: str, inputs: list[np.ndarray], shape: tuple[int, ...], dynamic: bool = False, dtype=np.float32,
        result_of: tuple[int, int] = (0, 1),
    ) -> np.ndarray:  # fmt: skip
        number, results = result_of

        def tensor(sizes: tuple[int, ...], element: str, wild: tuple[int, ...] = ()) -> str:
            return "tensor<" + "".join(f"{'?' if d in wild else n}x" for d, n in enumerate(sizes)) + element + ">"

        static = [tensor(value.shape, TYPES[value.dtype]) for value in inputs]
        inner, casts = static, ""
        result = tensor(shape, TYPES[np.dtype(dtype)])
        loose = result
        if dynamic:
            # Batch and sequence only: head counts and features are static in the op's contract.
            inner = [
                tensor(v.shape, TYPES[v.dtype], (0, 1) if v.ndim > 2 else (0,) if v.ndim == 2 else ()) for v in inputs
            ]
            loose = tensor(shape, TYPES[np.dtype(dtype)], (0, 1) if len(shape) > 2 else (0,))
            casts = "".join(
                f"%v{i} = tensor.cast %a{i} : {s} to {d}\n"
                for i, (s, d) in enumerate(zip(static, inner, strict=True))
                if s != d
            )
        names = [f"%v{i}" if dynamic and static[i] != inner[i] else f"%a{i}" for i in range(len(inputs))]
        body = op.format(*names, types=f"({', '.join(inner)}) -> {loose}", type=loose)
        name = f"%r#{number}"
        back = "" if loose == result else f"%s = tensor.cast {name} : {loose} to {result}"
        arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(static))
        mlir = f"""
            func.func @f({arguments}) -> {result} {{
              {casts}
              %r:{results} = {body}
              {back}
              return {"%s" if back else name} : {result}
            }}"""
        folder = tmp_path / str(len(list(tmp_path.iterdir())))  # a library that was loaded from a path stays
        folder.mkdir()
        return Reference(tools.path("intarsia-opt"), mlir, folder)("f", inputs, [np.full(shape, np.nan, dtype)])[0]

    return run
