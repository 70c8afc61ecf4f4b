#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the node tests of the standard (onnx.backend.test) and counts those that are right, wrong and refused, by reason.

It needs the `onnx` package: `PYTHONPATH=build/dev/python .venv-bench/bin/python test/EndToEnd/onnx_node_tests.py`.
A test gives all inputs of its op as inputs of the call. Where an op has to know one of them when it is compiled (axes,
pads, the shape of a Reshape), the test is run again with its small inputs as constants of the model. Sequences and
optional values are made of tensors inside of the model, and taken apart there. With `--dynamic` each dimension of each
input is a size of the call of its own.
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


def array_of(value: Any) -> np.ndarray | None:
    """Return a tensor as an array; None for texts and what is no tensor."""
    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    if isinstance(value, (bool, int, float)) or np.isscalar(value):
        value = np.asarray(value)
    return value if isinstance(value, np.ndarray) and value.dtype.kind not in "OUS" else None


def info_of(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    """Return an input for an array."""
    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element, array.shape)


def is_tensor(info: onnx.ValueInfoProto) -> bool:
    return info.type.HasField("tensor_type")


def with_tensors(
    model: onnx.ModelProto, given: list[Any], wanted: list[Any]
) -> tuple[onnx.ModelProto, dict[str, np.ndarray], list[np.ndarray]] | None:
    """Return a model whose inputs and results are tensors, with them; None if one is a text or a map.

    A sequence is constructed of tensors, a result that is one is taken apart, with its length.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    stored = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in stored]
    inputs, expected, before, after, kept, results = {}, [], [], [], [], []
    for info, value in zip(infos, given, strict=False):  # tests give fewer than there are
        array = array_of(value)
        if array is not None:
            inputs[info.name] = array
            kept.append(info if is_tensor(info) else info_of(info.name, array))
            continue
        if value is None:
            before.append(onnx.helper.make_node("Optional", [], [info.name]))
            continue
        parts = [array_of(part) for part in value] if isinstance(value, list) else [None]
        if any(part is None for part in parts):
            return None
        names = [f"{info.name}_{number}" for number in range(len(parts))]
        inputs.update(zip(names, parts, strict=True))
        kept.extend(map(info_of, names, parts))
        kind = info.type.optional_type.elem_type if info.type.HasField("optional_type") else info.type
        empty = onnx.helper.make_node(
            "SequenceEmpty", [], [info.name], dtype=kind.sequence_type.elem_type.tensor_type.elem_type
        )
        before.append(onnx.helper.make_node("SequenceConstruct", names, [info.name]) if parts else empty)
    for info, value in zip(model.graph.output, wanted, strict=True):
        array = array_of(value)
        if array is not None:
            expected.append(array)
            results.append(info_of(info.name, array))
            continue
        parts = [array_of(part) for part in value] if isinstance(value, list) else [None]
        if any(part is None for part in parts):
            return None
        length = f"{info.name}_length"
        after.append(onnx.helper.make_node("SequenceLength", [info.name], [length]))
        for number, part in enumerate(parts):
            place, name = f"{info.name}_place{number}", f"{info.name}_{number}"
            after.append(onnx.helper.make_node("Constant", [], [place], value_int=number))
            after.append(onnx.helper.make_node("SequenceAt", [info.name, place], [name]))
            results.append(info_of(name, part))
        results.append(info_of(length, np.asarray(0)))
        expected.extend([*parts, np.asarray(len(parts))])
    nodes = [*before, *model.graph.node, *after]
    del changed.graph.node[:], changed.graph.input[:], changed.graph.output[:]
    changed.graph.node.extend(nodes)
    changed.graph.input.extend([*kept, *(info for info in model.graph.input if info.name in stored)])
    changed.graph.output.extend(results)
    return changed, inputs, expected


def with_sizes(model: onnx.ModelProto) -> None:
    """Make each dimension of each input a size of the call."""
    for info in model.graph.input:
        for number, dimension in enumerate(info.type.tensor_type.shape.dim):
            dimension.dim_param = f"{info.name}.{number}"


def as_passed(array: np.ndarray) -> np.ndarray:
    """Return an array as calls pass it: floats of 8 bits and fewer by their bits, integers of 4 and 2 bits as bytes."""
    name = str(array.dtype)
    if name in ("int4", "int2", "uint4", "uint2"):
        return array.astype(np.int8 if name.startswith("int") else np.uint8)
    return array.view(np.uint8) if name.startswith(("float8_", "float6_", "float4_")) else array


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
    inputs = {name: as_passed(value) for name, value in inputs.items()}
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
            tensors = with_tensors(case.model, given, wanted)
            if tensors is None:
                return name, "refused", "passes values that are no tensors of numbers"
            model, inputs, expected = tensors
            if IS_DYNAMIC:
                with_sizes(model)
            got = compile_and_run(model, inputs, folder)
            if isinstance(got, str) and MUST_BE_KNOWN in got and inputs:
                got = compile_and_run(*with_constants(model, inputs), folder)
            if isinstance(got, str):
                return name, "crash" if got.startswith("crash") else "refused", got
            if len(got) != len(expected):
                return name, "wrong", f"there are {len(got)} results, not {len(expected)}"
            for number, (one, other) in enumerate(zip(got, map(as_passed, expected), strict=True)):
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
    parser.add_argument("--dynamic", action="store_true", help="makes all dimensions of inputs sizes of the call")
    parser.add_argument("--list", action="store_true", help="prints each test that is not right")
    given = parser.parse_args()
    global CASES, IS_DYNAMIC
    CASES, IS_DYNAMIC = collect(given.pattern), given.dynamic
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
IS_DYNAMIC = False
if __name__ == "__main__":
    sys.exit(main())
