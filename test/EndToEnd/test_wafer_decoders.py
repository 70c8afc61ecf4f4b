# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Language models that run on a simulated wafer from the first norm to the logits, caches in the memory of its cores."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import intarsia
import numpy as np
import pytest
from wafer_models import ON_WAFER, compare, refusal, write_llama

HERE = Path(__file__).resolve().parent
GLOSSARY = HERE.parents[1] / "examples" / "glossary"
PROMPT = [1, 5, 9, 60, 31, 8]
GLOSSARY_PROMPT = [0, 300, 20, 77, 1000, 45]


@pytest.fixture(scope="module")
def eight_heads(folder: Path) -> Path:
    """Return a model with eight heads, of which two have the same keys."""
    path = folder / "llama-8-heads"
    path.mkdir()
    write_llama(path, words=128, hidden=64, heads=8, key_heads=4, features=8, inner=96)
    return path


@pytest.mark.cpu_only
@pytest.mark.parametrize("grid", [8, 13, 16, 32])
@pytest.mark.parametrize(("precision", "tolerance"), [("f32", 2e-5), ("f16", 1e-2)])
def test_eight_heads(tools, scratch, eight_heads: Path, grid: int, precision: str, tolerance: float) -> None:
    """Grids with fewer columns than a head has pairs of features, with more, and that divide nothing."""
    target = f"wafer:wse-2+grid={grid}"
    compare(tools, scratch, eight_heads, target, precision=precision, tolerance=tolerance, prompt=PROMPT)


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("target", "precision", "tolerance"),
    [
        pytest.param("wafer", "f32", 2e-5, marks=pytest.mark.slow),
        ("wafer:wse-2+grid=32", "f16", 1e-2),
    ],
)
def test_glossary(tools, scratch, target: str, precision: str, tolerance: float) -> None:
    """A trained model: on the grid that the compiler chooses, and on 32 by 32."""
    compare(
        tools,
        scratch,
        GLOSSARY,
        target,
        "--context=256",
        precision=precision,
        tolerance=tolerance,
        prompt=GLOSSARY_PROMPT,
    )


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "mistral", "llama-yarn", "llama-tied-bf16"])
def test_logits_are_those_of_pytorch(tools, scratch, name: str) -> None:
    """Biases, norms of heads, windows, factors of rotations, grouped heads."""
    model = HERE / "decoders" / name
    target = "--target=cpu,wafer:wse-2+grid=8"
    tools.compile(model, "-o", scratch / "golden.itx", target, "--kv=f32", "--matmul-precision=f32", *ON_WAFER)
    with np.load(model / "golden.npz") as golden:
        ids, length, logits = golden["input_ids"][0], golden["lengths"][0], golden["logits"][0]
    actual = intarsia.Generator(scratch / "golden.itx").logits([ids[:length].tolist()])[0]
    assert np.abs(actual - logits[:length]).max() < 2e-5


@pytest.mark.cpu_only
def test_more_heads_than_columns(tools, scratch, eight_heads: Path) -> None:
    """Four heads of keys on three columns: two on the first, two on the second."""
    target = "wafer:wse-2+grid=3"
    compare(tools, scratch, eight_heads, target, "--context=64", precision="f32", tolerance=2e-5, prompt=PROMPT)


@pytest.mark.cpu_only
def test_the_longest_context_is_named(tools, scratch) -> None:
    """It fits, and one more token for each row of cores does not."""
    flags = ["--target=cpu,wafer:wse-2+grid=20", "--kv=f32", "--matmul-precision=f16", *ON_WAFER]
    message = refusal(tools, scratch, GLOSSARY, *flags)
    found = re.search(r"a context of (\d+) tokens is the longest that fits: compile with --context=(\d+)", message)
    assert found, message
    longest = int(found[1])
    tools.compile(GLOSSARY, "-o", scratch / "longest.itx", *flags, f"--context={longest}")
    assert f"a context of {longest} tokens" in refusal(tools, scratch, GLOSSARY, *flags, f"--context={longest + 1}")


@pytest.mark.cpu_only
def test_weights_that_no_grid_holds(tools, scratch) -> None:
    """The compiler tries grids up to the smallest side of a linear; the head alone is more than their memory."""
    path = scratch / "wide"
    path.mkdir()
    words, hidden = 300_000, 16
    write_llama(path, words=words, hidden=hidden, heads=2, key_heads=2, features=8, inner=16)
    message = refusal(tools, scratch, path, "--target=cpu,wafer", "--place=lm_head=@wafer", "--matmul-precision=f32")
    assert re.search(r"its layers need \d+ bytes of each core on a grid of \d+ by \d+, wse-2 has 49152", message)
    assert "put fewer layers on it with --place" in message


@pytest.mark.cpu_only
def test_a_wafer_without_room(tools, scratch, eight_heads: Path) -> None:
    """Its weights and caches lie in memory of the host, of which the device may have little."""
    tools.compile(eight_heads, "-o", scratch / "room.itx", "--target=cpu,wafer:wse-2+grid=8", "--kv=f32", *ON_WAFER)
    done = tools.run(
        "intarsia-run",
        scratch / "room.itx",
        "--ids=1,2,3",
        environment={"ITX_WAFER_MEMORY_BYTES": "1000"},
        check=False,
    )
    assert done.returncode == 1
    assert "the simulated wafer has no" in done.stderr


@pytest.mark.cpu_only
def test_timing_is_that_of_the_compiler(tools, scratch, eight_heads: Path) -> None:
    """Cycles of a token are those that the compiler predicts; the profile has all launches, one after another."""
    done = tools.compile(
        eight_heads, "-o", scratch / "timed.itx", "--target=cpu,wafer:wse-2+grid=8", "--kv=f32", *ON_WAFER
    )
    predicted = re.search(r"(\d+) launches on .*, (\d+) cycles \(.*?\) for one row", done.stderr)
    assert predicted, done.stderr
    arguments = ["intarsia-run", scratch / "timed.itx", "--ids=1,2,3", "--max-tokens=6"]
    trace = scratch / "trace.json"
    text = tools.run(*arguments, "--timing", f"--profile={trace}").stdout
    found = re.search(r"decode   a token in (\d+) cycles \((.*) us\), (\d+) tokens a second", text)
    assert found, text
    assert abs(int(found[1]) - int(predicted[2])) <= 1
    assert float(found[3]) == pytest.approx(1.1e9 / int(found[1]), rel=1e-3)
    # Time at the most power of the system, by the catalogue.
    energy = re.search(r"decode .* tokens a second, at most (\S+) J", text)
    assert energy, text
    assert float(energy[1]) == pytest.approx(23000 * float(found[2]) * 1e-6, rel=1e-3)
    events = [one for one in json.loads(trace.read_text())["traceEvents"] if one.get("cat") == "simulated"]
    assert len(events) == 6 * int(predicted[1])
    total = re.search(r"all +\d+ +\d+ +(\d+) ", text)
    assert total
    assert sum(one["args"]["cycles"] for one in events) == pytest.approx(int(total[1]), abs=1)
    for one, after in itertools.pairwise(events):
        assert after["ts"] == pytest.approx(one["ts"] + one["dur"], abs=2e-3)
    tools.compile(eight_heads, "-o", scratch / "cpu-only.itx")
    refused = tools.run("intarsia-run", scratch / "cpu-only.itx", "--ids=1,2", "--timing", check=False)
    assert refused.returncode == 1
    assert "--timing shows the time of simulated wafers, and nothing of this call ran on one" in refused.stderr


@pytest.mark.cpu_only
def test_one_sequence_at_a_time(tools, scratch, eight_heads: Path) -> None:
    """The cores have memory for the cache of one."""
    tools.compile(eight_heads, "-o", scratch / "one.itx", "--target=cpu,wafer:wse-2+grid=8", "--kv=f32", *ON_WAFER)
    generator = intarsia.Generator(scratch / "one.itx")
    with pytest.raises(intarsia.Error, match="a wafer has the cache of one sequence, this call has several"):
        generator.logits([PROMPT, PROMPT[::-1]])


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("model", "flags", "message"),
    [
        ("llama", ["--kv=int8"], "its cache is not f32 or f16; compile the model with --kv=f16"),
        ("llama", ["--kv=bf16"], "its cache is not f32 or f16; compile the model with --kv=f16"),
        ("gpt-oss", [], "cannot be computed on a wafer: sinks are not supported"),
        ("mixtral", [], "cannot be computed on a wafer: kernels of 'route' are not supported"),
        ("phi3", [], "it turns neighbours, or a part of the features; halves of whole heads are supported"),
        ("gemma2", [], "linears, norms, additions, products, silu, gelu, relu and tanh are supported"),
    ],
)
def test_what_is_refused(tools, scratch, model: str, flags: list[str], message: str) -> None:
    """By the op's name in the model, and what to do."""
    text = refusal(tools, scratch, HERE / "decoders" / model, "--target=cpu,wafer", *ON_WAFER, *flags)
    assert message in text, text
