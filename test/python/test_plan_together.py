# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several agents in one file share the fleet, and each keeps its own promises."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import typing

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
AGENTS = ROOT / "examples" / "agents"
FLEET = ROOT / "examples" / "fleets" / "dc.mlir"
NAMES = ("react", "router", "speech_assistant")


def plan(agent: pathlib.Path, out: pathlib.Path, *flags: str) -> dict[str, typing.Any]:
    """Plan on the fleet of the examples, or on the one that the flags name."""
    command = [str(TOOL), str(agent), f"--json={out}", f"--fleet={FLEET}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, typing.Any] = json.loads(out.read_text())
    return result


def renamed(name: str) -> str:
    """Rename everything in an example so that no name occurs in another one."""
    text = (AGENTS / f"{name}.mlir").read_text()
    for symbol in set(re.findall(r"agent\.\w+ @(\w+)", text)):
        text = re.sub(rf"@{symbol}\b", f"@{name}_{symbol}", text)
    return text


def test_agents_cost_no_more_together(tools, tmp_path: pathlib.Path) -> None:
    """The cost together is the sum of the costs alone, less the shared devices; all promises hold."""
    alone = [tools.plan(name, "--why=false", "--simulate=20000").figures() for name in NAMES]
    file = tmp_path / "all.mlir"
    file.write_text("\n".join(renamed(name) for name in NAMES))
    together = plan(file, tmp_path / "all.json", "--time-limit=10")
    total = sum(one["totals"]["dollars_per_hour"] for one in alone)
    # In each pool at most one device that was whole before may be shared now.
    assert total - 5 < together["totals"]["dollars_per_hour"] <= total * (1 + 1e-9)
    assert len(together["agents"]) == len(NAMES)
    for agent in together["agents"]:
        assert agent["end_to_end_ms"] <= agent["bounds"]["end_to_end_ms"]
    # Every piece inside the fleet has a next best plan.
    assert {entry["piece"] for entry in together["why_not"]} >= {
        piece["name"] for piece in together["pieces"] if not piece["outside"]
    }


@pytest.mark.parametrize("limit", [10, 25])
def test_a_first_plan_does_not_depend_on_the_limit(limit: int, tmp_path: pathlib.Path) -> None:
    """A percentile far above the mean is kept whether the time is short or long."""
    result = plan(AGENTS / "debate.mlir", tmp_path / "plan.json", "--why=false", f"--time-limit={limit}")
    (agent,) = result["agents"]
    assert agent["end_to_end_ms"] <= agent["bounds"]["end_to_end_ms"]
