# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What --partition=auto reckons for several sequences and prompts: --rank-load.

The times of stages are those that the compiler prints for a pipeline. What prompts and tokens take in it follows from them
by the formulas of flow shops, computed here, where messages take next to no time.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from pathlib import Path

import pytest
from test_split_models import HERE, check

GLOSSARY = HERE.parents[1] / "examples" / "glossary"
LLAMA = HERE / "decoders" / "llama"
PAGE, WIDTH, POSITIONS = 32, 64, 4096


def chain(widths: list[int], sizes: dict[str, int] | None = None) -> str:
    """Return a forward step of layers that multiply by two matrices each, with so many features between them."""
    expected = ", ".join(f"{name} = {value} : i64" for name, value in (sizes or {}).items())
    attributes = f"attributes {{nn.expected_sizes = {{{expected}}}}}" if sizes else ""
    row = f"tensor<?x{WIDTH}xf32>"
    cache = f"tensor<?x1x{PAGE}x{WIDTH}xf32>"
    lines, value = [], "%x"
    for number, width in enumerate(widths):
        for name, into, of in (("up", width, WIDTH), ("down", WIDTH, width)):
            matrix, result = f"tensor<{into}x{of}xf32>", f"tensor<?x{into}xf32>"
            place = f'loc("layers.{number}.{name}")'
            lines.append(f'%w_{name}{number} = nn.weight @weights["{name}{number}"] : {matrix}')
            given = f"(tensor<?x{of}xf32>, {matrix}) -> {result}"
            lines.append(f"%{name}{number} = nn.linear {value}, %w_{name}{number} : {given} {place}")
            value = f"%{name}{number}"
    types = f"({cache}, tensor<?x1x{WIDTH}xf32>, tensor<?xi64>, tensor<?xi64>, tensor<?x?xi64>) -> {cache}"
    body = "\n  ".join(lines)
    return f"""
rt.device @cpu {{target = #rt.target<"cpu", ["x86-64-v3"]>}}
nn.archive @weights {{file = "model.safetensors"}}
func.func @step(%x: {row} {{nn.name = "x", nn.sizes = ["tokens", ""]}},
    %positions: tensor<?xi64> {{nn.name = "positions", nn.range = array<i64: 0, {POSITIONS}>, nn.sizes = ["tokens"]}},
    %sequences: tensor<?xi64> {{nn.name = "sequences", nn.sizes = ["tokens"]}},
    %pages: tensor<?x?xi64> {{nn.name = "page_table", nn.sizes = ["sequences", "pages_of_a_sequence"]}},
    %keys: {cache} {{nn.name = "keys", nn.state, nn.sizes = ["pages", "", "", ""]}})
    -> ({row} {{nn.name = "logits"}}, {cache} {{nn.name = "keys", nn.state = 4 : i64}}) {attributes} {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : {row}
  {body}
  %h = tensor.expand_shape {value} [[0], [1, 2]] output_shape [%n, 1, {WIDTH}] : {row} into tensor<?x1x{WIDTH}xf32>
  %k = nn.cache_append(%keys) <keys, f32, page = {PAGE}>, %h, %positions, %sequences, %pages : {types}
      loc("layers.{len(widths) - 1}.append")
  return {value}, %k : {row}, {cache}
}}
"""


def stage_times(tools, path: Path, widths: list[int], stages: int, sizes: dict[str, int]) -> list[float]:
    """Return the microseconds of each stage of a pipeline at some sizes."""
    path.write_text(chain(widths, sizes))
    printed = tools.run("intarsia-opt", path, f"--partition-pipeline=world={stages}").stderr
    times = [float(time) for time in re.findall(r"rank \d+: .*?, ([0-9.]+) us for each kernel alone", printed)]
    assert len(times) == stages
    return times


def alternatives(tools, path: Path, world: int, load: str) -> dict[str, dict[str, float]]:
    """Return the times that the search has for each partition, with hosts between which messages take next to no time.

    Ranks on one host would wait for each other in a broadcast.
    """
    hosts = ",".join(["1"] * world)
    search = f"--partition-search=world={world} hosts={hosts} network=100000GB/s,0.0001us load={load}"
    printed = tools.run("intarsia-opt", path, search).stderr
    rows = re.findall(r"^  (\S+) +([0-9.]+) us \(([0-9.]+) us for prompts, ([0-9.]+) us for tokens\)", printed, re.M)
    return {name: {"all": float(a), "prompts": float(p), "tokens": float(t)} for name, a, p, t in rows}


def prompt_part(tokens: int, stages: int) -> int:
    """Return the tokens of a call: docs/decisions/0072-prompts-go-through-pipelines-in-parts.md."""
    return min(max(int(math.sqrt(tokens * 8 / (stages - 1))) // 16 * 16, 16), 512)


@pytest.mark.parametrize("seed", range(8))
def test_times_of_pipelines(tools, seed: int, tmp_path: Path) -> None:
    """Stages that are equal and unequal, with fewer sequences than stages, as many, and more."""
    numbers = random.Random(seed)
    stages = numbers.randint(2, 4)
    widths = [numbers.choice([2048, 8192, 16384]) for _ in range(numbers.randint(stages, stages + 3))]
    sequences, prompt, tokens = numbers.choice([1, 2, 3, 4, 9]), numbers.choice([48, 512, 1500]), numbers.randint(1, 40)
    path = tmp_path / "chain.mlir"
    path.write_text(chain(widths))
    load = f"sequences:{sequences},prompt:{prompt},tokens:{tokens}"
    found = alternatives(tools, path, stages, load)["pipeline"]

    parts = min(stages, sequences)
    each = math.ceil(sequences / parts)
    length = prompt + math.ceil(tokens / 2)
    pages = {"pages_of_a_sequence": math.ceil(length / PAGE), "pages": math.ceil(length / PAGE) * each}
    # Stages are cut by what a step of all sequences takes: the cut is that of the search if weights take most.
    times = stage_times(tools, path, widths, stages, {"tokens": each, "sequences": each, **pages})
    # A stage has every part once before the first of them comes again, and that is not before it is through.
    token = max(parts * max(times), sum(times))
    assert found["tokens"] == pytest.approx(tokens * token, rel=0.02)

    part = min(prompt_part(sequences * prompt, stages), sequences * prompt)
    times = stage_times(tools, path, widths, stages, {"tokens": part})
    calls = math.ceil(sequences * prompt / part)
    assert found["prompts"] == pytest.approx(sum(times) + (calls - 1) * max(times), rel=0.02)
    assert found["all"] == pytest.approx(found["prompts"] + found["tokens"], abs=0.2)


def part_in_turns(tokens: int, sequences: int, ranks: int, turns: int) -> int:
    """Return the tokens of a part: docs/decisions/0089-ranks-may-have-several-stages.md."""
    best = min(max(int(math.sqrt(tokens * 8 * turns / (ranks - 1))) // 16 * 16, 16), 512)
    parts = math.ceil(tokens / best)
    if parts < min(ranks, sequences):
        return math.ceil(tokens / min(ranks, sequences))
    return min(math.ceil(math.ceil(tokens / parts) / 16) * 16, tokens)


def time_in_turns(times: list[float], ranks: int, parts: int, calls: int) -> float:
    """Return the time of calls behind each other, whose parts go through all ranks several times: stage by stage."""
    free = [0.0] * ranks
    for _ in range(calls):
        ready = [0.0] * parts
        for stage_of_first in range(0, len(times), ranks):
            for part in range(parts):
                for rank in range(ranks):
                    free[rank] = ready[part] = max(free[rank], ready[part]) + times[stage_of_first + rank]
    return max(free)


@pytest.mark.parametrize("seed", range(6))
def test_times_of_ranks_with_several_stages(tools, seed: int, tmp_path: Path) -> None:
    """Stages of one layer each, so that they can be cut in one way only."""
    numbers = random.Random(seed)
    ranks, turns = numbers.randint(2, 4), numbers.choice([2, 4])
    widths = [numbers.choice([2048, 8192, 16384]) for _ in range(ranks * turns)]
    sequences, prompt, tokens = numbers.choice([1, 2, 5, 9]), numbers.choice([48, 512, 1500]), numbers.randint(1, 40)
    path = tmp_path / "chain.mlir"
    path.write_text(chain(widths))
    load = f"sequences:{sequences},prompt:{prompt},tokens:{tokens}"
    found = alternatives(tools, path, ranks, load)[f"pipeline,breadth-first:{turns}"]

    part = part_in_turns(sequences, sequences, ranks, turns)
    length = math.ceil((prompt + math.ceil(tokens / 2)) / PAGE)
    sizes = {"tokens": part, "sequences": part, "pages_of_a_sequence": length, "pages": length * part}
    times = stage_times(tools, path, widths, ranks * turns, sizes)
    token = time_in_turns(times, ranks, math.ceil(sequences / part), 1)
    assert found["tokens"] == pytest.approx(tokens * token, rel=0.02)

    tokens_of_call = min(sequences * prompt, 2048)
    part = part_in_turns(tokens_of_call, math.ceil(tokens_of_call / prompt), ranks, turns)
    times = stage_times(tools, path, widths, ranks * turns, {"tokens": part})
    calls = math.ceil(sequences * prompt / tokens_of_call)
    expected = time_in_turns(times, ranks, math.ceil(tokens_of_call / part), calls)
    assert found["prompts"] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("hosts", "messages"), [("3,1", 4), ("1,3", 4), ("2,2", 4), ("1,1,1,1", 6)])
def test_each_rank_has_its_own_way_to_others(tools, hosts: str, messages: int, tmp_path: Path) -> None:
    """Ranks that do the same work may be on other hosts than each other.

    Two stages of two layers, each shared by two ranks: over the network go the sums of both layers where the ranks of a
    stage are on two hosts, what a stage gives to the next one, and the result, once for each rank whose adapter they share.
    """
    path = tmp_path / "chain.mlir"
    path.write_text(chain([64] * 4))
    search = "--partition-search=world=4 partition=pipeline:2,tensor:2 load=prompt:16,tokens:0"
    printed = tools.run("intarsia-opt", path, f"{search} hosts={hosts} network=10Mbit/s,0.001us").stderr
    (found,) = re.findall(r"^  pipeline:2,tensor:2 [0-9.]+ us .*, ([0-9.]+) us of them in exchanges", printed, re.M)
    assert float(found) == pytest.approx(messages * 16 * WIDTH * 4 / 1.25, rel=0.01)


def test_several_stages_gain_for_single_prompts(tools, tmp_path: Path) -> None:
    path = tmp_path / "chain.mlir"
    path.write_text(chain([8192] * 8))
    one = alternatives(tools, path, 4, "prompt:128,tokens:0")
    assert one["pipeline,breadth-first:2"]["all"] < 0.95 * one["pipeline"]["all"]
    many = alternatives(tools, path, 4, "sequences:32,prompt:16,tokens:400")
    assert many["pipeline"]["all"] < many["pipeline,breadth-first:2"]["all"]


@pytest.mark.parametrize(
    ("load", "partition"),
    [
        ("sequences:1,tokens:64", "tensor"),
        ("sequences:8,tokens:64", "pipeline"),
        ("prompt:256,tokens:0", "pipeline,breadth-first:4"),
    ],
)
def test_the_load_changes_the_choice(tools, load: str, partition: str, tmp_path: Path) -> None:
    """Stages have a sequence one after another, and several at the same time; parts of a prompt go through several."""
    network = ["--target=cpu:x86-64-v3", "--rank-hosts=1,1", "--rank-network=40Gbit/s,4us"]
    command = ["intarsia-compile", GLOSSARY, "-o", tmp_path / "m.itx", "--world=2", "--partition=auto", *network]
    printed = tools.run(*command, f"--rank-load={load}").stderr
    assert f"--partition=auto over 2 ranks of 2 hosts for {load}: {partition}\n" in printed


@pytest.mark.parametrize("quantize", ["none", "int8", "int4"])
def test_parts_of_weights_have_the_bytes_of_their_format(tools, quantize: str, tmp_path: Path) -> None:
    command = ["intarsia-compile", GLOSSARY, "-o", tmp_path / "m.itx", "--world=2", f"--quantize={quantize}"]
    explained = tmp_path / "why.json"
    tools.run(*command, "--partition=auto", "--rank-load=prompt:32,tokens:0", f"--explain={explained}")
    rows = {row["partition"]: row["rank_bytes"] for row in json.loads(explained.read_text())["partition"]}
    tools.run(*command, "--partition=context")
    whole = (tmp_path / "m.safetensors").stat().st_size
    # The file has the embedding in another order than the head, unless both are stored in the same blocks.
    assert rows["context"] == pytest.approx(whole, rel=0.2)
    assert rows["context"] / 2 < rows["tensor"] < 0.85 * rows["context"]


# Degrees of each kind; those of a product are all divisors of the world.
def all_partitions(world: int, has_experts: bool) -> set[str]:
    names = set()
    numbers = range(1, world + 1)
    for stages, context, experts, tensor in itertools.product(numbers, repeat=4):
        if stages * context * experts * tensor != world or (stages > 1 and context > 1):
            continue
        if experts > 1 and not has_experts:
            continue
        degrees = {"pipeline": stages, "context": context, "expert": experts, "tensor": tensor}
        alone = [name for name, ranks in degrees.items() if ranks == world]
        name = alone[0] if alone else ",".join(f"{n}:{ranks}" for n, ranks in degrees.items() if ranks > 1)
        turns = [f",breadth-first:{number}" for number in (2, 4)] if stages > 1 else []
        names |= {name + order for order in ["", *turns]}
        if experts * tensor > 1:
            names |= {f"{name}{order},sequence" for order in ["", *turns]}
    return names | {"context,heads"}


@pytest.mark.parametrize(("name", "world"), [("llama", 2), ("mixtral", 4), ("gpt-oss", 4)])
def test_every_partition_is_considered(tools, name: str, world: int, tmp_path: Path) -> None:
    """The search lists what the compiler carries out for a name that is given, and takes the fastest that fits."""
    command = ["intarsia-compile", HERE / "decoders" / name, "--stop-after=partition", "-o", tmp_path / "m.mlir"]
    command.append(f"--world={world}")
    explained = tmp_path / "why.json"
    auto = ["intarsia-compile", HERE / "decoders" / name, "-o", tmp_path / "m.itx", f"--world={world}"]
    load = "--rank-load=sequences:4,prompt:24,tokens:8"
    tools.run(*auto, "--partition=auto", load, f"--explain={explained}")
    rows = {row["partition"]: row for row in json.loads(explained.read_text())["partition"]}
    assert set(rows) == all_partitions(world, has_experts=name != "llama")
    for partition, row in rows.items():
        alone = tools.run(*command, f"--partition={partition}", check=False)
        assert ("expected_us" in row) == (alone.returncode == 0), partition
    possible = {partition: row for partition, row in rows.items() if "expected_us" in row}
    fastest = min(possible, key=lambda partition: possible[partition]["expected_us"])
    assert [partition for partition, row in rows.items() if row["chosen"] == "yes"] == [fastest]
    # With less memory than the fastest needs, another one; the fastest of those that fit.
    limit = possible[fastest]["rank_bytes"] - 1
    fitting = [partition for partition, row in possible.items() if row["rank_bytes"] <= limit]
    if fitting:
        tools.run(*auto, "--partition=auto", load, f"--explain={explained}", f"--rank-memory={limit}B")
        rows = json.loads(explained.read_text())["partition"]
        fastest = min(fitting, key=lambda partition: possible[partition]["expected_us"])
        assert [row["partition"] for row in rows if row["chosen"] == "yes"] == [fastest]


def test_caches_of_all_sequences_count(tools, tmp_path: Path) -> None:
    def bytes_of(*load: str) -> dict[str, float]:
        command = ["intarsia-compile", LLAMA, "-o", tmp_path / "m.itx", "--world=2", "--partition=auto", "--kv=f32"]
        tools.run(*command, *load, f"--explain={tmp_path / 'why.json'}")
        rows = json.loads((tmp_path / "why.json").read_text())["partition"]
        return {row["partition"]: row["rank_bytes"] for row in rows if "rank_bytes" in row}

    config = json.loads((LLAMA / "config.json").read_text())
    # Keys and values of a page in f32, of all layers.
    page = 2 * 4 * PAGE * config["head_dim"] * config["num_key_value_heads"] * config["num_hidden_layers"]
    few, many = bytes_of("--rank-load=sequences:1,prompt:32,tokens:0"), bytes_of("--rank-load=sequences:5,prompt:33")
    assert many["context"] - few["context"] == (5 * 2 - 1) * page
    # Each has one of two heads of keys, or a layer of two.
    for name in ("context,heads", "tensor", "pipeline"):
        assert many[name] - few[name] == (5 * 2 - 1) * page / 2, name
    # Without a length they are as long as the model allows.
    more = bytes_of("--rank-load=sequences:3")["tensor"] - bytes_of()["tensor"]
    assert more == (3 - 1) * page / 2 * config["max_position_embeddings"] / PAGE


def test_batches_of_encoders(tools, tmp_path: Path) -> None:
    """Examples are shared by ranks if there are enough of them."""
    command = ["intarsia-compile", HERE / "models" / "bert", "-o", tmp_path / "m.itx", "--world=2", "--partition=auto"]
    one = tools.run(*command).stderr
    assert re.search(r"^  data +calls of one row at the expected sizes are not enough for 2 ranks", one, re.M)
    many = tools.run(*command, "--rank-load=sequences:64,prompt:24").stderr
    assert "--partition=auto over 2 ranks for sequences:64,prompt:24: data\n" in many


# A chosen partition computes what one process does, with what fusing decides for its sizes.
@pytest.mark.parametrize("load", ["sequences:6,prompt:40,tokens:10", "prompt:60,tokens:0"])
def test_chosen_partitions_compute_the_model(tools, load: str, tmp_path: Path) -> None:
    check(tools, LLAMA, tmp_path, 2, "--partition=auto", f"--rank-load={load}", "--kv=f32")


@pytest.mark.parametrize(
    ("load", "message"),
    [
        ("8", "'8' is not known; it is how many sequences there are at once"),
        ("sequences:0", "'0' is no number of sequences"),
        ("sequences:-1", "'-1' is no number of sequences"),
        ("prompt:x", "'x' is no number of tokens of a prompt"),
        ("tokens:99999999999", "'99999999999' is no number of tokens"),
        ("prompt:4,prompt:5", "prompt is given twice"),
        ("tokens:0", "tokens:0 leaves nothing to do without a prompt"),
        ("sequences:2,prompt:5000", "sequences of 5001 tokens are longer than the"),
    ],
)
def test_refused_loads(tools, load: str, message: str, tmp_path: Path) -> None:
    flags = ["-o", tmp_path / "m.itx", "--world=2", "--partition=auto", f"--rank-load={load}"]
    failed = tools.run("intarsia-compile", LLAMA, *flags, check=False)
    assert failed.returncode == 1
    assert f"--rank-load={load}: " in failed.stderr
    assert message in failed.stderr


def test_refused_batches(tools, tmp_path: Path) -> None:
    flags = ["-o", tmp_path / "m.itx", "--world=2", "--partition=auto", "--rank-load=sequences:2,prompt:100000"]
    failed = tools.run("intarsia-compile", HERE / "models" / "bert", *flags, check=False)
    assert failed.returncode == 1
    assert "sequences of 100000 tokens are longer than the " in failed.stderr


@pytest.mark.parametrize("partition", ["tensor", "pipeline", "context", "pipeline,breadth-first:2", "tensor,sequence"])
def test_a_given_partition_takes_what_the_search_says(tools, partition: str, tmp_path: Path) -> None:
    command = ["intarsia-compile", GLOSSARY, "-o", tmp_path / "m.itx", "--world=2", "--target=cpu:x86-64-v3"]
    command += ["--rank-load=sequences:4,prompt:24,tokens:8", f"--explain={tmp_path / 'why.json'}"]
    tools.run(*command, "--partition=auto")
    searched = {row["partition"]: row for row in json.loads((tmp_path / "why.json").read_text())["partition"]}
    printed = tools.run(*command, f"--partition={partition}").stderr
    assert "--rank-load=sequences:4,prompt:24,tokens:8: predicted times\n" in printed
    (given,) = json.loads((tmp_path / "why.json").read_text())["partition"]
    for figure in ("expected_us", "prompts_us", "tokens_us", "exchanges_us", "rank_bytes"):
        assert given[figure] == searched[partition][figure], figure


def test_a_load_of_a_partition_that_is_refused(tools, tmp_path: Path) -> None:
    """The reason is that of the partition without a load."""
    command = ["intarsia-compile", LLAMA, "-o", tmp_path / "m.itx", "--world=8", "--partition=pipeline"]
    without = tools.run(*command, check=False)
    failed = tools.run(*command, "--rank-load=tokens:4", check=False)
    assert failed.returncode == without.returncode == 1
    assert failed.stderr == without.stderr
