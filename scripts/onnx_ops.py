#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of ONNX ops in docs/onnx.md, as the compiler has them.

``scripts/onnx_ops.py`` writes it with the compiler of build/dev, or of INTARSIA_BUILD_DIR.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "onnx.md"
BEGIN, END = "<!-- ops: scripts/onnx_ops.py writes this -->\n", "<!-- end of ops -->\n"


def table(compiler: Path) -> str:
    """Return the table: a row for each domain and first letter, each op with the version that it is imported from."""
    done = subprocess.run([compiler, "--list-ops", "--json=-"], capture_output=True, check=True, text=True)
    ops = [(op["domain"] or "ai.onnx", op["op"], op["version"]) for op in json.loads(done.stdout)["ops"]]
    counts = ", ".join(
        f"{len(list(group))} of `{domain}`" for domain, group in itertools.groupby(ops, key=lambda op: op[0])
    )
    rows = [
        f"| `{domain}` | " + ", ".join(f"{name} {version}" for _, name, version in group) + " |\n"
        for (domain, _), group in itertools.groupby(ops, key=lambda op: (op[0], op[1][0]))
    ]
    return (
        f"{counts}, each with the version of the operator set that it is imported from:\n\n"
        f"| domain | ops |\n|---|---|\n{''.join(rows)}"
    )


def page(text: str, compiler: Path) -> str:
    """Return the page with a new table."""
    return re.sub(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}{table(compiler)}{END}", text, flags=re.DOTALL
    )


def main() -> None:
    """Write the table."""
    build = Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev"))
    PAGE.write_text(page(PAGE.read_text(), build / "bin" / "intarsia-compile"))
    print(f"==> {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
