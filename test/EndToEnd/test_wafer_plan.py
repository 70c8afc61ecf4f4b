# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Wafers as pools of a fleet: their times are those of the compiler, and their price decides where a model runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "examples" / "glossary"
ON_WAFER = ["--place=model.layers.*=@wafer", "--place=model.norm*=@wafer", "--place=lm_head=@wafer"]


def write_agent(
    folder: Path, shape: str, *, sla: str = "", prompt: int = 600, written: int = 101, more: str = ""
) -> Path:
    """Write an agent of one language model, with constant sizes."""
    path = folder / "agent.mlir"
    path.write_text(
        f'agent.model @model {{shape = "{shape}"{more}}}\n'
        f"agent.graph @chat(%question: !agent.text {{agent.size = #agent.amount<{prompt} tokens>}}) -> !agent.text "
        f"attributes {{sla = #agent.sla<requests_per_second = 0.5{sla}>}} {{\n"
        f'  %answer = agent.llm @model(%question) produces <{written} tokens> {{label = "answer"}} : (!agent.text) -> '
        "!agent.text\n  agent.return %answer : !agent.text\n}\n"
    )
    return path


def write_fleet(
    folder: Path, dollars: float, *, gpus: bool = True, device: str = 'catalogue = "cerebras/wse-2"'
) -> Path:
    """Write a fleet of wafers at a price, beside GPUs."""
    path = folder / "fleet.mlir"
    beside = (
        '  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}\n'
        "  fleet.pool @gpus of @h100 count 8 per_node 8 price #fleet.rental<dollars_per_hour = 2.99>\n"
    )
    path.write_text(
        "fleet.system @beside {\n"
        f"  fleet.device @wafer {{{device}}}\n"
        f"  fleet.pool @wafers of @wafer count 2 price #fleet.rental<dollars_per_hour = {dollars}>\n"
        f"{beside if gpus else ''}}}\n"
    )
    return path


def plan(tools, folder: Path, agent: Path, fleet: Path, *flags: str, code: int = 0) -> tuple[dict, str]:
    """Return a plan as JSON, and what was printed."""
    out = folder / "plan.json"
    done = tools.run("intarsia-plan", agent, f"--fleet={fleet}", f"--json={out}", *flags, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return (json.loads(out.read_text()) if out.exists() else {}), done.stdout + done.stderr


def piece(found: dict, kind: str) -> dict:
    """Return a piece of a plan."""
    (one,) = [one for one in found["pieces"] if one["kind"] == kind]
    return one


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("precision", "flags"),
    [("f16", []), ("int8", ["--quantize=int8", "--quantize-parts=linears,lm_head=int8"])],
)
def test_times_are_those_of_the_compiler(tools, scratch, precision: str, flags: list[str]) -> None:
    """Grid, bytes of a core and cycles of a token, from the shape alone; 101 tokens are 100 steps after the prompt."""
    done = tools.compile(
        GLOSSARY,
        "-o",
        scratch / "compiled.itx",
        "--target=cpu,wafer",
        "--context=1024",
        "--kv=f16",
        "--matmul-precision=f16",
        *ON_WAFER,
        *flags,
    )
    compiled = re.search(
        r"on (\d+) by \d+ cores of wse-2: (\d+) of 49152 bytes of a core, (\d+) cycles[^,]*, \d+ [^,]* for 512"
        r"(?: with products on (\d+) by)?",
        done.stderr,
    )
    assert compiled, done.stderr
    agent = write_agent(scratch, str(GLOSSARY), more=f', precisions = ["{precision}"]')
    found, text = plan(tools, scratch, agent, write_fleet(scratch, 30, gpus=False))
    planned = re.search(
        r"on (\d+) by \d+ cores(?:, products of prompts on (\d+) by \d+)?, with (\d+) of 49152 bytes in each", text
    )
    assert planned, text
    assert planned.groups() == (compiled[1], compiled[4], compiled[2])
    step = piece(found, "decode")["token_ms"]
    assert step == pytest.approx(int(compiled[3]) / 1.1e6, rel=1e-3)


@pytest.mark.cpu_only
def test_prompts_take_what_a_run_takes(tools, scratch) -> None:
    """The cycles of a prompt of 40 tokens, as the device counts them."""
    compile_flags = ["--target=cpu,wafer", "--context=1024", "--kv=f16", "--matmul-precision=f16", *ON_WAFER]
    tools.compile(GLOSSARY, "-o", scratch / "run.itx", *compile_flags)
    ids = ",".join(str(1 + i) for i in range(40))
    text = tools.run("intarsia-run", scratch / "run.itx", f"--ids={ids}", "--max-tokens=1", "--timing").stdout
    ran = re.search(r"all +\d+ +\d+ +(\d+) ", text)
    assert ran, text
    agent = write_agent(scratch, str(GLOSSARY), prompt=40, more=', precisions = ["f16"]')
    found, _ = plan(tools, scratch, agent, write_fleet(scratch, 30, gpus=False))
    assert piece(found, "prefill")["alone_ms"] == pytest.approx(int(ran[1]) / 1.1e6, rel=1e-3)


@pytest.mark.cpu_only
def test_the_price_of_a_wafer_decides(tools, scratch) -> None:
    """An 8B on H100s or on a wafer: the cheaper one by the user's prices."""
    agent = write_agent(scratch, "llama-3.1-8b", sla=", tbt_ms = 50")
    pools = {}
    for dollars in (2.0, 30.0):
        found, text = plan(tools, scratch, agent, write_fleet(scratch, dollars))
        pools[dollars] = {one["pool"] for one in found["pieces"]}
        # Power is that of the whole system, while it does anything.
        assert ("(23000 W if all are busy)" in text) == (dollars < 30)
        # Programs are made only where a plan may have them.
        assert ("no programs were made for it: one of its devices costs more than the whole plan" in text) == (
            dollars > 2
        )
    assert pools == {2.0: {"wafers"}, 30.0: {"gpus"}}


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("shape", "more", "message"),
    [
        (
            "llama-3.1-70b",
            "",
            r"its layers need \d+ bytes of each core on a grid of 750 by 750 on 2 wafers, wse-2 has 49152; \d wafers would",
        ),
        ("mixtral-8x7b", "", "it has experts, which programs of wafers do not compute"),
        ("llama-3.1-8b", ', precisions = ["bf16"]', "cores of wafers multiply f16, not bf16"),
        ("llama-3.1-8b", ', precisions = ["fp8"]', "weights in fp8; wafers have f16, int8 and int4"),
        ("llama-3.1-8b", ', cache = "int8"', "caches in int8; wafers have f16 and f32"),
    ],
)
def test_what_is_not_on_offer(tools, scratch, shape: str, more: str, message: str) -> None:
    """Each with the pool and the reason."""
    agent = write_agent(scratch, shape, more=more)
    _, text = plan(tools, scratch, agent, write_fleet(scratch, 30, gpus=False), code=1)
    assert re.search(rf"on @wafers: .*{message}", text), text


@pytest.mark.cpu_only
def test_a_wafer_of_the_user(tools, scratch) -> None:
    """A device's file names a wafer's file, relative to itself; one that is missing is named."""
    source = (ROOT / "catalogue" / "wafers" / "wse-2.yaml").read_text()
    (scratch / "slow.yaml").write_text(source.replace("clock_ghz: {value: 1.1,", "clock_ghz: {value: 0.55,"))
    device = (ROOT / "catalogue" / "devices" / "cerebras" / "wse-2.yaml").read_text()
    (scratch / "device.yaml").write_text(device.replace("wafer: wse-2", "wafer: slow.yaml"))
    agent = write_agent(scratch, str(GLOSSARY), more=', precisions = ["f16"]')
    steps = []
    for of in ('catalogue = "cerebras/wse-2"', 'file = "device.yaml"'):
        found, _ = plan(tools, scratch, agent, write_fleet(scratch, 30, gpus=False, device=of))
        steps.append(piece(found, "decode")["token_ms"])
    assert steps[1] == pytest.approx(2 * steps[0], rel=1e-6)
    (scratch / "device.yaml").write_text(device.replace("wafer: wse-2", "wafer: missing.yaml"))
    fleet = write_fleet(scratch, 30, gpus=False, device='file = "device.yaml"')
    _, text = plan(tools, scratch, agent, fleet, code=1)
    assert "missing.yaml: cannot be read" in text


@pytest.mark.cpu_only
def test_regions_of_a_wafer(tools, scratch) -> None:
    """Four regions of 360 by 360 hold a Llama 3 8B with 4096 tokens; of 375 by 375 no Llama 2 13B in f16."""
    (scratch / "13b").mkdir()
    config = {
        "model_type": "llama",
        "hidden_size": 5120,
        "intermediate_size": 13824,
        "num_hidden_layers": 40,
        "num_attention_heads": 40,
        "num_key_value_heads": 40,
        "vocab_size": 32000,
        "tie_word_embeddings": False,
    }
    (scratch / "13b" / "config.json").write_text(json.dumps(config))
    device = (ROOT / "catalogue" / "devices" / "cerebras" / "wse-2.yaml").read_text()
    texts = {}
    for shape, grid, code in (("llama-3.1-8b", 360, 0), (str(scratch / "13b"), 375, 1)):
        (scratch / "device.yaml").write_text(device.replace("wafer: wse-2", f"wafer: wse-2+grid={grid}+regions=4"))
        fleet = write_fleet(scratch, 30, gpus=False, device='file = "device.yaml"')
        agent = write_agent(scratch, shape, prompt=3900, more=', precisions = ["f16"]')
        texts[grid] = plan(tools, scratch, agent, fleet, code=code)[1]
    fits = re.search(r"on 4 regions of 360 by 360 cores, with (\d+) of 49152 bytes", texts[360])
    assert fits, texts[360]
    assert 35_000 < int(fits[1]) <= 49152
    refused = re.search(
        r"its layers need (\d+) bytes of each core on a grid of 375 by 375 on 2 wafers, wse-2 has 49152", texts[375]
    )
    assert refused, texts[375]
    assert 51_000 < int(refused[1]) < 60_000


@pytest.mark.cpu_only
def test_wafers_share_a_model(tools, scratch) -> None:
    """As many wafers of the pool as hold it, at the price of all; a token takes the network once for each way between two."""
    source = (ROOT / "catalogue" / "wafers" / "wse-2.yaml").read_text()
    source = re.sub(r"columns: {value: 750", "columns: {value: 24", source)
    source = re.sub(r"rows: {value: 994", "rows: {value: 24", source)
    device = (ROOT / "catalogue" / "devices" / "cerebras" / "wse-2.yaml").read_text()
    (scratch / "device.yaml").write_text(device.replace("wafer: wse-2", "wafer: small.yaml"))
    agent = write_agent(scratch, str(GLOSSARY), more=', precisions = ["f16"]')
    steps = []
    for bytes_of_core, microseconds in ((49152, 5), (14000, 5), (14000, 50)):
        (scratch / "small.yaml").write_text(
            source.replace("value: 49152", f"value: {bytes_of_core}").replace(
                "system_us: {value: 5,", f"system_us: {{value: {microseconds},"
            )
        )
        fleet = write_fleet(scratch, 30, gpus=False, device='file = "device.yaml"')
        fleet.write_text(fleet.read_text().replace("count 2", "count 11"))
        found, _ = plan(tools, scratch, agent, fleet)
        steps.append((piece(found, "decode")["devices"], piece(found, "decode")["token_ms"]))
    (alone, one), (shared, short), (again, long) = steps
    assert alone == 1
    assert shared == again == piece(found, "decode")["pipeline"] > 1
    assert short > one
    assert long - short == pytest.approx((shared - 1) * 0.045, rel=1e-3)
