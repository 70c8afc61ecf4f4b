# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`intarsia engines`: the flags of serving engines and the manifests of a plan."""

from __future__ import annotations

import itertools
import json
import pathlib
import shlex
import subprocess

import pytest
from intarsia import _engines
from intarsia.__main__ import main

AGENT = """agent.model @m {{shape = "{shape}", precisions = ["{precision}"], context_tokens = 32768, cache = "fp8"}}
agent.graph @ask(%q: !agent.text {{agent.size = #agent.amount<2000 tokens>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = 60000, ttft_ms = 4000, tbt_ms = 60, requests_per_second = 20>}} {{
  %a = agent.llm @m(%q) produces <200 tokens> {{label = "ask"{place}}} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}}
fleet.system @dc {{
  fleet.device @d {{catalogue = "{device}"}}
  fleet.pool @here of @d count 64 per_node 8
}}
"""
TOGETHER = ', place = #fleet.placement<@dc::@here, tensor = 4, batch = 64, precision = "fp8", aggregated = true>'
APART = ', place = #fleet.placement<@dc::@here, tensor = 4, batch = 64, precision = "fp8">'


def planned(tools, directory: pathlib.Path, **changes: str) -> pathlib.Path:
    figures = {"shape": "llama-3.1-70b", "precision": "fp8", "place": TOGETHER, "device": "nvidia/h100-sxm"} | changes
    agent, plan = directory / "agent.mlir", directory / "plan.json"
    agent.write_text(AGENT.format(**figures))
    tools.run("intarsia-plan", agent, "--why=false", f"--json={plan}")
    return plan


def flags_of(script: pathlib.Path) -> list[str]:
    """Return the words of a script's command; the shell must agree that it is one."""
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0
    (line,) = (line for line in script.read_text().splitlines() if line.startswith("exec "))
    return shlex.split(line)[1:]


def values(words: list[str]) -> dict[str, str]:
    return {flag: value for flag, value in itertools.pairwise(words) if flag.startswith("--")}


# Flags as the documentation of vLLM 0.10 (Engine Arguments) and SGLang 0.5 (Server Arguments) names them.
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "vllm",
            {"--tensor-parallel-size": "4", "--max-num-seqs": "64", "--quantization": "fp8", "--kv-cache-dtype": "fp8",
             "--max-model-len": "32768", "--dtype": "bfloat16"},
        ),
        (
            "sglang",
            {"--model-path": "meta/llama", "--tp-size": "4", "--max-running-requests": "64", "--quantization": "fp8",
             "--kv-cache-dtype": "fp8_e4m3", "--context-length": "32768", "--dtype": "bfloat16"},
        ),
    ],
)  # fmt: skip
def test_one_engine(kind: str, expected: dict[str, str], tools, tmp_path, capsys) -> None:
    """Prefill and decode in the same replicas are one command; the manifest has its replicas and devices."""
    plan = planned(tools, tmp_path)
    out = tmp_path / "out"
    assert main(["engines", str(plan), f"--engine={kind}", "--model=m=meta/llama", "--kubernetes", f"-o={out}"]) == 0
    assert {file.name for file in out.iterdir()} == {"m-whole-here.sh", "m-whole-here.json"}
    words = flags_of(out / "m-whole-here.sh")
    assert "meta/llama" in words
    assert values(words).items() >= expected.items()
    assert not any("pipeline" in word or "disaggregation" in word or "kv-transfer" in word for word in words)
    pieces = {piece["kind"]: piece for piece in json.loads(plan.read_text())["pieces"]}
    deployment, service = json.loads((out / "m-whole-here.json").read_text())["items"]
    assert deployment["spec"]["replicas"] == pieces["decode"]["replicas"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["command"] == words
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 4}
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert "m-whole-here.sh" in capsys.readouterr().out


def test_prefill_and_decode_apart(tools, tmp_path) -> None:
    """Each phase is a command of its own, which knows that it is one."""
    plan = planned(tools, tmp_path, place=APART)
    found = {}
    for kind in ("vllm", "sglang"):
        lines = _engines.write(plan, kind, {"m": "/models/m"}, tmp_path / kind)
        assert any("a router in front of both" in line for line in lines)
        found[kind] = {role: values(flags_of(tmp_path / kind / f"m-{role}-here.sh")) for role in ("prefill", "decode")}
    assert {role: words["--disaggregation-mode"] for role, words in found["sglang"].items()} == {
        "prefill": "prefill",
        "decode": "decode",
    }
    for words in found["vllm"].values():
        assert json.loads(words["--kv-transfer-config"])["kv_role"] == "kv_both"


def test_replicas_of_attention(tools, tmp_path) -> None:
    """Experts over all devices, attention replicated: each engine counts devices and sequences its own way."""
    place = ', place = #fleet.placement<@dc::@here, expert = 8, data = 8, batch = 128, precision = "fp8", aggregated = true>'
    plan = planned(tools, tmp_path, shape="qwen3-235b-a22b", place=place)
    (engine,), _ = _engines.read_plan(plan)
    vllm = _engines.command(engine, "vllm", "m")
    assert values(vllm).items() >= {"--data-parallel-size": "8", "--max-num-seqs": "16"}.items()
    assert "--enable-expert-parallel" in vllm
    sglang = _engines.command(engine, "sglang", "m")
    assert values(sglang).items() >= {"--tp-size": "8", "--dp-size": "8", "--ep-size": "8"}.items()
    assert values(sglang)["--max-running-requests"] == "128"
    assert "--enable-dp-attention" in sglang


def test_what_cannot_be_started(tools, tmp_path, capsys) -> None:
    """Missing and unknown models, formats without a flag, and what is no plan are named."""
    plan = planned(tools, tmp_path)
    out = f"-o={tmp_path / 'out'}"
    for arguments, message in [
        ([], "nothing says where the weights of 'm' are; give --model=m=DIRECTORY"),
        (["--model=x=y"], "--model=x=…: the plan has no such language model; it has m"),
        (["--model=m"], "--model=m: write --model=NAME=DIRECTORY"),
    ]:
        assert main(["engines", str(plan), *arguments, out]) != 0
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "none.json").write_text('{"version": 1, "status": "infeasible"}')
    assert main(["engines", str(tmp_path / "none.json"), "--model=m=y", out]) != 0
    assert "is no plan" in capsys.readouterr().err
    four = planned(tools, tmp_path, precision="int4", place=TOGETHER.replace("fp8", "int4"))
    lines = _engines.write(four, "vllm", {"m": "m"}, tmp_path / "four")
    assert any("the checkpoint must be quantized in int4" in line for line in lines)
    cpu = json.loads(plan.read_text())
    cpu["pools"][0]["device"] = "here/cpu"
    plan.write_text(json.dumps(cpu))
    assert main(["engines", str(plan), "--model=m=y", "--kubernetes", out]) != 0
    assert "no device plugin of Kubernetes is known for it" in capsys.readouterr().err
