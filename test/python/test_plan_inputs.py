# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a user may say of models, tasks and pools: it is done, or refused by name."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import typing

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"

CHAT = """agent.model @l8 {{context_tokens = 131072 : i64, shape = "llama-3.1-8b"{model}}}
agent.graph @chat(%q: !agent.text {{agent.size = #agent.amount<600 tokens, p95 = 1800>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = 12000, ttft_ms = 1000, tbt_ms = 50, requests_per_second = 20>}} {{
  %a = agent.llm @l8(%q) produces <129 tokens, p95 = 350> {{label = "answer"{task}}} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}}
fleet.system @dc {{
  fleet.device @a {{catalogue = "nvidia/a100-sxm"}}
  fleet.pool @p of @a count 16 per_node 8
}}
"""


def chat(model: str = "", task: str = "") -> str:
    """One language model on A100s, which compute in int8 and not in fp8."""
    return CHAT.format(model=model, task=task)


def run(directory: pathlib.Path, agent: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Plan, whatever comes of it; JSON is then in plan.json, the placed agent in placed.mlir."""
    file = directory / "agent.mlir"
    file.write_text(agent)
    outputs = [f"--json={directory / 'plan.json'}", "-o", str(directory / "placed.mlir")]
    command = [str(TOOL), str(file), "--why=false", *outputs, *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def plan(directory: pathlib.Path, agent: str, *flags: str) -> dict[str, typing.Any]:
    """The plan; its pieces under their names."""
    done = run(directory, agent, *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((directory / "plan.json").read_text())
    result["pieces"] = {piece["name"]: piece for piece in result["pieces"]}
    for piece in result["pieces"].values():
        del piece["tasks"]  # with their places in the file
    return result


@pytest.mark.parametrize(
    ("model", "precision"),
    [("", "int8"), *((f', precisions = ["{name}"]', name) for name in ("int8", "int4", "bf16"))],
)
def test_precisions_by_the_names_of_the_catalogue(model: str, precision: str, tmp_path: pathlib.Path) -> None:
    """What a plan chooses is what a placement may say: the file with placements plans again, to the same plan."""
    pieces = plan(tmp_path, chat(model))["pieces"]
    assert {piece["precision"] for piece in pieces.values()} == {precision}
    placed = (tmp_path / "placed.mlir").read_text()
    assert placed.count(f'precision = "{precision}"') == 2
    again = plan(tmp_path, placed)["pieces"]
    assert again == pieces
