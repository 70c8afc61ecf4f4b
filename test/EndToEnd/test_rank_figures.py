# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times that intarsia-plan --probe measured, as what ranks take: --rank-figures.

The file has made-up round figures; what a model takes by them is added up here, from its configuration.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
GLOSSARY = HERE.parents[1] / "examples" / "glossary"
PAGE = 32

ROWS = [1, 8, 64]
LAYERS = {  # weights of a layer: ns of 1000 of them, by rows
    "f32": {1e4: [400.0, 900.0, 5000.0], 1e5: [200.0, 500.0, 3000.0]},
    "bf16": {1e4: [300.0, 600.0, 4000.0], 1e5: [150.0, 400.0, 2500.0]},
    "int4": {1e4: [80.0, 300.0, 2000.0], 1e5: [50.0, 200.0, 1500.0]},
}
HEAD = {"f32": [100.0, 300.0, 2000.0], "bf16": [60.0, 200.0, 1500.0], "int4": [20.0, 100.0, 700.0]}
ENCODER = {"f32": [150.0, 400.0, 2500.0]}
PROMPTS, STEPS = 20.0, 300.0  # ps of a flop of scores


def text(**changes: str) -> str:
    """Return a device's file; an entry that is empty is left out."""
    layers = "".join(
        f"    {name}:\n" + "".join(f"      - {{weights: {w:.0f}, ns: {ns}}}\n" for w, ns in sizes.items())
        for name, sizes in LAYERS.items()
    )
    tables = {
        key: f"  {key}:\n" + "".join(f"    {name}: {ns}\n" for name, ns in of.items())
        for key, of in (("head", HEAD), ("encoder", ENCODER))
    }
    serving = (
        f'serving:\n  source: "made up"\n  date: "2026-11-28"\n  rows: {ROWS}\n  layers:\n{layers}'
        f"{tables['head']}{tables['encoder']}"
        f"  prompts: {{tokens: [16, 64], ps: [{PROMPTS}, {PROMPTS}]}}\n"
        f"  steps: {{tokens: [16, 64], ps: [{STEPS}, {STEPS}]}}\n"
    )
    figure = '{value: 1, source: "made up", date: "2026-11-28"}'
    parts = {
        "head": "name: here/made-up\nset: measured\ngeneration: x86_64\n",
        "peak": f"peak_tflops:\n  f32: {figure}\n",
        "figures": f"memory_gb: {figure}\nmemory_gbps: {figure.replace('1,', '1000000,', 1)}\n",
        "serving": serving,
    }
    return "".join((parts | changes).values())


def interpolated(x: list[float], y: list[float], at: float) -> float:
    """Interpolate logarithms over logarithms; the nearest outside."""
    return float(np.exp(np.interp(math.log(at), np.log(x), np.log(y))))


def of_rows(ns: list[float], rows: float) -> float:
    return interpolated(ROWS, ns, rows) * max(1.0, rows / ROWS[-1])


def layer_us(precision: str, weights: float, rows: float) -> float:
    sizes = LAYERS[precision]
    us = [size * of_rows(ns, rows) * 1e-6 for size, ns in sizes.items()]
    return interpolated(list(sizes), us, weights) * max(1.0, weights / max(sizes))


def head_us(precision: str, weights: float, rows: float) -> float:
    return weights * of_rows(HEAD[precision], rows) * 1e-6


def predict(tools, model: Path, folder: Path, *flags: str) -> tuple[dict[str, float], str]:
    """Return what --explain says of the partition that is carried out, and what is printed."""
    figures, why = folder / "here.yaml", folder / "why.json"
    if not figures.exists():
        figures.write_text(text())
    command = ["intarsia-compile", model, "-o", folder / "m.itx", f"--rank-figures={figures}", f"--explain={why}"]
    printed = tools.run(*command, *flags).stderr
    rows = json.loads(why.read_text())["partition"]
    return next(row for row in rows if row["chosen"] == "yes"), printed


class Shape:
    """Sizes of a language model, from its configuration."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        self.layers = config["num_hidden_layers"]
        self.width = heads * config.get("head_dim", hidden // heads)  # of all queries
        keys = config["num_key_value_heads"] * self.width // heads
        self.layer = hidden * (2 * self.width + 2 * keys + 3 * config["intermediate_size"])
        self.head = hidden * config["vocab_size"]

    def scores(self, tokens: float, length: float) -> float:
        """Flops of attention in a layer."""
        return 4 * tokens * math.ceil(length / PAGE) * PAGE * self.width

    def prompt_us(self, precision: str, prompt: int, layers: float, head: float = 1) -> float:
        scores = self.scores(prompt, (prompt + prompt + 1) // 2) * PROMPTS * 1e-6
        us = layer_us(precision, self.layer, prompt) + scores
        return layers * us + head * head_us(precision, self.head, 1)

    def token_us(self, precision: str, sequences: int, length: float, layers: float, head: float = 1) -> float:
        scores = self.scores(sequences, length) * STEPS * 1e-6
        us = layer_us(precision, self.layer, sequences) + scores
        return layers * us + head * head_us(precision, self.head, sequences)


@pytest.mark.parametrize(
    ("model", "quantize", "precision"),
    [(HERE / "decoders" / "llama", "none", "f32"), (GLOSSARY, "none", "bf16"), (GLOSSARY, "int4", "int4")],
)
def test_one_rank_takes_what_was_measured(tools, model: Path, quantize: str, precision: str, tmp_path: Path) -> None:
    shape = Shape(model)
    flags = [f"--quantize={quantize}", "--kv=f16"]
    row, printed = predict(tools, model, tmp_path, *flags, "--rank-load=sequences:2,prompt:24,tokens:10")
    assert "has no times of" not in printed
    assert "--rank-load=sequences:2,prompt:24,tokens:10: predicted times\n  one rank " in printed
    # Two sequences of 24 tokens are computed in one call.
    scores = shape.scores(48, 24) * PROMPTS * 1e-6
    prompts = shape.layers * (layer_us(precision, shape.layer, 48) + scores) + head_us(precision, shape.head, 1)
    assert row["prompts_us"] == pytest.approx(prompts, rel=0.01)
    assert row["tokens_us"] == pytest.approx(10 * shape.token_us(precision, 2, 24 + 5, shape.layers), rel=0.01)


def test_ranks_of_a_pipeline_take_what_was_measured(tools, tmp_path: Path) -> None:
    """The slower rank gets fewer layers; a token takes what both stages take one after the other, and two messages."""
    shape = Shape(GLOSSARY)
    flags = ["--world=2", "--partition=pipeline", "--rank-speeds=1,0.4", "--rank-load=prompt:16,tokens:40"]
    row, printed = predict(tools, GLOSSARY, tmp_path, *flags)
    assert "--rank-load=prompt:16,tokens:40: predicted times\n  pipeline " in printed
    times = [
        shape.token_us("bf16", 1, 16 + 20, first, 0) + shape.token_us("bf16", 1, 16 + 20, shape.layers - first) / 0.4
        for first in range(1, shape.layers)
    ]
    slowest = [
        max(shape.token_us("bf16", 1, 36, first, 0), shape.token_us("bf16", 1, 36, shape.layers - first) / 0.4)
        for first in range(1, shape.layers)
    ]
    best = slowest.index(min(slowest))
    assert row["tokens_us"] / 40 == pytest.approx(times[best], rel=0.05)
    assert f"rank 1: model.layers.{best + 1} to " in printed


def test_encoders_take_what_was_measured(tools, tmp_path: Path) -> None:
    row, printed = predict(tools, HERE / "models" / "bert", tmp_path, "--rank-load=sequences:3,prompt:16")
    assert "has no times of" not in printed
    of_layer = 4 * 32 * 32 + 2 * 32 * 64
    us = 2 * of_layer * of_rows(ENCODER["f32"], 48) + 32 * 32 * of_rows(ENCODER["f32"], 3)  # and the pooler
    assert row["expected_us"] == pytest.approx(us * 1e-6, rel=0.01)


def test_what_was_not_measured_is_said(tools, tmp_path: Path) -> None:
    """Figures of the target stand for these, by name."""
    _, printed = predict(tools, HERE / "decoders" / "mixtral", tmp_path, "--rank-load=tokens:4")
    assert "has no times of nn.experts, nn.route: the figures of cpu-x86-64-v" in printed
    flags = ["--world=2", "--partition=pipeline", "--quantize=int5"]
    figures = tmp_path / "here.yaml"
    printed = tools.run(
        "intarsia-compile", GLOSSARY, "-o", tmp_path / "m.itx", f"--rank-figures={figures}", *flags
    ).stderr
    assert printed.count("has no times of weights in i5: the figures of cpu-x86-64-v") == 1


@pytest.mark.parametrize(
    ("file", "flags", "message"),
    [
        (None, ["--rank-load=tokens:4"], "here.yaml cannot be read: No such file or directory"),
        ("serving: [1", ["--rank-load=tokens:4"], "here.yaml:1: "),
        (text(serving=""), ["--rank-load=tokens:4"], "has no times of models ('serving'); intarsia-plan --probe="),
        (text(), [], "--rank-figures is for --rank-load, --partition=pipeline and --partition=auto"),
        (text(), ["--world=2"], "--rank-figures is for --rank-load, --partition=pipeline and --partition=auto"),
        (
            text(),
            ["--world=2", "--partition=auto", "--target=reference"],
            "times of processors say nothing about ranks on reference",
        ),
    ],
)
def test_refused_figures(tools, file: str | None, flags: list[str], message: str, tmp_path: Path) -> None:
    figures = tmp_path / "here.yaml"
    if file is not None:
        figures.write_text(file)
    command = ["intarsia-compile", GLOSSARY, "-o", tmp_path / "m.itx", f"--rank-figures={figures}", *flags]
    failed = tools.run(*command, check=False)
    assert failed.returncode == 1
    assert message in failed.stderr
    assert not (tmp_path / "m.itx").exists()
