# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nn.route and nn.experts on emulated GPUs, against NumPy in float64."""

from __future__ import annotations

import intarsia
import numpy as np
import pytest
from expert_formulas import experts, route
from expert_programs import DTYPES, make, program, routing, special_logits
from programs import SCHEDULES, build, close, in_turn, random_cases
from random_numbers import RNG, normal
from test_decoders import HERE, Server

pytestmark = pytest.mark.cpu_only

ARCHITECTURES = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100")


@pytest.mark.parametrize(
    ("architecture", "count", "top_k", "normalize"),
    [("sm_80", 37, 5, True), ("sm_80", 8, 2, False), ("gfx942", 128, 8, False), ("gfx1100", 3, 3, True)],
)
def test_route(tools, tmp_path, architecture: str, count: int, top_k: int, normalize: bool) -> None:
    module = build(tools, tmp_path, routing(count, top_k, normalize), target=f"emulated:{architecture}")
    logits = special_logits(count)
    for tokens in (101, 1):
        indices, weights = module.main(l=logits[-tokens:])
        wanted = route(logits[-tokens:], top_k, normalize)
        np.testing.assert_array_equal(indices, wanted[0])
        # As for the CPU: differences of logits are up to 40, rounded to 2^-20 of one.
        np.testing.assert_allclose(weights, wanted[1], rtol=4e-6, atol=1e-30)


def choose(tokens: int, count: int, top_k: int) -> np.ndarray:
    """Different experts for each token; in a larger batch some experts have many tokens, others none."""
    indices = RNG.permuted(np.tile(np.arange(count), (tokens, 1)), axis=1)[:, :top_k].astype(np.int32)
    if tokens > 20:
        indices[5 : tokens // 2] = indices[5]
    return indices


def check(tools, folder, architecture, counts, hidden, inner, count, top_k, kind, biases, stored, *flags) -> None:
    limits = ", alpha = 1.5 : f32, limit = 1.0 : f32" if kind != "silu" else ""
    settings = {"alpha": 1.5, "limit": 1.0} if limits else {}
    weights = make(hidden, inner, count, biases, stored)
    text = program(hidden, inner, count, top_k, kind, biases, stored, True, limits)
    module = build(tools, folder, text, weights, f"emulated:{architecture}", *flags)
    tensors = [weights[key].astype(np.float64) for key in ("gu", "d", "gb", "db") if key in weights]
    for tokens in counts:
        x, mixed, indices = normal(tokens, hidden), normal(tokens, top_k), choose(tokens, count, top_k)
        # Weights of 16 bits permit to round what they multiply to their type.
        narrow = None if stored == "f32" else lambda rows: rows.astype(DTYPES[stored]).astype(np.float64)
        rounded = x if narrow is None else narrow(x)
        wanted = experts(rounded, indices, mixed, *tensors, kind=kind, rounding=narrow, **settings)
        # Sums of up to 200 products of values around 1 in f32. A sum that differs there may be rounded to the
        # neighbouring float of 16 bits: of values up to 8, times an element of `down` and a weight around 1.
        close(module.main(x=x, i=indices, w=mixed), wanted, {"f32": 4e-5, "f16": 4e-3, "bf16": 3e-2}[stored])


@pytest.mark.parametrize(("stored", "architecture"), in_turn(["f16", "bf16", "f32"], ARCHITECTURES))
def test_experts(tools, tmp_path, architecture: str, stored: str) -> None:
    """Both tiles: a few tokens, and more than 16 of each expert; columns that fill no tile."""
    check(tools, tmp_path, architecture, (1, 3, 90), 72, 40, 5, 2, "clamped_swiglu", True, stored)


@pytest.mark.parametrize("architecture", ["sm_80", "gfx942", "gfx1100"])
def test_random_shapes(tools, tmp_path, monkeypatch, architecture: str) -> None:
    """Depths that are no multiple of a chunk, odd numbers of features."""
    for number in random_cases(monkeypatch, usual=3):
        hidden, inner = (int(size) for size in RNG.integers(1, 100, 2))
        count = int(RNG.integers(2, 12))
        top_k, tokens = int(RNG.integers(1, count + 1)), [int(rows) for rows in RNG.integers(1, 60, 2)]
        stored, kind = ("f16", "f32", "bf16")[number % 3], ("silu", "clamped_swiglu")[number % 2]
        check(tools, tmp_path, architecture, tokens, hidden, inner, count, top_k, kind, number % 3 == 1, stored)


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize("architecture", ["sm_80", "gfx942"])
def test_schedules(tools, tmp_path, monkeypatch, architecture: str, schedule: str) -> None:
    """A missing barrier shows when warps run one after the other."""
    monkeypatch.setenv("ITX_EMULATED_SCHEDULE", schedule)
    check(tools, tmp_path, architecture, (2, 80), 72, 40, 4, 2, "silu", False, "f16")
    module = build(tools, tmp_path / "route", routing(40, 4, False), target=f"emulated:{architecture}")
    logits = special_logits(40)
    np.testing.assert_array_equal(module.main(l=logits)[0], route(logits, 4, False)[0])


@pytest.mark.parametrize(
    ("architecture", "weights"),
    [
        ("sm_80", "int4"),
        ("sm_80", "int5"),
        ("sm_80", "mxfp4"),
        ("sm_80", "fp8"),
        ("gfx942", "nvfp4"),
        ("gfx942", "int4"),
        ("gfx1100", "int8"),
    ],
)
def test_quantized_weights(tools, tmp_path, architecture: str, weights: str) -> None:
    """Weights stay quantized, inputs are as they are: the CPU is the oracle."""
    hidden, inner, count, top_k = 96, 72, 4, 2
    stored = make(hidden, inner, count, False, "f32")
    text = program(hidden, inner, count, top_k, "silu", False, "f32", True)
    flags = (f"--quantize={weights}", "--quantize-activations=16", "--matmul-precision=f32")
    modules = [
        build(tools, tmp_path / target, text, stored, target, *flags) for target in ("cpu", f"emulated:{architecture}")
    ]
    for tokens in (1, 70):
        x, mixed, indices = normal(tokens, hidden), normal(tokens, top_k), choose(tokens, count, top_k)
        wanted = modules[0].main(x=x, i=indices, w=mixed)
        close(modules[1].main(x=x, i=indices, w=mixed), wanted.astype(np.float64), 4e-5)


def test_indices_outside_give_nan(tools, tmp_path) -> None:
    weights = make(48, 32, 4, False, "f32")
    text = program(48, 32, 4, 2, "silu", False, "f32", True)
    module = build(tools, tmp_path, text, weights, "emulated:sm_80")
    x, mixed = normal(3, 48), normal(3, 2)
    indices = np.array([[0, 3], [1, 4], [-2, 2]], np.int32)
    actual = module.main(x=x, i=indices, w=mixed)
    close(actual[:1], experts(x[:1], indices[:1], mixed[:1], weights["gu"], weights["d"]), 4e-5)
    assert np.isnan(actual[1:]).all()


@pytest.mark.parametrize("architecture", ["sm_80", "gfx942"])
def test_index_of_no_expert_adds_nothing(tools, tmp_path, architecture: str) -> None:
    weights = make(48, 40, 4, True, "f32")
    text = program(48, 40, 4, 3, "silu", True, "f32", True)
    module = build(tools, tmp_path, text, weights, f"emulated:{architecture}")
    tensors = [weights[key] for key in ("gu", "d", "gb", "db")]
    for tokens in (1, 90):
        x, mixed, indices = normal(tokens, 48), normal(tokens, 3), RNG.integers(-1, 4, (tokens, 3)).astype(np.int32)
        indices[tokens // 2] = -1
        close(module.main(x=x, i=indices, w=mixed), experts(x, indices, mixed, *tensors), 4e-5)


def test_rows_do_not_depend_on_others(tools, tmp_path) -> None:
    weights = make(64, 48, 6, True, "bf16")
    text = program(64, 48, 6, 2, "silu", True, "bf16", True)
    module = build(tools, tmp_path, text, weights, "emulated:sm_80")
    x, mixed, indices = normal(40, 64), normal(40, 2), choose(40, 6, 2)
    whole = module.main(x=x, i=indices, w=mixed)
    parts = [module.main(x=x[t : t + 10], i=indices[t : t + 10], w=mixed[t : t + 10]) for t in range(0, 40, 10)]
    np.testing.assert_array_equal(whole.view(np.int32), np.concatenate(parts).view(np.int32))


@pytest.mark.parametrize(
    ("model", "architecture", "flags"),
    [
        ("qwen3-moe-bf16", "sm_80", ("--matmul-precision=f32",)),
        ("gpt-oss-mxfp4", "gfx1100", ("--matmul-precision=f32",)),
        ("gpt-oss-mxfp4", "gfx942", ()),
    ],
)
def test_models(tools, tmp_path, model: str, architecture: str, flags: tuple[str, ...]) -> None:
    """A prompt and a token behind it, against transformers; no kernel runs as plain loops."""
    folder = HERE / "decoders" / model
    with np.load(folder / "golden.npz") as golden:
        ids, logits = golden["input_ids"][0], golden["logits"][0]
    result = tools.compile(folder, "-o", tmp_path / "m.itx", "--kv=f32", f"--target=emulated:{architecture}", *flags)
    assert "is slow on" not in result.stderr
    server = Server(intarsia.load(tmp_path / "m.itx"), 1, 64)
    actual = np.concatenate([server.run([(0, part)])[0] for part in (ids[:-1], ids[-1:])])
    error = np.abs(actual - logits)
    if flags:
        assert error.max() <= 2e-5
    else:
        # As on the CPU, tokens whose router is undecided go through another expert when products are rounded.
        assert 2e-5 < np.quantile(error, 0.7) < 0.01 * np.abs(logits).max()
