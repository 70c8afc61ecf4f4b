# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of intarsia.onnx.Backend, which need the `onnx` package: scripts/test-onnx.sh runs them."""

from __future__ import annotations

import argparse
import os
import re
import warnings
from pathlib import Path

import intarsia.onnx
import numpy as np
import onnx
import onnx.backend.test
import onnx_node_tests
import pytest
from intarsia import CompileError, InvalidArgumentError
from intarsia.onnx import Backend
from onnx import TensorProto, helper

warnings.simplefilter("ignore")

# What the package itself makes of a backend, of which a few tests are kept.
_KEPT = re.compile("^test_(relu|matmul_2d|reshape_reordered_all_dims|AvgPool1d|sign_model)_cpu$")
for _name, _case in onnx.backend.test.BackendTest(Backend, __name__).test_cases.items():
    for _method in [each for each in vars(_case) if each.startswith("test_") and not _KEPT.match(each)]:
        delattr(_case, _method)
    globals()[_name] = _case


def model_of(nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, list[int | str]]]) -> onnx.ModelProto:
    """Return a model with the result y."""
    infos = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
    graph = helper.make_graph(nodes, "test", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def test_node() -> None:
    node = helper.make_node("Gemm", ["a", "b", ""], ["y"], transB=1)
    a, b = np.ones((2, 3), np.float32), np.full((4, 3), 2, np.float32)
    (y,) = Backend.run_node(node, [a, b], opset_version=13)
    np.testing.assert_array_equal(y, a @ b.T)


def test_names_of_outputs() -> None:
    prepared = Backend.prepare(model_of([helper.make_node("Neg", ["x"], ["y"])], {"x": (TensorProto.FLOAT, ["n"])}))
    for given in ([np.ones(3, np.float32)], {"x": np.ones(3, np.float32)}, np.ones(3, np.float32)):
        results = prepared.run(given)
        np.testing.assert_array_equal(results["y"], [-1, -1, -1])
        np.testing.assert_array_equal(results.y, results[0])


def test_inputs_that_must_be_known() -> None:
    """Each value of axes has a compiled model, which calls with the same ones share."""
    model = model_of(
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
        {"x": (TensorProto.FLOAT, ["n", "m"]), "axes": (TensorProto.INT64, [1])},
    )
    prepared = Backend.prepare(model)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for axis in (0, 1, 0):
        np.testing.assert_array_equal(prepared.run([x, np.array([axis])])[0], x.sum(axis))
    assert len(prepared._specialised) == 2


def test_only_what_must_be_known_is_a_constant() -> None:
    """Data of one dimension is passed by calls; so many compiled models are kept."""
    model = model_of(
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
        {"x": (TensorProto.FLOAT, ["n"]), "axes": (TensorProto.INT64, [1])},
    )
    prepared = Backend.prepare(model)
    for length in (1, 2, 3):
        x = np.arange(length, dtype=np.float32)
        assert prepared.run([x, np.array([0])])[0] == x.sum()
    assert len(prepared._specialised) == 1
    intarsia.onnx._MOST_SPECIALISED, before = 1, intarsia.onnx._MOST_SPECIALISED
    try:
        assert prepared.run([np.ones(2, np.float32), np.array([-1])])[0] == 2
    finally:
        intarsia.onnx._MOST_SPECIALISED = before
    assert len(prepared._specialised) == 1


def test_names_that_are_not_said() -> None:
    """A shape that is computed from an input: the message names none, and integers become constants."""
    nodes = [helper.make_node("Mul", ["s", "s"], ["t"]), helper.make_node("Reshape", ["x", "t"], ["y"])]
    prepared = Backend.prepare(model_of(nodes, {"x": (TensorProto.FLOAT, [4]), "s": (TensorProto.INT64, [2])}))
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(prepared.run([x, np.array([2, 1])])[0], x.reshape(4, 1))


def test_devices_and_options() -> None:
    assert Backend.supports_device("CPU")
    assert Backend.supports_device("emulated:sm_90a")
    assert not Backend.supports_device("TPU")
    assert not Backend.supports_device("CPU0")
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], {"x": (TensorProto.FLOAT, [1])})
    with pytest.raises(InvalidArgumentError, match="there is no option 'tolerance'"):
        Backend.prepare(model, tolerance=1)
    node = helper.make_node("Add", ["a", "a"], ["y"])
    with pytest.raises(InvalidArgumentError, match="the node has 2 inputs, 1 were given"):
        Backend.run_node(node, [np.ones(1, np.float32)])
    assert Backend.run_node(node, [np.ones(1, np.float32)] * 2)[0] == 2


def outcomes_of(known: str, outcomes: list[tuple[str, str]], folder: Path, **options: object) -> tuple[int, str]:
    """Return what outcomes come to beside a list of known ones, and the list after that."""
    given = {"target": "cpu", "known": folder / "known.txt", "add_known": False, "write_known": False} | options
    given["known"].write_text(known)
    made = [onnx_node_tests.Outcome(name, kind, "why") for name, kind in outcomes]
    status = onnx_node_tests.compare(made, {"test_a", "test_b"}, argparse.Namespace(**given))
    return status, given["known"].read_text()


@pytest.mark.parametrize(("kind", "status"), [("refused", 0), ("right", 1), ("wrong", 1), ("crash", 1)])
def test_known_tests(tmp_path: Path, kind: str, status: int) -> None:
    """Tests of the list may only be refused."""
    assert outcomes_of("test_a: refused: why\n", [("test_a", kind)], tmp_path)[0] == status


def test_lines_without_a_test(tmp_path: Path) -> None:
    known = "test_a: refused: why\ntest_gone: refused: why\n"
    assert outcomes_of(known, [("test_a", "refused")], tmp_path)[0] == 1
    status, left = outcomes_of(known, [("test_a", "refused")], tmp_path, write_known=True)
    assert status == 0
    assert "test_gone" not in left
    assert "test_a" in left


def test_refusals() -> None:
    model = model_of([helper.make_node("Mystery", ["x"], ["y"])], {"x": (TensorProto.FLOAT, [1])})
    with pytest.raises(CompileError, match="Mystery"):
        Backend.prepare(model)


def test_many_models() -> None:
    """Models leave neither files nor descriptors nor memory behind."""
    x = np.ones(64, np.float32)

    def once(number: int) -> None:
        node = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=float(number))
        Backend.run_model(model_of([node], {"x": (TensorProto.FLOAT, ["n"])}), [x])

    def held() -> tuple[int, int]:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return len(os.listdir("/proc/self/fd")), pages * os.sysconf("SC_PAGESIZE") >> 20

    once(0)
    descriptors, mebibytes = held()
    for number in range(30):
        once(number)
    assert held()[0] <= descriptors
    assert held()[1] <= mebibytes + 4
