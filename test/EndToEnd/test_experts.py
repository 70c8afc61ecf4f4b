# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nn.route and nn.experts through the whole compiler, against NumPy in float64."""

from __future__ import annotations

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from expert_formulas import experts, route
from expert_programs import make, program, routing, special_logits
from programs import build
from random_numbers import normal


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(
    ("count", "top_k", "target"), [(8, 2, "cpu"), (37, 5, "cpu"), (128, 8, "cpu:x86-64-v3"), (3, 3, "cpu:x86-64")]
)
def test_route(tools, scratch, count, top_k, target, normalize):
    text = routing(count, top_k, normalize)
    module = build(tools, scratch / f"route-{count}-{normalize}", text, target=target)
    logits = special_logits(count)
    for tokens in (101, 1):
        indices, weights = module.main(l=logits[-tokens:])
        wanted = route(logits[-tokens:], top_k, normalize)
        np.testing.assert_array_equal(indices, wanted[0])
        # Differences of logits are up to 40, rounded to 2^-20 of one; so are their exponentials, relatively.
        np.testing.assert_allclose(weights, wanted[1], rtol=4e-6, atol=1e-30)


@pytest.mark.parametrize(
    ("hidden", "inner", "count", "top_k", "kind", "biases", "stored", "constant", "target"),
    [
        (64, 96, 8, 2, "silu", False, "f32", True, "cpu"),
        (48, 40, 5, 3, "silu", False, "bf16", True, "cpu"),
        (40, 72, 4, 4, "clamped_swiglu", True, "bf16", True, "cpu"),
        (33, 31, 7, 1, "clamped_swiglu", True, "f32", True, "cpu:x86-64-v3"),
        (64, 32, 3, 2, "silu", True, "f16", True, "cpu:x86-64"),
        (48, 40, 5, 2, "clamped_swiglu", True, "f32", False, "cpu"),
        (64, 96, 20, 2, "silu", False, "bf16", False, "cpu:x86-64-v3"),
    ],
)
def test_experts(tools, scratch, hidden, inner, count, top_k, kind, biases, stored, constant, target):
    limits = ", alpha = 1.5 : f32, limit = 1.0 : f32" if kind != "silu" else ""
    weights = make(hidden, inner, count, biases, stored)
    text = program(hidden, inner, count, top_k, kind, biases, stored, constant, limits)
    name = f"experts-{hidden}-{inner}-{count}-{constant}"
    module = build(tools, scratch / name, text, weights if constant else None, target)
    given = {} if constant else weights
    settings = {"alpha": 1.5, "limit": 1.0} if limits else {}
    random = np.random.default_rng(1)
    tensors = [weights[key].astype(np.float64) for key in ("gu", "d", "gb", "db") if key in weights]
    for tokens in (1, 2, 300):
        x, mixed = normal(tokens, hidden), normal(tokens, top_k)
        indices = random.permuted(np.tile(np.arange(count), (tokens, 1)), axis=1)[:, :top_k].astype(np.int32)
        if tokens == 300:
            indices[5:200] = indices[5]  # some experts have many rows, others none
        actual = module.main(x=x, i=indices, w=mixed, **given)
        wanted = experts(x, indices, mixed, *tensors, kind=kind, **settings)
        # Sums of up to 96 products of values around 1, in f32.
        np.testing.assert_allclose(actual, wanted, atol=2e-5)


def test_gate_and_up_of_two_tensors(tools, scratch):
    weights = make(48, 40, 5, False, "f32")
    stored = {"gate": weights["gu"][:, 0], "up": weights["gu"][:, 1], "d": weights["d"]}
    concatenated = """
        %g = nn.weight @weights["gate"] : tensor<5x40x48xf32>
        %u = nn.weight @weights["up"] : tensor<5x40x48xf32>
        %j = tensor.concat dim(0) %g, %u : (tensor<5x40x48xf32>, tensor<5x40x48xf32>) -> tensor<10x40x48xf32>
        %p = tensor.expand_shape %j [[0, 1], [2], [3]] output_shape [2, 5, 40, 48]
            : tensor<10x40x48xf32> into tensor<2x5x40x48xf32>
        %e = tensor.empty() : tensor<5x2x40x48xf32>
        %gu = linalg.transpose ins(%p : tensor<2x5x40x48xf32>) outs(%e : tensor<5x2x40x48xf32>) permutation = [1, 0, 2, 3]
        """
    text = program(48, 40, 5, 2, "silu", False, "f32", True)
    line = '%gu = nn.weight @weights["gu"] : tensor<5x2x40x48xf32>'
    assert line in text
    module = build(tools, scratch / "two", text.replace(line, concatenated), stored)
    x, mixed = normal(7, 48), normal(7, 2)
    indices = np.array([[t % 5, (t + 2) % 5] for t in range(7)], np.int32)
    wanted = experts(x, indices, mixed, weights["gu"], weights["d"])
    np.testing.assert_allclose(module.main(x=x, i=indices, w=mixed), wanted, atol=2e-5)


def test_indices_outside_give_nan(tools, scratch):
    weights = make(48, 32, 4, False, "f32")
    module = build(tools, scratch / "outside", program(48, 32, 4, 2, "silu", False, "f32", True), weights)
    x, mixed = normal(3, 48), normal(3, 2)
    indices = np.array([[0, 3], [1, 4], [-2, 2]], np.int32)
    actual = module.main(x=x, i=indices, w=mixed)
    wanted = experts(x, indices, mixed, weights["gu"], weights["d"])
    np.testing.assert_allclose(actual[0], wanted[0], atol=2e-5)
    assert np.isnan(actual[1:]).all()


def test_index_of_no_expert_adds_nothing(tools, scratch):
    weights = make(48, 40, 4, True, "f32")
    module = build(tools, scratch / "none", program(48, 40, 4, 3, "silu", True, "f32", True), weights)
    tensors = [weights[key] for key in ("gu", "d", "gb", "db")]
    for tokens in (1, 90):
        x, mixed = normal(tokens, 48), normal(tokens, 3)
        indices = np.random.default_rng(3).integers(-1, 4, (tokens, 3)).astype(np.int32)
        indices[tokens // 2] = -1
        actual = module.main(x=x, i=indices, w=mixed)
        np.testing.assert_allclose(actual, experts(x, indices, mixed, *tensors), atol=2e-5)
        assert not actual[tokens // 2].any()


SCRIPT = """
import sys, intarsia, numpy as np
with np.load(sys.argv[2]) as given:
    x, i, w = given["x"], given["i"], given["w"]
module = intarsia.load(sys.argv[1])
parts = [slice(0, None)] if sys.argv[3] == "whole" else [slice(t, t + int(sys.argv[3])) for t in range(0, len(x), int(sys.argv[3]))]
np.save(sys.argv[4], np.concatenate([module.main(x=x[p], i=i[p], w=w[p]) for p in parts]))
"""


def test_same_bits_for_any_threads_and_batch(tools, scratch):
    weights = make(96, 160, 6, True, "bf16")
    text = program(96, 160, 6, 2, "clamped_swiglu", True, "bf16", True)
    build(tools, scratch / "bits", text, weights)
    random = np.random.default_rng(2)
    indices = random.permuted(np.tile(np.arange(6), (90, 1)), axis=1)[:, :2].astype(np.int32)
    np.savez(scratch / "bits" / "given.npz", x=normal(90, 96), i=indices, w=normal(90, 2))
    results = []
    for threads, part in ((1, "whole"), (2, "whole"), (3, "1"), (5, "7"), (2, "30")):
        output = scratch / "bits" / f"{threads}-{part}.npy"
        environment = os.environ | {"ITX_THREADS": str(threads)}
        command = [
            sys.executable,
            "-c",
            SCRIPT,
            scratch / "bits" / "m.itx",
            scratch / "bits" / "given.npz",
            part,
            output,
        ]
        subprocess.run(command, env=environment, check=True, timeout=120)
        results.append(np.load(output))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].view(np.int32), other.view(np.int32))


def test_mxfp4_weights_are_exact(tools, scratch):
    """Every bit pattern under every scale, against ml_dtypes; NaN for a scale of NaN, infinite where bf16 ends."""
    text = """
      func.func @main() -> tensor<256x32xf32> {
        %w_v = nn.weight @weights["b"] : tensor<256x32xi4>
        %w_s = nn.weight @weights["s"] : tensor<256x1xi8>
        %w = nn.dequantize %w_v, %w_s {format = #nn.block_format<e2m1, e8m0, 32, axis = 1>} : (tensor<256x32xi4>, tensor<256x1xi8>) -> tensor<256x32xbf16>
        %r = arith.extf %w : tensor<256x32xbf16> to tensor<256x32xf32>
        return %r : tensor<256x32xf32>
      }"""
    quantized = np.stack([np.random.default_rng(s).permutation(np.arange(32) % 16) for s in range(256)]).astype(
        np.uint8
    )
    scales = np.arange(256, dtype=np.uint8).reshape(256, 1)
    blocks = (quantized[:, 0::2] | quantized[:, 1::2] << 4).reshape(256, 1, 16)
    module = build(tools, scratch / "mxfp4", text, {"b": blocks, "s": scales})
    elements = quantized.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = (elements * scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(module.main(), wanted)
