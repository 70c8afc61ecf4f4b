# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/mlir.md lists the elementwise functions that are compiled: each of them is, in one module."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "mlir.md"
OPERANDS = {"atan2": 2, "clampf": 3, "copysign": 2, "fma": 3, "fpowi": 2, "ipowi": 2, "powf": 2}
INTEGERS = ("absi", "ctlz", "ctpop", "cttz", "ipowi")
NAMED = ("exp", "log", "abs", "ceil", "floor", "negf", "reciprocal", "sqrt", "rsqrt", "square", "tanh", "erf")


def function(name: str, ty: str, count: int, body: str) -> str:
    arguments = ", ".join(f"%{i}: {ty}" for i in range(count))
    return f"func.func @{name}({arguments}) -> {ty} {{\n  {body}\n  return %y : {ty}\n}}\n"


def test_functions_of_the_page_are_compiled(tools, tmp_path):
    (row,) = re.findall(r"^\| `math` \| (.*) \|$", PAGE.read_text(), flags=re.MULTILINE)
    text = ""
    for op in re.findall(r"`(\w+)`", row):
        ty = "tensor<3xi32>" if op in INTEGERS else "tensor<3xf32>"
        kinds = [ty] * OPERANDS.get(op, 1)
        operands = ", ".join(f"%{i}" for i in range(len(kinds)))
        result, shown = ty, ty
        if op == "fpowi":
            kinds[1] = "tensor<3xi32>"
            shown = ", ".join(kinds)
        elif op == "clampf":
            operands = "%0 to [%1, %2]"
        elif op.startswith("is"):
            result = "tensor<3xi1>"
        arguments = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(kinds))
        text += f"func.func @{op}({arguments}) -> {result} {{\n  %y = math.{op} {operands} : {shown}\n  return %y : {result}\n}}\n"
    for op in NAMED:
        ty = "tensor<3xf32>"
        body = f"%e = tensor.empty() : {ty}\n  %y = linalg.{op} ins(%0 : {ty}) outs(%e : {ty}) -> {ty}"
        text += function(f"linalg_{op}", ty, 1, body)
    assert text.count("func.func") > 24
    (tmp_path / "m.mlir").write_text(text)
    tools.compile(tmp_path / "m.mlir", "-o", tmp_path / "m.itx", "--target=cpu:x86-64-v2")
