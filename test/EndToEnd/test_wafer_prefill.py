# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Language models on wafers whose prompts are on another grid than their tokens, and on several wafers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import intarsia
import numpy as np
import pytest
from wafer_models import ON_WAFER, compare, refusal, write_llama

GLOSSARY = Path(__file__).resolve().parents[2] / "examples" / "glossary"
#: Longer than what is faster token by token.
PROMPT = [1, 5, 9, 60, 31, 8, 44, 3] * 6


@pytest.fixture(scope="module")
def eight_heads(folder: Path) -> Path:
    """Return a model with eight heads, of which two have the same keys."""
    path = folder / "llama-8-heads"
    path.mkdir()
    write_llama(path, words=128, hidden=64, heads=8, key_heads=4, features=8, inner=96)
    return path


@pytest.fixture(scope="module")
def four_layers(folder: Path) -> Path:
    """Return a model whose layers are shared by several regions or wafers."""
    path = folder / "llama-4-layers"
    path.mkdir()
    write_llama(path, words=96, hidden=64, heads=4, key_heads=4, features=16, inner=96, layers=4)
    return path


@pytest.mark.cpu_only
@pytest.mark.parametrize(("grid", "prefill"), [(8, 12), (12, 8), (13, 16), (16, 5)])
@pytest.mark.parametrize(("precision", "tolerance"), [("f32", 2e-5), ("f16", 1e-2)])
def test_tokens_are_those_of_the_cpu(
    tools, scratch, eight_heads: Path, grid: int, prefill: int, precision: str, tolerance: float
) -> None:
    """Weights come to the larger and the smaller grid; caches stay where the next tokens find them."""
    target = f"wafer:wse-2+grid={grid}+prefill={prefill}"
    compare(tools, scratch, eight_heads, target, precision=precision, tolerance=tolerance, prompt=PROMPT)
    timing = tools.run(
        "intarsia-run", scratch / "wafer.itx", f"--ids={','.join(map(str, PROMPT))}", "--max-tokens=2", "--timing"
    ).stdout
    assert "weights move to other cores" in timing, timing


@pytest.mark.cpu_only
def test_glossary(tools, scratch) -> None:
    """A trained model, with a prompt on more cores than its tokens."""
    prompt = [0, 300, 20, 77, 1000, 45] * 16
    compare(
        tools,
        scratch,
        GLOSSARY,
        "wafer:wse-2+grid=32+prefill=40",
        "--context=256",
        precision="f16",
        tolerance=1e-2,
        prompt=prompt,
    )


@pytest.mark.cpu_only
@pytest.mark.parametrize("bits", ["int8", "int4"])
@pytest.mark.parametrize(("grid", "prefill"), [(24, 32), (27, 20)])
def test_quantized_weights(tools, scratch, bits: str, grid: int, prefill: int) -> None:
    """Quantized values and scales move, whose groups both grids cut."""
    flags = [f"--quantize={bits}", "--quantize-activations=16", "--matmul-precision=f32", "--kv=f32", "--context=256"]
    tools.compile(GLOSSARY, "-o", scratch / f"{bits}-cpu.itx", *flags)
    target = f"--target=cpu,wafer:wse-2+grid={grid}+prefill={prefill}"
    tools.compile(GLOSSARY, "-o", scratch / f"{bits}-{grid}.itx", target, "--place=model.layers.*=@wafer", *flags)
    ids = np.random.default_rng(7).integers(3, 4000, 150).tolist()
    logits, expected = (intarsia.Generator(scratch / f"{bits}-{of}.itx").logits([ids])[0] for of in (str(grid), "cpu"))
    assert np.abs(logits - expected).max() < 1e-5 * np.abs(expected).max()


def remark(tools, scratch: Path, model: Path, target: str, *flags: str) -> dict[str, str | None]:
    """Return what the compiler says of the programs that it made."""
    done = tools.compile(
        model, "-o", scratch / "said.itx", f"--target=cpu,{target}", "--kv=f16", "--matmul-precision=f16", *ON_WAFER, *flags
    )  # fmt: skip
    found = re.search(
        r"launches on (?:(?P<regions>\d+) regions of )?(?P<grid>\d+) by \d+ cores of (?:(?P<wafers>\d+) wafers )?.*?: "
        r"(?P<bytes>\d+) of 49152 bytes of a core, (?P<row>\d+) cycles \(.*?\) for one row"
        r"(?:, of which (?P<handed>\d+) go to the next region(?: or wafer)?)?, (?P<rows>\d+) \(.*?\) for (?P<count>\d+)"
        r"(?: with products on (?P<prefill>\d+) by \d+ cores)?(?:, of which (?P<moved>\d+) move)?",
        done.stderr,
    )
    assert found, done.stderr
    return found.groupdict()


@pytest.mark.cpu_only
def test_the_grid_of_prompts_is_chosen_by_cost(tools, scratch, eight_heads: Path) -> None:
    """No other grid has a faster prompt, among those beside which all fits; tokens are on the grid that is fastest for
    them."""
    chosen = remark(tools, scratch, eight_heads, "wafer", "--context=128")
    assert chosen["count"] == "64"
    best = {
        prefill: int(
            remark(
                tools, scratch, eight_heads, f"wafer:wse-2+grid={chosen['grid']}+prefill={prefill}", "--context=128"
            )["rows"]
        )
        for prefill in range(4, 33, 4)
    }
    assert int(chosen["rows"]) <= 1.02 * min(best.values()), (chosen, best)
    assert chosen["prefill"] is not None
    assert int(chosen["rows"]) < 0.95 * best[int(chosen["grid"])], (chosen, best)


@pytest.mark.cpu_only
def test_timing_is_that_of_the_compiler(tools, scratch, eight_heads: Path) -> None:
    """The prompt for which a grid is chosen takes the cycles that were predicted for it, weights on their way among them."""
    said = remark(tools, scratch, eight_heads, "wafer:wse-2+grid=8+prefill=12", "--context=128")
    assert said["prefill"] == "12"
    trace = scratch / "trace.json"
    ids = ",".join(map(str, (PROMPT * 2)[: int(said["count"])]))
    text = tools.run(
        "intarsia-run", scratch / "said.itx", f"--ids={ids}", "--max-tokens=3", "--timing", f"--profile={trace}"
    ).stdout
    events = [one for one in json.loads(trace.read_text())["traceEvents"] if one.get("cat") == "simulated"]
    moves = [one["args"]["cycles"] for one in events if one["name"] == "weights move to other cores"]
    decode = re.search(r"decode   a token in (\d+) cycles", text)
    assert decode, text
    assert abs(int(decode[1]) - int(said["row"])) <= 1
    # The head and the norm before it compute the last row alone.
    assert 0 < sum(moves) <= int(said["moved"])
    prompt = re.search(r"prompt   (\d+) tokens in (\d+) cycles", text)
    assert prompt, text
    assert int(prompt[1]) == int(said["count"])
    assert 0.7 * int(said["rows"]) < int(prompt[2]) <= int(said["rows"])


@pytest.mark.cpu_only
def test_layers_of_several_wafers(tools, scratch, four_layers: Path) -> None:
    """Wafers share layers as regions do; a vector takes microseconds from one to the next."""
    source = (Path(__file__).resolve().parents[2] / "catalogue" / "wafers" / "wse-2.yaml").read_text()
    small = source.replace("value: 750,", "value: 9,").replace("value: 994,", "value: 9,")
    small = small.replace("value: 49152,", "value: 6400,")
    (scratch / "small.yaml").write_text(small)
    wafer = f"wafer:{scratch / 'small.yaml'}"
    place = ["--place=model.layers.*=@wafer"]
    flags = ["--kv=f16", "--matmul-precision=f16", "--context=64", *place]
    message = refusal(tools, scratch, four_layers, f"--target=cpu,{wafer}", *flags)
    found = re.search(
        r"need (\d+) bytes of each core on a grid of 9 by 9, wse-2 has 6400.*share layers of (\d+) wafers by \+wafers=(\d+)",
        message,
    )
    assert found, message
    assert found[2] == found[3]
    wafers = int(found[2])
    assert wafers > 1
    message = refusal(tools, scratch, four_layers, f"--target=cpu,{wafer}+wafers={wafers - 1}", *flags)
    assert "bytes of each core" in message, message
    done = tools.compile(four_layers, "-o", scratch / "shared.itx", f"--target=cpu,{wafer}+wafers={wafers}", *flags)
    said = re.search(r"(\d+) wafers .* for one row, of which (\d+) go to the next region or wafer", done.stderr)
    assert said, done.stderr
    # 5 us each, at 1.1 GHz; what travels is next to nothing.
    ways = wafers - 1
    assert ways * 5500 < int(said[2]) < ways * 6000
    tools.compile(four_layers, "-o", scratch / "cpu.itx", "--matmul-precision=f32", "--kv=f32", "--context=64")
    tokens = [
        tools.run("intarsia-run", scratch / f"{name}.itx", "--ids=1,2,3,4,5,6,7", "--max-tokens=12").stdout.split()
        for name in ("cpu", "shared")
    ]
    assert tokens[0] == tokens[1]
    (scratch / "alone.yaml").write_text(re.sub(r"system_.*\n", "", small))
    message = refusal(tools, scratch, four_layers, f"--target=cpu,wafer:{scratch / 'alone.yaml'}+wafers=2", *flags)
    assert "says nothing of the network between wafers; add system_gbps and system_us to its file" in message, message


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("wse-2+prefill=8", "prefill needs a grid before it: +grid=N+prefill=M"),
        ("wse-2+regions=2", "regions needs a grid before it: +grid=N+regions=M"),
        ("wse-2+grid=8+prefill=1", "a grid has at least 2 cores along each side"),
        ("wse-2+grid=8+prefill=800", "a grid of 800 by 800 is larger than wse-2"),
        ("wse-2+grid=8+prefill=100", "a linear has a side of 32, less than the 100 cores along a side of the grid"),
        ("wse-2+grid=8+grid=9", "'grid' is there twice"),
        ("wse-2+grid=8+wafers=0", "'wafers=0' behind the + is none of grid=N, regions=N, prefill=N and wafers=N"),
        ("wse-2+wafers=500", "layers are shared by 192 wafers at most"),
        ("wse-2+grid=300+regions=13+wafers=2", "there are 12 regions of 300 by 300 cores on 2 wafers of wse-2"),
    ],
)
def test_what_is_refused(tools, scratch, eight_heads: Path, variant: str, message: str) -> None:
    """Options that contradict each other, by name."""
    text = refusal(tools, scratch, eight_heads, f"--target=cpu,wafer:{variant}", "--kv=f16", *ON_WAFER)
    assert message in text, text
