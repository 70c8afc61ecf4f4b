#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes torch_programs/NAME.mlir, what torch-mlir lowers small modules of PyTorch to, and golden.npz, what PyTorch
computes for them.

make_torch_programs.py

Needs: pip install torch torch-mlir numpy. The tests need none of these: what this script writes is committed.

golden.npz: NAME.input.N and NAME.output.N, in the order of the function's arguments and results.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_mlir import fx

FOLDER = Path(__file__).resolve().parent / "torch_programs"
HEADER = """// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Written by make_torch_programs.py with torch {torch} and torch-mlir.
"""


class Attention(nn.Module):
    """Causal attention of two heads, spelled out."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.into(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / 8**0.5
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Cell(nn.Module):
    """A cell of an LSTM, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.input, self.hidden = nn.Linear(6, 32), nn.Linear(8, 32)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = (self.input(x) + self.hidden(h)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class Tokens(nn.Module):
    """Embeddings of tokens and positions, their masked mean, and the likeliest of five classes."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions, self.head = nn.Embedding(30, 12), nn.Embedding(9, 12), nn.Linear(12, 5)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        m = mask.unsqueeze(-1).to(x.dtype)
        mean = (x * m).sum(1) / m.sum(1).clamp(min=1)
        logits = self.head(mean)
        return logits, logits.argmax(-1)


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> object:
        return self.function(*inputs)


def integers(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    divisor = y.abs() + 1
    return (
        x * y - (x & 3),
        torch.div(x, divisor, rounding_mode="floor"),
        torch.div(x, -divisor, rounding_mode="trunc"),
        x % divisor,
        (x << 2) ^ y,
        (x > y).to(torch.int32) + x.clamp(-3, 3),
    )


def reductions(x: Tensor) -> tuple[Tensor, ...]:
    largest, where = x.max(2, keepdim=True)
    return (
        x.sum((0, 2), keepdim=True),
        x.mean((1, 2)),
        largest,
        where,
        x.var(1, unbiased=False),
        x.logsumexp(0),
        x.prod(2),
    )


def selections(x: Tensor, indices: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
    return x.gather(1, indices), x.index_select(0, rows), x[rows], x[rows, rows]


def masks(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (
        torch.where(x > y, x, -y),
        x.masked_fill((x < 0) | (y > 1), 0.5),
        (x >= 0).any(1),
        x.tril(1),
        x.isnan().logical_not(),
    )


def activations(x: Tensor) -> tuple[Tensor, ...]:
    # torch-mlir's constant of F.gelu(approximate="tanh") is 0.797724, not the square root of 2/π: here it is spelled out.
    return (
        F.gelu(x), x * 0.5 * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3))), F.silu(x), torch.erf(x), F.leaky_relu(x, 0.1), F.elu(x), F.softplus(x),
        F.hardswish(x), F.hardsigmoid(x), F.mish(x), F.log_softmax(x, -1), torch.rsqrt(x * x + 1), x.abs() ** 1.5,
    )  # fmt: skip


def pieces(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    first, second, third = x.split([2, 3, 1], 1)
    return (
        torch.cat([second, y, first], 1),
        torch.stack([third, third * 2], -1),
        x.flip(1),
        x.roll(2, 1),
        x[:, 1::2],
        x.repeat(1, 2),
    )


def pads(x: Tensor) -> tuple[Tensor, ...]:
    return (
        F.pad(x, (1, 2, 3, 0), value=0.5),
        F.pad(x, (1, 2, 2, 1), mode="reflect"),
        F.pad(x, (2, 1, 1, 2), mode="replicate"),
    )


def upsampled(x: Tensor) -> tuple[Tensor, Tensor]:
    return F.interpolate(x, scale_factor=2, mode="nearest"), F.interpolate(x, size=(7, 9), mode="bilinear")


def pooled(x: Tensor) -> tuple[Tensor, ...]:
    return (
        F.avg_pool2d(x, 3, 2, 1),
        F.avg_pool2d(x, 2, count_include_pad=False),
        F.max_pool2d(x, 3, 2, 1, dilation=2),
        F.adaptive_avg_pool2d(x, 1),
        F.adaptive_avg_pool2d(x, (4, 3)),
    )


def einsums(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    return torch.einsum("bij,bjk->bik", x, y), torch.einsum("bij,kj->ikb", x, z), torch.einsum("bij,bij->b", x, x)


def ordered(x: Tensor) -> tuple[Tensor, ...]:
    values, where = x.topk(3, 1)
    return values, where, x.sort(1, descending=True).values, x.argmin(1)


def scattered(x: Tensor, indices: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return x.scatter(1, indices, y), x.index_put((indices[:, 0],), y[:, 0, None].expand(-1, 6))


def rotated(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary positions."""
    angles = positions[:, None].float() * 100.0 ** -(torch.arange(0, 8, 2).float() / 8)
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
    return x * cos + torch.cat([-x[..., 4:], x[..., :4]], -1) * sin


def normal(*shape: int) -> Tensor:
    return torch.randn(shape)


def integer(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(low, high, shape, dtype=dtype)


def statistics(module: nn.Module) -> nn.Module:
    """Give batch norms statistics as training would."""
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
    return module


N = torch.export.Dim("n", min=1, max=512)

#: A module, its inputs, and which of their sizes are dynamic.
MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, ...]], object]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 5), nn.Softmax(-1)), lambda: (normal(4, 7),), None),
    "mlp_dynamic": (lambda: nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5)), lambda: (normal(4, 7),), ({0: N},)),
    "layer_norm": (lambda: nn.LayerNorm((5, 6)), lambda: (normal(3, 5, 6),), None),
    "group_norm": (lambda: nn.GroupNorm(2, 6), lambda: (normal(2, 6, 4, 3),), None),
    "attention": (Attention, lambda: (normal(2, 7, 16),), None),
    "attention_dynamic": (lambda: Calls(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)), lambda: (normal(3, 2, 5, 8), normal(3, 2, 5, 8), normal(3, 2, 5, 8)), (({0: N}, {0: N}, {0: N}),)),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2)), lambda: (normal(2, 3, 11, 9),), None),
    "depthwise": (lambda: statistics(nn.Sequential(nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=4, bias=False), nn.BatchNorm2d(4), nn.ReLU6(), nn.Conv2d(4, 6, 1))), lambda: (normal(2, 4, 8, 8),), None),
    "grouped": (lambda: nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.Conv2d(6, 3, (1, 3))), lambda: (normal(1, 4, 7, 8),), None),
    "convolution_1d": (lambda: nn.Sequential(nn.Conv1d(3, 4, 5, padding=2), nn.Tanh(), nn.ConvTranspose1d(4, 2, 4, stride=2)), lambda: (normal(2, 3, 12),), None),
    "pools": (lambda: Calls(pooled), lambda: (normal(2, 3, 12, 8),), None),
    "upsample": (lambda: Calls(upsampled), lambda: (normal(1, 2, 4, 5),), None),
    "pad": (lambda: Calls(pads), lambda: (normal(2, 3, 5, 6),), None),
    "tokens": (Tokens, lambda: (integer(0, 30, 3, 9), integer(0, 2, 3, 9)), None),
    "cell": (Cell, lambda: (normal(3, 6), normal(3, 8), normal(3, 8)), None),
    "selections": (lambda: Calls(selections), lambda: (normal(5, 6), integer(0, 6, 5, 3), integer(0, 5, 4)), None),
    "masks": (lambda: Calls(masks), lambda: (normal(5, 6), normal(5, 6)), None),
    "activations": (lambda: Calls(activations), lambda: (normal(4, 9) * 2,), None),
    "integers": (lambda: Calls(integers), lambda: (integer(-99, 99, 4, 6, dtype=torch.int32), integer(-9, 9, 4, 6, dtype=torch.int32)), None),
    "reductions": (lambda: Calls(reductions), lambda: (normal(3, 4, 5),), None),
    "pieces": (lambda: Calls(pieces), lambda: (normal(4, 6), normal(4, 2)), None),
    "einsums": (lambda: Calls(einsums), lambda: (normal(2, 3, 4), normal(2, 4, 5), normal(6, 4)), None),
    "sums": (lambda: Calls(lambda x: (x.cumsum(1), x.cumsum(0), torch.cumsum(x.to(torch.int32), 1))), lambda: (normal(4, 7) * 3,), None),
    "ordered": (lambda: Calls(ordered), lambda: (normal(4, 7),), None),
    "scattered": (lambda: Calls(scattered), lambda: (normal(4, 6), torch.stack([torch.randperm(4)[:3] for _ in range(4)]), normal(4, 3)), None),
    "rotary": (lambda: Calls(rotated), lambda: (normal(2, 5, 8), torch.arange(3, 8)), None),
}  # fmt: skip


def lower(name: str) -> tuple[str, list[Tensor], list[Tensor]]:
    build, inputs_of, dynamic = MODULES[name]
    torch.manual_seed(sum(name.encode()))
    module = build().eval()
    inputs = inputs_of()
    with torch.no_grad():
        exported = torch.export.export(module, inputs, dynamic_shapes=dynamic)
        lowered = fx.export_and_import(exported, output_type="linalg-on-tensors", func_name=name)
        outputs = module(*inputs)
    return str(lowered), list(inputs), list(outputs) if isinstance(outputs, tuple) else [outputs]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    golden: dict[str, np.ndarray] = {}
    for name in MODULES:
        text, inputs, outputs = lower(name)
        (FOLDER / f"{name}.mlir").write_text(HEADER.format(torch=torch.__version__.partition("+")[0]) + text)
        for kind, tensors in (("input", inputs), ("output", outputs)):
            golden.update({f"{name}.{kind}.{number}": one.numpy() for number, one in enumerate(tensors)})
    write(golden)


def write(arrays: dict[str, np.ndarray]) -> None:
    """np.savez with the same bytes at any time of day."""
    with zipfile.ZipFile(FOLDER / "golden.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.ascontiguousarray(array))
            archive.writestr(zipfile.ZipInfo(name + ".npy"), buffer.getvalue(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
