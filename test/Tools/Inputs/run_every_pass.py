#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs each pass and each phase of Intarsia on the pieces of a file. Standard library only.

run_every_pass.py TOOL FILE    A pass may refuse a piece; it may not end the tool.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

PHASES = ("plan", "quantize", "partition", "fuse", "lower", "target", "reference", "wafer", "intarsia")


def passes(tool: str) -> list[str]:
    text = subprocess.run([tool, "--help"], capture_output=True, text=True, check=True).stdout
    return sorted(set(re.findall(rf"^ +--((?:{'|'.join(PHASES)})-[\w-]+)\b", text, flags=re.MULTILINE)))


def main() -> None:
    tool, file = sys.argv[1:]
    names = passes(tool)

    def run(name: str) -> tuple[str, int, str]:
        command = [tool, file, f"--{name}", "--split-input-file", "--mlir-disable-threading", "-o", os.devnull]
        result = subprocess.run(command, capture_output=True, text=True)
        return name, result.returncode, result.stderr

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ended = [(name, code, text) for name, code, text in pool.map(run, names) if code not in (0, 1)]
    for name, code, text in ended:
        print(f"--{name}: exit code {code}\n{text[-2000:]}")
    print(f"{len(names)} passes, {len(ended)} ended the tool")
    sys.exit(bool(ended))


if __name__ == "__main__":
    main()
