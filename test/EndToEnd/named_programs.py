# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Named ops of linalg, against einsum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mlir_programs import Program, normal


def named(op: str, shapes: list[tuple[int, ...]], result: tuple[int, ...], expected: Callable[..., Any]) -> Program:
    """Return a program of one of linalg's named contractions or windows."""
    types = [f"tensor<{''.join(f'{size}x' for size in shape)}f32>" for shape in (*shapes, result)]
    inputs = ", ".join(f"%a{i}" for i in range(len(shapes)))
    body = f"""  %e = tensor.empty() : {types[-1]}
  %f = linalg.fill ins(%zero : f32) outs(%e : {types[-1]}) -> {types[-1]}
  %y = linalg.{op} ins({inputs} : {", ".join(types[:-1])}) outs(%f : {types[-1]}) -> {types[-1]}
  return %y : {types[-1]}"""
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(types[:-1]))
    return Program(arguments, types[-1], body, [normal(*shape) for shape in shapes], expected, 1e-5)


def einsum(subscripts: str) -> Callable[..., np.ndarray]:
    return lambda *operands: np.einsum(subscripts, *(one.astype(np.float64) for one in operands))


NAMED_PROGRAMS = {
    "named_" + op: named(op, shapes, result, einsum(subscripts))
    for op, shapes, result, subscripts in (
        ("matvec", [(3, 4), (4,)], (3,), "ab,b->a"),
        ("vecmat", [(4,), (4, 5)], (5,), "a,ab->b"),
        ("dot", [(9,), (9,)], (), "a,a->"),
        ("batch_matmul", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), "nab,nbc->nac"),
        ("batch_reduce_matmul", [(2, 3, 4), (2, 4, 5)], (3, 5), "nab,nbc->ac"),
        ("batch_matvec", [(2, 3, 4), (2, 4)], (2, 3), "nab,nb->na"),
        ("mmt4d", [(2, 2, 3, 4), (3, 2, 5, 4)], (2, 3, 3, 5), "mkab,nkcb->mnac"),
    )
}
NAMED_PROGRAMS["named_depthwise"] = named(
    "depthwise_conv_2d_nhwc_hwc {dilations = dense<1> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>}",
    [(1, 7, 6, 3), (3, 2, 3)],
    (1, 3, 5, 3),
    lambda x, w: np.einsum(
        "nijabc,abc->nijc",
        np.moveaxis(np.lib.stride_tricks.sliding_window_view(x, (3, 2), (1, 2))[:, ::2], 3, -1),
        w,
    ),
)
