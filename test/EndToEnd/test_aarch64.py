# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""AArch64: cross-compiled here, run by a cross-built runtime under qemu."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import intarsia
import numpy as np
import pytest
from block_formats import activation_block
from random_numbers import normal
from safetensors.numpy import save_file
from test_encoder_precision import LEAST_COSINE
from test_quantized_attention import attention_program, mask_of
from test_quantized_attention import check as check_attention
from test_quantized_linears import activations, program, weight_of
from test_token_linears import WIDE, pair

SOURCE = Path(__file__).resolve().parents[2]
QEMU = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
# As in test_minilm.py.
TOLERANCE = 1e-5
# Targets with the processors of qemu that have their features and little more. Without dotprod bytes are widened and
# multiplied, with it they are multiplied by sdot, with i8mm by usdot.
PROCESSORS = {"aarch64": "cortex-a72", "aarch64+dotprod": "neoverse-n1", "aarch64+dotprod+i8mm": "max"}


class Emulated:
    """A module that qemu runs, called as `intarsia.load` has it."""

    def __init__(self, runner: Path, artifact: Path, cpu: str, names: str = "x") -> None:
        self.command = [*QEMU, "-cpu", cpu, runner, artifact]
        self.artifact, self.names = artifact, names.split()

    def run(self, inputs: Mapping[str, np.ndarray], result: str) -> subprocess.CompletedProcess[str]:
        """Run it on inputs by name, and leave a result in a file."""
        flags = []
        for name, value in inputs.items():
            np.save(self.artifact.with_suffix(f".{name}.npy"), np.ascontiguousarray(value))
            flags.append(f"--input={name}=@{self.artifact.with_suffix(f'.{name}.npy')}")
        flags.append(f"--output={result}=@{self.artifact.with_suffix('.result.npy')}")
        return subprocess.run([*self.command, *flags], capture_output=True, text=True, timeout=300)

    def main(self, *inputs: np.ndarray, result: str = "y") -> np.ndarray:
        ran = self.run(dict(zip(self.names, inputs, strict=True)), result)
        assert ran.returncode == 0, ran.stderr
        return np.load(self.artifact.with_suffix(".result.npy"))


@pytest.fixture(scope="module")
def runner() -> Path:
    """Build intarsia-run for AArch64, in one of the processes that run tests at a time."""
    with (SOURCE / "build" / "aarch64.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = subprocess.run(
            [SOURCE / "scripts" / "build.sh", "aarch64-debug", "intarsia-run"],
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return SOURCE / "build" / "aarch64-debug" / "bin" / "intarsia-run"


@pytest.fixture(scope="module")
def tokens(minilm_golden) -> dict[str, np.ndarray]:
    """Give two sentences: the emulator is about a hundred times slower than the machine."""
    length = int(minilm_golden["attention_mask"][:2].sum(1).max())
    return {name: minilm_golden[name][:2, :length] for name in ("input_ids", "attention_mask")}


def compiled(tools, folder: Path, text: str, weights: dict[str, np.ndarray], target: str, *flags: str) -> Path:
    """Compile a program whose archive @weights holds the given tensors, for a processor."""
    folder.mkdir(parents=True, exist_ok=True)
    if weights:
        save_file(weights, folder / "w.safetensors")
        text = 'nn.archive @weights {file = "w.safetensors"}\n' + text
    (folder / "m.mlir").write_text(text)
    artifact = folder / f"{target}.itx"
    tools.compile(folder / "m.mlir", "-o", artifact, f"--target=cpu:{target}", *flags)
    return artifact


def byte_products(artifact: Path) -> set[str]:
    """Return the instructions in an artifact's machine code that multiply bytes."""
    disassembler = shutil.which("llvm-objdump-22") or shutil.which("llvm-objdump", path="/usr/lib/llvm-22/bin")
    assert disassembler, "llvm-objdump of LLVM 22 is missing (package llvm-22)"
    listing = subprocess.run([disassembler, "-d", "--mattr=+all", artifact], capture_output=True, text=True, check=True)
    return set(re.findall(r"\b(?:sdot|udot|usdot|sudot|smmla|ummla|usmmla)\b", listing.stdout))


@pytest.mark.parametrize("cpu", ["cortex-a72", pytest.param("max", marks=pytest.mark.slow)])
def test_minilm(tools, minilm_dir, minilm_golden, tokens, runner, scratch, cpu):
    artifact = scratch / "arm.itx"
    if not artifact.exists():
        tools.compile(minilm_dir, "-o", artifact, "--target=cpu:aarch64")
    actual = Emulated(runner, artifact, cpu, " ".join(tokens)).main(*tokens.values(), result="last_hidden_state")
    mask = tokens["attention_mask"]
    error = np.abs(actual - minilm_golden["last_hidden_state"][: len(mask), : mask.shape[1]])[mask != 0].max()
    print(f"largest error on {cpu}: {error:.2e}")
    assert error <= TOLERANCE


@pytest.mark.parametrize(
    "target", [pytest.param(one, marks=() if one == "aarch64+dotprod" else pytest.mark.slow) for one in PROCESSORS]
)
def test_minilm_in_8_bits(tools, minilm_dir, minilm_golden, tokens, runner, scratch, target):
    artifact = scratch / f"int8-{target}.itx"
    tools.compile(minilm_dir, "-o", artifact, "--quantize=int8", f"--target=cpu:{target}")
    module = Emulated(runner, artifact, PROCESSORS[target], " ".join(tokens))
    actual = module.main(*tokens.values(), result="last_hidden_state")
    mask = tokens["attention_mask"][..., None]
    expected = minilm_golden["last_hidden_state"][: len(mask), : mask.shape[1]]
    actual, expected = ((rows * mask).sum(1) for rows in (actual, expected))
    cosines = (actual * expected).sum(-1) / np.linalg.norm(actual, axis=-1) / np.linalg.norm(expected, axis=-1)
    print(f"cosines {cosines.min():.5f} … {cosines.max():.5f}")
    assert cosines.min() >= LEAST_COSINE
    assert cosines.max() < 1 - 1e-6


FORMATS = {
    "8-wide": ["--quantize=int8"],
    "8-token": ["--quantize=int8", "--quantize-activations=8-token"],
    **{
        name: [f"--quantize={name}", "--quantize-activations=8"]
        for name in ("int8", "int8-channel", "int6", "int5-g64", "int4", "int4-asymmetric", "mxfp4", "nvfp4", "ternary")
    },
}


# Products of bytes without instructions for them are those of x86-64; usdot is used as vpdpbusd is, with which
# test_quantized_linears.py tests every format. Factors that both have a sign are AArch64's own.
ALWAYS = {
    "aarch64": ("8-wide", "int4"),
    "aarch64+dotprod": FORMATS,
    "aarch64+dotprod+i8mm": ("8-wide", "int8", "int4", "int4-asymmetric", "ternary"),
}


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(name, target, marks=() if name in ALWAYS[target] else pytest.mark.slow)
        for name in FORMATS
        for target in PROCESSORS
    ],
)
def test_linears_are_those_of_x86(tools, runner, scratch, name, target):
    """Not one bit differs: sums of integers are exact, and floats are added in the same order. What x86-64 computes is
    compared with NumPy by test_quantized_linears.py and test_token_linears.py."""
    features, depth = 70, 600
    weights = {"w": weight_of(features, depth), "b": normal(features)}
    folder = scratch / f"{name}-{target}"
    artifact = compiled(tools, folder, program(features, depth), weights, target, *FORMATS[name])
    expected = {"aarch64": set(), "aarch64+dotprod": {"sdot"}, "aarch64+dotprod+i8mm": {"usdot"}}
    assert byte_products(artifact) == expected[target]
    on_x86 = intarsia.load(compiled(tools, folder, program(features, depth), weights, "x86-64-v3", *FORMATS[name]))
    module = Emulated(runner, artifact, PROCESSORS[target])
    # Each register tile, weights that are unpacked in registers and in memory.
    for rows in (1, 2, 3, 21):
        x = activations(rows, depth, {"8-wide": WIDE, "8-token": depth}.get(name, activation_block(name)))
        y = module.main(x)
        assert np.abs(y).max() > 1
        np.testing.assert_array_equal(y, on_x86.main(x))


@pytest.mark.parametrize("target", PROCESSORS)
@pytest.mark.parametrize(("flags", "depth"), [(FORMATS["8-wide"], 1000), (FORMATS["int8"], 64)])
def test_sums_are_exact(tools, runner, scratch, target, flags, depth):
    """Quantized values at the ends of their range, scales that are powers of two: not one bit may be lost."""
    rng = np.random.default_rng(3)
    weight = rng.choice([-127, 127, 126, 0], (32, depth)).astype(np.float32)
    weight[:, ::32] = 127
    weight[0], weight[1] = 127, -127
    x = rng.choice([-127, 127, 126, 0, -1], (12, depth)).astype(np.float32)
    x[:, ::32] = 127
    x[0], x[1] = 127, -127
    weights = {"w": weight, "b": np.zeros(32, np.float32)}
    artifact = compiled(tools, scratch / f"exact-{depth}", program(32, depth), weights, target, *flags)
    expected = x.astype(np.float64) @ weight.T.astype(np.float64)
    np.testing.assert_array_equal(Emulated(runner, artifact, PROCESSORS[target]).main(x), expected.astype(np.float32))


@pytest.mark.parametrize("target", PROCESSORS)
def test_a_result_is_quantized_where_it_is_computed(tools, runner, scratch, target):
    """The same bits as of a result that is written as floats and quantized where it is read."""
    weights = {"u": weight_of(512, 72), "b": normal(512), "d": weight_of(40, 512)}
    x = activations(3 * 21, 72, 72).reshape(21, 3, 72)
    results = []
    for returns_both in (True, False):
        text = pair(512, 72, returns_both)
        artifact = compiled(tools, scratch / f"pair-{target}-{returns_both}", text, weights, target, "--quantize=int8")
        results.append(Emulated(runner, artifact, PROCESSORS[target]).main(x))
    np.testing.assert_array_equal(*results)
    assert np.abs(results[0]).max() > 1


@pytest.mark.parametrize(
    ("groups", "dims", "kind"), [(2, (64, 64), "boolean"), (1, (20, 33), "causal"), (4, (7, 3), "none")]
)
def test_attention_in_bytes(tools, runner, scratch, groups, dims, kind):
    """Attention has factors without a sign, which usdot multiplies."""
    text, folder = attention_program(4, groups, dims, kind), scratch / f"attention-{groups}"
    artifact = compiled(tools, folder, text, {}, "aarch64+dotprod+i8mm")
    assert byte_products(artifact) == {"usdot"}
    assert byte_products(compiled(tools, folder, text, {}, "aarch64+dotprod")) == set()
    masked = kind == "boolean"
    module = Emulated(runner, artifact, "max", "q k v m" if masked else "q k v")
    for batch, queries, keys in ((2, 5, 9), (1, 40, 150)):
        q, k, v = (
            normal(batch, n, h, d)
            for n, h, d in zip((queries, keys, keys), (4, groups, groups), (dims[0], *dims), strict=True)
        )
        check_attention(module, q, k, v, dims[0] ** -0.5, mask_of(kind, batch, queries, keys), kind == "causal")


def test_the_variant_is_that_of_the_processor(tools, runner, scratch):
    """The best of three that a processor can run; where there is none, the missing feature is named."""
    weights, folder = {"w": weight_of(40, 64), "b": normal(40)}, scratch / "variants"
    both = compiled(tools, folder, program(40, 64), weights, "aarch64,cpu:aarch64+dotprod,cpu:neoverse-v1",
                    "--quantize=int8")  # fmt: skip
    x = activations(5, 64, 64)
    results = []
    for cpu, name in (("cortex-a72", "aarch64"), ("neoverse-n1", "aarch64+dotprod"), ("max", "neoverse-v1")):
        module = Emulated(runner, both, cpu)
        listing = subprocess.run([*module.command, "--list"], capture_output=True, text=True, check=True)
        assert re.search(r"variant (\S+) \(runs on this machine\)", listing.stdout)[1] == name
        results.append(module.main(x))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    alone = compiled(tools, folder, program(40, 64), weights, "aarch64+dotprod", "--quantize=int8")
    refused = Emulated(runner, alone, "cortex-a72").run({"x": x}, "y")
    assert refused.returncode != 0
    assert "dotprod" in refused.stderr
    assert "--target=cpu:aarch64" in refused.stderr
