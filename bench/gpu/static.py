#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the machine code of our GPU kernels with that of Triton for the same problem, without a GPU.

Both compile a problem for an architecture, Triton with the tile that PROBLEMS says, which is ours. What the main loop
consists of, what a block takes and the issue slots that the loop needs are printed side by side. On a build of `make
build`:

    python3 -m venv .venv-gpu && .venv-gpu/bin/pip install -r bench/gpu/requirements.txt
    .venv-gpu/bin/python bench/gpu/static.py [--architectures=sm_80,gfx942] [--problems=softmax] [--update-docs]

Triton's wheel has ptxas and nvdisasm, which both sides use; AMD's code is read by llvm-objdump-22.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import kernels
import triton
from listing import Instruction, Loop, main_loops, parse_amd, parse_sass
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks-gpu-static.md"
NVIDIA_BIN = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


@dataclass(frozen=True)
class Machine:
    """What a multiprocessor has: the CUDA C++ Programming Guide's and AMD's ISA documents' figures.

    `matrix_rate` and `fma_rate` are multiply-adds of a cycle and scheduler in f16 with sums in f32, and in f32: the
    datasheets' peaks over multiprocessors, clocks and the four schedulers (SIMDs) of each. `issue` is the cycles that a
    vector instruction keeps a scheduler: a wave of 64 takes four on CDNA's SIMDs of 16 lanes.
    """

    vendor: str
    triton: GPUTarget
    warp: int
    registers: int  # of 32 bits: NVIDIA's of a multiprocessor, AMD's of a lane and SIMD
    register_unit: int
    warps: int  # of a multiprocessor
    shared: int
    shared_of_block: int  # what the system takes of it for each block
    matrix_rate: int
    fma_rate: int
    issue: int


MACHINES = {
    "sm_80": Machine("nvidia", GPUTarget("cuda", 80, 32), 32, 65536, 256, 64, 164 << 10, 1024, 256, 16, 1),
    "sm_90a": Machine("nvidia", GPUTarget("cuda", 90, 32), 32, 65536, 256, 64, 228 << 10, 1024, 512, 32, 1),
    "gfx942": Machine("amd", GPUTarget("hip", "gfx942", 64), 64, 512, 8, 32, 64 << 10, 0, 256, 32, 4),
}


@dataclass(frozen=True)
class Tile:
    """What a block computes: rows, columns and depth of a step; for rows the elements of a pass."""

    rows: int
    columns: int
    depth: int
    threads: int
    stages: int


#: A tile, or one for each architecture.
Tiles = Tile | dict[str, Tile]


@dataclass
class Problem:
    """A problem: our program, and Triton's kernel with its arguments' types."""

    name: str
    program: str
    kernel: Callable[..., None]
    signature: dict[str, str]  # of the arguments that are no constants
    tiles: Tiles
    constants: Callable[[Tile], dict[str, object]]
    aligned: tuple[str, ...] = ()  # sizes that are multiples of 16
    flags: tuple[str, ...] = ()

    def tile(self, architecture: str) -> Tile:
        return self.tiles[architecture] if isinstance(self.tiles, dict) else self.tiles

    def is_rows(self) -> bool:
        """Return True for passes over rows, False for products of matrices."""
        return self.tile("sm_80").rows == 1


@dataclass
class Side:
    """What one compiler made of a problem."""

    loops: list[Loop]
    once: Loop  # instructions outside of loops
    registers: int
    spilled: int
    shared: int
    threads: int
    stages: int
    functions: int = 1


N = 4096


def quantized_program() -> str:
    """Return a linear layer whose weight is stored, so that it can be quantized; write_archive() writes it."""
    x, y, w = f"tensor<?x{N}xf16>", f"tensor<?x{N}xf32>", f"tensor<{N}x{N}xf32>"
    return f"""nn.archive @weights {{file = "w.safetensors"}}
    func.func @main(%x: {x} {{nn.name = "x", nn.sizes = ["rows", ""]}}) -> ({x} {{nn.name = "y"}}) {{
      %w = nn.weight @weights["w"] : {w}
      %wide = arith.extf %x : {x} to {y}
      %sums = nn.linear %wide, %w : ({y}, {w}) -> {y}
      %y = arith.truncf %sums : {y} to {x}
      return %y : {x}
    }}"""


def write_archive(path: Path) -> None:
    """Write a weight of zeros: code does not depend on its values."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [N, N], "data_offsets": [0, 4 * N * N]}}).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 4 * N * N)


def linear_program(element: str) -> str:
    x, w, y = f"tensor<?x{N}x{element}>", f"tensor<{N}x{N}x{element}>", f"tensor<?x{N}x{element}>"
    return f"""func.func @main(%x: {x} {{nn.name = "x", nn.sizes = ["rows", ""]}}, %w: {w} {{nn.name = "w"}})
        -> ({y} {{nn.name = "y"}}) {{
      %y = nn.linear %x, %w : ({x}, {w}) -> {y}
      return %y : {y}
    }}"""


#: Images of the convolution: height, width, channels of both sides.
IMAGE = (28, 28, 256)


def convolution_program() -> str:
    height, width, channels = IMAGE
    x, w = f"tensor<?x{height}x{width}x{channels}xf16>", f"tensor<{channels}x{9 * channels}xf16>"
    return f"""func.func @main(%x: {x} {{nn.name = "x", nn.sizes = ["batch", "", "", ""]}}, %w: {w} {{nn.name = "w"}})
        -> ({x} {{nn.name = "y"}}) {{
      %y = nn.conv %x, %w {{window = array<i64: 3, 3>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>}}
        : ({x}, {w}) -> {x}
      return %y : {x}
    }}"""


def rows_program(op: str, element: str = "f32") -> str:
    """Return a program that applies an op to rows, `%x`, with weights `%g`."""
    x, g = f"tensor<?x{N}x{element}>", f"tensor<{N}x{element}>"
    weights = f', %g: {g} {{nn.name = "g"}}' if "%g" in op else ""
    types = f"({x}, {g}) -> {x}" if "%g" in op else x
    return f"""func.func @main(%x: {x} {{nn.name = "x", nn.sizes = ["rows", ""]}}{weights}) -> ({x} {{nn.name = "y"}}) {{
      %y = {op} : {types}
      return %y : {x}
    }}"""


def attention_program() -> str:
    type_ = "tensor<?x?x16x128xf16>"
    inputs = ", ".join(f'%{name}: {type_} {{nn.name = "{name}", nn.sizes = ["batch", "n", "", ""]}}' for name in "qkv")
    return f"""func.func @main({inputs}) -> ({type_} {{nn.name = "y"}}) {{
      %y = nn.attention %q, %k, %v {{causal, scale = 0.08838835 : f32}} : ({type_}, {type_}, {type_}) -> {type_}
      return %y : {type_}
    }}"""


def tile_constants(tile: Tile) -> dict[str, object]:
    return {"tile_rows": tile.rows, "tile_columns": tile.columns, "tile_depth": tile.depth}


SIZES = {"rows": "i32", "columns": "i32", "depth": "i32"}
# Our tiles: lib/Target/GPU/MatrixLinearKernel.cpp, AttentionShapes.h, RowsKernel.cpp.
MATRIX_TILES = {
    "sm_80": Tile(128, 128, 32, 128, 4),
    "sm_90a": Tile(128, 128, 32, 128, 6),
    "gfx942": Tile(128, 128, 32, 256, 2),
}
# On Hopper three groups of four warps, of which two multiply; Triton's are as many as multiply
# (lib/Target/GPU/TensorCopyLinearKernel.cpp).
FLOAT_TILES = MATRIX_TILES | {"sm_90a": Tile(128, 256, 64, 256, 4)}
MULTIPLY_ADD_TILES = {
    "sm_80": Tile(128, 64, 16, 128, 4),
    "sm_90a": Tile(128, 64, 16, 128, 4),
    "gfx942": Tile(128, 128, 16, 256, 2),  # it has matrix instructions in f32
}
ATTENTION_TILES = {
    "sm_80": Tile(64, 64, 128, 128, 2),
    "sm_90a": Tile(128, 64, 128, 256, 2),
    "gfx942": Tile(128, 32, 128, 256, 1),
}
PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem(
            "linear f32",
            linear_program("f32"),
            kernels.linear,
            {"x": "*fp32", "w": "*fp32", "y": "*fp32", **SIZES},
            MULTIPLY_ADD_TILES,
            lambda tile: tile_constants(tile) | {"precision": "ieee"},
            ("columns", "depth"),
        ),
        Problem(
            "linear f16",
            linear_program("f16"),
            kernels.linear,
            {"x": "*fp16", "w": "*fp16", "y": "*fp16", **SIZES},
            FLOAT_TILES,
            lambda tile: tile_constants(tile) | {"precision": "ieee"},
            ("columns", "depth"),
        ),
        Problem(
            "convolution f16",
            convolution_program(),
            kernels.convolution,
            {"x": "*fp16", "w": "*fp16", "y": "*fp16", "rows": "i32"},
            MATRIX_TILES,
            lambda tile: (
                tile_constants(tile)
                | {"height": IMAGE[0], "width": IMAGE[1], "channels": IMAGE[2], "columns": IMAGE[2]}
            ),
        ),
        Problem(
            "linear W4A16",
            quantized_program(),
            kernels.linear_w4a16,
            {"x": "*fp16", "w": "*u8", "scales": "*fp16", "y": "*fp16", **SIZES},
            MATRIX_TILES,
            lambda tile: tile_constants(tile) | {"group": 128},
            ("columns", "depth"),
            ("--quantize=int4", "--quantize-activations=16"),
        ),
        Problem(
            "attention f16",
            attention_program(),
            kernels.attention,
            {"q": "*fp16", "k": "*fp16", "v": "*fp16", "y": "*fp16", "tokens": "i32", "heads": "i32", "scale": "fp32"},
            ATTENTION_TILES,
            lambda tile: {"tile_queries": tile.rows, "tile_keys": tile.columns, "features": tile.depth},
            ("heads",),
        ),
        Problem(
            "RMS norm f32",
            rows_program("nn.rms_norm %x, %g {epsilon = 1.0e-6 : f32}"),
            kernels.rms_norm,
            {"x": "*fp32", "g": "*fp32", "y": "*fp32", "n": "i32", "epsilon": "fp32"},
            Tile(1, 1024, 1, 256, 1),
            lambda tile: {"tile": tile.columns},
            ("n",),
        ),
        Problem(
            "softmax f32",
            rows_program("nn.softmax %x"),
            kernels.softmax,
            {"x": "*fp32", "y": "*fp32", "n": "i32"},
            Tile(1, 1024, 1, 256, 1),
            lambda tile: {"tile": tile.columns},
            ("n",),
        ),
    )
}


def listed(code: bytes, machine: Machine, folder: Path) -> dict[str, list[Instruction]]:
    """Disassemble machine code."""
    path = folder / "code"
    path.write_bytes(code)
    if machine.vendor == "nvidia":
        command = [str(NVIDIA_BIN / "nvdisasm"), "-c", str(path)]
        return parse_sass(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    program = shutil.which("llvm-objdump-22")
    if not program:
        sys.exit("llvm-objdump-22 is missing: install Debian's package llvm-22")
    return parse_amd(subprocess.run([program, "-d", str(path)], capture_output=True, text=True, check=True).stdout)


def weight(loops: list[Loop], machine: Machine) -> tuple[int, int, int]:
    """Order functions of one kernel: what matrix instructions multiply, multiply-adds, loads."""
    return (
        sum(
            multiply_adds(one, machine.warp)
            for loop in loops
            for one in loop.instructions
            if is_product(one, machine, "matrix")
        ),
        sum(loop.kinds["fma"] for loop in loops),
        sum(loop.loaded_bytes() for loop in loops),
    )


def outside(loops: list[Loop], instructions: list[Instruction], machine: Machine) -> Loop:
    """Return the instructions that are in none of the loops."""
    inside = {one.address for loop in loops for one in loop.instructions}
    return Loop([one for one in instructions if one.address not in inside], machine.vendor)


def ours(problem: Problem, architecture: str, build: Path, folder: Path) -> Side:
    """Compile a problem with our compiler; of several functions take the one with the heaviest main loop."""
    machine = MACHINES[architecture]
    kind = "cuda" if machine.vendor == "nvidia" else "hip"
    program, artifact, why = folder / "m.mlir", folder / "m.itx", folder / "why.json"
    program.write_text(problem.program)
    if "nn.archive" in problem.program:
        write_archive(folder / "w.safetensors")
    environment = os.environ | {"PATH": f"{NVIDIA_BIN}:{os.environ['PATH']}"}  # one ptxas for both
    command = [build / "bin" / "intarsia-compile", program, "-o", artifact, f"--target={kind}:{architecture}"]
    command += [f"--explain={why}", *problem.flags, *(["--require-cubin"] if kind == "cuda" else [])]
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{problem.name} for {architecture}: {done.stderr}")
    code = folder / "code.ours"
    subprocess.run([str(build / "bin" / "intarsia-run"), str(artifact), f"--dump-code={code}"], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    suffix = "cubin" if kind == "cuda" else "hsaco"
    functions = listed((code / f"{kind}.{architecture}.{suffix}").read_bytes(), machine, folder)
    facts = {one["function"]: one for one in json.loads(why.read_text())["functions"]}
    loops = {
        name: main_loops(instructions, machine.vendor) for name, instructions in functions.items() if name in facts
    }
    # Rows have one function, whose passes may be unrolled.
    name = max(loops, key=lambda one: weight(loops[one] or [Loop(functions[one], machine.vendor)], machine))
    fact = facts[name]
    shared = int(fact["shared_bytes"]) if str(fact["shared_bytes"]).isdigit() else 0
    element = 2 if "f16" in problem.name or "A16" in problem.name else 4
    tile = problem.tile(architecture)
    step = (tile.rows + tile.columns) * tile.depth * element
    is_tile = loops[name] and (loops[name][0].kinds["shared"] or loops[name][0].kinds["matrix"])
    stages = max(1, shared // step) if is_tile else 1
    once = outside(loops[name], functions[name], machine)
    return Side(
        loops[name], once, fact["registers"], fact["spilled_bytes"], shared, fact["threads"], stages, len(facts)
    )


def theirs(problem: Problem, architecture: str, folder: Path) -> Side:
    """Compile a problem with Triton."""
    machine, tile = MACHINES[architecture], problem.tile(architecture)
    constants = problem.constants(tile)
    names = problem.kernel.arg_names
    signature = {name: problem.signature.get(name, "constexpr") for name in names}
    pointers = [name for name, kind in problem.signature.items() if kind.startswith("*")]
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in (*pointers, *problem.aligned)}
    source = ASTSource(problem.kernel, signature=signature, constexprs=constants, attrs=aligned)
    options = {"num_warps": tile.threads // machine.warp, "num_stages": tile.stages}
    compiled = triton.compile(source, target=machine.triton, options=options)
    code = compiled.asm["cubin" if machine.vendor == "nvidia" else "hsaco"]
    (instructions,) = [one for name, one in listed(code, machine, folder).items() if name == compiled.metadata.name]
    if machine.vendor == "nvidia":
        usage = subprocess.run([str(NVIDIA_BIN / "cuobjdump"), "-res-usage", str(folder / "code")], capture_output=True,
                               text=True, check=True).stdout  # fmt: skip
        registers, stack = (int(re.search(rf"{what}:(\d+)", usage)[1]) for what in ("REG", "STACK"))
    else:
        text = compiled.asm["amdgcn"]
        registers = int(re.search(r"\.vgpr_count:\s+(\d+)", text)[1])
        stack = 4 * int(re.search(r"\.vgpr_spill_count:\s+(\d+)", text)[1])
    threads = options["num_warps"] * machine.warp
    loops = main_loops(instructions, machine.vendor)
    once = outside(loops, instructions, machine)
    return Side(loops, once, registers, stack, compiled.metadata.shared, threads, tile.stages)


def multiply_adds(one: Instruction, warp: int) -> int:
    """Return the multiply-adds of a warp in a matrix or fused multiply-add instruction."""
    if shape := re.match(r"[HIQ]GMMA\.(\d+)x(\d+)x(\d+)", one.name):
        m, n, k = map(int, shape.groups())
        return m * n * k // 4  # of four warps together
    if shape := re.match(r"[HIQ]MMA\.(16)(8)(\d+)", one.name):
        return 16 * 8 * int(shape[3])
    if shape := re.match(r"v_\w*?_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_", one.name):
        m, n, k, blocks = (int(part or 1) for part in shape.groups())
        return m * n * k * blocks
    return warp * (2 if re.match(r"HFMA2|FFMA2|v_pk_|v_dual_", one.name) else 1)


@dataclass
class Measures:
    """The figures of one side."""

    counts: dict[str, int]
    per_matrix: float | None  # other instructions for each matrix instruction
    cycles: float | None  # of a scheduler: for 2048 multiply-adds of a warp, or for 32 elements of a row
    warps: int  # on a multiprocessor
    side: Side = field(repr=False)


def occupancy(side: Side, machine: Machine) -> int:
    """Return the warps that fit on a multiprocessor."""
    warps = -(-side.threads // machine.warp)
    if machine.vendor == "nvidia":
        of_warp = -(-side.registers * 32 // machine.register_unit) * machine.register_unit
        by_registers = machine.registers // of_warp // 4 * 4
    else:
        by_registers = 4 * min(
            8, machine.registers // (-(-side.registers // machine.register_unit) * machine.register_unit)
        )
    blocks = min(machine.warps, by_registers) // warps
    if side.shared:
        blocks = min(blocks, machine.shared // (side.shared + machine.shared_of_block))
    return blocks * warps


def measure(side: Side, machine: Machine, is_rows: bool) -> Measures:
    parts = [*side.loops, side.once] if is_rows else side.loops
    counts = {kind: sum(loop.kinds[kind] for loop in parts) for kind in ("matrix", "fma", "shared", "global", "other")}
    total = sum(len(loop.instructions) for loop in side.loops)
    everything = [one for loop in side.loops for one in loop.instructions]
    pipe = "matrix" if counts["matrix"] else "fma"
    products = sum(
        multiply_adds(one, machine.warp)
        for loop in side.loops
        for one in loop.instructions
        if is_product(one, machine, pipe)
    )
    slots = sum(slots_of(loop, machine) for loop in side.loops)
    # Matrix instructions of four warps read shared memory themselves.
    is_tile = counts["matrix"] or (any(loop.kinds["shared"] for loop in side.loops) and counts["fma"] >= 64)
    if is_tile:
        # Matrices of f32 are multiplied at the rate of fused multiply-adds (AMD, datasheet of the MI300X).
        of_f32 = any(re.match(r"v_mfma_f32_.*_f32", one.name) for one in everything)
        rate = machine.matrix_rate if pipe == "matrix" and not of_f32 else machine.fma_rate
        cycles = max(slots, products / rate) / products * 2048
    elif not is_rows:
        cycles = None  # a loop over single products
    else:
        cycles = sum(slots_of(loop, machine) / (loop.row_bytes() / 4) for loop in side.loops) * 32 / machine.warp
        cycles += slots_of(side.once, machine) * 32 / N
    per_matrix = (total - counts[pipe]) / counts[pipe] if is_tile else None
    return Measures(counts, per_matrix, cycles, occupancy(side, machine), side)


def slots_of(loop: Loop, machine: Machine) -> int:
    """Return the cycles that a scheduler needs to issue a loop's instructions once.

    Matrix instructions take one slot, and then their own pipe; AMD's scalar and memory instructions go beside vector ones.
    """
    vector = sum(1 for one in loop.instructions if machine.vendor == "nvidia" or one.name.startswith("v_"))
    matrix = loop.kinds["matrix"]
    return max(len(loop.instructions), (vector - matrix) * machine.issue + matrix)


def is_product(one: Instruction, machine: Machine, pipe: str) -> bool:
    return Loop([one], machine.vendor).kinds[pipe] == 1


def cycles_text(figures: Measures) -> str:
    return "" if figures.cycles is None else f"{figures.cycles:.1f}"


HEAD = (
    "| problem | compiler | matrix | multiply-add | shared | global | other | others per matrix or multiply-add | registers |"
    " spilled | shared KiB | stages | warps | cycles |\n|---|---|" + "---:|" * 12
)


def row(name: str, who: str, figures: Measures) -> str:
    side, counts = figures.side, figures.counts
    per = f"{figures.per_matrix:.2f}" if figures.per_matrix is not None else ""
    cells = [name, who, *(counts[kind] for kind in ("matrix", "fma", "shared", "global", "other")), per, side.registers]
    cells += [side.spilled, f"{side.shared / 1024:.1f}", side.stages, figures.warps, cycles_text(figures)]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def report(architectures: list[str], problems: list[str], build: Path) -> str:
    """Return the tables as Markdown."""
    parts = []
    for architecture in architectures:
        machine = MACHINES[architecture]
        lines = [f"## {architecture}\n", HEAD]
        remarks = []
        for name in problems:
            with tempfile.TemporaryDirectory() as text:
                folder = Path(text)
                problem = PROBLEMS[name]
                mine = measure(ours(problem, architecture, build, folder), machine, problem.is_rows())
                peer = measure(theirs(problem, architecture, folder), machine, problem.is_rows())
            print(f"{architecture} {name}: {cycles_text(mine) or '?'} and {cycles_text(peer)} cycles", file=sys.stderr)
            lines += [row(name, "Intarsia", mine), row("", f"Triton {triton.__version__}", peer)]
            if mine.side.threads != peer.side.threads:
                remarks.append(
                    f"{name}: a block of ours has {mine.side.threads} threads, Triton's {peer.side.threads}."
                )
            if mine.side.functions > 1:
                remarks.append(f"{name}: the heaviest of {mine.side.functions} functions of ours.")
        parts.append("\n".join(lines) + ("\n\n" + " ".join(remarks) if remarks else "") + "\n")
    return "\n".join(parts)


INTRODUCTION = f"""# Machine code of GPU kernels beside Triton's

Nothing was run for this page: both compilers made machine code for the same problem, and the main loop was read from it
(`bench/gpu/static.py`; a loop is found by the branch at its end). Triton's kernel has the tile and the threads of ours.
Rows are as many as the call says; features are {N}, which ours knows and of which Triton knows that they are a multiple of
16. The convolution has windows of 3x3, zeros around images of 28x28, and 256 channels on both sides.

- *matrix*, *multiply-add*, *shared*, *global*, *other*: instructions of one turn of the main loop, by the memory or the
  unit that they use. Of kernels that pass over rows, those of the whole function.
- *others per matrix or multiply-add*: all instructions that are none, over matrix instructions, or over fused
  multiply-adds where there are none of those.
- *warps*: those that fit on a multiprocessor at once, by registers and shared memory.
- *cycles*: a lower bound of the cycles of one scheduler, by issue slots and by the rate of the unit that multiplies. Of
  matrix multiplications for 2048 multiply-adds of a warp, of rows for 32 elements: all passes, and what comes before,
  between and after them.

Instructions of the two sides may multiply matrices of different sizes: on gfx942 ours are 16x16x16, half of the
multiply-adds of Triton's 32x32x8. *cycles* does not depend on it.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architectures", default=",".join(MACHINES), help="of " + ", ".join(MACHINES))
    parser.add_argument("--problems", default=",".join(PROBLEMS), help="of " + ", ".join(PROBLEMS))
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev", help="folder of the build")
    parser.add_argument("--update-docs", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    given = parser.parse_args()
    tables = report(given.architectures.split(","), given.problems.split(","), given.build)
    print(tables)
    if given.update_docs:
        PAGE.write_text(INTRODUCTION + tables)


if __name__ == "__main__":
    main()
