# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Statements of a user about models, tasks and pools are followed, or refused by name."""

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


TWO_POOLS = """fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @here of @h100 count 8 per_node 8
  fleet.pool @there of @h100 count 8 per_node 8
}
"""


def chat(model: str = "", task: str = "") -> str:
    """One language model on A100s, which compute in int8 and not in fp8."""
    return CHAT.format(model=model, task=task)


def run(directory: pathlib.Path, agent: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Plan; the plan may fail. JSON is then in plan.json, the placed agent in placed.mlir."""
    file = directory / "agent.mlir"
    file.write_text(agent)
    outputs = [f"--json={directory / 'plan.json'}", "-o", str(directory / "placed.mlir")]
    command = [str(TOOL), str(file), "--why=false", *outputs, *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def plan(directory: pathlib.Path, agent: str, *flags: str) -> dict[str, typing.Any]:
    """Return the plan, and its pieces by name."""
    done = run(directory, agent, *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((directory / "plan.json").read_text())
    result["pieces"] = {piece["name"]: piece for piece in result["pieces"]}
    return result


def pools_of_tasks(planned: dict[str, typing.Any]) -> dict[str, str]:
    """Return the pool of each task."""
    return {task["task"]: piece["pool"] for piece in planned["pieces"].values() for task in piece["tasks"]}


@pytest.mark.parametrize(
    ("model", "precision"),
    [("", "int8"), *((f', precisions = ["{name}"]', name) for name in ("int8", "int4", "bf16", "f16"))],
)
def test_precisions_by_the_names_of_the_catalogue(model: str, precision: str, tmp_path: pathlib.Path) -> None:
    """Every plan can be written as placements: the file with placements plans again, to the same plan."""
    pieces = plan(tmp_path, chat(model))["pieces"]
    assert {piece["precision"] for piece in pieces.values()} == {precision}
    placed = (tmp_path / "placed.mlir").read_text()
    assert placed.count(f'precision = "{precision}"') == 2
    again = plan(tmp_path, placed)["pieces"]
    for piece in (*pieces.values(), *again.values()):
        del piece["tasks"]  # with their lines in the file
    assert again == pieces


SHARED = """agent.model @small {{parameters = 1.0e8}}
agent.graph @ask(%q: !agent.text {{agent.size = #agent.amount<100 tokens>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = 60000, requests_per_second = 1>}} {{
{body}
  agent.return %a : !agent.text
}}
fleet.system @dc {{
  fleet.device @h100 {{catalogue = "nvidia/h100-sxm"}}
  fleet.pool @here of @h100 count 8 per_node 8
  fleet.pool @there of @h100 count 8 per_node 8
  fleet.link @here to @there {{gigabytes_per_second = 0.01, microseconds = 10.0}}
}}
"""
MAKE = """agent.infer @small(%q) produces <100000 tokens> {label = "make", place = #fleet.placement<@dc::@here>}
    : (!agent.text) -> !agent.text"""
READ = """agent.infer @small({}) produces <10 tokens> {{label = "read", place = #fleet.placement<@dc::@there>}}
    : (!agent.text) -> !agent.text"""
BODIES = {
    "one after the other": (1, f"%made = {MAKE}\n%a = {READ.format('%made')}"),
    "into a rare case": (
        1,
        f"""%made = {MAKE}
%a = agent.branch : () -> !agent.text
  case 0.06 "rarely" {{
    %r = {READ.format("%made")}
    agent.yield %r : !agent.text
  }}
  case 0.94 "mostly" {{
    agent.yield %q : !agent.text
  }}""",
    ),
    "out of a map": (
        5,
        f"""%made = agent.map(%part = %q) width <5> each <100 tokens> : (!agent.text) -> !agent.text {{
  %m = {MAKE.replace("%q", "%part")}
  agent.yield %m : !agent.text
}}
%a = {READ.format("%made")}""",
    ),
    "out of a map into a rare case": (
        5,
        f"""%made = agent.map(%part = %q) width <5> each <100 tokens> : (!agent.text) -> !agent.text {{
  %m = {MAKE.replace("%q", "%part")}
  agent.yield %m : !agent.text
}}
%a = agent.branch : () -> !agent.text
  case 0.06 "rarely" {{
    %r = {READ.format("%made")}
    agent.yield %r : !agent.text
  }}
  case 0.94 "mostly" {{
    agent.yield %q : !agent.text
  }}""",
    ),
}


@pytest.mark.parametrize(("values", "body"), BODIES.values(), ids=BODIES)
def test_bytes_between_pieces(values: int, body: str, tmp_path: pathlib.Path) -> None:
    """Texts of 100,000 tokens are 400 kB each; all of a map flow, and however rarely they are read, each flows once."""
    constraints = plan(tmp_path, SHARED.format(body=body))["constraints"]
    (used,) = (entry["used"] for entry in constraints if entry["what"] == "link here to there")
    assert used == pytest.approx(values * 400e3 / 1e9, rel=1e-9)  # in GB/s, at a request a second


EXAMPLES = ROOT / "examples" / "agents"
FLEET = (ROOT / "examples" / "fleets" / "dc.mlir").read_text()


@pytest.mark.parametrize(
    ("example", "label", "parts"),
    [
        ("rag_chat", "find", {"find.embed", "find.search"}),
        ("multimodal", "describe", {"describe.encode", "describe.prefill", "describe.decode"}),
    ],
)
@pytest.mark.parametrize("pool", ["fast", "cheap"])
def test_a_pool_holds_for_all_parts(
    example: str, label: str, parts: set[str], pool: str, tmp_path: pathlib.Path
) -> None:
    """A retrieval's embedder and an image's encoder are parts of what the user placed."""
    text = (EXAMPLES / f"{example}.mlir").read_text()
    assert text.count(f'label = "{label}"') == 1
    placed = text.replace(f'label = "{label}"', f'label = "{label}", place = #fleet.placement<@dc::@{pool}>')
    where = pools_of_tasks(plan(tmp_path, FLEET + placed, "--time-limit=2"))
    assert {task: where[task] for task in parts} == dict.fromkeys(parts, pool)


OUTSIDE = """agent.tool @web takes <350 ms>
agent.memory @notes reads <3 ms> writes <5 ms>
agent.index @hosted takes <40 ms> {vectors = 1000, dimension = 384, chunk_tokens = 100}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> !agent.text {
  %a = TASK : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}
fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @here of @h100 count 8 per_node 8
}
"""


@pytest.mark.parametrize(
    ("task", "runs", "name"),
    [
        ("agent.invoke @web(%q) produces <9 tokens> {SAID}", "tool 'web'", "web"),
        ('agent.compute "sort"(%q) takes <4 ms> produces <9 tokens> {SAID}', "function 'sort'", "sort"),
        ("agent.read @notes(%q) produces <9 tokens> {SAID}", "memory 'notes'", "notes.read"),
        ("agent.retrieve @hosted(%q) {top_k = 8 : i64, SAID}", "index 'hosted'", "hosted.search"),
    ],
)
@pytest.mark.parametrize("said", ["place = #fleet.placement<@dc::@here>", 'together = "us"'])
def test_what_runs_outside_is_not_placed(task: str, runs: str, name: str, said: str, tmp_path: pathlib.Path) -> None:
    """A pool for a task on no device is refused: it would be ignored."""
    done = run(tmp_path, OUTSIDE.replace("TASK", task.replace("SAID", said)))
    assert done.returncode == 1
    word = said.split()[0]
    assert (
        f"agent.mlir:5:8: task '{name}' has '{word}', but {runs} runs outside the fleet, for as long as is said of it; "
        f"leave out '{word}'" in done.stderr
    )


def test_apart_from_the_same_model(tmp_path: pathlib.Path) -> None:
    """Two answers of one model that are to be apart have replicas in two pools; a prefill may be with its decode."""
    text = """agent.model @l8 {shape = "llama-3.1-8b"}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<600 tokens>}) -> (!agent.text, !agent.text)
    attributes {sla = #agent.sla<p95_ms = 20000, tbt_ms = 50, requests_per_second = 5>} {
  %a = agent.llm @l8(%q) produces <100 tokens> {label = "one", apart = "x"} : (!agent.text) -> !agent.text
  %b = agent.llm @l8(%q) produces <100 tokens> {label = "two", apart = "x"} : (!agent.text) -> !agent.text
  agent.return %a, %b : !agent.text, !agent.text
}
"""
    # No link connects the pools, so a prefill is where its decode is.
    where = pools_of_tasks(plan(tmp_path, text + TWO_POOLS))
    assert where["one.prefill"] == where["one.decode"]
    assert where["two.prefill"] == where["two.decode"]
    assert {where["one.decode"], where["two.decode"]} == {"here", "there"}


def test_an_encoder_is_not_apart_from_its_model(tmp_path: pathlib.Path) -> None:
    """Both are of one task; another task is apart from both."""
    text = """agent.model @vit {parameters = 6.75e8, flops_per_unit = 6.9e6, tokens_per_unit = 1.0e-3}
agent.model @l8 {shape = "llama-3.1-8b", encoders = {image = @vit}}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<600 tokens>},
                 %p: !agent.image {agent.size = #agent.amount<1000000 pixels>}) -> (!agent.text, !agent.text)
    attributes {sla = #agent.sla<p95_ms = 20000, tbt_ms = 50, requests_per_second = 5>} {
  %a = agent.llm @l8(%q, %p) produces <100 tokens> {label = "one", apart = "x"}
      : (!agent.text, !agent.image) -> !agent.text
  %b = agent.llm @l8(%q) produces <100 tokens> {label = "two", apart = "x"} : (!agent.text) -> !agent.text
  agent.return %a, %b : !agent.text, !agent.text
}
"""
    where = pools_of_tasks(plan(tmp_path, text + TWO_POOLS))
    assert where["one.encode"] == where["one.prefill"] == where["one.decode"] != where["two.decode"]


@pytest.mark.parametrize("figure", ["parameters", "flops_per_unit", "flops_per_output", "kv_bytes_per_token"])
def test_a_shape_and_figures_beside_it(figure: str, tmp_path: pathlib.Path) -> None:
    """A language model's figures follow from its shape: other figures would be ignored."""
    done = run(tmp_path, chat(f", {figure} = 100000.0"))
    assert done.returncode == 1
    assert (
        f"task 'answer.prefill': model 'l8' has '{figure}' beside the shape llama-3.1-8b, from which that of a language "
        f"model follows; leave out '{figure}'" in done.stderr
    )


def edited(directory: pathlib.Path, agent: str, before: str, after: str) -> subprocess.CompletedProcess[str]:
    """Replace what a pattern matches in the prefill of the file with placements, and plan again."""
    plan(directory, agent)
    placed = (directory / "placed.mlir").read_text()
    assert plan(directory, placed)["status"]  # as it was written it plans
    lines = [re.sub(before, after, line) if "agent.prefill" in line else line for line in placed.splitlines()]
    assert lines != placed.splitlines(), placed
    return run(directory, "\n".join(lines))


def test_another_batch_of_a_prefill(tmp_path: pathlib.Path) -> None:
    """A missing batch is refused, not ignored; for a model that is placed as a whole the batch is the decode's."""
    done = edited(tmp_path, chat(), r"(batch = \d+, )?precision", "batch = 777, precision")
    assert done.returncode == 1
    assert "task 'answer.prefill' is placed on @p with" in done.stderr
    assert "batch 777" in done.stderr
    assert "which does not fit there or is not offered" in done.stderr
    place = 'place = #fleet.placement<@dc::@p, batch = 16, precision = "bf16">'
    pieces = plan(tmp_path, chat(task=f", {place}"))["pieces"]
    assert pieces["answer.decode"]["batch"] == 16


def test_other_replicas_of_an_aggregated_prefill(tmp_path: pathlib.Path) -> None:
    """The replicas of an aggregated prefill are those of its decode."""
    task = ', place = #fleet.placement<@dc::@p, replicas = 2, batch = 32, precision = "int8", aggregated = true>'
    done = edited(tmp_path, chat(task=task), "replicas = 2", "replicas = 3")
    assert done.returncode == 1
    assert (
        "task 'answer.prefill' is placed on @p, aggregated: its replicas are 3, those of 'answer.decode' are 2, and they "
        "are the same replicas; say the same number in both" in done.stderr
    )


def test_availability_that_leaves_no_device(tmp_path: pathlib.Path) -> None:
    """An availability that empties the pool is an error; beside pools that have devices it is a note."""
    half = chat().replace("count 16 per_node 8", "count 1 per_node 1 {availability = 0.99}")
    done = run(tmp_path, half)
    assert done.returncode == 1
    why = (
        "pool @p: 'availability' 0.990 of 'count' 1 is no whole device; leave 'availability' out, or count more devices"
    )
    assert f"fleet.system @dc has no device to plan with\n  {why}" in done.stderr
    both = half.replace("fleet.pool @p", "fleet.pool @q of @a count 16 per_node 8\n  fleet.pool @p")
    assert why in plan(tmp_path, both)["not_offered"]


def test_a_prompt_of_no_tokens(tmp_path: pathlib.Path) -> None:
    """A prompt without tokens is refused, as no language model reads it."""
    empty = chat().replace("600 tokens, p95 = 1800", "0 tokens")
    done = run(tmp_path, empty)
    assert done.returncode == 1
    assert "the prompt is empty: its inputs have 0 tokens, and there are no instruction_tokens" in done.stderr
    plan(tmp_path, empty.replace('label = "answer"', 'label = "answer", instruction_tokens = 50 : i64'))


MEMORY = """agent.memory @notes reads <100 ms> writes <300 ms> {concurrency = 1 : i64}
agent.graph @ask(%q: !agent.text {agent.size = #agent.amount<100 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 60000, requests_per_second = RATE>} {
  %a = agent.read @notes(%q) produces <9 tokens> : (!agent.text) -> !agent.text
  agent.write @notes(%a) : !agent.text
  %b = agent.read @notes(%a) produces <9 tokens> {apart = "x"} : (!agent.text) -> !agent.text
  agent.return %b : !agent.text
}
fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @here of @h100 count 8 per_node 8
}
"""


def test_one_bound_for_reads_and_writes(tmp_path: pathlib.Path) -> None:
    """A request takes two reads and a write, 500 ms; of these one memory does 2 a second."""
    (piece,) = plan(tmp_path, MEMORY.replace("RATE", "1"))["pieces"].values()
    assert piece["utilization"] == pytest.approx(0.5, rel=1e-6)
    assert run(tmp_path, MEMORY.replace("RATE", "1.9")).returncode == 0
    assert run(tmp_path, MEMORY.replace("RATE", "2.1")).returncode == 2


def test_writes_in_the_background_are_said_not_to_count(tmp_path: pathlib.Path) -> None:
    """Nothing waits for the last write, and none of its load is in the plan."""
    last = "  agent.write @notes(%b) : !agent.text\n  agent.return"
    planned = plan(tmp_path, MEMORY.replace("RATE", "1").replace("  agent.return", last))
    assert "memory 'notes': writes that nothing waits for are not counted in its 'concurrency'" in planned["unsure"]
