# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Headroom: replicas that a plan leaves free, its price, and the probability that the promises hold."""

from __future__ import annotations

import json
import math
import os
import pathlib
import subprocess
import typing

import jsonschema
import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
SCHEMA = json.loads((ROOT / "docs" / "plan.schema.json").read_text())

# One answer at a time on each L4: the number of replicas follows from the rate and the time of one of them alone.
AGENT = """agent.model @ear {{parameters = 6.0e8, flops_per_unit = 1.0e12, precisions = ["f16"]}}
agent.graph @hear(%a: !agent.audio {{agent.size = #agent.amount<10 seconds>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = {bound}, requests_per_second = {rate}>}} {{
  %t = agent.infer @ear(%a) produces <30 tokens> {{label = "hear"}} : (!agent.audio) -> !agent.text
  agent.return %t : !agent.text
}}
fleet.system @dc {{
  fleet.device @l4 {{catalogue = "nvidia/t4"}}
  fleet.pool @small of @l4 count {devices} per_node 1 price #fleet.rental<dollars_per_hour = 0.5>
}}
"""


def run(directory: pathlib.Path, *flags: str, **changes: float) -> subprocess.CompletedProcess[str]:
    """Plan the agent; its JSON is then in plan.json."""
    figures = {"bound": 100000, "rate": 40, "devices": 64} | changes
    agent = directory / "agent.mlir"
    agent.write_text(AGENT.format(**figures))
    command = [str(TOOL), str(agent), f"--json={directory / 'plan.json'}", "--why=false", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def plan(directory: pathlib.Path, *flags: str, **changes: float) -> tuple[str, dict[str, typing.Any]]:
    """Return what is printed, and the plan as JSON."""
    done = run(directory, *flags, **changes)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((directory / "plan.json").read_text())
    jsonschema.validate(result, SCHEMA, jsonschema.Draft202012Validator)
    return done.stdout, result


@pytest.mark.parametrize("share", [0, 0.1, 0.2, 0.5])
def test_a_share_stays_free(share: float, tmp_path: pathlib.Path) -> None:
    """The devices are those of counting: the fewest whose replicas are busy for less than the rest."""
    printed, result = plan(tmp_path, f"--headroom={share}")
    (piece,) = result["pieces"]
    assert piece["utilization"] < 1 - share
    # With one replica less they would be busier. A replica takes all of a T4, which lets in no other programs.
    busy = piece["utilization"] * piece["replicas"]
    assert piece["replicas"] == math.floor(busy / (1 - share)) + 1
    assert result["totals"]["dollars_per_hour"] == pytest.approx(0.5 * piece["devices"])
    assert result["headroom"]["share"] == share == piece["headroom"]
    if share:
        none = 0.5 * (math.floor(busy) + 1) / 3600 / 40
        assert result["headroom"]["objective_without"] == pytest.approx(none, rel=1e-6)
        assert f"headroom: replicas are busy for {100 * (1 - share):.0f}% of what they sustain at most, for" in printed


def test_a_plan_has_headroom_and_says_how_sure_it_is(tmp_path: pathlib.Path) -> None:
    """Without a flag replicas stand times that one in ten exceeds; the probability is that of --confidence."""
    printed, result = plan(tmp_path)
    (piece,) = result["pieces"]
    # The file has quantiles at 0.05, 0.10 … of the logarithm of predicted over measured times.
    errors = yaml.safe_load((ROOT / "catalogue" / "efficiency" / "serving.yaml").read_text())["residuals"][
        "first_token"
    ]
    assert piece["headroom"] == pytest.approx(1 - math.exp(errors["quantiles"][1]), rel=1e-6)
    assert piece["utilization"] < 1 - piece["headroom"]
    assert result["headroom"]["level"] == 0.9
    assert result["headroom"]["holds"]
    assert "headroom: replicas sustain the load at times that one in 10 exceeds (decode × 1." in printed
    sure = result["confidence"]["probability"]
    assert f"all promises hold with {sure:.3f} ± " in printed
    _, asked = plan(tmp_path, "--confidence")
    assert asked["confidence"]["probability"] == pytest.approx(sure, abs=0.08)  # of 400 trials and of 200
    _, none = plan(tmp_path, "--headroom=0")
    assert none["pieces"][0]["utilization"] > 0.8
    assert sure > 0.85
    assert none["confidence"]["probability"] < sure - 0.1
    # A probability that is asked for says itself how much is needed.
    _, planned = plan(tmp_path, "--confidence=0.9")
    assert not planned["headroom"]["holds"]
    assert planned["pieces"][0]["headroom"] == 0
    assert planned["confidence"]["probability"] >= 0.9


def test_a_fleet_that_is_just_large_enough(tmp_path: pathlib.Path) -> None:
    """Where no plan has the usual headroom the plan has none, and says so; one that is asked for is a constraint."""
    _, none = plan(tmp_path, "--headroom=0")
    few = none["pieces"][0]["devices"]
    devices = int(few)
    assert none["pieces"][0]["utilization"] > 0.8
    printed, result = plan(tmp_path, devices=devices)
    assert "headroom: none, as no plan sustains the load at times that one in 10 exceeds" in printed
    assert not result["headroom"]["holds"]
    done = run(tmp_path, "--headroom=0.2", devices=devices)
    assert done.returncode == 2
    result = json.loads((tmp_path / "plan.json").read_text())
    (busy,) = (
        of for of in result["conflicts"] if "replicas are busy for 80.0% of what they sustain at most" in of["text"]
    )
    assert busy["given"] == pytest.approx(0.8)
    # What would do does.
    enough = plan(tmp_path, f"--headroom={1 - busy['would_do'] - 1e-3:.4f}", devices=devices)[1]
    assert enough["pieces"][0]["devices"] <= devices


@pytest.mark.parametrize("share", ["1", "-0.1", "much", "0.95", "nan"])
def test_what_is_no_share(share: str, tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, f"--headroom={share}")
    assert done.returncode == 1
    assert f"--headroom={share}: a share from 0 to 0.9 is expected" in done.stderr
