# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles kernels for the reference device and runs them as its driver does, through ctypes.

A result is off by one rounding: half a unit in the last place of its type.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
from pathlib import Path

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)


class ReferenceObject:
    """The kernels of a module with `rt.kernel`s, by their index."""

    def __init__(self, tools, mlir: str, folder: Path) -> None:
        source, output = folder / "kernels.mlir", folder / "kernels.so"
        source.write_text(mlir)
        option = f"--test-reference-object=output={output} triple={platform.machine()}-unknown-linux-gnu"
        tools.run("intarsia-test-opt", source, option, "-o", "/dev/null")
        self.library = ctypes.CDLL(str(output))
        c, m = ctypes.CDLL(None), ctypes.CDLL(ctypes.util.find_library("m"))
        # The end of the list is a null pointer, so at least one element is there.
        names = (ctypes.c_char_p * 1000).in_dll(self.library, "itx_reference_imports")
        self.imports: list[str] = []
        while names[len(self.imports)] is not None:
            self.imports.append(names[len(self.imports)].decode())
        functions = (ctypes.c_void_p * max(len(self.imports), 1)).in_dll(self.library, "itx_reference_functions")
        for index, name in enumerate(self.imports):
            function = getattr(c if name in ("malloc", "free") else m, name)
            functions[index] = ctypes.cast(function, ctypes.c_void_p).value

    def __call__(
        self, kernel: int, inputs: list[np.ndarray], outputs: list[np.ndarray], sizes: tuple[int, ...] = ()
    ) -> list[np.ndarray]:
        """Run a kernel; outputs, which may be inputs, are filled and returned."""
        for array in (*inputs, *outputs):
            assert array.flags.c_contiguous
        buffers = (ctypes.c_void_p * (len(inputs) + len(outputs)))(*(a.ctypes.data for a in (*inputs, *outputs)))
        self.library[f"itx_reference_kernel_{kernel}"](buffers, (ctypes.c_int64 * max(len(sizes), 1))(*sizes))
        return outputs


def close(actual: np.ndarray, expected: np.ndarray, tolerance: float = 2**-24) -> None:
    """Compare; the tolerance is relative to the largest magnitude, or to 1."""
    expected = np.asarray(expected, np.float64)
    np.testing.assert_allclose(
        np.asarray(actual, np.float64), expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max(initial=0))
    )


def kernel(name: str, root: str, arguments: str, results: str, body: str, sizes: str = "") -> str:
    """Return the text of an `rt.kernel`."""
    return (
        f"rt.kernel @{name}({arguments}) -> ({results}) attributes {{root = #nn.root<{root}>, sizes = [{sizes}]}} {{\n"
        f"{body}\n}}\n"
    )
