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


# Qwen3 8B, which the catalogue does not have: 36 layers, 8 heads of keys of 128.
QWEN = """{"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
  "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936}"""
ASK = """agent.model @m {{{model}}}
agent.graph @ask(%q: !agent.text {{agent.size = #agent.amount<2000 tokens>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = 60000, ttft_ms = 2000, tbt_ms = 40, requests_per_second = 20>}} {{
  %a = agent.llm @m(%q) produces <200 tokens> {{label = "ask"{placed}}} : (!agent.text) -> !agent.text
  agent.return %a : !agent.text
}}
fleet.system @dc {{
  fleet.device @h100 {{catalogue = "nvidia/h100-sxm"}}
  fleet.pool @here of @h100 count 64 per_node 8
}}
"""
ONE = ', place = #fleet.placement<@dc::@here, batch = 32, precision = "bf16", aggregated = true>'


def asked(
    directory: pathlib.Path, model: str, placed: str = ONE
) -> tuple[dict[str, typing.Any], dict[str, typing.Any]]:
    """Plan an answer of a model; return the plan and its decode."""
    result = plan(directory, ASK.format(model=model, placed=placed), "--headroom=0")
    (decode,) = (piece for piece in result["pieces"].values() if piece["kind"] == "decode")
    return result, decode


def test_shapes_of_directories(tmp_path: pathlib.Path) -> None:
    """A directory and its config.json are taken, relative to the file with the agents, and also from what -o wrote."""
    (tmp_path / "qwen").mkdir()
    (tmp_path / "qwen" / "config.json").write_text(QWEN)
    _, by_directory = asked(tmp_path, 'shape = "qwen"')
    _, by_file = asked(tmp_path, 'shape = "qwen/config.json"')
    assert by_directory["full_ms"] == by_file["full_ms"]
    # 8.19e9 parameters, as published.
    assert by_directory["shape"]["parameters"] == pytest.approx(8.19e9, rel=0.005)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    placed = elsewhere / "placed.mlir"
    agent = tmp_path / "agent.mlir"
    agent.write_text(ASK.format(model='shape = "qwen"', placed=ONE))
    done = subprocess.run([TOOL, agent, "--why=false", f"-o={placed}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([TOOL, placed, "--why=false"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    done = run(tmp_path, ASK.format(model='shape = "none/such"', placed=ONE))
    assert done.returncode == 1
    assert "none/such/config.json' cannot be read" in done.stderr


@pytest.mark.parametrize("shape", ["llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "tinyllama-1.1b"])
def test_a_model_of_its_parameters_and_cache(shape: str, tmp_path: pathlib.Path) -> None:
    """Of a published dense model the parameters and the cache alone give nearly the times of its whole shape."""
    _, decode = asked(tmp_path, f'shape = "{shape}"', "")
    (parameters, cached) = (decode["shape"][key] for key in ("parameters", "cached_elements_per_token"))
    placed = ONE.replace("batch", f"tensor = {decode['tensor']}, batch").replace("32", "16")
    _, whole = asked(tmp_path, f'shape = "{shape}"', placed)
    model = f"parameters = {parameters:.6e}, kv_bytes_per_token = {2 * cached:.6e}"
    derived, alone = asked(tmp_path, model, placed)
    assert alone["shape"]["cached_elements_per_token"] == cached
    assert alone["shape"]["parameters"] == pytest.approx(parameters, rel=0.02)
    assert alone["full_ms"] == pytest.approx(whole["full_ms"], rel=0.15)
    assert any("model 'm': taken for a dense decoder of" in line for line in derived["unsure"])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("parameters = 8.2e9", "has no shape, which the time of its layers and caches follows from"),
        (
            'module = "m.itx"',
            "'m.itx' does not say the sizes of its layers; name the directory that it was compiled from",
        ),
        (
            "parameters = 8.2e9, kv_bytes_per_token = 1001.0",
            "no decoder of 8.20e+09 parameters has a cache of 1001 bytes",
        ),
        ('shape = "llama-3.1-8b", cache = "f32"', "cache is 'f32', must be"),
        ('shape = "llama-3.1-8b", cache = "fp7"', "precision 'fp7' is unknown"),
    ],
)
def test_models_that_say_too_little(model: str, message: str, tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, ASK.format(model=model, placed=""))
    assert done.returncode == 1
    assert message in done.stderr


def test_caches_of_fewer_bits(tmp_path: pathlib.Path) -> None:
    """A cache in FP8 takes half of the bytes over a link, one in 4 bits with scales 0.28, and steps are shorter."""
    fleet = """fleet.pool @far of @h100 count 64 per_node 8
  fleet.network {{gigabytes_per_second = 400.0, microseconds = 5.0}}
}}
"""
    text = ASK[: ASK.rindex("}}")] + fleet
    sent, steps = {}, {}
    for cache in ("bf16", "fp8", "int4"):
        one = text.format(model=f'shape = "llama-3.1-70b", precisions = ["fp8"], cache = "{cache}"', placed="")
        one = one.replace("agent.llm", "AGENT")
        body = """%kv, %first = agent.prefill @m(%q) {label = "p", place = #fleet.placement<@dc::@far>}
      : (!agent.text) -> (!agent.kv, !agent.text)
  %a = agent.decode @m(%kv, %first) produces <200 tokens> {label = "d",
      place = #fleet.placement<@dc::@here, tensor = 4, batch = 16, precision = "fp8">}
      : (!agent.kv, !agent.text) -> !agent.text"""
        line = next(line for line in one.splitlines() if "AGENT" in line)
        result = plan(tmp_path, one.replace(line, "  " + body), "--headroom=0")
        (cache_sent,) = (of for of in result["transfers"] if of["name"].startswith("kv "))
        sent[cache] = cache_sent["bytes"]
        steps[cache] = next(piece for piece in result["pieces"].values() if piece["kind"] == "decode")["full_ms"]
    # Llama 3.1 70B: 80 layers, 8 heads of keys and values of 128, 2000 tokens.
    assert sent["bf16"] == pytest.approx(2000 * 80 * 2 * 8 * 128 * 2)
    assert sent["fp8"] == pytest.approx(sent["bf16"] / 2)
    assert sent["int4"] == pytest.approx(sent["bf16"] * (0.5 + 1 / 16) / 2)
    assert steps["bf16"] > steps["fp8"] > steps["int4"]


def test_a_network_links_all_pools(tmp_path: pathlib.Path) -> None:
    """What a network says is what links between all pairs say, and a link of two pools stands before it."""
    pools = """fleet.system @dc {
  fleet.device @h100 {catalogue = "nvidia/h100-sxm"}
  fleet.pool @here of @h100 count 8 per_node 8
  fleet.pool @there of @h100 count 8 per_node 8
  fleet.pool @yonder of @h100 count 8 per_node 8
  LINKS
}
"""
    link = "fleet.link @{} to @{} {{gigabytes_per_second = {}, microseconds = 20.0}}"
    network = "fleet.network {gigabytes_per_second = 12.5, microseconds = 20.0}"
    pairs = [("here", "there"), ("here", "yonder"), ("there", "yonder")]
    body = SHARED[: SHARED.index("fleet.system")].format(body=BODIES["one after the other"][1])
    found = {}
    for name, links in {
        "pairs": [link.format(*pair, 12.5) for pair in pairs],
        "network": [network],
        "both": [link.format("here", "there", 5.0), network],
    }.items():
        result = plan(tmp_path, body + pools.replace("LINKS", "\n  ".join(links)))
        found[name] = {of["what"]: (of["used"], of["bound"]) for of in result["constraints"] if "link" in of["what"]}
    assert found["network"] == found["pairs"]
    assert len(found["pairs"]) == 6
    assert found["both"]["link here to there"][1] == 5
    done = run(tmp_path, body + pools.replace("LINKS", f"{network}\n  {network}"))
    assert done.returncode == 1
    assert "is a second network, must be the only one" in done.stderr


PROCESSORS = """agent.model @minilm {{parameters = 2.27e7}}
agent.model @llama {{shape = "llama-3.1-8b"}}
agent.index @kb {{vectors = 400000, dimension = 384, chunk_tokens = 100, embedder = @minilm}}
agent.graph @find(%q: !agent.text {{agent.size = #agent.amount<100 tokens>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = 5000, requests_per_second = 2>}} {{
  %f = agent.retrieve @kb(%q) {{top_k = 4 : i64, label = "find"}} : (!agent.text) -> !agent.text
  {answer}
  agent.return %f : !agent.text
}}
fleet.system @hall {{
  fleet.device @cpu {{catalogue = "{device}"}}
  fleet.pool @hosts of @cpu count 8
}}
"""


@pytest.mark.parametrize("device", ["amd/epyc-9654", "amd/epyc-9755", "intel/xeon-6980p", "intel/xeon-8480"])
def test_a_fleet_of_processors(device: str, tmp_path: pathlib.Path) -> None:
    """Each processor of the catalogue has the figures of encoders and searches; language models want a probe."""
    result = plan(tmp_path, PROCESSORS.format(answer="", device=device))
    assert {piece["pool"] for piece in result["pieces"].values()} == {"hosts"}
    assert result["totals"]["dollars_per_hour"] > 0
    answer = """%a = agent.llm @llama(%q) produces <100 tokens> : (!agent.text) -> !agent.text"""
    done = run(tmp_path, PROCESSORS.format(answer=answer, device=device))
    assert done.returncode == 1
    assert "intarsia-plan --probe=cpu.yaml, run there, measures what a plan needs" in done.stderr
