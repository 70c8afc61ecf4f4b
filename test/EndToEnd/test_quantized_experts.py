# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nn.experts of quantized weights through the whole compiler, against NumPy with the same quantized values."""

from __future__ import annotations

import os

import intarsia
import ml_dtypes
import numpy as np
import pytest
from block_formats import quantize_activations, quantize_weight
from expert_formulas import activated, experts
from programs import build, by_turns, close
from random_numbers import normal
from test_decoders import HERE, Server
from test_experts import make, program

FORMATS = ["int4", "int5", "int8", "mxfp4", "nvfp4", "int4-g64", "int4-g128", "int4-channel", "int8-channel"]
LIMITS = ", alpha = 1.5 : f32, limit = 1.0 : f32"


def quantized_matrix(name: str, weight: np.ndarray) -> np.ndarray:
    return quantize_weight(name, weight.astype(np.float32).reshape(-1, weight.shape[-1])).reshape(weight.shape)


def expected(x, indices, mixed, gate_up, down, gate_up_bias=None, down_bias=None, kind="silu", **limits):
    """Give the result in float64, and how far off it may be: where a feature lies between two quantized
    values, either will do."""
    inputs = quantize_activations(x).astype(np.float64)
    result, slack = np.zeros(x.shape), np.full(x.shape, 3e-5)
    for token in range(len(x)):
        for expert, weight in zip(indices[token], mixed[token].astype(np.float64), strict=True):
            parts = gate_up[expert].astype(np.float64) @ inputs[token]
            if gate_up_bias is not None:
                parts = parts + gate_up_bias[expert]
            hidden = activated(kind, parts[0], parts[1], **limits)
            padded = np.pad(hidden, (0, -len(hidden) % 32)).reshape(-1, 32)
            steps = np.repeat(np.abs(padded).max(1) / 127, 32)[: len(hidden)]
            quotients = np.abs(hidden / np.where(steps == 0, 1, steps))
            isNear = np.abs(quotients - np.trunc(quotients) - 0.5) < 2e-3
            slack[token] += abs(weight) * (np.abs(down[expert]).astype(np.float64) @ (isNear * steps))
            row = down[expert].astype(np.float64) @ quantize_activations(hidden.astype(np.float32))
            result[token] += weight * (row if down_bias is None else row + down_bias[expert])
    return result, slack


def given(tokens: int, hidden: int, count: int, top_k: int):
    random = np.random.default_rng(tokens)
    indices = random.permuted(np.tile(np.arange(count), (tokens, 1)), axis=1)[:, :top_k].astype(np.int32)
    if tokens > 100:
        indices[5:90] = indices[5]  # some experts have many rows, others few or none
    # No quotient of the input lies between two quantized values.
    x = normal(tokens, hidden)
    padded = np.pad(x, ((0, 0), (0, -hidden % 32))).reshape(tokens, -1, 32)
    quotients = np.abs(127 * padded / np.abs(padded).max(-1, keepdims=True))
    x = np.where(np.abs(quotients - np.trunc(quotients) - 0.5) < 1e-3, 0, padded).reshape(tokens, -1)[:, :hidden]
    return x.astype(np.float32), indices, normal(tokens, top_k)


def check(module, tensors, hidden, count, top_k, tokens, kind="silu", **limits) -> None:
    x, indices, mixed = given(tokens, hidden, count, top_k)
    actual = module.main(x=x, i=indices, w=mixed)
    wanted, slack = expected(x, indices, mixed, *tensors, kind=kind, **limits)
    error = np.abs(actual - wanted)
    assert (error <= slack).all(), f"off by {(error - slack).max():.2e} more than {slack[error > slack].max():.2e}"
    assert np.abs(actual).max() > 0.01
    # A token has the same results whatever else is computed with it.
    alone = module.main(x=x[-1:], i=indices[-1:], w=mixed[-1:])
    np.testing.assert_array_equal(alone[0], actual[-1])


def tensors_of(name: str, weights: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Give them with the two matrices quantized."""
    return [quantized_matrix(name, weights[key]) if key in ("gu", "d") else weights[key].astype(np.float32)
            for key in ("gu", "d", "gb", "db") if key in weights]  # fmt: skip


# Every format with biases, limits and rows that end in the middle of a block, and by turns without them or with long rows.
@pytest.mark.parametrize(
    ("hidden", "inner", "count", "top_k", "kind", "biases", "name"),
    by_turns([(200, 2112, 3, 1, "silu", True), (64, 96, 8, 2, "silu", False)], FORMATS)
    + by_turns([(72, 40, 5, 3, "clamped_swiglu", True)], FORMATS),
)
def test_formats(tools, scratch, name, hidden, inner, count, top_k, kind, biases):
    limits = {"alpha": 1.5, "limit": 1.0} if kind != "silu" else {}
    weights = make(hidden, inner, count, biases, "f32")
    text = program(hidden, inner, count, top_k, kind, biases, "f32", True, LIMITS if limits else "")
    module = build(tools, scratch / f"{name}-{hidden}", text, weights, "cpu", f"--quantize={name}")
    for tokens in (1, 3, 150) if inner < 1000 else (1, 40):
        check(module, tensors_of(name, weights), hidden, count, top_k, tokens, kind, **limits)


@pytest.mark.parametrize("name", ["int4", "int8", "nvfp4"])
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v3+avxvnni"])
def test_targets(tools, scratch, name, target):
    weights = make(72, 40, 4, True, "bf16")
    text = program(72, 40, 4, 2, "clamped_swiglu", True, "bf16", True, LIMITS)
    module = build(tools, scratch / f"{name}-{target}", text, weights, f"cpu:{target}", f"--quantize={name}")
    tensors = tensors_of(name, {key: value.astype(np.float32) for key, value in weights.items()})
    for tokens in (1, 9, 120):
        check(module, tensors, 72, 4, 2, tokens, "clamped_swiglu", alpha=1.5, limit=1.0)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3", "cpu:x86-64"])
@pytest.mark.parametrize(("name", "values"), [("mxfp4", [-6, 4, 6, 0]), ("int8", [-127, 126, 127, 0])])
def test_sums_are_exact(tools, scratch, name, values, target):
    """Scales of one and a gate of 32, whose sigmoid is one: not one bit of either matmul may be lost."""
    hidden, inner, count = 64, 96, 3
    rng = np.random.default_rng(3)
    # A multiply-add has one rounding where there are instructions for it.
    precision = np.float32 if target == "cpu:x86-64" else np.float64
    # The definition, which the reference device computes, has dequantized values in f32 and one rounding of their sum.
    is_reference = os.environ.get("INTARSIA_TEST_TARGET") == "reference"
    weights = {
        "gu": np.zeros((count, 2, inner, hidden), np.float32),
        "d": rng.choice(values, (count, hidden, inner)).astype(np.float32),
        "gb": np.zeros((count, 2, inner), np.float32),
        "db": np.zeros((count, hidden), np.float32),
    }
    weights["gu"][:, 1] = rng.choice(values, (count, inner, hidden))
    weights["gu"][:, 1, :, ::32] = weights["d"][:, :, ::32] = max(values)
    weights["gb"][:, 0] = 32
    text = program(hidden, inner, count, 1, "silu", True, "f32", True)
    module = build(tools, scratch / f"exact-{name}-{target.replace(':', '-')}", text, weights, target,
                   f"--quantize={name}")  # fmt: skip
    x = rng.choice([-127, 127, 126, 0, -1], (60, hidden)).astype(np.float32)
    x[:, ::32] = 127
    indices = rng.integers(0, count, (60, 1)).astype(np.int32)
    indices[20:] = 1
    wanted = np.zeros(x.shape, np.float32)
    for token, (expert,) in enumerate(indices):
        blocks = (32 * (weights["gu"][expert, 1] @ x[token])).reshape(-1, 32)
        largest = np.abs(blocks).max(1, keepdims=True)
        inverse, scales = np.float32(127) / largest, largest / np.float32(127)
        quantized = np.rint(blocks.astype(precision) * inverse).reshape(-1)
        if is_reference:
            dequantized = quantized.astype(np.float32) * np.repeat(scales[:, 0], 32)
            wanted[token] = weights["d"][expert].astype(np.float64) @ dequantized.astype(np.float64)
            continue
        for block, scale in enumerate(scales[:, 0]):
            part = slice(32 * block, 32 * block + 32)
            sums = (weights["d"][expert][:, part] @ quantized[part]).astype(precision)
            wanted[token] = (sums * precision(scale) + wanted[token]).astype(np.float32)
    for tokens in (1, 60):
        actual = module.main(x=x[:tokens], i=indices[:tokens], w=np.ones((tokens, 1), np.float32))
        np.testing.assert_array_equal(actual, wanted[:tokens])


@pytest.mark.parametrize("name", ["int4", "mxfp4", "nvfp4", "int4-channel"])
def test_activations_as_they_are(tools, scratch, name):
    weights = make(72, 40, 5, True, "f32")
    text = program(72, 40, 5, 2, "silu", True, "f32", True)
    module = build(tools, scratch / f"{name}-16", text, weights, "cpu", f"--quantize={name}",
                   "--quantize-activations=16")  # fmt: skip
    for tokens in (1, 150):
        x, indices, mixed = given(tokens, 72, 5, 2)
        close(module.main(x=x, i=indices, w=mixed), experts(x, indices, mixed, *tensors_of(name, weights)), 3e-5)


def test_size(tools, scratch):
    """Quantized values alone are stored, each matrix in whole panels."""
    build(tools, scratch / "size", program(64, 96, 4, 2, "silu", False, "f32", True), make(64, 96, 4, False, "f32"),
          "cpu", "--quantize=int4")  # fmt: skip
    assert (scratch / "size" / "m.safetensors").stat().st_size < 4 * 3 * 64 * 96 * 4.5 / 8 + 1024


def mxfp4(*shape: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give blocks, scales and dequantized values of a tensor in MXFP4 whose rows are along the last dimension."""
    rng = np.random.default_rng(5)
    quantized = rng.integers(0, 16, shape).astype(np.uint8)
    scales = rng.integers(121, 125, (*shape[:-1], shape[-1] // 32)).astype(np.uint8)
    blocks = (quantized[..., 0::2] | quantized[..., 1::2] << 4).reshape(*scales.shape, 16)
    elements = quantized.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    return blocks, scales, elements * np.repeat(np.exp2(scales.astype(np.float32) - 127), 32, -1)


MXFP4 = """
  %rows_v = nn.weight @weights["gub"] : tensor<3x80x64xi4>
  %rows_s = nn.weight @weights["gus"] : tensor<3x80x2xi8>
  %rows = nn.dequantize %rows_v, %rows_s {format = #nn.block_format<e2m1, e8m0, 32, axis = 2>} : (tensor<3x80x64xi4>, tensor<3x80x2xi8>) -> tensor<3x80x64xbf16>
  %apart = tensor.expand_shape %rows [[0], [1, 2], [3]] output_shape [3, 40, 2, 64] : tensor<3x80x64xbf16> into tensor<3x40x2x64xbf16>
  %e = tensor.empty() : tensor<3x2x40x64xbf16>
  %gu = linalg.transpose ins(%apart : tensor<3x40x2x64xbf16>) outs(%e : tensor<3x2x40x64xbf16>) permutation = [0, 2, 1, 3]
"""


@pytest.mark.parametrize("flags", [[], ["--quantize=int4"], ["--quantize-activations=16"]])
def test_mxfp4_is_kept(tools, scratch, flags):
    """A matrix stored in MXFP4, even rows gate and odd rows up, keeps its bits beside a second matrix of bf16."""
    blocks, scales, dequantized = mxfp4(3, 80, 64)
    down = (normal(3, 64, 40) / 7).astype(ml_dtypes.bfloat16)
    text = program(64, 40, 3, 2, "silu", False, "bf16", True)
    line = '%gu = nn.weight @weights["gu"] : tensor<3x2x40x64xbf16>\n'
    assert line in text
    folder = scratch / f"mxfp4-{len(flags)}{''.join(flags)[-2:]}"
    module = build(tools, folder, text.replace(line, MXFP4), {"gub": blocks, "gus": scales, "d": down}, "cpu", *flags)
    gate_up = dequantized.reshape(3, 40, 2, 64).swapaxes(1, 2)
    down = down.astype(np.float32)
    for tokens in (1, 120):
        x, indices, mixed = given(tokens, 64, 3, 2)
        actual = module.main(x=x, i=indices, w=mixed)
        if "--quantize=int4" in flags:
            wanted, slack = expected(x, indices, mixed, gate_up, quantized_matrix("int4", down))
            assert (np.abs(actual - wanted) <= slack).all()
        else:
            inputs = x if flags else quantize_activations(x)
            close(actual, experts(inputs, indices, mixed, gate_up, down), 3e-5)
    assert (folder / "m.safetensors").stat().st_size < 3 * (2 * 64 * 64 * 4.25 / 8 + 64 * 40 * 2) + 1024


def test_rows_that_are_stored_as_columns(tools, scratch):
    """Gate and up are even and odd columns of one tensor: quantized as rows; messages have the stored index."""
    weights = make(64, 40, 3, False, "f32")
    stored = {"c": weights["gu"].transpose(0, 3, 2, 1).reshape(3, 64, 80), "d": weights["d"]}
    text = program(64, 40, 3, 2, "silu", False, "f32", True).replace(
        '%gu = nn.weight @weights["gu"] : tensor<3x2x40x64xf32>',
        """
        %c = nn.weight @weights["c"] : tensor<3x64x80xf32>
        %p = tensor.expand_shape %c [[0], [1], [2, 3]] output_shape [3, 64, 40, 2] : tensor<3x64x80xf32> into tensor<3x64x40x2xf32>
        %e = tensor.empty() : tensor<3x2x40x64xf32>
        %gu = linalg.transpose ins(%p : tensor<3x64x40x2xf32>) outs(%e : tensor<3x2x40x64xf32>) permutation = [0, 3, 2, 1]""",
    )
    for name in ("int4", "nvfp4"):
        module = build(tools, scratch / f"columns-{name}", text, stored, "cpu", f"--quantize={name}")
        check(module, tensors_of_columns(name, weights), 64, 3, 2, 30)
    stored["c"][2, 5, 7] = np.nan
    folder = scratch / "columns-nan"
    with pytest.raises(
        pytest.fail.Exception, match=r"tensor 'c' has nan at \[2, 5, 7\], which i4-f16-32 cannot represent"
    ):
        build(tools, folder, text, stored, "cpu", "--quantize=int4")
    assert not (folder / "m.itx").exists()


def tensors_of_columns(name: str, weights: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [quantized_matrix(name, weights["gu"]), quantized_matrix(name, weights["d"])]


@pytest.mark.parametrize("name", ["int4", "nvfp4"])
def test_weights_that_are_not_finite(tools, scratch, name):
    weights = make(64, 40, 3, False, "f32")
    weights["gu"][2, 1, 3, 5] = np.inf
    folder = scratch / f"inf-{name}"
    with pytest.raises(pytest.fail.Exception, match=r"tensor 'gu' has INF at \[2, 1, 3, 5\]"):
        build(tools, folder, program(64, 40, 3, 2, "silu", False, "f32", True), weights, "cpu", f"--quantize={name}")
    assert not (folder / "m.itx").exists()


def test_scale_that_is_no_number(tools, scratch):
    blocks, scales, _ = mxfp4(3, 80, 64)
    scales[1, 4, 1] = 255
    text = program(64, 40, 3, 2, "silu", False, "bf16", True)
    text = text.replace('%gu = nn.weight @weights["gu"] : tensor<3x2x40x64xbf16>\n', MXFP4)
    down = normal(3, 64, 40).astype(ml_dtypes.bfloat16)
    with pytest.raises(pytest.fail.Exception, match=r"tensor 'gus' has a scale 255 .*row.* 84 of 'gub'"):
        build(tools, scratch / "scale", text, {"gub": blocks, "gus": scales, "d": down})


@pytest.mark.parametrize("name", ["int4", "mxfp4"])
def test_model_against_pytorch(tools, scratch, name):
    """Where a feature lies between two quantized values PyTorch may take the other one: most logits stay the same."""
    with np.load(HERE / "goldens" / "quantized-experts.npz") as golden:
        ids, logits = golden["input_ids"], golden[name]
    tools.compile(HERE / "decoders" / "mixtral", "-o", scratch / f"{name}.itx", "--kv=f32", f"--quantize={name}")
    error = np.abs(Server(intarsia.load(scratch / f"{name}.itx"), 1, 64).run([(0, ids)])[0] - logits)
    assert np.median(error) < 1e-4
    assert error.max() < 0.02 * np.abs(logits).max()
