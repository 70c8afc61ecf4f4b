# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What programs of other compilers are checked for while they run, and divisions that MLIR leaves undefined."""

from __future__ import annotations

from typing import NamedTuple

import intarsia
import numpy as np
import pytest
from programs import build
from random_numbers import normal

DEVICES = ["cpu", "cpu:x86-64-v2", "reference", "emulated:sm_90a", "emulated:gfx942"]
TABLE, FOUR, THREE = normal(5, 6), normal(4), normal(3)
ONE = "affine_map<(a) -> (a)>"


class Case(NamedTuple):
    """A function, inputs that are good, what it gives for them, and bad last inputs with the errors they make."""

    text: str
    good: tuple[np.ndarray, ...]
    expected: np.ndarray
    bad: dict[str, np.ndarray]


def generic(arguments: str, result: str, ins: str, body: str, count: int = 1) -> str:
    maps = ", ".join([ONE] * (count + 1))
    return f"""({arguments}) -> {result} {{
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i64
  %five = arith.constant 5 : i64
  %none = arith.constant 0.0 : f32
  %e = tensor.empty() : {result}
  %y = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}} ins({ins}) outs(%e : {result}) {{
  {body}
  }} -> {result}
  return %y : {result}
}}
"""


def ids(*numbers: int, dtype: type = np.int64) -> np.ndarray:
    return np.array(numbers, dtype)


CASES = {
    # Counted from the end as PyTorch has it; -6 stays below zero.
    "from_the_end": Case(
        generic(
            "%t: tensor<5x6xf32>, %x: tensor<4xi64>", "tensor<4xf32>", "%x : tensor<4xi64>",
            """^bb0(%v: i64, %o: f32):
    %is = arith.cmpi slt, %v, %zero : i64
    %added = arith.addi %v, %five : i64
    %w = arith.select %is, %added, %v : i64
    %i = arith.index_cast %w : i64 to index
    %r = tensor.extract %t[%i, %c0] : tensor<5x6xf32>
    linalg.yield %r : f32""",
        ),
        (TABLE, ids(0, -1, 4, -5)), TABLE[[0, 4, 4, 0], 0],
        {
            r"index of 'tensor.extract' in dimension 0 is 5, must be at most the last one, which is 4: asserted at 'm.mlir:\d+'": ids(0, 5, 1, 2),
            r"index of 'tensor.extract' in dimension 0 is -1, must be at least 0": ids(-6, 0, 1, 2),
        },
    ),
    "input": Case(
        generic(
            "%t: tensor<5x6xf32>, %x: tensor<4xi32>", "tensor<4xf32>", "%x : tensor<4xi32>",
            """^bb0(%v: i32, %o: f32):
    %i = arith.index_cast %v : i32 to index
    %r = tensor.extract %t[%i, %c0] : tensor<5x6xf32>
    linalg.yield %r : f32""",
        ),
        (TABLE, ids(0, 3, 4, 1, dtype=np.int32)), TABLE[[0, 3, 4, 1], 0],
        {r"is -1 at \[2\]: values must be in \[0, 5\)": ids(0, 0, -1, 0, dtype=np.int32)},
    ),
    "gather": Case(
        """(%t: tensor<?x6xf32> {nn.sizes = ["n", ""]}, %x: tensor<3x1xi64>) -> tensor<3x6xf32> {
  %y = tensor.gather %t[%x] gather_dims([0]) : (tensor<?x6xf32>, tensor<3x1xi64>) -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
}
""",
        (TABLE, ids(4, 0, 2).reshape(3, 1)), TABLE[[4, 0, 2]],
        {r"index of 'tensor.gather' in dimension 0 is 7, .* 4": ids(0, 7, 6).reshape(3, 1)},
    ),
    "scatter": Case(
        """(%x: tensor<5x6xf32>, %i: tensor<2x1xi64>) -> tensor<5x6xf32> {
  %u = arith.constant dense<1.0> : tensor<2x3x6xf32>
  %y = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false)
      ins(%u, %i : tensor<2x3x6xf32>, tensor<2x1xi64>) outs(%x : tensor<5x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    tm_tensor.yield %a : f32
  } -> tensor<5x6xf32>
  return %y : tensor<5x6xf32>
}
""",
        (TABLE, ids(2, 1).reshape(2, 1)), np.concatenate([TABLE[:1], np.ones((4, 6), np.float32)]),
        # Three rows from the third one on are the last ones.
        {"must be 1: index of 'tm_tensor.scatter' in dimension 0": ids(0, 3).reshape(2, 1)},
    ),
    # What is read on one side of a branch alone is an index there alone.
    "branch": Case(
        generic(
            "%t: tensor<5x6xf32>, %x: tensor<4xi64>", "tensor<4xf32>", "%x : tensor<4xi64>",
            """^bb0(%v: i64, %o: f32):
    %is = arith.cmpi sge, %v, %zero : i64
    %r = scf.if %is -> f32 {
      %i = arith.index_cast %v : i64 to index
      %w = tensor.extract %t[%i, %c0] : tensor<5x6xf32>
      scf.yield %w : f32
    } else {
      scf.yield %none : f32
    }
    linalg.yield %r : f32""",
        ),
        (TABLE, ids(-9, 3, -1, 4)), np.array([0, TABLE[3, 0], 0, TABLE[4, 0]], np.float32),
        {r"index of 'tensor.extract' in dimension 0 is 6": ids(-1, 6, 0, 0)},
    ),
    "assertion": Case(
        generic(
            "%x: tensor<4xf32>", "tensor<4xf32>", "%x : tensor<4xf32>",
            """^bb0(%v: f32, %o: f32):
    %is = arith.cmpf one, %v, %none : f32
    cf.assert %is, "a zero among them"
    %r = arith.negf %v : f32
    linalg.yield %r : f32""",
        ),
        (FOUR,), -FOUR,
        {r"the condition of 'cf.assert' is 0, must be 1: a zero among them, asserted at 'm.mlir:\d+'": np.array([1, 0, 2, 3], np.float32)},
    ),
    # Every other row, from one that is data on, and a column.
    "sliced": Case(
        """(%t: tensor<5x6xf32>, %x: tensor<i64>) -> tensor<2x3xf32> {
  %n = tensor.extract %x[] : tensor<i64>
  %i = arith.index_cast %n : i64 to index
  %y = tensor.extract_slice %t[%i, 1] [2, 3] [2, 1] : tensor<5x6xf32> to tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
""",
        (TABLE, np.array(2, np.int64)), TABLE[2::2, 1:4],
        {
            r"index of 'tensor.extract_slice' in dimension 0 is 3, .* 2": np.array(3, np.int64),
            r"index of 'tensor.extract_slice' in dimension 0 is -1, must be at least 0": np.array(-1, np.int64),
        },
    ),
    "column": Case(
        """(%t: tensor<5x6xf32>, %i: i64) -> tensor<5xf32> {
  %n = arith.index_cast %i : i64 to index
  %y = tensor.extract_slice %t[0, %n] [5, 1] [1, 1] : tensor<5x6xf32> to tensor<5xf32>
  return %y : tensor<5xf32>
}
""",
        (TABLE, np.array(5, np.int64)), TABLE[:, 5],
        {r"index of 'tensor.extract_slice' in dimension 1 is 6, .* 5": np.array(6, np.int64)},
    ),
    "inserted": Case(
        """(%t: tensor<5x6xf32>, %x: tensor<i64>) -> tensor<5x6xf32> {
  %row = arith.constant dense<1.0> : tensor<1x6xf32>
  %n = tensor.extract %x[] : tensor<i64>
  %i = arith.index_cast %n : i64 to index
  %y = tensor.insert_slice %row into %t[%i, 0] [1, 6] [1, 1] : tensor<1x6xf32> into tensor<5x6xf32>
  return %y : tensor<5x6xf32>
}
""",
        (TABLE, np.array(2, np.int64)), np.concatenate([TABLE[:2], np.ones((1, 6), np.float32), TABLE[3:]]),
        {r"index of 'tensor.insert_slice' in dimension 0 is 5, .* 4": np.array(5, np.int64)},
    ),
    # One offset is data, the other follows from a size.
    "sliced_from_the_end": Case(
        """(%i: tensor<i64>, %x: tensor<?x?xf32> {nn.sizes = ["m", "n"]}) -> tensor<1x2xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %k = tensor.extract %i[] : tensor<i64>
  %j = arith.index_cast %k : i64 to index
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %o = arith.subi %n, %c2 : index
  %y = tensor.extract_slice %x[%j, %o] [1, 2] [1, 1] : tensor<?x?xf32> to tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}
""",
        (np.array(3, np.int64), TABLE), TABLE[3:4, 4:],
        {r"index of 'tensor.extract_slice' in dimension 1 is -1, must be at least 0": normal(5, 1)},
    ),
    "inserted_row": Case(
        """(%i: tensor<i64>, %s: tensor<1x4xf32>, %x: tensor<?x?xf32> {nn.sizes = ["m", "n"]}) -> tensor<?x?xf32> {
  %k = tensor.extract %i[] : tensor<i64>
  %j = arith.index_cast %k : i64 to index
  %y = tensor.insert_slice %s into %x[%j, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
""",
        (np.array(1, np.int64), FOUR[None], TABLE[:3, :5]),
        np.concatenate([TABLE[:1, :5], np.append(FOUR, TABLE[1, 4])[None].astype(np.float32), TABLE[2:3, :5]]),
        {r"index of 'tensor.insert_slice' in dimension 1 is 3, must be at most the last one, which is 2": normal(3, 3)},
    ),
    "inserted_with_steps": Case(
        """(%s: tensor<?xf32> {nn.sizes = ["k"]}, %x: tensor<?xf32> {nn.sizes = ["n"]}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %k = tensor.dim %s, %c0 : tensor<?xf32>
  %y = tensor.insert_slice %s into %x[1] [%k] [2] : tensor<?xf32> into tensor<?xf32>
  return %y : tensor<?xf32>
}
""",
        (THREE, np.zeros(6, np.float32)), np.stack([np.zeros(3, np.float32), THREE], 1).ravel(),
        {r"index of 'tensor.insert_slice' in dimension 0 is 5, must be at most the last one, which is 4": normal(5)},
    ),
    # What a branch asserts of sizes is not asserted of calls that do not take it.
    "sizes_in_a_branch": Case(
        """(%x: tensor<?xf32> {nn.sizes = ["n"]}, %p: tensor<i1>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c = tensor.extract %p[] : tensor<i1>
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %r = scf.if %c -> tensor<?xf32> {
    %q = arith.cmpi sgt, %n, %c4 : index
    cf.assert %q, "more than four"
    scf.yield %x : tensor<?xf32>
  } else {
    %m = arith.negf %x : tensor<?xf32>
    scf.yield %m : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}
""",
        (THREE, np.array(False)), -THREE, {"must be 1: more than four, asserted at": np.array(True)},
    ),
    # The index depends on the branch, the assertion in it has a check of its own.
    "assertion_in_a_branch": Case(
        generic(
            "%t: tensor<6xf32>, %x: tensor<4xi64>", "tensor<4xf32>", "%x : tensor<4xi64>",
            """^bb0(%v: i64, %o: f32):
    %is = arith.cmpi sgt, %v, %zero : i64
    %i = scf.if %is -> index {
      %ok = arith.cmpi ne, %v, %five : i64
      cf.assert %ok, "a five"
      %w = arith.index_cast %v : i64 to index
      scf.yield %w : index
    } else {
      scf.yield %c0 : index
    }
    %r = tensor.extract %t[%i] : tensor<6xf32>
    linalg.yield %r : f32""",
        ),
        (TABLE[0], ids(-5, 3, 0, 4)), TABLE[0, [0, 3, 0, 4]],
        {"must be 1: a five": ids(0, 5, 0, 0), r"index of 'tensor.extract' in dimension 0 is 7": ids(0, 7, 0, 0)},
    ),
    # A loop that is longer than the tensor, which is read only where it has elements.
    "guarded": Case(
        generic(
            '%t: tensor<4xf32>, %b: tensor<?xf32> {nn.sizes = ["n"]}, %x: tensor<6xi64>', "tensor<6xf32>", "%x : tensor<6xi64>",
            """^bb0(%v: i64, %o: f32):
    %k = linalg.index 0 : index
    %c4 = arith.constant 4 : index
    %n = tensor.dim %b, %c0 : tensor<?xf32>
    %small = arith.cmpi ult, %k, %c4 : index
    %is = arith.cmpi sge, %v, %zero : i64
    %a = scf.if %small -> f32 {
      %w = tensor.extract %t[%k] : tensor<4xf32>
      scf.yield %w : f32
    } else {
      scf.yield %none : f32
    }
    %within = arith.cmpi slt, %k, %n : index
    %both = arith.andi %is, %within : i1
    %c = scf.if %both -> f32 {
      %w = tensor.extract %b[%k] : tensor<?xf32>
      scf.yield %w : f32
    } else {
      scf.yield %none : f32
    }
    %d = scf.if %is -> f32 {
      %w = tensor.extract %t[%k] : tensor<4xf32>
      scf.yield %w : f32
    } else {
      scf.yield %none : f32
    }
    %e0 = arith.addf %a, %c : f32
    %r = arith.addf %e0, %d : f32
    linalg.yield %r : f32""",
        ),
        (ids(1, 2, 3, 4, dtype=np.float32), ids(10, 20, 30, 40, 50, dtype=np.float32), ids(0, -1, 0, 0, -1, -1)),
        ids(12, 2, 36, 48, 0, 0, dtype=np.float32),
        {r"index of 'tensor.extract' in dimension 0 is 4, must be at most the last one, which is 3": ids(0, 0, 0, 0, 1, -1)},
    ),
    "embedding": Case(
        """(%t: tensor<5x6xf32>, %x: tensor<3xi32>) -> tensor<3x6xf32> {
  %one = arith.constant dense<1> : tensor<3xi32>
  %i = arith.addi %x, %one : tensor<3xi32>
  %y = nn.embedding %t, %i : (tensor<5x6xf32>, tensor<3xi32>) -> tensor<3x6xf32>
  return %y : tensor<3x6xf32>
}
""",
        (TABLE, ids(3, -1, 1, dtype=np.int32)), TABLE[[4, 0, 2]],
        {
            r"index of 'nn.embedding' in dimension 0 is 5, must be at most the last one, which is 4": ids(0, 4, 1, dtype=np.int32),
            r"index of 'nn.embedding' in dimension 0 is -1, must be at least 0": ids(0, 1, -2, dtype=np.int32),
        },
    ),
    # A comparison of the user's is no index.
    "without_a_sign": Case(
        """(%x: tensor<i64>) -> tensor<i64> {
  %five = arith.constant 5 : i64
  %v = tensor.extract %x[] : tensor<i64>
  %is = arith.cmpi ult, %v, %five : i64
  cf.assert %is, "five or more"
  %y = arith.addi %x, %x : tensor<i64>
  return %y : tensor<i64>
}
""",
        (np.array(4, np.int64),), np.array(8, np.int64), {"the condition of 'cf.assert' is 0, must be 1: five or more": np.array(-1, np.int64)},
    ),
    "sizes": Case(
        """(%x: tensor<?xf32> {nn.sizes = ["n"]}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %is = arith.cmpi sle, %n, %c4 : index
  cf.assert %is, "more than four"
  %y = arith.negf %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
""",
        (THREE,), -THREE, {"must be 1: more than four": normal(5)},
    ),
    # In the body of a loop, the pass that is wrong ends the call.
    "loop": Case(
        """(%t: tensor<5xi64>, %x: tensor<1xi64>) -> tensor<1xi64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c99 = arith.constant 99 : index
  %y = scf.for %k = %c0 to %c99 step %c1 iter_args(%at = %x) -> tensor<1xi64> {
    %e = tensor.empty() : tensor<1xi64>
    %z = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
        ins(%at : tensor<1xi64>) outs(%e : tensor<1xi64>) {
    ^bb0(%v: i64, %o: i64):
      %i = arith.index_cast %v : i64 to index
      %r = tensor.extract %t[%i] : tensor<5xi64>
      linalg.yield %r : i64 } -> tensor<1xi64>
    scf.yield %z : tensor<1xi64>
  }
  return %y : tensor<1xi64>
}
""",
        (ids(1, 2, 3, 0, 99), ids(0)), ids(3), {r"index of 'tensor.extract' in dimension 0 is 99": ids(4)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_checks(tools, tmp_path, device):
    text = "".join(f"func.func @{name}{case.text}" for name, case in CASES.items())
    module = build(tools, tmp_path, text, None, device)
    for name, case in CASES.items():
        function = getattr(module, name)
        np.testing.assert_array_equal(function(*case.good), case.expected, err_msg=name)
        for message, bad in case.bad.items():
            with pytest.raises(intarsia.InvalidArgumentError, match=message):
                function(*case.good[:-1], bad)
        np.testing.assert_array_equal(function(*case.good), case.expected, err_msg=f"{name} after an error")


@pytest.mark.parametrize("device", DEVICES)
def test_divisions(tools, tmp_path, device):
    """By zero, and of the least integer by -1: what NumPy has, in each type."""
    text, cases = "", []
    for bits in (8, 16, 32, 64):
        kind, signed, unsigned = f"tensor<?xi{bits}>", np.dtype(f"i{bits // 8}"), np.dtype(f"u{bits // 8}")
        least, most = np.iinfo(signed).min, np.iinfo(signed).max
        x = np.array([7, -7, 0, least, least, least, most, most, -7, 7], signed)
        y = np.array([0, 0, 0, 0, -1, 1, -1, least, 2, -2], signed)
        for op in ("divsi", "remsi", "floordivsi", "ceildivsi", "divui", "remui", "ceildivui"):
            one = unsigned if op.endswith("ui") else signed
            text += f"""func.func @{op}{bits}(%x: {kind} {{nn.sizes = ["n"]}}, %y: {kind} {{nn.sizes = ["n"]}}) -> {kind} {{
  %z = arith.{op} %x, %y : {kind}
  return %z : {kind}
}}
"""
            cases.append((f"{op}{bits}", x, y, divided(op, x.view(one), y.view(one)).view(signed)))
    module = build(tools, tmp_path, text, None, device)
    for name, x, y, expected in cases:
        np.testing.assert_array_equal(getattr(module, name)(x, y), expected, err_msg=name)


def test_integers_of_the_host(tools, tmp_path):
    """What decides about control flow is computed by the host: as NumPy does, shifts by more than all bits too."""
    binary = {
        "addi": np.add, "subi": np.subtract, "muli": np.multiply, "andi": np.bitwise_and, "ori": np.bitwise_or,
        "xori": np.bitwise_xor, "shli": np.left_shift, "shrsi": np.right_shift, "shrui": np.right_shift,
        "maxsi": np.maximum, "minsi": np.minimum, "maxui": np.maximum, "minui": np.minimum,
    }  # fmt: skip
    divisions = ("divsi", "remsi", "floordivsi", "ceildivsi", "divui", "remui", "ceildivui")
    text, names = "", [*binary, *divisions]
    for bits in (8, 16, 32, 64):
        body = "".join(
            f"""  %i{n} = arith.constant {n} : index
  %w{n} = tensor.extract %w[%i{n}] : tensor<{len(names)}xi{bits}>
  %r{n} = arith.{name} %a, %b : i{bits}
  %is{n} = arith.cmpi eq, %r{n}, %w{n} : i{bits}
  cf.assert %is{n}, "{name}"
"""
            for n, name in enumerate(names)
        )
        text += f"""func.func @of{bits}(%x: tensor<i{bits}>, %y: tensor<i{bits}>, %w: tensor<{len(names)}xi{bits}>) -> tensor<i{bits}> {{
  %a = tensor.extract %x[] : tensor<i{bits}>
  %b = tensor.extract %y[] : tensor<i{bits}>
{body}  return %x : tensor<i{bits}>
}}
"""
    # As indices, which sizes are too.
    text += """func.func @index(%x: tensor<i64>, %y: tensor<i64>, %w: tensor<i64>) -> tensor<i64> {
  %a = tensor.extract %x[] : tensor<i64>
  %b = tensor.extract %y[] : tensor<i64>
  %c = tensor.extract %w[] : tensor<i64>
  %i = arith.index_cast %a : i64 to index
  %j = arith.index_cast %b : i64 to index
  %k = arith.index_cast %c : i64 to index
  %d = arith.floordivsi %i, %j : index
  %is = arith.cmpi eq, %d, %k : index
  cf.assert %is, "index"
  return %x : tensor<i64>
}
"""
    module = build(tools, tmp_path, text)
    for bits in (8, 16, 32, 64):
        signed, unsigned = np.dtype(f"i{bits // 8}"), np.dtype(f"u{bits // 8}")
        least, most = np.iinfo(signed).min, np.iinfo(signed).max
        for x, y in [(7, 0), (least, -1), (-7, 2), (7, -2), (-8, 2), (most, least), (0, 5), (-1, bits), (3, 2)]:
            a, b = np.array([x], signed), np.array([y], signed)
            wanted = []
            for name in names:
                kind = unsigned if "ui" in name else signed
                with np.errstate(over="ignore"):
                    result = (
                        binary[name](a.view(kind), b.view(kind))
                        if name in binary
                        else divided(name, a.view(kind), b.view(kind))
                    )
                wanted.append(result.view(signed)[0])
            expected = np.array(wanted, signed)
            getattr(module, f"of{bits}")(a[0:1].reshape(()), b.reshape(()), expected)
            if bits == 64:
                module.index(a.reshape(()), b.reshape(()), expected[names.index("floordivsi")].reshape(()))
            expected[names.index("remui")] ^= 1
            with pytest.raises(intarsia.InvalidArgumentError, match="remui"):
                getattr(module, f"of{bits}")(a.reshape(()), b.reshape(()), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_remainders_of_floats(tools, tmp_path, device):
    """Exact for quotients of any size, as fmod is."""
    text = "".join(
        f"""func.func @{kind}(%x: tensor<?x{kind}> {{nn.sizes = ["n"]}}, %y: tensor<?x{kind}> {{nn.sizes = ["n"]}}) -> tensor<?x{kind}> {{
  %z = arith.remf %x, %y : tensor<?x{kind}>
  return %z : tensor<?x{kind}>
}}
"""
        for kind in ("f32", "f16")
    )
    module = build(tools, tmp_path, text, None, device)
    random = np.random.default_rng(5)
    for kind, dtype in (("f32", np.float32), ("f16", np.float16)):
        limits = np.finfo(dtype)
        special = np.array(
            [0, -0.0, 1, -1, 0.1, limits.max, limits.tiny, limits.smallest_subnormal, np.inf, -np.inf, np.nan], dtype
        )
        x, y = (one.ravel() for one in np.meshgrid(special, special))
        powers = random.integers(limits.minexp, limits.maxexp, (2, 300))
        numbers = (random.uniform(-1, 1, (2, 300)) * np.exp2(powers.astype(np.float64))).astype(dtype)
        x, y = np.concatenate([x, numbers[0]]), np.concatenate([y, numbers[1]])
        with np.errstate(invalid="ignore"):
            expected = np.fmod(x, y)
        got = getattr(module, kind)(x, y)
        np.testing.assert_array_equal(got, expected, err_msg=kind)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]), err_msg=kind)


def divided(op: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What NumPy has; it lacks quotients that are rounded up or to zero, which Python's integers give."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if op.startswith("rem"):
            return np.fmod(x, y)
        floor = np.floor_divide(x, y)
        whole = floor * y == x
        up = np.where(whole | (y == 0), floor, floor + 1).astype(x.dtype)
        if op.startswith("ceil"):
            return up
        return floor if op != "divsi" else np.where((x < 0) != (y < 0), up, floor)
