# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Control flow in functions: the host runs it, also by what kernels have computed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import intarsia
import numpy as np
import pytest
from programs import build, close
from random_numbers import normal

# x ← relu(x w + b), a number of times that the function knows.
FOR = """func.func @main(%x: tensor<?x8xf32> {nn.name = "x", nn.sizes = ["rows", ""]}, %w: tensor<8x8xf32>,
                         %b: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %times = arith.constant TIMES : index
  %r:2 = scf.for %i = %c0 to %times step %c1 iter_args(%now = %x, %before = %x) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
    %h = nn.linear %now, %w, %b : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
    %next = nn.relu %h : tensor<?x8xf32>
    scf.yield %next, %now : tensor<?x8xf32>, tensor<?x8xf32>
  }
  return %r#0, %r#1 : tensor<?x8xf32>, tensor<?x8xf32>
}"""


def steps(x: np.ndarray, w: np.ndarray, b: np.ndarray, times: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the value after `times` steps and the one before it."""
    before = x
    for _ in range(times):
        before, x = x, np.maximum(x @ w.T + b, 0)
    return x, before


@pytest.mark.parametrize("times", [0, 1, 2, 5])
def test_for(tools, tmp_path, times):
    module = build(tools, tmp_path, FOR.replace("TIMES", str(times)))
    for rows in (1, 7):
        x, w, b = normal(rows, 8), normal(8, 8) * 0.4, normal(8)
        actual, expected = module.main(x, w, b), steps(x, w, b, times)
        for one, other in zip(actual, expected, strict=True):
            close(one, other, 1e-5)


def test_for_over_a_size(tools, tmp_path):
    """The trip count is a size of the call; an integer is carried beside tensors and decides what a branch does."""
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<4xf32>, %n: tensor<?xf32> {nn.name = "n", nn.sizes = ["n"]}) -> tensor<4xf32> {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c3 = arith.constant 3 : index
          %half = arith.constant dense<0.5> : tensor<4xf32>
          %size = tensor.dim %n, %c0 : tensor<?xf32>
          %r:2 = scf.for %i = %c1 to %size step %c3 iter_args(%now = %x, %count = %c0) -> (tensor<4xf32>, index) {
            %next = arith.addi %count, %i : index
            %isLarge = arith.cmpi sgt, %next, %c3 : index
            %y = scf.if %isLarge -> tensor<4xf32> {
              %a = arith.addf %now, %half : tensor<4xf32>
              scf.yield %a : tensor<4xf32>
            } else {
              %m = arith.mulf %now, %now : tensor<4xf32>
              scf.yield %m : tensor<4xf32>
            }
            scf.yield %y, %next : tensor<4xf32>, index
          }
          return %r#0 : tensor<4xf32> }""",
    )
    for size in (1, 2, 4, 5, 12):
        x, count = normal(4), 0
        expected = x
        for i in range(1, size, 3):
            count += i
            expected = expected + 0.5 if count > 3 else expected * expected
        close(module.main(x, normal(size)), expected, 1e-6)


def test_swapped_values(tools, tmp_path):
    """What a loop carries is swapped: each value is read before it is overwritten."""
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<6xf32>, %y: tensor<6xf32>, %n: tensor<?xf32> {nn.sizes = ["n"]})
            -> (tensor<6xf32>, tensor<6xf32>, tensor<2x3xf32>) {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %size = tensor.dim %n, %c0 : tensor<?xf32>
          %r:2 = scf.for %i = %c0 to %size step %c1 iter_args(%a = %x, %b = %y) -> (tensor<6xf32>, tensor<6xf32>) {
            scf.yield %b, %a : tensor<6xf32>, tensor<6xf32>
          }
          %v = tensor.expand_shape %r#0 [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
          return %r#0, %r#1, %v : tensor<6xf32>, tensor<6xf32>, tensor<2x3xf32> }""",
    )
    x, y = normal(6), normal(6)
    for size in (1, 2, 3):
        a, b, v = module.main(x, y, normal(size))
        first, second = (y, x) if size % 2 else (x, y)
        assert (a == first).all()
        assert (b == second).all()
        assert (v == first.reshape(2, 3)).all()


IF = """func.func @main(%x: tensor<?x8xf32> {nn.name = "x", nn.sizes = ["rows", ""]}, %flags: tensor<3xi1>, %w: tensor<8x8xf32>)
    -> tensor<?x8xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %first = tensor.extract %flags[%c1] : tensor<3xi1>
  %second = tensor.extract %flags[%c2] : tensor<3xi1>
  %both = arith.andi %first, %second : i1
  %h = nn.relu %x : tensor<?x8xf32>
  %r = scf.if %both -> tensor<?x8xf32> {
    %y = nn.linear %h, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
    scf.yield %y : tensor<?x8xf32>
  } else {
    %y = scf.if %first -> tensor<?x8xf32> {
      scf.yield %h : tensor<?x8xf32>
    } else {
      scf.yield %x : tensor<?x8xf32>
    }
    scf.yield %y : tensor<?x8xf32>
  }
  return %r : tensor<?x8xf32>
}"""


def test_if_by_an_input(tools, tmp_path):
    module = build(tools, tmp_path, IF)
    x, w = normal(5, 8), normal(8, 8)
    h = np.maximum(x, 0)
    for flags, expected in (((0, 1, 1), h @ w.T), ((1, 1, 0), h), ((1, 0, 1), x)):
        close(module.main(x, np.array(flags, dtype=bool), w), expected, 1e-5)


# Halves x until its largest element is below a limit, and counts how often: kernels compute the condition.
WHILE = """func.func @main(%x: tensor<?xf32> {nn.name = "x", nn.sizes = ["n"]}, %limit: tensor<f32>) -> (tensor<?xf32>, tensor<1xi64>) {
  %none = arith.constant dense<0> : tensor<1xi64>
  %one = arith.constant dense<1> : tensor<1xi64>
  %half = arith.constant 0.5 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %r:2 = scf.while (%now = %x, %count = %none) : (tensor<?xf32>, tensor<1xi64>) -> (tensor<?xf32>, tensor<1xi64>) {
    %e = tensor.empty() : tensor<f32>
    %i = linalg.fill ins(%lowest : f32) outs(%e : tensor<f32>) -> tensor<f32>
    %m = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
        ins(%now : tensor<?xf32>) outs(%i : tensor<f32>) {
      ^bb0(%a: f32, %b: f32):
        %l = arith.maximumf %a, %b : f32
        linalg.yield %l : f32
    } -> tensor<f32>
    %more = arith.cmpf ogt, %m, %limit : tensor<f32>
    %c = tensor.extract %more[] : tensor<i1>
    scf.condition(%c) %now, %count : tensor<?xf32>, tensor<1xi64>
  } do {
  ^bb0(%now: tensor<?xf32>, %count: tensor<1xi64>):
    %s = tensor.splat %half[%n] : tensor<?xf32>
    %smaller = arith.mulf %now, %s : tensor<?xf32>
    %next = arith.addi %count, %one : tensor<1xi64>
    scf.yield %smaller, %next : tensor<?xf32>, tensor<1xi64>
  }
  return %r#0, %r#1 : tensor<?xf32>, tensor<1xi64>
}"""


def test_while_by_what_kernels_compute(tools, tmp_path):
    module = build(tools, tmp_path, WHILE)
    for limit in (1.0, 0.25, 1e9):
        for size in (1, 9):
            x = np.abs(normal(size)) + np.float32(3)
            value, count = module.main(x, np.float32(limit))
            expected, times = x, 0
            while expected.max() > limit:
                expected, times = expected * np.float32(0.5), times + 1
            assert count.tolist() == [times]
            assert (value == expected).all()


# The host alone runs this one, over integers; -1 never becomes the limit.
COUNT = """func.func @main(%x: tensor<1xi64>) -> tensor<1xi64> {
  %c0 = arith.constant 0 : index
  %begin = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %limit = tensor.extract %x[%c0] : tensor<1xi64>
  %r = scf.while (%at = %begin) : (i64) -> i64 {
    %more = arith.cmpi ne, %at, %limit : i64
    scf.condition(%more) %at : i64
  } do {
  ^bb0(%at: i64):
    %next = arith.addi %at, %one : i64
    scf.yield %next : i64
  }
  %more = arith.cmpi ne, %r, %begin : i64
  %y = scf.if %more -> tensor<1xi64> {
    %twice = arith.addi %x, %x : tensor<1xi64>
    scf.yield %twice : tensor<1xi64>
  } else {
    scf.yield %x : tensor<1xi64>
  }
  return %y : tensor<1xi64>
}"""


@pytest.mark.parametrize("target", ["cpu", "reference", "emulated:sm_90a"])
def test_loops_that_never_end_are_cancelled(tools, tmp_path, target):
    by_kernels = build(tools, tmp_path / "kernels", WHILE, None, target)
    by_host = build(tools, tmp_path / "host", COUNT, None, target)
    assert by_host.main(np.array([40], np.int64)) == [80]
    x = np.ones(3, np.float32)
    for start in (
        lambda: by_kernels.main.start(x, np.float32(-1)),
        lambda: by_host.main.start(np.array([-1], np.int64)),
    ):
        pending = start()
        with pytest.raises(TimeoutError):
            pending.result(timeout=0.1)
        pending.cancel()
        with pytest.raises(intarsia.CancelledError, match="function 'main' was cancelled by its caller"):
            pending.result(timeout=30)
        pending.cancel()
        with pytest.raises(intarsia.CancelledError):
            pending.result()
    # What the calls worked with serves the next ones.
    np.testing.assert_array_equal(by_kernels.main(x, np.float32(0.75))[0], x / 2)
    pending = by_host.main.start(np.array([3], np.int64))
    assert pending.result() == [6]
    pending.cancel()
    assert pending.result() == [6]


def test_control_c_ends_a_call(tools, tmp_path):
    build(tools, tmp_path, WHILE)
    # Python takes no interrupts where the tests run in the background of a shell, which ignores them.
    program = """
import signal, sys, numpy, intarsia
signal.signal(signal.SIGINT, signal.default_int_handler)
module = intarsia.load(sys.argv[1])
print("begins", flush=True)
module.main(numpy.ones(3, numpy.float32), numpy.float32(-1))
"""
    command = [sys.executable, "-c", program, str(tmp_path / "m.itx")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begins\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        try:
            errors = process.communicate(timeout=30)[1]
        finally:
            process.kill()
    assert "KeyboardInterrupt" in errors


def run_while(tools, folder, limit: float, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the loop on the reference device in a process of its own, from 2^60 down to the limit."""
    (folder / "m.mlir").write_text(WHILE)
    tools.compile(folder / "m.mlir", "--target=reference", "-o", folder / "m.itx")
    np.save(folder / "x.npy", np.full(5, 2.0**60, dtype=np.float32))
    np.save(folder / "limit.npy", np.float32(limit))
    command = [tools.path("intarsia-run"), folder / "m.itx", f"--input=x=@{folder}/x.npy"]
    command += [f"--input=arg1=@{folder}/limit.npy", f"--output=result1=@{folder}/count.npy"]
    environment = os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_device_with_delays(tools, tmp_path):
    done = run_while(tools, tmp_path, 1.5, {"ITX_REFERENCE_DELAY_MICROSECONDS": "300"})
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "count.npy").tolist() == [60]


@pytest.mark.parametrize("piece", [3, 20, 21, 22, 23, 24, 25])
def test_device_that_fails_in_a_loop(tools, tmp_path, piece):
    """The loop would not end: the flag that it goes on by is not written any more."""
    done = run_while(tools, tmp_path, -1.0, {"ITX_REFERENCE_FAIL": f"lost:{piece}"})
    assert done.returncode == 1
    assert "the reference device is lost" in done.stderr


def test_trip_count_by_what_kernels_compute(tools, tmp_path):
    """Loops within loops; the inner one's bound is an element that the outer one's body has computed."""
    module = build(
        tools,
        tmp_path,
        """func.func @main(%x: tensor<2x4xf32>, %times: tensor<2xi64>) -> tensor<2x4xf32> {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c2 = arith.constant 2 : index
          %one = arith.constant dense<1> : tensor<2xi64>
          %more = arith.constant dense<1.0> : tensor<2x4xf32>
          %r:2 = scf.for %i = %c0 to %c2 step %c1 iter_args(%now = %x, %n = %times) -> (tensor<2x4xf32>, tensor<2xi64>) {
            %next = arith.addi %n, %one : tensor<2xi64>
            %bound = tensor.extract %next[%c1] : tensor<2xi64>
            %end = arith.index_cast %bound : i64 to index
            %inner = scf.for %j = %c0 to %end step %c1 iter_args(%value = %now) -> tensor<2x4xf32> {
              %sum = arith.addf %value, %more : tensor<2x4xf32>
              scf.yield %sum : tensor<2x4xf32>
            }
            %twice = arith.addf %inner, %inner : tensor<2x4xf32>
            scf.yield %twice, %next : tensor<2x4xf32>, tensor<2xi64>
          }
          return %r#0 : tensor<2x4xf32> }""",
    )
    for times in (0, 3, -5):
        x = normal(2, 4)
        expected = x
        for i in range(2):
            for _ in range(max(times + i + 1, 0)):
                expected = expected + np.float32(1)  # each sum is rounded, as in the loop
            expected = 2 * expected
        close(module.main(x, np.array([7, times])), expected, 1e-6)


def test_placements_in_control_flow(tools, tmp_path):
    """Half of a loop's body on a device with a memory of its own, half on the CPU."""
    text = FOR.replace("TIMES", "3").replace(
        "-> tensor<?x8xf32>\n    %next", '-> tensor<?x8xf32> loc("h")\n    %next', 1
    )
    (tmp_path / "m.mlir").write_text(text)
    tools.compile(tmp_path / "m.mlir", "--target=cpu,reference", "--place=h=@reference", "-o", tmp_path / "m.itx")
    x, w, b = normal(7, 8), normal(8, 8) * 0.4, normal(8)
    for one, other in zip(intarsia.load(tmp_path / "m.itx").main(x, w, b), steps(x, w, b, 3), strict=True):
        close(one, other, 1e-5)


def test_stops_between_phases(tools, tmp_path):
    (tmp_path / "m.mlir").write_text(WHILE)
    for folder in ("direct", "staged"):
        (tmp_path / folder).mkdir()
    tools.compile(tmp_path / "m.mlir", "-o", tmp_path / "direct" / "m.itx")
    before = tmp_path / "m.mlir"
    for phase, following in (("fuse", "lower"), ("lower", "target"), ("target", "assemble")):
        after = tmp_path / f"{phase}.mlirbc"
        start = [f"--start-from={phase}"] if phase != "fuse" else []
        tools.compile(before, *start, f"--stop-after={phase}", "-o", after)
        tools.compile(after, f"--start-from={following}", "-o", tmp_path / "staged" / "m.itx")
        assert (tmp_path / "staged" / "m.itx").read_bytes() == (tmp_path / "direct" / "m.itx").read_bytes()
        before = after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "%next = tensor.extract_slice %now[%i, 0] [4, 8] [1, 1] : tensor<4x8xf32> to tensor<4x8xf32>",
            "'tensor.extract_slice' takes a number that the host computes while it runs, such as a loop's counter",
        ),
        (
            """%v = tensor.extract %now[%c0, %c0] : tensor<4x8xf32>
               %is = arith.cmpf ogt, %v, %v : f32
               %next = arith.select %is, %now, %x : tensor<4x8xf32>""",
            "'tensor.extract' reads 'f32': the host computes with integers alone; compute it in a tensor",
        ),
        (
            """%v = tensor.extract %k[%i] : tensor<4xi64>
               %zero = arith.constant 0 : i64
               %is = arith.cmpi sgt, %v, %zero : i64
               %next = arith.select %is, %now, %x : tensor<4x8xf32>""",
            "'tensor.extract' reads 'i64' at an index that is no constant; compute it in a tensor",
        ),
    ],
)
def test_refused(tools, tmp_path, text, message):
    """A loop of fewer iterations would be written out."""
    (tmp_path / "m.mlir").write_text(
        """func.func @main(%x: tensor<4x8xf32>, %k: tensor<4xi64>) -> tensor<4x8xf32> {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c65 = arith.constant 65 : index
          %r = scf.for %i = %c0 to %c65 step %c1 iter_args(%now = %x) -> tensor<4x8xf32> {
            TEXT
            scf.yield %next : tensor<4x8xf32>
          }
          return %r : tensor<4x8xf32> }""".replace("TEXT", text)
    )
    done = tools.run("intarsia-compile", tmp_path / "m.mlir", "-o", tmp_path / "m.itx", check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert not (tmp_path / "m.itx").exists()
