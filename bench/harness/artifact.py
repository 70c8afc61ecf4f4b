# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts of an artifact and of the packed weights beside it."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

EXECUTABLE = 4  # SHF_EXECINSTR
NO_BITS = 8  # SHT_NOBITS


@dataclass(frozen=True)
class Sizes:
    """Bytes of an artifact without its weights: the ELF file, its machine code, its manifest."""

    file: int
    code: int
    manifest: int


def measure(path: Path) -> Sizes:
    """Reads the section table of an artifact (ELF, 64 bit, little endian)."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is no 64-bit little-endian ELF file")
    table, count, names_index = (
        struct.unpack_from("<Q", data, 40)[0],
        struct.unpack_from("<H", data, 60)[0],
        struct.unpack_from("<H", data, 62)[0],
    )
    # Name, type, flags, address, offset, size of each section.
    sections = [struct.unpack_from("<IIQQQQ", data, table + 64 * index) for index in range(count)]
    names = sections[names_index][4]
    code = manifest = 0
    end = table + 64 * count
    for name, kind, flags, _, offset, size in sections:
        start = names + name
        text = data[start : data.index(b"\0", start)].decode()
        if flags & EXECUTABLE:
            code += size
        if text == ".itx.manifest":
            manifest = size
        if kind != NO_BITS:
            end = max(end, offset + size)
    return Sizes(file=end, code=code, manifest=manifest)


def stored_bytes(archive: Path) -> dict[str, int]:
    """Returns the bytes of each tensor in a packed archive (safetensors), by its name."""
    with archive.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {name: entry["data_offsets"][1] - entry["data_offsets"][0] for name, entry in header.items()}
