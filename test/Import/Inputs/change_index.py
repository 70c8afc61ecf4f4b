#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes which file the index of a model directory names for tensors. Standard library only.

change_index.py DIRECTORY KEY=FILE …    KEY= removes an entry; KEY "*" stands for all
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    path = Path(sys.argv[1]) / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    files = index["weight_map"]
    for change in sys.argv[2:]:
        key, file = change.split("=")
        for name in list(files) if key == "*" else [key]:
            if file:
                files[name] = file
            else:
                del files[name]
    path.write_text(json.dumps(index))


if __name__ == "__main__":
    main()
