# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs nn IR through its reference lowering: intarsia-opt, mlir-translate and clang make a library, ctypes calls it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

# Tensors become dense buffers, loops become branches, results become arguments behind the inputs.
PASSES = [
    "--lower-nn-to-reference",
    "--convert-elementwise-to-linalg",
    "--one-shot-bufferize=bufferize-function-boundaries allow-return-allocs-from-loops function-boundary-type-conversion=identity-layout-map",
    "--buffer-results-to-out-params=modify-public-functions=true",
    "--convert-linalg-to-loops",
    "--expand-strided-metadata",
    "--lower-affine",
    "--convert-scf-to-cf",
    "--convert-math-to-llvm",
    "--convert-math-to-libm",
    "--convert-arith-to-llvm",
    "--finalize-memref-to-llvm",
    "--convert-func-to-llvm",
    "--convert-cf-to-llvm",
    "--reconcile-unrealized-casts",
]


def llvm_tool(name: str) -> str:
    """Find a program of LLVM 22, by its Debian name or in its own folder."""
    found = shutil.which(f"{name}-22") or shutil.which(name, path="/usr/lib/llvm-22/bin") or shutil.which(name)
    assert found is not None, f"{name} of LLVM 22 is missing; `make setup` installs it"
    return found


def runner_utilities() -> list[str]:
    """Give what links MLIR's library that copies buffers of any strides."""
    folder = run([llvm_tool("llvm-config"), "--libdir"]).strip()
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lmlir_c_runner_utils"]


def run(command: list[str], text: str | None = None) -> str:
    result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300)
    if result.returncode != 0:
        pytest.fail(f"{' '.join(command)}\nended with {result.returncode}:\n{result.stderr[:4000]}")
    return result.stdout


def described(array: np.ndarray) -> list[ctypes.c_void_p | ctypes.c_int64]:
    """Give the arguments that a memref of an array is: its pointers, offset, sizes and strides in elements."""
    pointer = ctypes.c_void_p(array.ctypes.data)
    sizes = [*array.shape, *(stride // array.itemsize for stride in array.strides)]
    return [pointer, pointer, *(ctypes.c_int64(number) for number in (0, *sizes))]


class Reference:
    """Functions compiled from MLIR text. Their sizes may be dynamic."""

    def __init__(self, opt: Path, mlir: str, folder: Path) -> None:
        lowered = run([str(opt), *PASSES], mlir)
        source, library = folder / "reference.ll", folder / "reference.so"
        source.write_text(run([llvm_tool("mlir-translate"), "--mlir-to-llvmir"], lowered))
        run(
            [
                llvm_tool("clang"),
                "-O1",
                "-march=native",
                "-shared",
                "-fPIC",
                "-w",
                # Where the processor has no instruction from f32 to bf16, its function does it.
                "-rtlib=compiler-rt",
                str(source),
                "-lm",
                *runner_utilities(),
                "-o",
                str(library),
            ]
        )
        self.library = ctypes.CDLL(os.fspath(library))

    def __call__(self, function: str, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> list[np.ndarray]:
        """Call a function; outputs are filled and returned. 4-bit elements lie one a byte, in its low half.

        An input that the function updates in place may change.
        """
        buffers = [np.asarray(value, order="C") for value in inputs] + outputs
        getattr(self.library, function)(*[argument for buffer in buffers for argument in described(buffer)])
        return outputs


def nearest(actual: np.ndarray, expected: np.ndarray) -> None:
    """Demand that no number of the type is nearer, but for what f64 rounds.

    Sums of at most 64 values around 1 may differ by 1e-13, as their order does.
    """
    slack = 1e-13 * np.maximum(1, np.abs(expected))
    bounds = [np.nextafter(actual, np.full_like(actual, side)).astype(np.float64) for side in (-np.inf, np.inf)]
    low, high = ((bound + actual.astype(np.float64)) / 2 for bound in bounds)
    wrong = ~((low - slack <= expected) & (expected <= high + slack))
    assert not wrong.any(), f"{actual[wrong][:4]} is not nearest to {expected[wrong][:4]}"
