#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The calibration text that the package carries: the prose of docs/, which has the licence of this repository.

``scripts/calibration_text.py`` writes python/intarsia/quantization/calibration.txt. Results depend on it, so that it is
written again only on purpose: not whenever docs/ changes.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = ROOT / "python" / "intarsia" / "quantization" / "calibration.txt"


def prose(markdown: str) -> list[str]:
    """Return the paragraphs and points of a page, each as a line, without code, tables, headings and marks."""
    markdown = re.sub(r"^ *```.*?^ *```", "", markdown, flags=re.M | re.S)
    paragraphs = []
    for block in re.split(r"\n\s*\n|\n(?= *[-*] |\d+\. )", markdown):
        if block.lstrip().startswith(("#", "|", "<", "![")):
            continue
        line = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(block.split()))
        line = re.sub(r"^[-*] |\*\*|`", "", line).strip()
        if len(line) >= 80 and "|" not in line:
            paragraphs.append(line)
    return paragraphs


def main() -> None:
    """Write the text."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    TEXT.write_text("".join(f"{line}\n" for page in pages for line in prose(page.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
