#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the tests of the ONNX standard through intarsia.onnx.Backend and holds them to a list of those that are refused.

It needs the `onnx` package: `make test-onnx`, or
`PYTHONPATH=build/dev/python .venv-bench/bin/python test/EndToEnd/onnx_node_tests.py PATTERN`.
A node test gives all inputs of its op as inputs of the call; the backend makes constants of those that an op has to know
when it is compiled (axes, pads, the shape of a Reshape). A test fails that is not right and not in onnx-known.txt, and so
does one of that list that is right, crashes or gives wrong results. With `--models` lines of the list that name no test
fail too. `--write-known` takes out what is right or names no test.
With `--dynamic` each dimension of each input is a size of the call of its own, and the list is not read: no test may crash
or give wrong results, and `--least-share` says how many must be right.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import multiprocessing
import random
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.backend.test
import onnx.numpy_helper
from intarsia.onnx import Backend
from onnx_sequences import with_tensors

KNOWN = Path(__file__).with_name("onnx-known.txt")
HEADER = """\
# Tests of the ONNX standard that are not right, with the reason: the list may only get shorter. A line begins with the
# target where it holds for that alone. onnx_node_tests.py --write-known takes out what is right by now.
"""
#: Seconds that one test may take.
LONGEST = 120
#: Tests that one process runs, after which another one takes over: a crash ends one test and no more.
TESTS_OF_PROCESS = 16


class Case(NamedTuple):
    """A test: a model in memory or in a file, and pairs of inputs and expected outputs."""

    name: str
    model: Any
    data_sets: Any
    rtol: float
    atol: float


class Outcome(NamedTuple):
    """What a test came to: "right", "wrong", "refused" or "crash"."""

    name: str
    kind: str
    reason: str = ""


def difference(got: np.ndarray, wanted: np.ndarray, case: Case) -> str:
    """Return how a result differs from the expected one; empty if it does not."""
    if got.dtype != wanted.dtype:
        return f"is {got.dtype}, not {wanted.dtype}"
    if got.shape != wanted.shape:
        return f"is of shape {got.shape}, not {wanted.shape}"
    try:
        if wanted.dtype.name.startswith(("float8_", "float6_", "float4_", "int4", "int2", "uint4", "uint2")):
            np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))
        elif wanted.dtype.kind in "fVc" or wanted.dtype.name.startswith(("bfloat", "float")):
            # Elements of 16 bits are rounded by each op of a kernel, or once.
            least = {"bfloat16": 2e-2, "float16": 2e-3}.get(wanted.dtype.name, 0)
            np.testing.assert_allclose(
                got.astype(np.float64),
                wanted.astype(np.float64),
                rtol=max(case.rtol, 1e-3, least),
                atol=max(case.atol, 1e-6, least),
            )
        else:
            np.testing.assert_array_equal(got, wanted)
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return ""


def with_open_sizes(model: onnx.ModelProto) -> None:
    """Make each dimension of each input a size of the call."""
    stored = {tensor.name for tensor in model.graph.initializer}
    for info in model.graph.input:
        if info.name in stored:
            continue
        for number, dimension in enumerate(info.type.tensor_type.shape.dim):
            dimension.dim_param = f"{info.name}.{number}"


def run(case: Case, target: str, has_open_sizes: bool) -> Outcome:
    """Run a test."""
    if case.data_sets is None or case.model is None:
        return Outcome(case.name, "refused", "has no data")
    model = onnx.load(case.model) if isinstance(case.model, Path) else case.model
    for given, wanted in case.data_sets:
        tensors = with_tensors(model, given, wanted)
        if tensors is None:
            return Outcome(case.name, "refused", "passes values that are no tensors of numbers")
        changed, inputs, expected = tensors
        if has_open_sizes:
            with_open_sizes(changed)
        try:
            results = Backend.prepare(changed, target=target).run(inputs)
        except TimeoutError:
            return Outcome(case.name, "wrong", f"takes more than {LONGEST} s")
        except Exception as error:  # whatever is said is counted
            text = str(error).strip()
            is_crash = "ended with code" in text or "PLEASE submit a bug report" in text
            return Outcome(case.name, "crash" if is_crash else "refused", text or type(error).__name__)
        if len(results) != len(expected):
            return Outcome(case.name, "wrong", f"there are {len(results)} results, not {len(expected)}")
        for number, (one, other) in enumerate(zip(results, expected, strict=True)):
            if what := difference(np.asarray(one), other, case):
                return Outcome(case.name, "wrong", f"result {number} {what}")
    return Outcome(case.name, "right")


# ---- Tests of the package ---------------------------------------------------------------------------------------


def node_cases() -> Iterator[Case]:
    """Return the tests of single ops, which the package makes in memory."""
    from onnx.backend.test.case import node

    for case in node.collect_testcases(None):
        yield Case(case.name, case.model, case.data_sets, case.rtol, case.atol)


def read(file: Path, kind: type[Any]) -> Any:
    """Return a message that a file holds."""
    message = kind()
    message.ParseFromString(file.read_bytes())
    return message


def model_cases(is_read: Callable[[str], bool]) -> Iterator[Case]:
    """Return the tests whose models are files of the package; those that are not read have a name only."""
    from onnx.backend.test.loader import load_model_tests

    data = Path(onnx.backend.test.__file__).parent / "data"
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        for case in load_model_tests(kind=kind):
            if not is_read(case.name):
                yield Case(case.name, None, None, case.rtol, case.atol)
                continue
            folder = Path(case.model_dir)
            graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
            stored = {tensor.name for tensor in graph.initializer}
            inputs = [info for info in graph.input if info.name not in stored]
            sets = [
                (values_in(each, "input", inputs), values_in(each, "output", graph.output))
                for each in sorted(folder.glob("test_data_set*"))
            ]
            yield Case(case.name, folder / "model.onnx", sets, case.rtol, case.atol)
    for file in sorted((data / "light").glob("*.onnx")):
        name = f"test_{file.stem}"
        yield Case(name, file, [light_data(file)] if is_read(name) else None, 1e-3, 1e-6)


def values_in(folder: Path, what: str, infos: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    """Return the inputs or outputs that the files of a folder hold, as their types say."""
    values = []
    for number, info in enumerate(infos):
        file = folder / f"{what}_{number}.pb"
        if not file.exists():
            break
        if info.type.HasField("sequence_type"):
            values.append(onnx.numpy_helper.to_list(read(file, onnx.SequenceProto)))
        elif info.type.HasField("optional_type"):
            values.append(onnx.numpy_helper.to_optional(read(file, onnx.OptionalProto)))
        else:
            values.append(read(file, onnx.TensorProto))
    return values


def light_data(file: Path) -> Any:
    """Return the inputs that the package's own runner makes for a model of its folder "light", and what it expects."""
    graph = onnx.load(file, load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    inputs = []
    for info in graph.input:
        if info.name not in stored:
            shape = [size.dim_value or 1 for size in info.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
    outputs = [
        read(file.with_name(f"{file.stem}_output_{number}.pb"), onnx.TensorProto) for number in range(len(graph.output))
    ]
    return inputs, outputs


# ---- Many tests -------------------------------------------------------------------------------------------------


def run_some(cases: Sequence[Case], target: str, has_open_sizes: bool, results: Connection) -> None:
    """Run tests in a process of their own, and send what each came to."""
    warnings.simplefilter("ignore")

    def end(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, end)
    for case in cases:
        signal.alarm(LONGEST)
        outcome = run(case, target, has_open_sizes)
        signal.alarm(0)
        results.send(outcome)
    results.close()


def run_all(cases: Sequence[Case], target: str, has_open_sizes: bool) -> list[Outcome]:
    """Run tests one after another; a process that ends early has crashed in the test that it was at."""
    outcomes: list[Outcome] = []
    context = multiprocessing.get_context("fork")
    while len(outcomes) < len(cases):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=run_some, args=(cases[len(outcomes) :], target, has_open_sizes, sender), daemon=True
        )
        process.start()
        sender.close()
        try:
            while len(outcomes) < len(cases):
                outcomes.append(receiver.recv())
        except EOFError:
            process.join()
            outcomes.append(Outcome(cases[len(outcomes)].name, "crash", f"ended the process: {process.exitcode}"))
        process.join()
    return outcomes


def reason_of(text: str) -> str:
    """Return a reason in one line, without names and numbers of the test, so that equal ones are counted together."""
    lines = text.splitlines() or [""]
    if "kinds of nodes" in lines[0] and len(lines) > 1:
        lines = lines[1:2]
    line = next((each for each in lines if "error" in each), lines[0])
    line = re.sub(r"^error: (m|model)\.onnx: |^error: ", "", line.strip())
    line = re.sub(r"^node '[^']*'( and \d+ more)? ", "", line)
    line = re.sub(r"'[a-zA-Z_]*\d+[^']*'", "'…'", line)
    return line[:150]


class Known:
    """The list of tests that are not right: lines "name: reason", or "target name: reason"."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lines: dict[tuple[str, str], str] = {}
        for line in file.read_text().splitlines() if file.exists() else []:
            if line and not line.startswith("#"):
                test, _, reason = line.partition(": ")
                target, _, name = test.rpartition(" ")
                self.lines[target, name] = reason

    def keys(self, name: str, target: str) -> list[tuple[str, str]]:
        """Return the lines that a test has: one for all targets, and one for a target."""
        return [key for key in (("", name), (target, name)) if key in self.lines]

    def write(self) -> None:
        """Write the list back."""
        ordered = sorted(self.lines.items())
        self.file.write_text(
            HEADER
            + "".join(f"{target + ' ' if target else ''}{name}: {reason}\n" for (target, name), reason in ordered)
        )


def main() -> int:
    """Print counts and what is new, and return 1 for a failure that is not known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pattern", nargs="*", default=[""], help="tests to run: regular expressions")
    parser.add_argument("--target", default="cpu", help="what to compile for: cpu, reference, emulated:sm_90a, …")
    parser.add_argument("--models", action="store_true", help="run the models among the package's files too")
    parser.add_argument("--dynamic", action="store_true", help="give names to all sizes of inputs")
    parser.add_argument("--least-share", type=float, default=0, help="share of tests with --dynamic that must be right")
    parser.add_argument("--sample", type=int, metavar="N", help="run so many of the tests, drawn with a fixed seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write what each test came to")
    parser.add_argument("--list", action="store_true", help="print each test that is not right")
    parser.add_argument("--known", type=Path, default=KNOWN, help="the list of tests that are not right")
    parser.add_argument("--write-known", action="store_true", help="take out of the list what is right")
    parser.add_argument("--add-known", action="store_true", help="add what is not right to the list")
    given = parser.parse_args()
    warnings.simplefilter("ignore")

    def is_meant(name: str) -> bool:
        return any(re.search(pattern, name) for pattern in given.pattern)

    every = [*node_cases(), *(model_cases(is_meant) if given.models else [])]
    cases = sorted((case for case in every if is_meant(case.name)), key=lambda case: case.name)
    if given.sample and given.sample < len(cases):
        cases = random.Random(given.seed).sample(cases, given.sample)
    parts = [cases[start : start + TESTS_OF_PROCESS] for start in range(0, len(cases), TESTS_OF_PROCESS)]
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        outcomes = [
            outcome
            for part in pool.map(lambda part: run_all(part, given.target, given.dynamic), parts)
            for outcome in part
        ]

    counts = collections.Counter(outcome.kind for outcome in outcomes)
    reasons = collections.Counter((each.kind, reason_of(each.reason)) for each in outcomes if each.kind != "right")
    for (kind, why), count in reasons.most_common():
        print(f"{count:5} {kind}: {why}")
    if given.list:
        for outcome in outcomes:
            if outcome.kind != "right":
                print(f"{outcome.kind} {outcome.name}: {outcome.reason}")
    if given.json:
        given.json.write_text(json.dumps({name: [kind, why] for name, kind, why in outcomes}, indent=1))
    print(", ".join(f"{kind} {count}" for kind, count in counts.most_common()), f"of {len(outcomes)}")
    if not given.dynamic:
        return compare(outcomes, {case.name for case in every} if given.models else None, given)
    # The list is of models as they are.
    share = counts["right"] / max(1, len(outcomes))
    if share < given.least_share:
        print(f"{100 * share:.1f} % are right, must be at least {100 * given.least_share:.1f} %")
    return int(share < given.least_share or counts["crash"] + counts["wrong"] > 0)


def compare(outcomes: list[Outcome], names: set[str] | None, given: argparse.Namespace) -> int:
    """Hold outcomes to the list, and the list to the names of all tests. Returns 1 for those that differ."""
    known = Known(given.known)
    target = "" if given.target == "cpu" else given.target
    # The list is of what is refused.
    worse = [each for each in outcomes if each.kind in ("crash", "wrong") and known.keys(each.name, target)]
    stale = [key for key in known.lines if names is not None and key[1] not in names]
    new = [each for each in outcomes if each.kind != "right" and not known.keys(each.name, target)]
    # What a target refuses may be right on others; a line for all holds where it was made.
    mended = [
        (name, key)
        for name, kind, _ in outcomes
        if kind == "right"
        for key in known.keys(name, target)
        if key[0] == target
    ]
    if given.add_known:
        known.lines |= {(target, each.name): f"{each.kind}: {reason_of(each.reason)}" for each in new}
        known.write()
        new = []
    if given.write_known:
        for _, key in mended:
            known.lines.pop(key, None)  # some tests have one name
        for key in stale:
            known.lines.pop(key)
        known.write()
        mended, stale = [], []
    for outcome in new:
        print(f"not known: {outcome.kind} {outcome.name}: {outcome.reason}")
    for outcome in worse:
        print(f"is no refusal: {outcome.kind} {outcome.name}: {outcome.reason}")
    for name, _ in mended:
        print(f"right by now, take it out of {given.known.name} (--write-known): {name}")
    for key in stale:
        print(f"no test has this name, take it out of {given.known.name} (--write-known): {key[1]}")
    return 1 if new or worse or mended or stale else 0


if __name__ == "__main__":
    sys.exit(main())
