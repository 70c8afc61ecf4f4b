# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The demand of a bound on tokens on devices, against arithmetic by hand on published figures of model and device."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import time
import typing

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
SCHEMA = json.loads((ROOT / "docs" / "plan.schema.json").read_text())

# 1000 tokens are new, 500 are found in the cache, 200 are written.
AGENT = """agent.model @llama {{context_tokens = 131072, shape = "llama-3.1-70b", precisions = ["{precision}"]}}
agent.graph @chat(%question: !agent.text {{agent.size = #agent.amount<1000 tokens>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = 60000, {bound}, requests_per_second = 1>}} {{
  %answer = agent.llm @llama(%question) produces <200 tokens>
    {{instruction_tokens = 500, label = "answer", shared_instructions}} : (!agent.text) -> !agent.text
  agent.return %answer : !agent.text
}}
fleet.system @hall {{
  fleet.device @h100 {{catalogue = "nvidia/h100-sxm"}}
  fleet.pool @gpus of @h100 count {devices} per_node {devices}
}}
"""

# Llama 3.1 70B: 80 layers, hidden 8192, 64 heads and 8 of keys of 128, width 28672, vocabulary 128256.
LAYERS, HIDDEN, HEADS, KEY_HEADS, HEAD, WIDTH, VOCABULARY = 80, 8192, 64, 8, 128, 28672, 128256
MULTIPLIED = LAYERS * (2 * HIDDEN * HEADS * HEAD + 2 * HIDDEN * KEY_HEADS * HEAD + 3 * HIDDEN * WIDTH)
# NVIDIA's data sheet of the H100 SXM, without sparsity.
BYTES_PER_SECOND, FLOPS_PER_SECOND = 3.35e12, {"bf16": 989.5e12, "fp8": 1979e12}


def conflict(directory: pathlib.Path, bound: str, precision: str, devices: int) -> dict[str, typing.Any]:
    """Plan an infeasible request; return the one conflict that is about the bound."""
    agent, file = directory / "agent.mlir", directory / "plan.json"
    agent.write_text(AGENT.format(bound=bound, precision=precision, devices=devices))
    done = subprocess.run([str(TOOL), str(agent), f"--json={file}"], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    result = json.loads(file.read_text())
    jsonschema.validate(result, SCHEMA, jsonschema.Draft202012Validator)
    (found,) = result["conflicts"]
    assert found["text"] in done.stdout
    return found


def bytes_of_step(precision: str, tensor: int) -> float:
    """Weights in their format, the head in 16 bits, and a 16-bit cache of 1500 tokens and half of the written ones."""
    weights = MULTIPLIED * {"bf16": 2, "fp8": 1}[precision] + 2 * VOCABULARY * HIDDEN
    cache = LAYERS * 2 * 2 * KEY_HEADS * HEAD * (1500 + 200 / 2)
    return (weights + cache) / tensor


@pytest.mark.parametrize(("precision", "devices"), [("bf16", 8), ("fp8", 8), ("fp8", 2)])
def test_bandwidth_for_the_next_token(precision: str, devices: int, tmp_path: pathlib.Path) -> None:
    """The fastest is over all devices; its bytes within a millisecond are more than an H100 reads."""
    found = conflict(tmp_path, "tbt_ms = 1", precision, devices)
    needs, read = found["needs"], bytes_of_step(precision, devices)
    assert (needs["piece"], needs["unit"]) == ("answer.decode", "bytes")
    assert needs["choice"] == f"@gpus {precision} tensor {devices}"
    assert needs["amount"] == pytest.approx(read, rel=1e-9)
    assert needs["needed_per_second"] == pytest.approx(read / 1e-3, rel=1e-9)
    assert needs["has_per_second"] == pytest.approx(BYTES_PER_SECOND, rel=1e-9)
    assert read / 1e-3 > BYTES_PER_SECOND
    text = f"a forward step reads {read / 1e9:.4g} GB on each device, which needs {read / 1e9:.4g} TB/s or more within 1 ms"
    assert f"{text}; the device has 3.35" in found["text"]


def test_bandwidth_that_is_there(tmp_path: pathlib.Path) -> None:
    """If the memory alone would hold a bound, the text says that the rest is overhead."""
    found = conflict(tmp_path, "tbt_ms = 3.5", "fp8", 8)
    read = bytes_of_step("fp8", 8)
    assert read / 3.5e-3 < BYTES_PER_SECOND
    (floor, whole) = re.findall(
        r"GB on each device, ([\d.]+) ms at the device's 3.35 TB/s; of the ([\d.]+) ms that it takes the rest is overhead",
        found["text"],
    )[0]
    assert float(floor) == pytest.approx(1000 * read / BYTES_PER_SECOND, rel=1e-3)
    assert float(floor) < 3.5 < float(whole)
    # The choice takes all devices, and the prefill needs one as well: the value that would be enough is a
    # forward step on fewer.
    assert float(whole) < found["would_do"]


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_arithmetic_for_the_first_token(precision: str, tmp_path: pathlib.Path) -> None:
    """Two flops a weight and new token, and scores and their mixing with all tokens before, found ones too."""
    found = conflict(tmp_path, "ttft_ms = 5", precision, 8)
    # The token at position i attends to i others: 1500² / 2 pairs less those of the first 500 tokens.
    scores = LAYERS * 4 * HEADS * HEAD * (1500**2 - 500**2) / 2
    flops = (2 * MULTIPLIED * 1000 + scores) / 8
    needs = found["needs"]
    assert (needs["piece"], needs["unit"]) == ("answer.prefill", "flops")
    assert needs["amount"] == pytest.approx(flops, rel=1e-9)
    assert needs["needed_per_second"] == pytest.approx(flops / 5e-3, rel=1e-9)
    assert needs["has_per_second"] == pytest.approx(FLOPS_PER_SECOND[precision], rel=1e-3)
    assert f"a mean prompt takes {flops / 1e12:.4g} Tflop on each device" in found["text"]


def test_a_model_that_fits_nowhere(tmp_path: pathlib.Path) -> None:
    """The conflict names the bytes of the weights and the memory of the largest pool."""
    agent = tmp_path / "agent.mlir"
    agent.write_text(AGENT.format(bound="tbt_ms = 50", precision="bf16", devices=1))
    done = subprocess.run([str(TOOL), str(agent)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    weights = 2 * (MULTIPLIED + 2 * VOCABULARY * HIDDEN) / 1e9
    assert (
        f"its weights take {weights:.1f} GB in bf16, and the largest pool @gpus has 1 devices of 80 GB" in done.stderr
    )


# A human who takes 20 s or more before a search; nothing that the fleet does makes the answer come sooner.
SLOW = """agent.tool @human takes <8000 ms, p95 = 20000> {{concurrency = 500}}
agent.model @llama {{shape = "llama-3.1-8b"}}
agent.graph @refund(%q: !agent.text {{agent.size = #agent.amount<500 tokens>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = {bound}, requests_per_second = {rate}>}} {{
  %f = agent.invoke @human(%q) produces <50 tokens> {{label = "approves"}} : (!agent.text) -> !agent.text
  %a = agent.llm @llama(%f) produces <100 tokens> {{label = "answer"}} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}}
fleet.system @hall {{
  fleet.device @h100 {{catalogue = "nvidia/h100-sxm"}}
  fleet.device @l4 {{catalogue = "nvidia/l4"}}
  fleet.pool @gpus of @h100 count 16 per_node 8
  fleet.pool @small of @l4 count 16 per_node 4
  fleet.network {{gigabytes_per_second = 12.5, microseconds = 20.0}}
}}
"""


def slow(directory: pathlib.Path, bound: float, rate: float = 5, **changes: str) -> tuple[int, dict[str, typing.Any]]:
    """Plan the refund, which may fail; return the exit code and the JSON."""
    agent, file = directory / "agent.mlir", directory / "plan.json"
    text = SLOW.format(bound=bound, rate=rate)
    for before, after in changes.values():
        assert before in text
        text = text.replace(before, after)
    agent.write_text(text)
    command = [str(TOOL), str(agent), f"--json={file}", "--why=false"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, json.loads(file.read_text())


def test_a_promise_that_a_task_alone_breaks(tmp_path: pathlib.Path) -> None:
    """The promise is named within seconds, with the task that takes the time; not links, pools or power."""
    began = time.monotonic()
    code, result = slow(tmp_path, 15000)
    assert code == 2
    assert time.monotonic() - began < 10
    (found,) = result["conflicts"]
    assert found["text"].startswith("agent 'refund': end-to-end in 15000.000 ms at most")
    assert "with each task at its fastest, nothing waiting and nothing sent" in found["text"]
    assert "without 'approves'" in found["text"]
    # The human alone: a lognormal with its 95th percentile at 20 s.
    (least,) = re.findall(r"nothing sent, it takes ([\d.]+) ms", found["text"])
    assert 20000 < float(least) < 21500
    assert slow(tmp_path, found["would_do"] * 1.001)[0] == 0


def test_a_tool_that_takes_too_few_calls(tmp_path: pathlib.Path) -> None:
    """What would do is a number of calls, and it does."""
    code, result = slow(tmp_path, 60000, fewer=("concurrency = 500", "concurrency = 40"))
    assert code == 2
    (found,) = result["conflicts"]
    assert found["text"].startswith("'human' takes 40 calls at once at most; ")
    assert found["given"] == 40
    # 5 a second of 8 s each are 40 under way.
    assert 40 < found["would_do"] <= 60
    assert f"; {found['would_do']:.0f} calls at once would do" in found["text"]
    enough = ("concurrency = 500", f"concurrency = {found['would_do']:.0f}")
    assert slow(tmp_path, 60000, enough=enough)[0] == 0
