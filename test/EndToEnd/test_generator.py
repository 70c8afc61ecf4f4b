# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A trained language model: logits, perplexity and generated text against PyTorch's."""

from __future__ import annotations

import json
from pathlib import Path

import intarsia
import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "examples" / "glossary"


@pytest.fixture(scope="module")
def golden():
    with np.load(HERE / "goldens" / "glossary.npz") as arrays:
        return {**arrays, **json.loads((HERE / "goldens" / "glossary.json").read_text())}


@pytest.fixture(scope="module")
def exact(tools, tmp_path_factory):
    """Keys and values kept in f32, as PyTorch's."""
    path = tmp_path_factory.mktemp("glossary") / "f32.itx"
    tools.compile(MODEL, "-o", path, "--kv=f32")
    return intarsia.Generator(path, tokenizer=MODEL)


@pytest.fixture(scope="module")
def generator(tools, tmp_path_factory):
    path = tmp_path_factory.mktemp("glossary") / "f16.itx"
    tools.compile(MODEL, "-o", path)
    return intarsia.Generator(path, tokenizer=MODEL / "tokenizer.json")


def prompts_of(golden) -> list[list[int]]:
    return [row[:length].tolist() for row, length in zip(golden["tokens"], golden["lengths"], strict=True)]


def test_prompts_are_encoded_with_their_beginning(exact, golden):
    assert [exact.encode(prompt) for prompt in golden["prompts"]] == prompts_of(golden)


def test_logits(exact, golden):
    for actual, expected in zip(exact.logits(prompts_of(golden)), golden["logits"], strict=True):
        assert np.abs(actual - expected[: len(actual)]).max() <= 1e-4


def test_perplexity(exact, generator, golden):
    windows = golden["windows"]
    assert exact.perplexity(windows[:60]) == pytest.approx(np.exp(np.mean(golden["window_losses"][:60])), rel=1e-5)
    # Keys and values of eleven bits: the bar is 0.1 %.
    assert generator.perplexity(windows[:50]) == pytest.approx(np.exp(np.mean(golden["window_losses"][:50])), rel=1e-3)


# llama.cpp's formats with the same bits a weight: 4.5 in the linears, 6.56 in the table, which has 6.5 here.
PEERS = {"int4": "Q4_0", "nvfp4": "Q4_0", "int8": "Q8_0"}


@pytest.mark.parametrize(
    "name",
    # Values of the others are those of NumPy in test_quantized_linears.py.
    ["int4", "int8", *(pytest.param(name, marks=pytest.mark.slow) for name in ("int4-g128", "int6", "mxfp4", "nvfp4"))],
)
def test_perplexity_of_quantized_weights(tools, tmp_path, golden, name):
    """PyTorch has the same quantized weights and activations, and computes in float32: the bar is 0.05 %. No more is
    lost than by llama.cpp at the same bits; of int8, whose loss is less than that bar, PyTorch's figure says so."""
    tools.compile(MODEL, "-o", tmp_path / "m.itx", "--kv=f32", f"--quantize={name}")
    perplexity = intarsia.Generator(tmp_path / "m.itx").perplexity(golden["windows"])
    assert perplexity == pytest.approx(golden["quantized_perplexity"][name], rel=5e-4)
    if name in PEERS:
        ours = golden["quantized_perplexity"][name] if name == "int8" else perplexity
        assert ours <= golden["llama_cpp_perplexity"][PEERS[name]]


@pytest.mark.parametrize(
    ("name", "inputs", "least", "most"),
    [
        ("fp8", (), 1e-3, 5e-3),
        ("fp8", ("--quantize-activations=fp8",), 5e-3, 1e-2),
        ("nvfp4", ("--quantize-activations=nvfp4",), 3e-2, 5e-2),
        ("mxfp4", ("--quantize-activations=mxfp4",), 8e-2, 1.1e-1),
    ],
)
def test_perplexity_of_floats(tools, tmp_path, golden, name, inputs, least, most):
    """Three bits of mantissa lose little of PyTorch's perplexity in float32, and something; those of inputs lose more,
    and one bit much more."""
    tools.compile(MODEL, "-o", tmp_path / "m.itx", "--kv=f32", f"--quantize={name}", *inputs)
    some = slice(50)
    perplexity = intarsia.Generator(tmp_path / "m.itx").perplexity(golden["windows"][some])
    assert least < perplexity / np.exp(np.mean(golden["window_losses"][some])) - 1 < most


def test_perplexity_with_a_quantized_table(tools, tmp_path, golden):
    """The head and the embedding in the linears' four bits: within 0.05 % of PyTorch's and below llama.cpp's."""
    flags = ("--quantize=int4", "--quantize-parts=linears,lm_head=int4,embedding=int4")
    tools.compile(MODEL, "-o", tmp_path / "m.itx", "--kv=f32", *flags)
    perplexity = intarsia.Generator(tmp_path / "m.itx").perplexity(golden["windows"])
    assert perplexity == pytest.approx(golden["quantized_perplexity_of_one_format"]["int4"], rel=5e-4)
    assert perplexity <= golden["llama_cpp_perplexity"]["Q4_0, table too"]


@pytest.mark.parametrize(
    ("kind", "memory", "increase"), [("f16", 1.0, 1e-4), ("int4", 0.29, 7e-3), ("int8", 0.54, 1e-3), ("fp8", 0.5, 1e-3)]
)
def test_perplexity_through_the_cache(tools, scratch, golden, kind, memory, increase):
    """Token by token, as texts are generated, so that each is predicted from what the cache holds."""
    tools.compile(MODEL, "-o", scratch / "m.itx", f"--kv={kind}")
    generator = intarsia.Generator(scratch / "m.itx")
    step, windows = generator.module.step, golden["windows"][:25]
    count, length = windows.shape[0], windows.shape[1] - 1
    page = next(function["page_tokens"] for function in generator.module.manifest["functions"])
    pages = -(-length // page)
    state = intarsia.make_state(step, pages=count * pages, sequences=count)
    losses = np.zeros((count, length))
    everyone = np.arange(count)
    for position in range(length):
        logits = step(
            input_ids=windows[:, position],
            positions=np.full(count, position),
            sequences=everyone,
            page_table=np.arange(count * pages).reshape(count, pages),
            output_tokens=everyone,
            **state,
        ).astype(np.float64)
        largest = logits.max(-1, keepdims=True)
        totals = np.log(np.exp(logits - largest).sum(-1)) + largest[:, 0]
        losses[:, position] = totals - logits[everyone, windows[:, position + 1]]
    ratio = np.exp(losses.mean() - np.mean(golden["window_losses"][:count]))
    assert ratio <= 1 + increase
    # A prompt that goes in at once sees what its tokens see one by one, but for quantized values whose roundings the
    # last bits of what comes before decide.
    assert generator.perplexity(windows[:3]) == pytest.approx(np.exp(losses[:3].mean()), rel=3e-4)
    # Keys and values of 1,024 tokens, 2 heads of 64 features in 6 layers, beside two bytes each.
    used = sum(array.nbytes for array in intarsia.make_state(step, pages=32, sequences=1).values())
    assert used <= memory * (1024 * 2 * 2 * 64 * 6 * 2)


def test_greedy_text(exact, golden):
    results = exact.generate(golden["prompts"], max_tokens=48)
    for result, ids, text in zip(results, golden["greedy_ids"], golden["greedy_text"], strict=True):
        # PyTorch went on after the end of an entry.
        until = ids.index(1) if 1 in ids else 48
        assert result.ids == ids[:until]
        assert result.finish_reason == ("end" if 1 in ids else "length")
        assert until < 48 or result.text == text
        assert len(result.logprobs) == len(result.ids)


def test_a_batch_is_its_sequences(generator, golden):
    together = generator.generate(golden["prompts"], max_tokens=12, temperature=0.8, top_k=50, seed=4)
    assert together == generator.generate(golden["prompts"], max_tokens=12, temperature=0.8, top_k=50, seed=4)
    assert len({tuple(result.ids) for result in together}) > 1
    greedy = generator.generate(golden["prompts"], max_tokens=12)
    for prompt, result in zip(golden["prompts"], greedy, strict=True):
        assert generator.generate(prompt, max_tokens=12)[0].ids == result.ids


def test_a_prompt_longer_than_a_chunk(exact, golden):
    stream = golden["windows"][:, :-1].reshape(-1)[:700].tolist()
    (whole,) = exact.logits([stream])
    assert whole.shape == (700, 4096)
    # The same tokens as the first rows of a shorter text.
    assert np.abs(exact.logits([stream[:100]])[0] - whole[:100]).max() <= 2e-5
    (result,) = exact.generate(stream, max_tokens=1)
    assert result.ids == [int(whole[-1].argmax())] or result.finish_reason == "end"


def test_streamed_text_is_the_text(generator):
    parts = list(generator.stream("violin (noun):", max_tokens=24))
    assert len(parts) > 1
    assert "".join(parts) == generator.generate("violin (noun):", max_tokens=24)[0].text


def test_stop_strings_end_the_text_before_them(generator):
    (whole,) = generator.generate("violin (noun):", max_tokens=24)
    stop = whole.text.split()[2]
    (result,) = generator.generate("violin (noun):", max_tokens=24, stop=stop)
    assert result.finish_reason == "stop"
    assert result.text == whole.text[: whole.text.index(stop)]
    assert "".join(generator.stream("violin (noun):", max_tokens=24, stop=[stop])) == result.text


def test_context_ends(exact, golden):
    stream = golden["windows"][:, :-1].reshape(-1)[: exact.context - 2].tolist()
    (result,) = exact.generate(stream, max_tokens=50, temperature=1.0, seed=1)
    assert len(result.ids) <= 3
    with pytest.raises(intarsia.InvalidArgumentError, match=f"a prompt has {exact.context + 1} tokens"):
        exact.generate([*stream, 5, 6, 7], max_tokens=1)


def test_a_tokenizer_is_a_path_or_an_object(generator):
    for tokenizer in (str(MODEL), MODEL, str(MODEL / "tokenizer.json"), generator.tokenizer):
        other = intarsia.Generator(generator.module, tokenizer=tokenizer)
        assert other.encode("violin (noun):") == generator.encode("violin (noun):")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1.0, must be from 0 to 1e"),
        ({"top_p": 0.0}, "top_p is 0.0, must be above 0"),
        ({"min_p": 2.0}, "min_p is 2.0, must be from 0 to 1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0, must be from 1e-09"),
        ({"max_tokens": 0}, "max_tokens is 0, must be at least 1"),
        ({"max_tokens": 1.5}, "max_tokens is 1.5, must be a whole number"),
        ({"draft_tokens": -1}, "draft_tokens is -1, must be at least 1"),
        ({"seed": "one"}, "seed is 'one', must be a whole number"),
        ({"seed": -(10**5000)}, "seed is a number of 16610 bits, must be at least -9223372036854775808"),
        ({"json_schema": {"const": {1, 2}}}, "json_schema: Object of type set is not JSON serializable"),
    ],
)
def test_values_without_a_meaning(generator, arguments, message):
    with pytest.raises(intarsia.InvalidArgumentError, match=message):
        generator.generate("violin", **arguments)


def test_tokens_outside_of_the_vocabulary(generator):
    with pytest.raises(intarsia.InvalidArgumentError, match=r"token 1 of a prompt is 4096, tokens are in \[0, 4096\)"):
        generator.generate([0, 4096])
    for ids in ([0, 2**63], [0, 2**70], [0, 1.5], [[0, 1]], [0, "1"], [True]):
        with pytest.raises(intarsia.InvalidArgumentError, match="token ids are not a sequence of whole numbers"):
            generator.encode(ids)


def test_other_tokenizers_and_models(tools, scratch, generator):
    import tokenizers

    words = {str(i): i for i in range(5000)}
    larger = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="0"))
    with pytest.raises(intarsia.InvalidArgumentError, match="the tokenizer has 5000 tokens, the model 4096"):
        intarsia.Generator(generator.module, tokenizer=larger)
    single = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(
        intarsia.InvalidArgumentError, match="the model ends texts with token 1, which the tokenizer with"
    ):
        intarsia.Generator(generator.module, tokenizer=single)
    with pytest.raises(intarsia.NotFoundError, match="there is no such file"):
        intarsia.Generator(generator.module, tokenizer=scratch)
    tools.compile(HERE / "models" / "bert", "-o", scratch / "bert.itx")
    with pytest.raises(intarsia.InvalidArgumentError, match="is no language model"):
        intarsia.Generator(scratch / "bert.itx")


def test_a_tokenizer_that_cannot_encode(generator):
    """The package tokenizers raises plain exceptions."""
    import tokenizers

    words = tokenizers.models.WordPiece({"a": 0, "b": 1}, unk_token="[UNK]")
    unable = intarsia.Generator(generator.module, tokenizer=tokenizers.Tokenizer(words))
    with pytest.raises(intarsia.InvalidArgumentError, match=r"the tokenizer cannot encode the text: .*UNK"):
        unable.generate("c", max_tokens=1)


def test_positions_outside_of_the_cache_are_refused(generator):
    step = generator.module.step
    room = 2 * next(function["page_tokens"] for function in generator.module.manifest["functions"])
    state = intarsia.make_state(step, pages=3)
    good = {
        "input_ids": np.array([0]),
        "positions": np.array([0]),
        "sequences": np.array([0]),
        "page_table": np.array([[0, 1], [2, 0]]),
        "output_tokens": np.array([0]),
    }
    step(**good, **state)
    for name, value, message in (
        (
            "positions",
            [room],
            rf"'positions' is {room} at \[0\]: values must be in \[0, {room}\): pages_of_a_sequence is 2",
        ),
        ("sequences", [2], r"'sequences' is 2 at \[0\]: values must be in \[0, 2\): sequences is 2"),
        ("page_table", [[0, 1], [3, 0]], r"'page_table' is 3 at \[1, 0\]: values must be in \[0, 3\): pages is 3"),
        ("positions", [-1], r"'positions' is -1 at \[0\]"),
    ):
        with pytest.raises(intarsia.InvalidArgumentError, match=message):
            step(**(good | {name: np.array(value)}), **state)
    keys = state["cache.0.keys"]
    raw = np.zeros(keys.size + 64, keys.dtype)
    misaligned = raw[(-raw.ctypes.data % 64) // 2 + 1 :][: keys.size].reshape(keys.shape)
    with pytest.raises(intarsia.InvalidArgumentError, match="must begin at a multiple of 64 bytes"):
        step(**good, **(state | {"cache.0.keys": misaligned}))
    strided = np.zeros((2 * keys.shape[0], *keys.shape[1:]), keys.dtype)[::2]
    with pytest.raises(intarsia.InvalidArgumentError, match="must lie side by side in memory"):
        step(**good, **(state | {"cache.0.keys": strided}))
    with pytest.raises(intarsia.InvalidArgumentError, match="it is updated in place, and must be an array"):
        step(**good, **(state | {"cache.0.keys": keys.tolist()}))
    keys.flags.writeable = False
    with pytest.raises(intarsia.InvalidArgumentError, match=r"'cache\.0\.keys' is updated in place, and is read-only"):
        step(**good, **state)
