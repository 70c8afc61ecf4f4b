#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans the retrieval-augmented chat of examples/agents for two pools of this machine, compiles the plan, runs it, and
prints planned times beside measured ones: first token, next token, hand-over of the cache, and the embedder.

The machine is measured first (intarsia-plan --probe, about two minutes). The language model has random weights of a
published shape, the embedder is MiniLM; times do not depend on values of weights. Prompts are computed by one process,
continued by another. Each time is a median of rounds.

usage: carry_out.py [--shape=smollm2-135m] [--precision=int8] [--probe] [--work=build/bench/carry_out]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev"))
sys.path.insert(0, str(ROOT / "bench"))

# Weights that each token is multiplied with in MiniLM: 6 layers of 4 x 384 x 384 and 2 x 384 x 1536; 2 flops for each.
EMBEDDER_FLOPS = 2 * 6 * (4 * 384 * 384 + 2 * 384 * 1536)

AGENT = """
agent.model @minilm {{flops_per_unit = {flops:.1f}, parameters = 22700000.0, precisions = ["f32"]}}
agent.index @wikipedia {{chunk_tokens = 133, dimension = 384, embedder = @minilm, vectors = 1000000, visited = 0.002}}
agent.model @chatter {{context_tokens = 4096, precisions = ["{precision}"], shape = "{shape}"}}
agent.graph @chat(%question: !agent.text {{agent.size = #agent.amount<60 tokens, p95 = 180>}}) -> !agent.text
    attributes {{sla = #agent.sla<p95_ms = 600000, ttft_ms = 60000, tbt_ms = {tbt}, requests_per_second = {rate}>}} {{
  %find = agent.retrieve @wikipedia(%question) {{label = "find", top_k = 10}} : (!agent.text) -> !agent.text
  %answer = agent.llm @chatter(%find, %question) produces <tokens, p50 = 129, p95 = 450, max = 1024>
      {{instruction_tokens = 250, label = "answer", shared_instructions}} : (!agent.text, !agent.text) -> !agent.text
  agent.return %answer : !agent.text
}}
"""
FLEET = """
fleet.system @room {{
  fleet.device @here {{file = "here.yaml"}}
  fleet.pool @first of @here count 4 price #fleet.rental<dollars_per_hour = 0.1>
  fleet.pool @second of @here count 4 price #fleet.rental<dollars_per_hour = 0.1>
  fleet.link @first to @second {{gigabytes_per_second = {gbps}, microseconds = {us}}}
}}
"""


def run(*command: object, cwd: Path | None = None, capture: bool = False) -> str:
    """Runs a tool; its messages are shown."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, check=True, text=True, stdout=subprocess.PIPE)
    if not capture:
        print(done.stdout, end="")
    return done.stdout


def make_model(config: dict, folder: Path) -> None:
    """Writes a Llama of random weights in its torch_dtype, bfloat16 or float32, complete or not at all."""
    if folder.exists():
        return
    if config["model_type"] != "llama":
        raise SystemExit(f"error: {folder.name} is no Llama: this script writes weights of Llamas only")
    hidden, width = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim", hidden // config["num_attention_heads"])
    queries, keys = head * config["num_attention_heads"], head * config["num_key_value_heads"]
    tensors = {"model.embed_tokens.weight": (config["vocab_size"], hidden), "model.norm.weight": (hidden,)}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        for name, sizes in {
            "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,),
            "self_attn.q_proj": (queries, hidden),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, queries),
            "mlp.gate_proj": (width, hidden),
            "mlp.up_proj": (width, hidden),
            "mlp.down_proj": (hidden, width),
        }.items():
            tensors[f"model.layers.{layer}.{name}.weight"] = sizes
    header, offset = {}, 0
    is_float32 = config["torch_dtype"] == "float32"
    for name, sizes in tensors.items():
        end = offset + (4 if is_float32 else 2) * int(np.prod(sizes))
        header[name] = {"dtype": "F32" if is_float32 else "BF16", "shape": list(sizes), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    with (partial / "model.safetensors").open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for sizes in tensors.values():
            values = random.standard_normal(sizes, np.float32) * 0.02
            out.write((values if is_float32 else (values.view(np.uint32) >> 16).astype(np.uint16)).tobytes())
    (partial / "config.json").write_text(json.dumps(config))
    partial.rename(folder)


def hand_over_figures(device: Path) -> dict[str, float]:
    """Returns rate and latency of a hand-over between two processes, as the probe measured them."""
    found = re.search(r"hand_over: \{gbps: ([\d.e+-]+), us: ([\d.e+-]+)\}", device.read_text())
    if not found:
        raise SystemExit(f"error: {device} has no hand_over: measure again with --probe")
    return {"gbps": float(found[1]), "us": float(found[2])}


def pin(agents: str) -> str:
    """Puts the prompts of a decomposed agent onto one pool, their continuation onto the other."""
    placed = agents
    for task, pool in (("prefill", "first"), ("decode", "second"), ("embed", "first"), ("search", "first")):
        placed, count = re.subn(
            rf"(agent\.{task} [^\n]*?\{{)", rf"\1place = #fleet.placement<@room::@{pool}>, ", placed, count=1
        )
        if not count:
            raise SystemExit(f"error: the decomposed agent has no agent.{task}:\n{agents}")
    return placed


def main() -> None:
    """Runs all steps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--shape", default="smollm2-135m", help="a Llama of catalogue/models (default: %(default)s)")
    parser.add_argument("--precision", default="int8", help="f32, bf16, int8 or int4 (default: %(default)s)")
    parser.add_argument("--tbt-ms", type=float, default=60.0, help="bound of the next token (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=0.05, help="requests a second (default: %(default)s)")
    parser.add_argument("--probe", action="store_true", help="measure the machine again")
    parser.add_argument("--minilm", type=Path, help="directory of MiniLM (default: of the Python package)")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench" / "carry_out")
    options = parser.parse_args()
    from make_models import find_minilm

    work = options.work
    work.mkdir(parents=True, exist_ok=True)
    device, plan, profile = work / "here.yaml", work / "plan.json", work / "profile.json"
    if options.probe or not device.exists():
        run(BUILD / "bin" / "intarsia-plan", f"--probe={device}")
    model = work / options.shape
    make_model(json.loads((ROOT / "catalogue" / "models" / f"{options.shape}.json").read_text()), model)
    (work / "chat.mlir").write_text(
        AGENT.format(
            flops=EMBEDDER_FLOPS,
            precision=options.precision,
            shape=options.shape,
            tbt=options.tbt_ms,
            rate=options.rate,
        ).lstrip()
    )
    (work / "fleet.mlir").write_text(FLEET.format(**hand_over_figures(device)).lstrip())
    pieces = run(BUILD / "bin" / "intarsia-opt", work / "chat.mlir", "--plan-decompose", capture=True)
    (work / "pieces.mlir").write_text(pin(pieces))
    tool = BUILD / "bin" / "intarsia-plan"
    run(tool, "pieces.mlir", "--fleet=fleet.mlir", "--json=plan.json", "--why=false", cwd=work)
    run(
        BUILD / "bin" / "intarsia-compile",
        f"--plan={plan}",
        f"--model=chatter={model}",
        f"--model=minilm={options.minilm or find_minilm()}",
        "-o",
        work / "deploy",
    )
    run(sys.executable, "-m", "intarsia", "bench", "deployment", work / "deploy", "-o", profile)
    run(tool, plan, f"--compare={profile}")


if __name__ == "__main__":
    main()
