# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models whose partition is chosen by cost give what they give in one piece, and say what was chosen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ranks import results_of, run_world
from test_split_models import HERE, TOLERANCE, difference, inputs_of

GLOSSARY = HERE.parents[1] / "examples" / "glossary"
LLAMA = HERE / "decoders" / "llama"


@pytest.mark.parametrize(("limit", "chosen"), [("1GB", "tensor"), ("125kB", "pipeline")])
def test_chosen_partitions_compute_the_model(tools, limit: str, chosen: str, tmp_path: Path) -> None:
    inputs = inputs_of(LLAMA)
    np.savez(tmp_path / "inputs.npz", **inputs)
    whole, split, explained = tmp_path / "whole.itx", tmp_path / "split.itx", tmp_path / "explained.json"
    tools.run("intarsia-compile", LLAMA, "-o", whole, "--kv=f32")
    auto = ["--world=2", "--partition=auto", f"--rank-memory={limit}", f"--explain={explained}"]
    tools.run("intarsia-compile", LLAMA, "-o", split, "--kv=f32", *auto)
    expected = results_of(whole, inputs)
    for results in run_world(split, tmp_path / "inputs.npz", tmp_path / "results", 2):
        assert difference(results, expected) <= TOLERANCE
    alternatives = {row["partition"]: row for row in json.loads(explained.read_text())["partition"]}
    # A call of one token, which is expected, is nothing that ranks can share by its rows.
    assert alternatives.pop("context")["why"] == "calls of one row at the expected sizes are not enough for 2 ranks"
    assert set(alternatives) == {"tensor", "pipeline", "context,heads"}
    assert [name for name, row in alternatives.items() if row["chosen"] == "yes"] == [chosen]
    assert all(row["expected_us"] > row["exchanges_us"] > 0 and row["rank_bytes"] > 0 for row in alternatives.values())


def test_rows_around_norms_are_considered(tools, tmp_path: Path) -> None:
    model = HERE / "models" / "bert"
    inputs = inputs_of(model)
    np.savez(tmp_path / "inputs.npz", **inputs)
    whole, split, explained = tmp_path / "whole.itx", tmp_path / "split.itx", tmp_path / "explained.json"
    tools.run("intarsia-compile", model, "-o", whole)
    done = tools.run("intarsia-compile", model, "-o", split, "--world=2", "--partition=auto", f"--explain={explained}")
    alternatives = {row["partition"]: row for row in json.loads(explained.read_text())["partition"]}
    # Pipelines and parts of a batch have no layers that ranks share.
    assert {name for name in alternatives if "sequence" in name} == {"tensor,sequence"}
    chosen = [name for name, row in alternatives.items() if row["chosen"] == "yes"]
    assert f"--partition=auto over 2 ranks: {chosen[0]}\n" in done.stderr
    plain, rows = alternatives["tensor"], alternatives["tensor,sequence"]
    # Two exchanges of the same length as one, and half of the norms.
    assert rows["exchanges_us"] > plain["exchanges_us"]
    assert rows["expected_us"] - rows["exchanges_us"] < plain["expected_us"] - plain["exchanges_us"]
    expected = results_of(whole, inputs)
    for results in run_world(split, tmp_path / "inputs.npz", tmp_path / "results", 2):
        assert difference(results, expected) <= TOLERANCE


@pytest.mark.parametrize(
    ("world", "flags", "chosen"),
    [
        (2, (), "tensor"),
        (2, ("--rank-hosts=2",), "tensor"),
        (2, ("--rank-hosts=1,1", "--rank-network=100Gbit/s,2us"), "tensor"),
        (2, ("--rank-hosts=1,1", "--rank-network=1Gbit/s,100us"), "pipeline"),
        (4, ("--rank-hosts=2,2", "--rank-network=10Gbit/s,30us"), "pipeline:2,tensor:2"),
    ],
)
def test_networks_between_hosts(tools, world: int, flags: tuple[str, ...], chosen: str, tmp_path: Path) -> None:
    """Parts of layers are added up in each of them; stages send a value once. Hosts exchange what takes less."""
    done = tools.run(
        "intarsia-compile", GLOSSARY, "-o", tmp_path / "m.itx", f"--world={world}", "--partition=auto", *flags
    )
    assert f"--partition=auto over {world} ranks{' of 2 hosts' if len(flags) > 1 else ''}: {chosen}\n" in done.stderr


def test_messages_in_8_bits_count(tools, tmp_path: Path) -> None:
    def exchanges(*flags: str) -> float:
        command = ["intarsia-compile", GLOSSARY, "-o", tmp_path / "m.itx", "--world=2", "--partition=auto"]
        network = ["--rank-hosts=1,1", "--rank-network=10Mbit/s,1us", f"--explain={tmp_path / 'why.json'}"]
        tools.run(*command, *network, *flags)
        rows = json.loads((tmp_path / "why.json").read_text())["partition"]
        return next(row["exchanges_us"] for row in rows if row["partition"] == "tensor")

    # All but the gathered logits are sums; 36 bytes are sent instead of 128.
    assert exchanges("--rank-messages=int8") < exchanges()


def test_refusals(tools, tmp_path: Path) -> None:
    def refused(*flags: str) -> str:
        result = tools.run("intarsia-compile", LLAMA, "-o", tmp_path / "m.itx", *flags, check=False)
        assert result.returncode == 1
        return result.stderr

    assert "the smallest, pipeline, needs 0." in refused("--world=2", "--partition=auto", "--rank-memory=1kB")
    assert "--rank-memory is a limit for --partition=auto" in refused("--world=2", "--rank-memory=1GB")
    assert "give their number" in refused("--partition=auto")
    hosts = "--rank-hosts=1,1"
    assert "--rank-hosts and --rank-network are for --partition=auto" in refused("--world=2", hosts)
    auto = ("--world=2", "--partition=auto")
    assert "say what is between the hosts too" in refused(*auto, hosts)
    assert "say how many ranks each has" in refused(*auto, "--rank-network=1Gbit/s,50us")
    assert "the ranks of all hosts are 3" in refused(*auto, "--rank-hosts=1,2", "--rank-network=1Gbit/s,50us")
    for network in ("1Gbit", "0Gbit/s,5us", "1Gbit/s,5", "fast,5us", "1e3Gbit/s,5us"):
        assert f"--rank-network={network}: write the bandwidth" in refused(*auto, hosts, f"--rank-network={network}")
    message = refused("--world=200", "--partition=auto")
    assert "the model cannot be shared by 200 ranks; tensor: " in message
    assert "; pipeline: " in message
