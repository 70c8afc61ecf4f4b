# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the files that an artifact's manifest lists, as the package safetensors reads them from its weights."""

import json
import re
import sys
from pathlib import Path

from safetensors.numpy import load_file

tensors = load_file(sys.argv[2])
manifest = re.search(rb'{"format":1,.*?"functions":', Path(sys.argv[1]).read_bytes(), re.DOTALL)[0]
for file in json.loads(manifest.removesuffix(b',"functions":') + b"}")["files"]:
    print(f"{file['name']}: {tensors[file['tensor']].tobytes().decode()}")
