# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of GPUs: compiled for every architecture, and run on emulated ones."""

from __future__ import annotations

import contextlib
import ctypes
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

SOURCE = Path(__file__).resolve().parents[2]
BERT = SOURCE / "test" / "EndToEnd" / "models" / "bert"
GLOSSARY = SOURCE / "examples" / "glossary"
CUDA = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
HIP = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
# One architecture for each size of a warp and each vendor.
EMULATED = ("sm_80", "gfx942", "gfx1100")

pytestmark = pytest.mark.cpu_only


@pytest.mark.slow
def test_every_architecture_in_one_artifact(tools, folder: Path, ids: Path, on_cpu: np.ndarray) -> None:
    """Code for eleven architectures and the CPU; a machine without a GPU takes the CPU's."""
    targets = [f"cuda:{name}" for name in CUDA] + [f"hip:{name}" for name in HIP] + ["cpu"]
    tools.compile(BERT, "-o", folder / "all.itx", f"--target={','.join(targets)}")
    output = folder / "all.npy"
    tools.run("intarsia-run", folder / "all.itx", "--device=cpu", f"--input=input_ids=@{ids}", f"--output=@{output}")
    # Kernels of the CPU hold what those of GPUs can, so that other roundings are possible.
    np.testing.assert_allclose(np.load(output), on_cpu, atol=1e-5, rtol=0)


@pytest.mark.parametrize("schedule", ["lockstep", "greedy", "greedy-reversed"])
@pytest.mark.parametrize("architecture", EMULATED)
def test_encoder(tools, folder: Path, ids: Path, on_cpu: np.ndarray, architecture: str, schedule: str) -> None:
    artifact, output = folder / f"{architecture}.itx", folder / f"{architecture}.npy"
    if not artifact.exists():
        tools.compile(BERT, "-o", artifact, f"--target=emulated:{architecture}")
    tools.run(
        "intarsia-run",
        artifact,
        f"--input=input_ids=@{ids}",
        f"--output=@{output}",
        environment={"ITX_EMULATED_SCHEDULE": schedule},
    )
    np.testing.assert_allclose(np.load(output), on_cpu, atol=1e-5, rtol=0)


def test_generation(tools, folder: Path) -> None:
    """A decoder over a paged cache gives the CPU's tokens."""
    tokens = []
    for target in ("cpu", "emulated:sm_80"):
        artifact = tools.artifact(GLOSSARY, *([f"--target={target}"] if target != "cpu" else []))
        result = tools.run("intarsia-run", artifact, "--ids=1,5,9", "--max-tokens=2")
        tokens.append(result.stdout)
    assert tokens[0] == tokens[1]


@pytest.fixture(scope="module")
def two_layers(minilm_dir: Path, folder: Path) -> Path:
    """MiniLM's first two layers, with their real weights."""
    model = folder / "minilm"
    shutil.copytree(minilm_dir, model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}))
    weights = load_file(minilm_dir / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if not re.match(r"encoder\.layer\.(?![01]\.)", name)}
    save_file(kept, model / "model.safetensors")
    return model


# Flags for the CPU, which rounds nothing but weights, and for GPUs.
PRECISIONS = {
    "f16": ((), ("--matmul-precision=f16",)),
    "w4a16": (("--quantize=int4", "--quantize-activations=16"), ("--quantize=int4",)),
    "int8-cache": (("--kv=int8",), ("--kv=int8", "--matmul-precision=f16")),
}


@pytest.fixture(scope="module")
def exact(tools, folder: Path, two_layers: Path) -> dict[str, tuple[np.ndarray, str]]:
    """Embeddings of MiniLM and tokens of a decoder, by the CPU."""
    return {
        name: embed_and_generate(tools, folder, two_layers, "cpu", flags) for name, (flags, _) in PRECISIONS.items()
    }


def embed_and_generate(tools, folder: Path, model: Path, target: str, flags: tuple[str, ...]) -> tuple[np.ndarray, str]:
    ids, output = folder / "tokens.npy", folder / "embeddings.npy"
    np.save(ids, np.random.default_rng(0).integers(1000, 20000, (2, 19)))
    of_encoders = [flag for flag in flags if not flag.startswith("--kv")]  # which have no cache
    tools.compile(model, "-o", folder / "m.itx", f"--target={target}", *of_encoders)
    tools.run("intarsia-run", folder / "m.itx", f"--input=input_ids=@{ids}", f"--output=@{output}")
    decoder = tools.artifact(GLOSSARY, *([f"--target={target}"] if target != "cpu" else []), *flags)
    generated = tools.run("intarsia-run", decoder, "--ids=1,5,9,22,31,7", "--max-tokens=4").stdout
    return np.load(output).astype(np.float64), generated


@pytest.mark.parametrize(
    ("architecture", "precision"),
    [
        pytest.param(
            one, precision, marks=() if one == "sm_90a" or (one, precision) == ("gfx942", "f16") else pytest.mark.slow
        )
        for one in ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100")
        for precision in PRECISIONS
    ],
)
def test_models_in_16_bits(tools, folder: Path, two_layers: Path, exact, architecture: str, precision: str) -> None:
    flags = PRECISIONS[precision][1]
    actual, generated = embed_and_generate(tools, folder, two_layers, f"emulated:{architecture}", flags)
    expected, tokens = exact[precision]
    cosine = (actual * expected).sum(-1) / np.sqrt((actual**2).sum(-1) * (expected**2).sum(-1))
    assert cosine.min() >= 0.9999
    assert generated == tokens


def test_layers_on_a_gpu_and_the_cpu(tools, folder: Path, ids: Path, on_cpu: np.ndarray) -> None:
    artifact, output = folder / "mixed.itx", folder / "mixed.npy"
    tools.compile(BERT, "-o", artifact, "--target=cpu,emulated:sm_80", "--place=*layer*.[02468]*=@emulated")
    tools.run("intarsia-run", artifact, f"--input=input_ids=@{ids}", f"--output=@{output}")
    np.testing.assert_allclose(np.load(output), on_cpu, atol=1e-5, rtol=0)


def test_code_of_a_gpu_needs_no_library(tools, folder: Path) -> None:
    """No function is called but those that the compiler has itself."""
    lowered = folder / "lowered.mlir"
    tools.compile(BERT, "-o", lowered, "--target=cuda:sm_80", "--stop-after=lower")
    emitted = tools.run("intarsia-opt", lowered, "--target-emit-kernels").stdout
    assert "gpu.func @itx_k0_0" in emitted
    called = set(re.findall(r"\bcall @(\w+)", emitted))
    assert called
    assert all(name.startswith("itx_") for name in called), called


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


@pytest.mark.parametrize(
    ("target", "driver", "libraries"),
    [
        ("cuda:sm_80", "CUDA driver", ("libcuda.so.1", "libcuda.so")),
        (
            "hip:gfx942",
            "HIP runtime",
            tuple(f"{place}libamdhip64.so.{version}" for version in (7, 6, 5) for place in ("", "/opt/rocm/lib/")),
        ),
    ],
)
def test_no_gpu_here(tools, folder: Path, ids: Path, target: str, driver: str, libraries: tuple[str, ...]) -> None:
    """An artifact for a GPU alone says what it needs where there is none, and what was looked for."""
    for library in libraries:
        with contextlib.suppress(OSError):
            ctypes.CDLL(library)
            pytest.skip(f"{library} is here")
    kind, artifact = target.split(":")[0], folder / "alone.itx"
    tools.compile(BERT, "-o", artifact, f"--target={target}")
    result = tools.run("intarsia-run", artifact, f"--input=input_ids=@{ids}", check=False)
    assert result.returncode == 1
    message = re.fullmatch(
        rf"error: {re.escape(str(artifact))}: is compiled for the device {kind}, this machine has cpu, reference, "
        rf"emulated and wafer: compile it with --target=cpu; there is no {driver}: looked for (.*) in (/.*) and the linker's cache\n",
        result.stderr,
    )
    assert message, result.stderr
    assert re.split(", | and ", message[1]) == list(libraries)
    assert result.stdout == ""
