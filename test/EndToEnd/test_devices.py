# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs on several devices: the CPU, and the reference device with a memory and queues of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).resolve().parents[2]
BERT = SOURCE / "test" / "EndToEnd" / "models" / "bert"
GLOSSARY = SOURCE / "examples" / "glossary"
ALTERNATING = "--place=*layer*.[02468]*=@reference"
PROMPT = "--ids=1,5,9,200"


def run(tools, *arguments: object, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(tools.path("intarsia-run")), *(str(argument) for argument in arguments)]
    return subprocess.run(
        command,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("devices")


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


@pytest.fixture(scope="module")
def mixed(tools, folder: Path) -> Path:
    """Give an encoder whose layers alternate between the devices."""
    tools.compile(BERT, "-o", folder / "mixed.itx", "--target=cpu,reference", ALTERNATING)
    return folder / "mixed.itx"


@pytest.fixture(scope="module")
def fat(tools, folder: Path) -> Path:
    """Give an encoder that runs on either device as a whole."""
    tools.compile(BERT, "-o", folder / "fat.itx", "--target=cpu,reference")
    return folder / "fat.itx"


def test_alternating_layers(tools, folder: Path, ids: Path, on_cpu: np.ndarray, mixed: Path) -> None:
    profile, output = folder / "profile.json", folder / "mixed.npy"
    result = run(tools, mixed, f"--input=input_ids=@{ids}", f"--output=@{output}", f"--profile={profile}")
    assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(np.load(output), on_cpu, atol=1e-5, rtol=0)
    events = [event for event in json.loads(profile.read_text())["traceEvents"] if event["ph"] == "X"]
    there = [event for event in events if event["args"].get("device") == "reference"]
    copies = [event for event in there if event["cat"] == "copy"]
    assert copies
    assert any(event["cat"] == "kernel" for event in there)
    assert any(event["cat"] == "kernel" for event in events if event not in there)
    # Copies have a queue of their own beside that of kernels.
    assert {event["tid"] for event in copies}.isdisjoint(e["tid"] for e in there if e["cat"] == "kernel")


@pytest.mark.parametrize("microseconds", [0, 500])
def test_delays_change_nothing(
    tools, folder: Path, ids: Path, on_cpu: np.ndarray, mixed: Path, microseconds: int
) -> None:
    output = folder / f"delayed-{microseconds}.npy"
    delay = {"ITX_REFERENCE_DELAY_MICROSECONDS": str(microseconds), "ITX_REFERENCE_SEED": "7"}
    result = run(tools, mixed, f"--input=input_ids=@{ids}", f"--output=@{output}", environment=delay)
    assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(np.load(output), on_cpu, atol=1e-5, rtol=0)


@pytest.mark.parametrize("flags", [[], ["--kv=int8"], ["--quantize=int4"]])
def test_generation_with_alternating_layers(tools, folder: Path, flags: list[str]) -> None:
    """State is in the memory of the device that updates it."""
    tokens = []
    for name, more in (("cpu", ["--target=cpu"]), ("mixed", ["--target=cpu,reference", ALTERNATING])):
        artifact = folder / f"{name}{len(flags)}.itx"
        tools.compile(GLOSSARY, "-o", artifact, *flags, *more)
        result = run(tools, artifact, PROMPT, "--max-tokens=6", environment={"ITX_REFERENCE_DELAY_MICROSECONDS": "50"})
        assert result.returncode == 0, result.stderr
        tokens.append(result.stdout)
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_one_artifact_for_either_device(
    tools, folder: Path, ids: Path, on_cpu: np.ndarray, fat: Path, device: str
) -> None:
    output, profile = folder / f"fat-{device}.npy", folder / f"fat-{device}.json"
    result = run(
        tools, fat, f"--device={device}", f"--input=input_ids=@{ids}", f"--output=@{output}", f"--profile={profile}"
    )
    assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(np.load(output), on_cpu, atol=1e-5, rtol=0)
    events = json.loads(profile.read_text())["traceEvents"]
    kernels = {event["args"].get("device", "cpu") for event in events if event.get("cat") == "kernel"}
    assert kernels == {device}


def test_devices_that_are_not_there(tools, mixed: Path) -> None:
    result = run(tools, mixed, "--device=cpu", "--list")
    assert result.returncode == 1
    assert "is compiled for the devices cpu and reference" in result.stderr


@pytest.mark.parametrize(("fault", "message"), [("lost:9", "the reference device is lost"), ("memory:9", "memory")])
def test_failing_device(tools, ids: Path, mixed: Path, fault: str, message: str) -> None:
    result = run(tools, mixed, f"--input=input_ids=@{ids}", environment={"ITX_REFERENCE_FAIL": fault})
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_device_without_room(tools, ids: Path, mixed: Path) -> None:
    result = run(tools, mixed, f"--input=input_ids=@{ids}", environment={"ITX_REFERENCE_MEMORY_BYTES": "1000"})
    assert result.returncode == 1
    assert "the reference device has no" in result.stderr


def test_verified_kernels(tools, ids: Path, fat: Path) -> None:
    result = run(tools, fat, "--device=cpu", "--device=reference", "--verify-kernels", f"--input=input_ids=@{ids}")
    assert result.returncode == 0, result.stderr
    assert "verified" in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--place=encoder.layer.0*=@reference"], "its devices are @cpu: name it in --target too"),
        (
            ["--target=cpu,reference", "--place=encoder.layr.0.output=@reference"],
            "did you mean 'encoder.layer.0.output'",
        ),
        (["--target=cpu,reference", "--place=encoder"], "is not GLOB=@device"),
        (["--target=cpu,cuda"], "unknown target 'cuda': the targets are cpu, reference"),
        (["--target=cpu,reference", "--place=x=@cpu", "--stop-after=quantize"], "--place is about the partition phase"),
    ],
)
def test_refused_places(tools, folder: Path, flags: list[str], message: str) -> None:
    result = tools.run("intarsia-compile", BERT, "-o", folder / "refused.itx", *flags, check=False)
    assert result.returncode == 1
    assert message in result.stderr
    assert not (folder / "refused.itx").exists()
