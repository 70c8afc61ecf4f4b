# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`intarsia engines`: the flags of serving engines and the manifests of a plan."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import shlex
import subprocess

import pytest
from intarsia.__main__ import main
from intarsia.deployment import engines

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
        lines = engines.write(plan, kind, {"m": "/models/m"}, tmp_path / kind)
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
    (engine,), _ = engines.read_plan(plan)
    vllm = engines.command(engine, "vllm", "m")
    assert values(vllm).items() >= {"--data-parallel-size": "8", "--max-num-seqs": "16"}.items()
    assert "--enable-expert-parallel" in vllm
    sglang = engines.command(engine, "sglang", "m")
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
    lines = engines.write(four, "vllm", {"m": "m"}, tmp_path / "four")
    assert any("the checkpoint must be quantized in int4" in line for line in lines)
    cpu = json.loads(plan.read_text())
    cpu["pools"][0]["device"] = "here/cpu"
    plan.write_text(json.dumps(cpu))
    assert main(["engines", str(plan), "--model=m=y", "--kubernetes", out]) != 0
    assert "no device plugin of Kubernetes is known for it" in capsys.readouterr().err


PIECE = {
    "name": "ask.decode", "kind": "decode", "pool": "here", "model": "m", "precision": "bf16", "cache": "bf16",
    "aggregated": True, "outside": False, "tensor": 1, "pipeline": 1, "data": 1, "expert": 1, "batch": 8, "replicas": 1,
    "most_context_tokens": None,
}  # fmt: skip
POOL = {"name": "here", "device": "nvidia/h100-sxm", "devices_per_node": 8}


def plan_of(folder: pathlib.Path, piece: dict | None = None, pool: dict | None = None, **others: object) -> str:
    """Return the name of a plan with one piece on one pool, with changes."""
    plan = {"version": 1, "pieces": [PIECE | (piece or {})], "pools": [POOL | (pool or {})]} | others
    (folder / "plan.json").write_text(json.dumps(plan))
    return str(folder / "plan.json")


def test_texts_of_a_plan_are_no_commands(tmp_path, monkeypatch) -> None:
    """Each name is data: in comments, in arguments, in names of files. The script runs `exec` and nothing else."""
    evil = "a; touch pwned; $(touch pwned) `touch pwned` ' \" \\ # | & > pwned"
    plan = plan_of(tmp_path, {"name": evil, "pool": evil, "model": evil}, {"name": evil, "device": f"nvidia/{evil}"})
    for kind in engines.ENGINES:
        out = tmp_path / kind
        engines.write(pathlib.Path(plan), kind, {evil: evil}, out, manifests=True)
        (script,) = out.glob("*.sh")
        assert evil in flags_of(script)
        assert all(line.startswith(("#", "exec ")) for line in script.read_text().splitlines())
        (tmp_path / "bin").mkdir(exist_ok=True)
        for name in ("vllm", "python3"):
            (tmp_path / "bin" / name).write_text("#!/bin/sh\nexit 7\n")
            (tmp_path / "bin" / name).chmod(0o755)
        monkeypatch.chdir(tmp_path)
        done = subprocess.run([script], env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}, check=False)
        assert done.returncode == 7
        assert not (tmp_path / "pwned").exists()
    # Line ends are refused where a plan is read; a script has none of them anyway.
    (engine,), _ = engines.read_plan(pathlib.Path(plan))
    lines = "a\nb\r\nc\u2028d"
    engine = dataclasses.replace(engine, pool=lines, device=lines, pieces=(lines, lines))
    assert engines.script(engine, "vllm", ["true"]).splitlines()[2:] == ["exec true"]


@pytest.mark.parametrize("character", ["\n", "\r", "\0", "\x1b", "\x85", "\u2028", "\udcff"])
@pytest.mark.parametrize("where", ["name", "pool", "model", "device"])
def test_control_characters_are_refused(tmp_path, capsys, where, character) -> None:
    text = f"a{character}touch pwned{character}#"
    change = {"piece": {where: text}, "pool": {"name": text} if where == "pool" else {}}
    plan = plan_of(tmp_path, **({"pool": {"device": text}} if where == "device" else change))
    assert main(["engines", plan, "--model=m=m", f"-o={tmp_path / 'out'}"]) == 1
    assert f"has the control character U+{ord(character):04X}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pieces": {}}, "it: pieces is {}, must be a list"),
        ({"pieces": [5]}, "it: pieces[0] is 5, must be an object"),
        ({"pieces": [{}]}, "it: pieces[0] has no 'name'"),
        ({"piece": {"kind": []}}, "it: pieces[0]: kind is [], must be a text or null"),
        ({"piece": {"tensor": "2"}}, 'pieces[0]: tensor is "2", must be a whole number of 1 to'),
        ({"piece": {"data": 0}}, "pieces[0]: data is 0, must be a whole number of 1 to"),
        ({"piece": {"batch": True}}, "pieces[0]: batch is true, must be a whole number of 1 to"),
        ({"piece": {"aggregated": 1}}, "pieces[0]: aggregated is 1, must be true or false"),
        ({"piece": {"model": None}}, "pieces[0]: model is null, must be a text"),
        ({"piece": {"pool": "there"}}, "has no pool 'there' of ask.decode"),
        ({"pools": None}, "it: pools is null, must be a list"),
        ({"pool": {"device": 5}}, "it: pools[0]: device is 5, must be a text"),
        ({"version": 2}, "has version 2 of the format of plans, must have 1"),
    ],
)
def test_plans_of_other_forms(tmp_path, capsys, change, message) -> None:
    assert main(["engines", plan_of(tmp_path, **change), "--model=m=m", f"-o={tmp_path / 'out'}"]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"), [("[]", "must be an object"), ("[" * 100000, "nested too deep"), ("{", "")]
)
@pytest.mark.parametrize("command", ["engines", "deployment"])
def test_files_that_are_no_plans(tmp_path, capsys, command, text, message) -> None:
    (tmp_path / "deployment.json").write_text(text)
    commands = {
        "engines": ["engines", str(tmp_path / "deployment.json"), "--model=m=m", f"-o={tmp_path / 'out'}"],
        "deployment": ["bench", "deployment", str(tmp_path)],
    }
    assert main(commands[command]) == 1
    said = capsys.readouterr().err
    assert "deployment.json" in said
    assert message in said


def test_deployments_of_other_forms(tmp_path, capsys) -> None:
    """What is no deployment is named, and where."""
    piece = {"name": "a", "kind": "embed", "aggregated": False, "batch": 1, "tasks": [], "work": {}}
    for pools, message in [
        ({}, "it: pools is {}, must be a list"),
        ([{"name": "p"}], "it: pools[0] has no 'artifacts'"),
        (
            [{"name": "p", "artifacts": [{"pieces": [[]]}]}],
            "pools[0]: artifacts[0]: pieces[0] is [], must be an object",
        ),
        (
            [{"name": "p", "artifacts": [{"file": "f", "model": "m", "world": 1, "pieces": [piece]}]}],
            "pieces[0]: work has no 'new_tokens'",
        ),
    ]:
        text = json.dumps({"version": 1, "plan": {"file": "p", "hash": "0"}, "pools": pools})
        (tmp_path / "deployment.json").write_text(text)
        assert main(["bench", "deployment", str(tmp_path)]) == 1
        assert message in capsys.readouterr().err
