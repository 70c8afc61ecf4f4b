# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Large constants as weights, what is computed at load, and states of sessions, against NumPy."""

from __future__ import annotations

import threading

import intarsia
import numpy as np
import pytest
from programs import build
from random_numbers import normal

DEVICES = ["cpu", "reference", "emulated:sm_90a", "emulated:gfx942"]


def resources(**tensors: np.ndarray) -> str:
    """Give the part of an MLIR file that holds these resources."""
    texts = [f'{name}: "0x04000000{value.tobytes().hex().upper()}"' for name, value in tensors.items()]
    return f"{{-# dialect_resources: {{ builtin: {{ {', '.join(texts)} }} }} #-}}\n"


WEIGHT, BIAS, OTHER = normal(64, 64), normal(512), normal(64, 64)
CONSTANTS = """
func.func private @layer(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %w = arith.constant dense_resource<w> : tensor<64x64xf32>
  %y = nn.linear %x, %w : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @main(%x: tensor<?x64xf32>, %c: tensor<i1>) -> tensor<?x64xf32> {
  %y = func.call @layer(%x) : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %go = tensor.extract %c[] : tensor<i1>
  %r = scf.if %go -> tensor<?x64xf32> {
    %w = arith.constant dense_resource<other> : tensor<64x64xf32>
    %z = nn.linear %y, %w : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
    scf.yield %z : tensor<?x64xf32>
  } else {
    %w = arith.constant dense_resource<same> : tensor<64x64xf32>
    %z = nn.linear %y, %w : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
    scf.yield %z : tensor<?x64xf32>
  }
  return %r : tensor<?x64xf32>
}
func.func @masked(%x: tensor<512xf32>, %m: tensor<1024xi1>) -> (tensor<512xf32>, tensor<1024xi1>) {
  %b = arith.constant dense_resource<bias> : tensor<512xf32>
  %n = arith.constant dense_resource<mask> : tensor<1024xi1>
  %y = arith.addf %x, %b : tensor<512xf32>
  %z = arith.andi %m, %n : tensor<1024xi1>
  return %y, %z : tensor<512xf32>, tensor<1024xi1>
}
"""
MASK = normal(1024) > 0


@pytest.mark.parametrize("device", DEVICES)
def test_constants_are_weights(tools, tmp_path, device):
    text = CONSTANTS + resources(w=WEIGHT, same=WEIGHT, other=OTHER, bias=BIAS, mask=MASK)
    module = build(tools, tmp_path, text, None, device)
    x = normal(5, 64)
    for go, second in ((True, OTHER), (False, WEIGHT)):
        np.testing.assert_allclose(module.main(x, np.array(go)), x @ WEIGHT.T @ second.T, 0, 2e-4)
    given = normal(1024) > 0
    y, z = module.masked(x.reshape(-1).repeat(2)[:512], given)
    np.testing.assert_array_equal(y, x.reshape(-1).repeat(2)[:512] + BIAS)
    np.testing.assert_array_equal(z, given & MASK)
    # Equal tensors are one weight.
    assert sum(name.split(".")[0] == "w" for name in module.manifest["weights"]["tensors"]) == 1


def test_constants_through_files(tools, tmp_path):
    """Each phase's file holds the tensors, as text and as bytecode, and they are quantized as other weights are."""
    text = CONSTANTS + resources(w=WEIGHT, same=WEIGHT, other=OTHER, bias=BIAS, mask=MASK)
    (tmp_path / "m.mlir").write_text(text)
    x = normal(5, 64)
    results = []
    for kind in ("mlir", "mlirbc"):
        tools.compile(tmp_path / "m.mlir", "--stop-after=import", "-o", tmp_path / f"imported.{kind}")
        tools.compile(
            tmp_path / f"imported.{kind}",
            "--stop-after=lower",
            "--quantize=int8",
            "--quantize-activations=16",
            "-o",
            tmp_path / f"l.{kind}",
        )
        tools.compile(tmp_path / f"l.{kind}", "--start-from=target", "-o", tmp_path / f"{kind}.itx")
        results.append(intarsia.load(tmp_path / f"{kind}.itx").main(x, np.array(True)))
    np.testing.assert_array_equal(results[0], results[1])
    exact = x @ WEIGHT.T @ OTHER.T
    assert 0 < np.abs(results[0] - exact).max() < 0.05 * np.abs(exact).max()
    assert (tmp_path / "imported.mlirbc").stat().st_size < 2 * 4 * 64 * 64 + 8192


AT_LOAD = """
func.func @main(%x: tensor<4x512xf32>) -> tensor<4x512xf32> {
  %t = arith.constant dense_resource<table> : tensor<4x512xf32>
  %s = math.sin %t : tensor<4x512xf32>
  %e = math.exp %s : tensor<4x512xf32>
  %y = arith.mulf %x, %e : tensor<4x512xf32>
  return %y : tensor<4x512xf32>
}
func.func @other(%x: tensor<4x512xf32>, %count: i64) -> tensor<4x512xf32> {
  %n = arith.index_cast %count : i64 to index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%v = %x) -> tensor<4x512xf32> {
    %t = arith.constant dense_resource<table> : tensor<4x512xf32>
    %s = math.sin %t : tensor<4x512xf32>
    %e = math.exp %s : tensor<4x512xf32>
    %w = arith.addf %v, %e : tensor<4x512xf32>
    scf.yield %w : tensor<4x512xf32>
  }
  return %r : tensor<4x512xf32>
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_computed_at_load(tools, tmp_path, device):
    table, x = normal(4, 512), normal(4, 512)
    module = build(tools, tmp_path, AT_LOAD + resources(table=table), None, device)
    kept = np.exp(np.sin(table.astype(np.float64)))
    np.testing.assert_allclose(module.main(x), x * kept, 0, 1e-5)
    np.testing.assert_allclose(module.other(x, np.array(3)), x + 3 * kept, 0, 1e-5)
    # Callers see neither the function nor its results, which both functions share.
    assert module.functions == ("main", "other")
    assert [value.name for value in module.signature("main").inputs] == ["arg0"]
    atLoad = [function for function in module.manifest["functions"] if function.get("runs_at_load")]
    assert len(atLoad) == 1
    assert len(atLoad[0]["outputs"]) == 1
    with pytest.raises(intarsia.InvalidArgumentError, match="2 were given"):
        module.main(x, x)
    threads = [threading.Thread(target=lambda: module.main(x)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_fails_at_load(tools, tmp_path):
    text = """
func.func @first() -> (tensor<2xf32> {nn.global = "first"}) attributes {nn.runs_at_load} {
  %t = arith.constant dense<[3, 4]> : tensor<2xi64>
  %c0 = arith.constant 0 : index
  %i = tensor.extract %t[%c0] : tensor<2xi64>
  %five = arith.constant 5 : i64
  %ok = arith.cmpi sge, %i, %five : i64
  cf.assert %ok, "the table begins with 5"
  %r = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %r : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>, %f: tensor<2xf32> {nn.global = "first"}) -> tensor<2xf32> {
  %y = arith.addf %x, %f : tensor<2xf32>
  return %y : tensor<2xf32>
}
"""
    with pytest.raises(
        intarsia.Error, match=r"function 'first', which computes constants at load, has failed: .*begins"
    ):
        build(tools, tmp_path, text)


SESSIONS = """
ml_program.global private mutable @h(dense<0.5> : tensor<1x64xf32>) : tensor<1x64xf32>
ml_program.global private mutable @count(dense<0> : tensor<i64>) : tensor<i64>
ml_program.global private mutable @window(dense_resource<window> : tensor<3x512xf32>) : tensor<3x512xf32>
ml_program.global private mutable @global_seed(dense<0> : tensor<i64>) : tensor<i64>

func.func @step(%x: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %w = arith.constant dense_resource<w> : tensor<64x64xf32>
  %h = ml_program.global_load @h : tensor<1x64xf32>
  %u = nn.linear %h, %w : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
  %s = arith.addf %u, %x : tensor<1x64xf32>
  %n = math.tanh %s : tensor<1x64xf32>
  ml_program.global_store @h = %n : tensor<1x64xf32>
  %c = ml_program.global_load @count : tensor<i64>
  %one = arith.constant dense<1> : tensor<i64>
  %d = arith.addi %c, %one : tensor<i64>
  ml_program.global_store @count = %d : tensor<i64>
  return %n : tensor<1x64xf32>
}

func.func @shift(%row: tensor<1x512xf32>, %count: i64) -> tensor<512xf32> {
  %n = arith.index_cast %count : i64 to index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %w = ml_program.global_load @window : tensor<3x512xf32>
    %rest = tensor.extract_slice %w[1, 0] [2, 512] [1, 1] : tensor<3x512xf32> to tensor<2x512xf32>
    %next = tensor.concat dim(0) %rest, %row : (tensor<2x512xf32>, tensor<1x512xf32>) -> tensor<3x512xf32>
    ml_program.global_store @window = %next : tensor<3x512xf32>
  }
  %w = ml_program.global_load @window : tensor<3x512xf32>
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %sum = linalg.reduce ins(%w : tensor<3x512xf32>) outs(%zero : tensor<512xf32>) dimensions = [0]
    (%a: f32, %b: f32) { %s = arith.addf %a, %b : f32
                         linalg.yield %s : f32 }
  return %sum : tensor<512xf32>
}

func.func @guarded(%number: i64) -> tensor<1x64xf32> {
  %h = ml_program.global_load @h : tensor<1x64xf32>
  %n = arith.negf %h : tensor<1x64xf32>
  ml_program.global_store @h = %n : tensor<1x64xf32>
  %c2 = arith.constant 2 : i64
  %ok = arith.cmpi ult, %number, %c2 : i64
  cf.assert %ok, "the number is below 2"
  return %n : tensor<1x64xf32>
}

func.func @stateless(%x: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %y = arith.addf %x, %x : tensor<1x64xf32>
  return %y : tensor<1x64xf32>
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_sessions(tools, tmp_path, device):
    window, weight = normal(3, 512), normal(64, 64) * np.float32(0.1)
    module = build(tools, tmp_path, SESSIONS + resources(window=window, w=weight), None, device)
    assert module.states == ("count", "h", "window")
    first, second = module.session(), module.session()
    h = np.full((1, 64), 0.5)
    for number in range(3):
        x = normal(1, 64) * np.float32(0.1 + number)
        h = np.tanh(h @ weight.T + x)
        np.testing.assert_allclose(first.step(x), h, 0, 1e-5)
    assert first["count"] == 3
    assert second["count"] == 0
    np.testing.assert_allclose(first["h"], h, 0, 1e-5)
    np.testing.assert_array_equal(second["h"], np.full((1, 64), 0.5, np.float32))
    np.testing.assert_allclose(second.step(x), np.tanh(np.full((1, 64), 0.5) @ weight.T + x), 0, 1e-5)

    row = normal(1, 512)
    np.testing.assert_allclose(first.shift(row, np.array(0)), window.sum(0), 0, 1e-5)
    np.testing.assert_allclose(first.shift(row, np.array(2)), window[2] + 2 * row[0], 0, 1e-5)
    np.testing.assert_allclose(first["window"], np.concatenate([window[2:], row, row]), 0, 1e-6)
    np.testing.assert_allclose(second["window"], window, 0, 1e-6)

    # A call that fails leaves the states as they were.
    kept = first["h"]
    with pytest.raises(intarsia.Error, match="the number is below 2"):
        first.guarded(np.array(7))
    np.testing.assert_array_equal(first["h"], kept)
    np.testing.assert_array_equal(first.guarded(np.array(1)), -kept)

    first["h"] = np.ones((1, 64), np.float32)
    np.testing.assert_allclose(first.step(x), np.tanh(np.ones((1, 64)) @ weight.T + x), 0, 1e-5)
    first.reset()
    assert first["count"] == 0
    np.testing.assert_array_equal(first["h"], np.full((1, 64), 0.5, np.float32))
    np.testing.assert_array_equal(first.stateless(x), x + x)
    np.testing.assert_array_equal(module.stateless(x), x + x)


def test_misused_sessions(tools, tmp_path):
    window, weight = normal(3, 512), normal(64, 64)
    module = build(tools, tmp_path, SESSIONS + resources(window=window, w=weight))
    x = normal(1, 64)
    with pytest.raises(intarsia.InvalidArgumentError, match="function 'step' keeps the state 'h' from call to call"):
        module.step(x)
    session = module.session()
    with pytest.raises(intarsia.NotFoundError, match="no state 'g'; it has: count, h, window"):
        session["g"]
    with pytest.raises(intarsia.InvalidArgumentError, match=r"state 'h' is f32 \[1, 64\], the tensor is f32 \[2, 64\]"):
        session["h"] = np.zeros((2, 64), np.float32)
    with pytest.raises(intarsia.InvalidArgumentError, match=r"state 'count' is i64 \[\], the tensor is i32 \[\]"):
        session["count"] = np.array(1, np.int32)
    with pytest.raises(intarsia.InvalidArgumentError, match="one after another"):
        session.step.start(x)
    # Calls of several threads on one session are done one after another.
    threads = [threading.Thread(target=lambda: [session.step(x) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session["count"] == 80
    del module
    assert session["count"] == 80
