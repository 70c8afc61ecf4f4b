# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights and activations in block formats, with NumPy and ml_dtypes: what the compiler's are compared with."""

from __future__ import annotations

import ml_dtypes
import numpy as np

GROUPS = {"g32": 32, "g64": 64, "g128": 128, "channel": 0, "": 32}


def quantize_weight(name: str, weight: np.ndarray) -> np.ndarray:
    """Give the dequantized values of a weight float32 [rows, columns] that --quantize=`name` quantizes."""
    if name.startswith("int4-asymmetric"):
        return asymmetric(weight, GROUPS[name.removeprefix("int4-asymmetric").removeprefix("-")])
    kind, _, group = name.partition("-")
    block = {"fp8": 0, "mxfp4": 32, "nvfp4": 16}.get(kind, GROUPS[group])
    rows, columns = weight.shape
    block = block or columns
    padded = np.zeros((rows, -(-columns // block) * block), np.float32)
    padded[:, :columns] = weight
    blocks = padded.reshape(rows, -1, block)
    largest = np.abs(blocks).max(-1, keepdims=True)
    candidates = []
    if kind == "ternary":
        candidates = [ternary_scales(blocks, columns)]
    elif kind == "int8":
        candidates = [largest / np.float32(127)]
    elif kind in ("int4", "int5", "int6"):
        signed = np.where(blocks.min(-1, keepdims=True) == -largest, largest, -largest)
        lowest, factors = {"int4": (8, (1, 0.9375)), "int5": (16, (1,)), "int6": (32, (1,))}[kind]
        candidates = [signed / np.float32(lowest) * np.float32(factor) for factor in factors]
    elif kind == "nvfp4":
        tensor_scale = np.abs(weight).max() / np.float32(448 * 6)
        for factor in (1, 0.9375, 1.5):
            scale = quotient(largest / np.float32(6) * np.float32(factor), tensor_scale)
            scale = np.minimum(scale, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
            candidates.append(scale * tensor_scale)
    elif kind == "fp8":
        candidates = [largest / np.float32(448)]
    else:
        candidates = [power_below(largest)]
    best, least = None, None
    for scale in candidates:
        if kind.startswith("int") or kind == "ternary":
            highest = {"int4": 7, "int5": 15, "int6": 31, "int8": 127, "ternary": 1}[kind]
            lowest = -1 if kind == "ternary" else -highest - 1
            scale = scale.astype(np.float16).astype(np.float32)
            quantized = np.clip(np.rint(quotient(blocks, scale)), lowest, highest)
        else:
            highest, stored = (448, ml_dtypes.float8_e4m3fn) if kind == "fp8" else (6, ml_dtypes.float4_e2m1fn)
            quantized = np.clip(quotient(blocks, scale), -highest, highest).astype(stored).astype(np.float32)
        dequantized = quantized * scale
        error = np.cumsum(np.square(blocks - dequantized), axis=-1, dtype=np.float32)[..., -1:]
        best, least = (
            (dequantized, error)
            if best is None
            else (np.where(error < least, dequantized, best), np.minimum(error, least))
        )
    return best.reshape(rows, -1)[:, :columns].astype(np.float32)


def asymmetric(weight: np.ndarray, block: int) -> np.ndarray:
    """Give integers 0 to 15 minus a zero point, times a scale in f16: the range of a block and 0 in fifteen steps."""
    rows, columns = weight.shape
    padded = np.zeros((rows, -(-columns // block) * block), np.float32)
    padded[:, :columns] = weight
    blocks = padded.reshape(rows, -1, block)
    low, high = (np.minimum(blocks.min(-1, keepdims=True), 0), np.maximum(blocks.max(-1, keepdims=True), 0))
    scale = ((high - low) / np.float32(15)).astype(np.float16).astype(np.float32)
    zero = np.clip(np.rint(quotient(-low, scale)), 0, 15)
    quantized = np.clip(np.rint(quotient(blocks, scale)) + zero, 0, 15)
    return ((quantized - zero) * scale).reshape(rows, -1)[:, :columns].astype(np.float32)


def ternary_scales(blocks: np.ndarray, columns: int) -> np.ndarray:
    """Give the scales of blocks [rows, blocks, block] of rows of so many columns: the mean magnitude, then four times the
    mean of the magnitudes above half of the scale. Numbers are added one after another."""
    magnitudes, block = np.abs(blocks), blocks.shape[-1]
    counts = np.minimum(columns - np.arange(blocks.shape[1]) * block, block).astype(np.float32)[:, None]
    scales = np.cumsum(magnitudes, axis=-1, dtype=np.float32)[..., -1:] / counts
    for _ in range(4):
        above = magnitudes > scales * np.float32(0.5)
        sums = np.cumsum(np.where(above, magnitudes, np.float32(0)), axis=-1, dtype=np.float32)[..., -1:]
        counts = above.sum(-1, keepdims=True).astype(np.float32)
        scales = np.divide(sums, counts, out=scales.copy(), where=counts > 0)
    return scales


def activation_block(name: str) -> int:
    """Give how many inputs of a linear share a scale where its weight has this format."""
    return 32 if name.startswith("int8") else 256


def quantize_activations(x: np.ndarray, block: int = 32) -> np.ndarray:
    """Give the dequantized values of activations [..., features] that are quantized to 8 bits, by blocks of so many."""
    features = x.shape[-1]
    padded = np.zeros((*x.shape[:-1], -(-features // block) * block), np.float32)
    padded[..., :features] = x
    blocks = padded.reshape(*x.shape[:-1], -1, block)
    largest = np.abs(blocks).max(-1, keepdims=True)
    quantized = np.rint(blocks * quotient(np.full_like(largest, 127), largest))
    return (quantized * (largest / np.float32(127))).reshape(padded.shape)[..., :features]


def quantize_to_e2m1(name: str, x: np.ndarray) -> np.ndarray:
    """Give the dequantized values of finite rows [..., features] that are quantized to mxfp4 or nvfp4 as they are
    computed: blocks have a scale, of nvfp4 rows too."""
    block, features = {"mxfp4": 32, "nvfp4": 16}[name], x.shape[-1]
    padded = np.zeros((*x.shape[:-1], -(-features // block) * block), np.float32)
    padded[..., :features] = x
    blocks = padded.reshape(*x.shape[:-1], -1, block)
    largest = np.abs(blocks).max(-1, keepdims=True)
    if name == "mxfp4":
        scale = power_below(largest)
    else:
        of_row = largest.max(-2, keepdims=True) / np.float32(448 * 6)
        scale = np.minimum(quotient(largest / np.float32(6), of_row), 448).astype(ml_dtypes.float8_e4m3fn)
        scale = scale.astype(np.float32) * of_row
    elements = np.clip(quotient(blocks, scale), -6, 6).astype(ml_dtypes.float4_e2m1fn).astype(np.float32)
    return (scale * elements).reshape(padded.shape)[..., :features]


def power_below(largest: np.ndarray) -> np.ndarray:
    """Give the scales of blocks of mxfp4 by their largest magnitudes: 2^(floor(log2) - 2), whose logarithm is exact."""
    exponent = np.frexp(np.maximum(largest, np.float32(2.0**-126)))[1] - 1
    return np.exp2(np.maximum(exponent - 2, -127)).astype(np.float32)


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Give a / b, zero where b is."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b)), np.float32), where=b != 0)
