#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies a model directory and changes its config.json. Standard library only.

change_config.py SOURCE DIRECTORY [KEY=JSON …]    KEY= removes; KEY may be a path: text_config.head_dim
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path


def main() -> None:
    source, directory = sys.argv[1:3]
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(source, directory)
    path = Path(directory) / "config.json"
    config = json.loads(path.read_text())
    for change in sys.argv[3:]:
        key, value = change.split("=", 1)
        *parents, last = key.split(".")
        section = config
        for parent in parents:
            section = section[parent]
        if value:
            section[last] = json.loads(value)
        else:
            del section[last]
    path.write_text(json.dumps(config, indent=2))


if __name__ == "__main__":
    main()
