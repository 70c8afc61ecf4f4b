# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that are split between a GPU and the CPU by the GPU's memory."""

from __future__ import annotations

import json
import re
from pathlib import Path

import intarsia
import numpy as np
import pytest

SOURCE = Path(__file__).resolve().parents[2]
BERT = SOURCE / "test" / "EndToEnd" / "models" / "bert"
GLOSSARY = SOURCE / "examples" / "glossary"
TARGETS = "--target=emulated:sm_80,cpu"

pytestmark = pytest.mark.cpu_only


def expecting(tools, folder: Path, model: Path, sizes: dict[str, int]) -> Path:
    """Give the IR of a model that expects large inputs, with which the cost model prefers the GPU."""
    imported = folder / f"{model.name}.mlir"
    tools.compile(model, TARGETS, "--stop-after=import", "-o", imported)
    text = imported.read_text()
    given = ", ".join(f"{name} = {value} : i64" for name, value in sizes.items())
    changed = text.replace("attributes {nn.metadata", f"attributes {{nn.expected_sizes = {{{given}}}, nn.metadata", 1)
    assert changed != text
    imported.write_text(changed)
    return imported


def split(tools, model: Path, archives: Path, artifact: Path, limit: int, *more: str) -> tuple[list[dict], str]:
    """Compile with a limit; return what --explain records of the split, and what was printed."""
    explained = artifact.with_suffix(".json")
    flags = (TARGETS, f"--gpu-memory={limit}B", f"--archives={archives}", f"--explain={explained}", *more)
    result = tools.compile(model, "-o", artifact, *flags)
    return json.loads(explained.read_text())["split"], result.stderr


def bytes_on_gpu(artifact: Path) -> int:
    """Return the bytes of the weights that the manifest puts on the GPU, the first device."""
    listed = intarsia.load(artifact).manifest["weights"]
    weights = artifact.with_suffix(".safetensors").read_bytes()
    header = json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
    tensors = zip(listed["tensors"], listed["devices"], strict=True)
    return sum(int(np.diff(header[name]["data_offsets"])[0]) for name, device in tensors if device == 0)


def hidden_states(tools, artifact: Path, ids: Path, output: Path) -> np.ndarray:
    tools.run("intarsia-run", artifact, f"--input=input_ids=@{ids}", f"--output=@{output}")
    return np.load(output)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_encoder_that_does_not_fit(tools, folder: Path, ids: Path, on_cpu: np.ndarray, share: float) -> None:
    """The weights and values of some layers stay under the limit, and the answers are the CPU's."""
    model, artifact = expecting(tools, folder, BERT, {"batch": 2, "sequence": 17}), folder / "split.itx"
    (whole, _), _ = split(tools, model, BERT, folder / "all.mlir", 10**9, "--stop-after=fuse")
    limit = int(share * (whole["weight_bytes"] + whole["scratch_bytes"]))
    (gpu, host), printed = split(tools, model, BERT, artifact, limit)
    assert (gpu["device"], host["device"], gpu["limit_bytes"]) == ("emulated", "cpu", limit)
    assert gpu["layers"] > 0
    assert host["layers"] > 0
    assert gpu["layers"] + host["layers"] == whole["layers"]
    assert gpu["weight_bytes"] + gpu["cache_bytes"] + gpu["scratch_bytes"] <= limit
    assert 0 < bytes_on_gpu(artifact) <= limit - gpu["scratch_bytes"]
    assert re.search(rf"^emulated +{gpu['layers']} .* us  {re.escape(gpu['which'])}$", printed, re.MULTILINE), printed
    np.testing.assert_allclose(hidden_states(tools, artifact, ids, folder / "split.npy"), on_cpu, atol=1e-5, rtol=0)


def test_encoder_that_fits(tools, folder: Path, ids: Path, on_cpu: np.ndarray) -> None:
    artifact = folder / "whole.itx"
    (gpu, host), _ = split(tools, BERT, BERT, artifact, 10**9)
    assert host["layers"] == 0
    assert gpu["weight_bytes"] > 0
    np.testing.assert_allclose(hidden_states(tools, artifact, ids, folder / "whole.npy"), on_cpu, atol=1e-5, rtol=0)


def test_decoder_that_does_not_fit(tools, folder: Path) -> None:
    """Layers with their caches are on the GPU, others with theirs on the CPU; the tokens are the CPU's."""
    model = expecting(tools, folder, GLOSSARY, {"tokens": 512, "outputs": 512})
    artifact = folder / "decoder.itx"
    (whole, _), _ = split(tools, model, GLOSSARY, folder / "all.mlir", 10**9, "--stop-after=fuse")
    assert whole["cache_bytes"] > 0
    limit = (whole["weight_bytes"] + whole["cache_bytes"]) // 2 + whole["scratch_bytes"]
    (gpu, host), _ = split(tools, model, GLOSSARY, artifact, limit)
    assert 0 < gpu["cache_bytes"] < whole["cache_bytes"]
    assert gpu["cache_bytes"] + host["cache_bytes"] == whole["cache_bytes"]
    assert 0 < bytes_on_gpu(artifact) <= limit - gpu["cache_bytes"] - gpu["scratch_bytes"]
    actual = tools.run("intarsia-run", artifact, "--ids=1,5,9", "--max-tokens=2").stdout
    assert actual == tools.run("intarsia-run", tools.artifact(GLOSSARY), "--ids=1,5,9", "--max-tokens=2").stdout


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--target=cpu", "--gpu-memory=8GB"), "there is none among the devices @cpu: name one in --target"),
        (("--target=cuda:sm_80", "--gpu-memory=8GB"), "needs a second device for the layers that do not fit on @cuda"),
        ((TARGETS, "--gpu-memory=many"), "--gpu-memory=many: is no size: write a positive number and a unit"),
        ((TARGETS, "--gpu-memory=-1GB"), "--gpu-memory=-1GB: is no size"),
        (
            (TARGETS, "--gpu-memory=10B"),
            "--gpu-memory=10B: no layer with weights fits on @emulated; the smallest needs",
        ),
        ((TARGETS, "--gpu-memory=8GB", "--place=*=@cpu"), "--gpu-memory decides where layers run, and so does --place"),
        ((TARGETS, "--gpu-memory=8GB", "--stop-after=import"), "--gpu-memory is about the partition phase, which does"),
    ],
)
def test_refused(tools, folder: Path, flags: tuple[str, ...], expected: str) -> None:
    artifact = folder / "refused.itx"
    result = tools.run("intarsia-compile", BERT, "-o", artifact, *flags, check=False)
    assert result.returncode == 1
    assert expected in result.stderr
    assert not artifact.exists()
