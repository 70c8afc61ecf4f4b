# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`intarsia quantize --calibration=builtin`: the text that the package carries."""

from __future__ import annotations

from pathlib import Path

import pytest
from intarsia import quantization
from intarsia.__main__ import main
from intarsia.quantization import overlap, quantize

MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"
TEXT = Path(quantization.__file__).with_name("calibration.txt")


def test_the_text_is_prose():
    """Enough of it for the features of small models, without code and tables."""
    text = TEXT.read_text(encoding="utf-8")
    assert len(text.split()) > 12_000
    assert not [mark for mark in ("```", "|", "](", "**") if mark in text]


def test_models_know_the_text(tmp_path, capsys):
    """What was calibrated with it has passages of it, and of no other text."""
    command = [
        "quantize",
        str(MODEL),
        "-o",
        str(tmp_path / "q"),
        "--calibration=builtin",
        "--window=64",
        "--tokens=2048",
    ]
    assert main(command) == 0
    capsys.readouterr()
    ids = quantize.encode_documents(MODEL, [TEXT.read_text(encoding="utf-8")])
    description = (tmp_path / "q" / overlap.FILE).read_bytes()
    # A sample of passages estimates the share; those that lie across two windows are in none.
    assert overlap.share(ids[:2048], description) > 0.5
    other = quantize.encode_documents(MODEL, (MODEL / "heldout.txt").read_text().split("\n"))
    assert overlap.share(other, description) == 0


@pytest.mark.parametrize("name", ["./builtin", "builtin.txt"])
def test_a_file_of_that_name_is_the_users(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    assert main(["quantize", str(MODEL), "-o", "q", f"--calibration={name}"]) != 0
    assert "builtin" in capsys.readouterr().err
