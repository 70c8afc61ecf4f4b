# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damaged safetensors files: a clear message, and nothing half written."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from refusals import DENSE, LAYER, refused, write_model


@pytest.fixture
def model(tmp_path) -> Path:
    return write_model(tmp_path / "model")


def read_archive(model: Path) -> tuple[dict, bytes]:
    data = (model / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_archive(model: Path, header: dict, data: bytes) -> None:
    text = json.dumps(header).encode()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize("kept", [0, 7, 8, 100, -1, -1000])
def test_truncated_archive(tools, model, kept):
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    refused(tools, model, "model.safetensors")


@pytest.mark.parametrize("length", [10**7, 2**63, 2**64 - 8, 0, 3])
def test_header_length(tools, model, length):
    path = model / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])
    refused(tools, model, "model.safetensors")


def test_overlapping_tensors(tools, model):
    header, data = read_archive(model)
    other = LAYER + "output.dense.weight"
    header[other]["data_offsets"] = header[DENSE]["data_offsets"]
    write_archive(model, header, data)
    refused(tools, model, "model.safetensors", "dense.weight")


@pytest.mark.parametrize(
    "offsets",
    [[0, 2**62], [-4, 8188], [8192, 0], [2**64 - 8192, 2**64], [0, 100], [0.5, 8192.5], ["0", "8192"], [0], None],
)
def test_offsets_out_of_bounds(tools, model, offsets):
    header, data = read_archive(model)
    header[DENSE]["data_offsets"] = offsets
    write_archive(model, header, data)
    refused(tools, model, "model.safetensors", DENSE)


@pytest.mark.parametrize("shape", [[2**32, 2**32], [-64, -32], [64, 33], "64x32", [64.0, 32.5]])
def test_archive_shape(tools, model, shape):
    header, data = read_archive(model)
    header[DENSE]["shape"] = shape
    write_archive(model, header, data)
    refused(tools, model, DENSE)


def test_archive_dtype(tools, model):
    header, data = read_archive(model)
    header[DENSE]["dtype"] = "Q3"
    write_archive(model, header, data)
    refused(tools, model, DENSE, "Q3")


@pytest.mark.parametrize("text", [b"{", b"[]", b"null", b'{"a": 1}', b'{"a": {"dtype": "F32"}}', b"\xff\xfe{}"])
def test_archive_header_that_is_no_header(tools, model, text):
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    refused(tools, model, "model.safetensors")
