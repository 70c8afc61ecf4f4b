# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention whose products are of integers of 8 bits, against NumPy in float64: with the same quantized queries, keys
and values, and with the values as they are."""

from __future__ import annotations

import json

import numpy as np
import pytest
from programs import build, close
from random_numbers import RNG, normal
from safetensors.numpy import save_file
from test_ops import attention
from test_quantized_linears import program

VNNI = "cpu:x86-64-v4+avx512vnni"
TARGETS = [VNNI, "cpu:x86-64-v3+avxvnni"]
MASKS = {
    "none": None,
    "boolean": ("tensor<?x1x1x?xi1>", '["batch", "", "", "keys"]'),
    "additive": ("tensor<?x1x1x?xf32>", '["batch", "", "", "keys"]'),
    "full": ("tensor<?x1x?x?xf32>", '["batch", "", "queries", "keys"]'),
    "causal": None,
}


def attention_program(heads: int, groups: int, dims: tuple[int, int], kind: str = "none", scale: float = 0.0) -> str:
    """Attention that may have integers of 8 bits, with features of keys and of values."""
    dim, values = dims
    query, key, value, result = (
        f"tensor<?x?x{heads}x{dim}xf32>",
        f"tensor<?x?x{groups}x{dim}xf32>",
        f"tensor<?x?x{groups}x{values}xf32>",
        f"tensor<?x?x{heads}x{values}xf32>",
    )
    mask = MASKS[kind]
    argument = f', %m: {mask[0]} {{nn.name = "m", nn.sizes = {mask[1]}}}' if mask else ""
    operand, operand_type = (" mask %m", f", {mask[0]}") if mask else ("", "")
    flag = ", causal" if kind == "causal" else ""
    return f"""
func.func @main(%q: {query} {{nn.name = "q", nn.sizes = ["batch", "queries", "", ""]}},
                %k: {key} {{nn.name = "k", nn.sizes = ["batch", "keys", "", ""]}},
                %v: {value} {{nn.name = "v", nn.sizes = ["batch", "keys", "", ""]}}{argument})
    -> ({result} {{nn.name = "y", nn.sizes = ["batch", "queries", "", ""]}}) {{
  %y = nn.attention %q, %k, %v{operand} {{precision = i8, scale = {scale or dim**-0.5} : f32{flag}}} : ({query}, {key}, {value}{operand_type}) -> {result}
  return %y : {result}
}}
"""


def quantized(rows: np.ndarray) -> np.ndarray:
    """Rows as 127ths of their largest magnitudes, ties to even, in float64."""
    largest = np.abs(rows).max(-1, keepdims=True)
    with np.errstate(over="ignore"):
        inverse = np.where(largest < 1e-35, 0, np.float32(127) / np.maximum(largest, np.float32(1e-37)))
    return np.rint(rows.astype(np.float64) * inverse) * (largest.astype(np.float64) / 127)


def power_error(q, k, v, scale, mask, causal) -> np.ndarray:
    """The standard deviation of a result when powers times scales are rounded to 255ths of the largest one."""
    keys, groups = k.shape[1:3]
    weights = attention(
        q, k, np.broadcast_to(np.eye(keys)[None, :, None], (len(k), keys, groups, keys)), scale, mask, causal
    )
    scales = np.abs(v).max(-1)
    repeat = q.shape[2] // groups
    largest = (weights * np.repeat(scales, repeat, 2).transpose(0, 2, 1)[:, None]).max(-1)
    units = ((v / np.where(scales == 0, 1, scales)[..., None]) ** 2).sum(1)
    return largest[..., None] * np.sqrt(np.repeat(units, repeat, 1))[:, None] / (255 * np.sqrt(12))


def mask_of(kind: str, batch: int, queries: int, keys: int) -> np.ndarray | None:
    if kind == "boolean":
        return RNG.random((batch, 1, 1, keys)) < 0.7
    if kind == "additive":
        mask = normal(batch, 1, 1, keys)
        mask[..., keys // 2 :] = -np.inf if keys > 1 else 0
        return mask
    if kind != "full":
        return None
    mask = normal(batch, 1, queries, keys)
    mask[:, :, 0] = -np.inf  # a query that may see nothing
    return mask


def check(module, q, k, v, scale, mask=None, causal=False) -> np.ndarray:
    """Compare with attention in float64 of the quantized values; what remains is the rounding of powers."""
    y = module.main(*[q, k, v, *([] if mask is None else [mask])])
    rows = [quantized(x) for x in (q, k, v)]
    expected = attention(*rows, scale, mask, causal)
    error = np.abs(np.asarray(y) - expected)
    allowed = 6 * power_error(*rows, scale, mask, causal) + 1e-5 * np.abs(v).max()
    assert (error <= allowed).all(), (error / allowed).max()
    return np.asarray(y)


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("heads", "groups", "dims"), [(4, 4, (32, 32)), (6, 2, (64, 64)), (2, 1, (20, 33)), (1, 1, (7, 3))]
)
@pytest.mark.parametrize("kind", MASKS)
def test_shapes(tools, scratch, heads, groups, dims, kind, target):
    module = build(tools, scratch, attention_program(heads, groups, dims, kind), target=target)
    for batch, queries, keys in ((1, 1, 1), (2, 5, 9), (1, 33, 40), (2, 64, 300), (1, 40, 33)):
        q, k, v = (
            normal(batch, n, h, d)
            for n, h, d in zip((queries, keys, keys), (heads, groups, groups), (dims[0], *dims), strict=True)
        )
        check(module, q, k, v, dims[0] ** -0.5, mask_of(kind, batch, queries, keys), kind == "causal")


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", TARGETS)
def test_error_against_floats(tools, scratch, target):
    """Rounding to 8 bits costs about what it must: more than f32 would, and less than a hundredth of the values."""
    module = build(tools, scratch, attention_program(4, 4, (32, 32)), target=target)
    q, k, v = (normal(2, 128, 4, 32) for _ in range(3))
    error = np.asarray(module.main(q, k, v)) - attention(q, k, v, 32**-0.5)
    assert 1e-5 < np.sqrt((error**2).mean()) < 5e-3


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", TARGETS)
def test_values_of_unlike_size(tools, scratch, target):
    """A key may have most of the weight, and a value that is small, tiny or zero: others' weights stay what they are."""
    module = build(tools, scratch, attention_program(1, 1, (16, 16), scale=1.0), target=target)
    q = np.zeros((1, 3, 1, 16), np.float32)
    q[..., 0] = 1
    for size in (1e-2, 1e-6, 1e-21, 1e-24, 3e-33, 1e-35, 1e-37, 0.0):
        k, v = np.zeros((1, 5, 1, 16), np.float32), normal(1, 5, 1, 16)
        k[:, 2, :, 0] = 3  # e^3 of e^3 + 4
        v[:, 2] = size * (1 + np.arange(16) / 16)
        y = check(module, q, k, v, 1.0)
        close(y, attention(q, k, v, 1.0), 2e-3)


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", TARGETS)
def test_hidden_keys_and_company_change_nothing(tools, scratch, target):
    """A result depends on nothing that a mask hides, however large, and on no other query, head or batch entry."""
    module = build(tools, scratch, attention_program(2, 2, (32, 32), "boolean"), target=target)
    q, k, v = (normal(2, 140, 2, 32) for _ in range(3))
    mask = np.ones((2, 1, 1, 140), bool)
    mask[..., 120:] = False
    expected = np.asarray(module.main(q, k, v, mask))
    k[:, 120:], v[:, 120:] = 1e6, -1e9
    np.testing.assert_array_equal(module.main(q, k, v, mask), expected)
    alone = module.main(q[1:, 7:8], k[1:, :120], v[1:, :120], mask[1:, ..., :120])
    np.testing.assert_array_equal(alone, expected[1:, 7:8])
    k[0], q[:, :7] = 0, 0
    np.testing.assert_array_equal(module.main(q, k, v, mask)[1, 7:], expected[1, 7:])


@pytest.mark.cpu_only
def test_largest_integers(tools, scratch):
    """Values at the ends of their ranges, whose sums are the largest, lose nothing: every weight is a 255th."""
    module = build(tools, scratch, attention_program(1, 1, (128, 64), scale=1e-3), target=VNNI)
    q, k = np.full((1, 32, 1, 128), -127.0, np.float32), np.full((1, 255, 1, 128), 127.0, np.float32)
    q[:, 16:] = 127
    v = np.where(RNG.random((1, 255, 1, 64)) < 0.5, 127.0, -127.0).astype(np.float32)
    close(module.main(q, k, v), attention(q, k, v, 1e-3), 1e-4)


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", ["cpu:x86-64", "cpu:x86-64-v3", "cpu:x86-64-v4"])
def test_other_processors_keep_floats(tools, scratch, target):
    """A precision is a permission: without an instruction that sums bytes in 32 bits, attention is in f32."""
    module = build(tools, scratch, attention_program(2, 2, (32, 32)), target=target)
    q, k, v = (normal(1, 40, 2, 32) for _ in range(3))
    close(module.main(q, k, v), attention(q, k, v, 32**-0.5), 3e-6)


def test_gpus_take_f16(tools, scratch):
    """GPUs multiply floats of 16 bits by matrix instructions where integers of 8 are permitted."""
    module = build(tools, scratch, attention_program(2, 2, (32, 32)), target="emulated:sm_80")
    q, k, v = (normal(1, 70, 2, 32) for _ in range(3))
    y, expected = module.main(q, k, v), attention(q, k, v, 32**-0.5)
    assert np.abs(y - expected).max() > 1e-5  # of f32
    close(y, expected, 2e-3)


BLOCK = """
func.func @main(%x: tensor<?x?x64xf32> {nn.name = "x", nn.sizes = ["batch", "tokens", ""]})
    -> (tensor<?x?x64xf32> {nn.name = "y", nn.sizes = ["batch", "tokens", ""]}) {
  %wq = nn.weight @weights["q"] : tensor<64x64xf32>
  %wk = nn.weight @weights["k"] : tensor<64x64xf32>
  %wv = nn.weight @weights["v"] : tensor<64x64xf32>
  %wo = nn.weight @weights["o"] : tensor<64x64xf32>
  %q = nn.linear %x, %wq : (tensor<?x?x64xf32>, tensor<64x64xf32>) -> tensor<?x?x64xf32>
  %k = nn.linear %x, %wk : (tensor<?x?x64xf32>, tensor<64x64xf32>) -> tensor<?x?x64xf32>
  %v = nn.linear %x, %wv : (tensor<?x?x64xf32>, tensor<64x64xf32>) -> tensor<?x?x64xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x64xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?x64xf32>
  %qh = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%b, %n, 2, 32] : tensor<?x?x64xf32> into tensor<?x?x2x32xf32>
  %kh = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [%b, %n, 2, 32] : tensor<?x?x64xf32> into tensor<?x?x2x32xf32>
  %vh = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [%b, %n, 2, 32] : tensor<?x?x64xf32> into tensor<?x?x2x32xf32>
  %a = nn.attention %qh, %kh, %vh {scale = 0.17 : f32} : (tensor<?x?x2x32xf32>, tensor<?x?x2x32xf32>, tensor<?x?x2x32xf32>) -> tensor<?x?x2x32xf32>
  %f = tensor.collapse_shape %a [[0], [1], [2, 3]] : tensor<?x?x2x32xf32> into tensor<?x?x64xf32>
  %y = nn.linear %f, %wo : (tensor<?x?x64xf32>, tensor<64x64xf32>) -> tensor<?x?x64xf32>
  return %y : tensor<?x?x64xf32>
}
"""


def chosen(tools, folder, *flags: str, target: str = VNNI) -> str | None:
    """What --explain says that attention may round to."""
    weights = {name: normal(64, 64) for name in "qkvo"}
    build(tools, folder, BLOCK, weights, target, *flags, f"--explain={folder / 'why.json'}")
    kernels = json.loads((folder / "why.json").read_text())["kernels"]
    return next(kernel for kernel in kernels if kernel["root"] == "attention").get("precision")


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("flags", "precision"),
    [
        (["--quantize=int8"], "i8"),
        (["--quantize=int8", "--quantize-attention=16"], "f16"),
        (["--quantize=int8", "--matmul-precision=f32"], None),
        (["--quantize=int8", "--matmul-precision=f32", "--quantize-attention=8"], "i8"),
        (["--quantize=int8", "--quantize-activations=8-token"], "i8"),
        (["--quantize=int8", "--quantize-activations=8"], "f16"),
        (["--quantize=int8", "--quantize-activations=8", "--quantize-attention=8"], "i8"),
        (["--quantize=none"], None),
    ],
)
def test_options(tools, scratch, flags, precision):
    assert chosen(tools, scratch, *flags) == precision


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--quantize-attention=4"], "unknown bits of attention '4': 8 (integers with a scale for each row of a head)"),
        (["--quantize-attention=8"], "no attention without caches stands between linears whose inputs have integers"),
        (
            ["--quantize-attention=8", "--quantize=int8", "--target=emulated:sm_80"],
            "--quantize-attention=8: kernels of 'emulated:sm_80' multiply floats in attention without caches",
        ),
        (["--quantize-attention=16", "--start-from=fuse"], "are about the quantize phase, which does not run"),
    ],
)
def test_wrong_flags(tools, tmp_path, flags, message):
    save_file({"w": normal(40, 64), "b": normal(40)}, tmp_path / "w.safetensors")
    (tmp_path / "m.mlir").write_text('nn.archive @weights {file = "w.safetensors"}\n' + program(40, 64))
    result = tools.run("intarsia-compile", tmp_path / "m.mlir", *flags, check=False, cwd=tmp_path)
    assert result.returncode != 0
    assert message in result.stderr
