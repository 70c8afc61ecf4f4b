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
    assert set(alternatives) == {"tensor", "pipeline"}
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


def test_refusals(tools, tmp_path: Path) -> None:
    def refused(*flags: str) -> str:
        result = tools.run("intarsia-compile", LLAMA, "-o", tmp_path / "m.itx", *flags, check=False)
        assert result.returncode == 1
        return result.stderr

    assert "the smallest, pipeline, needs 0." in refused("--world=2", "--partition=auto", "--rank-memory=1kB")
    assert "--rank-memory is a limit for --partition=auto" in refused("--world=2", "--rank-memory=1GB")
    assert "give their number" in refused("--partition=auto")
    message = refused("--world=200", "--partition=auto")
    assert "the model cannot be shared by 200 ranks; tensor: " in message
    assert "; pipeline: " in message
