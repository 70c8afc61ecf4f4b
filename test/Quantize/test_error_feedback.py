# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""lib/Quantize/ErrorFeedback against GPTQ as its paper has it (arXiv 2210.17323, algorithm 1), in f64 with NumPy: the
inverse of the moments, its Cholesky factor, and errors that are spread over the weights that are left."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

TOOL = Path(os.environ.get("INTARSIA_BUILD_DIR", "build/dev")) / "bin" / "intarsia-error-feedback"
DAMPING = 0.01  # of the mean of the diagonal, as the paper has it
SCALES = {"f16": np.float16, "f32": np.float32, "e8m0": ml_dtypes.float8_e8m0fnu, "e4m3": ml_dtypes.float8_e4m3fn}
FORMATS = [("i4", "f16", 32), ("i4", "f16", 128), ("i4", "f16", 0), ("i8", "f16", 32), ("e2m1", "e8m0", 32),
           ("e2m1", "e4m3", 16), ("e4m3", "f32", 0), ("nf4", "f16", 64), ("ternary", "f16", 32),
           ("ternary", "f16", 0), ("u4", "f16", 32), ("u4", "f16", 64)]  # fmt: skip


@dataclass
class Result:
    tensor_scale: float
    quantized: np.ndarray
    scales: np.ndarray
    zero_points: np.ndarray
    decoded: np.ndarray
    error: float


def run(moments, rows, element, scale, block, threads=2):
    features = rows.shape[1]
    done = subprocess.run(
        [TOOL, element, scale, str(block), str(features), str(threads)],
        input=moments.astype(np.float32).tobytes() + rows.astype(np.float32).tobytes(),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        return done.stderr.decode()
    blocks = -(-features // block) if block else 1
    scale_type = np.dtype(SCALES[scale])
    at = 4
    parts = []
    zeros = (len(rows), blocks if element == "u4" else 0)
    sizes = ((np.uint8, rows.shape), (scale_type, (len(rows), blocks)), (np.uint8, zeros), (np.float32, rows.shape))
    for dtype, shape in sizes:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        parts.append(np.frombuffer(done.stdout[at : at + size], dtype).reshape(shape))
        at += size
    tensor_scale = np.frombuffer(done.stdout[:4], np.float32)[0] if scale == "e4m3" else np.float32(1)
    return Result(tensor_scale, *parts, np.frombuffer(done.stdout[at:], np.float64)[0])


def inputs(features, tokens=400, seed=0):
    """Features that depend on each other and differ in size, as those of models do."""
    random = np.random.default_rng(seed)
    mixed = random.normal(size=(tokens, features)) @ random.normal(size=(features, features)) / features**0.5
    x = (mixed + random.normal(size=(tokens, features))) * np.exp(random.normal(size=features))
    return (x.T @ x / tokens).astype(np.float32), random.normal(size=(70, features)).astype(np.float32)


def damped(moments):
    moments = moments.astype(np.float64)
    return moments + DAMPING * np.diag(moments).mean() * np.eye(len(moments))


def elements_of(element):
    if element == "nf4":
        return None
    if element == "ternary":
        return np.array([-1.0, 0.0, 1.0])
    if element == "u4":
        return np.arange(16.0)
    if element[0] == "i":
        bits = int(element[1:])
        return np.arange(-(1 << bits - 1), 1 << bits - 1, dtype=np.float64)
    dtype = {"e2m1": ml_dtypes.float4_e2m1fn, "e4m3": ml_dtypes.float8_e4m3fn}[element]
    values = np.arange(16 if element == "e2m1" else 256, dtype=np.uint8).view(dtype).astype(np.float64)
    return np.unique(values[np.isfinite(values)])


def gptq(rows, moments, scales, values, zeros=None):
    """Algorithm 1 of the paper, in the order of falling diagonal, with scales and zero points [rows, features]."""
    order = np.argsort(-np.diag(moments), kind="stable")
    weights, scales = rows.astype(np.float64)[:, order], scales[:, order]
    zeros = np.zeros_like(weights) if zeros is None else zeros[:, order]
    upper = np.linalg.cholesky(np.linalg.inv(damped(moments)[np.ix_(order, order)])).T
    result = np.zeros_like(weights)
    for column in range(len(order)):
        ratios = weights[:, column] / scales[:, column]
        offsets = zeros[:, column]
        nearest = values[np.abs((ratios + offsets)[:, None] - values).argmin(1)] - offsets
        result[:, column] = nearest * scales[:, column]
        errors = (weights[:, column] - result[:, column]) / upper[column, column]
        weights[:, column:] -= np.outer(errors, upper[column, column:])
    return result[:, np.argsort(order)]


def output_error(difference, moments):
    return float(np.einsum("ri,ij,rj->", difference, damped(moments), difference))


@pytest.mark.parametrize(("element", "scale", "block"), FORMATS)
@pytest.mark.parametrize("features", [64, 200, 334])
def test_values_are_those_of_the_paper(element, scale, block, features):
    moments, rows = inputs(features)
    result = run(moments, rows, element, scale, block)
    width = block or features
    scales = np.repeat(result.scales.astype(np.float64) * result.tensor_scale, width, 1)[:, :features]
    difference = result.decoded.astype(np.float64) - rows
    # The tool's own figure of the error, and its decoded values are elements times scales.
    assert result.error == pytest.approx(output_error(difference, moments), rel=1e-4)
    values = elements_of(element)
    if values is None:
        return
    zeros = np.repeat(result.zero_points.astype(np.float64), width, 1)[:, :features] if element == "u4" else None
    expected = gptq(rows, moments, scales, values, zeros)
    # A ratio near the middle of two elements may go to the other one for a rounding, and what follows with it.
    same = np.isclose(result.decoded, expected, rtol=1e-6, atol=0)
    assert same.mean() > 0.98
    assert result.error == pytest.approx(output_error(expected - rows, moments), rel=0.01)


@pytest.mark.parametrize(("element", "scale", "block"), FORMATS)
def test_outputs_lose_less_than_by_rounding_to_nearest(element, scale, block):
    moments, rows = inputs(128, seed=1)
    feedback = run(moments, rows, element, scale, block)
    # Moments of independent features of one size leave nothing to make up for.
    nearest = run(np.eye(128), rows, element, scale, block)
    assert feedback.error < 0.7 * output_error(nearest.decoded.astype(np.float64) - rows, moments)


def test_independent_features_are_rounded_to_nearest():
    _, rows = inputs(64)
    result = run(np.diag(np.linspace(1, 2, 64)), rows, "i4", "f16", 32)
    scales = np.repeat(result.scales.astype(np.float32), 32, 1)
    expected = np.clip(np.rint(rows / scales), -8, 7) * scales
    np.testing.assert_array_equal(result.decoded, expected)


def test_scales_are_the_best_of_a_grid():
    """With the weights of moments, no scale of ours is worse than the largest magnitude's."""
    moments, rows = inputs(64)
    result = run(moments, rows, "i4", "f16", 32)
    importance = np.diag(moments).reshape(2, 32)
    blocks = rows.reshape(70, 2, 32)

    def error(scales):
        scales = scales[..., None].astype(np.float64)
        return ((blocks - np.clip(np.rint(blocks / scales), -8, 7) * scales) ** 2 * importance).sum(-1)

    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)[..., 0]
    assert (error(result.scales) <= error((largest / -8).astype(np.float16)) * (1 + 1e-6)).all()
    assert (error(result.scales) < error((largest / -8).astype(np.float16)) * 0.999).any()


def test_the_number_of_threads_does_not_matter():
    moments, rows = inputs(200)
    one, four = (run(moments, rows, "i4", "f16", 32, threads) for threads in (1, 4))
    np.testing.assert_array_equal(one.quantized, four.quantized)
    assert one.error == four.error


def test_features_that_are_never_seen():
    moments, rows = inputs(64)
    moments[5] = moments[:, 5] = 0
    assert np.isfinite(run(moments, rows, "i4", "f16", 32).decoded).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, w: m.__setitem__((3, 7), np.nan), "the moments of feature 3 are not finite"),
        (lambda m, w: m.__setitem__((9, 9), -1), "the moments of feature 9 are not finite, or negative"),
        (lambda m, w: m.__setitem__(slice(None), 0), "all moments are zero"),
        (lambda m, w: w.__setitem__((66, 3), np.inf), "value 3 of row 66 is inf"),
    ],
)
def test_bad_numbers(change, message):
    moments, rows = inputs(64)
    change(moments, rows)
    assert message in run(moments, rows, "i4", "f16", 32)
