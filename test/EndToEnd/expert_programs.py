# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of nn.route and nn.experts, for tests on any device."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from random_numbers import normal

DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}


def routing(count, top_k, normalize):
    types = f"tensor<?x{count}xf32>) -> (tensor<?x{top_k}xi32>, tensor<?x{top_k}xf32>)"
    return f"""
      func.func @main(%l: tensor<?x{count}xf32> {{nn.name = "l", nn.sizes = ["tokens", ""]}})
          -> (tensor<?x{top_k}xi32> {{nn.name = "i"}}, tensor<?x{top_k}xf32> {{nn.name = "w"}}) {{
        %i, %w = nn.route %l {{{"normalize, " if normalize else ""}top_k = {top_k} : i64}} : ({types}
        return %i, %w : tensor<?x{top_k}xi32>, tensor<?x{top_k}xf32>
      }}"""


def special_logits(count):
    """Logits of 101 tokens, some with ties, infinities and NaN."""
    logits = 4 * normal(101, count)
    logits[1] = np.round(logits[1])  # ties
    logits[2] = 1
    logits[3, 1], logits[4] = np.nan, -np.inf
    logits[5, : count - 1] = -np.inf
    logits[6, :2] = 0.0, -0.0
    logits[7, 2] = -np.nan
    return logits


def program(hidden, inner, count, top_k, kind, biases, stored, constant, limits=""):
    """The text of a module; the weights are those of an archive, or inputs."""
    names = ["gu", "d"] + (["gb", "db"] if biases else [])
    shapes = {
        "gu": f"{count}x2x{inner}x{hidden}",
        "d": f"{count}x{hidden}x{inner}",
        "gb": f"{count}x2x{inner}",
        "db": f"{count}x{hidden}",
    }
    types = [f"tensor<{shapes[name]}x{stored}>" for name in names]
    tokens = '{nn.name = "%s", nn.sizes = ["tokens", ""]}'
    arguments = [f"%x: tensor<?x{hidden}xf32> {tokens % 'x'}", f"%i: tensor<?x{top_k}xi32> {tokens % 'i'}"]
    arguments.append(f"%w: tensor<?x{top_k}xf32> {tokens % 'w'}")
    weights = ""
    for name, kind_of in zip(names, types, strict=True):
        if constant:
            weights += f'%{name} = nn.weight @weights["{name}"] : {kind_of}\n'
        else:
            arguments.append(f'%{name}: {kind_of} {{nn.name = "{name}"}}')
    inputs = [f"tensor<?x{hidden}xf32>", f"tensor<?x{top_k}xi32>", f"tensor<?x{top_k}xf32>", *types]
    return f"""
      func.func @main({", ".join(arguments)}) -> tensor<?x{hidden}xf32> {{
        {weights}
        %r = nn.experts %x, %i, %w, %gu, %d {"gate_up_bias %gb down_bias %db " if biases else ""}
            {{activation = #nn.gated_activation<{kind}>{limits}}} : ({", ".join(inputs)}) -> tensor<?x{hidden}xf32>
        return %r : tensor<?x{hidden}xf32>
      }}"""


def make(hidden, inner, count, biases, stored):
    dtype = DTYPES[stored]
    weights = {
        "gu": (normal(count, 2, inner, hidden) / hidden**0.5).astype(dtype),
        "d": (normal(count, hidden, inner) / inner**0.5).astype(dtype),
    }
    if biases:
        weights |= {"gb": normal(count, 2, inner).astype(dtype), "db": normal(count, hidden).astype(dtype)}
    return weights
