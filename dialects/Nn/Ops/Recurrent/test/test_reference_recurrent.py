# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.recurrent against its formula, in NumPy and double precision."""

from __future__ import annotations

import pytest
from recurrences import CASES
from reference import nearest


@pytest.mark.parametrize("name", CASES)
def test_recurrent(evaluate, name: str) -> None:
    case = CASES[name]
    values = case.make()
    text = case.text({key: f"%a{i}" for i, key in enumerate(values)}).replace("{", "{{").replace("}", "}}")
    expected = case.compute(values)
    results = ", ".join(f"tensor<{'x'.join(map(str, shape))}xf32>" for shape in case.results)
    operands = ", ".join(
        f"tensor<{'x'.join(map(str, shape))}x{'i64' if key == 'lengths' else 'f32'}>"
        for key, shape in case.operands.items()
    )
    text = f"{text} : ({operands}) -> ({results})"
    for number, (shape, value) in enumerate(zip(case.results, expected, strict=True)):
        nearest(evaluate(text, list(values.values()), shape, result_of=(number, len(expected))), value)
