# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads an artifact, reads its files and calls each of its functions once.

call_artifact.py ARTIFACT [RESULTS.npz]    Exit code 3: Intarsia refuses, with a message on standard error.
"""

from __future__ import annotations

import sys
from pathlib import Path

import intarsia
import numpy as np

TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": np.uint16, "bool": np.bool_}


def input_of(value: intarsia.TensorType, sizes: dict[str, int]) -> np.ndarray:
    """Return numbers that the input takes; names of sizes get a small one each."""
    random = np.random.default_rng(5)
    shape = []
    for size, most in zip(value.shape, value.maxima, strict=True):
        if isinstance(size, str):
            size = sizes.setdefault(size, min(3 + len(sizes), most or 8))
        shape.append(size)
    if np.prod([float(size) for size in shape]) > 1e8:
        raise intarsia.Error(f"input '{value.name}' has the shape {shape}: not made here")
    if value.dtype in ("f32", "f64"):
        return random.standard_normal(shape).astype(TYPES[value.dtype])
    low, high = value.value_range or (0, 2)
    dtype = TYPES.get(value.dtype, getattr(np, value.dtype.replace("i", "int").replace("u8", "uint8"), None))
    return random.integers(low, max(low + 1, min(high, low + 64)), shape).astype(dtype)


def call(function: intarsia.Function) -> dict[str, np.ndarray]:
    """Return inputs and outputs by name; inputs that may be left out are."""
    sizes: dict[str, int] = {}
    needed = [value for value in function.signature.inputs if value.default is None]
    state = [value for value in needed if value.state]
    inputs = {value.name: input_of(value, sizes) for value in needed if not value.state}
    results = function(**inputs, **(intarsia.make_state(function, **sizes) if state else {}))
    results = results if isinstance(results, tuple) else (results,)
    outputs = {value.name: array for value, array in zip(function.signature.outputs, results, strict=True)}
    return inputs | outputs


def main() -> int:
    results: dict[str, np.ndarray] = {}
    try:
        module = intarsia.load(sys.argv[1], verify=False)
        for name in module.files:
            module.file(name)
        for name in module.functions:
            if name == "step":
                generator = intarsia.Generator(module, cache=1 << 26)
                ids = np.random.default_rng(5).integers(0, generator.vocabulary, min(9, generator.context)).tolist()
                results["input_ids"] = np.array([ids])
                results["logits"] = generator.logits([ids])[0][None]
            else:
                results |= call(module[name])
    except intarsia.Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    if len(sys.argv) > 2:
        np.savez(Path(sys.argv[2]), **results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
