#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes lib/Formats/Codebooks.h: the codebooks of ggml's types IQ1, IQ2 and IQ3. Needs: pip install gguf."""

from pathlib import Path

import numpy as np
from gguf import quants

OUTPUT = Path(__file__).resolve().parents[1] / "lib" / "Formats" / "Codebooks.h"
TABLES = [
    ("iq1", quants.IQ1_S, "iq1_s and iq1_m: 8 levels of two bits: -1, 0, 1"),
    ("iq2_xxs", quants.IQ2_XXS, "8 levels of two bits, as all of iq2: 8, 25, 43"),
    ("iq2_xs", quants.IQ2_XS, ""),
    ("iq2_s", quants.IQ2_S, ""),
    ("iq3_xxs", quants.IQ3_XXS, "4 levels in four bits each: 4, 12, 20, 28, 36, 44, 52, 62"),
    ("iq3_s", quants.IQ3_S, "4 levels in four bits each: 1, 3, 5, 7, 9, 11, 13, 15"),
]
HEAD = """\
//===- Codebooks.h - Codebooks of ggml's types IQ1, IQ2 and IQ3 ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Written by scripts/make_codebooks.py from the tables of the `gguf` package, which are those of ggml-common.h (MIT
// licence, Copyright (c) 2023-2026 The ggml authors). Each number is a vector of levels, the first in the lowest bits.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_CODEBOOKS_H
#define INTARSIA_LIB_FORMATS_CODEBOOKS_H

#include <cstdint>

// clang-format off
namespace intarsia::gguf::codebooks {
"""
TAIL = """
} // namespace intarsia::gguf::codebooks
// clang-format on

#endif
"""


def main() -> None:
    """Write the header."""
    parts = [HEAD]
    for name, quantization, comment in TABLES:
        numbers = np.frombuffer(bytes.fromhex(quantization.grid_hex.decode()), "<u2")
        assert len(numbers) == quantization.grid_shape[0]
        lines = [", ".join(map(str, numbers[at : at + 16])) for at in range(0, len(numbers), 16)]
        body = ",\n    ".join(lines)
        note = f"/// {comment}.\n" if comment else ""
        parts.append(f"\n{note}inline constexpr uint16_t {name}[{len(numbers)}] = {{\n    {body}}};\n")
    OUTPUT.write_text("".join(parts) + TAIL)


if __name__ == "__main__":
    main()
