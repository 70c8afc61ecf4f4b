# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Machine code of GPUs as lists of instructions: loops in it, and what a loop consists of."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

#: Kinds of instructions by the beginning of their names, the first that fits: of NVIDIA's machine code (nvdisasm), and
#: of AMD's (llvm-objdump).
KINDS = {
    "nvidia": (
        ("matrix", r"HMMA|IMMA|QMMA|OMMA|DMMA|HGMMA|IGMMA|QGMMA|UTC\w*MMA"),
        ("fma", r"FFMA|HFMA2|FFMA2"),
        ("shared", r"LDS|STS|ATOMS|LDSM|STSM"),
        ("global", r"LDG|STG|LDGSTS|RED|ATOMG|ATOM\b|LD\.|ST\.|UTMALDG|UBLKCP|LDTM"),
        ("local", r"LDL|STL"),
    ),
    "amd": (
        ("matrix", r"v_mfma|v_smfmac|v_wmma|v_swmmac"),
        ("fma", r"v_(pk_|dual_)?fma|v_(pk_|dual_)?fmac|v_dot"),
        ("shared", r"ds_(?!bpermute|permute|swizzle)"),
        ("local", r"scratch_"),
        ("global", r"global_|buffer_|flat_"),
    ),
}


@dataclass(frozen=True)
class Instruction:
    """One instruction; `target` is the address that it branches to, if it does."""

    address: int
    name: str
    text: str
    target: int | None = None

    def bytes_moved(self) -> int:
        """Return the bytes that a thread loads from or stores to memory, 4 where the name does not say it."""
        if amd := re.search(r"_(?:dwordx(\d)|dword\b|b(\d+)|(?:u|i)(8|16)|[us]?(short|byte))", self.name):
            words, bits, small, old = amd.groups()
            width = 4 * int(words) if words else int(bits) // 8 if bits else int(small) // 8 if small else 4
            width = {"short": 2, "byte": 1}.get(old or "", width)
            return width * (2 if re.match(r"ds_(read|load|write|store)2", self.name) else 1)
        if wide := re.search(r"\.(128|64|U16|S16|U8|S8)\b", self.name):
            return {"128": 16, "64": 8, "U16": 2, "S16": 2}.get(wide[1], 1)
        return 4


@dataclass
class Loop:
    """The instructions between a branch and the earlier address that it goes to."""

    instructions: list[Instruction]
    vendor: str
    kinds: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.kinds = Counter(kind_of(one, self.vendor) for one in self.instructions)

    def named(self, pattern: str) -> list[Instruction]:
        return [one for one in self.instructions if re.match(pattern, one.name)]

    def loaded_bytes(self) -> int:
        """Return the bytes that a thread loads from global memory, directly or to shared memory."""
        loads = r"LDG|UTMALDG" if self.vendor == "nvidia" else r"(global|buffer|flat)_load"
        return sum(one.bytes_moved() for one in self.named(loads))

    def row_bytes(self) -> int:
        """Return the bytes of a row that a thread passes over: those that it stores, or if it stores none, loads."""
        stores = r"STG" if self.vendor == "nvidia" else r"(global|buffer|flat)_store"
        return sum(one.bytes_moved() for one in self.named(stores)) or self.loaded_bytes()


def kind_of(instruction: Instruction, vendor: str) -> str:
    """Return matrix, fma, shared, global, local or other."""
    return next((kind for kind, names in KINDS[vendor] if re.match(names, instruction.name)), "other")


def parse_sass(text: str) -> dict[str, list[Instruction]]:
    """Read what `nvdisasm -c` prints: the instructions of each function."""
    functions: dict[str, list[Instruction]] = {}
    current: list[tuple[int, str, str, str | None]] = []
    labels: dict[str, int] = {}
    waiting: list[str] = []
    name = ""

    def finish() -> None:
        if name:
            functions[name] = [
                Instruction(address, operation, line, labels.get(label) if label else None)
                for address, operation, line, label in current
            ]

    for line in text.splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.([\w$]+)", line):
            finish()
            name, current, labels, waiting = section[1], [], {}, []
        elif label := re.match(r"(\.[\w$]+|\$[\w$]+):", line.strip()):
            waiting.append(label[1])
        elif found := re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:\{\s*)?((?:@!?U?P\w+\s+)?)([A-Z][\w.]*)(.*)", line):
            address = int(found[1], 16)
            labels |= {one: address for one in waiting}
            waiting = []
            branch = re.search(r"`\(([^)]+)\)", found[4]) if found[3].startswith(("BRA", "JMP")) else None
            current.append((address, found[3], (found[2] + found[3] + found[4]).strip(), branch and branch[1]))
    finish()
    return functions


def parse_amd(text: str) -> dict[str, list[Instruction]]:
    """Read what `llvm-objdump -d` prints: the instructions of each function."""
    functions: dict[str, list[Instruction]] = {}
    begin, name = 0, ""
    for line in text.splitlines():
        if head := re.match(r"([0-9a-f]{16}) <([\w$.]+)>:", line):
            begin, name = int(head[1], 16), head[2]
            functions[name] = []
        elif name and (
            found := re.match(
                r"\s+([a-z]\w+)(.*?)//\s*([0-9A-F]+):[0-9A-F ]+(?:<[^>+]+\+0x([0-9a-f]+)>|<[^>]+>)?", line
            )
        ):
            operation, rest, address, offset = found.groups()
            branches = operation.startswith(("s_branch", "s_cbranch"))
            target = (begin + int(offset, 16) if offset else begin) if branches else None
            functions[name].append(Instruction(int(address, 16), operation, (operation + rest).strip(), target))
    return functions


def loops_of(instructions: list[Instruction], vendor: str) -> list[Loop]:
    """Return the loops of a function that hold no other loop, in the order of their addresses.

    Several branches to one address end one loop, which reaches to the last of them.
    """
    ends: dict[int, int] = {}
    for one in instructions:
        if one.target is not None and one.target < one.address:
            ends[one.target] = max(ends.get(one.target, 0), one.address)
    ranges = sorted(ends.items())
    inner = [
        (begin, end)
        for begin, end in ranges
        if not any((b, e) != (begin, end) and begin <= b and e <= end for b, e in ranges)
    ]
    return [Loop([one for one in instructions if b <= one.address <= e], vendor) for b, e in inner]


def main_loops(instructions: list[Instruction], vendor: str) -> list[Loop]:
    """Return the loops in which a kernel spends its time.

    That is the loop with most matrix instructions; without any, the one with most fused multiply-adds if it reads shared
    memory (a matrix multiplication); else all loops that read or write global memory (passes over a row).
    """
    loops = loops_of(instructions, vendor)
    if matrix := [loop for loop in loops if loop.kinds["matrix"]]:
        return [max(matrix, key=lambda loop: loop.kinds["matrix"])]
    tiles = [loop for loop in loops if loop.kinds["shared"] and loop.kinds["fma"] >= 64]
    if tiles:
        return [max(tiles, key=lambda loop: loop.kinds["fma"])]
    return [loop for loop in loops if loop.row_bytes()]
