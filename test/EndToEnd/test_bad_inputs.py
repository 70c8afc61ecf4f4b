# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bad input of every kind: a clear message, an exit code that is not 0, and nothing half written."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import intarsia
import numpy as np
import pytest
from refusals import (
    CONFIG,
    DENSE,
    HIDDEN,
    INTERMEDIATE,
    POSITIONS,
    check_refusal,
    refused,
    weights,
    write_model,
)
from safetensors.numpy import save_file


@pytest.fixture
def model(tmp_path) -> Path:
    return write_model(tmp_path / "model")


def test_the_model_is_good(tools, model):
    """The model is valid before the other tests damage it."""
    tools.compile(model, "-o", model.parent / "m.itx")


# ---- The model ------------------------------------------------------------------------------------------------------


def test_missing_file(tools, tmp_path):
    refused(tools, tmp_path / "none.mlir", "none.mlir")
    refused(tools, tmp_path / "none", "none")


def test_folder_instead_of_a_file(tools, tmp_path):
    (tmp_path / "folder.mlir").mkdir()
    refused(tools, tmp_path / "folder.mlir", "folder.mlir")


@pytest.fixture
def unprivileged(tools):
    """Give a folder, and run tools in it as a user whom file permissions hold back; for root that is nobody."""
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}

    def run(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [str(tools.path(name)), *(str(argument) for argument in arguments)]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, **user)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        try:
            run("intarsia-run", "--version")
        except PermissionError as error:
            pytest.skip(f"cannot run {error.filename or 'a program'} as nobody: {error.strerror}")
        yield folder, run


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("ir.mlir", "cannot be read: Permission denied"),
        ("model/config.json", "ermission denied"),
        ("model/model.safetensors", "ermission denied"),
    ],
)
def test_unreadable_file(unprivileged, file, why):
    folder, run = unprivileged
    write_model(folder / "model")
    (folder / "ir.mlir").write_text("func.func @main() { return }")
    (folder / file).chmod(0)
    source = "ir.mlir" if file == "ir.mlir" else "model"
    check_refusal(run("intarsia-compile", source, "-o", "m.itx"), Path(file).name, why)
    assert sorted(path.name for path in folder.iterdir()) == ["ir.mlir", "model"]


@pytest.mark.parametrize("file", ["m.itx", "m.safetensors", "ids.npy"])
def test_unreadable_file_of_a_run(compiled, unprivileged, file):
    folder, run = unprivileged
    for name in ("m.itx", "m.safetensors"):
        shutil.copyfile(compiled.parent / name, folder / name)
    np.save(folder / "ids.npy", IDS)
    (folder / file).chmod(0)
    result = run("intarsia-run", "m.itx", "--input=input_ids=@ids.npy", "--output=@out.npy")
    check_refusal(result, file, "ermission denied")
    assert not (folder / "out.npy").exists()


def test_unknown_kind_of_file(tools, tmp_path):
    (tmp_path / "model.pickle").write_bytes(b"\x80\x04.")
    refused(tools, tmp_path / "model.pickle", "model.pickle")


def test_directory_without_config(tools, model):
    (model / "config.json").unlink()
    refused(tools, model, "config.json")


def test_directory_without_weights(tools, model):
    (model / "model.safetensors").unlink()
    refused(tools, model, "safetensors")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model_type": 3}', '{"model_type": "bert"', "\x00\xff"])
def test_config_that_is_no_json_object(tools, model, text):
    (model / "config.json").write_text(text, encoding="latin-1")
    refused(tools, model, "config.json")


def test_unknown_model_type(tools, tmp_path):
    model = write_model(tmp_path / "model", {**CONFIG, "model_type": "mamba9"})
    refused(tools, model, "mamba9", "bert", "roberta", "distilbert", "vit")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_act", "quick_dream"),
        ("position_embedding_type", "relative_key"),
        ("num_attention_heads", 5),
        ("num_attention_heads", 0),
        ("hidden_size", -32),
        ("hidden_size", "wide"),
        ("num_hidden_layers", 10**18),
        ("num_hidden_layers", 0),
        ("layer_norm_eps", "small"),
        ("layer_norm_eps", -1e-5),
    ],
)
def test_config_value_that_is_not_supported(tools, tmp_path, key, value):
    refused(tools, write_model(tmp_path / "model", {**CONFIG, key: value}), key)


def test_missing_config_value(tools, tmp_path):
    config = dict(CONFIG)
    del config["hidden_size"]
    tensors = weights()
    # Where the default of the architecture (768) is taken, the weights contradict it.
    refused(tools, write_model(tmp_path / "model", config, tensors), "hidden_size")


@pytest.mark.parametrize(
    ("key", "value", "parts"),
    [
        ("intermediate_size", 63, ("intermediate", "64", "63")),
        ("vocab_size", 51, ("word_embeddings", "50", "51")),
        ("max_position_embeddings", 17, ("position_embeddings", "16", "17")),
        ("num_hidden_layers", 2, ("encoder.layer.1",)),
    ],
)
def test_config_contradicts_the_weights(tools, tmp_path, key, value, parts):
    refused(tools, write_model(tmp_path / "model", {**CONFIG, key: value}), "model.safetensors", *parts)


def test_weights_of_more_layers(tools, tmp_path):
    tensors = weights()
    further = {name.replace("layer.0", "layer.1"): value for name, value in tensors.items() if "layer.0" in name}
    model = write_model(tmp_path / "model", tensors={**tensors, **further})
    refused(tools, model, "encoder.layer.1.", "num_hidden_layers is 1")


def test_missing_tensor(tools, tmp_path):
    tensors = weights()
    del tensors[DENSE]
    refused(tools, write_model(tmp_path / "model", tensors=tensors), DENSE)


def test_wrong_shape(tools, tmp_path):
    tensors = weights()
    tensors[DENSE] = np.zeros((INTERMEDIATE, HIDDEN - 1), dtype=np.float32)
    refused(tools, write_model(tmp_path / "model", tensors=tensors), DENSE, "64, 31", "64, 32")


def test_wrong_dtype(tools, tmp_path):
    tensors = weights()
    tensors[DENSE] = np.zeros((INTERMEDIATE, HIDDEN), dtype=np.int32)
    refused(tools, write_model(tmp_path / "model", tensors=tensors), DENSE, "I32")


# ---- IR -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("func.func @main(%x: tensor<4xf32>) -> tensor<5xf32> { return %x : tensor<4xf32> }", "broken.mlir:1"),
        ("func.func @main(%x: tensor<4xf32>) { %0 = nn.nothing %x }", "nn.nothing"),
        ("func.func @main(", "broken.mlir:1"),
        ("", "function"),
        (
            "func.func @main(%x: tensor<2x768xf32>, %w: tensor<10x384xf32>) -> tensor<2x10xf32> {\n"
            "  %0 = nn.linear %x, %w : (tensor<2x768xf32>, tensor<10x384xf32>) -> tensor<2x10xf32>\n"
            "  return %0 : tensor<2x10xf32>\n}",
            "weight has 384 input features, input has 768",
        ),
    ],
)
def test_ir_that_is_wrong(tools, tmp_path, text, part):
    (tmp_path / "broken.mlir").write_text(text)
    refused(tools, tmp_path / "broken.mlir", part)


def test_bytecode_that_is_none(tools, tmp_path):
    (tmp_path / "broken.mlirbc").write_bytes(b"ML\xefR\x06garbage" * 4)
    refused(tools, tmp_path / "broken.mlirbc", "broken.mlirbc")


# ---- Flags and the output -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "part"),
    [
        ("--target=tpu", "tpu"),
        ("--target=cpu:z80", "z80"),
        ("--target=cpu:x86-64-v4+warpdrive", "warpdrive"),
        ("--stop-after=lunch", "lunch"),
        ("--start-from=lunch", "lunch"),
        ("--emit=paper", "paper"),
        ("--threads=-2", "threads"),
        ("--no-such-flag", "no-such-flag"),
    ],
)
def test_flags(tools, model, flag, part):
    refused(tools, model, part, flags=(flag,))


def test_output_path_is_not_writable(tools, model):
    output = model.parent / "no" / "such" / "folder" / "m.itx"
    check_refusal(tools.run("intarsia-compile", model, "-o", output, check=False), str(output.parent))
    assert not (model.parent / "no").exists()
    (model.parent / "taken").mkdir()
    check_refusal(tools.run("intarsia-compile", model, "-o", model.parent / "taken", check=False), "taken")


def test_output_path_is_checked_first(tools, tmp_path):
    """Before anything is read: the missing model is not what the message is about."""
    result = tools.run("intarsia-compile", tmp_path / "none", "-o", tmp_path / "absent" / "m.itx", check=False)
    check_refusal(result, str(tmp_path / "absent" / "m.itx"))
    assert str(tmp_path / "none") not in result.stderr


def test_interrupted_compilation_leaves_nothing(tools, scratch, interruptible):
    """Ctrl-C while the weights are written into the artifact: no temporary file stays."""
    features, layers = 4096, 4  # 268 MB, so that writing takes a while
    names = [f"w{layer}" for layer in range(layers)]
    tensors = {name: np.ones((features, features), np.float32) for name in names}
    save_file(tensors, scratch / "large.safetensors")
    weight = f"tensor<{features}x{features}xf32>"
    values = f"tensor<?x{features}xf32>"
    lines = []
    for layer, name in enumerate(names):
        lines.append(f'  %{name} = nn.weight @a["{name}"] : {weight}')
        lines.append(f"  %y{layer + 1} = nn.linear %y{layer}, %{name} : ({values}, {weight}) -> {values}")
    (scratch / "large.mlir").write_text(
        'nn.archive @a {file = "large.safetensors"}\n'
        f'func.func @main(%y0: {values} {{nn.sizes = ["rows", ""]}}) -> {values} {{\n'
        + "\n".join(lines)
        + f"\n  return %y{layers} : {values}\n}}\n"
    )
    folder = scratch / "interrupted"
    folder.mkdir()
    command = [tools.path("intarsia-compile"), scratch / "large.mlir", "-o", folder / "m.itx", "--embed-weights"]
    for _ in range(5):  # the compiler may win the race to its end
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **interruptible)
        # The linked code is some kilobytes: more than a megabyte says that weights are being written behind it.
        while process.poll() is None and not any(size > 1_000_000 for size in sizes_written(process, folder)):
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        if process.wait(timeout=60) != 0:
            break
        (folder / "m.itx").unlink()
    assert process.returncode != 0, "it ended before it was interrupted, each time"
    assert list(folder.iterdir()) == []


def sizes_written(process: subprocess.Popen, folder: Path) -> list[int]:
    """Sizes of the files of a folder that a process has open, whether they have a name yet or not."""
    sizes = []
    with contextlib.suppress(FileNotFoundError):
        for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if Path(os.readlink(descriptor)).is_relative_to(folder):
                    sizes.append(descriptor.stat().st_size)
    return sizes


def test_failed_compilation_keeps_the_old_artifact(tools, model):
    artifact = model.parent / "m.itx"
    tools.compile(model, "-o", artifact)
    before = artifact.read_bytes()
    (model / "config.json").unlink()
    check_refusal(tools.run("intarsia-compile", model, "-o", artifact, check=False), "config.json")
    assert artifact.read_bytes() == before


# ---- The artifact ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled(tools, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    tools.compile(write_model(folder / "model"), "-o", folder / "m.itx")
    return folder / "m.itx"


@pytest.fixture
def artifact(compiled, tmp_path) -> Path:
    """A copy that a test may damage."""
    for name in ("m.itx", "m.safetensors"):
        (tmp_path / name).write_bytes((compiled.parent / name).read_bytes())
    return tmp_path / "m.itx"


def load_refused(tools, artifact: Path, *parts: str) -> None:
    check_refusal(tools.run("intarsia-run", artifact, "--list", check=False), *parts)


def test_artifact_is_missing(tools, tmp_path):
    load_refused(tools, tmp_path / "none.itx", "none.itx")


@pytest.mark.parametrize("kept", [0, 1, 63, 64, 1000, 0.5, 0.9, -1])
def test_artifact_is_truncated(tools, artifact, kept):
    data = artifact.read_bytes()
    artifact.write_bytes(data[: int(kept * len(data)) if 0 < kept < 1 and isinstance(kept, float) else kept])
    load_refused(tools, artifact, "m.itx")


def test_artifact_with_a_flipped_bit(tools, artifact):
    data = artifact.read_bytes()
    for position in range(0, len(data), max(1, len(data) // 60)):
        broken = bytearray(data)
        broken[position] ^= 0x10
        artifact.write_bytes(broken)
        load_refused(tools, artifact, "m.itx")


def test_artifact_of_another_version(tools, artifact):
    data = bytearray(artifact.read_bytes())
    # The header begins with the magic; the format version follows it as 32 bits.
    position = data.index(b"ITXMOD\0\1") + 8
    (version,) = struct.unpack_from("<I", data, position)
    struct.pack_into("<I", data, position, version + 41)
    artifact.write_bytes(data)
    load_refused(tools, artifact, "m.itx", "version", str(version + 41))


def test_a_shared_object_that_is_no_artifact(tools, artifact):
    artifact.write_bytes(Path("/lib/x86_64-linux-gnu/libm.so.6").read_bytes())
    load_refused(tools, artifact, "m.itx")


def test_weights_file_is_missing(tools, artifact):
    artifact.with_name("m.safetensors").unlink()
    load_refused(tools, artifact, "m.safetensors")


def test_weights_file_is_truncated(tools, artifact):
    path = artifact.with_name("m.safetensors")
    path.write_bytes(path.read_bytes()[:-4])
    load_refused(tools, artifact, "m.safetensors")


def test_weights_file_that_is_written_to_after_it_was_loaded(tools, artifact):
    """A call returns an error where the file has another size; a file that has got the name is not looked at."""
    weights = artifact.with_suffix(".safetensors")
    whole = weights.read_bytes()
    module = intarsia.load(artifact)
    inputs = {"input_ids": np.ones((1, 3), np.int64)}
    expected = module.main(**inputs)
    os.truncate(weights, 4096)
    with pytest.raises(intarsia.CorruptError, match=r"m\.safetensors: has 4096 bytes, it had \d+.*load again"):
        module.main(**inputs)
    weights.write_bytes(whole)  # the same file again
    np.testing.assert_array_equal(module.main(**inputs), expected)
    other = weights.with_name("other")
    other.write_bytes(bytes(64))
    other.rename(weights)
    np.testing.assert_array_equal(module.main(**inputs), expected)


def test_weights_of_a_daemon(artifact):
    """A process that closes all descriptors keeps its mapping, even if other files get their numbers."""
    program = """import os, sys, numpy, intarsia
module = intarsia.load(sys.argv[1])
inputs = {"input_ids": numpy.ones((1, 3), numpy.int64)}
expected = module.main(**inputs)
for others in (0, 64):
    os.closerange(3, 256)
    opened = [open("/etc/hostname") for _ in range(others)]
    numpy.testing.assert_array_equal(module.main(**inputs), expected)
"""
    done = subprocess.run([sys.executable, "-c", program, artifact], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_weights_file_of_another_model(tools, artifact):
    path = artifact.with_name("m.safetensors")
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    load_refused(tools, artifact, "m.safetensors")


def test_verify_finds_a_changed_weight(tools, artifact):
    path = artifact.with_name("m.safetensors")
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    check_refusal(tools.run("intarsia-run", artifact, "--list", "--verify", check=False), "m.safetensors")


def test_cpu_lacks_what_the_artifact_needs(tools, model):
    """An emulated CPU of 2008 refuses AVX-512 code, and says what it lacks and what to do; that then works."""

    def run_emulated(artifact: Path) -> subprocess.CompletedProcess[str]:
        np.save(model.parent / "ids.npy", IDS)
        runner = tools.build / "bin" / "intarsia-run"  # the emulator runs no sanitizers
        command = ["qemu-x86_64", "-cpu", "Nehalem", runner, artifact, f"--input=input_ids=@{model.parent}/ids.npy"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    artifact = model.parent / "v4.itx"
    tools.compile(model, "-o", artifact, "--target=cpu:x86-64-v4")
    result = run_emulated(artifact)
    check_refusal(result, "x86-64-v4", "avx", "--target=")
    advice = re.search(r"--target=[-:\w]+", result.stderr)[0]
    tools.compile(model, "-o", artifact, advice)
    result = run_emulated(artifact)
    assert result.returncode == 0, result.stderr


def test_artifact_for_another_architecture(tools, model):
    artifact = model.parent / "arm.itx"
    tools.compile(model, "-o", artifact, "--target=cpu:aarch64")
    load_refused(tools, artifact, "aarch64", "--target")


# ---- Calls ----------------------------------------------------------------------------------------------------------

IDS = np.array([[1, 2, 3, 4]], dtype=np.int64)


def call_refused(tools, artifact: Path, inputs: dict[str, np.ndarray], *parts: str, flags: tuple = ()) -> None:
    arguments = []
    for name, array in inputs.items():
        np.save(artifact.parent / f"{name}.npy", array)
        arguments.append(f"--input={name}=@{artifact.parent / name}.npy")
    output = artifact.parent / "out.npy"
    result = tools.run("intarsia-run", artifact, *arguments, *flags, f"--output=@{output}", check=False)
    check_refusal(result, *parts)
    assert not output.exists()


@pytest.mark.parametrize(
    ("inputs", "parts"),
    [
        ({}, ("input_ids",)),
        ({"input_idz": IDS}, ("input_idz", "input_ids", "attention_mask")),
        ({"input_ids": IDS[0]}, ("input_ids", "1", "2")),
        ({"input_ids": IDS.astype(np.float32)}, ("input_ids", "f32", "i64")),
        ({"input_ids": IDS + 46}, ("input_ids", "50", "[0, 3]")),
        ({"input_ids": -IDS}, ("input_ids", "-1", "[0, 0]")),
        ({"input_ids": np.ones((1, POSITIONS + 1), dtype=np.int64)}, ("sequence", "17", "16")),
        ({"input_ids": IDS, "attention_mask": np.ones((1, 5), dtype=np.int64)}, ("sequence", "4", "5")),
        ({"input_ids": IDS, "attention_mask": np.ones((2, 4), dtype=np.int64)}, ("batch", "1", "2")),
        ({"input_ids": IDS, "token_type_ids": IDS}, ("token_type_ids", "2")),
    ],
)
def test_inputs(tools, artifact, inputs, parts):
    call_refused(tools, artifact, inputs, *parts)


def test_static_dimension(tools, tmp_path):
    source = tmp_path / "negate.mlir"
    source.write_text("""
func.func @main(%x: tensor<?x4xf32> {nn.name = "x", nn.sizes = ["n", ""]})
    -> (tensor<?x4xf32> {nn.name = "y", nn.sizes = ["n", ""]}) {
  %0 = arith.negf %x : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
""")
    tools.compile(source, "-o", tmp_path / "negate.itx")
    call_refused(tools, tmp_path / "negate.itx", {"x": np.zeros((2, 5), dtype=np.float32)}, "x", "5", "4")


def test_unknown_function(tools, artifact):
    call_refused(tools, artifact, {"input_ids": IDS}, "embed", "main", flags=("--function=embed",))


@pytest.mark.parametrize("kept", [0, 5, 10, 60, -1])
def test_truncated_npy(tools, artifact, kept):
    path = artifact.parent / "x.npy"
    np.save(path, IDS)
    path.write_bytes(path.read_bytes()[:kept])
    result = tools.run("intarsia-run", artifact, f"--input=input_ids=@{path}", check=False)
    check_refusal(result, "x.npy")


def test_npy_that_holds_objects(tools, artifact):
    path = artifact.parent / "x.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    result = tools.run("intarsia-run", artifact, f"--input=input_ids=@{path}", check=False)
    check_refusal(result, "x.npy")


def test_output_of_a_run_is_not_writable(tools, artifact):
    np.save(artifact.parent / "x.npy", IDS)
    output = artifact.parent / "no" / "y.npy"
    result = tools.run(
        "intarsia-run", artifact, f"--input=input_ids=@{artifact.parent}/x.npy", f"--output=@{output}", check=False
    )
    check_refusal(result, "y.npy")
