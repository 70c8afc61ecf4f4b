# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/pictures: its models are right about new pictures, and the result is a PNG file of the size it should have."""

import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "pictures"


def test_demo(scratch):
    picture = scratch / "pictures.png"
    command = [sys.executable, FOLDER / "demo.py", f"--output={picture}", "--seed=3", "--count=48"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    shapes, pixels = map(float, re.findall(r"right: ([0-9.]+) %", run.stdout))
    # Guesses are right for 25 % of the shapes, and for 77 % of the pixels if all are ground.
    assert shapes > 85
    assert pixels > 93
    data = picture.read_bytes()
    assert data[:16] == b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (2 * 96 * 3 + 260, 4 * 96 * 3)
    size, kind = struct.unpack(">I4s", data[33:41])
    assert kind == b"IDAT"
    assert len(zlib.decompress(data[41 : 41 + size])) == height * (1 + 3 * width)
