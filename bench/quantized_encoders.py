#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures encoders and vision in 8 bits: speed against our f32 and the peers' int8, loss of MiniLM's embeddings.

Speed is measured in alternating rounds, as in run.py. The loss is that of 500 sentences that nothing was calibrated
with, against the embeddings of the same model in f32: the mean cosine, and Spearman's rank correlation of the cosines
of all pairs of sentences. On a build of `make bench`, with requirements-quantized-encoders.txt:

    python bench/quantized_encoders.py [--only=speed,loss] [--cases=minilm-1x128] [--peers=openvino-int8] [--pairs=20]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from typing import Any

import numpy as np
from harness import machine, measures
from harness.capi import Runtime
from harness.cases import CASES, model_directory, onnx_file, quantized_file
from harness.program import add_options, report, some_of
from harness.ratios import Comparison, alternate, geomean
from harness.report import table
from make_models import make_models
from make_quantized_models import make_quantized_models, sentences, tokenize
from scipy.stats import spearmanr

PEERS = ["openvino-int8", "openvino-int8-default", "onnxruntime-int8-dynamic", "onnxruntime-int8-static"]
OURS, FLOATS = "intarsia int8", "intarsia f32"


def measure_speed(session: measures.Session, format: str) -> list[dict[str, Any]]:
    """Measures for each case ours in 8 bits, ours in f32 and every peer."""
    rows = []
    for key in session.cases:
        case = CASES[key]
        measures.say(f"==> {case.title}")
        artifact = session.work / case.model / f"model-{format}.itx"
        session.compile(model_directory(session.cache, case.model), artifact, f"--quantize={format}")
        with contextlib.ExitStack() as stack:
            start = lambda *arguments, **named: stack.enter_context(session.engine(*arguments, **named))  # noqa: E731
            ours = start(measures.OURS, case, artifact, name=OURS)
            others = [start(measures.OURS, case, name=FLOATS), *(start(peer, case) for peer in session.engines)]
            comparisons = alternate(ours, others, session.pairs)
        for one in comparisons:
            measures.say("  " + measures.comparison_text(one))
        rows.append({"case": case, "floats": comparisons[0], "peers": comparisons[1:]})
    return rows


def our_embeddings(session: measures.Session, flags: list[str], inputs: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Returns what our artifact makes of texts, [texts, features]."""
    artifact = session.work / "minilm" / f"loss{''.join(flags)}.itx"
    session.compile(model_directory(session.cache, "minilm"), artifact, *flags)
    runtime = Runtime(session.build / "lib/libintarsia_runtime.so")
    runtime.set_threads(session.threads)
    function = runtime.load(artifact).function("main")
    rows = [np.asarray(function(function.wrap(row))[0]).reshape(-1, 384).mean(0) for row in inputs]
    return np.stack(rows)


def peer_embeddings(session: measures.Session, peer: str, inputs: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Returns what a peer makes of texts, [texts, features]; "onnxruntime" is the model in f32."""
    if peer.startswith("openvino"):
        import openvino

        hint = {} if peer.endswith("default") else {"INFERENCE_PRECISION_HINT": "f32"}
        path = quantized_file(session.cache, "minilm", "openvino-int8")
        model = openvino.Core().compile_model(str(path), "CPU", hint)
        return np.stack([model(row)[0].reshape(-1, 384).mean(0) for row in inputs])
    import onnxruntime

    is_quantized = peer != "onnxruntime"
    path = quantized_file(session.cache, "minilm", peer) if is_quantized else onnx_file(session.cache, "minilm")
    model = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.stack([model.run(None, row)[0].reshape(-1, 384).mean(0) for row in inputs])


def loss(embeddings: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Returns the cosines to the reference's rows, and the rank correlation of all pairs' cosines."""
    unit, expected = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (embeddings, reference))
    cosines = (unit * expected).sum(1)
    pairs = np.triu_indices(len(unit), 1)
    rank = spearmanr((unit @ unit.T)[pairs], (expected @ expected.T)[pairs]).statistic
    return {"mean_cosine": float(cosines.mean()), "least_cosine": float(cosines.min()), "spearman": float(rank)}


def measure_loss(session: measures.Session, formats: list[str]) -> dict[str, dict[str, float]]:
    """Measures how far embeddings of held-out sentences are from those of the model in f32, as ONNX Runtime has them."""
    measures.say("==> MiniLM, loss on held-out sentences")
    inputs = tokenize(model_directory(session.cache, "minilm"), sentences(held_out=True))
    reference = peer_embeddings(session, "onnxruntime", inputs)
    found = {f"intarsia {format}": our_embeddings(session, [f"--quantize={format}"], inputs) for format in formats}
    found |= {peer: peer_embeddings(session, peer, inputs) for peer in session.engines}
    result = {name: loss(embeddings, reference) for name, embeddings in found.items()}
    for name, values in result.items():
        measures.say(f"  {name}: " + ", ".join(f"{key} {value:.5f}" for key, value in values.items()))
    return result


def render(speed: list[dict[str, Any]], losses: dict[str, dict[str, float]]) -> str:
    """Returns the page."""
    parts = []
    if speed:
        cells, best = [], []
        for row in speed:
            comparisons: list[Comparison] = [row["floats"], *row["peers"]]
            strongest = min(row["peers"], key=lambda one: one.ratio, default=None)
            best += [strongest] if strongest else []
            for one in comparisons:
                low, high = one.interval()
                ours, other = (statistics.median(times) for times in (one.ours_ms, one.peer_ms))
                name = f"**{one.peer}**" if one is strongest else one.peer
                cells.append((row["case"].title, f"{ours:.2f}", name, f"{other:.2f}",
                              f"{one.ratio:.2f} [{low:.2f}, {high:.2f}]"))  # fmt: skip
        parts.append(table(("case", "ours, ms", "against", "ms", "ratio"), cells))
        means = {"our f32": [row["floats"] for row in speed]} | ({"the best peer": best} if best else {})
        for name, comparisons in means.items():
            value, low, high = geomean(comparisons)
            parts.append(f"Geometric mean against {name}: {value:.2f} [{low:.2f}, {high:.2f}].\n")
    if losses:
        rows = [(name, *(f"{value:.5f}" for value in values.values())) for name, values in losses.items()]
        parts.append(table(("MiniLM, held-out sentences", "mean cosine", "least cosine", "Spearman"), rows))
    return "\n".join(parts)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures encoders and vision in 8 bits.")
    add = parser.add_argument
    add("--only", type=some_of(("speed", "loss")), default=["speed", "loss"])
    add("--cases", type=some_of(CASES), default=list(CASES), help=f"some of: {', '.join(CASES)}")
    add("--peers", type=some_of(PEERS), default=PEERS, help=f"some of: {', '.join(PEERS)}")
    add("--format", default="int8", help="format of ours (default: %(default)s)")
    add_options(parser, pairs=20)
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    described = machine.describe()
    machine.use_cores(arguments.threads)
    models = sorted({CASES[key].model for key in arguments.cases} | ({"minilm"} if "loss" in arguments.only else set()))
    make_models(arguments.cache, None, models)
    make_quantized_models(arguments.cache, models)
    session = measures.Session(
        build=arguments.build.resolve(),
        cache=arguments.cache.resolve(),
        work=arguments.work.resolve(),
        pairs=arguments.pairs,
        threads=arguments.threads,
        engines=arguments.peers,
        cases=arguments.cases,
        shapes=[],
        baseline=measures.OURS,
    )
    speed = measure_speed(session, arguments.format) if "speed" in arguments.only else []
    losses = measure_loss(session, [arguments.format]) if "loss" in arguments.only else {}
    results = {
        "speed": [
            {"case": row["case"].key, "comparisons": [one.to_json() for one in (row["floats"], *row["peers"])]}
            for row in speed
        ],
        "loss": losses,
    }
    report(arguments, described, "quantized_encoders", "Encoders and vision in 8 bits", render(speed, losses), results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
