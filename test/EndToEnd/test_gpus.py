# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of GPUs: compiled for every architecture, and run on emulated ones."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).resolve().parents[2]
BERT = SOURCE / "test" / "EndToEnd" / "models" / "bert"
GLOSSARY = SOURCE / "examples" / "glossary"
CUDA = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
HIP = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
# One architecture for each size of a warp and each vendor.
EMULATED = ("sm_80", "gfx942", "gfx1100")

pytestmark = pytest.mark.cpu_only


def run(tools, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(tools.path("intarsia-run")), *(str(argument) for argument in arguments)]
    return subprocess.run(
        command,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpus")


@pytest.fixture(scope="module")
def ids(folder: Path) -> Path:
    path = folder / "ids.npy"
    np.save(path, np.random.default_rng(0).integers(0, 99, (2, 17)))
    return path


@pytest.fixture(scope="module")
def on_cpu(tools, folder: Path, ids: Path) -> np.ndarray:
    tools.compile(BERT, "-o", folder / "cpu.itx", "--target=cpu")
    result = run(tools, folder / "cpu.itx", f"--input=input_ids=@{ids}", f"--output=@{folder / 'cpu.npy'}")
    assert result.returncode == 0, result.stderr
    return np.load(folder / "cpu.npy")


def test_every_architecture_in_one_artifact(tools, folder: Path, ids: Path, on_cpu: np.ndarray) -> None:
    """Code for eleven architectures and the CPU; a machine without a GPU takes the CPU's."""
    targets = [f"cuda:{name}" for name in CUDA] + [f"hip:{name}" for name in HIP] + ["cpu"]
    tools.compile(BERT, "-o", folder / "all.itx", f"--target={','.join(targets)}")
    output = folder / "all.npy"
    result = run(tools, folder / "all.itx", "--device=cpu", f"--input=input_ids=@{ids}", f"--output=@{output}")
    assert result.returncode == 0, result.stderr
    # Kernels of the CPU hold what those of GPUs can, so that other roundings are possible.
    np.testing.assert_allclose(np.load(output), on_cpu, atol=1e-5, rtol=0)


@pytest.mark.parametrize("schedule", ["lockstep", "greedy", "greedy-reversed"])
@pytest.mark.parametrize("architecture", EMULATED)
def test_encoder(tools, folder: Path, ids: Path, on_cpu: np.ndarray, architecture: str, schedule: str) -> None:
    artifact, output = folder / f"{architecture}.itx", folder / f"{architecture}.npy"
    if not artifact.exists():
        tools.compile(BERT, "-o", artifact, f"--target=emulated:{architecture}")
    result = run(tools, artifact, f"--input=input_ids=@{ids}", f"--output=@{output}", ITX_EMULATED_SCHEDULE=schedule)
    assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(np.load(output), on_cpu, atol=1e-5, rtol=0)


def test_generation(tools, folder: Path) -> None:
    """A decoder over a paged cache gives the CPU's tokens."""
    tokens = []
    for target in ("cpu", "emulated:sm_80"):
        artifact = folder / "decoder.itx"
        tools.compile(GLOSSARY, "-o", artifact, f"--target={target}")
        result = run(tools, artifact, "--ids=1,5,9", "--max-tokens=2")
        assert result.returncode == 0, result.stderr
        tokens.append(result.stdout)
    assert tokens[0] == tokens[1]


def test_layers_on_a_gpu_and_the_cpu(tools, folder: Path, ids: Path, on_cpu: np.ndarray) -> None:
    artifact, output = folder / "mixed.itx", folder / "mixed.npy"
    tools.compile(BERT, "-o", artifact, "--target=cpu,emulated:sm_80", "--place=*layer*.[02468]*=@emulated")
    result = run(tools, artifact, f"--input=input_ids=@{ids}", f"--output=@{output}")
    assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(np.load(output), on_cpu, atol=1e-5, rtol=0)


def test_code_of_a_gpu_needs_no_library(tools, folder: Path) -> None:
    """No function is called."""
    lowered = folder / "lowered.mlir"
    tools.compile(BERT, "-o", lowered, "--target=cuda:sm_80", "--stop-after=lower")
    emitted = tools.run("intarsia-opt", lowered, "--target-emit-kernels").stdout
    assert "gpu.func @itx_k0_0" in emitted
    called = set(re.findall(r"\bcall @(\w+)", emitted))
    assert not called, called


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("cuda", "target 'cuda' needs an architecture: name one, as in cuda:sm_80 (sm_80, sm_86, sm_89, sm_90a, "),
        ("cuda:sm_70", "target 'cuda' has no architecture 'sm_70': it has sm_80, sm_86, sm_89, sm_90a, "),
        ("hip:sm_80", "target 'hip' has no architecture 'sm_80': it has gfx90a, gfx942, gfx950, gfx1100, gfx1201"),
        ("emulated:gfx9", "target 'emulated' has no architecture 'gfx9': it has sm_80, "),
    ],
)
def test_unknown_architecture(tools, folder: Path, target: str, expected: str) -> None:
    artifact = folder / "refused.itx"
    result = tools.run("intarsia-compile", BERT, "-o", artifact, f"--target={target}", check=False)
    assert result.returncode == 1
    assert expected in result.stderr
    assert not artifact.exists()


def test_no_gpu_here(tools, folder: Path, ids: Path) -> None:
    """An artifact for a GPU alone says what it needs where there is none."""
    artifact = folder / "cuda.itx"
    tools.compile(BERT, "-o", artifact, "--target=cuda:sm_80")
    result = run(tools, artifact, f"--input=input_ids=@{ids}", CUDA_VISIBLE_DEVICES="")
    assert result.returncode == 1
    assert "cuda" in result.stderr
