#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes tensors of model.safetensors in a model directory. Standard library only.

change_tensors.py DIRECTORY CHANGE …
    NAME=DTYPE:2x3:BYTE    a tensor whose bytes are all BYTE
    powers:SUFFIX=DTYPE    scales in BF16 become the power of two below, as F32 or F8_E8M0
"""

from __future__ import annotations

import json
import math
import struct
import sys
from pathlib import Path

BYTES = {"I8": 1, "U8": 1, "F8_E8M0": 1, "F16": 2, "BF16": 2, "I32": 4, "F32": 4}


def powers(data: bytes, dtype: str) -> bytes:
    exponents = [value >> 7 & 0xFF for (value,) in struct.iter_unpack("<H", data)]  # of BF16, with the bias of E8M0
    return bytes(exponents) if dtype == "F8_E8M0" else b"".join(struct.pack("<I", each << 23) for each in exponents)


def main() -> None:
    path = Path(sys.argv[1]) / "model.safetensors"
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    data = content[8 + length :]
    tensors = {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
        if name != "__metadata__"
    }
    for change in sys.argv[2:]:
        name, value = change.split("=")
        if name.startswith("powers:"):
            for key, (_, shape, stored) in tensors.items():
                if key.endswith(name.removeprefix("powers:")):
                    tensors[key] = (value, shape, powers(stored, value))
        else:
            dtype, sizes, byte = value.split(":")
            shape = [int(size) for size in sizes.split("x")]
            tensors[name] = (dtype, shape, bytes([int(byte)]) * (BYTES[dtype] * math.prod(shape)))
    entries, end = {}, 0
    for name, (dtype, shape, stored) in tensors.items():
        begin, end = end, end + len(stored)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(stored for _, _, stored in tensors.values()))


if __name__ == "__main__":
    main()
