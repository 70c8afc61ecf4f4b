# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code of a fixed list of kernels for every architecture of GPUs: registers, spills, local memory, wide loads.

The list is the folder gpu_kernels, a program a file, and its programs with other flags. A new program needs a line in
registers.csv, which the failing test prints. Limits there are the most registers with which as many warps fit on a
multiprocessor as with those that the kernel had when the line was written: fewer are always good.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "gpu_kernels"
CUDA = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
HIP = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
ALL = CUDA + HIP
STORED = PROGRAMS / "linear_stored.mlir"
#: Programs by name, each with the arguments that it is compiled with.
KERNELS: dict[str, tuple[Path, tuple[str, ...]]] = {
    **{path.stem: (path, ()) for path in sorted(PROGRAMS.glob("*.mlir")) if path != STORED},
    "linear_tf32": (PROGRAMS / "linear_f32.mlir", ("--matmul-precision=tf32",)),
    "linear_int4": (STORED, ("--quantize=int4", "--matmul-precision=f16")),
    "linear_nvfp4": (STORED, ("--quantize=nvfp4", "--matmul-precision=bf16")),
    "linear_int8": (STORED, ("--quantize=int8", "--matmul-precision=f16")),
    "linear_fp8": (STORED, ("--quantize=fp8", "--quantize-activations=fp8")),
    "linear_mxfp4_inputs": (STORED, ("--quantize=mxfp4", "--quantize-activations=mxfp4")),
    "linear_nvfp4_inputs": (STORED, ("--quantize=nvfp4", "--quantize-activations=nvfp4")),
    **{
        f"{name}_rounded_{precision}": (PROGRAMS / f"{name}.mlir", (f"--matmul-precision={precision}",))
        for name, precision in [
            ("attention", "f16"),
            ("attention", "bf16"),
            ("matmul", "f16"),
            ("cache_f16", "bf16"),
            ("cache_fp8", "f16"),
            ("cache_int8", "f16"),
            ("cache_int8", "bf16"),
            ("cache_int4", "f16"),
        ]
    },
}
#: Kernels whose code must have what INSTRUCTIONS says, on all architectures.
BY_MATRICES = ("matrix instructions", "global loads of 16 bytes")
NEEDED = {
    "linear_f32": ("shared loads of 16 bytes",),
    "linear_f32_epilogue": ("shared loads of 16 bytes",),
    "conv_f16": BY_MATRICES,
    "linear_f16": BY_MATRICES,
    "linear_bf16": BY_MATRICES,
    "linear_int4": BY_MATRICES,
    "linear_int8": BY_MATRICES,
    "linear_fp8": BY_MATRICES,
    "linear_mxfp4_inputs": BY_MATRICES,
    "linear_nvfp4_inputs": BY_MATRICES,
    "linear_nvfp4": BY_MATRICES,
    "attention_f16": BY_MATRICES,
    "attention_wide_f16": BY_MATRICES,
    "cache_f16": BY_MATRICES,
    "cache_fp8": ("matrix instructions",),
    "attention_rounded_f16": BY_MATRICES,
    "attention_rounded_bf16": BY_MATRICES,
    "matmul_rounded_f16": ("matrix instructions",),
    "cache_f16_rounded_bf16": BY_MATRICES,
    "cache_fp8_rounded_f16": ("matrix instructions",),
    "cache_int8_rounded_f16": ("matrix instructions",),
    "cache_int8_rounded_bf16": ("matrix instructions",),
    "cache_int4_rounded_f16": ("matrix instructions",),
    "rms_norm": ("global loads of 16 bytes",),
    "softmax": ("global loads of 16 bytes",),
    "experts": BY_MATRICES,
}
#: Programs whose attention is computed by four warps together on Hopper.
BY_WARPGROUPS = ("attention_f16", "attention_wide_f16", "cache_f16")
#: Kernels whose operands nobody permitted to be rounded.
WITHOUT_MATRICES = ("attention", "cache_int4", "cache_int8")
#: How an instruction reads in PTX and in the vendor's listing for AMD's GPUs.
INSTRUCTIONS = {
    "shared loads of 16 bytes": (
        r"\bld\.shared\.(v4\.[a-z]?32|v2\.[a-z]?64|b128)",
        r"\bds_(read|load)(_b128|2(st64)?_b64)",
    ),
    "global loads of 16 bytes": (
        r"\bld\.global[.\w]*\.(v4\.[a-z]?32|v2\.[a-z]?64)|\bcp\.async\b.*, 16",
        r"\b(global|buffer)_load_(dwordx4|b128)",
    ),
    "matrix instructions": (r"\b(mma|wgmma)\.", r"\bv_(mfma|wmma)_"),
}  # fmt: skip
# Of a multiprocessor of NVIDIA's: 65536 registers, given to warps in units of 256, and these many warps, a quarter of
# them in each of its parts (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"). Of a SIMD of
# AMD's: registers of a lane, the unit that a wave gets, and waves (LLVM, AMDGPUBaseInfo: getTotalNumVGPRs,
# getVGPRAllocGranule, getMaxWavesPerEU).
NVIDIA_WARPS = {"sm_80": 64, "sm_86": 48, "sm_89": 48, "sm_90a": 64, "sm_100a": 64, "sm_120a": 48}
AMD_REGISTERS = {
    "gfx90a": (512, 8, 8),
    "gfx942": (512, 8, 8),
    "gfx950": (512, 8, 8),
    "gfx1100": (1536, 24, 16),
    "gfx1201": (1536, 24, 16),
}


def limit(architecture: str, registers: int) -> int:
    """Return the most registers with which as many warps fit as with this number."""
    if architecture in CUDA:
        warps = min(NVIDIA_WARPS[architecture], 65536 // (-(-registers // 8) * 8 * 32) // 4 * 4)
        return min(255, 65536 // warps // 32 // 8 * 8)
    total, unit, most = AMD_REGISTERS[architecture]
    waves = min(most, total // (-(-registers // unit) * unit))
    return min(512 if total == 512 else 256, total // waves // unit * unit)


@dataclass
class Compiled:
    """A program that was compiled for all architectures."""

    name: str
    functions: dict[str, list[dict[str, object]]]  # by architecture, as --explain says
    code: Path  # folder of --dump-code
    listings: dict[str, str] = field(default_factory=dict)  # by architecture, of those that a test has asked for

    @property
    def cuda(self) -> list[str]:
        return [one for one in CUDA if one in self.functions]

    def largest(self, architecture: str, fact: str) -> int:
        return max(int(function[fact]) for function in self.functions[architecture])

    def listing(self, architecture: str) -> str:
        """Give the PTX, or the disassembled machine code."""
        if architecture not in self.listings:
            self.listings[architecture] = (
                (self.code / f"cuda.{architecture}.ptx").read_text()
                if architecture in CUDA
                else disassembled(self.code / f"hip.{architecture}.hsaco")
            )
        return self.listings[architecture]


def disassembled(path: Path) -> str:
    program = shutil.which("llvm-objdump-22") or shutil.which("llvm-objdump", path="/usr/lib/llvm-22/bin")
    assert program, "llvm-objdump of LLVM 22 is missing (package llvm-22)"
    return subprocess.run([program, "-d", str(path)], capture_output=True, text=True, check=True).stdout


def overwritten_factors(function: str) -> tuple[list[str], int]:
    """Return instructions of PTX that write a register while a `wgmma` reads it, and how many `wgmma` read registers.

    A product reads its factors in registers until somebody has waited for its group (PTX ISA, "Asynchronous
    warpgroup-level matrix instructions"); neither LLVM nor ptxas looks after them.
    """
    lines = [line.strip() for line in function.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("//", "."))]
    labels = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(":")}
    begun = {at: set(re.findall(r"%r\d+", found[1])) for at, line in enumerate(lines)
             if (found := re.search(r"wgmma\.mma_async.*?\}, \{([^}]*)\}", line))}  # fmt: skip

    def written(line: str) -> set[str]:
        if "wgmma.mma_async" in line:
            return set(re.findall(r"%r\d+", line.partition("{%")[2].partition("}")[0]))
        opcode, _, operands = re.sub(r"^@!?%p\d+\s+", "", line).partition(" ")
        if opcode.split(".")[0] in ("st", "cp", "bar", "bra", "wgmma", "fence", "red", "ret"):
            return set()
        first = operands.strip()
        return set(re.findall(r"%r\d+", first[1 : first.index("}")] if first[:1] == "{" else first.partition(",")[0]))

    wrong = []
    for start, factors in begun.items():
        # A place, and how many groups were committed behind the product's own; -1: that one was not.
        todo, seen = [(start + 1, -1)], set()
        while todo:
            at, groups = todo.pop()
            if (at, groups) in seen or at >= len(lines):
                continue
            seen.add((at, groups))
            line = lines[at]
            if line.startswith("wgmma.commit_group"):
                groups += 1
            elif (waits := re.match(r"wgmma\.wait_group\S* (\d+)", line)) and 0 <= groups >= int(waits[1]):
                continue
            if written(line) & factors:
                wrong.append(line)
                continue
            if target := re.search(r"\bbra(?:\.uni)?\s+(\S+);", line):
                todo.append((labels[target[1]], groups))
                if not line.startswith("@"):
                    continue
            if line != "ret;":
                todo.append((at + 1, groups))
    return wrong, len(begun)


pytestmark = pytest.mark.cpu_only


#: Kernels that have a sibling of another type or rounding.
SIBLINGS = [
    "attention",
    "attention_rounded_bf16",
    "cache_bf16",
    "cache_f16_rounded_bf16",
    "cache_fp8",
    "cache_int4",
    "cache_int4_rounded_f16",
    "cache_int8_rounded_bf16",
    "cache_int8_rounded_f16",
    "linear_bf16",
    "linear_f32",
    "linear_int4",
    "linear_mxfp4_inputs",
    "linear_nvfp4",
    "linear_tf32",
    "matmul_rounded_f16",
]


def architectures_for(name: str) -> list[str]:
    """Return the architectures that a program is compiled for.

    The code for sm_86 is that for sm_89, which has the same sizes, but for floats of 8 bits: `make test-slow` has it too.
    """
    has_all = name == "linear_fp8" or name not in limits() or os.environ.get("INTARSIA_TEST_SLOW")
    return [one for one in ALL if one != "sm_86" or has_all]


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow if name in SIBLINGS else ()) for name in KERNELS],
)
def compiled(request: pytest.FixtureRequest, tools, folder: Path) -> Compiled:
    name = request.param
    program, flags = KERNELS[name]
    if program == STORED:
        program = Path(shutil.copy(program, folder))
        save_file({"w": np.zeros((512, 768), np.float32)}, folder / "w.safetensors")
    targets = ",".join(f"{'cuda' if one in CUDA else 'hip'}:{one}" for one in architectures_for(name))
    artifact, why = folder / f"{name}.itx", folder / f"{name}.json"
    tools.compile(program, *flags, "-o", artifact, f"--target={targets}", f"--explain={why}")
    functions: dict[str, list[dict[str, object]]] = {}
    for function in json.loads(why.read_text())["functions"]:
        functions.setdefault(str(function["variant"]), []).append(function)
    code = folder / name
    tools.run("intarsia-run", artifact, f"--dump-code={code}")
    artifact.unlink()
    return Compiled(name, functions, code)


def limits() -> dict[str, dict[str, int]]:
    """Read the largest numbers of registers by program and architecture."""
    with (PROGRAMS / "registers.csv").open() as file:
        return {
            row.pop("program"): {key: int(value) for key, value in row.items() if value}
            for row in csv.DictReader(line for line in file if not line.startswith("#"))
        }


def test_code_for_every_architecture(compiled: Compiled) -> None:
    assert sorted(compiled.functions) == sorted(architectures_for(compiled.name))
    names = {path.name for path in compiled.code.iterdir()}
    assert names >= {f"cuda.{one}.ptx" for one in compiled.cuda} | {f"hip.{one}.hsaco" for one in HIP}
    for architecture in compiled.cuda:
        text = compiled.listing(architecture)
        assert re.search(rf"^\.target {architecture}$", text, flags=re.MULTILINE)
        assert text.count(".visible .entry") == text.count(".reqntid") == len(compiled.functions[architecture])


def test_factors_live_until_their_products_end(compiled: Compiled) -> None:
    """What attention multiplies values by is not overwritten by the powers of the next keys."""
    wrong, products = overwritten_factors(compiled.listing("sm_90a"))
    assert not wrong, compiled.name
    assert products or compiled.name not in ("attention_f16", "attention_wide_f16", "cache_f16")


def test_registers_and_spills(compiled: Compiled) -> None:
    measured = [
        one for one in compiled.functions if all("registers" in function for function in compiled.functions[one])
    ]
    assert set(HIP) <= set(measured)
    table = limits().get(compiled.name, {})
    missing = [one for one in measured if one not in table]
    line = ",".join(str(limit(one, compiled.largest(one, "registers"))) if one in measured else "" for one in ALL)
    assert not missing, f"registers.csv needs a line on this program:\n{compiled.name},{line}"
    for architecture in measured:
        where = f"{compiled.name} on {architecture}"
        assert compiled.largest(architecture, "registers") <= table[architecture], where
        assert compiled.largest(architecture, "spilled_bytes") == 0, where
        assert compiled.largest(architecture, "local_bytes") == 0, where


def test_instructions(compiled: Compiled) -> None:
    for architecture in compiled.functions:
        if needed := NEEDED.get(compiled.name):
            text = compiled.listing(architecture)
            for what in needed:
                assert re.search(INSTRUCTIONS[what][architecture in HIP], text), f"no {what} on {architecture}"
        if compiled.name in WITHOUT_MATRICES:
            assert not re.search(
                INSTRUCTIONS["matrix instructions"][architecture in HIP], compiled.listing(architecture)
            )


def test_products_do_not_wait_for_memory(compiled: Compiled) -> None:
    """On AMD's GPUs the next tile is loaded before this one is multiplied, and waited for after it."""
    if compiled.name != "linear_f16":
        return
    # The instruction that multiplies, how many of them a warp has for a large tile, and the one that waits for loads.
    for architecture, product, count, wait in (
        ("gfx90a", "v_mfma", 32, "vmcnt("),
        ("gfx942", "v_mfma", 32, "vmcnt("),
        ("gfx950", "v_mfma", 16, "vmcnt("),
        ("gfx1100", "v_wmma", 16, "vmcnt("),
        ("gfx1201", "v_wmma", 16, "s_wait_loadcnt"),
    ):
        parts = re.split(r"s_barrier(?!_signal)", compiled.listing(architecture))
        tiles = [part for part in parts if part.count(product) == count and part.count("global_load_") >= 4]
        assert tiles, architecture
        for tile in tiles:
            last = tile.rindex(product)
            assert tile.index("global_load_") < tile.index(product), architecture
            assert tile.find(wait) == -1 or tile.index(wait) > last, architecture


def test_tensor_copies_on_hopper(compiled: Compiled) -> None:
    """Linears of 16-bit floats take tensor maps by value on Hopper; no other kernel does, and no other architecture."""
    for architecture in compiled.cuda:
        text = compiled.listing(architecture)
        has_copies = architecture == "sm_90a" and compiled.name in ("linear_f16", "linear_bf16")
        for what in (
            r"\.param \.align 64 \.b8 \w+\[128\]",
            r"cp\.async\.bulk\.tensor\.2d\.shared::cluster\.global\.mbarrier::complete_tx::bytes",
            r"mbarrier\.try_wait\.parity",
            r"setmaxnreg\.inc\.sync\.aligned\.u32 232",
        ):
            assert bool(re.search(what, text)) == has_copies, f"{what} on {architecture}"
        if has_copies:
            element = compiled.name.removeprefix("linear_")
            assert f"wgmma.mma_async.sync.aligned.m64n256k16.f32.{element}.{element}" in text
            assert ".local" not in text
            # With fewer at the start of a block, setmaxnreg would wait for ever for those that consumers want.
            tiled = [one for one in compiled.functions[architecture] if one["threads"] == 384]
            assert len(tiled) == 3, "of small tiles, of large ones, and of large ones that blocks share"
            assert {one["registers"] for one in tiled if "registers" in one} <= {168}


def test_matrix_instructions_of_four_warps(compiled: Compiled) -> None:
    """Hopper's attention has them, and no other architecture."""
    if compiled.name in BY_WARPGROUPS:
        found = [one for one in compiled.cuda if "wgmma.mma_async" in compiled.listing(one)]
        assert found == ["sm_90a"]


def test_floats_of_8_bits(compiled: Compiled) -> None:
    """Instructions of E4M3 where there are some, for many rows and nowhere else."""
    if compiled.name != "linear_fp8":
        return
    for architecture in compiled.functions:
        found = re.search(r"\b(mma|wgmma)\S*\.e4m3\.e4m3|\bv_(mfma|wmma)\w*fp8_fp8", compiled.listing(architecture))
        assert bool(found) == (architecture not in ("sm_80", "sm_86", "sm_100a", "gfx90a", "gfx1100")), architecture


def test_floats_of_4_bits(compiled: Compiled) -> None:
    """Instructions that take scales of E2M1 where there are some, for many rows and nowhere else."""
    kind, natively = {
        "linear_mxfp4_inputs": (r"kind::mxf4\.block_scale\.scale_vec::2X\.f32\.e2m1\.e2m1\.f32\.ue8m0",
                                ("sm_120a", "gfx950")),
        "linear_nvfp4_inputs": (r"kind::mxf4nvf4\.block_scale\.scale_vec::4X\.f32\.e2m1\.e2m1\.f32\.ue4m3",
                                ("sm_120a",)),
    }.get(compiled.name, ("", ()))  # fmt: skip
    if not kind:
        return
    for architecture in compiled.functions:
        text = compiled.listing(architecture)
        found = re.search(rf"\bmma\S*\.{kind}|\bv_mfma_scale_f32_16x16x128_f8f6f4 .*cbsz:4 blgp:4", text)
        assert bool(found) == (architecture in natively), architecture


def test_metadata_is_that_of_the_object(compiled: Compiled) -> None:
    """What the manifest says of AMD's kernels is what LLVM's own reader shows."""
    program = shutil.which("llvm-readelf-22")
    if not program:
        pytest.skip("llvm-readelf of LLVM 22 is not here")
    keys = {"vgpr_count": "registers", "sgpr_count": "scalar_registers", "private_segment_fixed_size": "local_bytes"}
    for architecture in HIP:
        path = compiled.code / f"hip.{architecture}.hsaco"
        notes = subprocess.run([program, "--notes", str(path)], capture_output=True, text=True, check=True).stdout
        shown = {}
        for kernel in re.split(r"^  - ", notes, flags=re.MULTILINE)[1:]:
            facts = dict(re.findall(r"\.(\w+): +(\w+)", kernel))
            if "vgpr_count" in facts:
                shown[re.search(r"\.name: +(itx_\w+)", kernel)[1]] = {
                    ours: int(facts[key]) for key, ours in keys.items()
                }
        said = {
            function["function"]: {ours: function[ours] for ours in keys.values()}
            for function in compiled.functions[architecture]
        }
        assert shown == said


def test_artifacts_say_what_functions_take(tools, folder: Path) -> None:
    """The manifest has the table of --explain."""
    artifact, why, manifest = folder / "softmax.itx", folder / "why.json", folder / "manifest.json"
    tools.compile(PROGRAMS / "softmax.mlir", "-o", artifact, "--target=hip:gfx942,emulated:sm_80", f"--explain={why}")
    subprocess.run(["llvm-objcopy-22", f"--dump-section=.itx.manifest={manifest}", artifact, "/dev/null"], check=True)
    explained = json.loads(why.read_text())["functions"]
    listed = []
    for device in json.loads(manifest.read_text())["devices"]:
        for one in device["objects"]:
            listed += [
                {"device": device["name"], "variant": one["variant"]} | function for function in one["functions"]
            ]
    assert listed == explained
    assert [row["variant"] for row in explained] == ["gfx942", "sm_80"]
    hip, emulated = explained
    assert hip["threads"] == emulated["threads"] == 256
    assert (hip["blocks"], emulated["blocks"]) == ("s0 4 ceildiv", "s0 8 ceildiv"), "a row for each warp"
    assert {"registers", "spilled_bytes", "local_bytes", "scalar_registers", "spilled_scalars"} <= hip.keys()
    assert "registers" not in emulated, "the host's registers say nothing"


def test_explained_decisions_stay(tools, folder: Path) -> None:
    """The table is added to the decisions; where no device counts registers, nothing is."""
    alone, beside = folder / "alone.json", folder / "beside.json"
    program = PROGRAMS / "linear_f32_epilogue.mlir"
    tools.compile(
        program, "--stop-after=fuse", "-o", folder / "fused.mlir", "--target=hip:gfx942", f"--explain={alone}"
    )
    tools.compile(program, "-o", folder / "e.itx", "--target=hip:gfx942", f"--explain={beside}")
    table = json.loads(beside.read_text())
    assert table.pop("functions")
    assert table == json.loads(alone.read_text())
    tools.compile(program, "-o", folder / "e.itx", "--target=cpu", f"--explain={beside}")
    assert "functions" not in json.loads(beside.read_text())


def test_dumped_code(tools, folder: Path) -> None:
    program, artifact, code = PROGRAMS / "softmax.mlir", folder / "dump.itx", folder / "dumped"
    tools.compile(program, "-o", artifact, "--target=hip:gfx942,reference,emulated:sm_80")
    result = tools.run("intarsia-run", artifact, f"--dump-code={code}")
    written = sorted(path.name for path in code.iterdir())
    assert sorted(result.stdout.split()) == written
    assert [name.split(".")[0] for name in written] == ["emulated", "hip", "reference"]
    assert (code / "hip.gfx942.hsaco").read_bytes()[:4] == b"\x7fELF"
    assert (code / "emulated.sm_80.host").read_bytes()[:4] == b"\x7fELF"
    tools.compile(program, "-o", artifact, "--target=cpu")
    result = tools.run("intarsia-run", artifact, f"--dump-code={code}", check=False)
    assert result.returncode == 1
    assert "has code for the host's CPU alone" in result.stderr
    artifact.write_bytes(artifact.read_bytes()[:-100])
    result = tools.run("intarsia-run", artifact, f"--dump-code={code}", check=False)
    assert result.returncode == 1
    assert "is truncated" in result.stderr


def test_require_cubin(tools, folder: Path) -> None:
    """Without ptxas the flag is an error before anything is compiled; without the flag there is PTX alone."""
    artifact, nowhere = folder / "cubin.itx", folder / "nowhere"
    nowhere.mkdir()
    arguments = ("intarsia-compile", PROGRAMS / "softmax.mlir", "-o", artifact, "--target=cuda:sm_80", "--verbose")
    result = tools.run(*arguments, "--require-cubin", check=False, environment={"PATH": str(nowhere)})
    assert result.returncode == 1
    assert not artifact.exists()
    assert result.stderr == (
        f"error: --require-cubin: target 'cuda:sm_80' needs 'ptxas', which is in none of the folders of PATH ({nowhere}): "
        "install the CUDA toolkit or add its folder 'bin' to PATH; without the flag the GPU's driver makes machine code "
        "when it loads the artifact\n"
    )
    tools.run(*arguments, environment={"PATH": str(nowhere)})
    assert tools.run("intarsia-run", artifact, f"--dump-code={folder / 'ptx'}").stdout == "cuda.sm_80.ptx\n"
    # IR that names its target is refused as soon as it is read.
    lowered = folder / "lowered.mlir"
    tools.compile(PROGRAMS / "softmax.mlir", "-o", lowered, "--target=cuda:sm_80", "--stop-after=lower")
    again = ("intarsia-compile", lowered, "--start-from=target", "-o", folder / "again.itx", "--require-cubin")
    result = tools.run(*again, check=False, environment={"PATH": str(nowhere)})
    assert result.returncode == 1
    assert "target 'cuda:sm_80' needs 'ptxas'" in result.stderr
    if shutil.which("ptxas"):
        tools.run(*again)
        listed = tools.run("intarsia-run", folder / "again.itx", f"--dump-code={folder / 'both'}").stdout
        assert listed.split() == ["cuda.sm_80.cubin", "cuda.sm_80.ptx"]


def test_limits_are_steps_of_occupancy() -> None:
    assert [limit("sm_80", registers) for registers in (20, 32, 33, 48, 64, 65, 128, 129, 255)] == [
        32, 32, 40, 48, 64, 72, 128, 168, 255,
    ]  # fmt: skip
    assert limit("sm_86", 20) == 40, "fewer warps share as many registers"
    assert [limit("gfx942", registers) for registers in (20, 64, 65, 129, 300)] == [64, 64, 72, 168, 512]
    assert [limit("gfx1100", registers) for registers in (20, 96, 97, 256)] == [96, 96, 120, 256]
