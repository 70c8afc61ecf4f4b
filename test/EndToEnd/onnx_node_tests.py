#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the node tests of the standard (onnx.backend.test) and counts those that are right, wrong and refused, by reason.

It needs the `onnx` package: `PYTHONPATH=build/dev/python .venv-bench/bin/python test/EndToEnd/onnx_node_tests.py`.
A test gives all inputs of its op as inputs of the call. Where an op has to know one of them when it is compiled (axes,
pads, the shape of a Reshape), the test is run again with its small inputs as constants of the model.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper

COMPILER = Path(os.environ.get("INTARSIA_BUILD_DIR", "build/dev")) / "bin" / "intarsia-compile"
MUST_BE_KNOWN = "must be known to the compiler"
#: Inputs with at most so many elements become constants where an op must know them.
SMALL = 64


def tensors_of(values: Any) -> list[np.ndarray] | None:
    """Return inputs or outputs as arrays; None if one is a sequence, a text or nothing."""
    arrays = []
    for value in values:
        if isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value)
        if isinstance(value, (bool, int, float)) or np.isscalar(value):
            value = np.asarray(value)
        if not isinstance(value, np.ndarray) or value.dtype.kind in "OUS":
            return None
        arrays.append(value)
    return arrays


def with_constants(
    model: onnx.ModelProto, inputs: dict[str, np.ndarray]
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return the model with its small inputs but the first as constants, and the inputs that are left."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    first = next(iter(inputs))
    left = {}
    for name, value in inputs.items():
        if (name == first and value.ndim > 1) or value.size > SMALL or value.ndim > 1:
            left[name] = value
            continue
        changed.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    kept = [info for info in changed.graph.input if info.name in left]
    del changed.graph.input[:]
    changed.graph.input.extend(kept)
    return changed, left


def compile_and_run(model: onnx.ModelProto, inputs: dict[str, np.ndarray], folder: str) -> list[np.ndarray] | str:
    """Return the results of a model, or why there are none."""
    import intarsia

    path, artifact = Path(folder) / "m.onnx", Path(folder) / "m.itx"
    path.write_bytes(model.SerializeToString())
    try:
        done = subprocess.run([COMPILER, path, "-o", artifact], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "the compiler takes more than 60 s"
    if done.returncode < 0 or done.returncode > 1:
        return f"crash: {done.stderr.strip().splitlines()[:1]}"
    if done.returncode:
        return done.stderr.strip() or "no message"
    try:
        results = intarsia.load(artifact).main(**inputs) if all(map(str.isidentifier, inputs)) else None
        if results is None:
            results = intarsia.load(artifact).main(*inputs.values())
    except Exception as error:  # whatever a call says is counted
        return f"call: {error}"
    return list(results) if isinstance(results, tuple) else [results]


def run(number: int) -> tuple[str, str, str]:
    """Return the name of a test, and "right", "wrong" or "refused" with the reason."""
    case = CASES[number]
    name = case.name
    if case.data_sets is None or case.model is None:
        return name, "refused", "has no data"
    with tempfile.TemporaryDirectory() as folder:
        for given, wanted in case.data_sets:
            arrays, expected = tensors_of(given), tensors_of(wanted)
            if arrays is None or expected is None:
                return name, "refused", "passes values that are no tensors of numbers"
            stored = {tensor.name for tensor in case.model.graph.initializer}
            names = [info.name for info in case.model.graph.input if info.name not in stored]
            inputs = dict(zip(names, arrays, strict=False))  # tests give fewer than there are
            got = compile_and_run(case.model, inputs, folder)
            if isinstance(got, str) and MUST_BE_KNOWN in got and inputs:
                got = compile_and_run(*with_constants(case.model, inputs), folder)
            if isinstance(got, str):
                return name, "crash" if got.startswith("crash") else "refused", got
            if len(got) != len(expected):
                return name, "wrong", f"there are {len(got)} results, not {len(expected)}"
            for number, (one, other) in enumerate(zip(got, expected, strict=True)):
                try:
                    if one.dtype != other.dtype and str(one.dtype) != str(other.dtype):
                        return name, "wrong", f"result {number} is {one.dtype}, not {other.dtype}"
                    if one.shape != other.shape:
                        return name, "wrong", f"result {number} is of shape {one.shape}, not {other.shape}"
                    if other.dtype.kind in "fV" or str(other.dtype).startswith(("bfloat", "float")):
                        # Elements of 16 bits are rounded by each op of a kernel, or once.
                        least = {"bfloat16": 2e-2, "float16": 2e-3}.get(str(other.dtype), 0)
                        np.testing.assert_allclose(
                            one.astype(np.float64),
                            other.astype(np.float64),
                            rtol=max(case.rtol, 1e-3, least),
                            atol=max(case.atol, 1e-6, least),
                        )
                    else:
                        np.testing.assert_array_equal(one, other)
                except AssertionError as error:
                    return name, "wrong", " ".join(str(error).split())[:200]
    return name, "right", ""


def collect(pattern: str) -> list[Any]:
    """Return the tests whose names a pattern is found in."""
    import warnings

    warnings.simplefilter("ignore")
    from onnx.backend.test.case import node

    found = [case for case in node.collect_testcases(None) if re.search(pattern, case.name)]
    return sorted(found, key=lambda case: case.name)


def reason_of(text: str) -> str:
    """Return a reason without names and numbers, so that equal ones are counted together."""
    lines = text.splitlines()
    if lines and "kinds of nodes" in lines[0] and len(lines) > 1:
        lines = lines[1:2]
    line = next((each for each in lines if "error" in each), lines[0] if lines else "")
    line = re.sub(r"^error: m\.onnx: |^error: ", "", line.strip())
    line = re.sub(r"^node '[^']*'( and \d+ more)? ", "", line)
    line = re.sub(r"'[a-zA-Z_]*\d+[^']*'", "'…'", line)
    return line[:150]


def main() -> int:
    """Print counts, and write what each test came to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pattern", nargs="?", default="", help="tests to run: a regular expression")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="writes what each test came to")
    parser.add_argument("--list", action="store_true", help="prints each test that is not right")
    given = parser.parse_args()
    global CASES
    CASES = collect(given.pattern)
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as pool:
        results = list(pool.map(run, range(len(CASES)), chunksize=4))
    counts = collections.Counter(kind for _, kind, _ in results)
    reasons = collections.Counter((kind, reason_of(why)) for _, kind, why in results if kind != "right")
    for (kind, why), count in reasons.most_common():
        print(f"{count:5} {kind}: {why}")
    if given.list:
        for name, kind, why in results:
            if kind != "right":
                print(f"{kind} {name}: {why}")
    if given.json:
        given.json.write_text(json.dumps({name: [kind, why] for name, kind, why in results}, indent=1))
    print(", ".join(f"{kind} {count}" for kind, count in counts.most_common()), f"of {len(results)}")
    return 0


CASES: list[Any] = []
if __name__ == "__main__":
    sys.exit(main())
