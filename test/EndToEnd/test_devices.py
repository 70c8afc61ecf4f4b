# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs on several devices: the CPU, and the reference device with a memory and queues of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import intarsia
import numpy as np
import pytest

SOURCE = Path(__file__).resolve().parents[2]
BERT = SOURCE / "test" / "EndToEnd" / "models" / "bert"
GLOSSARY = SOURCE / "examples" / "glossary"
ALTERNATING = "--place=*layer*.[02468]*=@reference"
PROMPT = "--ids=1,5,9,200"
SCALE = """
rt.device @reference {target = #rt.target<"reference", ["native"]>}
func.func @main(%x: tensor<?x64xf32> {nn.name = "x", nn.sizes = ["n", ""]}) -> (tensor<?x64xf32> {nn.name = "y"}) {
  %y = nn.tanh %x : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
"""


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
    tools.run("intarsia-run", mixed, f"--input=input_ids=@{ids}", f"--output=@{output}", f"--profile={profile}")
    np.testing.assert_allclose(np.load(output), on_cpu, atol=1e-5, rtol=0)
    events = [event for event in json.loads(profile.read_text())["traceEvents"] if event["ph"] == "X"]
    there = [event for event in events if event["args"].get("device") == "reference"]
    copies = [event for event in there if event["cat"] == "copy"]
    assert copies
    assert any(event["cat"] == "kernel" for event in there)
    assert any(event["cat"] == "kernel" for event in events if event not in there)
    # Copies have a queue of their own beside that of kernels.
    assert {event["tid"] for event in copies}.isdisjoint(e["tid"] for e in there if e["cat"] == "kernel")


def test_minilm_with_alternating_layers(tools, scratch: Path, minilm_dir: Path, minilm_golden: dict) -> None:
    """Six layers with real weights, three of them on each device: the CPU's answers, and PyTorch's."""
    results = []
    given = {name: minilm_golden[name][:4] for name in ("input_ids", "attention_mask")}
    for name, flags in (("cpu", ["--target=cpu"]), ("mixed", ["--target=cpu,reference", ALTERNATING])):
        artifact = scratch / f"minilm-{name}-layers" / "minilm.itx"
        artifact.parent.mkdir()
        tools.compile(minilm_dir, "-o", artifact, *flags)
        with intarsia.profile(scratch / f"minilm-{name}.json"):
            results.append(intarsia.load(artifact).main(**given).last_hidden_state)
    events = json.loads((scratch / "minilm-mixed.json").read_text())["traceEvents"]
    kernels = [event["args"].get("device", "cpu") for event in events if event.get("cat") == "kernel"]
    assert kernels.count("reference") > 10
    assert kernels.count("cpu") > 10
    seen = given["attention_mask"] != 0
    on_cpu, mixed = (result[seen] for result in results)
    np.testing.assert_allclose(mixed, on_cpu, atol=1e-5, rtol=0)
    np.testing.assert_allclose(mixed, minilm_golden["last_hidden_state"][:4][seen], atol=1e-5, rtol=0)


@pytest.mark.parametrize("microseconds", [0, 500])
def test_delays_change_nothing(
    tools, folder: Path, ids: Path, on_cpu: np.ndarray, mixed: Path, microseconds: int
) -> None:
    output = folder / f"delayed-{microseconds}.npy"
    delay = {"ITX_REFERENCE_DELAY_MICROSECONDS": str(microseconds), "ITX_REFERENCE_SEED": "7"}
    tools.run("intarsia-run", mixed, f"--input=input_ids=@{ids}", f"--output=@{output}", environment=delay)
    np.testing.assert_allclose(np.load(output), on_cpu, atol=1e-5, rtol=0)


@pytest.mark.parametrize("flags", [[], ["--kv=int8"], ["--quantize=int4"]])
def test_generation_with_alternating_layers(tools, folder: Path, flags: list[str]) -> None:
    """State is in the memory of the device that updates it."""
    tokens = []
    for name, more in (("cpu", ["--target=cpu"]), ("mixed", ["--target=cpu,reference", ALTERNATING])):
        artifact = folder / f"{name}{len(flags)}.itx"
        tools.compile(GLOSSARY, "-o", artifact, *flags, *more)
        result = tools.run(
            "intarsia-run", artifact, PROMPT, "--max-tokens=6", environment={"ITX_REFERENCE_DELAY_MICROSECONDS": "50"}
        )
        tokens.append(result.stdout)
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_one_artifact_for_either_device(
    tools, folder: Path, ids: Path, on_cpu: np.ndarray, fat: Path, device: str
) -> None:
    output, profile = folder / f"fat-{device}.npy", folder / f"fat-{device}.json"
    tools.run(
        "intarsia-run",
        fat,
        f"--device={device}",
        f"--input=input_ids=@{ids}",
        f"--output=@{output}",
        f"--profile={profile}",
    )
    np.testing.assert_allclose(np.load(output), on_cpu, atol=1e-5, rtol=0)
    events = json.loads(profile.read_text())["traceEvents"]
    kernels = {event["args"].get("device", "cpu") for event in events if event.get("cat") == "kernel"}
    assert kernels == {device}


@pytest.fixture(scope="module")
def there(fat: Path) -> intarsia.Module:
    return intarsia.load(fat, devices=["reference"])


def test_results_stay_on_a_device(there: intarsia.Module, ids: Path, on_cpu: np.ndarray) -> None:
    output = there.signature().outputs[0]
    assert output.device == "reference"
    assert there.signature().inputs[0].device is None  # its values are checked by the host
    result = there.main.on("reference")(np.load(ids)).last_hidden_state
    assert isinstance(result, intarsia.Tensor)
    assert (result.device, result.dtype, result.shape) == ("reference", "f32", on_cpu.shape)
    assert repr(result) == f"<intarsia tensor f32{list(on_cpu.shape)} on 'reference'>"
    np.testing.assert_allclose(result.numpy(), on_cpu, atol=1e-5, rtol=0)
    np.testing.assert_array_equal(result.to("cpu").numpy(), result.numpy())
    # The host copies, on request, for who cannot read the device's memory.
    assert result.__dlpack_device__() == (12, 0)
    np.testing.assert_array_equal(np.from_dlpack(result, device="cpu"), result.numpy())
    with pytest.raises(BufferError, match="cannot be given as one of"):
        np.from_dlpack(result, device="cpu", copy=False)
    assert intarsia.load(there.path, devices="cpu").signature().outputs[0].device is None


def test_a_model_feeds_another_on_a_device(tools, folder: Path) -> None:
    """What one function leaves on a device is read there by another, without a copy."""
    (folder / "scale.mlir").write_text(SCALE)
    tools.compile(folder / "scale.mlir", "--start-from=fuse", "-o", folder / "scale.itx", "--target=reference")
    module = intarsia.load(folder / "scale.itx")
    assert module.signature().inputs[0].device == "reference"
    values = np.linspace(-3, 3, 128, dtype=np.float32).reshape(2, 64)
    first = module.main.on("reference")(values)
    with intarsia.profile(folder / "fed.json"):
        second = module.main.on("reference")(first)
    events = json.loads((folder / "fed.json").read_text())["traceEvents"]
    assert [event["cat"] for event in events if event["ph"] == "X" and event["cat"] != "call"] == ["kernel"]
    np.testing.assert_allclose(second.numpy(), np.tanh(np.tanh(values)), atol=1e-6)
    np.testing.assert_array_equal(module.main(intarsia.to_device(values, "reference")), first.numpy())
    np.testing.assert_array_equal(module.main(values), first.numpy())


def test_tensors_that_a_function_cannot_read(there: intarsia.Module, ids: Path) -> None:
    tensor = intarsia.to_device(np.load(ids), "reference")
    with pytest.raises(intarsia.InvalidArgumentError, match="must be in the memory of the host: copy it there first"):
        there.main(tensor)
    with pytest.raises(intarsia.NotFoundError, match="no device 'gpu7'; it has cpu, reference"):
        intarsia.to_device(np.load(ids), "gpu7")


def test_calls_in_the_background(there: intarsia.Module, ids: Path, on_cpu: np.ndarray) -> None:
    batches = np.load(ids)
    calls = [there.main.start(input_ids=batches[i % 2 : i % 2 + 1]) for i in range(6)]
    for i, call in enumerate(calls):
        np.testing.assert_allclose(call.result().last_hidden_state, on_cpu[i % 2 : i % 2 + 1], atol=1e-5, rtol=0)
    assert calls[0].result() is calls[0].result()
    assert calls[0].done()
    assert "done" in repr(calls[0])

    async def both() -> list[np.ndarray]:
        return await asyncio.gather(*(wait(there.main.start(batches[i : i + 1])) for i in range(2)))

    async def wait(call: intarsia.Pending) -> np.ndarray:
        return (await call).last_hidden_state

    np.testing.assert_allclose(np.concatenate(asyncio.run(both())), on_cpu, atol=1e-5, rtol=0)
    with pytest.raises(intarsia.InvalidArgumentError, match="input_ids"):
        there.main.start(batches - 1000)


def test_errors_and_time_limits_in_the_background(there: intarsia.Module, fat: Path, ids: Path) -> None:
    reference = [device["name"] for device in there.manifest["devices"]].index("reference")
    uploads = there.manifest["weights"]["devices"].count(reference)
    script = """
import sys, intarsia, numpy
module = intarsia.load(sys.argv[1], devices=["reference"])
call = module.main.start(numpy.load(sys.argv[2]))
try:
    call.result(timeout=0.0001)
except TimeoutError as error:
    print("late:", error)
for _ in range(2):
    try:
        call.result()
    except intarsia.Error as error:
        print(error.status, "/", error)
"""
    fault = {"ITX_REFERENCE_FAIL": f"lost:{uploads + 5}", "ITX_REFERENCE_DELAY_MICROSECONDS": "2000"}
    result = subprocess.run(
        [sys.executable, "-c", script, str(fat), str(ids)],
        env=os.environ | fault,
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = result.stdout.splitlines()
    assert lines[0] == "late: main is not done after 0.0001 s"
    assert len(lines) == 3
    assert lines[1] == lines[2]
    assert lines[1].startswith("device lost / the reference device is lost")


def test_list_of_devices(tools) -> None:
    result = tools.run("intarsia-run", "--list-devices", environment={"ITX_THREADS": "3", "ITX_REFERENCE_QUEUES": "5"})
    head, cpu, reference, emulated, wafer = result.stdout.splitlines()
    assert head.split() == ["name", "kind", "memory", "threads", "queues", "description"]
    assert cpu.split()[:2] == ["cpu", "cpu"]
    assert cpu.split()[3:6] == ["GB", "3", "1"]
    assert reference.split()[3:6] == ["GB", "1", "5"]
    assert emulated.split()[:2] == ["emulated", "emulated"]
    assert emulated.split()[3:6] == ["GB", "3", "2"]
    assert wafer.split()[:2] == ["wafer", "wafer"]


def test_devices_that_are_not_there(tools, mixed: Path) -> None:
    result = tools.run("intarsia-run", mixed, "--device=cpu", "--list", check=False)
    assert result.returncode == 1
    assert "is compiled for the devices cpu and reference" in result.stderr


@pytest.mark.parametrize(("fault", "message"), [("lost:9", "the reference device is lost"), ("memory:9", "memory")])
def test_failing_device(tools, ids: Path, mixed: Path, fault: str, message: str) -> None:
    result = tools.run(
        "intarsia-run", mixed, f"--input=input_ids=@{ids}", environment={"ITX_REFERENCE_FAIL": fault}, check=False
    )
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_device_without_room(tools, ids: Path, mixed: Path) -> None:
    result = tools.run(
        "intarsia-run",
        mixed,
        f"--input=input_ids=@{ids}",
        environment={"ITX_REFERENCE_MEMORY_BYTES": "1000"},
        check=False,
    )
    assert result.returncode == 1
    assert "the reference device has no" in result.stderr


def test_verified_kernels(tools, ids: Path, fat: Path) -> None:
    result = tools.run(
        "intarsia-run", fat, "--device=cpu", "--device=reference", "--verify-kernels", f"--input=input_ids=@{ids}"
    )
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
        (["--target=cpu,metal"], "unknown target 'metal': the targets are cpu, cuda, hip, emulated, reference, wafer"),
        (["--target=cpu,reference", "--place=x=@cpu", "--stop-after=quantize"], "--place is about the partition phase"),
    ],
)
def test_refused_placements(tools, folder: Path, flags: list[str], message: str) -> None:
    result = tools.run("intarsia-compile", BERT, "-o", folder / "refused.itx", *flags, check=False)
    assert result.returncode == 1
    assert message in result.stderr
    assert not (folder / "refused.itx").exists()
