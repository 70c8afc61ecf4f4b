# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference lowering of nn.candidates against NumPy in double precision."""

from __future__ import annotations

import numpy as np
from candidate_formulas import check, special_logits
from reference import Reference


def test_candidates(tools, tmp_path) -> None:
    rows, vocabulary, count = 10, 70, 9
    random = np.random.default_rng(4)
    logits = special_logits(rows, vocabulary, random)
    temperatures = random.uniform(0.3, 3, (rows, 2)).astype(np.float32)
    types = f"(tensor<{rows}x{count}xf32>, tensor<{rows}x{count}xi32>, tensor<{rows}x2xf32>)"
    mlir = f"""
      func.func @f(%l: tensor<{rows}x{vocabulary}xf32>, %t: tensor<{rows}x2xf32>) -> {types} {{
        %v, %i, %s = nn.candidates %l, %t {{count = {count} : i64}}
            : (tensor<{rows}x{vocabulary}xf32>, tensor<{rows}x2xf32>) -> {types}
        return %v, %i, %s : {types[1:-1]}
      }}"""
    reference = Reference(tools.path("intarsia-opt"), mlir, tmp_path)
    results = [np.full((rows, count), -1, np.float32), np.full((rows, count), -1, np.int32)]
    results.append(np.full((rows, 2), -1, np.float32))
    # Computed in f64 and rounded once.
    check(reference("f", [logits, temperatures], results), logits, temperatures, 6.1e-8)
