# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small language models of every architecture, with random weights, against what transformers computed for them.

decoders/NAME is a Hugging Face directory with golden.npz in it (written by make_decoders.py). The step function is
called as a server would: prompts of different lengths together, prompts in chunks beside sequences that decode.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import intarsia
import ml_dtypes
import numpy as np
import pytest
from programs import one_of_each_family
from safetensors.numpy import load_file, save_file

HERE = Path(__file__).resolve().parent
MODELS = sorted(path.name for path in (HERE / "decoders").iterdir())
FAMILIES = ("bitnet", "gemma2", "gemma3", "gpt-oss-mxfp4", "gpt2", "llama", "mistral", "mixtral", "phi3", "qwen2", "qwen3",
            "qwen3-moe-mixed")  # fmt: skip
DTYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}

# Two layers, logits up to 5; PyTorch's own float32 rounding is below 2e-6 on them.
TOLERANCE = 2e-5


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """NaN everywhere: what was not written must not be read. State has to begin at a cache line."""
    count = int(np.prod(shape))
    raw = np.full(count + 64, np.nan, dtype)
    offset = -raw.ctypes.data % 64 // raw.itemsize
    return raw[offset : offset + count].reshape(shape)


def page_tokens(module: intarsia.Module) -> int:
    """Tokens of a page, which the device decides."""
    return next(function["page_tokens"] for function in module.manifest["functions"] if function["name"] == "step")


class Server:
    """Sequences of one model; pages are given out in an order of their own."""

    def __init__(self, module: intarsia.Module, sequences: int, tokens_each: int) -> None:
        self.step = module.step
        pages_each = -(-tokens_each // page_tokens(module))
        pages = sequences * pages_each
        self.table = np.random.default_rng(3).permutation(pages).reshape(sequences, pages_each)
        self.lengths = [0] * sequences
        self.state = {
            value.name: aligned((pages, *value.shape[1:]), DTYPES[value.dtype])
            for value in module.signature("step").inputs
            if value.name.startswith("cache.")
        }

    def run(self, rows: list[tuple[int, np.ndarray]]) -> list[np.ndarray]:
        """Logits of all tokens of each (sequence, tokens)."""
        counts = [len(tokens) for _, tokens in rows]
        positions = [np.arange(self.lengths[s], self.lengths[s] + len(tokens)) for s, tokens in rows]
        for s, tokens in rows:
            self.lengths[s] += len(tokens)
        logits = self.step(
            input_ids=np.concatenate([tokens for _, tokens in rows]),
            positions=np.concatenate(positions),
            sequences=np.repeat([s for s, _ in rows], counts),
            page_table=self.table,
            output_tokens=np.arange(sum(counts)),
            **self.state,
        )
        return np.split(logits, np.cumsum(counts)[:-1])


def check(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    error = np.abs(actual - expected).max()
    assert error <= TOLERANCE, f"logits are off by {error:.2e}"


@pytest.mark.parametrize("name", one_of_each_family(MODELS, *FAMILIES))
def test_prefill_and_decode(tools, scratch, name):
    folder = HERE / "decoders" / name
    tools.compile(folder, "-o", scratch / f"{name}.itx", "--kv=f32", "--quantize-activations=16")
    module = intarsia.load(scratch / f"{name}.itx")
    with np.load(folder / "golden.npz") as golden:
        ids, lengths, logits = golden["input_ids"], golden["lengths"], golden["logits"]
    steps = ids.shape[1] - lengths.max()
    everyone = range(len(lengths))

    # All prompts in one call, then ten tokens each.
    server = Server(module, len(lengths), 64)
    for s, actual in zip(everyone, server.run([(s, ids[s, : lengths[s]]) for s in everyone]), strict=True):
        check(actual, logits[s, : lengths[s]])
    for step in range(steps):
        at = [lengths[s] + step for s in everyone]
        for s, actual in zip(everyone, server.run([(s, ids[s, [at[s]]]) for s in everyone]), strict=True):
            check(actual, logits[s, [at[s]]])

    # The longest prompt in chunks, while another sequence already decodes.
    server = Server(module, len(lengths), 64)
    check(server.run([(1, ids[1, : lengths[1]])])[0], logits[1, : lengths[1]])
    for step, begin in enumerate(range(0, lengths[0], 7)):
        end = min(begin + 7, lengths[0])
        at = lengths[1] + step
        decoded, chunk = server.run([(1, ids[1, [at]]), (0, ids[0, begin:end])])
        check(decoded, logits[1, [at]])
        check(chunk, logits[0, begin:end])


@pytest.mark.parametrize("same", [True, False])
def test_tied_setting_of_an_archive_with_both_weights(tools, scratch, tmp_path, same):
    """transformers ties only equal weights; the golden is from the model with its own lm_head."""
    shutil.copytree(HERE / "decoders" / "llama", tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert not config["tie_word_embeddings"]
    weights = load_file(tmp_path / "model" / "model.safetensors")
    (tmp_path / "model" / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    if same:
        weights["model.embed_tokens.weight"] = weights["lm_head.weight"]
        save_file(weights, tmp_path / "model" / "model.safetensors")
    flags = ("--kv=f32", "--quantize-activations=16")
    printed = tools.compile(tmp_path / "model", "-o", scratch / "tied.itx", *flags).stderr
    assert ("'lm_head.weight' is not equal to 'model.embed_tokens.weight'" in printed) == (not same)
    module = intarsia.load(scratch / "tied.itx")
    assert ("lm_head.weight" in str(module.manifest["weights"]["tensors"])) == (not same)
    if same:
        return
    with np.load(HERE / "decoders" / "llama" / "golden.npz") as golden:
        ids, length, logits = golden["input_ids"][0], golden["lengths"][0], golden["logits"][0]
    check(Server(module, 1, 64).run([(0, ids[:length])])[0], logits[:length])


def test_experts_in_mxfp4(tools, scratch):
    """As a user gets it: matmuls of integers, each activation off by 0.4 % of the largest of its block, and tokens
    whose router is undecided through another expert."""
    folder = HERE / "decoders" / "gpt-oss-mxfp4"
    with np.load(folder / "golden.npz") as golden:
        ids, logits = golden["input_ids"], golden["logits"]
    tools.compile(folder, "-o", scratch / "mxfp4.itx", "--kv=f32")
    error = np.abs(Server(intarsia.load(scratch / "mxfp4.itx"), 1, 64).run([(0, ids[0])])[0] - logits[0])
    assert TOLERANCE < np.quantile(error, 0.7) < 0.01 * np.abs(logits).max()


def test_texts_longer_than_longrope_was_trained_for_first(tools, scratch):
    folder = HERE / "decoders" / "phi3-longrope"
    tools.compile(folder, "-o", scratch / "long.itx", "--kv=f32", "--context=64")
    module = intarsia.load(scratch / "long.itx")
    with np.load(folder / "golden.npz") as golden:
        ids, logits = golden["long_input_ids"][0], golden["long_logits"][0]
    # In chunks: with the frequencies of long texts from the first token on, no matter how many there are yet.
    server = Server(module, 1, 64)
    for begin, end in ((0, 40), (40, 63), (63, 64)):
        check(server.run([(0, ids[begin:end])])[0], logits[begin:end])


def test_positions_beyond_the_context_are_refused(tools, scratch):
    folder = HERE / "decoders" / "phi3-longrope"
    tools.compile(folder, "-o", scratch / "short.itx", "--kv=f32")
    server = Server(intarsia.load(scratch / "short.itx"), 1, 64)
    with pytest.raises(intarsia.Error, match="positions"):
        server.run([(0, np.zeros(57, np.int64))])  # original_max_position_embeddings is 56


def test_two_byte_caches_are_close(tools, scratch):
    folder = HERE / "decoders" / "llama"
    with np.load(folder / "golden.npz") as golden:
        ids, logits = golden["input_ids"], golden["logits"]
    # Roundings of 2^-11 and 2^-8 of keys and values, on logits up to 5.
    for kind, tolerance in (("f16", 5e-3), ("bf16", 4e-2)):
        tools.compile(folder, "-o", scratch / f"{kind}.itx", f"--kv={kind}")
        server = Server(intarsia.load(scratch / f"{kind}.itx"), 1, 64)
        error = np.abs(server.run([(0, ids[0])])[0] - logits[0]).max()
        assert TOLERANCE < error <= tolerance, kind
